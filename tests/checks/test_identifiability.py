"""Null spaces of attention: against numpy and scipy, brute force, and models whose answer is known."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import null_space
from scipy.optimize import linprog
from scipy.stats import pearsonr
from torch import Tensor

from heedful.checks.base import Case
from heedful.checks.identifiability import Identifiability
from heedful.checks.identifiability_values import Sources
from heedful.checks.tables import IdentifiabilityTables
from heedful.core.arrays import Floats
from heedful.core.decode import decode
from heedful.core.errors import BadInput, Unsupported
from heedful.core.files import json_value
from heedful.core.finding import Finding, Place
from heedful.data import Example
from heedful.maths.formulas import effective_attention
from heedful.maths.nullspace import Around, constrained, effective_rank, numerical_rank, pearson, reduced
from heedful.methods.attention import read_shares
from heedful.model.classifier import Classifier, Reading
from heedful.model.function import Plain
from heedful.nets.transformer import Transformer, TransformerShape
from tests.nets.test_hierarchical import TEXT as SENTENCES
from tests.nets.test_hierarchical import classifier as hierarchical
from tests.support import toys
from tests.support.cases import one
from tests.support.findings import every_field
from tests.support.interventions import Table, single
from tests.support.models import DIVERSE, TEXTS, build, loud, shared, tokenizer
from tests.support.toys import DEAF, POINTER

EPS = float(torch.finfo(torch.float32).eps)
toy = cache(toys.build)


def case_of(classifier: Classifier, text: str | Example = TEXTS[0]) -> Case:
    return one(classifier, text, ())


def value(found: list[Finding], measure: str, **at: Any) -> float:
    (number,) = [f.value for f in found if f.measure == measure and f.at == at]
    return number


def numbers(found: list[Finding], measure: str) -> list[float]:
    return [f.value for f in found if f.measure == measure]


def read(classifier: Classifier, case: Case) -> Reading:
    return classifier.read(classifier.batch([case.tokens]), values=True)


def bag(width: int = 32, **more: Any) -> Classifier:
    """A Transformer without positions: equal words have equal values in every layer."""
    t = tokenizer("wordpiece")
    shape = TransformerShape(
        len(t), 3, pad_token_id=t.pad_token_id, layers=2, heads=1, width=width, inner=24, positions=False,
        pooling="cls", **more,
    )  # fmt: skip
    return Classifier(loud(Transformer(shape)), t, name="tiny-bag")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# the mathematics


@pytest.mark.parametrize(("n", "d", "inner"), [(6, 4, 4), (4, 6, 4), (7, 5, 2), (5, 5, 1), (1, 3, 1)])
def test_rank_is_numpys(n: int, d: int, inner: int) -> None:
    matrix = random(n, inner) @ random(inner, d, seed=1)
    assert numerical_rank(matrix, max(n, d), EPS) == np.linalg.matrix_rank(matrix.numpy()) == inner


def test_the_rank_of_nothing_is_none() -> None:
    assert numerical_rank(torch.zeros(4, 3), 4, EPS) == 0


@pytest.mark.parametrize("wide", [3, 4, 9])
def test_the_shorter_form_of_t_has_its_singular_values_and_null_space(wide: int) -> None:
    values, out = random(2, 7, 4), random(2, 4, wide, seed=1)
    short, whole = reduced(values, out), values @ out
    assert short.shape == (2, 7, min(4, wide))
    k = short.shape[-1]
    assert torch.allclose(torch.linalg.svdvals(short), torch.linalg.svdvals(whole)[:, :k])
    assert torch.allclose(effective_attention(random(2, 3, 7), short), effective_attention(random(2, 3, 7), whole))


@pytest.mark.parametrize(
    ("n", "d", "scale"), [(6, 3, 1.0), (6, 3, 1e6), (6, 3, 1e-6), (4, 8, 1.0), (5, 1, 1.0), (1, 2, 1.0)]
)
def test_the_constrained_null_space_is_scipys(n: int, d: int, scale: float) -> None:
    matrix = random(n, d) * scale
    basis = constrained(matrix, max(n, d), EPS)
    true = null_space(np.c_[matrix.numpy() / scale, np.ones(n)].T)
    assert basis.shape == true.shape
    assert basis.numpy() @ basis.numpy().T == pytest.approx(true @ true.T, abs=1e-9)


def test_of_zero_values_only_the_sum_is_left() -> None:
    assert constrained(torch.zeros(5, 3, dtype=torch.float64), 5, EPS).shape == (5, 4)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_effective_rank_counts_directions(scale: float) -> None:
    assert effective_rank(torch.eye(5, dtype=torch.float64) * scale + 7, EPS) == pytest.approx(4)
    line = torch.arange(5.0, dtype=torch.float64)[:, None] * random(1, 3) * scale
    assert effective_rank(line, EPS) == pytest.approx(1)


def test_equal_rows_have_no_direction() -> None:
    assert np.isnan(effective_rank(torch.ones(5, 3, dtype=torch.float64) / 3, EPS))


def test_pearson_is_scipys() -> None:
    x, y = random(4, 5), random(4, 5, seed=1)
    assert pearson(x, y, EPS) == pytest.approx(pearsonr(x.flatten().numpy(), y.flatten().numpy()).statistic)


def test_a_constant_has_no_correlation() -> None:
    assert np.isnan(pearson(torch.full((9,), 1 / 9, dtype=torch.float64), random(9), EPS))


def problem(n: int, d: int, seed: int) -> tuple[Around, Floats]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d))
    return Around(rng.dirichlet(np.ones(n)), null_space(np.c_[values, np.ones(n)].T)), values


def exact(around: Around) -> float:
    """All 2^n patterns of signs."""

    def best(signs: tuple[float, ...]) -> float:
        fixed = around.fixed
        found = linprog(-np.array(signs), A_eq=fixed, b_eq=fixed @ around.weights, bounds=(0, None))
        return float(np.abs(found.x - around.weights).sum() / 2)

    return max(best(signs) for signs in product((-1.0, 1.0), repeat=len(around.weights)))


@pytest.mark.parametrize(("n", "d", "seed"), [(5, 1, 0), (6, 2, 1), (6, 4, 2), (6, 3, 3)])
def test_the_farthest_is_found_and_bounded(n: int, d: int, seed: int) -> None:
    around, _ = problem(n, d, seed)
    true = exact(around)
    found = np.abs(around.farthest(6, np.random.default_rng(0)) - around.weights).sum() / 2
    assert found == pytest.approx(true, abs=1e-6)
    assert true - 1e-7 <= around.bound(True) <= around.bound(False) + 1e-7 <= 1 + 1e-7


@pytest.mark.parametrize(("n", "d"), [(12, 8), (30, 8), (30, 28), (30, 29)])
def test_the_farthest_is_a_distribution_that_says_the_same(n: int, d: int) -> None:
    around, values = problem(n, d, 0)
    found = around.farthest(2, np.random.default_rng(0))
    assert found.min() >= -1e-12
    assert found.sum() == pytest.approx(1)
    assert found @ values == pytest.approx(around.weights @ values, abs=1e-9)


def test_in_one_dimension_weight_goes_from_one_twin_to_the_other() -> None:
    direction = np.array([1.0, 0.0, -1.0, 0.0])[:, None] / 2**0.5
    around = Around(np.array([0.3, 0.2, 0.4, 0.1]), direction)
    assert around.farthest(0, np.random.default_rng(0)) == pytest.approx([0.7, 0.2, 0.0, 0.1])
    assert around.bound(False) == around.bound(True) == pytest.approx(0.4)


def test_where_all_is_fixed_nothing_is_far() -> None:
    around = Around(np.array([0.3, 0.7]), np.zeros((2, 0)))
    assert around.farthest(3, np.random.default_rng(0)) == pytest.approx([0.3, 0.7])
    assert around.bound(True) == around.bound(False) == 0


def test_a_token_that_cannot_move_is_in_no_bound() -> None:
    kernel = null_space(np.array([[1.0, 0, 0, 0], [1, 1, 1, 1]]))
    around = Around(np.array([0.6, 0.2, 0.1, 0.1]), kernel)
    assert around.bound(False) <= 0.4 + 1e-9
    assert around.bound(True) == pytest.approx(0.3, abs=0.11)


# where values come from


@pytest.mark.parametrize("family", [name for name in DIVERSE if name not in ("deberta", "bilstm")])
def test_values_are_what_is_read_times_their_map(family: str) -> None:
    """Up to a bias, which is the same for every token."""
    classifier = shared(family)
    case = case_of(classifier)
    with Sources() as sources:
        reading, _ = read_shares(classifier, [case.tokens], values=True)
    for site in reading.layers(classifier.main_kind):
        values = reading.values[site][0].detach()
        source = sources.of(classifier, values)
        assert source is not None
        assert source.weight is not None
        bias = values - source.read @ source.weight
        assert torch.allclose(bias, bias[:, :1].expand_as(bias), atol=1e-4)


def test_the_value_map_of_bert_is_its_own() -> None:
    classifier = shared("bert")
    with Sources() as sources:
        reading, _ = read_shares(classifier, [case_of(classifier).tokens], values=True)
    for layer, site in zip(classifier.model.bert.encoder.layer, reading.layers("self"), strict=True):
        source = sources.of(classifier, reading.values[site][0].detach())
        true = layer.attention.self.value.weight.T.reshape(16, 2, 8).permute(1, 0, 2)
        assert source is not None
        assert torch.equal(source.weight, true)


def test_where_the_map_is_not_seen_its_numbers_do_not_exist() -> None:
    """DeBERTa adds a bias of its own after the map."""
    found = Identifiability()(case_of(shared("deberta")))
    hidden = {f.measure for f in found if np.isnan(f.value)}
    assert hidden == {"rank E", "effective rank E", "rank W_V"}
    assert all("could not be recorded" in f.details["reason"] for f in found if np.isnan(f.value))


def test_states_that_are_read_as_they_are_have_no_map() -> None:
    found = Identifiability()(case_of(single()))
    assert np.isnan(value(found, "rank W_V", layer=0, head=0))
    assert value(found, "rank E", layer=0) == value(found, "rank V", layer=0, head=0) == 12


# on models


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "llama", "multihead", "bilstm"])
def test_ranks_and_null_spaces_are_those_of_the_matrices(family: str) -> None:
    classifier = shared(family)
    case = case_of(classifier)
    found, reading = Identifiability(starts=0)(case), read(classifier, case)
    for site in reading.layers(classifier.main_kind):
        values, out = reading.values[site][0].detach().double(), reading.projections[site].weight.detach().double()
        for head in range(len(values)):
            place = {"layer": site.layer, "head": head}
            whole = (values[head] @ out[head]).numpy()
            size, n = max(whole.shape), len(whole)
            tall = np.linalg.matrix_rank(whole, rtol=size * EPS)
            assert value(found, "rank T", **place) == tall
            assert value(found, "null", **place) == n - tall
            assert value(found, "rank H", **place) == np.linalg.matrix_rank(out[head].numpy())
            wide = np.c_[whole / np.linalg.norm(whole, 2), np.full(n, n**-0.5)]
            assert value(found, "null constrained", **place) == n - np.linalg.matrix_rank(wide, rtol=size * EPS)


@pytest.mark.parametrize("family", ["bert", "bart", "multihead"])
def test_effective_attention_gives_the_same_output(family: str) -> None:
    """A⊥ T = A T, and its correlation with A is scipy's."""
    classifier = shared(family)
    case = case_of(classifier)
    found, reading = Identifiability(starts=0)(case), read(classifier, case)
    site = reading.layers(classifier.main_kind)[-1]
    weights, values = reading.weights[site][0].detach().double(), reading.values[site][0].detach().double()
    whole = values @ reading.projections[site].weight.detach().double()
    effective = effective_attention(weights, whole, EPS)
    assert torch.allclose(effective @ whole, weights @ whole, atol=1e-5)
    for head in range(len(weights)):
        true = pearsonr(weights[head].flatten(), effective[head].flatten()).statistic
        assert value(found, "correlation", layer=site.layer, head=head) == pytest.approx(true, abs=1e-6)


def test_a_short_text_is_identifiable() -> None:
    """n ≤ d_v, and no two tokens alike."""
    found = Identifiability()(case_of(shared("bert"), "film"))
    assert set(numbers(found, "null")) == set(numbers(found, "null constrained")) == {0.0}
    assert set(numbers(found, "farthest")) == set(numbers(found, "farthest bound")) == {0.0}
    assert numbers(found, "correlation") == pytest.approx([1.0] * 4)


@pytest.mark.parametrize("family", DIVERSE)
def test_a_long_text_is_not(family: str) -> None:
    found = Identifiability(layer=0, starts=1)(case_of(shared(family)))
    every = dict.fromkeys(f.at["layer"] for f in found)
    for layer in every:
        least = value(found, "least null", layer=layer)
        assert all(f.value >= least for f in found if f.measure == "null" and f.at["layer"] == layer)
    assert {f.measure for f in found} == set(Identifiability.measures)
    assert all(
        far <= bound for far, bound in zip(numbers(found, "farthest"), numbers(found, "farthest bound"), strict=True)
    )


def test_a_word_that_stands_twice_can_give_its_weight_to_itself() -> None:
    classifier = bag()
    case = case_of(classifier, "good film good")
    assert len(case.tokens) == 5
    found, reading = Identifiability(layer="all")(case), read(classifier, case)
    for site in reading.layers("self"):
        weights = reading.weights[site][0, 0, 0].detach().double().numpy()
        place = {"layer": site.layer, "head": 0}
        assert value(found, "null", **place) == value(found, "null constrained", **place) == 1
        assert value(found, "farthest", **place) == pytest.approx(max(weights[1], weights[3]), rel=1e-4)
        assert value(found, "farthest bound", **place) == value(found, "farthest", **place)


def test_a_deaf_model_may_attend_anywhere() -> None:
    """T = 0: the farthest distribution has all its weight where there is least, and effective attention is 0."""
    case = case_of(toy("bert", DEAF), toys.texts(1)[0])
    found = Identifiability(starts=4, tight=True)(case)
    n, place = len(case.tokens), {"layer": 1, "head": 0}
    weights = read(case.classifier, case).weights
    least = float(next(w for s, w in weights.items() if s.layer == 1)[0, 0, 0].detach().min())
    assert value(found, "null", **place) == n
    assert value(found, "null constrained", **place) == n - 1
    assert value(found, "farthest", **place) == pytest.approx(1 - least, abs=1e-6)
    assert np.isnan(value(found, "correlation", **place))


@pytest.mark.usefixtures("bf16")
def test_half_precision_counts_as_zero_what_it_cannot_tell() -> None:
    """In bfloat16 the tolerance is that of bfloat16, and all is measured."""
    classifier = Classifier(build("bert").model.bfloat16(), tokenizer("wordpiece"), name="half")
    found = Identifiability(starts=1)(case_of(classifier))
    assert all(np.isfinite(f.value) for f in found)
    assert min(numbers(found, "null")) >= 10


def test_one_token_has_nowhere_to_go() -> None:
    found = Identifiability()(case_of(toy("gpt2", POINTER), "yes"))
    assert set(numbers(found, "keys")) == {1.0}
    assert set(numbers(found, "null constrained")) == set(numbers(found, "farthest")) == {0.0}
    assert all(np.isnan(numbers(found, "correlation")))


def test_special_tokens_take_their_share() -> None:
    classifier = shared("bert")
    case = case_of(classifier)
    weights = read(classifier, case).weights
    true = [float(w[0, h][:, [0, -1]].detach().sum(-1).mean()) for w in weights.values() for h in (0, 1)]
    assert numbers(Identifiability(starts=0)(case), "special mass") == pytest.approx(true, rel=1e-5)


def test_without_starts_there_is_no_search() -> None:
    found = Identifiability(starts=0)(case_of(shared("bert")))
    assert not numbers(found, "farthest")


def test_the_other_attention_can_be_looked_at() -> None:
    classifier = shared("bert")
    case = case_of(classifier)
    far = [f for f in Identifiability()(case) if f.measure == "farthest"]
    values = next(v for s, v in read(classifier, case).values.items() if s.layer == 1)[0].detach().double().numpy()
    assert [f.at for f in far] == [{"layer": 1, "head": 0}, {"layer": 1, "head": 1}]
    for head, f in enumerate(far):
        other, own = np.array(f.details["other"]), np.array(f.details["weights"])
        assert other @ values[head][f.details["keys"]] == pytest.approx(own @ values[head][f.details["keys"]], abs=1e-6)
        assert f.value > 0.01


def test_both_levels_of_a_hierarchical_network() -> None:
    found = Identifiability()(case_of(hierarchical(), SENTENCES))
    assert {f.at["layer"] for f in found} == {0, "sentence"}


def test_a_pair_and_ten_labels() -> None:
    case = case_of(build("bert", labels=10), Example(TEXTS[0], pair=TEXTS[1]))
    assert set(numbers(Identifiability()(case), "keys")) == {float(len(case.tokens))}


def test_passes_are_what_is_asked() -> None:
    classifier = shared("bert")
    case = case_of(classifier)
    before = classifier.forwards
    Identifiability()(case)
    assert classifier.forwards - before == Identifiability().passes(classifier, case.tokens, {}).forwards == 1


def test_a_function_has_no_attention() -> None:
    plain = Plain(lambda texts: np.full((len(texts), 2), 0.5), name="coin")
    with pytest.raises(Unsupported):
        Identifiability()(case_of(plain, "a text"))


def test_wrong_settings() -> None:
    with pytest.raises(BadInput, match=r"^starts is a whole number of at least 0, not -1"):
        Identifiability(starts=-1)
    with pytest.raises(BadInput, match="layer 7 is not one of"):
        Identifiability(layer=7)(case_of(shared("bert")))


# tables


def table(texts: tuple[str, ...] = TEXTS) -> Any:
    cases = [case_of(shared("bert"), text) for text in texts]
    return Table([Identifiability(starts=0)(case) for case in cases], length=[len(case.tokens) for case in cases])


def test_tables_are_json() -> None:
    made = Identifiability().tables(table())
    stored = json.loads(json.dumps(json_value(asdict(made)), allow_nan=False))
    assert every_field(decode(IdentifiabilityTables, stored)) == every_field(made)


def test_the_identity_is_looked_at_everywhere() -> None:
    made = Identifiability().tables(table())
    assert (made.bound_examined, made.bound_held) == (16, 16)


def test_every_text_is_in_one_bin_of_lengths() -> None:
    made = Identifiability().tables(table()).by_length
    assert sum(row.null.n for row in made) == len(TEXTS)
    assert all(one.end < other.start for one, other in pairwise(made))
    assert [row.null.mean for row in made] == sorted(row.null.mean for row in made)


def test_texts_of_one_length_are_one_bin() -> None:
    (row,) = Identifiability().tables(table(("film", "good"))).by_length
    assert (row.start, row.end, row.null.n) == (3, 3, 2)


def test_numbers_that_do_not_exist_are_left_out_of_means() -> None:
    def text(*correlations: float) -> list[Finding]:
        def at(head: int) -> Place:
            return {"layer": 0, "head": head}

        rest = [Finding("", "", "null", 1.0, at(head)) for head in (0, 1)]
        return [*rest, *(Finding("", "", "correlation", c, at(head)) for head, c in enumerate(correlations))]

    made = Identifiability().tables(Table([text(0.2, 0.4), text(0.6, np.nan), text(np.nan, np.nan)], length=[3, 3, 3]))  # type: ignore[arg-type]
    assert made.by_layer[0].correlation.mean == pytest.approx(0.45)
    assert made.by_layer[0].correlation.n == 2
