"""Progress: one line on stderr that shows what is being done, how far it is, and the time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from heedful.report.terminal import clean

WAIT_SECONDS = 2.0  # before the line appears
_BAR_WIDTH = 12  # columns


class Show(Protocol):
    """Shows what is done next. `done` is a number, or a function that counts while the work goes on."""

    def __call__(
        self,
        doing: str,
        done: float | Callable[[], float] | None = None,
        total: float | None = None,
        unit: str = "",
        extra: str = "",
    ) -> None:
        """With a unit, the count is written beside the bar: "120 of 1,000 passes". `extra` is text after it."""
        ...


class _Line(Progress):
    """A line that asks for the count each time it is drawn: most of the work reports nothing while it runs."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            if task.fields["count"] is not None:
                self.update(task.id, completed=task.fields["count"]())
        yield from super().get_renderables()


class _Bar(BarColumn):
    """A bar, where the total is known."""

    def render(self, task: Task) -> RenderableType:  # type: ignore[override]
        return super().render(task) if task.total else Text()


class _Count(ProgressColumn):
    """How much is done, in its unit, and what else the caller says."""

    max_refresh = None

    def render(self, task: Task) -> Text:
        unit, extra = task.fields["unit"], task.fields["extra"]
        of = f" of {task.total:,.0f}" if task.total else ""
        count = f"{task.completed:,.0f}{of} {unit}" if unit and (task.total or task.completed) else ""
        return Text("  ".join(part for part in (count, extra) if part), no_wrap=True)


class _Remaining(TimeRemainingColumn):
    """The time left, once something is done of a known total."""

    def render(self, task: Task) -> Text:
        known = task.total and task.time_remaining is not None
        return Text("left: ").append_text(super().render(task)) if known else Text()


def progress_line(console: Console) -> Progress:
    """The line itself, not yet started, with one task."""
    doing = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = SpinnerColumn(), doing, _Bar(_BAR_WIDTH), _Count(), TimeElapsedColumn(), _Remaining()
    # subtle: rich would also catch what is printed to stdout meanwhile, and send it to stderr
    progress = _Line(*columns, console=console, transient=True, redirect_stdout=False)
    progress.add_task("starting", total=None, count=None, unit="", extra="")
    return progress


@contextmanager
def progress(hidden: bool = False, wait: float = WAIT_SECONDS) -> Iterator[Show]:
    """A function that shows what is done next, on a line of stderr that appears after `wait` seconds.

    Nothing is shown where stderr is not a terminal. A thread keeps the line moving: one method can take a minute.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda doing, done=None, total=None, unit="", extra="": None
        return
    shown = progress_line(Console(stderr=True))
    task = shown.task_ids[0]

    def show(
        doing: str,
        done: float | Callable[[], float] | None = None,
        total: float | None = None,
        unit: str = "",
        extra: str = "",
    ) -> None:
        count = done if callable(done) else None
        completed = 0.0 if done is None or callable(done) else done
        if total is None:
            shown.tasks[0].total = None  # subtle: update() takes None to mean that the total stays
        shown.update(
            task, description=clean(doing), completed=completed, total=total, count=count, unit=unit, extra=clean(extra)
        )

    timer = Timer(wait, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield show
    finally:
        timer.cancel()
        timer.join()
        shown.stop()
