"""The papers' networks; each can be the model of a Classifier."""

from heedful.nets.base import Net, Output
from heedful.nets.hierarchical import Hierarchical
from heedful.nets.multihead import MultiHead, MultiHeadShape, sinusoidal
from heedful.nets.pair import Pair
from heedful.nets.single import Single
from heedful.nets.transformer import Transformer

NETS: dict[str, type[Net]] = {net.shape.model_type: net for net in (MultiHead, Single, Pair, Hierarchical, Transformer)}

__all__ = [
    "NETS",
    "Hierarchical",
    "MultiHead",
    "Net",
    "Output",
    "Pair",
    "MultiHeadShape",
    "Single",
    "Transformer",
    "sinusoidal",
]
