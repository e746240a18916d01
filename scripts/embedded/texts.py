"""The training texts: read from files, composed of phrases and patterns, augmented."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pyarrow import parquet
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from . import patterns
from .settings import Paths, Settings, atomic

LABELS = ("negative", "positive")
UNLABELLED = -1
SPELLINGS = ("ordinary", "treebank")
ASCII = {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--", "\u2013": "-", "\u2026": "..."}
Words = list[tuple[str, int]]  # with labels
Clauses = list[list[list[str]]]  # by domain, then by label


class Example(NamedTuple):
    ordinary: str
    treebank: str
    label: int = UNLABELLED
    confidence: float = 1.0  # probability that the label is correct


def ordinary_spelling(text: str) -> str:
    """Undo the tokenisation of the Penn Treebank: "wo n't -lrb- ever -rrb- ." -> "won't (ever)."."""
    for old, new in (("-lrb-", "("), ("-rrb-", ")"), ("\\/", "/"), ("\\*", "*"), ("can not", "cannot")):
        text = text.replace(old, new)
    text = re.sub(r"(?<!\S)` ?", "'", re.sub(r"`` ?| ?''", '"', text))
    text = re.sub(r" (n't|'(?:s|re|ve|ll|d|m)?)(?!\S)", r"\1", text)
    text = re.sub(r" ([.,:;?!)%])", r"\1", text)
    return " ".join(re.sub(r"([($#]) ", r"\1", text).split())


def ascii_punctuation(text: str) -> str:
    for old, new in ASCII.items():
        text = text.replace(old, new)
    return " ".join(text.split())


def text_key(text: str) -> str:
    """The same for all spellings of a text."""
    return re.sub(r"\W", "", ordinary_spelling(text.lower()))


def deduplicate(examples: Sequence[Example], held_out: Collection[str]) -> list[Example]:
    """The first example of each text whose key is not held out."""
    unique: dict[str, Example] = {}
    for e in examples:
        if (key := text_key(e.treebank)) not in held_out:
            unique.setdefault(key, e)
    return list(unique.values())


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_examples(path: Path) -> list[Example]:
    """Labels are numbers or names."""
    rows = [(row["text"], row["label"]) for row in read_jsonl(path)]
    return [Example(ordinary_spelling(x), x, LABELS.index(y) if isinstance(y, str) else y) for x, y in rows]


def read_reviews(folder: Path, s: Settings, rng: random.Random) -> tuple[list[Example], list[Example]]:
    """Sentences from the ends and from the middle of reviews, each list in random order, with the review's label."""
    ends: list[Example] = []
    middle: list[Example] = []
    for split in ("train", "test"):
        for row in parquet.read_table(folder / f"{split}.parquet", columns=["text", "label"]).to_pylist():
            parts = re.split(r"<br />|(?<=[.!?])\s+", ascii_punctuation(row["text"]))
            parts = [" ".join(part.split()) for part in parts if part.strip()]
            for n, part in enumerate(parts):
                if s.min_words <= len(part.split()) <= s.max_words:
                    sentences = ends if n < 2 or n >= len(parts) - 2 else middle
                    sentences.append(Example(part, part, row["label"], s.review_confidence))
    return rng.sample(ends, len(ends)), rng.sample(middle, len(middle))


def read_snippets(folder: Path) -> Iterator[Example]:
    """Product reviews, news and tweets; labelled if the mean rating of the annotators, -4 to 4, is at least 0.6."""
    for source in ("amazonReviewSnippets", "nytEditorialSnippets", "tweets"):
        path = folder / f"{source}_GroundTruth.txt"
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            _, rating, text = line.split("\t", 2)
            label = UNLABELLED if abs(float(rating)) < 0.6 else int(float(rating) > 0)
            yield Example(ascii_punctuation(text), ascii_punctuation(text), label, 0.95)


def read_lexicon(folder: Path) -> Words:
    """Words of the VADER lexicon that end like adjectives, with a mean rating of at least 1.3; their labels."""
    adjective = re.compile(r"[a-z]{2,}(?:ful|less|ous|y|ive|able|ible|ic|al|ish|ing|ed|ent|ant)")
    lines = (folder / "vader_sentiment_lexicon.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    ratings = [(word, float(rating)) for word, rating, *_ in (line.split("\t") for line in lines if "\t" in line)]
    return [(word, int(rating > 0)) for word, rating in ratings if adjective.fullmatch(word) and abs(rating) >= 1.3]


def punctuate(text: str, label: int, confidence: float, rng: random.Random) -> Example:
    """An example with a random end mark or none."""
    text += rng.choice(("", " .", " .", " !"))
    return Example(ordinary_spelling(text), text, label, confidence)


def compose_negations(words: Words, s: Settings, rng: random.Random) -> Iterator[Example]:
    """Words and short phrases asserted and negated."""
    for _ in range(s.negations):
        frame, (word, label) = rng.choice(patterns.NEGATION_FRAMES), rng.choice(words)
        negated = frame[0] == "-"
        # "not bad" is weaker praise than "not good" is criticism
        confidence = 0.8 if negated and label == 0 else 0.9
        yield punctuate(frame[1:].format(rng.choice(patterns.SUBJECTS), word), label ^ negated, confidence, rng)


def compose_contrasts(halves: Sequence[Example], s: Settings, rng: random.Random) -> Iterator[Example]:
    """Pairs of labelled texts; the main clause, or what follows "but", decides the label."""
    for _ in range(s.contrasts):
        first, second = rng.sample(halves, 2)
        frame, parts = rng.choice(patterns.CONTRAST_FRAMES), [e.treebank.strip(" .,;-`'") for e in (first, second)]
        yield punctuate(frame.format(*parts), second.label, 0.95 if first.label == second.label else 0.85, rng)


def fill_frames(s: Settings, rng: random.Random) -> Iterator[Example]:
    for _ in range(s.frames):
        frame = rng.choice(patterns.FRAMES)
        text = re.sub(r"\{(\w)\}", lambda slot: rng.choice(patterns.SLOTS[slot[1]]), frame[1:])
        yield punctuate(re.sub(r"\ba (?=[aeiou])", "an ", text), int(frame[0] == "+"), 0.95, rng)


def four_grams(text: str) -> set[tuple[str, ...]]:
    """All sequences of four words; for a shorter text, the sequence of all its words."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[n : n + 4]) for n in range(max(len(words) - 3, 1))}


def unseen_clauses(p: Paths) -> Clauses:
    """The clauses that share no four consecutive words with the corpus or the second development set."""
    rows = [*read_jsonl(p.dev_sentences), *read_jsonl(p.corpus)]
    held_out = {four_gram for row in rows for four_gram in four_grams(row["text"])}
    domains = [[text for text in texts if not four_grams(text) & held_out] for texts in patterns.CLAUSES.values()]
    return [[[text[1:] for text in texts if text[0] == sign] for sign in "-+"] for texts in domains]


def join_clauses(clauses: Clauses, s: Settings, rng: random.Random) -> Iterator[Example]:
    """One or two clauses about one subject; the main clause, or what follows "but", decides the label."""
    for _ in range(s.clauses):
        domain, label, form = rng.choice(clauses), rng.randrange(2), rng.random()
        clause = rng.choice(domain[label])
        if form < 0.35:
            yield punctuate(clause, label, 0.95, rng)
        elif form < 0.65:
            link = rng.choice((" , and ", " and ", " . ", " , ", " ; "))
            yield punctuate(rng.choice(domain[label]) + link + clause, label, 0.95, rng)
        else:
            frame = rng.choice(patterns.CONTRAST_FRAMES)
            yield punctuate(frame.format(rng.choice(domain[1 - label]), clause), label, 0.85, rng)


def compose(
    sentences: list[Example], phrases: list[Example], lexicon: Words, clauses: Clauses, s: Settings, rng: random.Random
) -> list[Example]:
    """Texts in treebank spelling whose label follows from their composition."""
    simple = re.compile(r"[a-z]{3,}|(very|so|too|an?|the) [a-z -]+")
    stripped = [(e.treebank.strip(), e.label) for e in phrases]
    words = [(text, label) for text, label in stripped if simple.fullmatch(text) and len(text.split()) <= 5]
    words += [*lexicon, *((word, 1) for word in patterns.POSITIVE * 5), *((word, 0) for word in patterns.NEGATIVE * 5)]
    halves = [e for e in phrases if 3 <= len(e.treebank.split()) <= 9]
    halves += [e for e in sentences if len(e.treebank.split()) <= 15] * 3
    composed = [*compose_negations(words, s, rng), *compose_contrasts(halves, s, rng)]
    return [*composed, *fill_frames(s, rng), *join_clauses(clauses, s, rng)]


def nearest_words(folder: Path, count: int = 12) -> dict[str, list[str]]:
    """For each whole word of a model's vocabulary the words with the most similar input embeddings."""
    vocabulary = AutoTokenizer.from_pretrained(folder).get_vocab()
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    words = sorted((w for w in vocabulary if re.fullmatch(r"[a-z]{3,}", w)), key=vocabulary.__getitem__)
    embeddings = model.get_input_embeddings().weight.detach()[[vocabulary[w] for w in words]]
    embeddings = torch.nn.functional.normalize(embeddings, dim=-1)
    # the most similar word is the word itself
    nearest = [(part @ embeddings.T).topk(count + 1).indices[:, 1:] for part in torch.split(embeddings, 2000)]
    return {word: [words[n] for n in row] for word, row in zip(words, torch.cat(nearest).tolist(), strict=True)}


def augment(text: str, nearest: dict[str, list[str]], rng: random.Random) -> Example:
    """An unlabelled copy: possibly shortened, with words replaced by similar ones and film nouns by other nouns."""
    words = text.split()
    if len(words) > 8 and rng.random() < 0.3:
        start, size = rng.randrange(len(words) - 5), rng.randint(5, len(words))
        words = words[start : start + size]
    text = " ".join(rng.choice(nearest[w]) if w in nearest and rng.random() < 0.2 else w for w in words)
    if rng.random() < 0.6:
        nouns = rng.choice(patterns.DOMAIN_NOUNS).split()
        text = patterns.FILM_NOUNS.sub(lambda _: rng.choice(nouns), text)
    return Example(ordinary_spelling(text), text)


class Texts(NamedTuple):
    """The pool of texts."""

    sentences: list[Example]
    phrases: list[Example]
    composed: list[Example]
    snippets: list[Example]
    review_ends: list[Example]
    reviews: list[Example]
    augmented: list[Example]
    words: list[Example]

    def sample(self, s: Settings) -> list[Example]:
        """The texts of the student, in random order."""
        rng, sample = random.Random(s.seed), [*self.sentences, *self.snippets, *self.review_ends, *self.words]
        for name in ("phrases", "composed", "reviews", "augmented"):
            sample += rng.sample(getattr(self, name), getattr(s, name))
        sample = deduplicate(sample, {""})
        return rng.sample(sample, len(sample))


def build_pool(p: Paths, s: Settings) -> Texts:
    """All texts, without those of the development and test sets and the corpus."""
    rng = random.Random(s.seed)
    files = [p.data / f"{name}.jsonl" for name in ("sst2/dev", "sst2/test", "sst2-phrases/dev")]
    rows = [row for path in (*files, p.dev_sentences, p.corpus) for row in read_jsonl(path)]
    held_out = {"", *(text_key(row["text"]) for row in rows)}
    sentences = deduplicate(read_examples(p.data / "sst2/train.jsonl"), held_out)
    phrases = deduplicate(read_examples(p.data / "sst2-phrases/train.jsonl"), held_out)
    lexicon, clauses = read_lexicon(p.ratings), unseen_clauses(p)
    composed = deduplicate(compose(sentences, phrases, lexicon, clauses, s, rng), held_out)
    lexicon_texts = (Example(word, word, label, 0.9) for word, label in lexicon)
    snippets = deduplicate([*read_snippets(p.ratings), *lexicon_texts], held_out)
    ends, middle = (deduplicate(part, held_out) for part in read_reviews(p.data / "imdb", s, rng))
    reviews = [*ends[s.review_ends :], *middle][: s.review_pool - s.review_ends]
    sources = [e for e in phrases if len(e.treebank.split()) >= 5] + sentences * 3 + ends[: s.review_ends]
    sources += [e for e in [*snippets, *join_clauses(clauses, s, rng)] if len(e.treebank.split()) >= 5]
    nearest = nearest_words(p.start)
    copies = [augment(rng.choice(sources).treebank, nearest, rng) for _ in range(s.augmented_pool)]
    copies = deduplicate(copies, held_out)
    texts = (e.ordinary for e in (*sentences, *composed, *snippets, *ends, *reviews))
    counts = Counter(word for text in texts for word in re.findall(r"\b[a-z]{3,}\b", text))
    words = deduplicate([Example(word, word) for word, _ in counts.most_common(s.words)], held_out)
    return Texts(sentences, phrases, composed, snippets, ends[: s.review_ends], reviews, copies, words)


def load_pool(p: Paths, s: Settings) -> Texts:
    """The pool, built once and then read from the work folder."""
    path = p.work / "texts.json"
    if not path.exists():
        with atomic(path) as part:
            part.write_text(json.dumps(build_pool(p, s)), encoding="utf-8")
    return Texts(*([Example(*row) for row in part] for part in json.loads(path.read_text(encoding="utf-8"))))
