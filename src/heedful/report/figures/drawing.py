"""The blocks of a figure: each knows its size in inches and paints itself on a sheet. Needs matplotlib."""

from heedful.report.figures.bars import Bars
from heedful.report.figures.block import Block
from heedful.report.figures.counterfactual import Struck
from heedful.report.figures.maps import Maps
from heedful.report.figures.tree import Branches

__all__ = ["Bars", "Block", "Branches", "Maps", "Struck"]
