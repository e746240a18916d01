"""The check on models: every attention that it reports really gives the output that it claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from heedful.checks.adversarial import Adversarial
from heedful.checks.adversarial_rows import affine_problem, attention_decoder, query_attentions
from heedful.checks.base import Case
from heedful.checks.tables import AdversarialTables
from heedful.core.errors import BadInput, Unsupported
from heedful.core.finding import Finding
from heedful.data import Example
from heedful.model.classifier import Classifier
from heedful.nets import MultiHead, MultiHeadShape
from heedful.nets.hierarchical import Hierarchical, HierarchicalShape
from heedful.nets.pair import Pair, PairShape
from heedful.nets.single import Single, SingleShape
from tests.support import models, toys
from tests.support.cases import many, one

FAST = Adversarial(steps=60)
LONG, SHORT = models.TEXTS[0], "Dull."
ROUNDING = 2e-5


def case(classifier: Classifier, text: str | Example = LONG) -> Case:
    return one(classifier, text, ())


def numbers(found: Sequence[Finding]) -> dict[str, list[float]]:
    names = dict.fromkeys(f.measure for f in found)
    return {name: [f.value for f in found if f.measure == name] for name in names}


def value(found: Sequence[Finding], measure: str, **at: Any) -> float:
    (number,) = [f.value for f in found if f.measure == measure and at.items() <= dict(f.at).items()]
    return number


@cache
def single(labels: int = 2, **more: Any) -> Classifier:
    t = models.tokenizer("wordpiece")
    torch.manual_seed(0)
    shape = SingleShape(len(t), labels, embedding=8, hidden=6, special=(t.cls_token_id, t.sep_token_id), **more)
    return Classifier(models.loud(Single(shape), 0, 0.5), t, name="tiny-single")


@cache
def pair() -> Classifier:
    t = models.tokenizer("wordpiece")
    torch.manual_seed(0)
    shape = PairShape(len(t), 3, embedding=8, hidden=6, special=(t.cls_token_id, t.sep_token_id))
    return Classifier(models.loud(Pair(shape), 0, 0.5), t, name="tiny-pair")


@cache
def hierarchical(flat: bool, labels: int = 3) -> Classifier:
    t = models.tokenizer("wordpiece")
    torch.manual_seed(0)
    shape = HierarchicalShape(
        len(t), labels, flat=flat, embedding=6, hidden=3, longest=4, pad_token_id=t.pad_token_id,
        ends=tuple(t.convert_tokens_to_ids([".", ","])), special=(t.cls_token_id, t.sep_token_id, t.pad_token_id),
    )  # fmt: skip
    return Classifier(models.loud(Hierarchical(shape), scale=0.8), t, name=f"tiny-{'flan' if flat else 'han'}")


ONE_QUERY: Mapping[str, Any] = {
    "bilstm": lambda: models.shared("bilstm", 2),
    "bilstm of 10 classes": lambda: models.shared("bilstm", 10),
    "single": single,
    "average": lambda: single(encoder="average"),
    "sparsemax": lambda: single(activation="sparsemax"),
    "multihead": lambda: models.shared("multihead"),
    "multihead with padding": lambda: models.multihead(2, masked=False),
    "flan": lambda: hierarchical(True),
    "han": lambda: hierarchical(False),
    "toy": lambda: toys.build("bilstm", toys.mix(0.5)),
}


# one query


@pytest.mark.parametrize("name", ONE_QUERY)
def test_effects_are_what_each_token_alone_gives(name: str) -> None:
    """The slow way: all of a head's attention on one token, for each, through the model."""
    (text,) = query_attentions(case(ONE_QUERY[name](), "yes ape bee" if name == "toy" else LONG), -1)
    problem = affine_problem(text)
    assert problem is not None
    heads, n = problem.attention.shape
    ones = np.stack(
        [
            np.where(np.arange(heads)[:, None] == h, np.eye(n)[t], problem.attention)
            for h in range(heads)
            for t in range(n)
        ]
    )
    real = text.answers(text.rows(ones))[1:].numpy()
    assert problem.answers(ones) == pytest.approx(real, abs=1e-5 * max(1, np.abs(real).max()))


@pytest.mark.parametrize("name", ONE_QUERY)
def test_what_is_reported_really_keeps_the_output(name: str) -> None:
    found = numbers(FAST(case(ONE_QUERY[name](), "yes ape bee" if name == "toy" else LONG)))
    changed = [x for measure, numbers in found.items() if measure.startswith("change") for x in numbers]
    assert len(changed) == 2
    assert max(changed) <= FAST.epsilon + ROUNDING


@pytest.mark.parametrize("name", ["bilstm", "single", "average", "sparsemax", "toy"])
def test_the_search_never_exceeds_the_exact_answer(name: str) -> None:
    texts = toys.texts(4) if name == "toy" else [*models.TEXTS]
    for found in FAST.many(many(ONE_QUERY[name](), texts, ())):
        assert value(found, "jsd found") <= value(found, "jsd exact") + 1e-9


@pytest.mark.parametrize("name", ["bilstm of 10 classes", "multihead", "multihead with padding", "flan", "han"])
def test_the_bracket_holds_what_is_found(name: str) -> None:
    found = FAST(case(ONE_QUERY[name]()))
    assert max(value(found, "jsd found"), value(found, "jsd lower")) <= value(found, "jsd upper") + 1e-7
    assert value(found, "tvd lower") <= value(found, "tvd upper") + 1e-7


@pytest.mark.parametrize("name", ["bilstm", "multihead"])
def test_the_picture_is_of_the_attention_that_was_measured(name: str) -> None:
    checked = case(ONE_QUERY[name]())
    (text,) = query_attentions(checked, -1)
    (best,) = (f for f in FAST(checked) if f.measure in ("jsd exact", "jsd lower"))
    rows = text.rows(np.array(best.details["adversarial"])[None][..., text.keys.numpy()])
    own = np.array(best.details["attention"])
    assert text.changes(rows)[0] <= FAST.epsilon + ROUNDING
    assert own == pytest.approx(text.spread(text.attention))


def test_several_texts_at_once_are_as_one_by_one() -> None:
    cases = many(models.shared("bilstm", 2), models.TEXTS, ())
    together, alone = FAST.many(cases), [FAST(c) for c in cases]
    assert [[f.measure for f in found] for found in together] == [[f.measure for f in found] for found in alone]
    for a, b in zip(together, alone, strict=True):
        assert [f.value for f in a] == pytest.approx([f.value for f in b], abs=1e-6)


def test_one_word_has_one_attention() -> None:
    found = FAST(case(single(), "Dull"))
    assert value(found, "max attention") == 1
    assert value(found, "jsd exact") == value(found, "tvd exact") == value(found, "jsd found") == 0


@pytest.mark.parametrize(("labels", "name"), [(2, "jsd exact"), (3, "jsd upper")])
def test_a_text_without_a_word_to_attend_to_has_no_number(labels: int, name: str) -> None:
    t = models.tokenizer("wordpiece")
    shape = SingleShape(len(t), labels, embedding=8, hidden=6, special=tuple(range(len(t))))
    found = numbers(FAST(case(Classifier(models.loud(Single(shape)), t, name="tiny-blind"))))
    assert name in found
    assert all(np.isnan(x) for numbers in found.values() for x in numbers)


def test_a_saturated_model_lets_attention_go_anywhere() -> None:
    classifier = models.bilstm(2)
    with torch.no_grad():
        classifier.model.decoder.bias[1] += 60
    found = FAST(case(classifier))
    (text,) = query_attentions(case(classifier), -1)
    assert value(found, "tvd exact") == pytest.approx(1 - text.attention.min())
    assert value(found, "change exact") == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("problem_type", ["regression", "multi_label_classification"])
def test_one_output_has_an_exact_answer(problem_type: str) -> None:
    classifier = models.bilstm(1)
    classifier.model.config.problem_type = problem_type
    found = FAST(case(classifier))
    assert value(found, "jsd found") <= value(found, "jsd exact") + 1e-9
    assert 0 < value(found, "change exact") <= FAST.epsilon + ROUNDING


def test_several_labels_that_do_not_exclude_each_other_have_a_bracket() -> None:
    classifier = models.bilstm(3)
    classifier.model.config.problem_type = "multi_label_classification"
    found = FAST(case(classifier))
    assert classifier.head == "sigmoid"
    assert max(value(found, "jsd found"), value(found, "jsd lower")) <= value(found, "jsd upper") + 1e-7
    assert max(numbers(found)["change lower"] + numbers(found)["change found"]) <= FAST.epsilon + ROUNDING


def test_an_integer_program_agrees_with_the_exact_answer() -> None:
    found = Adversarial(steps=0, bounded=1.0, milp_seconds=20)(case(models.shared("bilstm", 2)))
    assert value(found, "tvd bound") == pytest.approx(value(found, "tvd exact"), abs=2e-4)


# a decoder that is not affine


ASKED = Example(LONG, "two sisters")


def test_a_decoder_with_tanh_is_not_taken_for_affine() -> None:
    (text,) = query_attentions(case(pair(), ASKED), -1)
    assert affine_problem(text) is None


def test_the_decoder_of_a_pair_is_the_networks() -> None:
    (text,) = query_attentions(case(pair(), ASKED), -1)
    decode = attention_decoder(text)
    assert decode is not None
    some = np.random.default_rng(0).dirichlet(np.ones(len(text.keys)), size=(4, 1))
    real = text.answers(text.rows(some))[1:]
    assert torch.allclose(decode(torch.from_numpy(some)[None])[0], real, atol=1e-5)


def test_a_pair_has_a_witness_and_a_search() -> None:
    found = FAST(case(pair(), ASKED))
    assert value(found, "jsd witness", delta=0.0) > 0.05
    assert value(found, "change witness", delta=0.0) < ROUNDING
    assert value(found, "jsd found") > 0
    assert value(found, "change found") <= FAST.epsilon + ROUNDING


def test_what_the_decoder_reads_of_a_pair_leaves_more_room_than_all_that_is_mixed() -> None:
    (text,) = query_attentions(case(pair(), ASKED), -1)
    assert text.projected().shape[1] == text.values(0).shape[1] // 2


# Transformers


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "bart", "t5", "xlnet", "deberta-v2", "falcon"])
def test_a_witness_that_leaves_what_is_read_leaves_the_output(family: str) -> None:
    found = FAST(case(models.shared(family)))
    held = [f.value for f in found if f.measure == "change witness" and f.at["delta"] == 0]
    assert max(held) < ROUNDING
    assert max(f.value for f in found if f.measure == "jsd witness" and f.at["delta"] == 0) > 0.01


def layered(masked: bool) -> Classifier:
    t = models.tokenizer("wordpiece")
    shape = MultiHeadShape(
        len(t), 3, embedding=16, attention=8, value=8, heads=2, max_position_embeddings=40, layers=2, masked=masked,
        pad_token_id=t.pad_token_id,
    )  # fmt: skip
    return Classifier(models.loud(MultiHead(shape)), t, name="tiny-layers")


@pytest.mark.parametrize("masked", [True, False])
def test_a_network_of_several_layers_has_witnesses_too(masked: bool) -> None:
    found = Adversarial(layer="all", delta=(0.0,))(case(layered(masked)))
    assert len(numbers(found)["jsd witness"]) == 4
    assert min(numbers(found)["jsd witness"]) > 0.01
    assert max(numbers(found)["change witness"]) < ROUNDING


def test_of_several_pooled_positions_one_is_drawn() -> None:
    drawn = {query_attentions(case(models.shared("modernbert"), text), -1)[0].query for text in models.TEXTS}
    assert len(drawn) > 1


@pytest.mark.parametrize("family", ["bert", "modernbert", "mistral", "gemma2"])
def test_more_room_reaches_further_and_stays_within_its_bound(family: str) -> None:
    found = FAST(case(models.shared(family)))
    for head in (0, 1):
        small, large = (value(found, "jsd witness", head=head, delta=d) for d in (0.0, 0.05))
        assert small <= large <= value(found, "jsd bound", head=head, delta=0.05) + 1e-7


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_without_a_null_space_there_is_no_other_row(family: str) -> None:
    found = FAST(case(models.shared(family), Example("good", "bad") if family == "bert" else "good"))
    assert numbers(found)["null dimension"] == [0, 0]
    assert [f.value for f in found if f.measure == "jsd witness" and f.at["delta"] == 0] == [0, 0]


def test_the_null_dimension_is_tokens_less_the_head_and_the_sum() -> None:
    checked = case(models.shared("bert"))
    assert numbers(FAST(checked))["null dimension"] == [len(checked.tokens) - 8 - 1] * 2


def test_all_layers_are_read() -> None:
    found = Adversarial(layer="all", delta=(0.0,))(case(models.shared("bert")))
    assert [(f.at["layer"], f.at["head"]) for f in found if f.measure == "jsd witness"] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert max(numbers(found)["change witness"]) < ROUNDING


def test_only_the_pooled_row_of_one_head_is_changed() -> None:
    (text,) = query_attentions(case(models.shared("bert")), 0)
    other = np.full(len(text.keys), 1 / len(text.keys))
    clf = text.case.classifier

    def slow(site: Any, weights: torch.Tensor) -> torch.Tensor:
        new = weights.clone()
        if site.layer == 0:
            new[:, 1, 0] = torch.from_numpy(other).to(new)
        return new

    with torch.no_grad(), clf.attention(slow):
        real = clf.logits(text.batch)
    assert text.query == 0
    assert torch.allclose(text.answers([text.row(1, other)])[1], real[0].double(), atol=1e-5)


def test_an_integer_program_bounds_each_witness() -> None:
    found = Adversarial(delta=(0.05,), bounded=1.0, milp_seconds=5)(case(models.shared("bert"), SHORT))
    for head in (0, 1):
        assert value(found, "tvd witness", head=head) <= value(found, "tvd bound", head=head) + 1e-6


def test_the_share_that_is_bounded_is_drawn() -> None:
    cases = many(models.shared("bert"), ["good", "bad", "good film", "bad film", "good music", "awful"], ())
    found = Adversarial(delta=(0.0,), bounded=0.5)
    drawn = sum(f.measure == "tvd bound" for c in cases for f in found(c))
    assert 0 < drawn < 2 * len(cases)


# known answers


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
def test_a_deaf_model_cannot_tell_any_attention_from_its_own(architecture: str) -> None:
    found = FAST(case(toys.build(architecture, toys.DEAF), "ape yes bee cat"))
    name = "exact" if architecture == "bilstm" else "witness"
    assert min(numbers(found)[f"tvd {name}"]) > 0.999
    assert max(numbers(found)[f"change {name}"]) < 1e-6


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
def test_a_pointer_cannot_look_elsewhere(architecture: str) -> None:
    found = FAST(case(toys.build(architecture, toys.POINTER), "ape yes bee cat"))
    name = "exact" if architecture == "bilstm" else "witness"
    assert max(numbers(found)[f"jsd {name}"]) < 0.1


@pytest.mark.parametrize("architecture", toys.ARCHITECTURES)
def test_a_pointer_that_looks_elsewhere_answers_otherwise(architecture: str) -> None:
    (text,) = query_attentions(case(toys.build(architecture, toys.POINTER), "ape yes bee cat"), -1)
    elsewhere = np.eye(len(text.keys))[int(text.attention[0].argmin())]
    assert text.changes([text.row(0, elsewhere)])[0] > 0.1


# what the check says of itself


@pytest.mark.parametrize("name", ["bilstm", "multihead", "han"])
def test_passes_are_no_fewer_than_asked_for(name: str) -> None:
    classifier = ONE_QUERY[name]()
    checked = case(classifier)
    classifier.check_attention()
    before = classifier.forwards, classifier.backwards
    FAST(checked)
    said = FAST.passes(classifier, checked.tokens, {})
    assert classifier.forwards - before[0] <= said.forwards <= 15
    assert classifier.backwards - before[1] == said.backwards


@pytest.mark.parametrize("layer", [-1, "all"])
def test_passes_of_a_transformer(layer: Any) -> None:
    classifier, check = models.shared("bert"), Adversarial(layer=layer)
    checked = case(classifier)
    before = classifier.forwards
    check(checked)
    assert check.passes(classifier, checked.tokens, {}).forwards == classifier.forwards - before


@pytest.mark.parametrize(
    "classifier", [single, pair, lambda: models.shared("multihead"), lambda: models.shared("bert")]
)
def test_every_measure_is_named(classifier: Any) -> None:
    found = Adversarial(steps=5, bounded=1.0, milp_seconds=0.1)(case(classifier(), ASKED))
    assert {f.measure for f in found} <= set(Adversarial.measures)
    assert {(f.check, f.method) for f in found} == {("adversarial", "")}


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(Unsupported, match="tiny-fnet"):
        FAST(case(models.build("fnet")))


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="layer 7"):
        Adversarial(layer=7)(case(models.shared("bert")))


@pytest.mark.parametrize(
    "wrong", [{"epsilon": -0.1}, {"delta": (0.0, -1.0)}, {"bounded": 1.5}, {"milp_seconds": 0.0}, {"candidates": 0}]
)
def test_settings_out_of_range_are_refused(wrong: Any) -> None:
    with pytest.raises(BadInput, match=rf"^{next(iter(wrong))} is a .* not "):
        Adversarial(**wrong)


class Stand:
    """Findings of four texts, as a run gives them."""

    labels = ("no", "yes")
    texts: Mapping[str, Any] = {"predicted": np.array([0, 1, 1, 1])}
    table: Mapping[str, Any] = {
        "jsd found": np.array([0.1, 0.69, 0.61, np.nan]), "max attention": np.array([0.2, 0.3, 0.4, 1.0])
    }  # fmt: skip

    def places(self, measure: str, method: str | None = None) -> list[dict[str, Any]]:
        return [{}] if measure in self.table else []

    def values(self, measure: str, method: str = "", at: Any = None) -> Any:
        return self.table[measure]


def test_tables_count_texts_by_label_and_by_the_largest_weight() -> None:
    (table,) = FAST.tables(Stand()).found  # type: ignore[arg-type]
    groups = [(g.label, g.start, g.end, g.n, g.median) for g in table.groups]
    assert groups == [
        ("no", 0, 0.25, 1, 0.1),
        ("yes", 0.25, 0.5, 2, pytest.approx(0.65)),
        ("yes", 0.75, 1, 0, pytest.approx(np.nan, nan_ok=True)),
    ]
    assert (table.n, sum(table.counts), len(table.counts)) == (3, 3, 40)
    assert [i for i, n in enumerate(table.counts) if n] == [5, 34, 39]


def test_tables_of_nothing_are_none() -> None:
    nothing = SimpleNamespace(places=lambda measure: [])
    assert FAST.tables(nothing) == AdversarialTables()  # type: ignore[arg-type]


def test_the_farthest_head_is_one_of_them() -> None:
    found = FAST(case(models.shared("bert")))
    for delta in FAST.delta:
        own = {f.at["head"]: f.value for f in found if f.measure == "tvd witness" and f.at["delta"] == delta}
        (best,) = (f for f in found if f.measure == "tvd any head" and f.at["delta"] == delta)
        assert best.value == max(own.values()) == own[best.details["head"]]
