"""What a method says it will cost is what the classifier counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heedful.core.errors import BadInput
from heedful.methods import METHODS, method
from heedful.methods.base import Passes
from heedful.methods.explain import Plan, explain, parts, plan, shown, shown_json, total
from tests.support.models import shared

TEXT = "not funny but good"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_will_cost(name: str) -> None:
    """That it costs what it says is part of the conformance battery."""
    passes = plan(shared("bert"), method(name), [shared("bert").tokens(TEXT)]).passes
    assert passes is not None
    assert passes.forwards >= passes.backwards >= 0


@pytest.mark.parametrize("given", [{"baseline": "zero"}, {"baseline": "pad", "steps": 5}, {"through_attention": False}])
def test_the_passes_follow_the_settings(given: dict[str, Any]) -> None:
    classifier, ig = shared("bert"), method("ig", given)
    found = explain(classifier, TEXT, ig).source
    assert plan(classifier, ig, [classifier.tokens(TEXT)]).passes == Passes(found.forwards, found.backwards)


def test_windows_cost_what_they_cost_together() -> None:
    classifier = shared("bert")
    cut = parts(classifier, classifier.tokens("film " * 100), windows=True)
    found = explain(classifier, "film " * 100, "ig", windows=True).source
    assert plan(classifier, method("ig"), cut).passes == Passes(found.forwards, found.backwards)
    assert len(cut) == found.windows


def test_a_long_text_is_planned_as_it_will_be_cut() -> None:
    classifier = shared("bert")
    assert [len(t) for t in parts(classifier, classifier.tokens("film " * 100))] == [64]


def test_a_text_that_may_not_be_cut_is_refused_as_by_explain() -> None:
    classifier = shared("bert")
    messages = []
    for refuse in (
        lambda: parts(classifier, classifier.tokens("film " * 100), truncate=False),
        lambda: explain(classifier, "film " * 100, "random", truncate=False),
    ):
        with pytest.raises(BadInput) as refused:
            refuse()
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


def test_planning_runs_nothing() -> None:
    classifier = shared("bert")
    before = classifier.forwards, classifier.backwards
    plan(classifier, method("ig"), parts(classifier, classifier.tokens(TEXT)))
    assert (classifier.forwards, classifier.backwards) == before


def test_a_sum_is_exact_only_where_its_parts_are() -> None:
    assert total([Passes(1, 2), Passes(3, 4, exactly=False)]) == Passes(4, 6, exactly=False)


PLANS = [Plan("a", Passes(1000, 2)), Plan("b", Passes(5, exactly=False)), Plan("c", None)]


def test_the_table_says_at_most_and_unknown() -> None:
    assert [" ".join(line.split()) for line in shown(PLANS, 3).splitlines()] == [
        "method forward backward",
        "a 1,000 2",
        "b at most 5 0",
        "c unknown unknown",
        "the prediction itself 3 0",
        "total and what is unknown at most 1,008 at most 2",
    ]


def test_the_columns_of_the_table_line_up() -> None:
    assert len({len(line) for line in shown(PLANS, 3).splitlines()}) == 1


def test_the_plan_as_json() -> None:
    assert json.loads(shown_json(PLANS, 3))["total"] == {"forwards": 1008, "backwards": 2, "exactly": False}
    assert json.loads(shown_json(PLANS, 3))["unknown"] == ["c"]
