"""Maximum flow through a network of layers, to every node of its last level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from torch import Tensor

from heedful.core.arrays import Bools, Floats
from heedful.maths.formulas import with_residual

_FLOW_UNITS = 2**30  # the upper limit of the flow, in scipy's 32-bit integer capacities
_PRECISION = 1e-6  # relative to the upper limit of the flow
_STRONGEST_EDGES = (16, 128)  # of each node, tried before all edges
_HUBS = 4  # nodes with most flow, which keep all their edges

Matrix = Float[np.ndarray, "a b"]
Allowed = Bool[np.ndarray, "a b"]


def attention_flow(layers: Float[Tensor, "l t t"], pooled: Float[Tensor, "t"]) -> Float[Tensor, "t"]:
    """Abnar & Zuidema 2020, §3: the maximum flow from the pooled output to each input, capacities ½ A + ½ I.

    A source feeds each output position by its share of the pooling. One layer -> the pooled row of ½ A + ½ I.
    """
    return maximum_flows(list(with_residual(layers).flip(0)), pooled)


def cross_attention_flow(
    encoder: Float[Tensor, "l k k"],
    decoder: Float[Tensor, "m q q"],
    cross: Float[Tensor, "m q k"],
    pooled: Float[Tensor, "q"],
) -> Float[Tensor, "k"]:
    """The same in an encoder-decoder, with the capacities of `cross_rollout`.

    A decoder layer sends half to the decoder's positions one layer below and half through cross attention to the top of
    the encoder. Flow into the decoder's own input reaches no token.
    """
    q, k = cross.shape[1:]
    passing = torch.cat([cross.new_zeros(k, q), torch.eye(k).to(cross)], dim=1)  # already in the encoder: unchanged
    upper = [
        torch.cat([torch.cat([0.5 * mixing, 0.5 * reading], dim=1), passing])
        for mixing, reading in zip(with_residual(decoder).flip(0), cross.flip(0), strict=True)
    ]
    lower = list(with_residual(encoder).flip(0))
    lower[0] = torch.cat([cross.new_zeros(q, k), lower[0]])
    return maximum_flows([*upper, *lower], torch.cat([pooled, pooled.new_zeros(k)]))


def maximum_flows(layers: Sequence[Float[Tensor, "_ _"]], supply: Float[Tensor, "n"]) -> Float[Tensor, "k"]:
    """The maximum flow from a source, which feeds the first level by `supply`, to each single node of the last level.

    `layers[i]` holds the capacities from level i to level i + 1. Exact to a millionth of the smaller of the source's
    and the sink's capacity: the flow in a subnetwork is a lower bound, and the capacity in the whole network of the cut
    that limits it an upper bound; where these differ, more edges are used.
    """
    matrices = [layer.detach().cpu().double().numpy() for layer in layers]
    source = supply.detach().cpu().double().numpy()
    mass = [source]
    for matrix in matrices:
        mass.append(mass[-1] @ matrix)
    thin = [[_strongest(m, n, above) for m, above in zip(matrices, mass, strict=False)] for n in _STRONGEST_EDGES]
    whole = [np.ones_like(m, dtype=bool) & (above > 0)[:, None] for m, above in zip(matrices, mass, strict=False)]
    flows = [_to_sink(matrices, source, [*thin, whole], sink) for sink in range(matrices[-1].shape[1])]
    return torch.tensor(flows, dtype=torch.float64)


def _strongest(matrix: Matrix, n: int, mass: Floats) -> Allowed:
    """The n strongest edges out of each node, and all edges out of the nodes with most flow."""
    n = min(n, matrix.shape[1])
    use = np.zeros_like(matrix, dtype=bool)
    np.put_along_axis(use, np.argpartition(-matrix, n - 1, axis=1)[:, :n], True, axis=1)
    use[np.argsort(-mass)[:_HUBS]] = True
    return use & (mass > 0)[:, None]


def _to_sink(layers: list[Matrix], supply: Floats, tried: Sequence[Sequence[Allowed]], sink: int) -> float:
    need = [np.eye(layers[-1].shape[1])[sink]]
    for matrix in reversed(layers):
        need.insert(0, matrix @ need[0])
    limit = min(float(supply.sum()), float(layers[-1][:, sink].sum()))
    if limit <= 0 or not (supply * need[0]).any():
        return 0.0
    upper = limit
    for masks in tried:
        used = [_towards(mask, below) for mask, below in zip(masks, need[1:], strict=True)]
        flow, reached = _solve(layers, used, supply, limit)
        # subtle: a node that cannot reach the sink may be on either side; on the source's it adds no capacity
        sides = [side | (below == 0) for side, below in zip(reached, need, strict=True)]
        crossing = [above @ m @ ~below for above, m, below in zip(sides, layers, sides[1:], strict=False)]
        upper = min(limit, float(supply[~sides[0]].sum() + sum(crossing)))  # the cut's capacity in the whole network
        if upper - flow <= _PRECISION * limit:
            break
    return upper


def _towards(mask: Allowed, need: Floats) -> Allowed:
    """Also all edges into the nodes with most flow to the sink, and none into nodes that cannot reach it."""
    use = mask.copy()
    use[:, np.argsort(-need)[:_HUBS]] = mask.any(1, keepdims=True)
    return use & (need > 0)


def _solve(layers: list[Matrix], used: list[Allowed], supply: Floats, limit: float) -> tuple[float, list[Bools]]:
    """The maximum flow along the used edges, and which nodes of each level lie on the source's side of its cut."""
    sizes = [len(supply), *(m.shape[1] for m in layers)]
    starts = np.cumsum([1, *sizes])  # node 0 is the source
    fed = np.flatnonzero(supply)
    ends = [np.nonzero(use) for use in used]
    heads = [1 + fed, *(start + b for start, (_, b) in zip(starts[1:], ends, strict=False))]
    sink = int(heads[-1][0]) if len(heads[-1]) else 0
    if not sink:
        return 0.0, _sides(np.zeros(1, dtype=int), sizes, starts)
    values = np.concatenate([supply[fed], *(m[end] for m, end in zip(layers, ends, strict=True))])
    units = np.rint(np.minimum(values, limit) * (_FLOW_UNITS / limit)).astype(np.int32)
    n = int(starts[-1])
    # edges are in the order of their tails, then of their heads: that is already the compressed form of the matrix
    degrees = [[len(fed)], *(use.sum(1) for use in used), np.zeros(sizes[-1], dtype=int)]
    first = np.concatenate([[0], *degrees], dtype=np.int32).cumsum(dtype=np.int32)
    # an older scipy takes no other index
    graph = csr_array((units, np.concatenate(heads, dtype=np.int32), first), shape=(n, n))
    result = maximum_flow(graph, 0, sink)
    residual = graph - result.flow
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, 0, return_predecessors=False)
    return result.flow_value * limit / _FLOW_UNITS, _sides(reached, sizes, starts)


def _sides(reached: NDArray[Any], sizes: list[int], starts: NDArray[Any]) -> list[Bools]:
    side = np.zeros(int(starts[-1]), dtype=bool)
    side[reached] = True
    return [side[start : start + size] for start, size in zip(starts, sizes, strict=False)]
