"""Train the next embedded sentiment classifier of heedful: random weights, taught by a larger model.

The classifier that ships today was trained by ``train_default.py``, which this script is to replace.

The data folder holds ``sst2`` (train, dev, test) and ``sst2-phrases`` (train, dev) as jsonl files with the fields
``text`` and ``label``, and ``imdb/train.parquet`` and ``imdb/test.parquet`` with the columns ``text`` and ``label``
(read with pyarrow).  The ratings folder is ``additional_resources/hutto_ICWSM_2014`` of the source archive of
vaderSentiment 3.3.2.  The corpus of the package is never trained on; ``dev_sentences.jsonl`` chooses the checkpoint
together with ``sst2`` dev.  Everything slow is kept in the ``--work`` folder, so that a run goes on after a stop: the
teacher, what it says about each text, the tokenizer, the last state of the student.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import multiprocessing
import random
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, PreTrainedTokenizerFast

SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
PAD, UNK, CLS, SEP, MASK = range(len(SPECIAL))
LABELS = ("negative", "positive")
FORMS = ("natural", "raw")
UNLABELLED = -1
TYPED = {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--", "\u2013": "-", "\u2026": "..."}
STAGES = ("teacher", "label", "student")
CARD = """---
license: apache-2.0
---
# The default classifier of heedful
A small BERT-type model that tells positive from negative in English film reviews: a real attention model to explain,
offline and quickly. Labels: 0 negative, 1 positive. {settings[layers]} layers, width {settings[width]},
{settings[heads]} heads, an own lower-cased WordPiece vocabulary; {parameters:,} parameters, stored as float16,
{megabytes:.1f} MB. Licence of the weights: Apache-2.0.
## Training
It was distilled: its weights began random and learned from a larger model, the teacher, a MiniLM (all-MiniLM-L6-v2,
6 layers) fine-tuned on SST-2 and then on all labelled texts below. For each text the teacher gave its two logits, and
the states of its middle and last layer at the first token and at the beginning of each word, reduced to
{settings[hidden_size]} principal axes; the student learned to give them linearly from the same layers of its own, with
some pieces of its text masked. No weight was copied. From step {settings[late]} on the logits of the teacher counted
{settings[sharpness]} times, since the hints below make it too cautious, and the loss also counted the mean entropy of
the attention with weight {settings[focus]}: the student shall look at few words at a time. The texts:

- Stanford Sentiment Treebank, two classes (R. Socher et al., Recursive Deep Models for Semantic Compositionality Over a
  Sentiment Treebank, EMNLP 2013): {sentences:,} sentences, and {phrases:,} phrases of them from SST-2 of GLUE (A. Wang
  et al., 2018), with their labels; {varied:,} copies of them with some words replaced, without. The student saw
  {settings[phrases]:,} of the phrases and {settings[varied]:,} of the copies, the teacher {settings[teacher_phrases]:,}
  phrases at most.
- {verdicts:,} sentences from the ends of the train and test reviews of IMDB (A. Maas et al., Learning Word Vectors for
  Sentiment Analysis, ACL 2011)
  and {settings[reviews]:,} others, with the label of the review as a hint (right with probability
  {settings[review_trust]}); the teacher was fine-tuned on the former only.
- {others:,} snippets of product reviews, news and tweets, and words, of vaderSentiment 3.3.2 (C. Hutto and E. Gilbert,
  VADER, ICWSM 2014; MIT licence), with a label where their mean rating is clear.
- {settings[made]:,} texts composed of treebank phrases, of words and of written patterns whose verdict follows from how
  they are made ("the film was not ...", "..., but ...", "at no point did we ...").

Texts equal to one of the tables below, or to the second development set, were left out, in any spelling. The treebank
writes "wo n't" and "-lrb-"; training used mostly ordinary spelling. AdamW with warm-up and linear cooling, averaged
weights; the checkpoint was chosen on dev and the second development set.
{texts:,} texts, {settings[epochs]} epochs. Settings: `{settings}`.
To repeat it: `python scripts/train_embedded.py`, see its description.
## Accuracy
With the stored weights. Test and the corpus (`corpus.jsonl`, its ordinary sentences apart; several tags or none,
"plain") were evaluated once.

{table}
## Limits
It knows single English sentences, mostly about films, from sources of the early 2000s, and inherits the errors of its
teacher. Neutral texts get one of the two labels all the same; rare words fall into meaningless pieces. It follows
common denials and contrasts; irony it does not see (see the table). A subject for explanation methods, not a tool for
decisions.
""".replace("\n#", "\n\n#").replace("\nTo repeat", "\n\nTo repeat")


def phrases(block: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in block.split("|"))


# What the composed texts are made of.  {s} is a thing, {p} and {n} praise and blame it, {g} and {b} are good and bad
# things to find, {e} and {d} what pleased and bored people do, {w} who.  The sign is the verdict of the whole.
THINGS = phrases("""
    it | this | the film | the movie | the story | the acting | the ending | the comedy | the script | the book |
    the novel | the album | the show | the play | the game | the meal | the soup | the bread | the service | the
    hotel | the room | the phone | the camera | the battery | the screen | the sound | the design | the waiter | the
    dessert | the plot | the dialogue | the music | the second season | the coffee | the crust | the sauce | the
    staff | the bed | the view | the keyboard | the strap | the fan | the app | the update | the cable | the speaker
    | the lens | the prose | the opening chapter | the cover | the narrator | the host | the garden | the shower |
    the price | the delivery | the packaging | the boots | the jacket | the singer | the guitar | the lyrics | the
    camera work | the costumes | the editing | the lead actor | the cast | the villain | the animation | the pacing
    | the documentary | the sequel
""")
PRAISE = phrases("""
    good | great | funny | moving | clever | charming | brilliant | beautiful | gripping | original | delightful |
    superb | fresh | tasty | reliable | sturdy | comfortable | generous | friendly | crisp | delicious | elegant |
    witty | touching | exciting | memorable | convincing | intelligent | subtle | warm | tender | worth it | worth
    seeing | worth the money | easy to use | fast | well made | lovely | enjoyable | satisfying | inspired |
    wonderful | impressive | polished | perfect | engaging | alive
""")
BLAME = phrases("""
    bad | dull | boring | slow | predictable | lazy | stale | cold | soggy | bland | greasy | overpriced | rude |
    noisy | cheap | fragile | clumsy | tedious | pointless | annoying | silly | stupid | shallow | pretentious |
    confusing | forgettable | wooden | lifeless | a waste of time | a waste of money | weak | too long | hard to
    follow | awkward | ugly | broken | dirty | tasteless | sluggish | unreliable | heavy-handed | sentimental |
    contrived | dreary | painful | irritating | disappointing | forced | flat
""")
GOOD = phrases("""
    laugh | surprise | thrill | fresh idea | memorable line | reason to see it | reason to buy it | spark | moment
    of tension | good scene | likeable character | redeeming feature | decent joke | hint of charm
""")
BAD = phrases("""
    dull moment | false note | wasted scene | weak performance | boring page | slow minute | cheap joke | wrong step
    | thing to complain about | cliche | bad song | reason to stay away | flaw | regret
""")
PLEASED = phrases("""
    laugh | smile | care | care about anyone | believe a word of it | feel anything | enjoy it | like it | want to
    see more | want to see it again | feel moved | get involved | want to go back | have fun | find it funny | feel
    any suspense | learn anything | recommend it | forget the time | jump in my seat
""")
BORED = phrases("""
    get bored | check the time | glance at the clock | think of leaving | lose interest | feel cheated | regret
    going | reach for my phone | want it to be over | yawn | feel the length | find it boring | want my money back |
    nod off | fidget | roll my eyes | count the minutes | want to stop | regret it | want to be anywhere else | skip
    a page | complain | feel disappointed | miss the original | mind the length | look at the clock | check my watch
    | look for the exit | think about dinner | doze | sigh | shake my head
""")
PEOPLE = phrases("""
    i | i | i | we | anyone | my friends | the audience | my wife
""")
FRAMES = phrases("""
    +not once did {w} {d} | -not once did {w} {e} | +at no point did {w} {d} | -at no point did {w} {e} | +{w} did
    not {d} | -{w} did not {e} | +{w} did n't {d} once | -{w} did n't {e} once | +never did {w} {d} | -never did {w}
    {e} | -it made me {d} | +it made me {e} | -{w} could not {e} | -more than once did {w} {d} | +not for a moment
    did {w} {d} | -not for a moment did {w} {e} | +{w} could not bring myself to {d} | +you wo n't {d} | -you wo n't
    {e} | +it is hard not to {e} | -it is hard not to {d} | -i tried not to {d} | +no one will {d} | -no one will
    {e} | +there is n't a {b} in it | -there is n't a {g} in it | +not a {b} | -not a single {g} | +not a single {b}
    | +there is hardly a {b} | -there is hardly a {g} | +without a {b} | -without a {g} | -i looked in vain for a
    {g} | +i looked in vain for a {b} | -{s} never gets {p} | +{s} never gets {n} | +{s} is never {n} | -{s} is
    never {p} | +{s} is anything but {n} | -{s} is n't {p} | -{s} is anything but {p} | -{s} is far from {p} | +{s}
    is far from {n} | +{s} could n't be more {p} | -{s} could n't be more {n} | -{s} could have been {p} | -{s}
    should have been {p} | -{s} would be {p} if it were shorter | +i feared {s} would be {n} , and i was wrong | -i
    hoped {s} would be {p} , and i was wrong | -{s} tries to be {p} | +i expected {s} to be {n} , but it was {p} |
    -i expected {s} to be {p} , but it was {n} | -{s} wants to be {p} | +{s} manages to be {p} without being {n} |
    -{s} manages to be {n} without being {p} | -too {n} to be {p} | +{s} was {n} at first , but then it was {p} |
    -{s} was {p} at first , but then it was {n} | -so {n} | +{s} may be {n} , but it is also {p} | -{s} may be {p} ,
    but it is also {n} | +{s} is {n} and yet {p} | -{s} is {p} and yet {n} | +despite being {n} , {s} is {p} |
    -despite being {p} , {s} is {n} | -how {n} | +it is {n} in places ; i loved it anyway | -it is {p} in places ; i
    hated it anyway | +how {p} | +so {p} | +{s} is not only {p} but also {p} | -{s} is not only {n} but also {n} |
    +neither {n} nor {n} | -neither {p} nor {p} | +{s} is {p} , {p} and {p} | -{s} is {n} , {n} and {n} | +{p} , {p}
    , and never {n} | -{n} , {n} , and never {p} | +what looked {n} turned out to be {p} | -what looked {p} turned
    out to be {n} | +{s} was {p} | -{s} was {n} | +a {n} beginning and a {p} finish | -a {p} beginning and a {n}
    finish | +{n} at first , {p} in the end | -{p} at first , {n} in the end | +a {n} first half and a {p} second
    half | -a {p} idea with a {n} result | +not once is it {n} | -not once is it {p} | +at no point is it {n} | -at
    no point is it {p} | +{p} , not {n} | +i was sorry when it was over | -i was glad when it was over | -i was
    relieved when {s} was over | +i was sad when {s} was over | +i did not want {s} to stop | +i did n't want to
    leave | -i could n't wait to leave | -i could n't wait for {s} to be over | +i ca n't wait to go again | +{s}
    does not disappoint | -{s} disappoints | +i could n't put {s} down | -i could n't get through {s} | +i can not
    recommend {s} highly enough | -i can not recommend {s} | +i have never seen a better one | -i have never seen a
    worse one | -i 've had better | +you wo n't find a better one | -you will find a better one anywhere | +it could
    n't be better | -it could n't be worse | -i would not do it again | +i would do it again tomorrow | -{s} does
    n't work | +{s} just works | +nothing is {n} | -nothing is {p} | +nothing about {s} is {n} | -nothing about {s}
    is {p} | +everything is {p} | -everything is {n} | -if only {s} were {p} | +{s} is {p} for once | -{s} lacks a
    {g} | +{s} avoids every {b} | -{s} is {n} , as usual | +{s} made me forget how {n} these things can be | -{s}
    made me remember how {p} these things can be | +the only problem with {s} is that it is over too soon | -the
    best thing about {s} is that it is short | -the only {p} thing is the poster | +the only {n} thing is the title
    | -{p} ? hardly | +{n} ? hardly | -{p} it is not | +{n} it is not | -people say {s} is {p} ; i say it is {n} |
    +people say {s} is {n} ; i say it is {p}
""")
DENIALS = phrases("""
    +{0} is {1} | +{0} was {1} | +{0} was so {1} | +{0} seemed {1} | +{0} is quite {1} | +i found {0} {1} | +{0} is
    {1} | +{0} was {1} | -{0} is not {1} | -{0} is n't {1} | -{0} was not {1} | -{0} was n't {1} | -{0} is never {1}
    | -{0} is anything but {1} | -{0} is far from {1} | -{0} is not at all {1} | -not {1} | -{0} does n't seem {1} |
    -{0} is not {1} at all | -i did n't find it {1} | -no one will call it {1}
""")
CONTRASTS = phrases("""
    {0} , but {1} | {0} , but {1} | {0} , yet {1} | although {0} , {1} | {0} ; however , {1} | while {0} , {1} | {1}
    , even if {0} | {1} , although {0} | {0} . still , {1} | {0} . but {1} | {1} , despite {0}
""")


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    threads: int = 1
    processes: int = 2
    bfloat16: int = 1
    # the teacher
    teacher_phrases: int = 40000
    teacher_made: int = 30000
    verdicts: int = 30000
    review_trust: float = 0.75
    teacher_rate: float = 5e-5
    teacher_tokens: int = 1024
    teacher_steps: int = 1800
    # the texts
    all_reviews: int = 270000
    shortest: int = 3
    longest: int = 32
    denials: int = 40000
    contrasts: int = 24000
    framed: int = 50000
    all_varied: int = 100000
    phrases: int = 58000
    made: int = 55000
    reviews: int = 200000
    varied: int = 60000
    block: int = 4000
    window: int = 5
    # the student
    vocabulary: int = 20000
    width: int = 256
    layers: int = 3
    heads: int = 4
    positions: int = 256
    dropout: float = 0.1
    hidden_size: int = 128
    hidden_share: float = 1.0
    batch_tokens: int = 2048
    epochs: float = 2.0
    rate: float = 7e-4
    warmup: int = 200
    cooling: float = 0.3
    weight_decay: float = 0.05
    temperature: float = 2.0
    gold_share: float = 0.3
    raw_share: float = 0.25
    word_mask: float = 0.12
    average: float = 0.998
    late: int = 2500
    sharpness: float = 2.0
    focus: float = 0.2
    look: int = 125


class Example(NamedTuple):
    natural: str
    raw: str
    label: int = UNLABELLED
    trust: float = 1.0  # probability that the label is right


class Paths(NamedTuple):
    data: Path
    ratings: Path
    start: Path
    corpus: Path
    second: Path
    work: Path


def natural(text: str) -> str:
    """Penn Treebank spelling to ordinary spelling."""
    for old, new in (("-lrb-", "("), ("-rrb-", ")"), ("\\/", "/"), ("\\*", "*"), ("can not", "cannot")):
        text = text.replace(old, new)
    text = re.sub(r"(?<!\S)` ?", "'", re.sub(r"`` ?| ?''", '"', text))
    text = re.sub(r" (n't|'(?:s|re|ve|ll|d|m)?)(?!\S)", r"\1", text)
    text = re.sub(r" ([.,:;?!)%])", r"\1", text)
    return " ".join(re.sub(r"([($#]) ", r"\1", text).split())


def ascii_signs(text: str) -> str:
    for old, new in TYPED.items():
        text = text.replace(old, new)
    return " ".join(text.split())


def key(text: str) -> str:
    return re.sub(r"\W", "", natural(text.lower()))  # the same for all spellings


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def examples(path: Path) -> list[Example]:
    found = read(path)
    labels = [row["label"] if isinstance(row["label"], int) else LABELS.index(row["label"]) for row in found]
    return [Example(natural(row["text"]), row["text"], label) for row, label in zip(found, labels, strict=True)]


def held_out_keys(p: Paths) -> set[str]:
    names = ("sst2/dev", "sst2/test", "sst2-phrases/dev")
    files = [*(p.data / f"{name}.jsonl" for name in names), p.second, p.corpus]
    return {"", *(key(row["text"]) for path in files for row in read(path))}


def without(items: Sequence[Example], held_out: Collection[str]) -> list[Example]:
    """Every text once, the held-out ones left out."""
    found: dict[str, Example] = {}
    for e in items:
        if (name := key(e.raw)) not in held_out:
            found.setdefault(name, e)
    return list(found.values())


def review_sentences(folder: Path, s: Settings, rng: random.Random) -> tuple[list[Example], list[Example]]:
    """Different sentences of the reviews in random order, with the label of the review; first those near its ends."""
    from pyarrow import parquet

    ends: list[Example] = []
    middle: list[Example] = []
    for name in ("train", "test"):
        rows = parquet.read_table(folder / f"{name}.parquet", columns=["text", "label"]).to_pylist()
        for row in rows:
            parts = [" ".join(part.split()) for part in re.split(r"<br />|(?<=[.!?])\s+", ascii_signs(row["text"]))]
            parts = [part for part in parts if part]
            for n, part in enumerate(parts):
                if s.shortest <= len(part.split()) <= s.longest:
                    place = ends if n < 2 or n >= len(parts) - 2 else middle
                    place.append(Example(part, part, row["label"], s.review_trust))
    return rng.sample(ends, len(ends)), rng.sample(middle, len(middle))


def rated(folder: Path) -> list[Example]:
    """Product reviews, news and tweets with a mean rating by people; a label where it is clear."""
    found = []
    for name in ("amazonReviewSnippets", "nytEditorialSnippets", "tweets"):
        for line in (folder / f"{name}_GroundTruth.txt").read_text(encoding="utf-8", errors="replace").splitlines():
            _, score, text = line.split("\t", 2)
            label = UNLABELLED if abs(float(score)) < 0.6 else int(float(score) > 0)
            found.append(Example(ascii_signs(text), ascii_signs(text), label, 0.95))
    return found


def rated_words(folder: Path) -> list[tuple[str, int]]:
    """Words of the VADER lexicon that look like adjectives and have a clear sign."""
    ending = re.compile(r"[a-z]{2,}(?:ful|less|ous|y|ive|able|ible|ic|al|ish|ing|ed|ent|ant)")
    lines = (folder / "vader_sentiment_lexicon.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = (line.split("\t")[:2] for line in lines if "\t" in line)
    return [(word, int(float(v) > 0)) for word, v in pairs if ending.fullmatch(word) and abs(float(v)) >= 1.3]


def spelled(text: str, label: int, trust: float, rng: random.Random) -> Example:
    text = text + rng.choice(("", " .", " .", " !"))
    return Example(natural(text), text, label, trust)


def denials(words: Sequence[tuple[str, int]], s: Settings, rng: random.Random) -> Iterator[Example]:
    """Short phrases affirmed and denied; to deny a fault is weaker praise than to deny a merit is blame."""
    for _ in range(s.denials):
        frame, (word, label) = rng.choice(DENIALS), rng.choice(words)
        denied = frame[0] == "-"
        trust = 0.8 if denied and label == 0 else 0.9
        yield spelled(frame[1:].format(rng.choice(THINGS), word), label ^ denied, trust, rng)


def contrasts(halves: Sequence[Example], s: Settings, rng: random.Random) -> Iterator[Example]:
    """Pairs of labelled texts; the main clause, or what follows the "but", decides."""
    for _ in range(s.contrasts):
        first, second = rng.sample(halves, 2)
        text = rng.choice(CONTRASTS).format(first.raw.strip(" .,;-`'"), second.raw.strip(" .,;-`'"))
        yield spelled(text, second.label, 0.95 if first.label == second.label else 0.85, rng)


def framed(s: Settings, rng: random.Random) -> Iterator[Example]:
    slots = {"s": THINGS, "p": PRAISE, "n": BLAME, "g": GOOD, "b": BAD, "e": PLEASED, "d": BORED, "w": PEOPLE}
    for _ in range(s.framed):
        frame = rng.choice(FRAMES)
        text = re.sub(r"\{(\w)\}", lambda found: rng.choice(slots[found[1]]), frame[1:])
        text = re.sub(r"\ba (?=[aeiou])", "an ", text)
        yield spelled(text, int(frame[0] == "+"), 0.95, rng)


def composed(
    sentences: list[Example], phrases: list[Example], words: Sequence[tuple[str, int]], s: Settings, rng: random.Random
) -> list[Example]:
    """Texts whose verdict follows from how they are made, in the spelling of the treebank."""
    simple = re.compile(r"[a-z]{3,}|(very|so|too|an?|the) [a-z -]+")
    short = [(e.raw.strip(), e.label) for e in phrases if simple.fullmatch(e.raw.strip()) and len(e.raw.split()) <= 5]
    short += [*words, *((word, 1) for word in PRAISE * 5), *((word, 0) for word in BLAME * 5)]
    halves = [e for e in phrases if 3 <= len(e.raw.split()) <= 9] + [
        e for e in sentences if len(e.raw.split()) <= 15
    ] * 3
    return [*denials(short, s, rng), *contrasts(halves, s, rng), *framed(s, rng)]


def neighbours(folder: Path, count: int = 12) -> dict[str, list[str]]:
    """For each whole word of the teacher's vocabulary the words with the nearest input vectors."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    found = sorted((n, w) for w, n in tokenizer.get_vocab().items() if re.fullmatch(r"[a-z]{3,}", w))
    vectors = model.get_input_embeddings().weight.detach()[[n for n, _ in found]]
    vectors, words = torch.nn.functional.normalize(vectors, dim=-1), [w for _, w in found]
    near = torch.cat([(part @ vectors.T).topk(count + 1).indices[:, 1:] for part in torch.split(vectors, 2000)])
    return {word: [words[n] for n in row] for word, row in zip(words, near.tolist(), strict=True)}


def varied(items: Sequence[Example], near: dict[str, list[str]], s: Settings, rng: random.Random) -> Iterator[Example]:
    """Copies of texts with other words in some places and sometimes only a part of the text."""
    for _ in range(s.all_varied):
        words = rng.choice(items).raw.split()
        if len(words) > 8 and rng.random() < 0.3:
            start, size = rng.randrange(len(words) - 5), rng.randint(5, len(words))
            words = words[start : start + size]
        text = " ".join(rng.choice(near[w]) if w in near and rng.random() < 0.25 else w for w in words)
        yield Example(natural(text), text)


class Texts(NamedTuple):
    sentences: list[Example]
    phrases: list[Example]
    made: list[Example]
    others: list[Example]
    verdicts: list[Example]
    reviews: list[Example]
    varied: list[Example]

    def lessons(self, s: Settings) -> list[Example]:
        """The different texts for the student, in random order."""
        rng, found = random.Random(s.seed), [*self.sentences, *self.others, *self.verdicts]
        found += rng.sample(self.phrases, s.phrases) + rng.sample(self.made, s.made)
        found += rng.sample(self.reviews, s.reviews) + rng.sample(self.varied, s.varied)
        found = without(found, {""})
        return rng.sample(found, len(found))


def collect(p: Paths, s: Settings) -> Texts:
    """All texts, kept in a file of the work folder."""
    if (store := p.work / "texts.json").exists():
        return Texts(*([Example(*row) for row in part] for part in json.loads(store.read_text(encoding="utf-8"))))
    rng, held_out = random.Random(s.seed), held_out_keys(p)
    sentences, phrases = (without(examples(p.data / n / "train.jsonl"), held_out) for n in ("sst2", "sst2-phrases"))
    words = rated_words(p.ratings)
    made = without(composed(sentences, phrases, words, s, rng), held_out)
    others = without([*rated(p.ratings), *(Example(w, w, label, 0.9) for w, label in words)], held_out)
    ends, middle = (without(part, held_out) for part in review_sentences(p.data / "imdb", s, rng))
    reviews = [*ends[s.verdicts :], *middle][: s.all_reviews - s.verdicts]
    long = [e for e in phrases if len(e.raw.split()) >= 5] + sentences * 4
    copies = without(list(varied(long, neighbours(p.start), s, rng)), held_out)
    found = Texts(sentences, phrases, made, others, ends[: s.verdicts], reviews, copies)
    store.write_text(json.dumps(found), encoding="utf-8")
    return found


def low_precision(s: Settings) -> contextlib.AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=torch.bfloat16) if s.bfloat16 else contextlib.nullcontext()


def groups_of(lengths: Sequence[int], tokens: int, rng: random.Random) -> list[list[int]]:
    """Indices of texts of similar length, about ``tokens`` pieces together, in random order."""
    groups: list[list[int]] = [[]]
    for n in sorted(range(len(lengths)), key=lambda n: lengths[n] + rng.random()):
        if groups[-1] and (len(groups[-1]) + 1) * lengths[n] > tokens:
            groups.append([])
        groups[-1].append(n)
    rng.shuffle(groups)
    return groups


def target(items: Sequence[Example]) -> torch.Tensor:
    """The label of each text as a distribution, with its trust."""
    right = torch.tensor([e.trust if e.label == 1 else 1 - e.trust for e in items])
    return torch.stack([1 - right, right], -1)


def optimizer(parameters: Sequence[torch.nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    parts = [{"params": [q for q in parameters if (q.dim() > 1) == big], "weight_decay": decay * big} for big in (0, 1)]
    return torch.optim.AdamW(parts, rate, betas=(0.9, 0.98), fused=True)


@torch.no_grad()
def follow(mean: torch.nn.Module, model: torch.nn.Module, average: float) -> None:
    torch._foreach_lerp_(list(mean.parameters()), list(model.parameters()), 1 - average)


@torch.no_grad()
def predict(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[int]:
    groups = [list(texts[start : start + 64]) for start in range(0, len(texts), 64)]
    inputs = (tokenizer(group, padding=True, truncation=True, return_tensors="pt") for group in groups)
    return [label for group in inputs for label in model(**group).logits.argmax(-1).tolist()]


def accuracy(model: Any, tokenizer: Any, items: Sequence[Example]) -> list[float]:
    """One number for each spelling."""
    found = [predict(model, tokenizer, [getattr(e, form) for e in items]) for form in FORMS]
    return [sum(f == e.label for f, e in zip(side, items, strict=True)) / len(items) for side in found]


def dev_scores(model: Any, tokenizer: Any, p: Paths) -> list[float]:
    """``sst2`` dev in both spellings, and the second development set."""
    first, second = examples(p.data / "sst2/dev.jsonl"), examples(p.second)
    return [*accuracy(model, tokenizer, first), accuracy(model, tokenizer, second)[0]]


def tune_teacher(texts: Texts, p: Paths, s: Settings) -> None:
    """The starting model fine-tuned on everything labelled, sentences of reviews with low trust."""
    out, state = p.work / "teacher", p.work / "teacher.state"
    if out.exists():
        return
    torch.manual_seed(s.seed)
    rng, tokenizer = random.Random(s.seed), AutoTokenizer.from_pretrained(p.start)
    some = rng.sample(texts.phrases, s.teacher_phrases) + rng.sample(texts.made, s.teacher_made)
    items = [e for e in [*texts.sentences, *some, *texts.others, *texts.verdicts] if e.label != UNLABELLED]
    model = AutoModelForSequenceClassification.from_pretrained(p.start, dtype=torch.float32)
    mean, opt = copy.deepcopy(model), optimizer(list(model.parameters()), s.teacher_rate, 0.01)
    shown = [getattr(e, FORMS[rng.random() < s.raw_share]) for e in items]
    lengths = [len(ids) for ids in tokenizer(shown, truncation=True, max_length=96)["input_ids"]]
    groups, first, total = groups_of(lengths, s.teacher_tokens, rng)[: s.teacher_steps], 0, 0.0
    if state.exists():
        first, _ = load_state(state, opt, model=model, mean=mean)
    began = saved = time.monotonic()
    for n in range(first, len(groups)):
        progress = n / len(groups)
        for part in opt.param_groups:
            part["lr"] = s.teacher_rate * min(progress / 0.06, (1 + math.cos(math.pi * progress)) / 2)
        texts_n = [shown[i] for i in groups[n]]
        inputs = tokenizer(texts_n, padding=True, truncation=True, max_length=96, return_tensors="pt")
        with low_precision(s):
            scores = model.train()(**inputs).logits
        loss = torch.nn.functional.cross_entropy(scores.float(), target([items[i] for i in groups[n]]))
        opt.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        follow(mean, model, 0.995)
        total += loss.item()
        if (n + 1) % 50 == 0:
            spent = time.monotonic() - began
            print(f"teacher: step {n + 1} of {len(groups)}, loss {total / 50:.3f}, {spent:.0f} s", flush=True)
            total = 0.0
        if time.monotonic() - saved > 180:
            save_state(state, n + 1, 0.0, opt, model=model, mean=mean)
            saved = time.monotonic()
            print(f"teacher: dev {dev_scores(mean.eval(), tokenizer, p)}", flush=True)
    print(f"teacher: dev {dev_scores(mean.eval(), tokenizer, p)}", flush=True)
    mean.save_pretrained(p.work / "teacher.part")
    tokenizer.save_pretrained(p.work / "teacher.part")
    (p.work / "teacher.part").rename(out)


def save_state(path: Path, step: int, best: float, opt: torch.optim.Optimizer, **modules: torch.nn.Module) -> None:
    """Everything that a run needs to resume: weights, the optimizer's moments, the state of the generator."""
    tensors = {f"{name}/{key}": value for name, part in modules.items() for key, value in part.state_dict().items()}
    tensors |= {f"opt/{i}/{key}": x for i, state in opt.state_dict()["state"].items() for key, x in state.items()}
    tensors |= {"step": torch.tensor(step), "best": torch.tensor(best, dtype=torch.float64)}
    tensors |= {"rng": torch.get_rng_state()}
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path.with_suffix(".part"))
    path.with_suffix(".part").rename(path)


def load_state(path: Path, opt: torch.optim.Optimizer, **modules: torch.nn.Module) -> tuple[int, float]:
    """Restore what `save_state` saved: the step, and the best development score so far."""
    stored = load_file(path)
    for name, part in modules.items():
        part.load_state_dict(
            {key.removeprefix(f"{name}/"): x for key, x in stored.items() if key.startswith(f"{name}/")}
        )
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for key, x in stored.items():
        if key.startswith("opt/"):
            moments.setdefault(int(key.split("/")[1]), {})[key.split("/")[2]] = x
    opt.load_state_dict(opt.state_dict() | {"state": moments})
    torch.set_rng_state(stored["rng"])
    return int(stored["step"]), float(stored["best"])


class Said(NamedTuple):
    """What the teacher says about texts: logits, and its states at the start and at the first piece of each word."""

    logits: Any
    counts: Any  # rows of the states for each text
    half: Any
    last: Any


def first_pieces(words: Sequence[int | None]) -> list[int]:
    """The position of the first token and those where a word begins."""
    return [0, *(n for n, word in enumerate(words) if word is not None and word != words[n - 1])]


@torch.inference_mode()
def states(model: Any, tokenizer: Any, texts: Sequence[str], s: Settings) -> Said:
    """Of the middle layer and the last, in full width, for texts in the given order."""
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    logits, counts, parts = np.zeros((len(texts), 2), np.float16), np.zeros(len(texts), np.int64), {}
    for start in range(0, len(order), 48):
        group = order[start : start + 48]
        inputs = tokenizer([texts[n] for n in group], padding=True, truncation=True, max_length=96, return_tensors="pt")
        with low_precision(s):
            out = model(**inputs, output_hidden_states=True)
        logits[group] = out.logits.float().numpy()
        middle, last = (out.hidden_states[n].float() for n in (len(out.hidden_states) // 2, -1))
        for row, n in enumerate(group):
            at = first_pieces(inputs.word_ids(row))
            counts[n], parts[n] = len(at), (middle[row, at], last[row, at])
    sides = [torch.cat([parts[n][side] for n in range(len(texts))]) for side in (0, 1)]
    return Said(logits, counts, *sides)


def load_teacher(folder: Path) -> tuple[Any, Any]:
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def store_basis(teacher: Path, texts: Sequence[str], store: Path, s: Settings) -> None:
    """Principal axes of the states of some texts, scaled to a total variance of one."""
    said = states(*load_teacher(teacher), texts, s)
    found: dict[str, Any] = {}
    for name, values in (("half", said.half), ("last", said.last)):
        centre = values.mean(0)
        variances, axes = torch.linalg.eigh((values - centre).T @ (values - centre) / len(values))
        scaled = axes[:, -s.hidden_size :].flip(1) / variances.sum().sqrt()
        kept = variances[-s.hidden_size :].sum() / variances.sum()
        print(f"label: {s.hidden_size} axes keep {kept:.3f} of the variance ({name})", flush=True)
        found |= {f"{name}_centre": centre.numpy(), f"{name}_axes": scaled.numpy()}
    np.savez(store / "basis.npz", **found)


def store_blocks(teacher: Path, texts: Sequence[str], store: Path, s: Settings, turn: int, turns: int) -> None:
    """One file for each block of texts that has none yet."""
    torch.set_num_threads(1)
    model, tokenizer = load_teacher(teacher)
    basis = {name: torch.from_numpy(values) for name, values in np.load(store / "basis.npz").items()}
    for block in range(turn, math.ceil(len(texts) / s.block), turns):
        if (path := store / f"{block:05}.npz").exists():
            continue
        said = states(model, tokenizer, texts[block * s.block : (block + 1) * s.block], s)
        half, last = (
            ((values - basis[f"{name}_centre"]) @ basis[f"{name}_axes"]).half().numpy()
            for name, values in (("half", said.half), ("last", said.last))
        )
        np.savez(path.with_suffix(".part.npz"), logits=said.logits, counts=said.counts, half=half, last=last)
        path.with_suffix(".part.npz").rename(path)
        print(f"label: block {block} of {math.ceil(len(texts) / s.block)}", flush=True)


def label(teacher: Path, texts: Sequence[str], store: Path, s: Settings) -> None:
    """Store what the teacher says, in several processes of one thread."""
    store.mkdir(exist_ok=True)
    if not (store / "basis.npz").exists():
        store_basis(teacher, texts[:2000], store, s)
    spawn = multiprocessing.get_context("spawn")
    jobs = [
        spawn.Process(target=store_blocks, args=(teacher, texts, store, s, n, s.processes)) for n in range(s.processes)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()


class Store:
    """The blocks of a store, each read when it is first needed; a block that is still missing is waited for."""

    def __init__(self, folder: Path, s: Settings) -> None:
        self.folder, self.size, self.read = folder, s.block, dict[int, tuple[Said, Any]]()

    def block(self, number: int) -> tuple[Said, Any]:
        """What the teacher said, and the first row of the states of each text."""
        while number not in self.read:
            if (path := self.folder / f"{number:05}.npz").exists():
                with np.load(path) as file:
                    said = Said(*(file[name] for name in Said._fields))
                self.read[number] = said, np.cumsum([0, *said.counts])
            else:
                time.sleep(1)
        return self.read[number]

    def logits(self, texts: Sequence[int]) -> torch.Tensor:
        found = [self.block(n // self.size)[0].logits[n % self.size] for n in texts]
        return torch.from_numpy(np.stack(found)).float()

    def states(self, text: int, count: int) -> tuple[Any, Any]:
        """Of the middle layer and the last; only those of the first token where the words differ in number."""
        said, starts = self.block(text // self.size)
        start, end = starts[text % self.size], starts[text % self.size + 1]
        end = end if end - start == count else start + 1
        return said.half[start:end], said.last[start:end]


def build_tokenizer(texts: Sequence[str], s: Settings) -> PreTrainedTokenizerFast:
    lower, blank = normalizers.BertNormalizer(lowercase=True), Tokenizer(models.WordPiece(unk_token="[UNK]"))
    blank.normalizer = normalizers.Sequence([normalizers.Replace(*pair) for pair in TYPED.items()] + [lower])
    blank.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    counts = Counter(c for text in texts for c in blank.normalizer.normalize_str(text) if not c.isspace())
    letters = sorted(c for c, count in counts.items() if count >= 20)
    first = [*SPECIAL.values(), *letters, *("##" + c for c in letters)]  # otherwise their order varies between runs
    size: dict[str, Any] = {"vocab_size": s.vocabulary, "limit_alphabet": len(letters)}
    trainer = trainers.WordPieceTrainer(**size, special_tokens=first, show_progress=False)
    blank.train_from_iterator(texts, trainer)
    core = Tokenizer(models.WordPiece(blank.get_vocab(), unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer, core.decoder = blank.normalizer, blank.pre_tokenizer, decoders.WordPiece()
    frame = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
    core.post_processor = processors.TemplateProcessing(**frame, special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)])
    inputs = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=s.positions, **inputs, **SPECIAL)


def own_tokenizer(texts: Texts, store: Path, s: Settings) -> Any:
    if not store.exists():
        both = [text for e in texts.sentences + texts.phrases for text in (e.natural, e.raw)]
        others = [e.natural for e in texts.others + texts.verdicts + texts.reviews]
        build_tokenizer([*both, *others], s).save_pretrained(store)
    return AutoTokenizer.from_pretrained(store)


class Rows(NamedTuple):
    """The texts of the student: pieces in both spellings, where words begin in the natural one, and the lessons."""

    pieces: list[list[list[int]]]
    begins: list[list[int]]
    store: Store
    told: torch.Tensor
    share: torch.Tensor


def rows_of(tokenizer: Any, items: Sequence[Example], store: Store, s: Settings) -> Rows:
    sides = [tokenizer([getattr(e, form) for e in items], truncation=True, max_length=96) for form in FORMS]
    begins = [first_pieces(sides[0].word_ids(n)) for n in range(len(items))]
    share = torch.tensor([s.gold_share * max(2 * e.trust - 1, 0) * (e.label != UNLABELLED) for e in items])
    return Rows([side["input_ids"] for side in sides], begins, store, target(items), share)


class Batch(NamedTuple):
    ids: torch.Tensor
    at: torch.Tensor
    states: list[torch.Tensor]
    logits: torch.Tensor
    told: torch.Tensor
    share: torch.Tensor


def batch_of(rows: Rows, group: Sequence[int], forms: Sequence[int], rate: float, rng: np.random.Generator) -> Batch:
    """Some pieces masked; the states are those of the text without masks."""
    texts = [rows.pieces[forms[n]][n] for n in group]
    length = max(map(len, texts))
    ids, at, taught = np.full((len(group), length), PAD), [], []
    for row, (n, text) in enumerate(zip(group, texts, strict=True)):
        ids[row, : len(text)] = text
        taught.append(rows.store.states(n, 1 if forms[n] else len(rows.begins[n])))
        at += [row * length + place for place in rows.begins[n][: len(taught[-1][0])]]
    ids[(rng.random(ids.shape) < rate) & (ids >= len(SPECIAL))] = MASK
    states = [torch.from_numpy(np.concatenate(side)).float() for side in zip(*taught, strict=True)]
    logits = rows.store.logits(group)
    return Batch(torch.from_numpy(ids), torch.tensor(at), states, logits, rows.told[group], rows.share[group])


def verdict_loss(scores: torch.Tensor, batch: Batch, sharpness: float, s: Settings) -> torch.Tensor:
    """Cross-entropy with the softened verdict of the teacher, mixed with that of the label by its share."""
    heat, entropy = s.temperature, torch.nn.functional.cross_entropy
    taught = entropy(scores / heat, (sharpness * batch.logits / heat).softmax(-1), reduction="none") * heat**2
    told = entropy(scores, batch.told, reduction="none")
    return ((1 - batch.share) * taught + batch.share * told).mean()


def state_loss(hidden: Sequence[torch.Tensor], bridges: Any, batch: Batch) -> torch.Tensor:
    """Share of the variance of the teacher's states that the student's do not give linearly: middle and last layer."""
    found = torch.zeros(())
    for side, layer in enumerate((len(hidden) // 2, -1)):
        guess = bridges[side](hidden[layer].flatten(0, 1)[batch.at]).float()
        found = found + (guess - batch.states[side]).square().sum(-1).mean() / 2
    return found


def spread(attentions: Sequence[torch.Tensor], mask: torch.Tensor) -> torch.Tensor:
    """Mean entropy of the rows of attention of all layers and heads, as a share of the largest possible."""
    rows, most = mask[:, None, :].float(), mask.sum(-1).float().log()[:, None, None]
    found = torch.zeros(())
    for weights in attentions:
        entropy = -(weights.float() * (weights.float() + 1e-6).log()).sum(-1)
        found = found + (entropy / most * rows).sum() / (rows.sum() * weights.shape[1] * len(attentions))
    return found


def blank_student(size: int, s: Settings) -> Any:
    shape = {"hidden_size": s.width, "intermediate_size": 4 * s.width, "max_position_embeddings": s.positions}
    depth = {"num_hidden_layers": s.layers, "num_attention_heads": s.heads, "pad_token_id": PAD}
    drops = {"hidden_dropout_prob": s.dropout, "attention_probs_dropout_prob": 0.0}
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {label: n for n, label in enumerate(LABELS)}}
    config = BertConfig(vocab_size=size, **shape, **depth, **drops, **names)
    model = AutoModelForSequenceClassification.from_config(config)
    model.set_attn_implementation("eager")
    return model


def bridge(s: Settings) -> torch.nn.Linear:
    """From the states of the student to those of the teacher; at first it gives their mean."""
    found = torch.nn.Linear(s.width, s.hidden_size)
    torch.nn.init.zeros_(found.weight)
    torch.nn.init.zeros_(found.bias)
    return found


def schedule(rows: Rows, s: Settings) -> list[tuple[list[int], list[int]]]:
    """The batches of all epochs: indices, and the spelling of every text in that epoch.

    The first epoch takes the blocks of the store in their order, some at a time, so that it can begin before the
    teacher has said everything.
    """
    found = []
    for epoch in range(math.ceil(s.epochs)):
        rng = random.Random(s.seed * 1000 + epoch)
        forms = [int(rng.random() < s.raw_share) for _ in rows.begins]
        lengths = [len(rows.pieces[form][n]) for n, form in enumerate(forms)]
        size = s.block * s.window if epoch == 0 else len(lengths)
        groups: list[list[int]] = []
        for start in range(0, len(lengths), size):
            part = groups_of(lengths[start : start + size], s.batch_tokens, rng)
            groups += [[start + n for n in group] for group in part]
        found += [(group, forms) for group in groups[: math.ceil(len(groups) * min(s.epochs - epoch, 1))]]
    return found


def rest(progress: float, s: Settings) -> float:
    """One until the last part of the training, then down to zero in a line."""
    return min((1 - progress) / s.cooling, 1)


def train(tokenizer: Any, rows: Rows, p: Paths, s: Settings) -> Any:
    """The averaged weights that are best on the development sets, rounded to half precision as they will be stored."""
    torch.manual_seed(s.seed)
    model, began = blank_student(len(tokenizer), s), time.monotonic()
    bridges = torch.nn.ModuleList(bridge(s) for _ in range(2))
    mean, parameters = copy.deepcopy(model), [*model.parameters(), *bridges.parameters()]
    opt, steps, first, best = optimizer(parameters, s.rate, s.weight_decay), schedule(rows, s), 0, -1.0
    state, chosen = p.work / "student.state", p.work / "student.best"
    if state.exists():
        first, best = load_state(state, opt, model=model, mean=mean, bridges=bridges)
    totals = [0.0, 0.0, 0.0]
    for n in range(first, len(steps)):
        progress = n / len(steps)
        left = rest(progress, s)
        for part in opt.param_groups:
            part["lr"] = s.rate * min((n + 1) / s.warmup, left)
        batch = batch_of(rows, *steps[n], s.word_mask * left, np.random.default_rng([s.seed, n]))
        late = min(max((n - s.late) / 250, 0), 1)
        mask = (batch.ids != PAD).long()
        with low_precision(s):
            out = model.train()(
                input_ids=batch.ids, attention_mask=mask, output_hidden_states=True, output_attentions=True
            )
            verdict = verdict_loss(out.logits.float(), batch, 1 + late * (s.sharpness - 1), s)
            losses = verdict, state_loss(out.hidden_states, bridges, batch), spread(out.attentions, mask)
        opt.zero_grad()
        (losses[0] + s.hidden_share * losses[1] + late * s.focus * losses[2]).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        opt.step()
        follow(mean, model, s.average)
        totals = [a + b.item() for a, b in zip(totals, losses, strict=True)]
        if (n + 1) % s.look == 0 or n + 1 == len(steps):
            stored = copy.deepcopy(mean).half().float().eval()
            scores, spent = dev_scores(stored, tokenizer, p), time.monotonic() - began
            means = ", ".join(f"{total / s.look:.3f}" for total in totals)
            found = ", ".join(f"{score:.3f}" for score in scores)
            print(f"student: step {n + 1} of {len(steps)}, losses {means}, dev {found}, {spent:.0f} s", flush=True)
            totals = [0.0, 0.0, 0.0]
            if sum(scores) > best:
                best = sum(scores)
                save_file(stored.state_dict(), chosen)
            save_state(state, n + 1, best, opt, model=model, mean=mean, bridges=bridges)
    model.load_state_dict(load_file(chosen))
    return model.eval()


def table(model: Any, tokenizer: Any, data: Path, corpus: Path) -> str:
    """The accuracies for the card, with both spellings where there are two; the corpus by part and tag."""
    lines = ["| texts | number | ordinary spelling | treebank spelling |", "|---|---:|---:|---:|"]
    for name in ("dev", "test"):
        items = examples(data / f"sst2/{name}.jsonl")
        shares = " | ".join(f"{share:.3f}" for share in accuracy(model, tokenizer, items))
        lines.append(f"| {name} | {len(items)} | {shares} |")
    hits: dict[str, list[bool]] = {}
    for row in read(corpus):
        (label,) = predict(model, tokenizer, [row["text"]])
        for tag in ("all", *(row["tags"] or ("plain",))):
            hits.setdefault(f"{row.get('part', 'corpus')}: {tag}", []).append(LABELS[label] == row["label"])
    return "\n".join(lines + [f"| {name} | {len(h)} | {sum(h) / len(h):.3f} | |" for name, h in hits.items()])


def fit(p: Paths, s: Settings, stages: Collection[str]) -> tuple[Any, Any, dict[str, Any]]:
    """The chosen model, its tokenizer, and facts for the card."""
    torch.set_num_threads(s.threads)
    p.work.mkdir(parents=True, exist_ok=True)
    texts = collect(p, s)
    items = texts.lessons(s)
    if "teacher" in stages:
        tune_teacher(texts, p, s)
    if "label" in stages:
        label(p.work / "teacher", [e.natural for e in items], p.work / "store", s)
    facts: dict[str, Any] = {name: len(part) for name, part in texts._asdict().items()}
    if "student" not in stages:
        return None, None, facts
    tokenizer = own_tokenizer(texts, p.work / "tokenizer", s)
    rows = rows_of(tokenizer, items, Store(p.work / "store", s), s)
    model = train(tokenizer, rows, p, s)
    facts |= {"parameters": model.num_parameters(), "texts": len(items)}
    return model, tokenizer, facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with sst2, sst2-phrases and imdb")
    parser.add_argument("--ratings", type=Path, required=True, help="folder hutto_ICWSM_2014 of vaderSentiment")
    parser.add_argument("--start", type=Path, required=True, help="folder of the model that becomes the teacher")
    here = Path(__file__).resolve().parent
    default, bundled = here / "dev_sentences.jsonl", here.parent / "src/heedful/data/assets/corpus.jsonl"
    parser.add_argument("--second", type=Path, default=default, help="texts that help to choose the checkpoint")
    parser.add_argument("--corpus", type=Path, default=bundled, help="texts with tags, only evaluated")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps what was done between runs")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="what to do now")
    parser.add_argument("--no-table", action="store_true", help="do not look at test and the held-out texts")
    for field in fields(Settings):
        parser.add_argument("--" + field.name.replace("_", "-"), type=type(field.default), default=field.default)
    given = parser.parse_args()
    s = Settings(**{field.name: getattr(given, field.name) for field in fields(Settings)})
    p = Paths(given.data, given.ratings, given.start, given.corpus, given.second, given.work)
    model, tokenizer, facts = fit(p, s, given.stages)
    if model is None:
        return
    scores = "" if given.no_table else table(model, tokenizer, p.data, p.corpus)
    print(scores)
    model.half().save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)
    facts["megabytes"] = sum(path.stat().st_size for path in given.out.iterdir()) / 1e6
    (given.out / "README.md").write_text(CARD.format(**facts, settings=asdict(s), table=scores), encoding="utf-8")


if __name__ == "__main__":
    main()
