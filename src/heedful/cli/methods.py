"""heedful methods: which methods there are, and what each can be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from heedful.cli import options as opt

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from heedful.audits.capabilities import Ability, Capabilities


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def methods(name: str | None, as_json: bool) -> None:
    """List the methods, or tell all about the method NAME: what it does, its settings, and what they may be."""
    import json

    from heedful.methods import METHODS

    rows = METHODS.rows(name)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, default=str).encode("utf-8"))
        return
    if name is not None:
        click.echo(METHODS.description(name))
        return
    width, wide = (max(len(str(row[key])) for row in rows) for key in ("name", "summary"))
    for row in rows:
        click.echo(f"{row['name']:<{width}}  {row['summary']:<{wide}}  {row['paper']}")


@click.command()
@opt.model_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def capabilities(model: str | None, revision: str | None, device: str | None, dtype: str | None, as_json: bool) -> None:
    """Try every method and every check on a short text: what works on this model, and why the rest does not."""
    from rich.console import Console

    from heedful.audits.capabilities import capabilities as tried
    from heedful.report.progress import progress

    with progress(hidden=as_json) as tell:
        tell("loading")
        classifier = opt.load(model, revision, device, dtype)
        found = tried(classifier, tell)
    if as_json:
        click.echo(found.to_json().encode("utf-8"))
    else:
        show(found, Console(highlight=False))


def show(found: Capabilities, console: Console) -> None:
    """Print the facts, then methods and checks: what works first, then what does not."""
    from rich.text import Text

    from heedful.report.terminal import clean

    console.print(Text(clean(found.model), style="bold"))
    facts = _grid()
    for name, words in found.facts:
        facts.add_row("", Text(clean(name), style="dim"), Text(clean(_short(words, found.model))))
    console.print(facts)
    for kind, abilities in (("methods", found.methods), ("checks", found.checks)):
        works = sum(one.works for one in abilities)
        console.print(Text(f"\n{works} of {len(abilities)} {kind} work", style="bold"))
        console.print(_working(abilities, found.model))
        if works < len(abilities):
            console.print(Text("these do not", style="bold"))
            _failing(abilities, found.model, console)
    told = "Passes are those of the probe text: a method's with its default settings, a check's in a quick audit."
    console.print(Text(f"\n{told}", style="dim"))


def _grid() -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=0)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _working(abilities: Sequence[Ability], model: str) -> Table:
    from rich.text import Text

    from heedful.report.terminal import clean

    table = _grid()
    for one in abilities:
        if one.works:
            words = "; ".join(filter(None, (one.passes, _short(one.reason, model))))
            table.add_row("", Text(clean(one.name)), Text(clean(words)))
    return table


def _failing(abilities: Sequence[Ability], model: str, console: Console) -> None:
    """Each reason once, under the names that share it."""
    from rich.padding import Padding
    from rich.text import Text

    from heedful.report.terminal import clean

    named: dict[str, list[str]] = {}
    for one in abilities:
        if not one.works:
            named.setdefault(_anonymous(one), []).append(one.name)
    for reason, names in named.items():
        console.print(Padding(Text(clean(", ".join(names))), (0, 0, 0, 2)))
        console.print(Padding(Text(clean(_short(reason, model)), style="dim"), (0, 0, 0, 6)))


def _anonymous(one: Ability) -> str:
    """A reason that does not name its method at the start of a clause, so that methods can share it."""
    return re.sub(rf"(?<=[;:] ){re.escape(one.name)}(?= )", "the method", one.reason)


def _short(reason: str, model: str) -> str:
    """A reason without the model's name in front, which is the title already."""
    return re.sub(rf"^{re.escape(model)}(?: \(\w+\))?: ", "", reason)
