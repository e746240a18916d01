"""Interventions: many copies at once, and what permutation and uniform have in common."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from heedful.checks import check as named
from heedful.checks import interventions
from heedful.checks.interventions import WHOLE_MODEL, Copy, Movable, outcomes
from heedful.checks.permutation import Permutation
from heedful.checks.uniform import Uniform
from heedful.core.decode import decode
from heedful.core.errors import Unsupported
from heedful.core.files import json_value as plain_json
from heedful.data import Example
from heedful.model import edits
from heedful.model.function import Plain
from tests.nets.test_hierarchical import TEXT as SENTENCES
from tests.nets.test_hierarchical import classifier as hierarchical
from tests.support.findings import every_field
from tests.support.interventions import ALL, FEW, WORDS, Table, at_head, case_of, finding, tokens_of, toy, tvd, value
from tests.support.models import DIVERSE, TEXTS, build, shared
from tests.support.toys import ARCHITECTURES, DEAF, POINTER


def test_special_tokens_of_a_decoder_stand_one_further() -> None:
    own = Movable(tokens_of(5), special=False).positions("decoder", 5)
    assert own.tolist() == [False, False, True, True, True]


def test_padding_that_a_network_adds_takes_no_part() -> None:
    assert Movable(tokens_of(4)).positions("self", 6).tolist() == [True] * 4 + [False] * 2


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "gemma2", "bart", "t5", "xlnet", "multihead"])
def test_copies_are_answered_as_if_each_were_alone(family: str) -> None:
    classifier = shared(family)
    case = case_of(classifier)
    places = [WHOLE_MODEL, *interventions.head_places(classifier)[::-1], *interventions.layers(classifier)[::-1]]
    found = outcomes(classifier, case.tokens, [Copy(where, edits.uniform) for where in places]).tvd
    alone = [tvd(classifier, case, at_head(edits.uniform, where)) for where in places]
    assert len(places) > 2
    assert found == pytest.approx(np.array(alone), abs=1e-6)


@pytest.mark.parametrize("family", DIVERSE)
@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_passes_are_what_is_asked(family: str, check: Any) -> None:
    classifier = shared(family)
    case = case_of(classifier)
    before = classifier.forwards
    found = check(case)
    assert classifier.forwards - before == check.passes(classifier, case.tokens, {}).forwards
    assert {f.measure for f in found} == set(check.measures)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("check", [FEW, Uniform(activations=())])
def test_a_deaf_model_does_not_move_at_all(architecture: str, check: Any) -> None:
    found = check(case_of(toy(architecture, DEAF), WORDS))
    assert {f.value for f in found if f.measure in ("tvd", "jsd", "flip")} == {0.0}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("check", [Permutation(30, 5, 0), Uniform()])
def test_a_pointer_moves(architecture: str, check: Any) -> None:
    found = check(case_of(toy(architecture, POINTER), WORDS))
    assert value(found, "tvd", ALL) > 0.2


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_without_a_gold_label_accuracy_does_not_exist(check: Any) -> None:
    found = check(case_of(shared("bert")))
    assert all(np.isnan(f.value) == f.measure.startswith("correct") for f in found)


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_a_regression_has_no_labels_to_flip(check: Any) -> None:
    found = check(case_of(build("bert", labels=1, problem_type="regression"), Example(TEXTS[0], label="0.5")))
    exists = {f.measure for f in found if np.isfinite(f.value)}
    assert "tvd" in exists
    assert not exists & {"jsd", "flip", "correct", "correct as it is"}


@pytest.mark.parametrize(
    "settings", [{"labels": 1}, {"labels": 10}, {"labels": 4, "problem_type": "multi_label_classification"}]
)
@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_other_heads(settings: Any, check: Any) -> None:
    classifier = build("bert", **settings)
    found = check(case_of(classifier, Example(TEXTS[0], pair=TEXTS[1], label=classifier.labels[0])))
    assert all(0 <= f.value <= 1 for f in found)
    assert value(found, "tvd", ALL) > 0


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_a_saturated_model_gives_numbers(check: Any) -> None:
    classifier = build("bert")
    with torch.no_grad():
        classifier.model.classifier.weight.mul_(1e4)
    found = check(case_of(classifier))
    assert all(np.isfinite(f.value) for f in found if not f.measure.startswith("correct"))


def test_the_text_without_attention_cannot_be_asked() -> None:
    plain = Plain(lambda texts: np.full((len(texts), 2), 0.5), name="coin")
    for check in (FEW, Uniform()):
        with pytest.raises(Unsupported):
            check(case_of(plain, "a text"))


@pytest.mark.parametrize("given", [
    ("permutation", {"draws": 3, "axis": "rows"}), ("uniform", {"activations": ["entmax15"]}),
    ("identifiability", {"layer": "all"}),
])  # fmt: skip
def test_settings_by_name(given: Any) -> None:
    made: Any = named(*given)
    assert {name: getattr(made, name) for name in given[1]} == {
        name: tuple(x) if isinstance(x, list) else x for name, x in given[1].items()
    }


def test_both_levels_of_a_hierarchical_network() -> None:
    case = case_of(hierarchical(), SENTENCES)
    for check in (FEW, Uniform()):
        found = check(case)
        places = {f.at["layer"] for f in found if f.measure == "tvd" and "layer" in f.at}
        assert places == {"all", 0, "sentence"}
        assert value(found, "tvd", {"layer": "sentence", "head": "all"}) > 0


@pytest.mark.parametrize("check", [Permutation(), Uniform()])
def test_accuracy_and_its_change(check: Any) -> None:
    rows = [(1, 1), (1, 0), (1, 0), (0, 0), (np.nan, np.nan)]
    texts = [[finding("correct as it is", a), finding("correct", b, ALL)] for a, b in rows]
    plain, changed = check.tables(Table(texts, predicted=[0] * 5)).accuracy
    assert (plain.n, plain.mean) == (4, 0.75)
    assert plain.low < 0.75 < plain.high
    assert (changed.at, changed.mean, changed.change.mean) == (ALL, 0.25, -0.5)


@pytest.mark.parametrize("check", [FEW, Uniform()])
def test_tables_are_json(check: Any) -> None:
    cases = [case_of(shared("bert"), Example(text, label="LABEL_0")) for text in TEXTS]
    table = Table([check(case) for case in cases], shared("bert").labels, predicted=[c.prediction.index for c in cases])
    stored = json.loads(json.dumps(plain_json(asdict(check.tables(table))), allow_nan=False))
    assert every_field(decode(type(check.tables(table)), stored)) == every_field(check.tables(table))
