"""Distances of keys and attention, against slow twins in numpy."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from heedful.maths.keys import (
    centred,
    key_distances,
    mean_over_queries,
    output_divergences,
    row_divergences,
    row_variations,
    stated_distance,
)

RNG = torch.Generator().manual_seed(0)
KEYS, OTHERS = (torch.randn(2, 3, 5, 4, generator=RNG).double() for _ in range(2))
REAL = torch.tensor([[True] * 5, [True, True, True, False, False]])
P, Q = (torch.randn(2, 3, 5, 5, generator=RNG).double().softmax(-1) for _ in range(2))
LOGITS, BASE = (torch.randn(4, 3, generator=RNG) for _ in range(2))


def test_the_distance_of_keys_is_that_of_real_tokens() -> None:
    apart = ((KEYS - OTHERS) ** 2).sum(-1).numpy()
    twin = [np.sqrt(sum(apart[i, layer, t] for layer in range(3) for t in range(n))) for i, n in ((0, 5), (1, 3))]
    assert key_distances(KEYS, OTHERS, REAL).tolist() == pytest.approx(twin)


def test_the_distance_of_one_layer_is_the_same_without_its_axis() -> None:
    assert torch.equal(key_distances(KEYS[:, 0], OTHERS[:, 0], REAL), key_distances(KEYS[:, :1], OTHERS[:, :1], REAL))


def test_the_stated_distance_is_a_mean_or_the_logarithm_of_a_mean_square() -> None:
    distances = torch.tensor([3.0, 4.0])
    assert [float(stated_distance(distances, kind)) for kind in ("norm", "log")] == pytest.approx([3.5, log(12.5)])


def test_centred_keys_have_mean_zero_over_the_real_tokens() -> None:
    means = centred(KEYS, REAL).numpy()
    assert np.abs(means[0].mean(1)).max() < 1e-12
    assert np.abs(means[1, :, :3].mean(1)).max() < 1e-12
    assert (means[1, :, 3:] == 0).all()


def test_a_shift_of_all_keys_is_a_large_distance_and_none_after_centring() -> None:
    moved = KEYS + 1000 * torch.randn(4, generator=RNG).double()
    assert float(key_distances(moved, KEYS, REAL).min()) > 1000
    assert float(key_distances(centred(moved, REAL), centred(KEYS, REAL), REAL).max()) < 1e-9


def test_row_divergences_are_those_of_scipy() -> None:
    twin = jensenshannon(P.numpy(), Q.numpy(), axis=-1) ** 2
    assert row_divergences(P, Q).numpy() == pytest.approx(twin)


def test_one_hot_rows_have_the_largest_divergence_and_a_finite_gradient() -> None:
    p, q = torch.tensor([[1.0, 0, 0]], requires_grad=True), torch.tensor([[0.0, 1, 0]])
    divergence = row_divergences(p, q)
    divergence.sum().backward()  # type: ignore[no-untyped-call]
    assert float(divergence.detach()) == pytest.approx(log(2))
    assert bool(p.grad is not None and p.grad.isfinite().all())


def test_row_variations_are_half_the_absolute_differences() -> None:
    assert row_variations(P, Q).numpy() == pytest.approx(0.5 * np.abs(P.numpy() - Q.numpy()).sum(-1))


def test_the_mean_over_queries_leaves_out_padded_ones() -> None:
    values = row_divergences(P, Q)
    twin = [values[0].mean().item(), values[1, :, :3].mean().item()]
    assert mean_over_queries(values, REAL.double()).tolist() == pytest.approx(twin)
    assert mean_over_queries(values[:, :, :1], REAL.double()).tolist() == pytest.approx(
        values[:, :, 0].mean(1).tolist()
    )


def test_output_divergences_are_those_of_scipy() -> None:
    p, q = (x.double().softmax(-1).numpy() for x in (BASE, LOGITS))
    assert output_divergences(LOGITS, BASE, "softmax").numpy() == pytest.approx(entropy(p, q, axis=1))


def test_output_divergences_of_a_sigmoid_are_the_mean_over_coins() -> None:
    p, q = (x.double().sigmoid().numpy() for x in (BASE, LOGITS))
    coins = [entropy([p, 1 - p], [q, 1 - q]) for p, q in zip(p.ravel(), q.ravel(), strict=True)]
    twin = np.array(coins).reshape(4, 3).mean(1)
    assert output_divergences(LOGITS, BASE, "sigmoid").numpy() == pytest.approx(twin)
