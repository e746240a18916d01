"""The blocks of a figure: each knows its size in inches and paints itself on a sheet. Needs matplotlib."""

from heedful.drawing.bars import Bars
from heedful.drawing.block import Block
from heedful.drawing.branches import Branches
from heedful.drawing.maps import Maps
from heedful.drawing.struck import Struck

__all__ = ["Bars", "Block", "Branches", "Maps", "Struck"]
