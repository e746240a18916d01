"""Train the small sentiment classifier that ships with heedful, from scratch.

The data folder holds ``sst2`` (train, dev, test) and ``sst2-phrases`` (train, dev) as jsonl files with the fields
``text`` and ``label``.  Vocabulary and weights come from the two train files; the epoch is chosen on ``sst2`` dev;
test and the corpus of the package are evaluated once, after the choice.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
PAD, UNK, CLS, SEP, MASK = range(len(SPECIAL))
LABELS = ("negative", "positive")
FORMS = ("natural", "raw")
Row = tuple[list[int], int]  # pieces and label
CARD = """---
license: apache-2.0
---
# The default classifier of heedful
A small BERT-type model that tells positive from negative in English film reviews, trained from scratch (no pretrained
weights): a real attention model to explain, offline and quickly. Labels: 0 negative, 1 positive. {settings[layers]}
layers, width {settings[width]}, {settings[heads]} heads, an own lower-cased WordPiece vocabulary; {parameters:,}
parameters, stored as float16, {megabytes:.1f} MB. Licence of the weights: Apache-2.0.
## Training
Stanford Sentiment Treebank, two classes (R. Socher et al., Recursive Deep Models for Semantic Compositionality Over a
Sentiment Treebank, EMNLP 2013): {sentences:,} sentences, and {phrases:,} phrases of them from SST-2 of GLUE (A. Wang
et al., 2018). Texts equal to a dev or test sentence were left out. The treebank writes "wo n't" and "-lrb-"; training
used mostly ordinary spelling. AdamW with warm-up and cosine decay, masked pieces, some texts joined with others of
their label, averaged weights; settings, epoch chosen on dev. {minutes:.0f} minutes, one core. Settings: `{settings}`.
To repeat it: `python scripts/train_default.py --data DATA --out MODEL`, where DATA has `sst2` (train, dev, test) and
`sst2-phrases` (train, dev): jsonl files with `text` and `label`.
## Accuracy
With the stored weights. Test and the corpus (`corpus.jsonl`; several tags or none, "plain") were evaluated once.

{table}
## Limits
It knows single English sentences about films, from one source of the early 2000s. Neutral texts get one of the two
labels all the same; rare words fall into meaningless pieces; on negation, contrast, irony and mixed verdicts it is no
better than chance, or worse (see the table). A subject for explanation methods, not a tool for decisions.
""".replace("\n#", "\n\n#").replace("\nTo repeat", "\n\nTo repeat")


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    vocabulary: int = 8000
    width: int = 128
    layers: int = 3
    heads: int = 4
    positions: int = 256
    dropout: float = 0.2
    batch_tokens: int = 1024
    epochs: int = 4
    rate: float = 7e-4
    warmup: float = 0.1
    weight_decay: float = 0.4
    smoothing: float = 0.1
    phrase_share: float = 0.8
    raw_share: float = 0.25
    word_mask: float = 0.2
    join_share: float = 0.05
    average: float = 0.998


class Example(NamedTuple):
    natural: str
    raw: str
    label: int


def natural(text: str) -> str:
    """Penn Treebank spelling to ordinary spelling."""
    for old, new in (("-lrb-", "("), ("-rrb-", ")"), ("\\/", "/"), ("\\*", "*"), ("can not", "cannot")):
        text = text.replace(old, new)
    text = re.sub(r"(?<!\S)` ?", "'", re.sub(r"`` ?| ?''", '"', text))
    text = re.sub(r" (n't|'(?:s|re|ve|ll|d|m)?)(?!\S)", r"\1", text)
    text = re.sub(r" ([.,:;?!)%])", r"\1", text)
    return " ".join(re.sub(r"([($#]) ", r"\1", text).split())


def key(text: str) -> str:
    return re.sub(r"\W", "", natural(text.lower()))  # the same for all spellings


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def examples(path: Path, held_out: Collection[str] = ()) -> list[Example]:
    items = [Example(natural(row["text"]), row["text"], row["label"]) for row in read(path)]
    return [e for e in items if key(e.raw) not in held_out]


def build_tokenizer(texts: Sequence[str], s: Settings) -> PreTrainedTokenizerFast:
    typed = {"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--", "\u2013": "-", "\u2026": "..."}
    lower, blank = normalizers.BertNormalizer(lowercase=True), Tokenizer(models.WordPiece(unk_token="[UNK]"))
    blank.normalizer = normalizers.Sequence([normalizers.Replace(*pair) for pair in typed.items()] + [lower])
    blank.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    letters = sorted({c for text in texts for c in blank.normalizer.normalize_str(text) if not c.isspace()})
    first = [*SPECIAL.values(), *letters, *("##" + c for c in letters)]  # otherwise their order varies between runs
    trainer = trainers.WordPieceTrainer(vocab_size=s.vocabulary, special_tokens=first, show_progress=False)
    blank.train_from_iterator(texts, trainer)
    core = Tokenizer(models.WordPiece(blank.get_vocab(), unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer, core.decoder = blank.normalizer, blank.pre_tokenizer, decoders.WordPiece()
    frame = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
    core.post_processor = processors.TemplateProcessing(**frame, special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)])
    inputs = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=s.positions, **inputs, **SPECIAL)


def encode(tokenizer: Any, items: Sequence[Example]) -> list[tuple[Row, Row]]:
    sides = [tokenizer([getattr(e, form) for e in items], add_special_tokens=False)["input_ids"] for form in FORMS]
    return [((a, e.label), (b, e.label)) for a, b, e in zip(*sides, items, strict=True)]


def augmented(pairs: Sequence[tuple[Row, Row]], s: Settings, rng: random.Random) -> Iterator[Row]:
    """One epoch: either spelling, some pieces masked, a few texts joined with others of their label."""
    rows = [pair[rng.random() < s.raw_share] for pair in pairs]
    same = [[ids for ids, label in rows if label == wanted] for wanted in range(len(LABELS))]
    for ids, label in rows:
        more = rng.choices(same[label], k=rng.randint(1, 6)) if rng.random() < s.join_share else []
        joined = [i for part in (ids, *more) for i in part][: s.positions - 2]
        yield [CLS, *(MASK if rng.random() < s.word_mask else i for i in joined), SEP], label


def batches(rows: Iterable[Row], s: Settings, rng: random.Random) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rows of similar length together, about ``batch_tokens`` pieces a batch, in random order."""
    groups: list[list[Row]] = [[]]
    for row in sorted(rows, key=lambda r: len(r[0]) + rng.uniform(0, 3)):
        if groups[-1] and (len(groups[-1]) + 1) * len(row[0]) > s.batch_tokens:
            groups.append([])
        groups[-1].append(row)
    rng.shuffle(groups)
    texts = [pad_sequence([torch.tensor(ids) for ids, _ in group], True, PAD) for group in groups]
    return [(ids, torch.tensor([label for _, label in group])) for ids, group in zip(texts, groups, strict=True)]


@torch.no_grad()
def predict(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[int]:
    groups = [list(texts[start : start + 64]) for start in range(0, len(texts), 64)]
    inputs = (tokenizer(group, padding=True, truncation=True, return_tensors="pt") for group in groups)
    return [label for group in inputs for label in model(**group).logits.argmax(-1).tolist()]


def accuracy(model: Any, tokenizer: Any, items: Sequence[Example]) -> list[float]:
    """One number for each spelling."""
    found = [predict(model, tokenizer, [getattr(e, form) for e in items]) for form in FORMS]
    return [sum(f == e.label for f, e in zip(side, items, strict=True)) / len(items) for side in found]


def train(model: Any, tokenizer: Any, sentences: list[Any], phrases: list[Any], dev: list[Example], s: Settings) -> Any:
    """The averaged weights of the best epoch on dev, rounded to half precision as they will be stored."""
    rng, mean, best, best_score, began = random.Random(s.seed), copy.deepcopy(model), model, -1.0, time.monotonic()
    parts = [{"params": [p], "weight_decay": s.weight_decay * (p.dim() > 1)} for p in model.parameters()]
    opt = torch.optim.AdamW(parts, s.rate, betas=(0.9, 0.98), fused=True)
    for epoch in range(s.epochs):
        rows = sentences + rng.sample(phrases, round(s.phrase_share * len(phrases)))
        groups, total = batches(augmented(rows, s, rng), s, rng), 0.0
        for n, (ids, labels) in enumerate(groups):
            progress = (epoch + n / len(groups)) / s.epochs
            for part in opt.param_groups:
                part["lr"] = s.rate * min(progress / s.warmup, (1 + math.cos(math.pi * progress)) / 2)
            scores = model.train()(input_ids=ids, attention_mask=(ids != PAD).long()).logits
            loss = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=s.smoothing)
            opt.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            for slow, fast in zip(mean.parameters(), model.parameters(), strict=True):
                slow.data.lerp_(fast.data, 1 - s.average)
            total += loss.item()
        stored = copy.deepcopy(mean).half().float().eval()
        score, spent = accuracy(stored, tokenizer, dev), time.monotonic() - began
        print(f"epoch {epoch + 1}: loss {total / len(groups):.3f}, dev {score}, {spent:.0f} s", flush=True)
        if min(score) > best_score:
            best, best_score = stored, min(score)
    return best


def table(model: Any, tokenizer: Any, data: Path, corpus: Path) -> str:
    """The accuracies for the card, with both spellings where there are two."""
    lines = ["| texts | number | ordinary spelling | treebank spelling |", "|---|---:|---:|---:|"]
    for name in ("dev", "test"):
        items = examples(data / f"sst2/{name}.jsonl")
        shares = " | ".join(f"{share:.3f}" for share in accuracy(model, tokenizer, items))
        lines.append(f"| {name} | {len(items)} | {shares} |")
    hits: dict[str, list[bool]] = {"all": [], "plain": []}
    for row in read(corpus):
        (label,) = predict(model, tokenizer, [row["text"]])
        for tag in ("all", *(row["tags"] or ("plain",))):
            hits.setdefault(tag, []).append(LABELS[label] == row["label"])
    return "\n".join(lines + [f"| corpus: {tag} | {len(h)} | {sum(h) / len(h):.3f} | |" for tag, h in hits.items()])


def fit(data: Path, s: Settings) -> tuple[Any, Any, dict[str, Any]]:
    """The chosen model, its tokenizer, and facts for the card."""
    began = time.monotonic()
    torch.set_num_threads(1)
    torch.manual_seed(s.seed)
    files = [data / f"{name}.jsonl" for name in ("sst2/dev", "sst2/test", "sst2-phrases/dev")]
    held_out = {"", *(key(e.raw) for path in files for e in examples(path))}
    sentences, phrases = (examples(data / name / "train.jsonl", held_out) for name in ("sst2", "sst2-phrases"))
    tokenizer = build_tokenizer([text for e in sentences + phrases for text in (e.natural, e.raw)], s)
    size = {"hidden_size": s.width, "intermediate_size": 4 * s.width, "max_position_embeddings": s.positions}
    depth = {"num_hidden_layers": s.layers, "num_attention_heads": s.heads, "hidden_dropout_prob": s.dropout}
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {label: n for n, label in enumerate(LABELS)}}
    config = BertConfig(vocab_size=len(tokenizer), pad_token_id=PAD, **size, **depth, **names)
    model, dev = BertForSequenceClassification(config), examples(files[0])
    best = train(model, tokenizer, encode(tokenizer, sentences), encode(tokenizer, phrases), dev, s)
    facts = {"sentences": len(sentences), "phrases": len(phrases), "parameters": model.num_parameters()}
    return best, tokenizer, {**facts, "minutes": (time.monotonic() - began) / 60}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with sst2 and sst2-phrases")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    bundled = Path(__file__).resolve().parents[1] / "src/heedful/assets/corpus.jsonl"
    parser.add_argument("--corpus", type=Path, default=bundled, help="texts with tags, only evaluated")
    for field in fields(Settings):
        parser.add_argument("--" + field.name.replace("_", "-"), type=type(field.default), default=field.default)
    given = parser.parse_args()
    s = Settings(**{field.name: getattr(given, field.name) for field in fields(Settings)})
    model, tokenizer, facts = fit(given.data, s)
    print(scores := table(model, tokenizer, given.data, given.corpus))
    model.half().save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)
    facts["megabytes"] = sum(path.stat().st_size for path in given.out.iterdir()) / 1e6
    (given.out / "README.md").write_text(CARD.format(**facts, settings=asdict(s), table=scores), encoding="utf-8")


if __name__ == "__main__":
    main()
