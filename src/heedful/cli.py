"""The command line: parse, call one function, print."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
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
            from heedful.terminal import clean

            click.echo(f"heedful: {clean(str(e))}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo("heedful: stopped.", err=True)
            ctx.exit(130)
        except BrokenPipeError:  # `heedful … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Why did the text classifier say that, and which of those explanations deserve to be heeded?"""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the letters shows ? in their place


@dataclass(frozen=True)
class _Ask:
    """What `heedful explain` was asked."""

    methods: tuple[str, ...]
    every: bool
    target: str | None
    against: str | None
    scale: Any
    pair: str | None
    unit: str | None
    how: Any
    html: str | None
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
    help="Units shown. [default: word; in JSON, token]",
)
@click.option(
    "--how",
    type=click.Choice(["sum", "mean", "max"]),
    default="sum",
    show_default=True,
    help="How the scores of a unit's tokens are joined.",
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
    text: str | None, model: str | None, revision: str | None, file: str | None, device: str | None, dtype: str | None,
    as_json: bool, **asked: Any,
) -> None:  # fmt: skip
    """Explain one prediction of TEXT ('-' reads it from stdin)."""
    from heedful.terminal import progress

    ask = _Ask(**asked)
    if (text is None) == (file is None):
        raise BadInput("give one text, or --file with one text per line.")
    if ask.html is not None and file is not None:
        raise BadInput("--html shows one text; leave out --file, or read its JSON lines.")
    lines = None if file is None else _lines(file)
    read = _stdin() if text == "-" else text
    _check(read, ask.pair)
    with _output(ask.html) as write, progress(hidden=lines is not None and sys.stdout.isatty()) as tell:
        tell("loading the model")
        _methods(ask)  # a wrong name is refused before the model is loaded
        classifier = _load(model, revision, device, dtype)
        if lines is not None:
            _explain_lines(classifier, lines, ask, tell)
            return
        assert read is not None
        found = _explain(classifier, read, ask, tell)
        if write is not None:
            from heedful.report import page

            write(page(found))
    _print([e for e in found if _asked_for(e, ask)], ask, as_json)
    if ask.html is not None:
        click.echo(f"wrote {ask.html}", err=True)


def _check(text: str | None, pair: str | None) -> None:
    """Refuse bad text before anything slow."""
    from heedful.tokens import check_text

    if text is not None:
        check_text(text)
    if pair is not None:
        check_text(pair, "pair")


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff").removesuffix("\n")


def _stdin() -> str:
    return _decoded(sys.stdin.buffer.read())


def _lines(file: str) -> list[str]:
    from heedful.tokens import check_text

    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as e:
        raise BadInput(f"'{file}' cannot be read ({e.strerror}).") from e
    if not raw:
        raise BadInput(f"'{file}' is empty; give one text per line.")
    # subtle: splitlines would also cut at U+2028, form feeds and the like, which stand inside texts
    lines = [line.removesuffix("\r") for line in _decoded(raw).split("\n")]
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
    plain = [method(n) for n in names]
    if ask.layer is None:
        return plain
    layered = [n for n in names if "layer" in settings(METHODS[n])]
    if not layered:
        raise BadInput(f"--layer is for attention methods, and {', '.join(names)} has no layer; leave it out.")
    given = {"layer": _layer(ask.layer)}
    return [method(n, given) if n in layered else m for n, m in zip(names, plain, strict=True)]


def _layer(given: str) -> int | str:
    if given == "all":
        return given
    try:
        return int(given)
    except ValueError:
        raise BadInput(f"layer '{given}' is not a number or 'all'.") from None


def _explain(classifier: Classifier, text: str, ask: _Ask, tell: Callable[[str], None]) -> list[Explanation]:
    from heedful.explaining import explain as run
    from heedful.methods import METHODS
    from heedful.methods.attention import AttentionWeights
    from heedful.terminal import clean

    methods = _methods(ask)
    wanted = len(methods)
    if ask.html is not None and not any(isinstance(m, AttentionWeights) for m in methods):
        methods.append(AttentionWeights())  # the page's head grid
    found: list[Explanation] = []
    for i, method in enumerate(methods):
        tell(f"{METHODS.named(method)}, {i + 1} of {len(methods)}")
        try:
            found.append(
                run(
                    classifier, text, method, _target(ask), ask.pair, ask.seed,
                    truncate=ask.truncate, windows=ask.windows,
                )
            )  # fmt: skip
        except Unsupported as e:
            if not ask.every and i < wanted:
                raise
            click.echo(f"left out: {clean(str(e))}", err=True)
    if not found:
        raise Unsupported("no method could explain this model.")
    return found


def _asked_for(explanation: Explanation, ask: _Ask) -> bool:
    """The head grid is computed for every page, but printed only if it was asked for."""
    from heedful.methods import METHODS

    return (
        ask.every or explanation.method != "attention-weights" or explanation.method in map(METHODS.name, ask.methods)
    )


def _explain_lines(classifier: Classifier, lines: Sequence[str], ask: _Ask, tell: Callable[[str], None]) -> None:
    from heedful.explaining import explain_all

    for number, line in enumerate(lines, 1):
        try:
            classifier.tokens(line, ask.pair)
        except BadInput as e:
            raise BadInput(f"line {number}: {e}") from e
    texts = lines if ask.pair is None else [(line, ask.pair) for line in lines]
    rows = explain_all(
        classifier, texts, _methods(ask), _target(ask), ask.seed, truncate=ask.truncate, windows=ask.windows
    )
    tell(f"line 1 of {len(lines)}")
    for number, row in enumerate(rows, 1):
        for explanation in row:
            _print_json(explanation, ask)
        tell(f"line {number + 1} of {len(lines)}")


def _print(found: Sequence[Explanation], ask: _Ask, as_json: bool) -> None:
    if as_json:
        for explanation in found:
            _print_json(explanation, ask)
        return
    from rich.console import Console

    from heedful.terminal import show

    show(found, Console(highlight=False), ask.unit or "word", ask.how)


def _print_json(explanation: Explanation, ask: _Ask) -> None:
    from heedful.explanation import Attribution

    view = explanation.by(ask.unit, ask.how) if ask.unit and isinstance(explanation, Attribution) else explanation
    click.echo(view.to_json().encode("utf-8"))  # JSON is UTF-8 whatever the terminal's encoding


@contextmanager
def _output(path: str | None) -> Iterator[Callable[[str], None] | None]:
    """A function that writes the page beside the wanted file and moves it there: nothing half-written is left behind.

    The file beside it is made at once, so that an unwritable path is refused before anything slow.
    """
    if path is None:
        yield None
        return
    target = Path(path)
    with _writing(path):
        if target.is_dir():
            raise BadInput(f"'{path}' is a folder; give a file name for the page.")
        if target.exists() and not target.is_file():  # /dev/null would be replaced by the page
            raise BadInput(f"'{path}' is not a plain file; give a file name for the page.")
        target = target.resolve()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".heedful-", suffix=".part")
        os.close(handle)
    part = Path(name)

    def write(page: str) -> None:
        with _writing(path):
            part.write_text(page, encoding="utf-8")
            part.chmod(0o644)
            part.replace(target)

    try:
        yield write
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise BadInput(f"'{path}' cannot be written ({e.strerror}); choose another file.") from e


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
        click.echo(json.dumps(rows, ensure_ascii=False, default=str).encode("utf-8"))
        return
    width, wide = (max(len(str(row[key])) for row in rows) for key in ("name", "summary"))
    for row in rows:
        click.echo(f"{row['name']:<{width}}  {row['summary']:<{wide}}  {row['paper']}")
