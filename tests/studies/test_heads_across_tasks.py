"""Heads across tasks: the same model twice, random models, names of tasks, and refused models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.errors import BadInput, Unsupported
from heedful.data import Example, Splits
from heedful.model.classifier import Classifier
from heedful.studies.base import Subject
from heedful.studies.heads_across_tasks import HeadsAcrossTasks, task_names
from tests.support.models import build, shared

WORDS = ["good", "bad", "great", "awful", "film", "story", "music", "acting", "one", "two", "three"]


def data(seed: int, n: int = 36) -> Splits:
    """Texts without train and dev."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, 5)) + f" {seed}" for _ in range(n)]
    return Splits([], [], [Example(text, None, f"LABEL_{i % 2}") for i, text in enumerate(dict.fromkeys(texts))])


def wide(seed: int) -> Classifier:
    return build("bert", 2, seed, num_hidden_layers=3, num_attention_heads=8)


FAST: Any = HeadsAcrossTasks(importances=("taylor",), draws=100, permutations=400)


def test_the_same_model_on_the_same_data_agrees_with_itself_exactly() -> None:
    found = heedful.study(FAST, [data(0), data(0)], wide(0))
    assert [(row.mean, row.low, row.high) for row in found.result.rows] == [pytest.approx((1, 1, 1))] * 3


def test_two_models_that_share_nothing_are_inside_the_null() -> None:
    found = heedful.study(FAST, data(0), [wide(1), wide(2)])
    pairs = {pair["measure"]: pair for pair in found.result.details["pairs"]}
    for row in found.result.rows:
        assert pairs[row.measure]["null_low"] <= row.mean <= pairs[row.measure]["null_high"]
        assert not row.versus_random.significant  # type: ignore[union-attr]


def test_every_pair_of_three_data_sets_is_compared() -> None:
    found = heedful.study(replace(FAST, scored=8), [data(0), data(1), data(2)], wide(0))
    assert len({(row.at["a"], row.at["b"]) for row in found.result.rows}) == 3


def test_the_importances_are_those_of_each_task() -> None:
    found = heedful.study(replace(FAST, scored=8), [data(0), data(1)], wide(0)).result.details
    first, second = found["importance"]["taylor"].values()
    assert len(first) == 24
    assert not np.allclose(first, second)


def test_long_texts_are_cut() -> None:
    long = Splits([], [], [Example(f"{e.text} " + "good " * 40, None, e.label) for e in data(0).test])
    cut, short = (replace(FAST, scored=6, max_tokens=k) for k in (6, 40))
    a, b = (heedful.study(s, [long, long], wide(0)).result.details["importance"]["taylor"] for s in (cut, short))
    assert not np.allclose(*(next(iter(x.values())) for x in (a, b)))


def test_models_of_different_shapes_are_refused_in_one_sentence() -> None:
    with pytest.raises(BadInput, match=r"2 layers of 2 heads and .* 3 layers of 8; give models"):
        heedful.study(FAST, data(0), [build("bert", 2), wide(0)])


def test_a_model_without_heads_is_refused() -> None:
    with pytest.raises(Unsupported, match="two heads are needed"):
        heedful.study(FAST, [data(0), data(1)], shared("bilstm", 2))


def test_one_model_on_one_data_set_is_refused() -> None:
    with pytest.raises(BadInput, match="takes at least 2 models or data sets, not 1; repeat"):
        heedful.study("heads-across-tasks", data(0), wide(0))


@pytest.mark.parametrize(
    ("subjects", "names"),
    [
        ([("m", "a"), ("m", "b")], ["a", "b"]),
        ([("m", "a"), ("n", "a")], ["m", "n"]),
        ([("m", "a"), ("n", "b")], ["m on a", "n on b"]),
        ([("a", "a"), ("b", "b")], ["a", "b"]),
        ([("m", "a"), ("m", "a"), ("m", "b")], ["a (1)", "a (2)", "b"]),
    ],
)
def test_tasks_are_named_by_what_tells_them_apart(subjects: list[tuple[str, str]], names: list[str]) -> None:
    assert task_names([Subject(*pair, Splits([], [], [])) for pair in subjects]) == names


def test_a_study_that_was_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    model, study = wide(0), replace(FAST, scored=8)
    heedful.study(study, [data(0), data(1)], model, out=tmp_path / "whole")
    whole = (tmp_path / "whole" / "outcome.json").read_bytes()
    for file in sorted((tmp_path / "whole" / "steps").glob("*"))[-2:]:
        file.unlink()
    (tmp_path / "whole" / "outcome.json").unlink()
    heedful.study(study, [data(0), data(1)], model, out=tmp_path / "whole")
    assert (tmp_path / "whole" / "outcome.json").read_bytes() == whole


def test_importances_are_given_once() -> None:
    with pytest.raises(BadInput, match="give each once"):
        HeadsAcrossTasks(importances=("taylor", "taylor"))


def test_the_page_has_a_scatter_plot_of_each_pair() -> None:
    found = heedful.study(replace(FAST, scored=8), [data(0), data(1), data(2)], wide(0))
    assert found.to_html().count("A point for each head") == 3
