"""`heedful …` in a process of its own: one that can be killed, interrupted, and read through a pipe or a terminal.

A copy of the process that runs the tests has imported everything; a new Python takes five CPU seconds to do so.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import torch

from heedful.checks import CHECKS
from heedful.cli import main
from heedful.methods import METHODS
from heedful.nets.training.recipes import RECIPES
from tests.support.patience import PATIENCE_SECONDS

OPEN_FILES = 4096  # no more are open in a process of tests


@dataclass
class Running:
    """A process that was started, and the other ends of its stdout and stderr."""

    pid: int
    stdout: IO[bytes]
    stderr: IO[bytes]
    code: int | None = None

    def wait(self) -> int:
        """The exit code; a signal that ended the process is a negative number."""
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


@contextmanager
def command(
    args: Sequence[str],
    env: Mapping[str, str] | None = None,
    terminal: int | None = None,
    new: bool = False,
    before: Callable[[], object] = lambda: None,
) -> Iterator[Running]:
    """`heedful args`; killed on leaving. PYTHONPATH of `env` is heeded.

    stderr is `terminal`, or else a pipe. Without `new` the process is a copy of this one, in which `before` is called
    first.
    """
    out, err = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork where there are threads: the copy uses none
        pid = os.fork()
    if pid == 0:
        _run([*args], os.environ | dict(env or {}), out[1], err[1] if terminal is None else terminal, new, before)
    os.close(out[1])
    os.close(err[1])
    with os.fdopen(out[0], "rb") as stdout, os.fdopen(err[0], "rb") as stderr:
        running = Running(pid, stdout, stderr)
        try:
            yield running
        finally:
            if running.code is None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # whatever went wrong, do not wait for it
                running.wait()


def dies_at(pattern: str, count: int = 1) -> Callable[[], None]:
    """For `before` of a command: it is killed when its `count`-th file that matches is written, not yet in its place.

    A test that watches a process and kills it from outside may be too late, and then waits for ever.
    """

    def prepare() -> None:
        move, left = Path.replace, count

        def replace(part: Path, target: Path) -> Path:
            nonlocal left
            left -= target.match(pattern)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return move(part, target)

        Path.replace = replace  # type: ignore[assignment, method-assign]

    return prepare


def _run(
    args: list[str], env: Mapping[str, str], stdout: int, stderr: int, new: bool, before: Callable[[], object]
) -> NoReturn:
    """What the child does; it never returns."""
    # the kernel ends a process that waits for ever, also after execve; what reads its pipes then comes to their end
    signal.alarm(PATIENCE_SECONDS)
    code: Any = 1
    try:
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        # subtle: a job that a shell started in the background ignores Ctrl-C, and so would its children
        signal.signal(signal.SIGINT, signal.SIG_DFL if new else signal.default_int_handler)
        if new:
            script = "from heedful.cli import main; main(prog_name='heedful')"
            os.execve(sys.executable, [sys.executable, "-W", "error::ResourceWarning", "-c", script, *args], env)
        _as_new(env)
        before()
        main(args, prog_name="heedful")
    except SystemExit as e:
        code = e.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:  # as Python does at its end
            sys.stdout.flush()
        except OSError:
            traceback.print_exc()
            code = 120
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _as_new(env: Mapping[str, str]) -> None:
    """Let a copy of this process forget that it was one of pytest."""
    os.closerange(3, OPEN_FILES)  # subtle: a pipe breaks when the last copy of its other end is closed
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    logging.getLogger().handlers.clear()
    gc.callbacks.clear()  # hypothesis's, in which an interrupt would be lost
    # subtle: after a fork, torch makes its pool of threads anew where it is first asked for; of the threads with which
    # transformers loads a model, the second to ask at that moment is given none, and fails
    torch.set_num_threads(torch.get_num_threads())
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", ResourceWarning)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = env.get("PYTHONPATH", "").split(os.pathsep)
    importlib.invalidate_caches()
    for catalogue in (METHODS, CHECKS, RECIPES):  # other packages may have been added
        for remembered in ("_entries", "_aliases"):
            vars(catalogue).pop(remembered, None)
