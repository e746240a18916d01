"""The engine: whatever is asked together, each variant gets the answer that it would get alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import stdev
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.core.arrays import Ints
from heedful.core.errors import BadInput
from heedful.core.target import Target
from heedful.methods.conformance import as_array, snapshot
from heedful.methods.explain import explain
from heedful.model import inference
from heedful.model.batch import Batch, Padding
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.inference import Answers, Engine, answers
from heedful.model.masking import Variants
from heedful.model.probes import PROBE
from tests.model.test_masking import by_hand, edited, masks
from tests.support.models import EVERY, TEXTS, build, shared

PAIR = ("The film was unbelievably good", "The music was not good")


@pytest.fixture(autouse=True)
def _fast_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "has_bf16_units", lambda: True)  # whatever machine this runs on


def asked(classifier: Classifier, way: str = "delete", n: int = 9) -> list[Variants]:
    """Variants of two texts of different lengths and of a pair."""
    texts = [classifier.tokens(*text) for text in ((TEXTS[0], None), ("Dull", None), PAIR)]
    return [Variants(t, masks(n, len(t), seed), way) for seed, t in enumerate(texts)]


def lists(classifier: Classifier, variants: Sequence[Variants]) -> list[Any]:
    """Ids, types and visible positions of each variant, by editing lists."""
    return [edited(classifier, one.tokens, row, one.way) for one in variants for row in one.keep]


def alone(classifier: Classifier, variants: Sequence[Variants]) -> Tensor:
    """The twin: each variant through the classifier by itself, without padding."""
    rows = []
    for ids, types, seen in lists(classifier, variants):
        visible = torch.tensor([seen])
        segments = None if types is None else torch.tensor([types])
        with torch.no_grad():
            rows.append(classifier.logits(Batch(torch.tensor([ids]), visible.long(), segments, ~visible))[0])
    return torch.stack(rows).double()


def off(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def spied(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """Every batch that the classifier is given from now on."""
    batches: list[Batch] = []
    real = classifier.logits

    def logits(batch: Batch, *args: Any, **more: Any) -> Tensor:
        batches.append(batch)
        return real(batch, *args, **more)

    monkeypatch.setattr(classifier, "logits", logits)
    return batches


@contextmanager
def before(classifier: Classifier, do: Callable[[Tensor], None]) -> Iterator[None]:
    """Inside, `do(ids)` is called at the start of each forward pass."""

    def hook(_: Any, args: Any, inputs: Any) -> None:
        do(inputs["input_ids"])

    handle = classifier.model.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


# right, in any company


@pytest.mark.parametrize("family", EVERY)
def test_answers_are_those_of_each_variant_alone(family: str) -> None:
    classifier = shared(family)
    for way in ("delete", "attention" if classifier.mask_hides_words else "unk"):
        variants = asked(classifier, way)
        twin = alone(classifier, variants)
        assert twin.std(0).min() > 1e-3  # loud enough to notice
        for budget in (64, 4096):
            result = answers(classifier, variants, budget=budget)
            assert off(result.logits, twin) < 1e-5, (way, budget)


@pytest.mark.parametrize("family", ["bert", "xlnet", "gpt2", "bart", "deberta-v2", "modernbert", "bilstm"])
def test_order_and_company_do_not_matter(family: str) -> None:
    classifier = shared(family)
    variants = asked(classifier)
    together = answers(classifier, variants).logits
    apart = torch.cat([answers(classifier, [one]).logits for one in variants])
    assert off(together, apart) < 1e-5
    order = np.random.default_rng(0).permutation(len(variants[0]))
    shuffled = Variants(variants[0].tokens, variants[0].keep[order], "delete")
    assert off(answers(classifier, [*variants[1:], shuffled]).logits[-len(order) :], together[order]) < 1e-5


@pytest.mark.parametrize("family", ["bert", "distilbert", "modernbert", "xlnet", "mpnet", "electra"])
def test_a_hidden_word_is_an_attention_mask(family: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(TEXTS[0])
    keep = masks(6, len(tokens))
    result = answers(classifier, [Variants(tokens, keep, "attention")]).logits
    seen = keep | np.array(tokens.special)
    twin = [by_hand(classifier, tokens.ids, row.tolist(), tokens.types) for row in seen]
    assert off(result, torch.stack(twin).double()) < 1e-5


@pytest.mark.parametrize("family", ["bert", "xlnet", "mistral", "gemma2", "modernbert"])
def test_hidden_words_stay_hidden_beside_padding(family: str) -> None:
    classifier = shared(family)
    assert classifier.mask_hides_words
    variants = asked(classifier, "attention", n=3)  # too few of a length to run by themselves
    assert off(answers(classifier, variants).logits, alone(classifier, variants)) < 1e-5


def test_a_single_logit_answers_for_two_labels() -> None:
    classifier = build("bert", labels=1)
    variants = asked(classifier)
    result = answers(classifier, variants).logits
    assert result.shape == (27, 2)
    assert torch.equal(result[:, 0], -result[:, 1])
    assert off(result, alone(classifier, variants)) < 1e-5


def test_a_model_that_cannot_be_padded_runs_equal_lengths_only(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = build("bert")
    vars(classifier)["padding"] = None
    batches = spied(classifier, monkeypatch)
    variants = asked(classifier)
    result = answers(classifier, variants)
    assert all(bool(batch.mask.all()) for batch in batches)
    monkeypatch.undo()
    assert off(result.logits, alone(classifier, variants)) < 1e-5


def test_an_encoder_decoder_never_mixes_different_numbers_of_end_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bart")
    tokens = classifier.tokens("The film</s> was good</s> not funny")
    ends = classifier.tokenizer.eos_token_id
    assert tokens.ids.count(ends) == 3
    variants = [Variants(tokens, masks(30, len(tokens)))]
    batches = spied(classifier, monkeypatch)
    result = answers(classifier, variants)
    assert all(len(set((batch.ids == ends).sum(1).tolist())) == 1 for batch in batches)
    monkeypatch.undo()
    assert off(result.logits, alone(classifier, variants)) < 1e-5


def test_more_than_512_tokens() -> None:
    classifier = build("bert", max_position_embeddings=700)
    tokens = classifier.tokens("not funny but good music " * 110)
    assert len(tokens) > 512
    variants = [Variants(tokens, masks(4, len(tokens)), way) for way in ("delete", "mask")]
    assert off(answers(classifier, variants).logits, alone(classifier, variants)) < 1e-5


def test_values_are_the_targets() -> None:
    classifier = shared("bert")
    result = answers(classifier, asked(classifier))
    target = Target(2, "probability", against=0)
    chances = result.logits.softmax(-1)
    assert result.values(classifier, target) == pytest.approx((chances[:, 2] - chances[:, 0]).numpy(), abs=1e-12)


# each input once


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "multihead"])
@pytest.mark.parametrize("way", ["delete", "unk"])
def test_as_many_rows_run_as_there_are_distinct_inputs(family: str, way: str) -> None:
    classifier = shared(family)
    variants = asked(classifier, way, n=40)
    distinct = {repr(row) for row in lists(classifier, variants)}
    assert len(distinct) < sum(map(len, variants))
    start = classifier.forwards
    result = answers(classifier, variants)
    assert classifier.forwards - start == len(distinct) == result.distinct


def test_the_same_input_is_the_same_number() -> None:
    classifier = shared("bert")
    variants = asked(classifier, n=40)
    rows = [repr(row) for row in lists(classifier, variants)]
    result = answers(classifier, variants)
    assert [rows.index(row) for row in rows] == [result.which.tolist().index(i) for i in result.which]
    for i, j in enumerate(result.which.tolist().index(w) for w in result.which):
        assert torch.equal(result.logits[i], result.logits[j])


def test_an_engine_remembers_what_it_has_run() -> None:
    classifier = shared("bert")
    variants = asked(classifier, n=20)
    engine = Engine(classifier)
    first = engine.ask(variants[:2])
    start = classifier.forwards
    again = engine.ask(variants[:2])
    assert classifier.forwards == start
    assert torch.equal(first.logits, again.logits)
    more = engine.ask(variants)
    new = {repr(r) for r in lists(classifier, variants)} - {repr(r) for r in lists(classifier, variants[:2])}
    assert classifier.forwards - start == len(new)
    assert off(more.logits, alone(classifier, variants)) < 1e-5


def test_what_is_shared_runs_once_and_still_counts() -> None:
    clf = build("bert")
    wanted = answers(clf, asked(clf)).logits
    ran: list[int] = []
    once = clf.run
    clf.run = lambda batch: ran.append(len(batch)) or once(batch)  # type: ignore[method-assign, func-returns-value]
    with inference.sharing(clf):
        first, before = answers(clf, asked(clf)), clf.forwards
        runs = sum(ran)
        second = answers(clf, asked(clf))
    assert torch.equal(first.logits, second.logits)
    assert torch.allclose(first.logits, wanted, atol=1e-6)
    assert sum(ran) == runs
    assert clf.forwards - before == first.distinct == clf.recalled
    assert clf.answered is None


def test_sharing_ends_with_its_block_also_after_an_error() -> None:
    clf = build("bert")
    with pytest.raises(RuntimeError), inference.sharing(clf):
        raise RuntimeError
    assert clf.answered is None


def test_a_function_of_texts_is_asked_once_too() -> None:
    asked_for: list[str] = []

    def predict(texts: list[str]) -> list[list[float]]:
        asked_for.extend(texts)
        return [[0.25, 0.75] for _ in texts]

    clf = Plain(predict)
    tokens = clf.tokens("good bad great")
    variants = [Variants(tokens, masks(6, len(tokens), 0), "delete")]
    with inference.sharing(clf):
        answers(clf, variants)
        before = len(asked_for)
        answers(clf, variants)
    assert len(asked_for) == before


def test_nothing_is_the_same_input_whatever_text_it_is_left_of() -> None:
    classifier = shared("bert")
    engine = Engine(classifier)
    texts = [classifier.tokens(text) for text in TEXTS]
    start = classifier.forwards
    engine.ask([Variants(t, np.zeros((2, len(t)), bool)) for t in texts])
    for t in texts:
        engine.ask([Variants(t, np.zeros((1, len(t)), bool))])
    assert classifier.forwards - start == 1


# batches


@pytest.mark.parametrize("budget", [45, 64, 100, 333, 4096])
def test_no_batch_exceeds_the_budget(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("multihead")
    batches = spied(classifier, monkeypatch)
    variants = asked(classifier, n=60)
    answers(classifier, variants, budget=budget)
    assert len(batches) > 2
    assert all(batch.ids.numel() <= budget or len(batch) == 1 for batch in batches)


def test_rows_that_do_not_divide_the_budget_stay_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    tokens = classifier.tokens("a good film, not bad, but dull")
    batches = spied(classifier, monkeypatch)
    n = len(tokens)
    keep = ~np.eye(n, dtype=bool)[list(tokens.content)][:9]
    answers(classifier, [Variants(tokens, keep, "unk")], budget=n * 9 // 2)
    assert sum(map(len, batches)) == len(keep)
    assert max(batch.ids.numel() for batch in batches) <= n * 9 // 2


def test_equal_lengths_are_never_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    batches = spied(classifier, monkeypatch)
    answers(classifier, [Variants(t.tokens, t.keep, "mask") for t in asked(classifier, n=30)])
    assert all(bool(batch.mask.all()) for batch in batches)
    batches.clear()
    tokens = classifier.tokens(TEXTS[0])
    answers(classifier, [Variants(tokens, ~np.eye(len(tokens), dtype=bool)[list(tokens.content)])])
    assert [bool(batch.mask.all()) for batch in batches] == [True]


def test_many_of_each_length_run_without_padding_and_few_with_little(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    batches = spied(classifier, monkeypatch)
    tokens = classifier.tokens(TEXTS[2])
    answers(classifier, [Variants(tokens, np.random.default_rng(0).random((300, len(tokens))) < 0.5)])
    padded = [batch for batch in batches if not batch.mask.all()]
    assert padded  # the rare lengths
    assert sum(map(len, padded)) < 40
    assert all(float((1 - batch.mask.float()).mean()) <= 0.15 for batch in padded)


def test_padding_is_the_models_own(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("xlnet")
    assert classifier.padding == "left"
    batches = spied(classifier, monkeypatch)
    padding = Padding("left", classifier.tokenizer.pad_token_id, type=3)  # a type that no text has
    monkeypatch.setattr(classifier, "padding_with", lambda side: padding)
    answers(classifier, asked(classifier, n=5))
    padded = [batch for batch in batches if not batch.mask.all()]
    assert padded
    for batch in padded:
        assert bool((batch.mask.diff(dim=1) >= 0).all())  # on the left
        assert set(batch.ids[batch.mask == 0].tolist()) == {padding.token}
        assert batch.segments is not None
        assert set(batch.segments[batch.mask == 0].tolist()) == {padding.type}


def test_hidden_tokens_are_told_from_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    batches = spied(classifier, monkeypatch)
    short, long = classifier.tokens("Dull film"), classifier.tokens("Dull film.")
    hiding = [Variants(t, np.array([[i != 1 for i in range(len(t))]]), "attention") for t in (short, long)]
    answers(classifier, hiding)
    assert [batch.mask.tolist() for batch in batches] == [[[1, 0, 1, 1, 0], [1, 0, 1, 1, 1]]]
    assert [batch.real.tolist() for batch in batches] == [[[True] * 4 + [False], [True] * 5]]


def test_ten_thousand_variants_are_made_a_chunk_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("multihead")
    tokens = classifier.tokens(" ".join([TEXTS[0], TEXTS[2]])).cut(classifier.limit)
    rows, parts = Variants.rows, []

    def counted(self: Variants, on: Classifier, at: slice) -> Any:
        made = rows(self, on, at)
        parts.append(len(made))
        return made

    monkeypatch.setattr(Variants, "rows", counted)
    batches = spied(classifier, monkeypatch)
    keep = np.random.default_rng(0).random((10_000, len(tokens))) < 0.5
    result = answers(classifier, [Variants(tokens, keep, "unk")])
    assert sum(parts) == 10_000
    assert max(parts) <= inference.CHUNK_VARIANTS < 10_000
    assert max(batch.ids.numel() for batch in batches) <= 4096
    assert sum(map(len, batches)) == result.distinct
    monkeypatch.undo()
    few = np.random.default_rng(1).integers(0, 10_000, 30)
    assert off(result.logits[few], alone(classifier, [Variants(tokens, keep[few], "unk")])) < 1e-5


def test_small_texts_share_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    runs: list[int] = []
    real = Engine._recall

    def counted(self: Engine, keys: Sequence[Any], run: Callable[[Any], Tensor]) -> None:
        runs.append(len(keys))
        real(self, keys, run)

    monkeypatch.setattr(Engine, "_recall", counted)
    answers(classifier, asked(classifier))
    assert len(runs) == 1
    monkeypatch.setattr(inference, "CHUNK_VARIANTS", 10)
    assert off(answers(classifier, asked(classifier)).logits, alone(classifier, asked(classifier))) < 1e-5
    assert len(runs) > 2


# memory

FULL = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB."),
    "cpu": RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 9 bytes. Error code 12 (Cannot allocate memory)"
    ),
    "python": MemoryError(),
}


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("most", [1, 5])
def test_batches_are_halved_when_memory_runs_out(kind: str, most: int) -> None:
    classifier = build("bert")
    variants = asked(classifier, n=20)
    twin = answers(classifier, variants).logits
    sizes: list[tuple[int, int]] = []

    def little(ids: Tensor) -> None:
        sizes.append(tuple(ids.shape))  # type: ignore[arg-type]
        if len(ids) > most:
            raise FULL[kind]

    state = snapshot(classifier)
    with before(classifier, little):
        result = answers(classifier, variants)
    assert off(result.logits, twin) < 1e-5
    assert snapshot(classifier) == state
    assert sum(n for n, _ in sizes if n <= most) == result.distinct


def test_what_did_not_fit_once_is_not_tried_again() -> None:
    classifier = build("bert")
    tokens = classifier.tokens(TEXTS[0])
    keep = np.unique(np.random.default_rng(0).random((200, len(tokens))) < 0.5, axis=0)
    failed: list[int] = []

    def little(ids: Tensor) -> None:
        if len(ids) > 20:
            failed.append(len(ids))
            raise FULL["cpu"]

    with before(classifier, little):
        engine = Engine(classifier, budget=50 * len(tokens))
        engine.ask([Variants(tokens, keep, "unk")])
        assert failed == [50, 25, 25]  # the first batch, and its halves
        assert engine.budget <= 20 * len(tokens)
        engine.ask([Variants(tokens, keep, "mask")])
    assert failed == [50, 25, 25]


def test_the_budget_never_rises_again() -> None:
    classifier = build("bert")
    tokens = classifier.tokens(TEXTS[0])
    keep = np.unique(np.random.default_rng(0).random((40, len(tokens))) < 0.5, axis=0)
    assert len(keep) == 40
    budgets: list[int] = []

    def little(ids: Tensor) -> None:
        budgets.append(engine.budget)
        if len(ids) > 3:
            raise FULL["cpu"]

    engine = Engine(classifier)
    assert classifier.fused_attention_agrees
    assert classifier.padding
    with before(classifier, little):
        engine.ask([Variants(tokens, keep, "unk")])
    assert budgets == sorted(budgets, reverse=True)
    assert budgets[-1] < budgets[0]


def test_a_text_that_does_not_fit_by_itself_is_refused() -> None:
    classifier = build("bert")
    tokens = classifier.tokens("Dull film.")
    state = snapshot(classifier)

    def none(_: Tensor) -> None:
        raise FULL["cuda"]

    assert classifier.fused_attention_agrees
    assert classifier.padding  # probed before
    with before(classifier, none), pytest.raises(BadInput) as e:
        answers(classifier, [Variants(tokens, masks(3, len(tokens)), "mask")])
    assert str(e.value) == f"a text of {len(tokens)} tokens does not fit in memory; shorten it."
    assert snapshot(classifier) == state


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("no")])
def test_other_errors_come_through_and_leave_the_model_alone(error: Exception) -> None:
    classifier = build("bert")
    classifier.model.set_attn_implementation("eager")
    classifier.model.train()
    assert classifier.fused_attention_agrees
    state = snapshot(classifier)

    def fail(ids: Tensor) -> None:
        raise error

    with before(classifier, fail), pytest.raises(type(error)) as e:
        answers(classifier, asked(classifier))
    assert e.value is error
    assert snapshot(classifier) == state
    assert not torch.is_inference_mode_enabled()


def test_an_engine_whose_model_failed_knows_nothing_false() -> None:
    classifier = build("bert")
    one, _, other = asked(classifier)
    engine = Engine(classifier)

    def fail(_: Tensor) -> None:
        raise ValueError("stop")

    with before(classifier, fail), pytest.raises(ValueError, match="stop"):
        engine.ask([one])
    assert off(engine.ask([other]).logits, alone(classifier, [other])) < 1e-5
    assert off(engine.ask([one]).logits, alone(classifier, [one])) < 1e-5


# how the model runs


def test_the_model_runs_in_inference_mode_with_fused_attention_and_is_restored() -> None:
    classifier = build("bert")
    classifier.model.set_attn_implementation("eager")
    classifier.model.train()
    seen: set[Any] = set()
    assert classifier.fused_attention_agrees
    state = snapshot(classifier)

    def look(_: Tensor) -> None:
        model = classifier.model
        trained = any(p.requires_grad for p in model.parameters())
        seen.add((torch.is_inference_mode_enabled(), model.config._attn_implementation, model.training, trained))

    with before(classifier, look):
        answers(classifier, asked(classifier))
    assert seen == {(True, "sdpa", False, False)}
    assert snapshot(classifier) == state
    assert classifier.model.config._attn_implementation == "eager"


def _unlike(classifier: Classifier, error: bool) -> Any:
    def hook(module: Any, _: Any, out: Any) -> Any:
        if module.config._attn_implementation == "sdpa":
            if error:
                raise ValueError("no fused attention here")
            out.logits = out.logits + 0.1
        return out

    return classifier.model.register_forward_hook(hook)


@pytest.mark.parametrize("error", [True, False])
def test_fused_attention_is_left_where_it_answers_otherwise(error: bool) -> None:
    classifier = build("bert")
    classifier.model.set_attn_implementation("eager")
    twin = alone(classifier, asked(classifier))
    state = snapshot(classifier)
    hook = _unlike(classifier, error)
    assert not classifier.fused_attention_agrees
    result = answers(classifier, asked(classifier))
    hook.remove()
    assert off(result.logits, twin) < 1e-5
    assert snapshot(classifier) == state


@pytest.mark.parametrize("family", ["roberta", "llama", "mistral", "bart", "t5", "falcon", "modernbert"])
def test_fused_attention_answers_as_eager_does(family: str) -> None:
    classifier = build(family)
    if not classifier.model._supports_sdpa:
        pytest.skip("this version of transformers has no fused attention for it")
    classifier.model.set_attn_implementation("eager")
    assert classifier.fused_attention_agrees
    for way in ("delete", *(["attention"] if classifier.mask_hides_words else [])):
        variants = asked(classifier, way, n=5)
        assert off(answers(classifier, variants).logits, alone(classifier, variants)) < 1e-5


@pytest.mark.parametrize("family", ["bert", "roformer", "llama", "mistral", "deberta-v2", "t5", "xlnet", "bloom"])
def test_gradients_still_work_after_inference_mode(family: str) -> None:
    fresh, used = build(family), build(family)
    answers(used, asked(used))
    one, other = (as_array(explain(c, TEXTS[0], "gradient-l2")) for c in (fresh, used))
    assert other == pytest.approx(one, rel=1e-6)


def test_the_probe_texts_are_not_counted() -> None:
    classifier = build("bert")
    assert classifier.padding == "right"
    assert classifier.mask_hides_words
    assert classifier.fused_attention_agrees
    assert classifier.forwards == 0
    assert classifier.tokens(PROBE).content


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(BadInput) as e:
        Engine(shared("bert"), "fp8")  # type: ignore[arg-type]
    assert str(e.value) == "precision 'fp8' is not one of float32, bf16."


# bf16


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def roughly(classifier: Classifier, variants: Sequence[Variants], seed: int = 0) -> Answers:
    return answers(classifier, variants, "bf16", rng(seed))


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "bart", "modernbert", "llama", "bilstm"])
def test_bf16_is_near_float32(family: str) -> None:
    classifier = shared(family)
    variants = asked(classifier, n=20)
    exact, rough = answers(classifier, variants), roughly(classifier, variants)
    assert rough.notes == ()
    assert 0 < off(exact.logits, rough.logits) < 0.25 * float(exact.logits.std())
    assert float((exact.logits - rough.logits).abs().mean()) < 0.05 * float(exact.logits.std())


@pytest.mark.usefixtures("bf16")
def test_the_checked_part_is_drawn_by_the_generator_and_run_in_float32() -> None:
    classifier = shared("bert")
    variants = asked(classifier, n=60)
    exact, rough = answers(classifier, variants), roughly(classifier, variants, seed=7)
    n = exact.distinct
    some = torch.randperm(n, generator=rng(7))[: max(5, n // 20)].tolist()
    first = [exact.which.tolist().index(i) for i in some]
    assert rough.exact is not None
    assert rough.rough is not None
    assert off(rough.exact, exact.logits[first]) < 1e-5
    assert torch.equal(rough.rough, rough.logits[first])


@pytest.mark.usefixtures("bf16")
def test_the_mean_of_the_checked_part_is_right() -> None:
    result = roughly(shared("bert"), asked(shared("bert"), n=60))
    assert result.exact is not None
    assert result.rough is not None
    assert off(result.exact, result.rough) > 0
    assert off(result.exact.mean(0), result.rough.mean(0)) < 1e-12


@pytest.mark.usefixtures("bf16")
def test_every_answer_is_moved_by_the_same_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    variants = asked(classifier, n=20)
    engine = Engine(classifier, "bf16", rng())
    result = engine.ask(variants)
    shifts = result.logits - torch.cat(engine.logits)[torch.from_numpy(result.which)]
    assert off(shifts, shifts[:1]) < 1e-12
    assert float(shifts.abs().max()) > 0


@pytest.mark.usefixtures("bf16")
def test_the_same_seed_gives_the_same_numbers() -> None:
    classifier = shared("bert")
    variants = asked(classifier, n=40)
    torch.manual_seed(0)
    one = roughly(classifier, variants)
    torch.manual_seed(1)
    again, other = roughly(classifier, variants), roughly(classifier, variants, seed=1)
    assert torch.equal(one.logits, again.logits)
    assert not torch.equal(one.logits, other.logits)
    engine = Engine(classifier, "bf16", rng())
    assert torch.equal(engine.ask(variants).logits, engine.ask(variants).logits)


@pytest.mark.usefixtures("bf16")
def test_bf16_costs_the_inputs_and_the_checked_part() -> None:
    classifier = shared("bert")
    start = classifier.forwards
    result = roughly(classifier, asked(classifier, n=60))
    assert classifier.forwards - start == result.distinct + max(5, result.distinct // 20)


def test_float32_has_no_noise() -> None:
    classifier = shared("bert")
    result = answers(classifier, asked(classifier))
    assert (result.rough, result.exact) == (None, None)
    assert result.noise(classifier, Target(1)) == (0.0, 1)
    assert result.rounding(np.ones((3, 27)), classifier, Target(1)).tolist() == [0, 0, 0]


@pytest.mark.usefixtures("bf16")
def test_noise_is_the_deviation_of_the_checked_errors() -> None:
    classifier = shared("bert")
    result = roughly(classifier, asked(classifier, n=60))
    assert result.exact is not None
    assert result.rough is not None
    for target in (Target(1), Target(0, "probability"), Target(2, against=0)):
        errors = [
            float(target.of(e[None], "softmax")) - float(target.of(r[None], "softmax"))
            for e, r in zip(result.exact, result.rough, strict=True)
        ]
        sigma, n = result.noise(classifier, target)
        assert sigma == pytest.approx(stdev(errors), rel=1e-9)
        assert n == len(errors)


@pytest.mark.usefixtures("bf16")
def test_a_single_input_has_no_noise() -> None:
    classifier = shared("bert")
    tokens = classifier.tokens("Dull.")
    variants = [Variants(tokens, np.ones((4, len(tokens)), bool))]
    result = roughly(classifier, variants)
    assert off(result.logits, alone(classifier, variants)) < 1e-5  # moved to where it belongs
    assert result.noise(classifier, Target(1)) == (0.0, 1)
    assert result.rounding(np.ones((2, 4)), classifier, Target(1)).tolist() == [0, 0]


def _noisy(which: list[int], checked: int = 6) -> Answers:
    exact = torch.randn(checked, 2, generator=rng(), dtype=torch.float64)
    rough = exact + 0.1 * torch.randn(checked, 2, generator=rng(1), dtype=torch.float64)
    return Answers(torch.zeros(len(which), 2), np.array(which), (), rough, exact)


@pytest.mark.parametrize("start", [0, 3])
def test_rounding_is_its_formula_written_out(start: int) -> None:
    which = [4, 0, 2, 1, 1, 0, 3, 1]
    result, target = _noisy(which), Target(1)
    weights = np.random.default_rng(0).normal(size=(3, 5))
    sigma, checked = result.noise(shared("bert"), target)
    twin = []
    for row in weights:
        by_input: dict[int, float] = {}
        for j, weight in enumerate(row):
            by_input[which[start + j]] = by_input.get(which[start + j], 0.0) + weight
        own = sum(w**2 for w in by_input.values())
        twin.append(sigma * (own + sum(by_input.values()) ** 2 / checked) ** 0.5)
    assert result.rounding(weights, shared("bert"), target, start) == pytest.approx(twin, rel=1e-9)


def test_rounding_is_what_simulated_errors_do() -> None:
    which, checked, n = [0, 1, 1, 2], 6, 40_000
    weights = np.array([[1.0, -0.5, 0.75, 0.25]])
    draw = np.random.default_rng(0)
    errors = draw.normal(size=(n, 3))[:, which] - draw.normal(size=(n, checked)).mean(1, keepdims=True)
    result = _noisy(which, checked)
    sigma, _ = result.noise(shared("bert"), Target(1))
    twin = sigma * float((errors @ weights[0]).std())
    assert result.rounding(weights, shared("bert"), Target(1))[0] == pytest.approx(twin, rel=0.02)


# where bf16 fails


@pytest.mark.usefixtures("bf16")
def test_a_processor_that_is_slow_in_bf16_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "has_bf16_units", lambda: False)
    result = roughly(shared("bert"), asked(shared("bert"), n=3))
    assert result.notes == ("this processor has no bf16 units: float32 would be faster",)
    assert answers(shared("bert"), asked(shared("bert"), n=3)).notes == ()


@pytest.mark.usefixtures("bf16")
def test_a_model_that_raises_under_bf16_runs_in_float32() -> None:
    classifier = build("bert")
    variants = asked(classifier)
    state = snapshot(classifier)

    def fail(_: Tensor) -> None:
        if torch.is_autocast_enabled("cpu"):
            raise TypeError("no bf16 here")

    with before(classifier, fail):
        result = roughly(classifier, variants)
    assert result.notes == ("bf16 failed (TypeError): float32 was used",)
    assert result.rough is None
    assert off(result.logits, alone(classifier, variants)) < 1e-5
    assert snapshot(classifier) == state


@pytest.mark.usefixtures("bf16")
def test_a_model_that_answers_nan_under_bf16_runs_in_float32() -> None:
    classifier = build("bert")
    variants = asked(classifier)

    def broken(module: Any, _: Any, out: Any) -> Any:
        if torch.is_autocast_enabled("cpu"):
            out.logits = out.logits * torch.nan
        return out

    classifier.model.register_forward_hook(broken)
    result = roughly(classifier, variants)
    assert result.notes == ("bf16 failed (BadInput): float32 was used",)
    assert off(result.logits, alone(classifier, variants)) < 1e-5


@pytest.mark.usefixtures("bf16")
def test_what_runs_in_float32_after_a_failure_is_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = build("bert")
    monkeypatch.setattr(inference, "CHUNK_VARIANTS", 9)
    variants = asked(classifier, "mask")  # no input of one text is also one of another
    twin = alone(classifier, variants)
    done: list[int] = []
    real = Engine._answer_ids

    def counted(self: Engine, chunk: Sequence[tuple[Variants, slice]]) -> Ints:
        which = real(self, chunk)
        done.append(len(which))
        return which

    def fail(_: Tensor) -> None:
        if torch.is_autocast_enabled("cpu") and done:
            raise TypeError("no more bf16")

    monkeypatch.setattr(Engine, "_answer_ids", counted)
    with before(classifier, fail):
        result = roughly(classifier, variants)
    assert result.notes == ("bf16 failed (TypeError): float32 was used",)
    assert result.rough is not None
    assert off(result.logits[:9], twin[:9]) > 1e-4
    assert off(result.logits[9:], twin[9:]) < 1e-5


@pytest.mark.usefixtures("bf16")
def test_what_is_wrong_in_float32_too_is_raised() -> None:
    classifier = build("bert")
    assert classifier.fused_attention_agrees

    def fail(_: Tensor) -> None:
        raise ValueError("broken")

    with before(classifier, fail), pytest.raises(ValueError, match="broken"):
        roughly(classifier, asked(classifier))


@pytest.mark.usefixtures("bf16")
def test_memory_can_run_out_under_bf16_too() -> None:
    classifier = build("bert")
    variants = asked(classifier, n=20)
    twin = answers(classifier, variants).logits

    def little(ids: Tensor) -> None:
        if len(ids) > 5:
            raise FULL["cpu"]

    with before(classifier, little):
        result = roughly(classifier, variants)
    assert result.notes == ()
    assert result.rough is not None
    assert off(result.logits, twin) < 0.25 * float(twin.std())
