"""The nouns, settings, files and random numbers. Knows no model."""
