"""Networks of the papers, given by their matrices; each answers as the model of a Classifier."""

from heedful.nets.multihead import MultiHead, Shape, sinusoidal

__all__ = ["MultiHead", "Shape", "sinusoidal"]
