"""The conformance battery of checks: what every check must do. For our checks, and for yours.

from heedful.checks.conformance import conforms
conforms(MyCheck(), heedful.load())        # an AssertionError says what does not hold
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import get_args

from heedful.checks.base import Case, Check, Finding
from heedful.core.explanation import Attribution
from heedful.core.finding import LEFT_OUT, Highlight, Measure, Role, SideBySide
from heedful.core.target import Target
from heedful.data import Example
from heedful.methods import method
from heedful.methods.conformance import PROBE_TEXTS, changed_state, require, snapshot, unless_unsupported
from heedful.methods.controls import Random
from heedful.methods.explain import explain
from heedful.model.classifier import Classifier

PROBE_METHODS = ("attention-mean", "gradient-x-input", "leave-one-out", "random", "uniform", "position")
CLOSE = 1e-4  # relative: numbers of a text alone and in a batch may differ by rounding

Claim = Callable[[Check, Sequence[Case]], None]


def case_of(classifier: Classifier, text: str, methods: Sequence[str] = PROBE_METHODS, seed: int = 0) -> Case:
    """A text as an audit gives it to a check, explained by these methods."""
    tokens = classifier.tokens(text)
    prediction = classifier.predictions([tokens])[0]
    explanations = {name: explain(classifier, text, name, seed=seed) for name in methods}
    random = (explain(classifier, text, "random", seed=seed + 1 + i) for i in range(Random().draws))
    draws = [draw for draw in random if isinstance(draw, Attribution)]
    example = Example(text, label=prediction.label, rationale=((0, len(text.split()[0])),))
    target = Target().resolved(classifier.labels, prediction.index)
    objects = {name: method(name) for name in methods}
    return Case(classifier, example, tokens, prediction, target, objects, explanations, draws, seed)


def has_its_words(check: Check, cases: Sequence[Case]) -> None:
    """The texts that reports need are there, and refer to measures that the check has."""
    for name in ("summary", "paper", "changes"):
        assert isinstance(getattr(check, name, None), str), f"{name} is not a text"
    for name in ("title", "question", "reading", "section"):
        assert isinstance(getattr(check, name, ""), str), f"{name} is not a text"
    assert check.measures, "it has no measures"
    assert all(isinstance(m, Measure) for m in check.measures.values()), "measures are not of class Measure"
    named: Sequence[Highlight | SideBySide] = (*getattr(check, "highlights", ()), *getattr(check, "compared", ()))
    unknown = [number.measure for number in named if number.measure not in check.measures]
    assert not unknown, f"{unknown} are highlighted or compared, but are not among its measures"
    roles = [role for role in getattr(check, "roles", ()) if role not in get_args(Role)]
    assert not roles, f"{roles} are not roles; the roles are {', '.join(get_args(Role))}"
    if section := getattr(check, "section", ""):
        try:
            importable = find_spec(section) is not None
        except ModuleNotFoundError:  # of a package above it
            importable = False
        assert importable, f"its section '{section}' cannot be imported"


def finds_what_it_declares(check: Check, cases: Sequence[Case]) -> None:
    """Each finding is of a declared measure, once for each method and place, within its range, and JSON."""
    for case in cases:
        findings = [finding for finding in check(case) if finding.measure != LEFT_OUT]
        assert all(isinstance(finding, Finding) for finding in findings), "it returns something other than findings"
        undeclared = sorted({finding.measure for finding in findings} - set(check.measures))
        assert not undeclared, f"{undeclared} are not among its measures"
        assert len(_values(findings)) == len(findings), "it reports the same measurement twice for one text"
        json.dumps([dict(finding.details) for finding in findings], allow_nan=False)
        for f in findings:
            within = check.measures[f.measure].range
            inside = within is None or math.isnan(f.value) or within[0] - 1e-6 <= f.value <= within[1] + 1e-6
            assert inside, f"{f.measure} is {f.value}, outside its range {within}"


def repeats(check: Check, cases: Sequence[Case]) -> None:
    """The same case gives the same numbers."""
    first, second = (_values(check(cases[0])) for _ in range(2))
    assert repr(first) == repr(second), "the same case gave different numbers"  # NaN is not equal to itself


def ignores_company(check: Check, cases: Sequence[Case]) -> None:
    """`many`, if there is one, gives each text the same numbers as a call with this text alone."""
    many = getattr(check, "many", None)
    if many is None:
        return
    for case, together in zip(cases, many(list(cases)), strict=True):
        alone, batched = _values(check(case)), _values(together)
        assert alone.keys() == batched.keys(), "the measurements differ in a batch"
        far = [key for key, x in alone.items() if not math.isclose(x, batched[key], rel_tol=CLOSE, abs_tol=CLOSE)]
        far = [key for key in far if not (math.isnan(alone[key]) and math.isnan(batched[key]))]
        assert not far, f"in a batch {far[0]} is {batched[far[0]]}, alone {alone[far[0]]}"


CLAIMS: dict[str, Claim] = {
    claim.__name__.replace("_", " "): claim
    for claim in (has_its_words, finds_what_it_declares, repeats, ignores_company)
}


def conforms(check: Check, classifier: Classifier, methods: Sequence[str] = PROBE_METHODS) -> bool:
    """Raise an AssertionError with the first claim that does not hold; False if the check does not support this model.

    The claims are those of CLAIMS, and that weights, modes, hooks and configuration of the model do not change.
    """
    cases = [case_of(classifier, text, methods) for text in PROBE_TEXTS]
    before = snapshot(classifier)
    if unless_unsupported(classifier, lambda: check(cases[0])) is None:
        return False
    changed = changed_state(before, snapshot(classifier))
    assert not changed, f"{type(check).__name__} on {classifier.name}: changes the model: {changed}"
    require(CLAIMS, classifier, check, cases)
    return True


def _values(findings: Sequence[Finding]) -> dict[tuple[str, str, str], float]:
    return {(finding.method, finding.measure, finding.place): finding.value for finding in findings}
