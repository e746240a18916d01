"""`python -m scripts.embedded`: parse the arguments, run the stages, write the model."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from . import __doc__ as description
from .card import evaluate, format_table, write_card
from .settings import Paths, Settings
from .student import load_tokenizer, train
from .teacher import fine_tune, store_outputs
from .texts import load_pool

STAGES = ("teacher", "outputs", "student")
DEV_SENTENCES = Path(__file__).resolve().parent / "dev_sentences.jsonl"
CORPUS = Path(__file__).resolve().parents[2] / "src/heedful/data/assets/corpus.jsonl"


def parse_arguments() -> argparse.Namespace:
    usage = "python -m scripts.embedded --data DATA --ratings RATINGS --start START --work WORK --out OUT [options]"
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(usage=usage, description=description, formatter_class=form)
    path: dict[str, Any] = {"type": Path, "metavar": "PATH"}
    parser.add_argument("--data", **path, required=True, help="folder with sst2, sst2-phrases and imdb")
    parser.add_argument("--ratings", **path, required=True, help="folder hutto_ICWSM_2014 of vaderSentiment")
    parser.add_argument("--start", **path, required=True, help="classifier that becomes the teacher by fine-tuning")
    parser.add_argument("--work", **path, required=True, help="folder for intermediate results")
    parser.add_argument("--out", **path, required=True, help="folder for the trained model")
    parser.add_argument(
        "--dev-sentences", **path, default=DEV_SENTENCES, help="second development set (default: own file)"
    )
    parser.add_argument("--corpus", **path, default=CORPUS, help="corpus for the model card (default: that of heedful)")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="stages to run (default: all)")
    parser.add_argument("--no-table", action="store_true", help="do not evaluate on test and corpus")
    names = dict.fromkeys(field.metadata["group"] for field in fields(Settings))
    groups = {name: parser.add_argument_group(f"{name} settings") for name in names}
    for field in fields(Settings):
        kind: dict[str, Any] = {"type": type(field.default), "metavar": "N" if field.type == "int" else "X"}
        if field.type == "bool":
            kind = {"action": argparse.BooleanOptionalAction}
        text = f"{field.metadata['description']} (default: {field.default})"
        option = "--" + field.name.replace("_", "-")
        groups[field.metadata["group"]].add_argument(option, **kind, default=field.default, help=text)
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    s = Settings(**{field.name: getattr(args, field.name) for field in fields(Settings)})
    p = Paths(*(getattr(args, name) for name in Paths._fields))
    torch.set_num_threads(s.threads)
    p.work.mkdir(parents=True, exist_ok=True)
    pool = load_pool(p, s)
    examples = pool.sample(s)
    if "teacher" in args.stages:
        fine_tune(pool, p, s)
    if "outputs" in args.stages:
        store_outputs([e.ordinary for e in examples], p, s)
    if "student" in args.stages:
        tokenizer = load_tokenizer(pool, p, s)
        model = train(tokenizer, examples, p, s)
        table = "" if args.no_table else format_table(evaluate(model, tokenizer, p))
        print(table)
        model.half().save_pretrained(args.out)
        # subtle: the tokenizer in memory has the padding and truncation of its last call
        shutil.copytree(p.work / "tokenizer", args.out, dirs_exist_ok=True)
        write_card(args.out, model.num_parameters(), len(examples), pool, table, s)


if __name__ == "__main__":
    main()
