"""Explanations made by other programs."""
