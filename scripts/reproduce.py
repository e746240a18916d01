"""Do every study, and train the networks of docs/networks.md; with --show, print what is there already.

`make reproduce` does the studies, and with PROFILE=full the networks too. The studies are of the embedded model and
corpus in the quick profile, ten CPU minutes together. The data of the networks are in the folder --data, the encoder to
fine-tune in the folder --encoder. Each row is one `heedful train`, chosen by validation texts, scored once on test; a
row that is finished is not trained again.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import heedful
from heedful.data import load, splits

STUDIES = "studies"
SENTIMENT = ("negative", "positive")
# of ten settings tried on dev
AGNEWS = {"digits": True, "min_count": 2, "spread": 0.1, "dropout": 0.4, "patience": 3}
TRANSFORMER = {"lr": 5e-4, "warmup": 0.05, "schedule": "linear", "batch": 32, "epochs": 6, "patience": 1}


@dataclass(frozen=True)
class Row:
    """A network, its data, and what it should reach on test."""

    folder: str
    recipe: str
    data: str
    target: float | None
    settings: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = SENTIMENT
    test: str | None = None
    keep: tuple[str, ...] | None = None
    score: str = "accuracy"


ROWS = (
    Row("bilstm", "bilstm", "sst2-phrases", 0.78, {"patience": 2, "spread": 1.0}, test="sst2/test.jsonl"),
    Row("average", "average", "sst2-phrases", 0.76, {"patience": 2, "spread": 1.0}, test="sst2/test.jsonl"),
    Row("agnews", "bilstm", "agnews", 0.92, AGNEWS, ("World", "Business"), keep=("0", "2")),
    Row("multihead", "multihead", "imdb", 0.79, {"lazy": True}),
    Row("transformer", "transformer", "imdb", 0.82, TRANSFORMER),
    Row("han", "han-rnn", "imdb", 0.85, {"epochs": 3, "lazy": True}),
    Row("minilm-sst2", "finetune", "sst2", 0.87, {"max_length": 64}),
    Row("minilm-mrpc", "finetune", "mrpc", 0.75, {"epochs": 4}, ("not equivalent", "equivalent")),
    Row("minilm-rte", "finetune", "rte", None, {"max_length": 200}, ("entailment", "not entailment")),
    Row("seq2seq-additive", "seq2seq-additive", "dates", 0.95, score="exact match"),
    Row("seq2seq-multiplicative", "seq2seq-multiplicative", "dates", 0.95, score="exact match"),
    Row("seq2seq-none", "seq2seq-none", "dates", None, score="exact match"),
)


def trained(row: Row, out: Path, data: Path, encoder: str) -> None:
    folder = out / row.folder
    if (folder / "training.json").exists():
        return
    print(f"{row.recipe} on {row.data} -> {folder}", flush=True)
    settings = row.settings | ({"encoder": encoder} if row.recipe == "finetune" else {})
    if row.data == "dates":
        heedful.train(row.recipe, "dates", folder, settings)
        return
    test = data / row.test if row.test else None
    parts_of_data = splits(data / row.data, test=test, keep=row.keep)
    heedful.train(row.recipe, parts_of_data, folder, settings, names=row.names)


def studies(out: Path) -> None:
    """Every study of the embedded model (or of its default recipe) and corpus, and its CPU minutes."""
    corpus = load("corpus")
    seconds = 0.0
    for name in heedful.STUDIES:
        takes = getattr(heedful.STUDIES[name], "takes", (1, 1))
        source: Any = "corpus" if takes[0] == 1 else [corpus[::2], corpus[1::2]]
        outcome = heedful.study(name, source, out=out / "studies" / name, profile="quick")
        seconds += outcome.seconds
        print(f"{name}: {outcome.seconds / 60:.1f} CPU minutes -> {out / 'studies' / name}", flush=True)
    print(f"all studies: {seconds / 60:.1f} CPU minutes", flush=True)


def line(row: Row, out: Path) -> str:
    """The row as Markdown."""
    training = json.loads((out / row.folder / "training.json").read_text("utf-8"))
    parts = [training["data"][name] for name in ("train", "dev", "test")]
    n = " / ".join(f"{part.get('used', part['texts']):,}" for part in parts)
    more = ", ".join(f"{k}={v}".lower() if isinstance(v, bool) else f"{k}={v}" for k, v in row.settings.items())
    dev = training["dev"][row.score]
    test = training["test"] and training["test"][row.score]
    score = f"**{test:.3f}**" if test is not None else "–"
    if row.target is not None and (test is None or test < row.target):
        print(f"{row.folder}: {score} on test is below {row.target}", file=sys.stderr)
    rest = training["test"] or training["dev"]
    others = f"{rest['f1']:.3f} / {rest['roc_auc']:.3f}" if "f1" in rest else "–"
    epochs = f"{training['best_epoch']} of {training['epochs']}"
    cells = [f"`{row.recipe}`", row.data, n, more or "defaults", epochs, f"{dev:.3f}", score, others]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="folders of ROWS, or studies; all if left out")
    parser.add_argument("--data", type=Path, help="the folder with the data sets, for the networks")
    parser.add_argument("--out", type=Path, default=Path("reproduced"))
    parser.add_argument("--encoder", default="", help="the folder of a pretrained encoder, for the finetune rows")
    parser.add_argument("--show", action="store_true", help="print the table of what is finished, and train nothing")
    args = parser.parse_args()
    rows = [row for row in ROWS if not args.rows or row.folder in args.rows]
    if not args.show:
        if not args.rows or STUDIES in args.rows:
            studies(args.out)
        for row in rows:
            if args.data is None:
                print(f"{row.folder} is left out: give its data with --data")
                continue
            if row.recipe == "finetune" and not args.encoder:
                print(f"{row.folder} is left out: name an encoder with --encoder")
                continue
            trained(row, args.out, args.data, args.encoder)
    finished = [row for row in rows if (args.out / row.folder / "training.json").exists()]
    if not finished:
        return
    print("| recipe | data | texts (train / dev / test) | settings | epoch | dev | test | F1 / AUC |")
    print("|---|---|---|---|---|---|---|---|")
    for row in finished:
        print(line(row, args.out))


if __name__ == "__main__":
    main()
