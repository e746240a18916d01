"""Reporting: a run as a page, as tables and as figures. Needs no torch, and no matplotlib."""
