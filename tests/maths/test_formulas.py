"""Each formula against a slow obvious twin, an identity, and an outside reference."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.maths import formulas as f

sizes = st.integers(1, 7)
seeds = st.integers(0, 10_000)


def stochastic(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(-1)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("n", [1, 2, 5, 16, 64])
def test_gauss_legendre_is_exact_for_polynomials_of_degree_two_n_minus_one(n: int) -> None:
    nodes, weights = f.gauss_legendre(n)
    degrees = torch.arange(2 * n, dtype=torch.float64)
    assert torch.allclose((nodes[:, None] ** degrees * weights[:, None]).sum(0), 1 / (degrees + 1), atol=1e-13)


def test_gauss_legendre_misses_the_next_degree() -> None:
    nodes, weights = f.gauss_legendre(2)
    assert abs(float((nodes**4 * weights).sum()) - 1 / 5) > 1e-3


def test_gauss_legendre_is_captums() -> None:
    from captum.attr._utils.approximation_methods import approximation_parameters

    steps, alphas = approximation_parameters("gausslegendre")
    nodes, weights = f.gauss_legendre(9)
    assert nodes.tolist() == pytest.approx(alphas(9))
    assert weights.tolist() == pytest.approx(steps(9))


def test_path_goes_from_start_to_end() -> None:
    start, end = normal(3, 2), normal(3, 2, seed=1)
    points = f.straight_path(start, end, torch.tensor([0.0, 0.25, 1.0], dtype=torch.float64))
    assert torch.equal(points[0], start)
    assert torch.allclose(points[1], 0.75 * start + 0.25 * end)
    assert torch.allclose(points[2], end)


@given(t=sizes, d=sizes, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_the_path_integral_of_a_polynomial_is_complete(t: int, d: int, seed: int) -> None:
    start, end, a = normal(t, d, seed=seed), normal(t, d, seed=seed + 1), normal(t, d, seed=seed + 2)
    nodes, weights = f.gauss_legendre(4)
    points = f.straight_path(start, end, nodes).requires_grad_()

    def value(x: Tensor) -> Tensor:
        return (a * x).sum((-1, -2)) ** 3 + (x**2).sum((-1, -2))

    slopes = torch.autograd.grad(value(points).sum(), points)[0]
    total = f.path_integral(slopes, weights, end - start).sum()
    assert torch.allclose(total, value(end) - value(start), rtol=1e-9, atol=1e-9)


def test_the_path_integral_is_the_plain_sum() -> None:
    slopes, weights, difference = normal(3, 2, 4), normal(3, seed=1), normal(2, 4, seed=2)
    twin = [
        sum(float(weights[n] * slopes[n, t, d] * difference[t, d]) for n in range(3) for d in range(4))
        for t in range(2)
    ]
    assert f.path_integral(slopes, weights, difference).tolist() == pytest.approx(twin)


@given(n=sizes, layers=st.integers(1, 5), seed=seeds)
@settings(max_examples=25, deadline=None)
def test_rollout_rows_sum_to_one(n: int, layers: int, seed: int) -> None:
    assert torch.allclose(f.rollout(stochastic(layers, n, n, seed=seed)).sum(-1), torch.ones(n, dtype=torch.float64))


def test_rollout_follows_every_path() -> None:
    a = stochastic(3, 4, 4)
    mixed = 0.5 * a + 0.5 * torch.eye(4)
    twin = torch.zeros(4, 4, dtype=torch.float64)
    for top in range(4):
        for bottom in range(4):
            for i in range(4):
                for j in range(4):
                    twin[top, bottom] += mixed[2, top, i] * mixed[1, i, j] * mixed[0, j, bottom]
    assert torch.allclose(f.rollout(a), twin)


def test_rollout_of_attention_to_oneself_is_the_identity() -> None:
    assert torch.equal(f.rollout(torch.eye(4).expand(3, 4, 4)), torch.eye(4))


def test_cross_rollout_of_one_layer_is_half_the_cross_attention_of_the_encoder() -> None:
    encoder, decoder, cross = stochastic(2, 5, 5), stochastic(1, 3, 3, seed=1), stochastic(1, 3, 5, seed=2)
    assert torch.allclose(f.cross_rollout(encoder, decoder, cross), 0.5 * cross[0] @ f.rollout(encoder))


def test_cross_rollout_loses_only_what_the_decoders_own_input_keeps() -> None:
    encoder, decoder, cross = stochastic(2, 5, 5), stochastic(3, 4, 4, seed=1), stochastic(3, 4, 5, seed=2)
    rows = f.cross_rollout(encoder, decoder, cross).sum(-1)
    assert torch.allclose(rows, torch.full((4,), 1 - 0.5**3, dtype=torch.float64))


@given(n=st.integers(1, 9), d=st.integers(1, 6), seed=seeds)
@settings(max_examples=40, deadline=None)
def test_effective_attention_gives_the_same_output(n: int, d: int, seed: int) -> None:
    a, v = stochastic(2, n, n, seed=seed), normal(2, n, d, seed=seed + 1)
    assert torch.allclose(f.effective_attention(a, v) @ v, a @ v, atol=1e-10)


def test_effective_attention_is_attention_where_values_are_independent() -> None:
    a, v = stochastic(4, 4), normal(4, 6)
    assert torch.allclose(f.effective_attention(a, v), a, atol=1e-12)


def test_effective_attention_has_no_part_in_the_null_space_of_scipy() -> None:
    a, v = stochastic(9, 9), normal(9, 4)
    null = scipy.linalg.null_space(v.numpy().T)
    assert null.shape == (9, 5)
    assert np.abs(f.effective_attention(a, v).numpy() @ null).max() < 1e-12
    assert np.abs(a.numpy() @ null).max() > 1e-2


def test_the_null_space_of_repeated_values_is_found() -> None:
    v = normal(1, 3).expand(4, 3)
    assert torch.linalg.matrix_rank(f.null_projection(v)) == 3


def test_a_coarser_eps_sees_noise_as_null() -> None:
    v = torch.cat([normal(1, 3), normal(1, 3) + 1e-6 * normal(1, 3, seed=1)])
    assert torch.linalg.matrix_rank(f.null_projection(v)) == 0
    assert torch.linalg.matrix_rank(f.null_projection(v, eps=1e-5)) == 1


def test_received_is_the_mean_column() -> None:
    a = stochastic(2, 4, 4)
    twin = [float(sum(a[h, q, k] for h in range(2) for q in range(4)) / 8) for k in range(4)]
    assert f.received(a).tolist() == pytest.approx(twin)


def test_shapes_are_checked_while_testing() -> None:
    from jaxtyping import TypeCheckError

    with pytest.raises(TypeCheckError):
        f.rollout(torch.zeros(2, 3, 4))
