"""Adversary: the most different attention that keeps the output. Pure: numbers in, numbers out.

Distances between attentions are "jsd" (natural logarithm) or "tvd", the mean over heads.
"""

from heedful.maths.adversary.problems import (
    Distance,
    Limits,
    Polytope,
    Problem,
    apart,
    corners,
    held,
    limits,
    null_dimension,
    polytope,
)
from heedful.maths.adversary.searching import Farthest, Search, climb, farthest, optimise
from heedful.maths.adversary.solving import Bracket, Witness, bracket, envelope, exact, tvd_bound

__all__ = [
    "Bracket",
    "Distance",
    "Farthest",
    "Limits",
    "Polytope",
    "Problem",
    "Search",
    "Witness",
    "apart",
    "bracket",
    "climb",
    "corners",
    "envelope",
    "exact",
    "farthest",
    "held",
    "limits",
    "null_dimension",
    "optimise",
    "polytope",
    "tvd_bound",
]
