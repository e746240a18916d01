"""The commands of the command line, one file each."""

from heedful.commands.explain import explain
from heedful.commands.methods import methods
from heedful.commands.tree import tree

__all__ = ["explain", "methods", "tree"]
