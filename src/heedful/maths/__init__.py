"""Formulas from the papers: arrays in, numbers out."""
