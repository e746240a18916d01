"""Errors, as a tree.

HeedfulError                the parent of all; the command line prints it as one sentence and exits with 2
├── BadInput                a text, label, method, file or model that the user can correct
└── Unsupported             the model lacks something that this method or check needs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class HeedfulError(Exception):
    """Parent of every error that heedful raises on purpose."""


class BadInput(HeedfulError):  # noqa: N818
    """An argument is not usable; the message says what was found, what was expected, and what to do."""


class Unsupported(HeedfulError):  # noqa: N818
    """The model does not support this. `model` is its name, or empty where the reason contains it."""

    def __init__(self, reason: str, model: str = "") -> None:
        super().__init__(f"{model}: {reason}" if model else reason)
        self.reason, self.model = reason, model


def as_heedful_error(e: Exception) -> HeedfulError:
    """Any exception as a HeedfulError. An unexpected one, of a plugin or a bug, becomes Unsupported("fails: …")."""
    if isinstance(e, HeedfulError):
        return e
    failure = Unsupported(f"fails: {type(e).__name__}: {' '.join(str(e).split())[:300]}")
    failure.__cause__ = e
    return failure


def results_or_errors(
    work: Callable[[list[Item]], Sequence[Result]], items: Sequence[Item]
) -> list[Result | HeedfulError]:
    """The results of `work` on all items; after an error, of each item alone, with its error as its result.

    Unexpected errors are caught too, so that the other items still get their results.
    """
    try:
        return list(work(list(items))) if items else []
    except Exception as e:
        if len(items) == 1:
            return [as_heedful_error(e)]
    return [results_or_errors(work, [item])[0] for item in items]


def nearest(name: str, known: list[str] | tuple[str, ...]) -> str:
    """The hint of an error message: nearest("positve", ["positive"]) -> "; did you mean 'positive'?"."""
    close = closest(name, known)
    return "" if close is None else f"; did you mean '{close}'?"


def closest(name: str, known: Sequence[str], cutoff: float = 0.5) -> str | None:
    """The name that is most like this one, or None if none is: closest("neg", ["negative"]) -> "negative".

    `cutoff` is the least likeness, of at most 1.
    """
    import difflib

    folded = {k.casefold(): k for k in known}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def first_line(e: BaseException) -> str:
    """The first line of another library's error, without its full stop: for an error of one sentence."""
    return (str(e).strip().splitlines() or [type(e).__name__])[0].rstrip(".")
