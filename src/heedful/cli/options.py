"""Options that several commands share: model, text, target and output."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful.core.errors import BadInput

if TYPE_CHECKING:
    from heedful.audits.workers import Workers
    from heedful.methods.explain import Step, Watch
    from heedful.model.classifier import Classifier
    from heedful.report.progress import Show

Command = Callable[..., Any]
DEVICE = "heedful.device"  # in the context of a command: its --device, once it loads a model itself


def _all(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def choice(name: str, values: list[str], words: str) -> Callable[[Command], Command]:
    """An option with these values, of which the first is the default."""
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=words)


device_option = click.option(
    "--device", default="auto", show_default=True, help="Where to run: cpu, cuda, mps, or auto: cuda, mps, else cpu."
)
_TRUNCATE = "Truncate a text that is too long, or refuse it."
_loading_options = _all(
    click.option("--revision", help="A branch, tag or commit of the hub name."),
    device_option,
    click.option("--dtype", help="float32, float64, bfloat16, … or auto. [default: float32]"),
    click.option("--prompt", help="A JSON file with a template and a verbalizer, for a language model."),
    click.option(
        "--template", help="A prompt with {text}, and {mask} for a masked model: 'Review: {text}\\nSentiment:'."
    ),
    click.option(
        "--verbalizer", multiple=True, metavar="LABEL=WORDS",
        help="What a language model says for a label: positive=' good'; one for each label.",
    ),
    click.option("--chat/--no-chat", default=None, help="Put the template into the tokenizer's chat template."),
    click.option("--system", help="The system message of the chat."),
    click.option(
        "--scoring", type=click.Choice(["first", "sum", "mean"]),
        help="Score a label by its first token, or its whole string: the sum, or mean per token. [default: first]",
    ),
    click.option(
        "--calibrate/--no-calibrate", default=None,
        help="Subtract the scores that labels have for texts that say nothing.",
    ),
    click.option("--zero-shot", metavar="LABEL,…", help="Labels for an entailment model, separated by commas."),
    click.option("--hypothesis", help="What it entails, with {} for the label. [default: This example is {}.]"),
    click.option("--multi-label", is_flag=True, help="Several of the --zero-shot labels may be right."),
)  # fmt: skip


def how_models_load(command: Command) -> Command:
    """How a model is loaded, as one argument: `model_options`, keywords of `heedful.load`."""

    @functools.wraps(command)
    def read(
        *args: Any, revision: str | None, device: str | None, dtype: str | None, prompt: str | None,
        template: str | None, verbalizer: tuple[str, ...], chat: bool | None, system: str | None, scoring: str | None,
        calibrate: bool | None, zero_shot: str | None, hypothesis: str | None, multi_label: bool, **others: Any,
    ) -> Any:  # fmt: skip
        options = {
            "revision": revision, "device": device, "dtype": dtype, "prompt": prompt, "template": _lines(template),
            "verbalizer": _words_of_labels(verbalizer) or None, "chat": chat, "system": _lines(system),
            "scoring": scoring, "calibrate": calibrate, "zero_shot": names(zero_shot), "hypothesis": hypothesis,
            "multi_label": multi_label,
        }  # fmt: skip
        return command(*args, model_options=options, **others)

    return _loading_options(read)


def model_options(command: Command) -> Command:
    """The model, and how it is loaded."""
    words = "A model folder or a Hugging Face hub name. [default: the embedded model]"
    return click.option("--model", "-m", help=words)(how_models_load(command))


def _lines(words: str | None) -> str | None:
    """Text of the command line, in which \\n is a new line."""
    return None if words is None else words.replace("\\n", "\n")


def _words_of_labels(assignments: Sequence[str]) -> dict[str, str]:
    """--verbalizer as a mapping from labels to words, whose white space counts."""
    words: dict[str, str] = {}
    for assignment in assignments:
        label, equals, said = assignment.partition("=")
        if not equals or label.strip() in words:
            wrong = "names a label twice" if equals else "has no '='"
            raise BadInput(f"--verbalizer {wrong} ('{assignment}'); write it as positive=' good', once for each label.")
        words[label.strip()] = _lines(said) or ""
    return words


target_options = _all(
    click.option("--target", "-t", help="The label to explain, by name or index. [default: the predicted one]"),
    click.option("--against", help="Explain --target minus this label."),
    choice("--scale", ["logit", "probability"], "Explain the logit or the probability."),
)
text_options = _all(
    click.option("--pair", help="The second text of a pair."),
    click.option("--truncate/--no-truncate", default=True, show_default=True, help=_TRUNCATE),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of sampling methods."),
)
_KINDS = "csv, tsv, jsonl, json, parquet, folder, newsgroups, ss, sst, babi, cloze, eraser, …"
_data_options = _all(
    click.option(
        "--text-column", help="Which column holds the text, by name or number; 2,3 joins two. [default: guessed]"
    ),
    click.option("--pair-column", help="Which column holds the second text of a pair."),
    click.option("--label-column", help="Which column holds the label."),
    click.option("--kind", help=f"The format of the data: {_KINDS} [default: guessed]"),
    click.option("--labels", help="Use only texts with these labels of the data, separated by commas."),
    click.option(
        "--rename-labels", metavar="OLD=NEW,…", help="New names for labels of the data: pos=positive,neg=negative."
    ),
    click.option("--min-words", type=click.IntRange(min=1), help="Use only texts with at least this many words."),
    click.option("--max-words", type=click.IntRange(min=1), help="Use only texts with at most this many words."),
)


def data_options(command: Command) -> Command:
    """How data are read, and which of their texts are used, as one argument: `reading`, arguments of `data.load`."""

    @functools.wraps(command)
    def read(
        *args: Any, text_column: str | None, pair_column: str | None, label_column: str | None, kind: str | None,
        labels: str | None, rename_labels: str | None, min_words: int | None, max_words: int | None, **others: Any,
    ) -> Any:  # fmt: skip
        from heedful.data import Columns, Selection

        reading = {
            "columns": Columns(text_column, pair_column, label_column),
            "kind": kind,
            "select": Selection(names(labels), _renames(rename_labels), min_words, max_words),
        }
        return command(*args, reading=reading, **others)

    return _data_options(read)


def names(listed: str | None) -> tuple[str, ...] | None:
    """Names that are separated by commas, or None if the option was not given."""
    return None if listed is None else tuple(name.strip() for name in listed.split(",") if name.strip())


def _renames(listed: str | None) -> dict[str, str]:
    """--rename-labels as a mapping from old names to new ones."""
    renames: dict[str, str] = {}
    for item in names(listed) or ():
        old, equals, new = (part.strip() for part in item.partition("="))
        if not (old and equals and new) or old in renames:
            wrong = "renames a label twice" if old in renames else "has a part that is not OLD=NEW"
            raise BadInput(f"--rename-labels {wrong} ('{item}'); write it as pos=positive,neg=negative.")
        renames[old] = new
    return renames


def settings_option(words: str) -> Callable[[Command], Command]:
    """--set NAME=VALUE, as `assignments`."""
    return click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help=words)


set_option = settings_option(
    "A setting of all chosen methods that have it, or of one method: steps=64, ig.steps=64; may be repeated."
)
figure_option = click.option("--figure", help="Write a figure to this file, which ends in .png, .pdf or .svg.")
output_options = _all(
    click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per result."),
    click.option("--html", help="Write an HTML page to this file."),
    figure_option,
)


workers_options = _all(
    click.option(
        "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that share the work."
    ),
    click.option("--on", metavar="ray[://HOST:PORT]", help="Compute on a Ray cluster, whose machines see the folders."),
    click.option("--gpus", type=click.FloatRange(min=0), default=0.0, help="GPUs of a task (--on). [default: 0]"),
)


def cluster(on: str | None, gpus: float, jobs: int) -> Workers | None:
    """What --on names; None without it."""
    from heedful.audits.ray import Ray

    if on is None:
        if gpus:
            raise BadInput("--gpus is for tasks of a cluster; add --on ray, or leave it out.")
        return None
    if jobs != 1:
        raise BadInput("--jobs is for processes on this machine; leave it out with --on.")
    return Ray.read(on, gpus)


def announce_device(device: str | None, works: bool = False) -> None:
    """Print to stderr where --device auto runs.

    A GPU is named before the model is loaded, because it may be the reason of an error; the CPU when the command
    `works`, so that an error is one sentence.
    """
    if device != "auto":
        return
    from heedful.model.loading import chosen_device

    chosen = chosen_device(device)
    if (chosen.type == "cpu") == works:
        click.echo(f"device: {chosen}" if works else f"device: {chosen} (--device cpu runs on the CPU)", err=True)


def load_model(model: str | None, model_options: Mapping[str, Any]) -> Classifier:
    """The model that the options name."""
    from heedful.model.loading import load

    device = click.get_current_context().meta[DEVICE] = model_options["device"]
    announce_device(device)
    return load(model, **model_options)


def read_text(text: str | None, pair: str | None) -> str | None:
    """The text of the command line, or of stdin for '-'; an invalid text is refused before the model is loaded."""
    from heedful.core.tokens import check_text

    read = _decoded(sys.stdin.buffer.read()) if text == "-" else text
    if read is not None:
        check_text(read)
    if pair is not None:
        check_text(pair, "pair")
    return read


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff").removesuffix("\n")


def read_lines(file: str) -> list[str]:
    """One text per line."""
    from heedful.core.tokens import check_text

    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as e:
        raise BadInput(f"'{file}' cannot be read ({e.strerror}); give a file with one text per line.") from e
    if not raw:
        raise BadInput(f"'{file}' is empty; give one text per line.")
    # subtle: splitlines would also split at U+2028, form feeds and the like, which occur inside texts
    lines = [line.removesuffix("\r") for line in _decoded(raw).split("\n")]
    for number, line in enumerate(lines, 1):
        check_text(line, f"text in line {number}")
    return lines


def figure_kind(path: str | None) -> str:
    """The format of a figure file; a wrong ending, or no matplotlib, is refused before the model is loaded."""
    if path is None:
        return ""
    from heedful.report.figures import kind

    return kind(path)


def watch(show: Show, classifier: Classifier) -> Watch:
    """Show each step of an explanation, and count its passes while it runs."""

    def watched(step: Step) -> None:
        before = classifier.forwards
        doing = step.doing if step.count == 1 else f"{step.doing}, {step.number} of {step.count}"
        show(doing, lambda: classifier.forwards - before, step.forwards, "passes")

    return watched


def print_skipped(skipped: Mapping[str, str]) -> None:
    """Print to stderr which methods were skipped, and why."""
    from heedful.report.terminal import clean

    for name, reason in skipped.items():
        click.echo(f"skipped {name}: {clean(reason)}", err=True)


def announce(*paths: str | None) -> None:
    """Print to stderr which files were written."""
    for path in paths:
        if path is not None:
            click.echo(f"wrote {path}", err=True)
