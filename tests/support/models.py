"""Tiny models of every family, in memory, loud: with the libraries' quiet initial weights broken edits would pass."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from heedful.methods import METHODS
from heedful.model.classifier import Classifier
from heedful.model.prompted import Prompt, Prompted
from heedful.nets import MultiHead, MultiHeadShape, Single
from heedful.nets.single import SingleShape

TEXTS = (
    "The film was not funny, but its ending moved me to tears.",
    "Dull.",
    "A warm and clever story about two sisters who never stop arguing",
    "unbelievably good music; the acting isn't",
)
TRAINING = [
    *TEXTS,
    "good bad great awful film story music acting",
    "premise hypothesis one two three",
    "A short probe, read twice.",
]


def skip_where_fused_differs(family: str) -> None:
    """Before transformers 5.21 the fused attention of gemma2 ignores its soft cap, so it is not the eager one."""
    if family == "gemma2" and tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 21):
        pytest.skip("its fused attention is not its eager one in this version of transformers")


def _special(kind: str) -> dict[str, str]:
    if kind == "wordpiece":
        return {
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "pad_token": "[PAD]",
            "mask_token": "[MASK]",
        }
    if kind == "gpt":
        return {"unk_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    return {
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
        "cls_token": "<s>",
        "sep_token": "</s>",
    }


_VOCABULARIES = json.loads((Path(__file__).parent / "vocabularies.json").read_text("utf-8"))


@cache
def tokenizer(kind: str) -> Any:
    """A small tokenizer: "wordpiece", "roberta" (byte-level BPE), "gpt" (the same without padding), "t5", "xlnet".

    Trained on TRAINING; the vocabularies of those whose trainers break ties by chance are kept in a file.
    """
    special = _special(kind)
    tokens = list(dict.fromkeys(special.values()))
    if kind == "wordpiece":
        ids = {piece: i for i, piece in enumerate(_VOCABULARIES[kind])}
        t = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer(lowercase=True)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.add_special_tokens(tokens)
    elif kind in ("roberta", "gpt"):
        t = tokenizers.Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=330, special_tokens=tokens, initial_alphabet=alphabet, show_progress=False
        )
        t.train_from_iterator(TRAINING, trainer)
    else:
        scored = [(piece, score) for piece, score in _VOCABULARIES[kind]]
        t = tokenizers.Tokenizer(models.Unigram(scored, unk_id=tokens.index("<unk>")))
        t.normalizer = normalizers.NFKC()
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        t.decoder = decoders.Metaspace()
        t.add_special_tokens(tokens)
    template = {
        "wordpiece": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
        "roberta": ("<s> $A </s>", "<s> $A </s> </s> $B </s>"),
        "t5": ("$A </s>", "$A </s> $B </s>"),
        "xlnet": ("$A </s> <s>:2", "$A </s> $B:1 </s>:1 <s>:2"),
    }.get(kind)
    if template:
        named = [(token, t.token_to_id(token)) for token in tokens]
        t.post_processor = processors.TemplateProcessing(single=template[0], pair=template[1], special_tokens=named)
    names = ["input_ids", "attention_mask"] + (["token_type_ids"] if kind in ("wordpiece", "xlnet") else [])
    side = "left" if kind == "xlnet" else "right"
    return PreTrainedTokenizerFast(
        tokenizer_object=t, **special, model_input_names=names, padding_side=side, model_max_length=64
    )


_BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
_LLAMA = _BERT | {"num_key_value_heads": 1, "head_dim": 8}
_T5 = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 3,
}
_BART = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64, "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}  # fmt: skip

_DEBERTA = _BERT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
_DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 64}
_BUCKETS = {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
_LOCAL = {"classifier_pooling": "mean", "global_attn_every_n_layers": 2, "local_attention": 8}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("wordpiece", _BERT),
    "distilbert": ("wordpiece", _DISTILBERT),
    "roberta": ("roberta", _BERT | {"max_position_embeddings": 68}),
    "xlm-roberta": ("t5", _BERT | {"max_position_embeddings": 68}),
    "albert": ("wordpiece", _BERT | {"embedding_size": 8}),
    "electra": ("wordpiece", _BERT | {"embedding_size": 8}),
    "mpnet": ("roberta", _BERT | {"max_position_embeddings": 68}),
    "deberta": ("wordpiece", _DEBERTA | {"position_biased_input": False}),
    "deberta-v2": ("wordpiece", _DEBERTA | _BUCKETS),
    "modernbert": ("wordpiece", _BERT | _LOCAL),
    "xlnet": ("xlnet", {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}),
    "roformer": ("wordpiece", _BERT | {"embedding_size": 16}),
    "gpt2": ("gpt", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}),
    "llama": ("roberta", _LLAMA),
    "qwen3": ("roberta", _LLAMA),
    "gemma2": ("roberta", _LLAMA | {"sliding_window": 6, "query_pre_attn_scalar": 8}),
    "mistral": ("roberta", _LLAMA | {"sliding_window": 6}),
    "t5": ("t5", _T5),
    "bart": ("roberta", _BART),
    "bloom": ("roberta", {"hidden_size": 16, "n_layer": 2, "n_head": 2}),
    "falcon": ("roberta", {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}),
}  # fmt: skip
# language models that classify by a prompt: the family, and how its language model is built
PROMPTED: dict[str, tuple[str, Any]] = {
    "prompted-gpt2": ("gpt2", AutoModelForCausalLM),
    "prompted-bert": ("bert", AutoModelForMaskedLM),
    "prompted-bart": ("bart", AutoModelForSeq2SeqLM),
    "prompted-llama": ("llama", AutoModelForCausalLM),
    "prompted-t5": ("t5", AutoModelForSeq2SeqLM),
}
WORDS = {"positive": " good", "negative": " bad", "mixed": " film"}
UNREADABLE = {
    "fnet": ("wordpiece", {k: v for k, v in _BERT.items() if k != "num_attention_heads"} | {"tpu_short_seq_length": 64})
}


def loud(model: nn.Module, seed: int = 0, scale: float = 0.3) -> nn.Module:
    """Weights large enough that attention matters."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.copy_(torch.randn(p.shape, generator=rng) * scale)
            else:
                p.add_(torch.randn(p.shape, generator=rng) * 0.05)
    return model.eval()


def build(family: str, labels: int = 3, seed: int = 0, **more: Any) -> Classifier:
    """A tiny loud classifier of a family, with its tokenizer."""
    if family == "bilstm":
        return bilstm(labels, seed)
    if family == "multihead":
        return multihead(labels, seed)
    if family in PROMPTED:
        return prompted(family, labels, seed)
    kind, settings = FAMILIES.get(family) or UNREADABLE[family]
    t = tokenizer(kind)
    model = _from_config(AutoModelForSequenceClassification, family, t, seed, settings | more | {"num_labels": labels})
    return Classifier(model, t, name=f"tiny-{family}")


def _from_config(auto: Any, family: str, t: Any, seed: int, settings: dict[str, Any]) -> Any:
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    ids = {name: getattr(t, name) for name in names}
    config = CONFIG_MAPPING[family](vocab_size=len(t), **(ids | settings))
    torch.manual_seed(seed)
    return loud(auto.from_config(config), seed)


def language_model(family: str, seed: int = 0) -> tuple[Any, Any]:
    """A tiny loud language model of a PROMPTED family, and its tokenizer."""
    base, auto = PROMPTED[family]
    kind, settings = FAMILIES[base]
    t = tokenizer(kind)
    return _from_config(auto, base, t, seed, settings), t


def prompted(family: str, labels: int = 3, seed: int = 0, **prompt: Any) -> Prompted:
    """A tiny loud language model that classifies by a prompt; `prompt` are fields of `Prompt`."""
    template = "It is {mask}: {text} so" if PROMPTED[family][1] is AutoModelForMaskedLM else "Review: {text} It is"
    words = dict(list(WORDS.items())[:labels])
    fields = {"template": template, "verbalizer": words} | prompt
    return Prompted(*language_model(family, seed), Prompt(**fields), name=f"tiny-{family}")


# a BiLSTM by hand, for toys: with a second head past attention


class _Config(PretrainedConfig):  # type: ignore[misc, unused-ignore]
    model_type = "test-bilstm"


class BiLSTM(nn.Module):
    """Embedding, one BiLSTM layer, additive attention over real tokens, linear head; [b,1,1,t] attention.

    With `bag`, a second head reads the mean of the states past attention.
    """

    attention_sites = (("self", 0),)

    def __init__(self, vocabulary: int, labels: int, bag: bool = False) -> None:
        super().__init__()
        self.config = _Config(num_labels=labels, id2label={i: f"LABEL_{i}" for i in range(labels)})
        self.words = nn.Embedding(vocabulary, 8)
        self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.inner, self.score = nn.Linear(12, 6), nn.Linear(6, 1, bias=False)
        self.out = nn.Linear(12, labels)
        self.bag = nn.Linear(12, labels, bias=False) if bag else None

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None, **_: Any) -> Any:
        vectors = self.words(input_ids)
        packed = nn.utils.rnn.pack_padded_sequence(
            vectors, attention_mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _hidden = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1]
        )
        scores = self.score(torch.tanh(self.inner(states))).transpose(1, 2)[:, None]
        weights = scores.masked_fill(attention_mask[:, None, None] == 0, -torch.inf).softmax(-1)
        context = torch.matmul(weights, states[:, None])[:, 0, 0]
        logits = self.out(context)
        if self.bag is not None:
            mask = attention_mask[..., None].to(states.dtype)
            logits = logits + self.bag((states * mask).sum(1) / mask.sum(1))
        return SequenceClassifierOutput(logits=logits, attentions=(weights,))


def bilstm(labels: int = 3, seed: int = 0) -> Classifier:
    """BiLSTM and additive attention (Jain & Wallace 2019)."""
    torch.manual_seed(seed)
    t = tokenizer("wordpiece")
    net = Single(SingleShape(len(t), labels, embedding=8, hidden=6))
    return Classifier(loud(net, seed, 0.5), t, name="tiny-bilstm")


def multihead(labels: int = 3, seed: int = 0, masked: bool = True) -> Classifier:
    """The single-layer attention classifier of Lopardo et al. 2024."""
    t = tokenizer("wordpiece")
    shape = MultiHeadShape(
        len(t), labels, embedding=16, attention=8, value=8, heads=2, max_position_embeddings=64, masked=masked,
        pad_token_id=t.unk_token_id,
    )  # fmt: skip
    return Classifier(loud(MultiHead(shape), seed), t, name="tiny-multihead")


SINGLE = ("bilstm", "multihead")  # one query, not one per token
EVERY = (*FAMILIES, *SINGLE)
# those that differ most: positions, masks, pooling, shared or local layers, decoders, one query
DIVERSE = ("bert", "albert", "mpnet", "deberta-v2", "modernbert", "xlnet", "gpt2", "mistral", "bart", "t5", *SINGLE)
# methods that ask for nothing but answers, of changed texts: what differs between families is not in their way
OUTSIDE = (
    "occlusion", "lime", "shapley", "shapley-partition", "input-reduction", "minimal-flip",
    "random", "uniform", "position",
)  # fmt: skip
INSIDE = tuple(name for name in METHODS if name not in OUTSIDE)
shared = cache(build)  # for tests that leave the model as it was
