"""Encoder-decoders: the network against its formulas, greedy decoding, the generated task, the folder, the pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from heedful.cli.train import translate
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.methods import method
from heedful.methods.conformance import as_array, conforms
from heedful.methods.explain import explain
from heedful.model.edits import uniform
from heedful.model.seam import implementation
from heedful.nets.seq2seq import ATTENTIONS, END, Seq2Seq, Seq2SeqShape, decode_greedily
from heedful.nets.training import dates
from heedful.nets.training.dates import DatePair, date_pairs, date_splits
from heedful.nets.training.lengths import Bin, by_length
from heedful.nets.training.loop import TrainingPlan, fit
from heedful.nets.training.pairs import PAD, STOP, UNK, TextPair
from heedful.nets.training.translate import Translator, exact_match, tokenizer
from heedful.nets.training.translation_job import Seq2SeqSettings, job
from heedful.report.figures import encode
from heedful.report.figures.maps import draw_alignment, draw_lengths
from tests.support.models import loud

NETWORKS = (*ATTENTIONS, "additive bahdanau", "dot bahdanau", "none bahdanau")  # attention, and an order
WITH = tuple(kind for kind in NETWORKS if not kind.startswith("none"))
TEXTS = ("3 May 1999", "due 12.4.07", "we met on the 5th of June, 1987 and no sooner")
TINY = Seq2SeqSettings(embedding=5, hidden=6, units=4, batch=8, n_train=40, n_dev=10, n_test=10, most=2)


def settings(kind: str, **more: Any) -> Seq2SeqSettings:
    attention, _, order = kind.partition(" ")
    return replace(TINY, attention=attention, order=order or "luong", **more)  # type: ignore[arg-type]


@cache
def _made(kind: str) -> Translator:
    return job(settings(kind, n_train=1, n_dev=1, n_test=1)).translator


def translator(kind: str = "additive", seed: int = 1) -> Translator:
    result = deepcopy(_made(kind))
    loud(result.model, seed, 1.2)
    return replace(result, name=f"tiny-{kind}")


def talkative(kind: str) -> Translator:
    """One that does not end soon."""
    result = translator(kind)
    result.model.out.bias.data[END] -= 20.0
    return result


def ids(result: Translator, text: str) -> Tensor:
    return result.encode([text])


# the network


def gru(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """One step, by the formula (Cho et al. 2014, in torch's variant)."""
    i, o = cell.weight_ih_l0 @ x + cell.bias_ih_l0, cell.weight_hh_l0 @ h + cell.bias_hh_l0
    (ir, iz, inn), (hr, hz, hn) = i.chunk(3), o.chunk(3)
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    return (1 - z) * torch.tanh(inn + r * hn) + z * h


def run(cell: torch.nn.GRU, xs: Sequence[Tensor], h: Tensor) -> list[Tensor]:
    result = []
    for x in xs:
        h = gru(cell, x, h)
        result.append(h)
    return result


def slow_attention(model: Any, s: Tensor, states: Sequence[Tensor]) -> list[float]:
    """softmax of the papers' scores, one position after the other."""
    if model.config.attention == "additive":
        asked = model.query.weight @ s + model.query.bias
        scores = [model.score.weight[0] @ torch.tanh(asked + model.key.weight @ h) for h in states]
    elif model.config.attention == "concat":
        matrix = torch.cat([model.query.weight, model.key.weight], 1)
        scores = [model.score.weight[0] @ torch.tanh(matrix @ torch.cat([s, h])) for h in states]
    elif model.config.attention == "multiplicative":
        scores = [s @ model.key.weight @ h for h in states]
    else:
        scores = [s @ h for h in states]
    shares = [float(score.exp()) for score in scores]
    return [share / sum(shares) for share in shares]


def slowly(model: Any, text: Sequence[int], before: Sequence[int]) -> tuple[Tensor, list[list[float]]]:
    """Logits of each next symbol, and its attention: one text, one step, one position after the other."""
    zero = torch.zeros(model.config.hidden, dtype=torch.float64)
    words = [model.words.weight[i] for i in text]
    onward, back = run(model.encoder.onward, words, zero), run(model.encoder.back, words[::-1], zero)[::-1]
    both: Any = sum if model.config.attention == "dot" else torch.cat
    states = [both(pair) for pair in zip(onward, back, strict=True)]
    last = both((onward[-1], back[0]))
    s = torch.tanh(model.start.weight @ last + model.start.bias)
    logits, attention = [], []
    for symbol in [model.config.num_labels, *before]:
        read = model.symbols.weight[symbol]
        if model.config.order == "luong":
            s = gru(model.decoder, read, s)
        weights = [0.0] * len(states) if model.config.attention == "none" else slow_attention(model, s, states)
        context = sum((w * h for w, h in zip(weights, states, strict=True)), torch.zeros_like(last))
        context = last if model.config.attention == "none" else context
        if model.config.order == "bahdanau":
            s = gru(model.decoder, torch.cat([read, context]), s)
        joined = torch.tanh(model.join.weight @ torch.cat([context, s]) + model.join.bias)
        logits.append(model.out.weight @ joined + model.out.bias)
        attention.append(weights)
    return torch.stack(logits), attention


@pytest.mark.parametrize("attention", NETWORKS)
def test_the_network_is_the_formula(attention: str) -> None:
    result = translator(attention)
    model = result.model.double()
    text, symbols = ids(result, TEXTS[0]), torch.tensor([[3, 1, 4, 1, END]])
    with torch.no_grad():
        logits, weights = model.taught(text, None, symbols)
        slow, slow_weights = slowly(model, text[0].tolist(), symbols[0, :-1].tolist())
    torch.testing.assert_close(logits[0], slow)
    torch.testing.assert_close(weights[0], torch.tensor(slow_weights, dtype=torch.float64))


@pytest.mark.parametrize("attention", NETWORKS)
def test_in_a_padded_batch_it_is_the_formula_of_each_text(attention: str) -> None:
    result = translator(attention)
    model = result.model.double()
    batch, symbols = result.encode(TEXTS[:2]), torch.tensor([[3, 1, END], [2, END, END]])
    with torch.no_grad():
        logits, weights = model.taught(batch, batch != 0, symbols)
        for row, text, own in zip(range(2), TEXTS, symbols, strict=False):
            slow, slow_weights = slowly(model, ids(result, text)[0].tolist(), own[:-1].tolist())
            torch.testing.assert_close(logits[row], slow)
            torch.testing.assert_close(weights[row, :, : len(text)], torch.tensor(slow_weights, dtype=torch.float64))
            assert not weights[row, :, len(text) :].any()


@pytest.mark.parametrize("attention", NETWORKS)
def test_as_a_classifier_it_gives_the_logits_of_the_taught_step(attention: str) -> None:
    result = translator(attention)
    view = Seq2Seq(replace(result.model.config, before=(3, 1)))
    view.load_state_dict(result.model.state_dict())
    with torch.no_grad():
        taught, _ = result.model.taught(ids(result, TEXTS[1]), None, torch.tensor([[3, 1, 4]]))
        torch.testing.assert_close(view.eval()(ids(result, TEXTS[1])).logits, taught[:, -1])


@pytest.mark.parametrize("attention", NETWORKS)
@pytest.mark.parametrize("side", ["left", "right", "middle"])
def test_what_is_masked_might_as_well_not_be_there(attention: str, side: str) -> None:
    result = translator(attention)
    model, plain = result.model, ids(result, TEXTS[1])
    junk = torch.full((1, 3), 7)
    parts = {"left": [junk, plain], "right": [plain, junk], "middle": [plain[:, :4], junk, plain[:, 4:]]}[side]
    marks = [torch.full_like(p, p is not junk) for p in parts]
    with torch.no_grad():
        alone, beside = model(plain), model(torch.cat(parts, 1), torch.cat(marks, 1))
    torch.testing.assert_close(alone.logits, beside.logits)
    if attention in WITH:
        kept = beside.attentions[0][..., torch.cat(marks, 1)[0] == 1]
        torch.testing.assert_close(alone.attentions[0], kept)


@pytest.mark.parametrize("attention", NETWORKS)
def test_a_text_without_tokens_gets_the_same_finite_answer_whatever_it_hides(attention: str) -> None:
    result = translator(attention)
    with torch.no_grad():
        one, other = (result.model(ids(result, t), torch.zeros(1, len(t))).logits for t in TEXTS[:2])
    assert one.isfinite().all()
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("attention", WITH)
def test_the_fast_way_has_the_same_logits_and_gradients(attention: str) -> None:
    result = translator(attention)
    model, text = result.model, ids(result, TEXTS[2])
    open_ = model(text)
    with implementation(model, "sdpa"):
        fast = model(text)
    assert len(open_.attentions) == 1
    assert not fast.attentions
    torch.testing.assert_close(open_.logits, fast.logits)
    used = [p for n, p in model.named_parameters()]
    uneven = torch.arange(1.0, open_.logits.shape[1] + 1)
    one, other = (torch.autograd.grad((out.logits * uneven).sum(), used) for out in (open_, fast))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("attention", NETWORKS)
def test_the_shape_survives_json_and_rebuilds_the_network(attention: str) -> None:
    result = translator(attention)
    shape = json.loads(json.dumps(asdict(result.model.config)))
    shape.pop("_attn_implementation_internal")
    again = Seq2Seq(Seq2SeqShape(**shape))
    again.load_state_dict(result.model.state_dict())
    with torch.no_grad():
        assert torch.equal(again.eval()(ids(result, TEXTS[0])).logits, result.model(ids(result, TEXTS[0])).logits)


def test_an_attention_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInput, match=r"attention 'dots' is not one of none, additive, multiplicative, dot, concat"):
        Seq2Seq(Seq2SeqShape(vocabulary=5, attention="dots"))  # type: ignore[arg-type]


def test_concat_is_additive_without_a_bias() -> None:
    concat, additive = translator("concat"), translator("additive")
    additive.model.load_state_dict({**concat.model.state_dict(), "query.bias": torch.zeros(TINY.units)})
    one, other = (t.model(ids(t, TEXTS[2])) for t in (concat, additive))
    assert torch.equal(one.logits, other.logits)


# greedy decoding


@pytest.mark.parametrize("attention", NETWORKS)
def test_each_symbol_is_the_likeliest_after_those_before_it(attention: str) -> None:
    varied = 0
    for seed in range(8):
        result = translator(attention, seed)
        text = ids(result, TEXTS[2])
        with torch.no_grad():
            out = decode_greedily(result.model, text, None, 8)
            taught, _ = result.model.taught(text, None, out.symbols)
        length = [*out.symbols[0].tolist(), END].index(END) + 1
        varied += len(set(out.symbols[0].tolist())) > 2
        assert torch.equal(taught.argmax(-1)[:, :length], out.symbols[:, :length])
    assert varied


def test_nothing_follows_the_end() -> None:
    result = translator()
    result.model.out.bias.data[END] += 2.0
    out = result.align_all([pair.source for pair in date_pairs(40, 5, dates=(1, 1))])
    ends = [a.symbols.index(STOP) for a in out if STOP in a.symbols]
    assert len(set(ends)) > 1, "the texts end at different steps"
    assert all(a.symbols.index(STOP) == len(a.symbols) - 1 for a in out if STOP in a.symbols)


@pytest.mark.parametrize("attention", WITH)
def test_a_translation_does_not_depend_on_its_company(attention: str) -> None:
    result = translator(attention)
    for text, beside in zip(TEXTS, result.align_all(TEXTS, 12), strict=True):
        alone = result.align(text, 12)
        assert alone.written == beside.written
        np.testing.assert_allclose(alone.weights, beside.weights, atol=1e-6)


@pytest.mark.parametrize("attention", WITH)
def test_each_row_of_an_alignment_adds_up_to_one(attention: str) -> None:
    result = translator(attention).align(TEXTS[1], 9)
    assert result.weights.shape == (len(result.symbols), len(TEXTS[1]))
    np.testing.assert_allclose(result.weights.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("attention", WITH)
def test_the_alignment_of_its_own_translation_is_that_of_decoding(attention: str) -> None:
    result = talkative(attention)
    written = result.align_all(TEXTS, 8)
    assert all(len(a.written) == 8 for a in written)
    for one, other in zip(written, result.align_targets([TextPair(a.text, a.written) for a in written]), strict=True):
        assert (*one.symbols, STOP) == other.symbols
        np.testing.assert_allclose(one.weights, other.weights[:8], atol=1e-6)


def test_translating_leaves_training_mode_as_it_was() -> None:
    result = translator()
    result.model.train()
    result.translate(TEXTS[0], 3)
    assert result.model.training


# one step as a classifier


@pytest.mark.parametrize("attention", NETWORKS)
def test_the_classifier_of_a_step_predicts_what_was_written_there(attention: str) -> None:
    result = translator(attention)
    written = result.align(TEXTS[0]).symbols
    for step in range(min(4, len(written))):
        classifier = result.classifier(TEXTS[0], step)
        assert classifier.predictions([classifier.tokens(TEXTS[0])])[0].label == written[step]


@pytest.mark.parametrize("attention", WITH)
def test_the_seam_sees_the_attention_of_that_step_and_its_edits_matter(attention: str) -> None:
    result = talkative(attention)
    classifier = result.classifier(TEXTS[1], 2)
    classifier.check_attention()
    batch = classifier.batch([classifier.tokens(TEXTS[1])])
    with torch.no_grad():
        plain = classifier.logits(batch)
        with classifier.attention() as seen:
            classifier.logits(batch)
        with classifier.attention(uniform):
            edited = classifier.logits(batch)
    (weights,) = seen[0].values()
    assert weights.shape == (1, 1, 1, len(TEXTS[1]))
    np.testing.assert_allclose(weights[0, 0, 0], result.align(TEXTS[1]).weights[2], atol=1e-6)
    assert (plain - edited).abs().max() > 1e-3


@pytest.mark.parametrize("attention", ["multiplicative", "additive bahdanau"])
def test_an_edit_changes_the_attention_of_this_step_alone(attention: str) -> None:
    """Against the formula with uniform attention in the last step and the network's own before it."""
    result = talkative(attention)
    classifier = result.classifier(TEXTS[1], 3)
    with torch.no_grad(), classifier.attention(uniform):
        edited = classifier.logits(classifier.batch([classifier.tokens(TEXTS[1])]))
    model: Any = result.model
    with torch.no_grad():
        source = model.encode(ids(result, TEXTS[1]))
        context = source.states.mean(1, keepdim=True)
        symbols = torch.tensor([[model.config.num_labels, *classifier.model.config.before]])
        if model.config.order == "luong":
            state = model.steps(source, symbols).states[:, -1:]
        else:
            state = model.advance(symbols[:, -1:], model.steps(source, symbols[:, :-1]).states[:, -1], context)
        torch.testing.assert_close(edited, model.logits(context, state)[:, 0])


def test_the_classifier_shares_the_weights_and_leaves_the_translator_alone() -> None:
    result = translator()
    classifier = result.classifier(TEXTS[0], 1)
    assert classifier.model.words.weight.data_ptr() == result.model.words.weight.data_ptr()
    assert result.model.config.before == ()
    assert classifier.labels == (STOP, *dates.TARGET)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("attention-mean", {}),
        ("integrated-gradients", {"steps": 4}),
        ("leave-one-out", {}),
        ("lime", {"samples": 10}),
    ],
)
def test_methods_conform_on_a_step(name: str, settings: dict[str, Any]) -> None:
    conforms(method(name, settings), translator("multiplicative").classifier(TEXTS[0], 2))


def test_without_attention_its_methods_refuse_and_the_others_work() -> None:
    classifier = translator("none").classifier(TEXTS[0], 1)
    with pytest.raises(HeedfulError, match="tiny-none, symbol 1"):
        explain(classifier, TEXTS[0], "attention-mean")
    assert as_array(explain(classifier, TEXTS[0], "gradient-l2")).any()


def test_a_step_beyond_the_end_is_refused() -> None:
    result = translator()
    n = len(result.align(TEXTS[0]).symbols)
    with pytest.raises(BadInput, match=rf"step {n} is outside the translation's {n} symbols"):
        result.classifier(TEXTS[0], n)


def test_every_character_is_a_token_and_unknown_ones_are_told() -> None:
    cut = tokenizer((PAD, UNK, "a", " ", "<"))
    result = cut.encode("a  é<\n")
    assert result.tokens == ["a", " ", " ", UNK, "<", UNK]
    assert result.offsets == [(i, i + 1) for i in range(6)]


# the task


def test_the_dates_are_right() -> None:
    """An outside library reads them, those with the year in full and the day in digits."""
    parser = pytest.importorskip("dateutil.parser")
    checked = 0
    for pair in date_pairs(3000, 11, dates=(1, 1)):
        text = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", pair.source, flags=re.IGNORECASE)
        if not re.search(r"\b\d{4}\b", text) or not re.search(r"\b\d{1,2}\b(?!\d)", text.replace(pair.target[:4], "")):
            continue
        if re.search(r"second|I think", text):  # words that the library takes for parts of a time
            continue
        day_first = not re.search(r"\d{4}[-/]", text)
        assert parser.parse(text, dayfirst=day_first, fuzzy=True).date().isoformat() == pair.target, pair.source
        checked += 1
    assert checked > 1500


def test_a_year_of_two_digits_lies_around_the_turn_of_the_century() -> None:
    short = [p for p in date_pairs(2000, 12, dates=(1, 1)) if not re.search(r"\d{4}", p.source)]
    years = {int(p.target[:4]) for p in short}
    assert min(years) >= 1970
    assert max(years) <= 2069
    assert all(re.search(rf"\b{p.target[2:4]}\b", p.source) for p in short)


def test_every_text_is_in_the_alphabet_and_every_day_of_a_month_occurs() -> None:
    pairs = date_pairs(3000, 0)
    assert set("".join(p.source for p in pairs)) <= set(dates.SOURCE)
    assert set("".join(p.target for p in pairs)) == set(dates.TARGET)
    assert {int(p.target[8:10]) for p in pairs} == set(range(1, 32))


def test_examples_come_from_their_seed_alone() -> None:
    assert date_pairs(20, 3) == date_pairs(20, 3)
    assert date_pairs(20, 3) != date_pairs(20, 4)


def test_examples_are_as_long_as_asked() -> None:
    assert {len(p.source) for p in date_pairs(60, 0, length=(20, 24))} == set(range(20, 25))


def test_every_digit_of_a_text_is_copied_to_one_place() -> None:
    for pair in date_pairs(500, 8):
        assert all(pair.target[there] == pair.source[here] for there, here in pair.copies)
        assert sorted(here for _, here in pair.copies) == [i for i, c in enumerate(pair.source) if c.isdigit()]
        assert len({there for there, _ in pair.copies}) == len(pair.copies)


def test_the_copies_of_a_date() -> None:
    pair = next(p for p in date_pairs(4000, 9, dates=(1, 1)) if re.search(r"\b\d/\d\d/\d\d$", p.source))
    there = [there for there, _ in sorted(pair.copies, key=lambda copy: copy[1])]
    assert there == [9, 5, 6, 2, 3]  # the day's second digit, the month, the end of the year


def test_no_text_is_in_two_splits() -> None:
    result = date_splits(3000, 500, 500, seed=2, dates=(1, 1))
    sources = [p.source for part in (result.train, result.dev, result.test) for p in part]
    assert len(sources) == len(set(sources)) == 4000


def test_texts_that_may_not_be_among_the_examples_are_not() -> None:
    known = {p.source for p in date_pairs(500, 6, length=(6, 8), dates=(1, 1))}
    assert known & {p.source for p in date_pairs(500, 7, length=(6, 8), dates=(1, 1))}
    assert not known & {p.source for p in date_pairs(500, 7, length=(6, 8), dates=(1, 1), without=known)}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"length": (1, 3)}, "only 0 of 5 texts were found"),
        ({"dates": (0, 2)}, "dates is 0 to 2"),
    ],
)
def test_what_cannot_be_generated_is_refused(asked: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        date_pairs(5, 0, **asked)


# training


def test_every_example_is_in_one_batch_of_an_epoch_and_the_order_comes_from_seed_and_epoch() -> None:
    one, other = job(TINY), job(TINY)
    seen = torch.cat([b.real.sum(1) for b in one.batches(0)])
    assert sorted(seen.tolist()) == sorted(len(p.target) + 1 for p in one.data.train)
    assert all(
        torch.equal(a.ids, b.ids) and torch.equal(a.symbols, b.symbols)
        for a, b in zip(one.batches(1), other.batches(1), strict=True)
    )
    assert any(not torch.equal(a.ids, b.ids) for a, b in zip(one.batches(0), one.batches(1), strict=True))


def test_the_loss_is_the_mean_over_the_symbols_of_all_targets() -> None:
    made = job(TINY)
    (batch, *_) = made.batches(0)
    with torch.no_grad():
        rows = []
        for ids_, symbols, counts in zip(batch.ids, batch.symbols, batch.real, strict=True):
            real = ids_[ids_ != 0][None]
            logits = made.model.taught(real, None, symbols[counts][None])[0][0]
            rows.append(-logits.log_softmax(-1).gather(1, symbols[counts][:, None])[:, 0])
        torch.testing.assert_close(made.loss(batch), torch.cat(rows).mean())


def test_job_leaves_torchs_chance_alone_and_repeats_itself() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = job(TINY).model.state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert all(torch.equal(a, b) for a, b in zip(one.values(), job(TINY).model.state_dict().values(), strict=True))


@pytest.mark.parametrize("attention", ["none", "multiplicative", "dot", "additive bahdanau"])
def test_training_learns(attention: str, tmp_path: Path) -> None:
    made = job(settings(attention, hidden=24, embedding=16, n_train=60, n_dev=2, most=1, batch=20))
    history = fit(made, TrainingPlan(epochs=5, lr=1e-2, clip=1.0), tmp_path).history
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]
    assert list(history[0]) == ["epoch", "loss", "exact match"]


class Oracle:
    """Right on texts of up to 20 characters."""

    def translate_all(self, texts: Sequence[str]) -> list[str]:
        return ["right" if len(t) <= 20 else "wrong" for t in texts]


def test_exact_match_by_length() -> None:
    pairs = [DatePair("x" * n, "right") for n in range(1, 31)]
    oracle: Any = Oracle()
    assert exact_match(oracle, pairs) == pytest.approx(20 / 30)
    assert by_length(oracle, pairs, width=10, fewest=5) == [
        Bin(0, 9, 9, 1.0),
        Bin(10, 19, 10, 1.0),
        Bin(20, 29, 10, 0.1),
    ]


@pytest.mark.parametrize(("right", "n"), [(0, 30), (7, 40), (100, 100)])
def test_the_interval_is_wilsons(right: int, n: int) -> None:
    from scipy.stats import binomtest

    interval = binomtest(right, n).proportion_ci(method="wilson")
    assert Bin(0, 9, n, right / n).interval == pytest.approx((interval.low, interval.high), abs=1e-6)


# the folder


@pytest.mark.parametrize("attention", NETWORKS)
def test_a_saved_translator_is_the_same_afterwards(attention: str, tmp_path: Path) -> None:
    result = translator(attention)
    result.save(tmp_path / "new" / "model")
    again = Translator.load(tmp_path / "new" / "model")
    assert sorted(p.name for p in (tmp_path / "new" / "model").iterdir()) == ["heedful.json", "model.safetensors"]
    one, other = result.align(TEXTS[2], 9), again.align(TEXTS[2], 9)
    assert one.symbols == other.symbols
    assert np.array_equal(one.weights, other.weights)
    assert again.symbols == result.symbols


def test_the_folder_says_what_it_holds(tmp_path: Path) -> None:
    translator().save(tmp_path)
    description = json.loads((tmp_path / "heedful.json").read_text("utf-8"))
    assert (description["format"], description["network"], description["symbols"][:3]) == (
        1,
        "seq2seq",
        [PAD, UNK, "a"],
    )


def edited(folder: Path, **changes: Any) -> None:
    file = folder / "heedful.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "has an unknown format"),
        ({"network": "han"}, "holds a han, which is not a translator"),
        ({"shape": {"vocabulary": 4}}, "is damaged"),
        ({"shape": {"other": 4}}, "is damaged"),
        ({"symbols": [PAD, UNK]}, "has 2 symbols and its network needs 70"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(changes: Any, said: str, tmp_path: Path) -> None:
    translator().save(tmp_path)
    edited(tmp_path, **changes)
    with pytest.raises(BadInput, match=said):
        Translator.load(tmp_path)


def test_a_folder_without_a_translator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="heedful train seq2seq-additive dates --out"):
        Translator.load(tmp_path)


# the command and the pictures


@pytest.fixture
def folder(tmp_path: Path) -> str:
    translator().save(tmp_path / "model")
    return str(tmp_path / "model")


def test_the_command_prints_the_translation(folder: str) -> None:
    said = CliRunner().invoke(translate, [TEXTS[0], "--model", folder])
    assert said.exit_code == 0
    assert said.stdout == Translator.load(folder).translate(TEXTS[0]) + "\n"


def test_the_command_prints_json(folder: str) -> None:
    printed = json.loads(CliRunner().invoke(translate, [TEXTS[0], "-m", folder, "--json"]).stdout)
    result = Translator.load(folder).align(TEXTS[0])
    assert printed["translation"] == result.written
    np.testing.assert_allclose(printed["alignment"], result.weights, atol=1e-6)


def test_the_command_draws(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "map.png"
    said = CliRunner().invoke(translate, ["-", "-m", folder, "--figure", str(file)], input=TEXTS[1] + "\n")
    assert said.exit_code == 0
    assert file.read_bytes().startswith(b"\x89PNG")


def test_the_heat_map_shows_the_weights_under_their_characters() -> None:
    result = translator().align(TEXTS[1])
    axes = draw_alignment(result).axes[0]
    image: Any = axes.images[0].get_array()
    assert np.array_equal(image, result.weights)
    assert "".join(t.get_text() for t in axes.get_xticklabels()) == TEXTS[1].replace(" ", "␣")
    assert [t.get_text() for t in axes.get_yticklabels()] == [s.replace(" ", "␣") for s in result.symbols]


@pytest.mark.parametrize("text", ["1", "x" * 120, "日本 $5_{2} \\alpha", "é\n\tz"])
def test_any_text_can_be_drawn(text: str) -> None:
    assert encode(draw_alignment(translator().align(text, 8)), "svg").startswith(b"<?xml")


def test_there_is_no_alignment_without_attention() -> None:
    with pytest.raises(Unsupported, match="tiny-none has no attention, so there is no alignment to draw"):
        draw_alignment(translator("none").align(TEXTS[0]))


def test_a_text_too_long_for_a_picture_is_refused() -> None:
    with pytest.raises(BadInput, match="the text has 401 characters and a figure names 400"):
        draw_alignment(translator().align("x" * 401, 2))


def test_lengths_are_drawn_as_they_are() -> None:
    bins = {"one": [Bin(0, 9, 50, 1.0), Bin(10, 19, 50, 0.9)], "two": [Bin(0, 9, 50, 0.8), Bin(10, 19, 50, 0.2)]}
    axes = draw_lengths(bins).axes[0]
    assert [list(map(float, line.get_ydata())) for line in axes.lines] == [[1.0, 0.9], [0.8, 0.2]]  # type: ignore[arg-type]
    assert {t.get_text() for t in axes.texts} == {"one", "two"}


def test_no_lengths_cannot_be_drawn() -> None:
    with pytest.raises(BadInput, match="nothing to draw against length"):
        draw_lengths({"one": []})
