"""The model card, with the accuracies of the final model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import heedful
from heedful.checks.permutation import Permutation

from .settings import Paths, Settings
from .texts import LABELS, SPELLINGS, Texts, read_examples, read_jsonl
from .training import compute_logits, score

CARD = """---
license: apache-2.0
---

# The default classifier of heedful

A small BERT that classifies English film reviews as positive or negative: a real attention model to explain, offline
and fast. Labels: 0 negative, 1 positive. {settings[layers]} layers, width {settings[width]}, {settings[heads]} heads, a
lower-case WordPiece vocabulary of its own; {parameters:,} parameters, stored as float16, {megabytes:.1f} MB. Licence of
the weights: Apache-2.0.

## Training

The model is a student, trained from random weights by distillation; no weight was copied. The teacher is a MiniLM
(all-MiniLM-L6-v2, 6 layers), fine-tuned on SST-2 and then on the labelled texts below. The student learned to predict
the logits of the teacher, and, by a linear projection, the hidden states of the teacher's middle and last layer at the
first token and at the start of each word, reduced to {settings[components]} principal components. Labels, where a text
has one, entered the loss too. Some tokens of the student's input were masked. From step {settings[ramp_step]} on, two
changes were phased in: the logits of the teacher were multiplied by {settings[logit_scale]}, because the noisy labels
make it underconfident, and the mean entropy of the attention was added to the loss with weight
{settings[entropy_weight]}, so that attention concentrates on few tokens.

The texts:

- Stanford Sentiment Treebank, two classes (R. Socher et al., Recursive Deep Models for Semantic Compositionality Over a
  Sentiment Treebank, EMNLP 2013): {sentences:,} sentences, and {phrases:,} of their phrases from SST-2 of GLUE (A. Wang
  et al., 2018), labelled. The student used {settings[phrases]:,} of the phrases, the teacher
  {settings[teacher_phrases]:,}.
- IMDB (A. Maas et al., Learning Word Vectors for Sentiment Analysis, ACL 2011), train and test: {review_ends:,}
  sentences from the first or last two of a review, and {settings[reviews]:,} others, with the label of the review as a
  noisy label (assumed correct with probability {settings[review_confidence]}). The teacher used only the former.
- vaderSentiment 3.3.2 (C. Hutto and E. Gilbert, VADER, ICWSM 2014; MIT licence): {snippets:,} snippets of product
  reviews, news and tweets, and words of the lexicon, labelled if the mean rating is clear.
- {settings[composed]:,} texts composed of treebank phrases, words and written patterns, labelled by their composition
  ("the film was not ...", "..., but ...", "at no point did we ..."). The teacher used
  {settings[teacher_composed]:,}.
- {settings[augmented]:,} augmented copies of the texts above, without labels: some words are replaced by similar words,
  film nouns by nouns of other domains, and some texts are shortened.
- {words:,} frequent words as texts of one word, without labels.

Texts that equal, in any spelling, a text of the table below or of the second development set (`dev_sentences.jsonl`)
were removed, and written clauses that share four consecutive words with the corpus or that set. The treebank writes
"wo n't" and "-lrb-"; training used mostly ordinary spelling. {texts:,} texts, {settings[epochs]} epochs; AdamW with
linear warm-up and linear decay; averaged weights. The stored weights are an interpolation of the checkpoint with the
best accuracy on both development sets and of the last one, with the share (one of five) that has the lowest
cross-entropy on these sets. Settings: `{settings}`.

To reproduce it: `python -m scripts.embedded`; `--help` describes the data.

## Accuracy

With the stored weights. A text of the corpus (`corpus.jsonl`, its ordinary sentences in separate rows) can have several
tags; one without tags is "plain".

{accuracies}

{history}

## Attention

How far the output moves (total variation distance, mean over {shuffled_texts} texts of the corpus of the median over
{draws} draws) when the attention weights of one layer are shuffled within each row:

{shuffles}

## Limits

The model is trained on single English sentences, mostly about films, from sources of the early 2000s, and inherits the
errors of its teacher. It assigns one of the two labels to neutral texts too. Rare words are split into meaningless
tokens. It follows common negations and contrasts, fails on three in ten of those in the corpus that were chosen to be
hard, and does not see irony (see the table). It is a subject for explanation methods, not a tool for decisions.
"""


HISTORY = Path(__file__).resolve().parent / "history.md"  # earlier models, and what each set was used for
SHUFFLED_TEXTS, DRAWS = 100, 10


class Row(NamedTuple):
    name: str
    texts: int
    ordinary: float
    treebank: float | None = None


def evaluate(model: Any, tokenizer: Any, p: Paths) -> list[Row]:
    """Accuracies on dev and test in both spellings, and on the corpus by part and tag."""
    rows = []
    for name in ("dev", "test"):
        examples = read_examples(p.data / f"sst2/{name}.jsonl")
        rows.append(Row(name, len(examples), *(score(model, tokenizer, examples, x).accuracy for x in SPELLINGS)))
    correct: dict[str, list[bool]] = {}
    for text in read_jsonl(p.corpus):
        label = int(compute_logits(model, tokenizer, [text["text"]]).argmax())
        for tag in ("all", *(text["tags"] or ("plain",))):
            correct.setdefault(f"{text.get('part', 'corpus')}: {tag}", []).append(LABELS[label] == text["label"])
    return rows + [Row(name, len(group), sum(group) / len(group)) for name, group in correct.items()]


def format_table(rows: list[Row]) -> str:
    lines = ["| texts | number | ordinary spelling | treebank spelling |", "|---|---:|---:|---:|"]
    for row in rows:
        treebank = "" if row.treebank is None else f"{row.treebank:.3f} "
        lines.append(f"| {row.name} | {row.texts} | {row.ordinary:.3f} | {treebank}|")
    return "\n".join(lines)


def shuffle_table(folder: Path) -> str:
    """How far the output moves when one layer's attention is shuffled."""
    check = Permutation(draws=1, layer_draws=DRAWS, head_draws=0)
    audit = heedful.audit(str(folder), "corpus", ["attention-mean"], [check], limit=SHUFFLED_TEXTS)
    rows = {str(row.at["layer"]): row for row in audit.rows("permutation", "tvd") if row.at["layer"] != "all"}
    lines = ["| attention | texts | change |", "|---|---:|---:|"]
    return "\n".join(lines + [f"| layer {name} shuffled | {row.n} | {row.mean:.3f} |" for name, row in rows.items()])


def write_card(out: Path, parameters: int, texts: int, pool: Texts, accuracies: str, s: Settings) -> None:
    """Write README.md to the folder `out`, which holds the model and its tokenizer."""
    counts = {name: len(part) for name, part in pool._asdict().items()}
    megabytes = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    card = CARD.format(
        **counts,
        parameters=parameters,
        texts=texts,
        megabytes=megabytes,
        accuracies=accuracies,
        shuffles=shuffle_table(out),
        shuffled_texts=SHUFFLED_TEXTS,
        draws=DRAWS,
        history=HISTORY.read_text(encoding="utf-8").strip(),
        settings=asdict(s),
    )
    (out / "README.md").write_text(card, encoding="utf-8")
