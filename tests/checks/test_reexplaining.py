"""The checks that explain again: another text, another model, another seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
import torch
from numpy.typing import NDArray

from heedful.checks import similarity as alike
from heedful.checks.base import Case
from heedful.checks.randomisation import Randomisation, copied, randomise, staged
from heedful.checks.sensitivity import FUNCTION_WORDS, Sensitivity
from heedful.checks.similarity import evenly, likeness, overlap
from heedful.checks.stability import Stability, sampled
from heedful.checks.tables import StabilityTables
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution
from heedful.core.finding import Finding, place
from heedful.core.target import Target
from heedful.core.tokens import words
from heedful.data import Example
from heedful.methods import method
from heedful.methods.explain import run_method
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.nets.hierarchical import Hierarchical, HierarchicalShape
from heedful.nets.transformer import Transformer, TransformerShape
from tests.support import cases, models, toys

FAST = ("attention-mean", "gradient-x-input", "random", "uniform", "position")
TEXT = "The film was not funny, but its ending moved me to tears."
Floats = NDArray[np.float64]


def value(found: Sequence[Finding], measure: str, method: str = "", **at: Any) -> float:
    """The one finding of this measure, method and place."""
    (only,) = [f for f in found if (f.measure, f.method, f.place) == (measure, method, place(_at(at)))]
    return only.value


def _at(at: Mapping[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): x for name, x in at.items()}


def same(one: Sequence[Finding], other: Sequence[Finding]) -> bool:
    key = [(f.check, f.method, f.measure, f.place) for f in one]
    if key != [(f.check, f.method, f.measure, f.place) for f in other]:
        return False
    return bool(np.allclose([f.value for f in one], [f.value for f in other], rtol=1e-4, atol=1e-6, equal_nan=True))


def answering(texts: list[Any]) -> Floats:
    yes = np.array([0.9 if "good" in text else 0.2 for text in texts])
    return np.stack([1 - yes, yes], 1)


# likeness


def test_tau_is_scipys_of_the_magnitudes() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 30))
    assert likeness(a, b)["tau"] == pytest.approx(scipy.stats.kendalltau(abs(a), abs(b)).statistic, abs=1e-12)


def test_jsd_is_scipys_of_the_normalised_magnitudes() -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 30))
    outside = scipy.spatial.distance.jensenshannon(abs(a) / abs(a).sum(), abs(b) / abs(b).sum()) ** 2
    assert likeness(a, b)["jsd"] == pytest.approx(outside, abs=1e-12)


def test_distance_keeps_signs() -> None:
    assert likeness(np.array([3.0, 4.0]), np.array([-3.0, -4.0]))["distance"] == 2


def test_the_others_do_not_know_signs() -> None:
    found = likeness(np.array([3.0, 4.0]), np.array([-3.0, -4.0]))
    assert (found["tau"], found["jsd"], found["top-k overlap"]) == (1, 0, 1)


def test_an_explanation_is_like_itself() -> None:
    a = np.array([0.0, 0.0, 1.0, -2.0, 0.0, 0.5, 0.0])
    assert likeness(a, a) == {"tau": pytest.approx(1), "top-k overlap": 1, "jsd": 0, "distance": 0}


def test_overlap_counts_the_top_fifth() -> None:
    a, b = (
        np.random.default_rng(2).permutation(20).astype(float),
        np.random.default_rng(3).permutation(20).astype(float),
    )
    shared = set(np.argsort(-a)[:4]) & set(np.argsort(-b)[:4])
    assert overlap(a, b) == len(shared) / 4


def test_ties_share_the_last_place() -> None:
    """Three words tie for one place: over all ways to break the tie, one of three has the other's word there."""
    a, b = np.array([1.0, 1.0, 1.0, 0.0]), np.array([2.0, 0.0, 0.0, 1.0])
    tops = [max(range(4), key=lambda i, order=order: (a[i], order[i])) for order in permutations(range(4))]  # type: ignore[misc]
    assert overlap(a, b) == pytest.approx(np.mean([top == 0 for top in tops]))


def test_the_order_of_words_does_not_matter_to_an_overlap_with_ties() -> None:
    a, b = np.array([1.0, 1, 1, 0, 0, 0, 2, 0, 0, 0]), np.array([0.0, 1, 1, 0, 5, 0, 0, 0, 1, 0])
    assert overlap(a, b) == pytest.approx(overlap(a[::-1], b[::-1]))


def test_rounding_is_no_order() -> None:
    a = np.array([1.0, 0.0, 0.0, 0.0])
    assert likeness(a, a + 1e-9 * np.array([0, 1, -2, 3]))["tau"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("a", "nothing"),
    [
        ([2.0, 2.0, 2.0], {"tau", "top-k overlap"}),
        ([0.0, 0.0, 0.0], {"tau", "top-k overlap", "jsd", "distance"}),
        ([2.0], {"tau", "top-k overlap", "jsd"}),
    ],
)
def test_what_does_not_exist_is_nan(a: list[float], nothing: set[str]) -> None:
    found = likeness(np.array(a), np.arange(1.0, len(a) + 1))
    assert {name for name, x in found.items() if math.isnan(x)} == nothing


def test_evenly_spaced_with_the_last() -> None:
    assert [evenly(5, 2), evenly(5, None), evenly(2, 7), evenly(5, 1), evenly(12, 3)] == [
        [2, 4], [0, 1, 2, 3, 4], [0, 1], [4], [3, 7, 11],
    ]  # fmt: skip


def test_words_are_compared_by_their_place_and_not_by_pieces() -> None:
    """Two tokenizers cut words into other pieces; the words stay."""
    why = [
        Attribution(tokens=t, scores=np.array([0.0 if w is None else float(w) for w in t.words]))
        for t in (models.shared(family).tokens("A dull short film") for family in ("bert", "roberta"))
    ]
    assert list(alike.by_word(why[0])) == list(alike.by_word(why[1])) == [0, 1, 2, 3]


# sensitivity: the changes


def texts_of(check: Sensitivity, text: str, kind: str) -> list[str]:
    return [change.text for change in check.of(text) if change.kind == kind]


def test_changes_of_case() -> None:
    assert texts_of(Sensitivity(), "Good film", "case") == ["good film", "GOOD FILM"]


def test_changes_of_punctuation() -> None:
    assert texts_of(Sensitivity(), "Good, bad, ugly", "punctuation") == [
        "Good, bad, ugly.", "Good bad, ugly", "Good, bad ugly",
    ]  # fmt: skip


def test_a_final_full_stop_goes_and_an_ellipsis_stays() -> None:
    assert texts_of(Sensitivity(), "Good.", "punctuation") == ["Good"]
    assert texts_of(Sensitivity(), "Good...", "punctuation") == []


def test_dropped_function_words() -> None:
    assert texts_of(Sensitivity(), "The end of it", "stop word") == ["end of it", "The end it", "The end of"]


def test_negations_are_never_dropped() -> None:
    assert not {"not", "no", "never", "nor", "neither", "without", "but", "n't", "hardly"} & FUNCTION_WORDS


def test_every_word_that_stays_is_found_again() -> None:
    text = "The film , a good one, was not  funny (it's of 1,000 kinds): the end. "
    for change in Sensitivity(limit=99).of(text, "And is the pair, too"):
        old, new = ([t[slice(*s)] for t in both for s in words(t)] for both in _both(text, change))
        assert all(old[i].casefold() == new[j].casefold() for i, j in change.moved.items())
        assert len(old) - len(change.moved) == (1 if len(new) < len(old) else 0)


def _both(text: str, change: Any) -> list[tuple[str, str]]:
    return [(text, "And is the pair, too"), (change.text, change.pair)]


def test_synonyms_stand_where_their_word_stood(tmp_path: Path) -> None:
    file = tmp_path / "synonyms.txt"
    file.write_text("film, movie\tmotion picture\n\ndull,boring\n")
    found = [c for c in Sensitivity(synonyms=str(file)).of("A dull film Film") if c.kind == "synonym"]
    assert [(c.text, dict(c.moved)) for c in found] == [
        ("A boring film Film", {0: 0, 1: 1, 2: 2, 3: 3}),
        ("A dull movie Film", {0: 0, 1: 1, 2: 2, 3: 3}),
        ("A dull motion picture Film", {0: 0, 1: 1, 3: 4}),
    ]


@pytest.mark.parametrize("content", [b"film\n", b"\n \n", b"\xff\xfe\xfa", None])
def test_synonyms_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "synonyms.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadInput, match=r"synonyms\.txt"):
        Sensitivity(synonyms=str(file))


# sensitivity: the numbers


def test_a_change_that_an_uncased_tokenizer_does_not_show_is_unread() -> None:
    found = Sensitivity()(cases.one(models.shared("bert"), TEXT, FAST))
    assert value(found, "unread", change="case") == 1
    assert math.isnan(value(found, "tau", "gradient-x-input", change="case"))


def test_a_cased_tokenizer_reads_them() -> None:
    found = Sensitivity()(cases.one(models.shared("roberta"), TEXT, FAST))
    assert value(found, "unread", change="case") == 0


def test_sensitivity_as_computed_by_hand() -> None:
    case = cases.one(models.shared("bilstm"), "Dull film", ("gradient-x-input",))
    classifier, tokens = case.classifier, case.classifier.tokens("Dull film.")
    why = run_method(classifier, method("gradient-x-input"), [tokens], [case.target], 0)[0]
    assert isinstance(why, Attribution)
    a, b = ([alike.by_word(x)[i] for i in (0, 1)] for x in (case.attributions["gradient-x-input"], why))
    kept = classifier.predictions([tokens])[0].index == case.prediction.index
    expected = math.dist(a, b) / math.hypot(*a) if kept else math.nan
    found = Sensitivity()(case)
    assert value(found, "distance", "gradient-x-input", change="punctuation") == pytest.approx(expected, nan_ok=True)
    assert kept


def test_the_largest_change_of_any_kind_is_the_largest_of_all() -> None:
    found = Sensitivity()(cases.one(models.shared("bilstm"), TEXT, FAST))
    each = [value(found, "largest change", "attention-mean", change=k) for k in Sensitivity().kinds]
    assert value(found, "largest change", "attention-mean", change="any") == np.nanmax(each)


def test_position_does_not_mind_a_full_stop_more() -> None:
    found = Sensitivity()(cases.one(models.shared("bilstm"), "Dull film music story", FAST))
    assert value(found, "tau", "position", change="punctuation") == pytest.approx(1)


def test_a_change_of_the_label_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "synonyms.txt"
    file.write_text("good,fine\n")
    case = cases.one(Plain(answering), "a good film", ("leave-one-out", "random"))
    found = Sensitivity(synonyms=str(file))(case)
    assert value(found, "label changed", change="synonym") == 1
    assert math.isnan(value(found, "distance", "leave-one-out", change="synonym"))


def test_unchanged_reasons_leave_a_function_of_one_word_as_it_was() -> None:
    case = cases.one(Plain(answering), "a good film", ("leave-one-out", "random"))
    found = Sensitivity()(case)
    assert value(found, "largest change", "leave-one-out", change="stop word") == 0
    assert value(found, "label changed", change="stop word") == 0


def test_the_largest_of_several_unrelated_explanations_is_larger() -> None:
    found = Sensitivity()(cases.one(models.shared("bilstm"), TEXT, FAST))
    assert value(found, "largest change", "random", change="any") > value(found, "distance", "random", change="any") > 0


def test_a_kind_of_change_that_a_text_does_not_have_is_nan() -> None:
    found = Sensitivity()(cases.one(models.shared("bert"), "Dull", FAST))
    of = [f.value for f in found if f.at == {"change": "stop word"}]
    assert of
    assert all(math.isnan(x) for x in of)


def test_a_regression_has_no_label_to_change() -> None:
    classifier = models.build("bert", labels=1, problem_type="regression")
    found = Sensitivity()(cases.one(classifier, TEXT, FAST))
    assert math.isnan(value(found, "label changed", change="any"))
    assert not math.isnan(value(found, "tau", "gradient-x-input", change="stop word"))


def test_sensitivity_costs_no_more_than_it_says() -> None:
    case = cases.one(models.build("roberta"), TEXT, ("leave-one-out", "gradient-x-input", "random"))
    said = Sensitivity().passes(case.classifier, case.tokens, case.methods)
    before = case.classifier.forwards, case.classifier.backwards
    Sensitivity()(case)
    assert case.classifier.forwards - before[0] <= said.forwards
    assert 0 < case.classifier.backwards - before[1] <= said.backwards


# randomisation


@pytest.mark.parametrize("family", models.DIVERSE)
def test_every_weight_is_in_one_stage(family: str) -> None:
    classifier = models.shared(family)
    tensors = [id(t) for stage in staged(classifier) for t in stage.tensors.values()]
    assert sorted(tensors) == sorted(id(p) for p in classifier.model.parameters())


def names(classifier: Classifier) -> list[str]:
    return [stage.name.split(".")[-1] if "layer" in stage.name else stage.name for stage in staged(classifier)]


def net(model: Any) -> Classifier:
    return Classifier(models.loud(model), models.tokenizer("wordpiece"), name="net")


def test_stages_go_from_the_head_down() -> None:
    n = len(models.tokenizer("wordpiece"))
    assert names(models.shared("bert")) == ["head", "1", "0", "embeddings"]
    assert names(models.shared("bart")) == ["head", "1", "0", "1", "0", "embeddings"]
    assert names(models.shared("bilstm")) == ["decoder", "score", "encoder", "words"]
    assert names(models.shared("multihead")) == ["out", "value", "key", "query", "words"]
    assert names(net(Hierarchical(HierarchicalShape(n, 3, embedding=8, hidden=4)))) == [
        "out", "sentence_level", "word_level", "words",
    ]  # fmt: skip


def test_a_transformer_goes_block_by_block() -> None:
    n = len(models.tokenizer("wordpiece"))
    shape = TransformerShape(n, 3, width=8, inner=8, heads=2, layers=2)
    assert names(net(Transformer(shape))) == ["head", "blocks.1", "blocks.0", "embeddings"]


def test_what_stands_between_blocks_goes_with_the_one_before() -> None:
    stages = {name: stage for stage in staged(models.shared("t5")) for name in stage.tensors}
    assert stages["transformer.encoder.final_layer_norm.weight"].name == "transformer.encoder.block.1"


def test_shuffled_weights_are_the_same_numbers_elsewhere() -> None:
    tensor = torch.arange(24.0).reshape(4, 6)
    randomise({"w": tensor}, "shuffle", 0)
    assert tensor.flatten().sort().values.tolist() == list(range(24))
    assert tensor.flatten().tolist() != list(range(24))


def test_normal_weights_have_the_mean_and_spread_of_the_old() -> None:
    tensor = torch.linspace(-1, 7, 20_000)
    mean, spread = float(tensor.mean()), float(tensor.std())
    randomise({"w": tensor}, "normal", 0)
    assert float(tensor.mean()) == pytest.approx(mean, abs=0.05)
    assert float(tensor.std()) == pytest.approx(spread, rel=0.02)


def test_chance_is_of_the_seed_and_the_name() -> None:
    made = [torch.arange(50.0) for _ in range(4)]
    for tensor, name, seed in zip(made, "aaab", (0, 0, 1, 0), strict=True):
        randomise({name: tensor}, "shuffle", seed)
    assert [bool((made[0] == other).all()) for other in made[1:]] == [True, False, False]


def test_a_copy_with_nothing_randomised_says_the_same() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    copy = Classifier(copied(case.classifier), case.classifier.tokenizer)
    randomise({}, "shuffle", 0)
    (why,) = run_method(copy, case.methods["gradient-x-input"], [case.tokens], [case.target])
    assert alike.compared(case.attributions["gradient-x-input"], why).values["tau"] == pytest.approx(1)


@pytest.mark.parametrize("family", ["bert", "bilstm", "multihead", "bart"])
def test_the_users_model_is_never_changed(family: str) -> None:
    classifier = models.build(family)
    before = classifier.fingerprint
    Randomisation(stages=2)(cases.one(classifier, TEXT, FAST))
    assert classifier.fingerprint == before
    assert not any(m._forward_pre_hooks for m in classifier.model.modules())


def test_the_users_model_is_not_changed_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = models.build("bert")
    case, before = cases.one(classifier, TEXT, FAST), classifier.fingerprint

    def broken(*_: Any) -> None:
        raise BadInput("on purpose.")

    monkeypatch.setattr(Randomisation, "_stage", broken)
    with pytest.raises(BadInput):
        Randomisation()(case)
    assert classifier.fingerprint == before


@pytest.mark.parametrize("family", ["bert", "bilstm"])
def test_another_model_gives_another_explanation(family: str) -> None:
    found = Randomisation()(cases.one(models.shared(family), TEXT, FAST))
    assert value(found, "similarity of fully random", "gradient-x-input") < 0.9
    assert value(found, "output change", stage=4, layers="all") > 0


def test_attention_does_not_see_the_head() -> None:
    """What is above attention cannot change it: the first stage of a network whose head is apart leaves it whole."""
    found = Randomisation()(cases.one(models.shared("bilstm"), TEXT, FAST))
    assert value(found, "tau", "attention-mean", stage=1, layers="decoder") == pytest.approx(1)
    assert value(found, "jsd", "attention-mean", stage=1, layers="decoder") == pytest.approx(0, abs=1e-9)
    assert value(found, "tau", "attention-mean", stage=2, layers="score") < 1


def test_a_pointer_toys_attention_goes_with_its_layer() -> None:
    text = "ape bee yes cat dog elk fox gnu"
    found = Randomisation()(cases.one(toys.build("bert", toys.POINTER), text, FAST))
    assert value(found, "jsd", "attention-mean", stage=1, layers="head") == pytest.approx(0, abs=1e-9)
    assert value(found, "jsd", "attention-mean", stage=2, layers="bert.encoder.layer.1") > 0.1


def test_position_knows_nothing_of_the_model() -> None:
    found = Randomisation(stages=1)(cases.one(models.shared("bert"), TEXT, FAST))
    assert value(found, "similarity of fully random", "position") == pytest.approx(1)


def test_unrelated_explanations_stand_beside_each_stage() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    scores = [np.array(list(alike.by_word(draw).values())) for draw in case.draws]
    pairs = zip(scores, scores[1:] + scores[:1], strict=True)
    expected = np.mean([scipy.stats.kendalltau(a, b).statistic for a, b in pairs])
    found = Randomisation(stages=1)(case)
    assert value(found, "tau", "random", stage=4, layers="all") == pytest.approx(expected, abs=1e-6)


def test_fewer_stages_meet_the_same_models() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    every, some = Randomisation()(case), Randomisation(stages=2)(case)
    place_ = {"stage": 2, "layers": "bert.encoder.layer.1"}
    assert value(every, "tau", "gradient-x-input", **place_) == value(some, "tau", "gradient-x-input", **place_)


@pytest.mark.parametrize(
    "check", [Sensitivity(), Randomisation(stages=2), Randomisation(stages=1, how="normal"), Stability(seeds=1)]
)
def test_several_texts_at_once_are_as_one_by_one(check: Any) -> None:
    several = cases.many(models.shared("bilstm"), [TEXT, "Dull.", Example("good film", "a story")], FAST)
    together, alone = check.many(several), [check(case) for case in several]
    assert [same(a, b) for a, b in zip(together, alone, strict=True)] == [True, True, True]


def test_a_function_has_no_weights() -> None:
    with pytest.raises(Unsupported, match="has no weights to randomise"):
        Randomisation()(cases.one(Plain(answering), "a good film", ("leave-one-out",)))


def test_randomisation_costs_no_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases.one(models.shared("bilstm"), TEXT, ("leave-one-out", "random"))
    made: list[Classifier] = []
    start = Classifier.__init__

    def counted(self: Classifier, *args: Any) -> None:
        start(self, *args)
        made.append(self)

    monkeypatch.setattr(Classifier, "__init__", counted)
    said = Randomisation().passes(case.classifier, case.tokens, case.methods)
    Randomisation()(case)
    assert 0 < sum(c.forwards for c in made) <= said.forwards


# stability


def with_others(case: Case, **others: Classifier) -> Case:
    return replace(case, others=others)


def test_a_method_without_chance_is_exactly_itself_with_another_seed() -> None:
    found = Stability()(cases.one(models.shared("bert"), TEXT, FAST))
    assert value(found, "tau", "gradient-x-input", with_="seed") == pytest.approx(1)
    assert value(found, "distance", "gradient-x-input", with_="seed") == 0
    assert value(found, "jsd", "gradient-x-input", with_="seed") == 0


def test_a_method_that_draws_is_compared_over_seeds() -> None:
    lime = method("lime", {"samples": 40})
    case = cases.one(models.shared("bilstm"), TEXT, (lime, "random"))
    why = case.attributions["lime"]
    others = [run_method(case.classifier, lime, [case.tokens], [case.target], seed)[0] for seed in (1, 2, 3)]
    expected = np.mean([alike.compared(why, other).values["distance"] for other in others])
    found = Stability()(case)
    assert value(found, "distance", "lime", with_="seed") == pytest.approx(expected)
    assert expected > 0


def test_more_samples_bring_an_estimate_nearer() -> None:
    """With many more samples, lime is nearer to itself with another seed than with few."""
    sizes = []
    for samples in (30, 1000):
        case = cases.one(models.shared("bilstm"), TEXT, (method("lime", {"samples": samples}),))
        sizes.append(value(Stability()(case), "distance", "lime", with_="seed"))
    assert sizes[1] < sizes[0]


def test_settings_that_are_multiplied() -> None:
    assert sampled(method("lime", {"samples": 50}), 2) == method("lime", {"samples": 100})
    assert sampled(method("integrated-gradients", {"steps": 4}), 3) == method("integrated-gradients", {"steps": 12})
    assert sampled(method("lime", {"samples": "auto"}), 2) is None
    assert sampled(method("gradient-l2"), 2) is None


def test_the_same_checkpoint_is_no_change() -> None:
    case = cases.one(models.shared("bert"), TEXT, FAST)
    found = Stability(seeds=1)(with_others(case, twin=models.build("bert")))
    assert value(found, "output change", with_="checkpoint:twin") == 0
    assert value(found, "attention jsd", with_="checkpoints") == 0
    assert value(found, "distance", "gradient-x-input", with_="checkpoint:twin") == 0


@pytest.mark.parametrize("family", ["bert", "bilstm"])
def test_another_checkpoint_is_compared_word_by_word(family: str) -> None:
    case = cases.one(models.shared(family), TEXT, FAST)
    others = {f"s{i}": models.build(family, seed=i) for i in (1, 2, 3)}
    found = Stability(seeds=1)(with_others(case, **others))
    whys = [run_method(o, method("attention-mean"), [case.tokens], [case.target], 0)[0] for o in others.values()]
    jsds = [alike.compared(case.attributions["attention-mean"], why).values["jsd"] for why in whys]
    said = [torch.tensor(o.predictions([case.tokens])[0].probabilities) for o in others.values()]
    own = torch.tensor(case.prediction.probabilities)
    assert value(found, "attention jsd", with_="checkpoints") == pytest.approx(np.median(jsds))
    assert value(found, "output change", with_="checkpoint:s1") == pytest.approx(float((said[0] - own).abs().sum() / 2))


def test_labels_are_matched_by_name() -> None:
    """The same network with its labels in another order gives the same answers, so nothing changes."""
    twin = models.build("bilstm")
    twin.model.config.labels = ("LABEL_2", "LABEL_0", "LABEL_1")
    with torch.no_grad():
        for p in (twin.model.decoder.weight, twin.model.decoder.bias):
            p.copy_(p[[2, 0, 1]].clone())
    found = Stability(seeds=1)(with_others(cases.one(models.shared("bilstm"), TEXT, FAST), twin=twin))
    assert value(found, "output change", with_="checkpoint:twin") == pytest.approx(0, abs=1e-7)
    assert value(found, "distance", "gradient-x-input", with_="checkpoint:twin") == pytest.approx(0, abs=1e-6)


def test_a_checkpoint_with_other_labels_is_a_number_that_does_not_exist() -> None:
    case = with_others(cases.one(models.shared("bilstm"), TEXT, FAST), four=models.build("bilstm", labels=4))
    found = Stability(seeds=1)(case)
    (change,) = [f for f in found if f.measure == "output change"]
    assert math.isnan(change.value)
    assert "give checkpoints of the same training" in change.details["reason"]
    assert math.isnan(value(found, "tau", "gradient-x-input", with_="checkpoint:four"))


def test_another_vocabulary_is_compared_on_words() -> None:
    case = with_others(cases.one(models.shared("bert"), "good film story", FAST), other=models.build("roberta"))
    found = Stability(seeds=1)(case)
    assert not math.isnan(value(found, "tau", "gradient-x-input", with_="checkpoint:other"))
    assert value(found, "tau", "position", with_="checkpoint:other") <= 1


def test_a_checkpoint_that_reads_fewer_words_is_told_apart() -> None:
    other = models.build("bert")
    other.limit = 6
    found = Stability(seeds=1)(with_others(cases.one(models.shared("bert"), TEXT, FAST), short=other))
    (tau,) = [f for f in found if (f.measure, f.method, f.at) == ("tau", "position", {"with": "checkpoint:short"})]
    assert math.isnan(tau.value)
    assert "other words" in tau.details["reason"]


def test_a_function_has_no_attention_to_compare() -> None:
    case = cases.one(Plain(answering), "a good film", ("leave-one-out", "random"))
    found = Stability(seeds=1)(with_others(case, twin=Plain(answering)))
    assert value(found, "output change", with_="checkpoint:twin") == 0
    assert math.isnan(value(found, "attention jsd", with_="checkpoints"))
    assert value(found, "distance", "leave-one-out", with_="checkpoint:twin") == 0


class Stand:
    """Found, as far as tables need it."""

    def __init__(self, jsd: Floats, largest: Floats, predicted: NDArray[np.int64]) -> None:
        self.jsd, self.largest = jsd, largest
        self.texts = {"predicted": predicted}
        self.labels = ("neg", "pos")

    def values(self, measure: str, method: str = "", at: Any = None) -> Floats:
        return self.jsd if (measure, at) == ("attention jsd", {"with": "checkpoints"}) else self.largest


def test_the_table_of_divergence_by_attention_and_label() -> None:
    rng = np.random.default_rng(0)
    jsd, largest, predicted = rng.random(200), rng.random(200), rng.integers(0, 2, 200)
    jsd[::7] = np.nan
    largest[3] = 1.0
    rows = Stability().tables(Stand(jsd, largest, predicted)).attention_jsd  # type: ignore[arg-type]
    twin = {
        (name, low): [
            j for j, a, p in zip(jsd, largest, predicted, strict=True)
            if p == label and min(int(a * 4), 3) == low and not math.isnan(j)
        ]
        for label, name in enumerate(("neg", "pos")) for low in range(4)
    }  # fmt: skip
    assert [r.n for r in rows] == [len(x) for x in twin.values()]
    assert [r.median for r in rows] == pytest.approx([np.median(x) for x in twin.values()])


def test_without_checkpoints_there_is_no_table() -> None:
    nothing = np.full(3, np.nan)
    assert Stability().tables(Stand(nothing, nothing, np.zeros(3, np.int64))) == StabilityTables()  # type: ignore[arg-type]


def test_stability_costs_no_more_than_it_says() -> None:
    lime = method("lime", {"samples": 40})
    case = cases.one(models.build("bilstm"), TEXT, (lime, "gradient-x-input", "random"))
    said = Stability().passes(case.classifier, case.tokens, case.methods)
    before = case.classifier.forwards
    Stability()(case)
    assert 0 < case.classifier.forwards - before <= said.forwards


# all three


CHECKS = (Sensitivity(), Randomisation(stages=2), Stability(seeds=1))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
@pytest.mark.parametrize(
    "example", [Example("Dull"), Example("Dull film"), Example("good film", "a story, one")], ids=str
)
@pytest.mark.parametrize("labels", [1, 10])
def test_every_finding_is_a_known_measure_once(check: Any, example: Example, labels: int) -> None:
    found = check(cases.one(models.shared("bert", labels), example, FAST))
    keys = [(f.method, f.measure, f.place) for f in found]
    assert len(set(keys)) == len(keys)
    assert {f.measure for f in found} <= set(check.measures)
    assert not any(math.isinf(f.value) for f in found)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_a_saturated_model_has_no_gradient_to_compare(check: Any) -> None:
    classifier = models.build("bilstm")
    with torch.no_grad():
        classifier.model.decoder.bias.copy_(torch.tensor([0.0, 1e4, 0.0]))
    case = cases.one(classifier, TEXT, FAST, target=Target(scale="probability"))
    found = [f for f in check(case) if f.method == "gradient-x-input" and f.measure in ("tau", "distance")]
    assert not case.attributions["gradient-x-input"].scores.any()
    assert found
    assert all(math.isnan(f.value) for f in found)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_a_network_of_two_levels_is_explained_again(check: Any) -> None:
    shape = HierarchicalShape(len(models.tokenizer("wordpiece")), 3, embedding=8, hidden=4)
    found = check(cases.one(net(Hierarchical(shape)), TEXT, FAST))
    assert any(f.measure == "tau" and f.method == "attention-mean" and not math.isnan(f.value) for f in found)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_methods_are_chosen_by_any_of_their_names(check: Any) -> None:
    case = cases.one(models.shared("bilstm"), TEXT, FAST)
    found = replace(check, methods=("gxi", "lime"))(case)
    assert {f.method for f in found} == {"", "gradient-x-input", "random", "uniform", "position"} - (
        {""} if isinstance(check, Stability) else set()
    )


@pytest.mark.parametrize("settings", [{"limit": 0}])
def test_sensitivity_refuses_what_means_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"^limit is a whole number of at least 1, not 0"):
        Sensitivity(**settings)


@pytest.mark.parametrize("settings", [{"stages": 0}, {"how": "noise"}])
def test_randomisation_refuses_what_means_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=str(next(iter(settings.values())))):
        Randomisation(**settings)


@pytest.mark.parametrize("settings", [{"seeds": 0}, {"factor": 1}])
def test_stability_refuses_what_means_nothing(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(settings))):
        Stability(**settings)
