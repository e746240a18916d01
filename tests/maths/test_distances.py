"""How far an answer is from another one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from heedful.maths.distances import changes

logits = st.lists(st.lists(st.floats(-20, 20), min_size=3, max_size=3), min_size=1, max_size=4)


@given(logits, st.lists(st.floats(-20, 20), min_size=3, max_size=3))
def test_softmax_is_half_the_l1_distance_and_scipys_divergence(rows: list[list[float]], base: list[float]) -> None:
    result = changes(torch.tensor(rows), torch.tensor(base), "softmax")
    p, q = torch.tensor(rows).double().softmax(-1).numpy(), torch.tensor(base).double().softmax(-1).numpy()
    np.testing.assert_allclose(result.tvd, [0.5 * sum(abs(a - b) for a, b in zip(r, q, strict=True)) for r in p])
    wanted = [jensenshannon(r, q) ** 2 if not np.allclose(r, q, atol=1e-9) else result.jsd[i] for i, r in enumerate(p)]
    np.testing.assert_allclose(result.jsd, wanted, atol=1e-9)


def test_an_answer_does_not_differ_from_itself() -> None:
    x = torch.randn(5, generator=torch.Generator().manual_seed(0))
    for head in ("softmax", "sigmoid", "regression"):
        result = changes(x[None], x, head)
        assert result.tvd[0] == 0
        assert head == "regression" or (result.jsd[0] == 0 and result.flip[0] == 0)


def test_the_farthest_answers() -> None:
    result = changes(torch.tensor([[100.0, -100.0]]), torch.tensor([-100.0, 100.0]), "softmax")
    assert (result.tvd[0], result.flip[0]) == (1.0, 1.0)
    assert result.jsd[0] == pytest.approx(math.log(2))


def test_one_output_given_as_two_opposite_logits_is_binary() -> None:
    """A sigmoid of ±z is the softmax of ±z/2."""
    rows, base = torch.tensor([[-0.3, 0.3], [2.0, -2.0]]), torch.tensor([-1.0, 1.0])
    one, two = changes(rows, base, "sigmoid"), changes(rows / 2, base / 2, "softmax")
    for a, b in ((one.tvd, two.tvd), (one.jsd, two.jsd), (one.flip, two.flip)):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_several_labels_are_coins() -> None:
    result = changes(torch.tensor([[100.0, -100.0, 0.0]]), torch.tensor([-100.0, -100.0, 0.0]), "sigmoid")
    assert result.tvd[0] == pytest.approx(1 / 3)
    assert result.jsd[0] == pytest.approx(math.log(2) / 3)
    assert result.flip[0] == 1


def test_a_regression_has_no_labels_to_flip() -> None:
    result = changes(torch.tensor([[2.5]]), torch.tensor([1.0]), "regression")
    assert result.tvd[0] == 1.5
    assert np.isnan(result.jsd[0])
    assert np.isnan(result.flip[0])
