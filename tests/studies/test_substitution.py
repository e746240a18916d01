"""Substitution: models whose answer is known, log-odds attention by hand, pairs, and resumption."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import Unsupported
from heedful.data import Example, Splits
from heedful.model.classifier import Classifier
from heedful.nets.pair import Pair, PairShape
from heedful.studies.base import Texts
from heedful.studies.outcome import Outcome, TextsUsed
from heedful.studies.substitution import Substitution, attended_segments, log_odds_attention, placed_weights
from tests.studies.test_triggers import splits, three
from tests.support import toys
from tests.support.models import build, loud, shared, tokenizer

SMALL: Any = Substitution(words=2, scored=40, draws=1)
ARCHITECTURES = ["bert", "bilstm", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("gpt2", "bart"))]


@cache
def studied(architecture: str, toy: toys.Toy) -> Outcome:
    return heedful.study(SMALL, splits(), toys.build(architecture, toy))


def mean(outcome: Outcome, measure: str, source: str, **at: Any) -> float:
    row = outcome.result.row(measure, source, at)
    assert row is not None
    return row.mean


@pytest.mark.parametrize("architecture", ["bert", "bilstm"])
def test_the_other_word_in_the_place_that_a_pointer_looks_at_turns_it(architecture: str) -> None:
    assert mean(studied(architecture, toys.POINTER), "flip", "attended", words=1) == 1


def test_a_random_word_in_that_place_takes_the_answer_away() -> None:
    found = studied("bert", toys.POINTER)
    assert mean(found, "tvd", "random words", words=1) > 0.3 > mean(found, "tvd", "both random", words=1)


def test_the_attended_place_matters_to_a_pointer_only() -> None:
    pointer, deaf = (studied("bert", toy) for toy in (toys.POINTER, toys.DEAF))
    wanted = ("tvd", "attended", "random places", {"words": 1})
    higher = [
        next(d for d in of.result.differences if (d.measure, d.a, d.b, d.at) == wanted).difference
        for of in (pointer, deaf)
    ]
    assert higher[0].significant
    assert higher[0].mean > 0.1
    assert abs(higher[1].mean) < 0.1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_another_attention_does_not_move_a_deaf_model(architecture: str) -> None:
    found = studied(architecture, toys.DEAF)
    assert mean(found, "tvd", "uniform attention") == pytest.approx(0, abs=1e-6)
    assert mean(found, "jsd", "uniform attention") > 0.2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_odds_attention_is_what_a_pointer_has_and_a_shuffled_one_is_not(architecture: str) -> None:
    found = studied(architecture, toys.POINTER)
    assert mean(found, "accuracy", "log-odds attention") == 1
    assert mean(found, "tvd", "log-odds attention") < 0.5 * mean(found, "tvd", "shuffled log-odds")
    assert mean(found, "jsd", "log-odds attention") < 0.5 * mean(found, "jsd", "shuffled log-odds")


def test_log_odds_attention_of_one_word_takes_all_of_a_network_with_one_query() -> None:
    assert mean(studied("bilstm", toys.POINTER), "on words", "own attention") == pytest.approx(1, abs=0.01)


def test_log_odds_attention_is_a_softmax() -> None:
    assert log_odds_attention(np.array([0.0, 2.0, 2.0])) == pytest.approx(np.exp([0, 2, 2]) / np.exp([0, 2, 2]).sum())


def test_placed_weights_by_hand() -> None:
    weights = torch.tensor([[[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]]])
    allowed = torch.ones(1, 1, 2, 3, dtype=torch.bool)
    new = placed_weights(weights, allowed, torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[True, False]]))
    assert torch.allclose(new, torch.tensor([[[[0.5, 0.125, 0.375], [0.1, 0.2, 0.7]]]]))


def test_placed_weights_stay_zero_where_attention_is_not_allowed() -> None:
    weights = torch.tensor([[[[0.6, 0.4, 0.0]]]])
    allowed = torch.tensor([[[[True, True, False]]]])
    new = placed_weights(weights, allowed, torch.tensor([[1.0, 1.0, 8.0]]), torch.tensor([[True]]))
    assert torch.allclose(new, torch.tensor([[[[0.5, 0.5, 0.0]]]]))


def test_the_rows_of_placed_weights_keep_their_sums() -> None:
    rng = torch.Generator().manual_seed(0)
    weights = torch.rand(2, 3, 4, 4, generator=rng).softmax(-1)
    wanted = torch.rand(2, 4, generator=rng) * torch.tensor([0.0, 1.0, 1.0, 1.0])
    new = placed_weights(weights, torch.ones(2, 1, 4, 4, dtype=torch.bool), wanted, torch.ones(2, 4, dtype=torch.bool))
    assert torch.allclose(new.sum(-1), weights.sum(-1))


def test_texts_with_too_few_words_have_no_number() -> None:
    found = heedful.study(replace(SMALL, words=12, scored=8), splits(), toys.build("bert", toys.POINTER))
    rows = {row.at["words"]: row for row in found.rows("tvd", "attended")}
    assert rows[1].missing == 0 < rows[12].missing


def test_the_curves_have_a_point_for_each_number_of_words() -> None:
    curve = studied("bert", toys.POINTER).result.curves_of("tvd")[0]
    row = studied("bert", toys.POINTER).result.row("tvd", curve.method, {"words": 2})
    assert list(curve.x) == [1, 2]
    assert row is not None
    assert curve.points[1].mean == row.mean


def pair_network() -> Classifier:
    words = tokenizer("wordpiece")
    special = tuple(i for i in (words.cls_token_id, words.sep_token_id) if i is not None)
    shape = PairShape(len(words), 3, embedding=8, hidden=6, special=special)
    return Classifier(loud(Pair(shape), 0, 0.5), words, name="tiny-pair")


def test_only_words_of_the_attended_text_of_a_pair_are_replaced() -> None:
    classifier = pair_network()
    found = heedful.study(replace(SMALL, scored=12), three(), classifier)
    for example in found.examples:
        if example.title.startswith("The most attended"):
            first, second = example.colourings
            changed = [i for i, (a, b) in enumerate(zip(first.words, second.words, strict=True)) if a != b]
            assert changed
            assert max(changed) < 6


def test_segments_that_attention_points_at() -> None:
    for classifier, wanted in ((pair_network(), (0,)), (shared("bert"), (0, 1))):
        tokens = classifier.tokens("good film", "bad story")
        texts = Texts((Example("good film", "bad story"),), (tokens,), np.array([0]), TextsUsed("", "", 1, ""))
        assert attended_segments(classifier, texts) == wanted


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "xlnet", "bilstm"])
def test_three_labels_work_in_every_mechanism(family: str) -> None:
    single = Splits(*([replace(e, pair=None) for e in part] for part in (three().train, three().dev, three().test)))
    found = heedful.study(replace(SMALL, scored=6), single, shared(family))
    assert mean(found, "jsd", "log-odds attention") > 0
    assert len(found.result.details["strongest"]) == 3


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(Unsupported, match="attention"):
        heedful.study(SMALL, splits(), build("fnet", 2))


@pytest.mark.thorough
def test_a_study_that_was_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    study, model = replace(SMALL, scored=40), toys.build("bert", toys.POINTER)
    heedful.study(study, splits(), model, out=tmp_path)
    whole = (tmp_path / "outcome.json").read_bytes()
    for name in ("outcome.json", "steps/examples.json", "steps/changing-words-and-attention-0001.json"):
        (tmp_path / name).unlink()
    heedful.study(study, splits(), model, out=tmp_path)
    assert (tmp_path / "outcome.json").read_bytes() == whole


def test_the_page_has_both_scatter_plots() -> None:
    assert studied("bert", toys.POINTER).to_html().count("A point for each text") == 2
