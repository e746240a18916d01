"""The adversary's mathematics: exact answers against brute force and integer programs, bounds against what is found."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax

from heedful.core.errors import BadInput
from heedful.maths import adversary_search
from heedful.maths.adversary import (
    Distance,
    Problem,
    attention_distance,
    bracket,
    envelope,
    exact_witness,
    limits,
    null_dimension,
    one_hot_distances,
    polytope,
    preserving_rows,
    tvd_bound,
)
from heedful.maths.adversary_search import Loss, Padded, Search, farthest_candidate, loss_gradient, optimise
from heedful.maths.distances import changes

DISTANCES: tuple[Distance, ...] = ("jsd", "tvd")
EPSILON = 0.05
FEW = Search(steps=150)


def problem(
    seed: int, n: int = 12, heads: int = 1, classes: int = 2, head: Any = "softmax", scale: float = 2.0
) -> Problem:
    rng = np.random.default_rng(seed)
    attention = rng.dirichlet(np.full(n, 0.5), size=heads)
    effects = rng.normal(size=(heads, n, classes)) * scale / heads
    return Problem(attention, effects, rng.normal(size=classes) * scale / 2, head)


def single_output(seed: int) -> Problem:
    """A sigmoid as heedful has it: two opposite logits."""
    p = problem(seed, classes=1)
    return Problem(p.attention, np.concatenate([-p.effects, p.effects], -1), np.array([-1, 1]) * p.logits, "sigmoid")


def rngs(n: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(i) for i in range(n)]


def grid(n: int) -> np.ndarray[Any, Any]:
    """All attentions over three tokens with weights that are multiples of 1/n."""
    i, j = (x.ravel() for x in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    some = i + j <= n
    return np.stack([i, j, n - i - j], 1)[some] / n


# distances


def test_jsd_is_scipys() -> None:
    p, q = np.random.default_rng(0).dirichlet(np.ones(7), size=2)
    assert attention_distance(p[None], q[None], "jsd") == pytest.approx(jensenshannon(p, q) ** 2)


def test_jsd_is_at_most_ln2_times_tvd() -> None:
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.full(6, 0.3), size=(500, 1)), rng.dirichlet(np.full(6, 0.3), size=(1,))
    assert (attention_distance(p, q, "jsd") <= np.log(2) * attention_distance(p, q, "tvd") + 1e-12).all()


@pytest.mark.parametrize("distance", DISTANCES)
def test_corners_are_the_distances_of_one_hot_attentions(distance: Distance) -> None:
    q = problem(0, heads=2).attention
    slow = [[attention_distance(np.eye(12)[t][None], row[None], distance) for t in range(12)] for row in q]
    assert one_hot_distances(q, distance) == pytest.approx(np.array(slow))


# what counts as kept


def moved(base: Any, logits: Any, head: Any = "softmax") -> Any:
    return changes(torch.from_numpy(logits), torch.from_numpy(base), head).tvd


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_what_suffices_does(classes: int) -> None:
    base = problem(3, classes=classes)
    inner = limits(base, EPSILON)[1]
    rng = np.random.default_rng(0)
    room = 2 * np.arctanh(EPSILON)
    corner = rng.choice([-room, room], size=(2000, classes))
    logits = base.logits + corner + rng.normal(size=(2000, 1))
    if classes > 2:
        assert ((logits @ inner.forms.T >= inner.low - 1e-9) & (logits @ inner.forms.T <= inner.high + 1e-9)).all()
    assert moved(base.logits, logits).max() <= EPSILON + 1e-12


def test_what_suffices_is_sharp() -> None:
    """Two halves that change places, as far as is allowed: the output moves by ε."""
    halves = np.array([1.0, 1.0, -1.0, -1.0]) * np.arctanh(EPSILON)
    inner = limits(Problem(np.ones((1, 1)), np.zeros((1, 1, 4)), -halves), EPSILON)[1]
    assert (inner.forms @ halves - inner.high).max() == pytest.approx(0, abs=1e-12)
    assert moved(-halves, halves[None])[0] == pytest.approx(EPSILON)


@pytest.mark.parametrize("head", ["softmax", "sigmoid", "regression"])
def test_what_must_hold_holds_wherever_the_output_is_kept(head: Any) -> None:
    base = problem(4, classes=4, head=head)
    logits = (
        base.logits
        + np.random.default_rng(0).normal(size=(20000, 4)) * np.array([0.05, 0.2, 1, 5]).repeat(5000)[:, None]
    )
    kept = logits[moved(base.logits, logits, head) <= EPSILON]
    outer = limits(base, EPSILON)[0]
    assert len(kept) > 500
    assert ((kept @ outer.forms.T >= outer.low) & (kept @ outer.forms.T <= outer.high)).all()


@pytest.mark.parametrize("head", ["sigmoid", "regression"])
def test_what_suffices_does_for_other_outputs(head: Any) -> None:
    base = problem(4, classes=4, head=head)
    inner = limits(base, EPSILON)[1]
    share = np.random.default_rng(0).random((500, 4))
    assert moved(base.logits, inner.low + share * (inner.high - inner.low), head).max() <= EPSILON + 1e-12


def test_two_classes_must_and_may_move_as_far() -> None:
    outer, inner = limits(problem(5), EPSILON)
    ends = np.array([[outer.low[0], 0.0], [outer.high[0], 0.0]])
    assert outer is inner
    assert moved(problem(5).logits, ends) == pytest.approx(EPSILON)


def test_a_saturated_output_may_go_on_for_ever() -> None:
    sure = replace(problem(5), logits=np.array([40.0, -40.0]))
    assert limits(sure, EPSILON)[0].high[0] == np.inf


# exact


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("seed", range(8))
def test_exact_is_what_a_fine_grid_finds(distance: Distance, seed: int) -> None:
    p = problem(seed, n=3)
    points = grid(400)[:, None]
    kept = points[p.change(points) <= EPSILON]
    result, best = exact_witness(p, EPSILON, distance), attention_distance(kept, p.attention, distance).max()
    assert result is not None
    assert best - 1e-12 <= result.distance <= best + 0.02


@pytest.mark.parametrize("made", [problem, single_output, lambda s: problem(s, classes=1, head="regression")])
@pytest.mark.parametrize("seed", range(5))
def test_exact_total_variation_is_the_integer_programs(made: Any, seed: int) -> None:
    p = made(seed)
    result = exact_witness(p, EPSILON, "tvd")
    solved = tvd_bound(polytope(p, limits(p, EPSILON)[0]), seconds=20)
    assert result is not None
    assert result.distance == pytest.approx(solved.lower.distance, abs=1e-6)
    assert result.distance <= solved.upper + 1e-6


@pytest.mark.parametrize("made", [problem, single_output, lambda s: problem(s, classes=1, head="regression")])
@pytest.mark.parametrize("distance", DISTANCES)
def test_the_exact_witness_keeps_the_output_and_is_as_far_as_it_says(made: Any, distance: Distance) -> None:
    for p in map(made, range(20)):
        result = exact_witness(p, EPSILON, distance)
        assert result is not None
        assert p.change(result.attention[None])[0] <= EPSILON + 1e-9
        assert result.attention.sum() == pytest.approx(1)
        assert (result.attention >= 0).all()
        assert result.distance == pytest.approx(float(attention_distance(result.attention, p.attention, distance)))


def test_with_no_room_the_mean_of_the_logits_stays() -> None:
    p = problem(2)
    result = exact_witness(p, 0.0, "jsd")
    assert result is not None
    assert result.distance > 0.1
    assert p.change(result.attention[None])[0] == pytest.approx(0, abs=1e-12)


def test_with_all_room_the_furthest_token_gets_everything() -> None:
    p = problem(2)
    result = exact_witness(p, 1.0, "tvd")
    assert result is not None
    assert result.distance == pytest.approx(1 - p.attention.min())


def test_a_deaf_network_has_the_furthest_token_too() -> None:
    p = replace(problem(2), effects=np.zeros((1, 12, 2)))
    result = exact_witness(p, 0.0, "jsd")
    assert result is not None
    assert result.distance == pytest.approx(one_hot_distances(p.attention, "jsd").max())


def test_one_word_has_one_attention() -> None:
    p = Problem(np.ones((1, 1)), np.ones((1, 1, 2)), np.array([0.3, 1.0]))
    result = exact_witness(p, EPSILON, "jsd")
    assert result is not None
    assert result.distance == 0
    assert bracket(p, EPSILON, "tvd").upper == 0


def test_two_words_move_as_far_as_the_output_lets_them() -> None:
    """z = ±1 at equal weights: the output is ½, and the share that moves it by ε is ½ + logit(½ + ε) / 2."""
    p = Problem(np.array([[0.5, 0.5]]), np.array([[[0.0, -1.0], [0.0, 1.0]]]), np.zeros(2))
    result = exact_witness(p, EPSILON, "tvd")
    assert result is not None
    assert result.distance == pytest.approx(np.log(0.55 / 0.45) / 2)


def test_several_heads_or_classes_have_no_exact_answer() -> None:
    assert exact_witness(problem(0, heads=2), EPSILON, "jsd") is None
    assert exact_witness(problem(0, classes=3), EPSILON, "jsd") is None


# brackets


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("seed", range(6))
def test_the_bracket_holds_the_exact_answer(distance: Distance, seed: int) -> None:
    p = problem(seed)
    result, bounds = exact_witness(p, EPSILON, distance), bracket(p, EPSILON, distance)
    assert result is not None
    assert bounds.lower.distance - 1e-9 <= result.distance <= bounds.upper + 1e-7


@pytest.mark.parametrize(
    ("heads", "classes", "head"), [(3, 2, "softmax"), (1, 10, "softmax"), (2, 3, "softmax"), (1, 3, "sigmoid")]
)
def test_the_bracket_holds_what_the_search_finds(heads: int, classes: int, head: Any) -> None:
    problems = [problem(seed, heads=heads, classes=classes, head=head) for seed in range(4)]
    for p, candidates in zip(problems, optimise(problems, rngs(4), FEW), strict=True):
        bounds = bracket(p, EPSILON, "jsd")
        assert p.change(bounds.lower.attention[None])[0] <= EPSILON
        assert (
            max(bounds.lower.distance, farthest_candidate(p.attention, candidates, p.change(candidates), EPSILON).jsd)
            <= bounds.upper + 1e-7
        )


def test_the_bracket_holds_random_attentions_that_keep_the_output() -> None:
    p = problem(1, n=4, heads=2, classes=3, scale=1.0)
    points = np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=(40000, 2))
    kept = points[p.change(points) <= EPSILON]
    assert len(kept) > 50
    for distance in DISTANCES:
        assert attention_distance(kept, p.attention, distance).max() <= bracket(p, EPSILON, distance).upper + 1e-7


def test_the_integer_program_is_no_looser_than_the_linear_one() -> None:
    p = problem(7, n=10, heads=2, classes=3)
    space = polytope(p, limits(p, EPSILON)[0])
    solved, relaxed = tvd_bound(space, 20), envelope(space, "tvd")
    assert relaxed.lower.distance - 1e-6 <= solved.lower.distance <= solved.upper + 1e-6 <= relaxed.upper + 2e-6


def test_an_integer_program_without_time_still_bounds() -> None:
    p = problem(7, n=30, heads=3, classes=5)
    solved = tvd_bound(polytope(p, limits(p, EPSILON)[0]), 1e-3)
    assert bracket(p, EPSILON, "tvd").lower.distance <= solved.upper <= (1 - p.attention.min(1)).mean() + 1e-9


# what a head reads, held


def test_the_null_dimension_is_what_is_left_of_the_rank() -> None:
    values = np.random.default_rng(0).normal(size=(20, 6)) @ np.random.default_rng(1).normal(size=(6, 9))
    assert null_dimension(values) == 20 - np.linalg.matrix_rank(np.c_[values, np.ones(20)]) == 13


def test_a_full_rank_leaves_no_other_row() -> None:
    own = np.full(5, 0.2)
    assert preserving_rows(own, np.random.default_rng(0).normal(size=(5, 8)), 0.0) is None


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_witness_leaves_what_is_read(distance: Distance) -> None:
    rng = np.random.default_rng(3)
    own, values = rng.dirichlet(np.ones(20)), rng.normal(size=(20, 6)) * 50
    space = preserving_rows(own, values, 0.0)
    assert space is not None
    result = envelope(space, distance)
    assert result.lower.distance > 0.1
    assert (result.lower.attention[0] @ values) / 50 == pytest.approx(own @ values / 50, abs=1e-5)


def test_a_witness_stays_within_delta() -> None:
    rng = np.random.default_rng(3)
    own, values = rng.dirichlet(np.ones(9)), rng.normal(size=(9, 12))
    space = preserving_rows(own, values, 0.05)
    assert space is not None
    result = envelope(space, "jsd").lower
    off = np.abs(result.attention[0] @ values - own @ values).max()
    assert result.distance > 1e-4
    assert off <= 0.05 * np.sqrt(((own @ values) ** 2).mean()) * (1 + 1e-5)


def test_random_rows_in_the_null_space_are_within_the_bound() -> None:
    rng = np.random.default_rng(5)
    own, values = rng.dirichlet(np.ones(12)), rng.normal(size=(12, 4))
    space = preserving_rows(own, values, 0.0)
    assert space is not None
    basis = np.linalg.svd(np.c_[values, np.ones(12)].T)[2][5:]
    steps = rng.normal(size=(300, len(basis))) @ basis
    reach = np.min(np.where(steps < 0, own / np.maximum(-steps, 1e-300), np.inf), axis=1)
    rows = np.maximum(own + reach[:, None] * steps, 0)[:, None]
    assert attention_distance(rows, own[None], "jsd").max() <= envelope(space, "jsd").upper + 1e-7


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_values_of_zero_hold_nothing(delta: float) -> None:
    own = np.random.default_rng(0).dirichlet(np.ones(6))
    space = preserving_rows(own, np.zeros((6, 4)), delta)
    assert space is not None
    assert envelope(space, "tvd").lower.distance == pytest.approx(1 - own.min())


# the search


def loss(p: Problem, scores: torch.Tensor, search: Search) -> torch.Tensor:
    """The paper's, slowly."""
    k = search.candidates
    alpha = scores.softmax(-1)

    def jsd(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        m = (a + b) / 2
        return ((a * (a / m).log()).sum(-1) + (b * (b / m).log()).sum(-1)).mean() / 2

    own = torch.from_numpy(p.attention)
    far = sum(jsd(a, own) for a in alpha)
    spread = sum(jsd(alpha[i], alpha[j]) for i, j in combinations(range(k), 2))
    z = torch.from_numpy(p.logits) + torch.einsum("khn,hnc->kc", alpha - own, torch.from_numpy(p.effects))
    l1 = (z.softmax(-1) - torch.from_numpy(softmax(p.logits))).abs().sum(-1)
    if search.loss == "code":
        every_pair = sum(jsd(a, b) for a in alpha for b in alpha) / k**2
        return -far - every_pair + search.penalty * (l1 - search.tolerance).relu().sum()
    penalty = (l1 / 2 - search.tolerance).relu().sum()
    return -far - (spread / (k * (k - 1)) if k > 1 else 0) + search.penalty / k * penalty


@pytest.mark.parametrize("form", ["paper", "code"])
@pytest.mark.parametrize("candidates", [1, 2, 5])
def test_the_slope_is_that_of_the_papers_loss(candidates: int, form: Loss) -> None:
    p, search = problem(0, n=6, heads=2, classes=3), Search(candidates=candidates, loss=form)
    scores = torch.randn(candidates, 2, 6, generator=rngs(1)[0], dtype=torch.float64, requires_grad=True)
    slow = torch.autograd.grad(loss(p, scores, search), scores)[0]
    own, effects, base = (torch.from_numpy(x)[None] for x in (p.attention, p.effects, p.logits))
    padded = Padded(own, torch.ones(1, 6, dtype=torch.bool), base, "softmax")

    def decode(alpha: torch.Tensor) -> torch.Tensor:
        return base[:, None] + torch.einsum("bkhn,bhnc->bkc", alpha - own[:, None], effects)

    assert torch.allclose(loss_gradient(decode, padded, scores.detach()[None], search)[0], slow, atol=1e-10)


def test_the_search_lowers_its_loss() -> None:
    p = problem(0, n=10)
    before, after = (torch.from_numpy(optimise([p], rngs(1), Search(steps=n))[0]).log() for n in (0, 200))
    assert loss(p, after, Search()) < loss(p, before, Search()) - 1


def test_the_search_never_exceeds_the_exact_answer() -> None:
    problems = [problem(seed, n=4 + seed) for seed in range(12)] + [problem(seed, scale=9.0) for seed in range(12)]
    for p, candidates in zip(problems, optimise(problems, rngs(24)), strict=True):
        most = exact_witness(p, EPSILON, "jsd")
        assert most is not None
        assert farthest_candidate(p.attention, candidates, p.change(candidates), EPSILON).jsd <= most.distance + 1e-9


def test_the_search_gets_half_as_far_as_it_could_on_the_whole() -> None:
    problems = [problem(seed, n=5) for seed in range(10)]
    result = [
        farthest_candidate(p.attention, c, p.change(c), EPSILON).jsd
        for p, c in zip(problems, optimise(problems, rngs(10)), strict=True)
    ]
    most = [exact_witness(p, EPSILON, "jsd") for p in problems]
    assert np.mean(result) > 0.5 * np.mean([m.distance for m in most if m is not None])


def test_a_text_is_searched_as_if_it_were_alone() -> None:
    problems = [problem(seed, n=n) for seed, n in enumerate((3, 17, 8))]
    together = optimise(problems, rngs(3), FEW)
    alone = [optimise([p], [rng], FEW)[0] for p, rng in zip(problems, rngs(3), strict=True)]
    assert all(np.allclose(a, b, atol=1e-8) for a, b in zip(together, alone, strict=True))


def test_many_texts_are_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [problem(seed, n=3 + seed) for seed in range(5)]
    whole = optimise(problems, rngs(5), FEW)
    monkeypatch.setattr(adversary_search, "MAX_BATCH_WEIGHTS", 60)
    parts = optimise(problems, rngs(5), FEW)
    assert all(np.allclose(a, b, atol=1e-8) for a, b in zip(whole, parts, strict=True))


def test_candidates_are_distributions_even_beside_a_weight_of_zero() -> None:
    p = problem(0, n=5)
    p = replace(p, attention=np.array([[0.0, 0.5, 0.5, 0.0, 0.0]]))
    result = optimise([p], rngs(1), FEW)[0]
    assert result.shape == (5, 1, 5)
    assert result.sum(-1) == pytest.approx(1)
    assert (result >= 0).all()


def test_without_a_candidate_that_keeps_the_output_the_original_remains() -> None:
    p = problem(0, scale=50.0)
    far = np.eye(12)[[int(np.abs(p.effects[0, :, 0] - p.effects[0, :, 1]).argmax())]][None]
    assert farthest_candidate(p.attention, far, p.change(far), 1e-6).jsd == 0
    assert farthest_candidate(p.attention, far, p.change(far), 1e-6).change == 0


def test_a_search_without_candidates_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^candidates is a whole number of at least 1, not 0"):
        Search(candidates=0)
