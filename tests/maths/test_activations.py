"""Sparse activations against bisection, sorting, the conditions of their optimum, and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from heedful.maths.activations import ACTIVATIONS, entmax15, sparsemax
from tests.support.parameters import mostly_thorough

Sparse = Callable[[Tensor, int], Tensor]
BOTH = pytest.mark.parametrize(("activation", "alpha"), [(sparsemax, 2.0), (entmax15, 1.5)])
LOWEST = torch.finfo(torch.float64).min


def scores(*shape: int, scale: float = 1.5, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def bisected(row: list[float], alpha: float) -> list[float]:
    """α-entmax of one row: p = max((α−1) z − τ, 0)^(1/(α−1)), τ found by halving an interval."""
    z = [(alpha - 1) * x for x in row]

    def made(tau: float) -> list[float]:
        return [max(x - tau, 0.0) ** (1 / (alpha - 1)) for x in z]

    low, high = max(z) - 1, max(z)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(made(middle)) > 1 else (low, middle)
    return made(low)


def sorted_out(row: list[float]) -> list[float]:
    """sparsemax of one row, by sorting (Martins & Astudillo 2016, algorithm 1)."""
    ordered = sorted(row, reverse=True)
    k = max(k for k in range(1, len(row) + 1) if 1 + k * ordered[k - 1] > sum(ordered[:k]))
    return [max(x - (sum(ordered[:k]) - 1) / k, 0.0) for x in row]


@BOTH
@pytest.mark.parametrize("scale", [0.01, 0.5, 2.0, 20.0])
def test_weights_are_those_of_bisection(activation: Sparse, alpha: float, scale: float) -> None:
    x = scores(20, 13, scale=scale)
    twin = [bisected(row, alpha) for row in x.tolist()]
    torch.testing.assert_close(activation(x, -1), torch.tensor(twin, dtype=torch.float64), rtol=0, atol=1e-13)


def test_sparsemax_is_that_of_sorting() -> None:
    x = scores(50, 9)
    twin = torch.tensor([sorted_out(row) for row in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(sparsemax(x, -1), twin, rtol=0, atol=1e-14)
    assert torch.equal(sparsemax(x, -1) == 0, twin == 0)


@BOTH
def test_weights_meet_the_conditions_of_the_optimum(activation: Sparse, alpha: float) -> None:
    """z − p^(α−1) / (α−1) is one number on the support, and nothing off it has a score above that number."""
    x = scores(100, 30)
    p = activation(x, -1)
    slope = x - p ** (alpha - 1) / (alpha - 1)
    level = (slope * p).sum(-1, keepdim=True)
    assert float(((slope - level).abs() * (p > 0)).max()) < 1e-12
    assert bool(((x <= level + 1e-12) | (p > 0)).all())
    torch.testing.assert_close(p.sum(-1), torch.ones(100, dtype=torch.float64), rtol=0, atol=1e-13)


@BOTH
def test_some_weights_are_exactly_zero(activation: Sparse, alpha: float) -> None:
    p = activation(scores(100, 30), -1)
    assert 0.3 < float((p == 0).double().mean()) < 1


def test_entmax_lies_between_softmax_and_sparsemax() -> None:
    x = scores(200, 30)
    support = [float((ACTIVATIONS[name](x, -1) > 0).double().mean()) for name in ("softmax", "entmax15", "sparsemax")]
    assert support == sorted(support, reverse=True)
    assert support[0] == 1


@BOTH
@pytest.mark.parametrize("dim", mostly_thorough([0, 1, 2, -1, -2], (1, -1)))
def test_gradients_are_those_of_finite_differences(activation: Sparse, alpha: float, dim: int) -> None:
    x = scores(4, 3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: activation(s, dim), x)
    assert torch.autograd.gradgradcheck(lambda s: activation(s, dim), x)


@BOTH
def test_a_shift_changes_nothing(activation: Sparse, alpha: float) -> None:
    x = scores(20, 9)
    torch.testing.assert_close(activation(x + 37.5, -1), activation(x, -1), rtol=0, atol=1e-13)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("masked", ["lowest", "-inf"])
def test_masked_keys_get_nothing_and_change_nothing(
    activation: Sparse, alpha: float, dtype: torch.dtype, masked: str
) -> None:
    x = scores(20, 9).to(dtype)
    low = torch.finfo(dtype).min if masked == "lowest" else -torch.inf
    wide = torch.cat([x[:, :4], torch.full((20, 3), low, dtype=dtype), x[:, 4:]], 1).requires_grad_()
    p = activation(wide, -1)
    assert not p[:, 4:7].any()
    torch.testing.assert_close(torch.cat([p[:, :4], p[:, 7:]], 1), activation(x, -1))
    slope = torch.autograd.grad((p * scores(20, 12, seed=1).to(dtype)).sum(), wide)[0]
    assert bool(slope.isfinite().all())
    assert not slope[:, 4:7].any()


@BOTH
def test_one_allowed_key_gets_all(activation: Sparse, alpha: float) -> None:
    x = torch.full((2, 5), LOWEST, dtype=torch.float64)
    x[0, 3], x[1, 0] = -50.0, 1e6
    assert activation(x, -1).tolist() == [[0, 0, 0, 1, 0], [1, 0, 0, 0, 0]]
    assert activation(x[:, :1] * 0, -1).tolist() == [[1], [1]]


@BOTH
def test_no_allowed_key_is_still_finite(activation: Sparse, alpha: float) -> None:
    x = torch.full((1, 4), LOWEST, dtype=torch.float64).requires_grad_()
    p = activation(x, -1)
    torch.testing.assert_close(p, torch.full_like(p, 0.25))
    assert bool(torch.autograd.grad(p[0, 0], x)[0].isfinite().all())


@BOTH
def test_single_precision_is_near_double(activation: Sparse, alpha: float) -> None:
    for scale in (0.001, 0.1, 1.0, 10.0):
        x = scores(200, 512, scale=scale).float()
        p = activation(x, -1)
        assert float((p.sum(-1) - 1).abs().max()) < 2e-6
        torch.testing.assert_close(p.double(), activation(x.double(), -1), rtol=0, atol=1e-6)


@BOTH
def test_what_is_not_a_number_stays_so(activation: Sparse, alpha: float) -> None:
    x = scores(2, 4)
    x[0, 1] = torch.nan
    p = activation(x, -1)
    assert bool(p[0].isnan().all())
    assert bool(p[1].isfinite().all())


@pytest.mark.parametrize("activation", ACTIVATIONS.values())
def test_a_mode_sees_the_call_and_nothing_within(activation: Sparse) -> None:
    calls: list[Any] = []

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append((func, args[1:]))
            return func(*args, **(kwargs or {}))

    x = scores(2, 3)
    with Watching():
        result = activation(x, -1)
    assert calls == [(activation, (-1,))]
    assert torch.equal(result, activation(x, -1))
