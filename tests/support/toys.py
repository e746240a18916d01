"""Known-answer models: real architectures with planted weights, for which it is known what explains them.

Every word has three features: how much it draws attention (key), what it says when it is pointed at (value), and what
it adds to a bag of words (bag). Every toy has two ways from the words to its two logits (∓z): a *pointer*, one
attention row that looks at the word with the highest key and copies its value; and a *bag*, the mean of the words' bag
features.

pointer         z = value of the word that is looked at            attention is the explanation
deaf            z = mean bag; attention still points, at nothing    attention is peaked and means nothing
bag             z = mean bag; attention is uniform                  attention is constant and claims nothing
mix(c)          z = (1 − c) · pointer + c · bag

A toy language model says "good" or "bad" after a prompt of unknown words.
A toy for pairs points at a word of the first text, and its bag is of the second, where its attention cannot point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

from heedful.model.classifier import Classifier
from heedful.model.prompted import Prompt, Prompted
from heedful.nets.pair import Pair, PairShape
from tests.support.models import BiLSTM

ARCHITECTURES = ("bert", "gpt2", "bart", "bilstm")
MARKERS = {"yes": 1.0, "no": -1.0}  # the words that attention points at, and what they say there
FILLERS = (
    "ape", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "koi", "lynx", "mole", "newt", "owl", "pig",
)  # fmt: skip
ANSWERS = ("bad", "good")  # what the language model says
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
POINT = 12.0  # the score of a marker above the others
D = 12  # ± pairs of: key, value, bag, filler for a constant norm, pointer written, bag written
KEY, VALUE, BAG, REST, POINTED, BAGGED = range(0, D, 2)
SMALL = 0.2


@dataclass(frozen=True)
class Toy:
    """Which toy: the share of the bag in the answer, whether attention points, and whether it is heard."""

    c: float = 0.0
    points: bool = True
    heard: bool = True


POINTER, DEAF, BAG_TOY = Toy(), Toy(c=1.0, heard=False), Toy(c=1.0, points=False)


def mix(c: float) -> Toy:
    return Toy(c=c)


def bag_weight(word: str) -> float:
    """What a word adds to the bag: fillers from −1 to 1, nothing for markers."""
    return 0.0 if word not in FILLERS else 2 * FILLERS.index(word) / (len(FILLERS) - 1) - 1


@cache
def tokenizer(special: bool = True, types: bool = False) -> Any:
    vocabulary = {word: i for i, word in enumerate((*SPECIAL, *MARKERS, *FILLERS, *ANSWERS))}
    t = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        named = [(s, vocabulary[s]) for s in ("[CLS]", "[SEP]")]
        t.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=named
        )
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    if special:
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    return PreTrainedTokenizerFast(tokenizer_object=t, **names, model_input_names=inputs)


def vectors(t: Any) -> torch.Tensor:
    """Word vectors of zero mean and equal norm, so that a LayerNorm leaves them as they are."""
    table = torch.zeros(len(t), D)
    for word, i in t.get_vocab().items():
        row = {KEY: float(word in MARKERS), VALUE: SMALL * MARKERS.get(word, 0.0), BAG: SMALL * bag_weight(word)}
        row[REST] = (D / 2 - sum(x * x for x in row.values())) ** 0.5
        for at, x in row.items():
            table[i, at], table[i, at + 1] = x, -x
    return table


def build(architecture: str, toy: Toy) -> Classifier:
    """The toy in a real architecture."""
    made = {"bert": _bert, "gpt2": _gpt2, "bart": _bart, "bilstm": _bilstm, "pair": _pair, "prompted": _language_model}
    t = tokenizer(special=architecture not in ("gpt2", "prompted"), types=architecture == "pair")
    torch.manual_seed(0)
    model = made[architecture](t, toy).eval()
    if architecture == "prompted":
        prompt = Prompt("the review {text} which is", {answer: f" {answer}" for answer in ANSWERS})
        return Prompted(model, t, prompt, name="toy-prompted")
    return Classifier(model, t, name=f"toy-{architecture}")


def texts(n: int, seed: int = 0, shortest: int = 4, longest: int = 12) -> list[str]:
    """Texts of fillers with one marker somewhere."""
    rng = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=rng))

    made = []
    for _ in range(n):
        words = [FILLERS[draw(0, len(FILLERS))] for _ in range(draw(shortest, longest + 1))]
        words.insert(draw(0, len(words) + 1), list(MARKERS)[draw(0, 2)])
        made.append(" ".join(words))
    return made


def pairs(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """Such texts, each with a second one of fillers."""
    seconds = texts(n, seed + 1, shortest=2, longest=5)
    return [
        (first, " ".join(word for word in second.split() if word in FILLERS))
        for first, second in zip(texts(n, seed), seconds, strict=True)
    ]


def marker(pieces: Sequence[str]) -> int:
    """Where the marker stands."""
    return next(i for i, piece in enumerate(pieces) if piece in MARKERS)


@torch.no_grad()
def _silent(model: Any) -> Any:
    """All weights zero, all norms the identity."""
    for name, p in model.named_parameters():
        norm = "layernorm" in name.lower() or "layer_norm" in name.lower() or ".ln_" in name
        p.fill_(1.0 if norm and name.endswith("weight") else 0.0)
    return model


def _reads(at: int, to: int, gain: float = 1.0) -> torch.Tensor:
    """[out, in]: the difference of a ± pair of coordinates written to one coordinate."""
    w = torch.zeros(D, D)
    w[to, at], w[to, at + 1] = gain / 2, -gain / 2
    return w


def _writes(at: int, to: int, gain: float = 1.0) -> torch.Tensor:
    """[out, in]: one coordinate written to a ± pair."""
    w = torch.zeros(D, D)
    w[to, at], w[to + 1, at] = gain, -gain
    return w


@torch.no_grad()
def _plant(layer: Any, names: tuple[str, str, str, str], reads: int, writes: int, points: bool, heard: bool) -> None:
    """An attention layer that looks at markers (or at all alike) and copies feature `reads` to the pair `writes`."""
    query, key, value, out = (layer.get_submodule(name) for name in names)
    if points:
        query.bias[0] = POINT * D**0.5
        key.weight.copy_(_reads(KEY, 0))
    if heard:
        value.weight.copy_(_reads(reads, 0))
        out.weight.copy_(_writes(0, writes))


def _answer(toy: Toy) -> torch.Tensor:
    """[2, D]: ∓z from the written pairs."""
    w = torch.zeros(2, D)
    for at, gain in ((POINTED, 1 - toy.c), (BAGGED, toy.c)):
        w[1, at], w[1, at + 1] = gain / SMALL / 2, -gain / SMALL / 2
    w[0] = -w[1]
    return w


def _bert(t: Any, toy: Toy) -> Any:
    """Layer 0: the bag, by uniform attention. Layer 1: the pointer."""
    model = _silent(BertForSequenceClassification(BertConfig(
        vocab_size=len(t), hidden_size=D, num_hidden_layers=2, num_attention_heads=1, intermediate_size=2,
        max_position_embeddings=40, num_labels=2, pad_token_id=t.pad_token_id, layer_norm_eps=1e-12,
    )))  # fmt: skip
    names = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.copy_(vectors(t))
        _plant(model.bert.encoder.layer[0], names, BAG, BAGGED, points=False, heard=True)
        _plant(model.bert.encoder.layer[1], names, VALUE, POINTED, toy.points, toy.heard)
        model.bert.pooler.dense.weight.copy_(torch.eye(D) * 0.01)
        model.classifier.weight.copy_(_answer(toy) / 0.01)
    return model


def _gpt2(t: Any, toy: Toy, kind: Any = GPT2ForSequenceClassification) -> Any:
    """The same in a decoder: its last position sees everything."""
    model = _silent(kind(GPT2Config(
        vocab_size=len(t), n_embd=D, n_layer=2, n_head=1, n_inner=2, n_positions=40, num_labels=2,
        pad_token_id=t.pad_token_id, bos_token_id=None, eos_token_id=None, layer_norm_epsilon=1e-12,
        tie_word_embeddings=kind is GPT2ForSequenceClassification,
    )))  # fmt: skip
    with torch.no_grad():
        model.transformer.wte.weight.copy_(vectors(t))
        plan = ((BAG, BAGGED, False, True), (VALUE, POINTED, toy.points, toy.heard))
        for block, (reads, writes, points, heard) in zip(model.transformer.h, plan, strict=True):
            if points:
                block.attn.c_attn.bias[0] = POINT * D**0.5
                block.attn.c_attn.weight[:, D : 2 * D] = _reads(KEY, 0).T
            if heard:
                block.attn.c_attn.weight[:, 2 * D :] = _reads(reads, 0).T
                block.attn.c_proj.weight.copy_(_writes(0, writes).T)
        if kind is GPT2ForSequenceClassification:
            model.score.weight.copy_(_answer(toy))
    return model


def _language_model(t: Any, toy: Toy) -> Any:
    """The decoder as a language model, whose output layer writes the answer's words."""
    model = _gpt2(t, toy, GPT2LMHeadModel)
    with torch.no_grad():
        model.lm_head.weight[t.convert_tokens_to_ids(list(ANSWERS))] = _answer(toy)
    return model


def _bart(t: Any, toy: Toy) -> Any:
    """The bag in the decoder's own attention, the pointer in its cross attention; the encoder passes words through."""
    model = _silent(BartForSequenceClassification(BartConfig(
        vocab_size=len(t), d_model=D, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1,
        decoder_attention_heads=1, encoder_ffn_dim=2, decoder_ffn_dim=2, max_position_embeddings=40, num_labels=2,
        pad_token_id=t.pad_token_id, bos_token_id=t.cls_token_id, eos_token_id=t.sep_token_id,
        decoder_start_token_id=t.pad_token_id, forced_eos_token_id=None,
    )))  # fmt: skip
    layer = model.model.decoder.layers[0]
    with torch.no_grad():
        model.model.shared.weight.copy_(vectors(t))
        for own, name in ((layer.self_attn, "self"), (layer.encoder_attn, "cross")):
            parts = ("q_proj", "k_proj", "v_proj", "out_proj")
            bag = name == "self"
            _plant(
                own, parts, BAG if bag else VALUE, BAGGED if bag else POINTED, not bag and toy.points, bag or toy.heard
            )
        model.classification_head.dense.weight.copy_(torch.eye(D) * 0.01)
        model.classification_head.out_proj.weight.copy_(_answer(toy) / 0.01)
    return model


def _bilstm(t: Any, toy: Toy) -> Any:
    """A BiLSTM whose gates keep no memory: each state is its word's. The bag is a head on the mean of the states."""
    model: Any = BiLSTM(len(t), 2, bag=True)
    table = torch.zeros(len(t), 8)
    for word, i in t.get_vocab().items():
        table[i, :3] = torch.tensor([float(word in MARKERS), MARKERS.get(word, 0.0), bag_weight(word)]) * SMALL
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model.words.weight.copy_(table)
        gates = model.lstm.bias_ih_l0  # input, forget, cell, output
        gates[:6], gates[6:12], gates[18:] = 20.0, -20.0, 20.0
        model.lstm.weight_ih_l0[12:15, :3] = torch.eye(3)
        if toy.points:
            model.inner.weight[0, 0] = 1.0
            model.score.weight[0, 0] = POINT / 0.19
        gain = torch.tensor([-1.0, 1.0]) / SMALL
        model.out.weight[:, 1] = gain * (1 - toy.c) * toy.heard
        model.bag.weight[:, 2] = gain * toy.c
    return model


def _pair(t: Any, toy: Toy) -> Any:
    """Words one by one: the pointer reads the first text, and the bag is the mean of the second."""
    shape = PairShape(len(t), 2, embedding=4, encoder="none", special=(t.cls_token_id, t.sep_token_id))
    model: Any = Pair(shape)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        for word, i in t.get_vocab().items():
            features = [float(word in MARKERS), MARKERS.get(word, 0.0), bag_weight(word), 0.0]
            model.words.weight[i] = SMALL * torch.tensor(features * 2)
        if toy.points:
            model.score.key.weight[0, 0] = 1.0
            model.score.outer.weight[0, 0] = POINT / SMALL
        model.from_passage.weight[0, 1] = (1 - toy.c) * toy.heard
        model.from_query.weight[0, 2] = toy.c
        model.decoder.weight[:, 0] = torch.tensor([-1.0, 1.0]) / SMALL
    return model
