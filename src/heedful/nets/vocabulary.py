"""Vocabulary: the tokenizers of the papers' networks, learned from the training texts.

Tokens are whole words, cut by one rule, or learned pieces (byte-pair encoding). Results are deterministic and do not
depend on the order of the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import tokenizers
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.sparse import csr_array, diags_array
from scipy.special import expit
from tokenizers import Regex, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor

from heedful.core.arrays import Bools, Floats, Ints
from heedful.core.errors import BadInput
from heedful.maths.cooccurrence import cooccurrences, factors, ppmi

PAD, UNK, BEGIN, END, CLS = "<pad>", "<unk>", "<s>", "</s>", "[CLS]"
Frame = Literal["ends", "cls", "none"]
# words with inner apostrophes and hyphens, numbers with a decimal point, or one other mark
_WORD = r"\p{L}[\p{L}\p{M}\p{N}_]*(?:['’\-][\p{L}\p{M}\p{N}_]+)*|\p{N}+(?:[.,]\p{N}+)*\p{L}*"
_MARK = r"|[^\s\p{L}\p{N}]"
_TAG = r"<[bB][rR]\s*/?>"
# all but the first character of a word with a digit
_INNER = r"(?:[\p{L}\p{M}\p{N}_]|['’\-](?=[\p{L}\p{M}\p{N}_]))"
_AFTER_LETTER = rf"\p{{L}}(?={_INNER}*\p{{N}})\K{_INNER}+"
_AFTER_DIGIT = r"\p{N}\K(?=[\p{N}\p{L}]|[.,]\p{N})\p{N}*(?:[.,]\p{N}+)*\p{L}*"
NUMBER = "000"  # what `digits` puts in the place of a word with a digit; no other digit is left then
_HOLD = "\ue000"  # stands for a digit of it; in no text
VECTOR_WINDOW = 5  # tokens to each side that are a word's context
MIN_VECTOR_COUNT = 5  # occurrences of a word that gets a vector from the texts
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


@dataclass(frozen=True)
class TokenRules:
    """How texts become tokens.

    `frame` puts <s> … </s> around a text ("ends"), [CLS] in front ("cls") or nothing. `pieces` learns that many pieces
    instead of whole words. Words with fewer than `min_count` occurrences in the training texts are unknown; so are all
    but the `most` frequent. `digits` replaces every word with a digit by one word, as Jain & Wallace do.
    """

    frame: Frame = "ends"
    lower: bool = True
    punctuation: bool = True
    digits: bool = False
    min_count: int = 1
    most: int | None = None
    pieces: int | None = None


def specials(frame: Frame) -> dict[str, str]:
    """The role of each special token, in the order of their ids."""
    if frame == "cls":
        return {"cls_token": CLS, "unk_token": UNK, "pad_token": PAD}
    framed = {"bos_token": BEGIN, "eos_token": END} if frame == "ends" else {}
    return {"pad_token": PAD, "unk_token": UNK} | framed


def learned(texts: Iterable[str], cut: TokenRules) -> tokenizers.Tokenizer:
    """The tokenizer learned from these training texts."""
    special = list(specials(cut.frame).values())
    tokenizer = _pieces(texts, cut, special) if cut.pieces else _words(texts, cut, special)
    if tokenizer.get_vocab_size() <= len(special):
        raise BadInput("the training texts have no words to learn; check the text column, or set a smaller min_count.")
    named = [(token, tokenizer.token_to_id(token)) for token in special]
    frames: dict[str, tuple[str, str]] = {
        "ends": (f"{BEGIN} $A {END}", f"{BEGIN} $A {END} $B:1 {END}:1"),
        "cls": (f"{CLS} $A", f"{CLS} $A $B:1"),
        "none": ("$A", "$A $B:1"),
    }
    single, pair = frames[cut.frame]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=named)
    return tokenizer


def _normalizer(cut: TokenRules) -> normalizers.Normalizer:
    steps = [normalizers.NFC(), normalizers.Replace(Regex(_TAG), " ")]
    steps += [normalizers.Lowercase()] if cut.lower else []
    if cut.digits:
        # subtle: what replaces several characters gets the span of the last, so the first is replaced separately
        parts = {f"{_AFTER_LETTER}|{_AFTER_DIGIT}": _HOLD * 2, rf".(?={_HOLD})": _HOLD, r"\p{N}": _HOLD * 3, _HOLD: "0"}
        steps += [normalizers.Replace(Regex(pattern), new) for pattern, new in parts.items()]
    return normalizers.Sequence(steps)


def _splitter(cut: TokenRules) -> pre_tokenizers.PreTokenizer:
    pattern = f"{NUMBER}|{_WORD}" if cut.digits else _WORD
    return pre_tokenizers.Split(Regex(pattern + _MARK if cut.punctuation else pattern), "removed", invert=True)


def _words(texts: Iterable[str], cut: TokenRules, special: Sequence[str]) -> tokenizers.Tokenizer:
    normal, split = _normalizer(cut), _splitter(cut)
    counts = Counter(
        chain.from_iterable((word for word, _ in split.pre_tokenize_str(normal.normalize_str(t))) for t in texts)
    )
    ranked = sorted((w for w, n in counts.items() if n >= cut.min_count), key=lambda w: (-counts[w], w))
    known = [*special, *[w for w in ranked if w not in special][: cut.most]]
    tokenizer = tokenizers.Tokenizer(models.WordLevel({w: i for i, w in enumerate(known)}, unk_token=UNK))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normal, split
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def _pieces(texts: Iterable[str], cut: TokenRules, special: Sequence[str]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=UNK))
    tokenizer.normalizer = _normalizer(cut)
    # subtle: with a continuation mark ("##ing") the trainer's ids are not deterministic
    begins = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_splitter(cut), begins])
    trainer = trainers.BpeTrainer(
        vocab_size=cut.pieces or 0,
        special_tokens=list(special),
        min_frequency=max(2, cut.min_count),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def ids(tokenizer: tokenizers.Tokenizer, tokens: Iterable[str]) -> tuple[int, ...]:
    """The ids of the tokens in the vocabulary, as whole words or as pieces that begin one."""
    numbers = (tokenizer.token_to_id(form) for token in tokens for form in (token, f"▁{token}"))
    return tuple(i for i in numbers if i is not None)


def vectors(file: str | Path, vocabulary: Mapping[str, int], width: int | None = None) -> dict[int, Float[Tensor, "e"]]:
    """Pretrained word vectors from a text file (GloVe, fastText .vec, word2vec text): id -> vector.

    A line is a word and its numbers; a first line with two numbers is a header. Words must match exactly.
    """
    rows: dict[int, Tensor] = {}
    try:
        with Path(file).expanduser().open(encoding="utf-8", newline="\n") as lines:
            size = 0
            for number, line in enumerate(lines, 1):
                plain = line.rstrip("\n ")
                if number == 1 and plain.count(" ") == 1:
                    continue
                size = size or plain.count(" ")
                # subtle: GloVe has words with spaces in them (". . ."), so the numbers are counted from the end
                word, *rest = plain.rsplit(" ", size)
                if word in vocabulary:
                    rows[vocabulary[word]] = _vector(rest, width, f"'{file}' line {number}")
    except OSError as e:
        raise BadInput(f"the word vectors '{file}' cannot be read ({e.strerror}); check the path.") from e
    except UnicodeDecodeError as e:
        raise BadInput(f"the word vectors '{file}' are not UTF-8 text; give a GloVe, fastText or word2vec text.") from e
    if not rows:
        raise BadInput(f"the word vectors '{file}' have none of the training texts' words; check the file.")
    return rows


def _vector(numbers: Sequence[str], width: int | None, where: str) -> Tensor:
    try:
        row = np.array(numbers, dtype=np.float32)
    except ValueError:
        raise BadInput(f"{where} is not a word vector; write a word and its numbers, separated by spaces.") from None
    if width is not None and len(row) != width:
        raise BadInput(f"{where} has {len(row)} numbers, the network's embedding {width}; set embedding={len(row)}.")
    return torch.from_numpy(row)


def trained_vectors(
    tokens: Int[Ints, "n"], runs: Int[Ints, "n"], width: int, special: Collection[int] = ()
) -> dict[int, Float[Tensor, "e"]]:
    """Word vectors of length 1 from the texts' own co-occurrences (`maths.cooccurrence`): id -> vector.

    `runs` numbers the run of each token: a text, or one of a pair. Words that are `special`, have fewer than 5
    occurrences, or occur near no other word more often than by chance get none.
    """
    counts = np.bincount(tokens)
    frequent = np.setdiff1d(np.flatnonzero(counts >= MIN_VECTOR_COUNT), list(special))
    places = np.full(len(counts), -1)
    places[frequent] = np.arange(len(frequent))
    matrix = ppmi(cooccurrences(places[tokens], runs, len(frequent), VECTOR_WINDOW))
    if not matrix.nnz:
        few = f"no words that occur {MIN_VECTOR_COUNT} times and near others"
        raise BadInput(f"the training texts have {few}; give more texts, or leave out vectors=train.")
    rows = factors(matrix, width, np.random.default_rng(0))
    lengths = np.linalg.norm(rows, axis=1)
    related = np.flatnonzero((np.diff(matrix.indptr) > 0) & (lengths > 0))
    return {int(frequent[i]): torch.from_numpy(rows[i] / lengths[i]) for i in related}


_COMMON = (
    "a about after again all also am an and any are as at be because been before being both but by can could did "
    "do does doing down during each few for from further had has have having he her here hers him his how i if in "
    "into is it its itself just me more most my myself of off on once only or other our ours out over own same "
    "she should so some such than that the their theirs them then there these they this those through to too "
    "under until up very was we were what when where which while who whom why will with would you your yours"
)
STOPWORDS = frozenset(_COMMON.split())


def log_odds(
    texts: Sequence[Sequence[int]],
    labels: Int[Ints, "n"] | Int[Ints, "n c"],
    vocabulary: int,
    stopwords: Collection[int] = (),
) -> Float[Floats, "v"]:
    """The weight of each word in an L1 logistic regression on bags of words, classes balanced; 0 for `stopwords`.

    Two labels: the log-odds of label 1. More, or a 0/1 matrix of several labels: one against the rest, and the largest
    |weight| of each word. Special tokens must be among `stopwords`.
    """
    truth = np.asarray(labels)
    if len(truth) != len(texts) or not len(texts):
        raise BadInput(f"{len(texts)} texts have {len(truth)} labels; give one label to each of at least two texts.")
    bags = _bags(texts, vocabulary, stopwords)
    if truth.ndim == 2:
        tasks = [column == 1 for column in truth.T]
    else:
        known = np.unique(truth)
        tasks = [truth == label for label in (known[1:] if len(known) == 2 else known)]
    weights = [regression(bags, yes)[:vocabulary] for yes in tasks if yes.any() and not yes.all()]
    if not weights:
        raise BadInput("all texts have one label; give texts of at least two.")
    return weights[0] if len(tasks) == 1 else np.abs(weights).max(0)


def log_odds_of_labels(
    texts: Sequence[Sequence[int]],
    labels: Int[Ints, "n"],
    count: int,
    vocabulary: int,
    stopwords: Collection[int] = (),
) -> Float[Floats, "c v"]:
    """As `log_odds`, of each of `count` labels against the rest, with signs; 0 for a label that no text has."""
    truth = np.asarray(labels)
    bags = _bags(texts, vocabulary, stopwords)
    known = [label for label in range(count) if 0 < (truth == label).sum() < len(truth)]
    weights = np.zeros((count, vocabulary))
    if len(known) == 2 == len(np.unique(truth)):  # one is the other's opposite
        weights[known[1]] = regression(bags, truth == known[1])[:vocabulary]
        weights[known[0]] = -weights[known[1]]
        return weights
    for label in known:
        weights[label] = regression(bags, truth == label)[:vocabulary]
    return weights


def _bags(texts: Sequence[Sequence[int]], vocabulary: int, stopwords: Collection[int]) -> csr_array:
    """Word counts of each text, scaled to norm 1, without stop words; 0 for a text without words."""
    row = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    column = np.fromiter((word for text in texts for word in text), dtype=np.int64, count=len(row))
    if len(column) and not 0 <= column.min() <= column.max() < vocabulary:
        raise BadInput(f"words {column.min()} … {column.max()} are not within a vocabulary of {vocabulary}.")
    content = ~np.isin(column, list(stopwords))
    where = (row[content], column[content])
    counts = csr_array((np.ones(len(where[0])), where), shape=(len(texts), vocabulary))
    norms = np.sqrt(counts.multiply(counts).sum(1))
    return csr_array(diags_array(1 / np.where(norms > 0, norms, 1)) @ counts)


def objective(theta: Float[Floats, "p"], bags: csr_array, yes: Bools) -> tuple[float, Float[Floats, "p"]]:
    """Balanced logistic loss of weights and intercept (the last), and its gradient, without ‖theta‖₁."""
    sign = np.where(yes, 1.0, -1.0)
    share = len(yes) / 2 / np.where(yes, yes.sum(), (~yes).sum())
    margin = sign * (bags @ theta[:-1] + theta[-1])
    slope = -share * sign * expit(-margin)
    return float(share @ np.logaddexp(0, -margin)), np.append(bags.T @ slope, slope.sum())


def regression(bags: csr_array, yes: Bools) -> Float[Floats, "p"]:
    """Weights and intercept that minimise `objective` + ‖·‖₁.

    The intercept is regularised like any weight, as in liblinear, with its default strength (C = 1).
    """
    width = bags.shape[1] + 1

    def split(halves: Floats) -> tuple[float, Floats]:
        # subtle: theta = up - down, both at least 0, makes the L1 norm smooth; exact zeros are active bounds
        value, slope = objective(halves[:width] - halves[width:], bags, yes)
        return value + float(halves.sum()), np.concatenate([1 + slope, 1 - slope])

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-10, "gtol": 1e-6, "maxcor": 20}
    bounds = [(0, None)] * (2 * width)
    halves = minimize(split, np.zeros(2 * width), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return np.asarray(halves[:width] - halves[width:])
