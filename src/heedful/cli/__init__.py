"""The command line: error handling of all commands. Each command parses, calls one function, prints."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import traceback
import warnings
from typing import Any

import click

from heedful import __version__
from heedful.cli.audit import audit
from heedful.cli.explain import explain, tree
from heedful.cli.methods import capabilities, checks, methods
from heedful.cli.options import DEVICE, announce_device
from heedful.cli.pick import pick
from heedful.cli.report import compare, report
from heedful.cli.reproduce import reproduce
from heedful.cli.study import studies, study
from heedful.cli.theory import theory
from heedful.cli.train import recipes, train, translate
from heedful.core.errors import HeedfulError

UNEXPECTED = 70  # exit code of an unexpected error (EX_SOFTWARE of sysexits.h)


class _Commands(click.Group):
    """Every error is one sentence on stderr: exit code 2 if the user can cause it, 70 if it is unexpected."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                return super().invoke(ctx)
        except HeedfulError as e:
            _say(str(e))
            ctx.exit(2)
        except KeyboardInterrupt:
            _say("stopped.")
            ctx.exit(130)
        except BrokenPipeError:  # `heedful … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as e:
            if ctx.params["debug"]:
                traceback.print_exc()
            else:
                _say(f"unexpected error, {type(e).__name__}: {' '.join(str(e).split())[:300]}; {_stored_traceback()}")
            ctx.exit(UNEXPECTED)


def _say(sentence: str) -> None:
    from heedful.report.terminal import clean

    click.echo(f"heedful: {clean(sentence)}", err=True)


def _stored_traceback() -> str:
    """Stores the traceback of the current error; returns where it is."""
    system = f"heedful {__version__}, Python {sys.version.split()[0]}, {sys.platform}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", errors="replace", prefix="heedful-error-", suffix=".txt", delete=False
        ) as file:
            file.write(f"{system}\n{' '.join(sys.argv)}\n\n{traceback.format_exc()}")
    except OSError:
        return "`heedful --debug …` prints the traceback."
    return f"the traceback is in {file.name}."


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Print warnings of heedful as a sentence, and none of libraries, which are for developers."""
    if category is UserWarning:
        _say(str(message))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
@click.option("--debug", is_flag=True, help="Print the traceback of an unexpected error.")
def main(debug: bool) -> None:
    """Why did the text classifier say that, and which of those explanations deserve to be heeded?"""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # ? for characters that the terminal's encoding lacks


@main.result_callback()
@click.pass_context
def _announce_device(ctx: click.Context, *_: Any, **__: Any) -> None:
    """After a command that did not fail."""
    announce_device(ctx.meta.get(DEVICE), works=True)


_COMMANDS = (
    explain, pick, audit, study, reproduce, report, compare, tree, theory, methods, checks, studies, capabilities,
    train, recipes, translate,
)  # fmt: skip
for command in _COMMANDS:
    main.add_command(command)
