"""Progress: one line on stderr with the current step, how far it is, and the time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

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


class _Line(Progress):
    """A line that reads the count each time it is drawn: most steps report nothing while they run."""

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
    """How much is done, in its unit, and the caller's extra text."""

    max_refresh = None

    def render(self, task: Task) -> Text:
        unit, extra = task.fields["unit"], task.fields["extra"]
        of = f" of {task.total:,.0f}" if task.total else ""
        count = f"{task.completed:,.0f}{of} {unit}" if unit and (task.total or task.completed) else ""
        return Text("  ".join(part for part in (count, extra) if part), no_wrap=True)


class _Remaining(TimeRemainingColumn):
    """The remaining time that the caller gave; otherwise, once part of a known total is done, one from its speed."""

    def render(self, task: Task) -> Text:
        if task.fields["left"] is not None:
            return Text(task.fields["left"] and f"left: {task.fields['left']}")
        known = task.total and task.time_remaining is not None
        return Text("left: ").append_text(super().render(task)) if known else Text()


def progress_line(console: Console) -> Progress:
    """The line itself, not yet started, with one task."""
    doing = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = SpinnerColumn(), doing, _Bar(_BAR_WIDTH), _Count(), TimeElapsedColumn(), _Remaining()
    # subtle: rich would also redirect what is printed to stdout meanwhile to stderr
    line = _Line(*columns, console=console, transient=True, redirect_stdout=False)
    line.add_task("starting", total=None, count=None, unit="", extra="", left=None)
    return line


@dataclass(frozen=True)
class Show:
    """Shows the current step on a progress line; does nothing without a line."""

    line: Progress | None = None

    def __call__(
        self,
        doing: str,
        done: float | Callable[[], float] | None = None,
        total: float | None = None,
        unit: str = "",
        extra: str = "",
        left: str | None = None,
    ) -> None:
        """`done` is a number, or a function that counts while the step runs.

        With a unit, the count is written beside the bar: "120 of 1,000 passes". `extra` is text after it. `left` is the
        remaining time, "" while it is unknown; None estimates it from the last half minute.
        """
        if self.line is None:
            return
        count = done if callable(done) else None
        completed = 0.0 if done is None or callable(done) else done
        if total is None:
            self.line.tasks[0].total = None  # subtle: update() takes None to mean that the total stays
        task, doing, extra = self.line.task_ids[0], clean(doing), clean(extra)
        self.line.update(
            task, description=doing, completed=completed, total=total, count=count, unit=unit, extra=extra, left=left
        )


@contextmanager
def progress(hidden: bool = False, wait: float = WAIT_SECONDS) -> Iterator[Show]:
    """A function that shows the current step, on a line of stderr that appears after `wait` seconds.

    Nothing is shown where stderr is not a terminal. A thread redraws the line: one method can take a minute.
    """
    if hidden or not sys.stderr.isatty():
        yield Show()
        return
    line = progress_line(Console(stderr=True))
    timer = Timer(wait, line.start)
    timer.daemon = True
    timer.start()
    try:
        yield Show(line)
    finally:
        timer.cancel()
        timer.join()
        line.stop()
