"""heedful methods, heedful checks and heedful capabilities: what is available, and what works on a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from heedful.cli import options as opt

if TYPE_CHECKING:
    from rich.console import Console

    from heedful.audits.capabilities import Ability, Capabilities
    from heedful.core.catalogue import Catalogue


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def methods(name: str | None, as_json: bool) -> None:
    """List the methods, or describe the method NAME and its settings."""
    from heedful.methods import METHODS

    list_catalogue(METHODS, name, as_json)


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def checks(name: str | None, as_json: bool) -> None:
    """List the checks, or describe the check NAME: what it changes, what it measures, and its settings."""
    from heedful.checks import CHECKS

    list_catalogue(CHECKS, name, as_json)
    if name is not None and not as_json:
        click.echo(measures_text(CHECKS[name]))


def measures_text(item: Any) -> str:
    """What a check or a study changes, and what it measures."""
    from heedful.core.table import align_columns

    better = {None: "", "higher": " (higher is better)", "lower": " (lower is better)"}
    measures = [(f"  {key}", f"{m.says}{better[m.better]}") for key, m in item.measures.items()]
    return f"\nwhat is changed: {item.changes}\n\nmeasures:\n{align_columns(measures)}"


def list_catalogue(catalogue: Catalogue, name: str | None, as_json: bool) -> None:
    """All entries of a catalogue in columns, or one in full; as JSON, a list in any case."""
    from heedful.core.table import align_columns

    if as_json:
        click.echo(json.dumps(catalogue.rows(name), ensure_ascii=False, default=str).encode("utf-8"))
    elif name is not None:
        click.echo(catalogue.description(name))
    else:
        click.echo(align_columns([[str(row[key]) for key in ("name", "summary", "paper")] for row in catalogue.rows()]))


@click.command()
@opt.model_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def capabilities(model: str | None, revision: str | None, device: str, dtype: str | None, as_json: bool) -> None:
    """Try every method and every check on a short text: what works on this model, and why the rest does not."""
    from rich.console import Console

    from heedful.audits.capabilities import capabilities as probe
    from heedful.report.progress import progress

    with progress(hidden=as_json) as show:
        show("loading the model")
        result = probe(opt.load_model(model, revision, device, dtype), show)
    if as_json:
        click.echo(result.to_json().encode("utf-8"))
    else:
        show_capabilities(result, Console(highlight=False))


def show_capabilities(result: Capabilities, console: Console) -> None:
    """Print the facts, then methods and checks: those that work first, then the others by reason."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from heedful.report.terminal import clean

    def columns(rows: Iterable[tuple[str, str]], style: str) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=0)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, words in rows:
            table.add_row("", Text(clean(name), style=style), Text(clean(words)))
        return table

    console.print(Text(clean(result.model), style="bold"))
    console.print(columns(((name, _short(words, result.model)) for name, words in result.facts), "dim"))
    for kind, abilities in (("methods", result.methods), ("checks", result.checks)):
        working = [ability for ability in abilities if ability.works]
        console.print(Text(f"\n{len(working)} of {len(abilities)} {kind} work", style="bold"))
        rows = [(a.name, "; ".join(filter(None, (a.passes, _short(a.reason, result.model))))) for a in working]
        console.print(columns(rows, ""))
        if len(working) < len(abilities):
            console.print(Text(f"{len(abilities) - len(working)} do not work", style="bold"))
        by_reason: dict[str, list[str]] = {}
        for ability in abilities:
            if not ability.works:
                by_reason.setdefault(_anonymous(ability), []).append(ability.name)
        for reason, names in by_reason.items():
            console.print(Padding(Text(clean(", ".join(names))), (0, 0, 0, 2)))
            console.print(Padding(Text(clean(_short(reason, result.model)), style="dim"), (0, 0, 0, 6)))
    note = "Passes are for the short probe text: of methods with default settings, of checks in the profile standard."
    console.print(Text(f"\n{note}", style="dim"))


def _anonymous(ability: Ability) -> str:
    """A reason without the name of its method at the start of a clause, so that methods can share it."""
    return re.sub(rf"(?<=[;:] ){re.escape(ability.name)}(?= )", "the method", ability.reason)


def _short(reason: str, model: str) -> str:
    """A reason without the model's name at its start, which is already the title."""
    return re.sub(rf"^{re.escape(model)}(?: \(\w+\))?: ", "", reason)
