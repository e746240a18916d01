"""What a notebook or a prompt shows of results: short, never a dump of fields, never a page of its own."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from heedful.audits.capabilities import Ability, Capabilities
from heedful.audits.ranking import RankedMethod, Ranking
from heedful.audits.summary import Row
from heedful.audits.verdict import Evidence, verdict
from heedful.core.explanation import Explanations, Prediction
from heedful.core.finding import Finding
from heedful.maths.stats import Decision, Difference, Estimate
from heedful.methods.explain import explain, tree
from tests.support import models
from tests.support.models import shared

TEXT = "The film was not funny, and " + "the story was thin and " * 3 + "long."
METHODS = ["gradient-x-input", "attention-weights", "minimal-flip"]


@pytest.fixture(scope="module")
def found() -> Explanations:
    return explain(shared("bert"), TEXT, METHODS)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (0, r"Attribution\(gradient-x-input of 'The film .* story w…', LABEL_\d: \S+ [+−][\d.]+, .*\)"),
        (1, r"Interaction\(attention-weights of '.*…', LABEL_\d: 2 layers × \d heads × (\d+) queries × \1 keys\)"),
        (2, r"Counterfactual\(minimal-flip of '.*…', LABEL_\d: without '.+' says LABEL_\d\)"),
    ],
)  # fmt: skip
def test_an_explanation_is_one_line(found: Explanations, index: int, words: str) -> None:
    assert re.fullmatch(words, repr(found[index]))


def test_explanations_are_a_line_each(found: Explanations) -> None:
    assert repr(found).splitlines() == ["Explanations of 1 text by 3 methods", *(f"  {why!r}" for why in found)]


def test_many_explanations_are_counted_and_skipped_methods_named() -> None:
    many = explain(shared("bilstm"), list(models.TEXTS[:4]) * 3, ["uniform", "rollout"], unsupported="skip")
    lines = repr(many).splitlines()
    assert (len(lines), lines[-2:]) == (13, ["  … and 2 more", "  skipped: rollout"])


def test_a_prediction_shows_its_largest_labels_first() -> None:
    assert repr(Prediction(("a", "b", "c", "d"), (0, 3, 2, 1), (0.1, 0.4, 0.3, 0.2))) == (
        "Prediction(b 0.400, c 0.300, d 0.200, …)"
    )
    assert repr(Prediction(("stars",), (3.21,))) == "Prediction(stars 3.210)"
    assert repr(Prediction()) == "Prediction()"


def test_tokens_show_their_pieces() -> None:
    assert repr(shared("bert").tokens("good film")) == "Tokens(4 tokens: [CLS] good film [SEP])"
    assert len(repr(shared("bert").tokens("film " * 60))) < 120


def test_a_tree_is_an_indented_list() -> None:
    found = tree(shared("bert"), TEXT, threshold=0.1, steps=5)
    lines = repr(found).splitlines()
    assert lines[0] == f"Tree of {len(found.edges)} edges (greedy, threshold 0.1)"
    assert lines[1] == f"  {found.tokens.surface(found.root)}  the root"
    assert re.fullmatch(r" {4,}\S+  layer \d, share \d\.\d\d", lines[2])


ESTIMATE = (58, 2, 0.12345, 0.1, 0.2, 0.1001, 0.14666)
HIGHER = Difference(58, 0.05, 0.01, 0.09, 0.001, 0.004, Decision.HIGHER, better=True)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Estimate(*ESTIMATE), "Estimate(0.123 [0.1, 0.147], n=58, 2 missing)"),
        (Estimate(0, 3, *[math.nan] * 5), "Estimate(nan [nan, nan], n=0, 3 missing)"),
        (HIGHER, "Difference(+0.05 [0.01, 0.09], n=58, p=0.004, higher: better)"),
        (Difference(9, -0.05, -0.2, 0.1, 0.4), "Difference(-0.05 [-0.2, 0.1], n=9, p=0.4)"),
        (Finding("cost", "lime", "forwards", 200.0), "Finding(cost: forwards of lime: 200)"),
        (Finding("uniform", "", "tvd", 1 / 3, {"layer": 2}), "Finding(uniform: tvd, layer=2: 0.333)"),
        (
            Row(*ESTIMATE, check="agreement", measure="tau", method="lime", at={"with": "loo"}, versus_random=HIGHER),
            "Row(agreement: tau of lime, with=loo: 0.123 [0.1, 0.147], n=58, 2 missing; "
            "less random +0.05 [0.01, 0.09], n=58, p=0.004, higher: better)",
        ),
        (verdict(Evidence()), "Verdict(attention-mean: undecided; Q1 undecided, Q2 undecided, Q3 undecided)"),
        (
            Capabilities("toy", (), (Ability("lime", True), Ability("rollout", False, "one query")), ()),
            "Capabilities('toy', 1 of 2 methods, 0 of 0 checks)",
        ),
        (
            Ranking("delete", (RankedMethod(*ESTIMATE, method="lime", first=1, last=2),), (), ("mine",)),
            "Ranking of 1 methods (masking delete)\n  1–2  lime  0.123 [0.1, 0.147], n=58, 2 missing\n  unranked: mine",
        ),
    ],
)  # fmt: skip
def test_numbers_of_an_audit_are_short(result: object, words: str) -> None:
    assert repr(result) == words


@pytest.mark.parametrize("what", ["explanation", "explanations", "interaction", "tree"])
def test_a_notebook_gets_a_fragment(found: Explanations, what: str) -> None:
    shown: Any = {"explanation": found[0], "explanations": found, "interaction": found[1]}.get(what)
    html = (shown or tree(shared("bert"), TEXT, steps=5))._repr_html_()
    assert html.strip().startswith("<div")
    assert not re.search(r"<(html|head|body|style|script)|\b(id|class)=", html)


def test_nothing_in_a_text_becomes_markup_in_the_fragment_of_a_tree() -> None:
    html = tree(shared("bert"), "<b>film</b> <script>", threshold=0.0, steps=5)._repr_html_()
    assert "<script" not in html
