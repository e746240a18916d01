"""The battery of checks holds for the checks of the package, and sees what does not conform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import pytest

from heedful.checks import CHECKS, check, conformance
from heedful.checks.base import Case, Finding, Measure
from heedful.checks.conformance import conforms
from heedful.core.finding import FRACTION, Highlight
from tests.support.models import shared

SMALL: dict[str, dict[str, Any]] = {
    "permutation": {"draws": 3, "layer_draws": 1, "head_draws": 0},
    "adversarial": {"steps": 5, "candidates": 1},
    "identifiability": {"starts": 0},
    "erasure": {"draws": 1, "orders": 2},
    "input-erasure": {"maskings": ["delete"], "points": 2, "greedy_words": 0, "exhaustive_words": 0},
    "infidelity": {"samples": 4},
    "sensitivity": {"limit": 1},
    "randomisation": {"stages": 1},
    "stability": {"seeds": 1},
}


@pytest.fixture(scope="module", autouse=True)
def _cases_are_made_once() -> Iterator[None]:
    """They are the same for every check, and to explain them takes longer than a check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conformance, "case_of", cache(conformance.case_of))
        yield


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_conforms(name: str) -> None:
    assert conforms(check(name, SMALL.get(name)), shared("bilstm"))


@dataclass(frozen=True)
class Length:
    """How long a text is: the smallest check."""

    summary: ClassVar[str] = "length"
    paper: ClassVar[str] = "–"
    changes: ClassVar[str] = "nothing"
    measures: ClassVar[Mapping[str, Measure]] = {"words": Measure("words of the text")}
    found: ClassVar[Callable[[Case], list[Finding]]] = staticmethod(
        lambda case: [Finding("length", "", "words", float(len(case.tokens)))]
    )

    def __call__(self, case: Case) -> list[Finding]:
        return type(self).found(case)


def changed(**attributes: Any) -> Any:
    return type("Length", (Length,), attributes)()


def with_finding(*findings: Finding) -> Any:
    return changed(found=staticmethod(lambda case: list(findings)))


def test_the_smallest_check_conforms() -> None:
    assert conforms(Length(), shared("bilstm"))


COUNT = iter(range(1000))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (changed(paper=None), "has its words: paper is not a text"),
        (changed(highlights=(Highlight("letters", "letters"),)), r"\['letters'\] are highlighted or compared"),
        (changed(roles=("judge",)), r"\['judge'\] are not roles"),
        (changed(section="not_installed.anywhere"), "its section 'not_installed.anywhere' cannot be imported"),
        (with_finding(Finding("length", "", "letters", 1.0)), r"\['letters'\] are not among its measures"),
        (with_finding(*[Finding("length", "", "words", 1.0)] * 2), "the same measurement twice"),
        (changed(measures={"words": Measure("share", range=FRACTION)}), "outside its range"),
        (
            changed(found=staticmethod(lambda case: [Finding("length", "", "words", float(next(COUNT)))])),
            "repeats: the same case gave different numbers",
        ),
        (
            changed(many=lambda self, cases: [[Finding("length", "", "words", 0.0)] for _ in cases]),
            "ignores company: in a batch",
        ),
        (
            changed(found=staticmethod(lambda case: case.classifier.model.train() and Length.found(case))),
            "changes the model: training",
        ),
    ],
)
def test_what_does_not_conform_is_said(wrong: Any, said: str) -> None:
    classifier = shared("bilstm")
    try:
        with pytest.raises(AssertionError, match=said):
            conforms(wrong, classifier)
    finally:
        classifier.model.eval()
