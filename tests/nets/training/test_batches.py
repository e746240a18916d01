"""A data set as ids, and batches of like length."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from heedful.nets.training.batches import bucketed, encoded, in_order
from heedful.nets.vocabulary import TokenRules, learned
from tests.support.models import build

TEXTS = [("a warm film", None), ("dull", None), ("the end was warm and the start was dull", "is it warm")]
TOKENIZER = learned([text for text, _ in TEXTS], TokenRules())


def test_rows_are_what_the_tokenizer_says() -> None:
    rows = encoded(TOKENIZER, TEXTS).rows(np.array([2, 0]))
    for row, (text, pair) in zip(range(2), (TEXTS[2], TEXTS[0]), strict=True):
        encoding = TOKENIZER.encode(text) if pair is None else TOKENIZER.encode(text, pair)
        n = len(encoding.ids)
        assert rows.ids[row, :n].tolist() == encoding.ids
        assert rows.types is not None
        assert rows.types[row, :n].tolist() == encoding.type_ids
        assert rows.mask[row].tolist() == [1] * n + [0] * (rows.ids.shape[1] - n)
        assert not rows.ids[row, n:].any()


@pytest.mark.parametrize("family", ["bert", "xlnet", "distilbert"])
def test_a_batch_is_what_the_classifier_makes_of_it(family: str) -> None:
    """On the model's own side of padding, with its own padding token and token types."""
    classifier, texts = build(family), [("Dull.", None), ("A warm and clever story", "one two")]
    assert classifier.padding is not None
    typed = "token_type_ids" in classifier.tokenizer.model_input_names
    padding = classifier.padding_with(classifier.padding)
    backend = Tokenizer.from_str(classifier.tokenizer.backend_tokenizer.to_str())
    backend.no_padding()  # as `Cutter` does
    rows = encoded(backend, texts, padding, typed).rows(np.array([0, 1]))
    batch = classifier.batch([classifier.tokens(*text) for text in texts])
    assert torch.equal(rows.ids, batch.ids)
    assert torch.equal(rows.mask, batch.mask)
    assert (rows.types is None) == (batch.segments is None)
    assert rows.types is None or torch.equal(rows.types, batch.segments)  # type: ignore[arg-type]


def test_take_keeps_the_order_given() -> None:
    whole = encoded(TOKENIZER, TEXTS)
    taken = whole.take(np.array([2, 1]))
    assert taken.rows(np.array([1])).ids.tolist() == whole.rows(np.array([1])).ids.tolist()
    assert taken.lengths.tolist() == [whole.lengths[2], whole.lengths[1]]


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=80),
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 120)),
    st.integers(0, 5),
)
def test_batches_hold_every_text_once_within_bounds(
    lengths: list[int], size: int, budget: int | None, seed: int
) -> None:
    n = np.array(lengths)
    for batches in (bucketed(n, size, np.random.default_rng(seed), budget), in_order(n, size, budget)):
        assert sorted(np.concatenate(batches)) == list(range(len(n)))
        for batch in batches:
            assert len(batch) <= size
            assert budget is None or len(batch) == 1 or n[batch].max() * len(batch) <= budget


def test_batches_are_of_like_length_and_differ_between_epochs() -> None:
    n = np.random.default_rng(0).integers(1, 500, 2000)
    first, second = (bucketed(n, 32, np.random.default_rng([0, epoch])) for epoch in (0, 1))
    padded = sum(n[batch].max() * len(batch) for batch in first)
    assert padded < 1.2 * n.sum()
    assert {tuple(sorted(b)) for b in first} != {tuple(sorted(b)) for b in second}
    widths = [n[b].max() for b in first]
    assert np.corrcoef(widths[:-1], widths[1:])[0, 1] < 0.5  # their order does not follow length


def test_the_same_chance_gives_the_same_batches() -> None:
    n = np.random.default_rng(0).integers(1, 50, 100)
    one, other = (bucketed(n, 8, np.random.default_rng([3, 1])) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
