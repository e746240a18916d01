"""heedful methods: which methods there are, and what each can be told."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def methods(name: str | None, as_json: bool) -> None:
    """List the methods, or tell all about the method NAME: what it does, its settings, and what they may be."""
    import json

    from heedful.methods import choosing

    rows = choosing.listed(name)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, default=str).encode("utf-8"))
        return
    if name is not None:
        click.echo(choosing.told(name))
        return
    width, wide = (max(len(str(row[key])) for row in rows) for key in ("name", "summary"))
    for row in rows:
        click.echo(f"{row['name']:<{width}}  {row['summary']:<{wide}}  {row['paper']}")
