"""The command line: parse, call one function, print."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heedful import __version__
from heedful.errors import BadInput, HeedfulError, Unsupported

if TYPE_CHECKING:
    from heedful.classifier import Classifier
    from heedful.explanation import Explanation
    from heedful.target import Target


class _Commands(click.Group):
    """Every error a user can cause is one sentence on stderr and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HeedfulError as e:
            click.echo(f"heedful: {e}", err=True)
            ctx.exit(2)
        except BrokenPipeError:  # `heedful … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Why did the text classifier say that, and which of those explanations deserve to be heeded?"""


@dataclass(frozen=True)
class _Ask:
    """What `heedful explain` was asked."""

    methods: tuple[str, ...]
    every: bool
    target: str | None
    against: str | None
    scale: Any
    layer: str | None
    seed: int
    truncate: bool
    windows: bool


@main.command()
@click.argument("text", required=False)
@click.option("--model", "-m", help="A model folder or a Hugging Face hub name; the embedded default if left out.")
@click.option("--revision", help="A branch, tag or commit of the hub name.")
@click.option(
    "--method",
    "-M",
    "methods",
    multiple=True,
    help="A method by name; may be repeated. [default: integrated-gradients]",
)
@click.option("--all", "every", is_flag=True, help="Every method that this model supports.")
@click.option("--target", "-t", help="The label to explain, by name or index. [default: the predicted one]")
@click.option("--against", help="Explain --target minus this label.")
@click.option(
    "--scale",
    type=click.Choice(["logit", "probability"]),
    default="logit",
    show_default=True,
    help="What is explained.",
)
@click.option("--pair", help="The second text of a pair.")
@click.option(
    "--by",
    "unit",
    type=click.Choice(["token", "word", "sentence"]),
    default="word",
    show_default=True,
    help="Units shown.",
)
@click.option("--layer", help="Layer of the attention methods: a number or 'all'. [default: the last]")
@click.option("--file", "file", help="Explain every line of a file ('-' is stdin) and print JSON lines.")
@click.option("--device", help="Where to run: cpu, cuda, mps. [default: cpu]")
@click.option("--dtype", help="float32, float64, bfloat16, … or auto. [default: float32]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per method.")
@click.option("--html", help="Write a page to this file.")
@click.option("--seed", type=int, default=0, show_default=True, help="For methods that draw random numbers.")
@click.option(
    "--truncate/--no-truncate", default=True, show_default=True, help="Cut a text that is too long, or refuse it."
)
@click.option("--windows", is_flag=True, help="Explain a text that is too long in overlapping windows.")
def explain(
    text: str | None, model: str | None, revision: str | None, pair: str | None, unit: str, file: str | None,
    device: str | None, dtype: str | None, as_json: bool, html: str | None, **asked: Any,
) -> None:  # fmt: skip
    """Explain one prediction of TEXT ('-' reads it from stdin)."""
    ask = _Ask(**asked)
    if (text is None) == (file is None):
        raise BadInput("give one text, or --file with one text per line.")
    if html is not None and file is not None:
        raise BadInput("--html shows one text; leave out --file, or read its JSON lines.")
    lines = None if file is None else _lines(file)
    read = _stdin() if text == "-" else text
    if read is not None:
        _check(read, pair)
    with _output(html) as page:
        classifier = _load(model, revision, device, dtype)
        if lines is not None:
            _explain_lines(classifier, lines, pair, ask)
            return
        assert read is not None
        found = _explain(classifier, read, pair, ask, whole_page=page is not None)
        if page is not None:
            from heedful.report import page as render

            page.write_text(render(found), encoding="utf-8")
        _print([e for e in found if _asked_for(e, ask)], unit, as_json)
    if html is not None:
        click.echo(f"wrote {html}", err=True)


def _check(text: str, pair: str | None) -> None:
    """Refuse bad text before anything slow."""
    from heedful.tokens import check_text

    check_text(text)
    if pair is not None:
        check_text(pair, "pair")


def _stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", errors="surrogateescape").removesuffix("\n")


def _lines(file: str) -> list[str]:
    from heedful.tokens import check_text

    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as e:
        raise BadInput(f"'{file}' cannot be read ({e.strerror}).") from e
    lines = raw.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff").splitlines()
    if not lines:
        raise BadInput(f"'{file}' is empty; give one text per line.")
    for number, line in enumerate(lines, 1):
        check_text(line, f"text in line {number}")
    return lines


def _load(model: str | None, revision: str | None, device: str | None, dtype: str | None) -> Classifier:
    from heedful.loading import load

    return load(model, revision=revision, device=device, dtype=dtype)


def _target(ask: _Ask) -> Target:
    from heedful.target import Target

    return Target(ask.target, ask.scale, ask.against)


def _methods(ask: _Ask) -> list[Any]:
    from heedful.methods import METHODS, method, settings

    names = list(METHODS) if ask.every else list(ask.methods) or ["integrated-gradients"]
    layered = [n for n in names if n in METHODS and "layer" in settings(METHODS[n])]
    if ask.layer is not None and not layered:
        raise BadInput(f"--layer is for attention methods, and {', '.join(names)} has no layer; leave it out.")
    return [method(n, {"layer": _layer(ask.layer)} if ask.layer is not None and n in layered else None) for n in names]


def _layer(given: str) -> int | str:
    if given == "all":
        return given
    try:
        return int(given)
    except ValueError:
        raise BadInput(f"layer '{given}' is not a number or 'all'.") from None


def _explain(classifier: Classifier, text: str, pair: str | None, ask: _Ask, whole_page: bool) -> list[Explanation]:
    from tqdm.auto import tqdm

    from heedful.explaining import explain as run
    from heedful.methods.attention import AttentionWeights

    methods = _methods(ask)
    wanted = len(methods)
    if whole_page and not any(isinstance(m, AttentionWeights) for m in methods):
        methods.append(AttentionWeights())  # the page's head grid
    found: list[Explanation] = []
    for i, method in enumerate(tqdm(methods, desc="explaining", delay=2, disable=None, leave=False)):
        try:
            found.append(
                run(classifier, text, method, _target(ask), pair, ask.seed, truncate=ask.truncate, windows=ask.windows)
            )
        except Unsupported as e:
            if not ask.every and i < wanted:
                raise
            click.echo(f"left out: {e}", err=True)
    if not found:
        raise Unsupported("no method could explain this model.")
    return found


def _asked_for(explanation: Explanation, ask: _Ask) -> bool:
    """The head grid is computed for every page, but printed only if it was asked for."""
    from heedful.methods import METHODS

    return (
        ask.every or explanation.method != "attention-weights" or explanation.method in map(METHODS.name, ask.methods)
    )


def _explain_lines(classifier: Classifier, lines: Sequence[str], pair: str | None, ask: _Ask) -> None:
    from tqdm.auto import tqdm

    from heedful.explaining import explain_all

    texts = lines if pair is None else [(line, pair) for line in lines]
    rows = explain_all(
        classifier, texts, _methods(ask), _target(ask), ask.seed, truncate=ask.truncate, windows=ask.windows
    )
    for row in tqdm(rows, total=len(lines), desc="explaining", delay=2, disable=None, leave=False):
        for explanation in row:
            click.echo(explanation.to_json())


def _print(found: Sequence[Explanation], unit: str, as_json: bool) -> None:
    if as_json:
        for explanation in found:
            click.echo(explanation.to_json())
        return
    from rich.console import Console

    from heedful.terminal import show

    show(found, Console(highlight=False), unit)


@contextmanager
def _output(path: str | None) -> Iterator[Path | None]:
    """A file beside the wanted one, moved there when all went well: nothing half-written is left behind."""
    if path is None:
        yield None
        return
    target = Path(path)
    if target.is_dir():
        raise BadInput(f"'{path}' is a folder; give a file name for the page.")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".heedful-", suffix=".part")
        os.close(handle)
    except OSError as e:
        raise BadInput(f"'{path}' cannot be written ({e.strerror}); choose another file.") from e
    part = Path(name)
    try:
        yield part
        part.chmod(0o644)
        part.replace(target)
    except OSError as e:
        raise BadInput(f"'{path}' cannot be written ({e.strerror}); choose another file.") from e
    finally:
        part.unlink(missing_ok=True)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def methods(as_json: bool) -> None:
    """List the methods with one line and the paper."""
    import json

    from heedful.methods import METHODS, settings

    rows = [
        {"name": n, "summary": getattr(c, "summary", ""), "paper": getattr(c, "paper", ""), "settings": settings(c)}
        for n, c in METHODS.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, default=str))
        return
    width, wide = (max(len(str(row[key])) for row in rows) for key in ("name", "summary"))
    for row in rows:
        click.echo(f"{row['name']:<{width}}  {row['summary']:<{wide}}  {row['paper']}")
