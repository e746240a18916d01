"""The command line: what all commands share. Each command parses, calls one function, prints."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Any

import click

from heedful import __version__
from heedful.cli.audit import audit, checks
from heedful.cli.explain import explain, tree
from heedful.cli.methods import capabilities, methods
from heedful.cli.report import compare, report
from heedful.cli.theory import theory
from heedful.cli.train import recipes, train, translate
from heedful.core.errors import HeedfulError


class _Commands(click.Group):
    """Every error a user can cause is one sentence on stderr and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                return super().invoke(ctx)
        except HeedfulError as e:
            from heedful.report.terminal import clean

            click.echo(f"heedful: {clean(str(e))}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo("heedful: stopped.", err=True)
            ctx.exit(130)
        except BrokenPipeError:  # `heedful … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """A warning of ours is a sentence; those of libraries are for developers."""
    if category is UserWarning:
        click.echo(f"heedful: {message}", err=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Why did the text classifier say that, and which of those explanations deserve to be heeded?"""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the letters shows ? in their place


for command in (
    explain,
    audit,
    report,
    compare,
    tree,
    theory,
    methods,
    checks,
    capabilities,
    train,
    recipes,
    translate,
):
    main.add_command(command)
