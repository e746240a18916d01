"""Training the papers' networks."""
