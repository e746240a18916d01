"""What a method says it will cost is what the classifier counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heedful.core.errors import BadInput
from heedful.methods import METHODS
from heedful.methods.base import Passes, total
from heedful.methods.cost import CostForecast, MethodCost, plan
from heedful.methods.explain import cut_text, explain
from heedful.report.terminal import cost_table
from tests.support.models import shared

TEXT = "not funny but good"
LONG = "film " * 100


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_will_cost(name: str) -> None:
    """That it costs what it says is part of the conformance battery."""
    passes = plan(shared("bert"), TEXT, name).costs[0].passes
    assert passes is not None
    assert passes.forwards >= passes.backwards >= 0


@pytest.mark.parametrize("given", [{"baseline": "zero"}, {"baseline": "pad", "steps": 5}, {"through_attention": False}])
def test_the_passes_follow_the_settings(given: dict[str, Any]) -> None:
    found = explain(shared("bert"), TEXT, "ig", **given).source
    planned = plan(shared("bert"), TEXT, "ig", **given)
    assert planned.costs == (MethodCost("integrated-gradients", Passes(found.forwards, found.backwards)),)


def test_windows_cost_what_they_cost_together() -> None:
    found = explain(shared("bert"), LONG, "ig", windows=True).source
    planned = plan(shared("bert"), LONG, "ig", windows=True)
    assert planned.costs[0].passes == Passes(found.forwards, found.backwards)
    assert planned.predictions == found.windows


def test_a_long_text_is_planned_as_it_will_be_cut() -> None:
    classifier = shared("bert")
    assert [len(part) for part in cut_text(classifier, classifier.tokens(LONG)).parts] == [64]


def test_a_text_that_may_not_be_cut_is_refused_as_by_explain() -> None:
    messages = []
    for refuse in (plan, explain):
        with pytest.raises(BadInput) as refused:
            refuse(shared("bert"), LONG, "random", truncate=False)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


def test_planning_runs_nothing() -> None:
    classifier = shared("bert")
    before = classifier.forwards, classifier.backwards
    plan(classifier, [TEXT, LONG], ["ig", "lime"])
    assert (classifier.forwards, classifier.backwards) == before


@pytest.mark.parametrize("texts", [[TEXT], [TEXT, "good film"]])
def test_a_plan_is_what_a_run_costs(texts: list[str]) -> None:
    classifier = shared("bert")
    planned = plan(classifier, texts, ["ig", "gradient-l2"]).total
    before = classifier.forwards, classifier.backwards
    explain(classifier, texts, ["ig", "gradient-l2"])
    assert (classifier.forwards - before[0], classifier.backwards - before[1]) == (planned.forwards, planned.backwards)


def test_a_sum_is_exact_only_where_its_parts_are() -> None:
    assert total([Passes(1, 2), Passes(3, 4, exactly=False)]) == Passes(4, 6, exactly=False)


PLAN = CostForecast(
    (MethodCost("a", Passes(1000, 2)), MethodCost("b", Passes(5, exactly=False)), MethodCost("c", None)), 3
)


def test_the_table_says_at_most_and_unknown() -> None:
    assert [" ".join(line.split()) for line in cost_table(PLAN).splitlines()] == [
        "method forward backward",
        "a 1,000 2",
        "b at most 5 0",
        "c unknown unknown",
        "the prediction itself 3 0",
        "total without unknown costs at most 1,008 at most 2",
    ]


def test_the_columns_of_the_table_line_up() -> None:
    assert len({len(line) for line in cost_table(PLAN).splitlines()}) == 1


def test_the_plan_as_json() -> None:
    assert json.loads(PLAN.to_json())["total"] == {"forwards": 1008, "backwards": 2, "exactly": False}
    assert json.loads(PLAN.to_json())["unknown"] == ["c"]
