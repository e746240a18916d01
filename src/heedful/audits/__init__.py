"""A run over a data set: from texts to findings, a summary, a verdict and a ranking."""
