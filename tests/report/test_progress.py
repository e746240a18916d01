"""The line that shows progress, drawn once."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from rich.console import Console

from heedful.report import progress as module
from heedful.report.progress import progress, progress_line


def drawn(monkeypatch: pytest.MonkeyPatch, *args: Any) -> str:
    """The line after show(*args)."""
    console = Console(file=io.StringIO(), width=120)
    made = progress_line(console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(module, "progress_line", lambda _: made)
    with progress(wait=1000) as show:
        show(*args)
        console.print(made.get_renderable())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("lime", lambda: 120, 1000, "passes"), "120 of 1,000 passes"),
        (("lime", lambda: 7, None, "passes"), " 7 passes"),
        (("explaining", 3, 9, "lines"), "3 of 9 lines"),
        (("epoch 1", 1, 4, "", "loss 0.5"), "loss 0.5"),
        (("lime", 3, 9, "texts", "", "12 min"), "left: 12 min"),
    ],
)
def test_the_count_stands_beside_what_is_done(monkeypatch: pytest.MonkeyPatch, args: Any, words: str) -> None:
    shown = drawn(monkeypatch, *args)
    assert args[0] in shown
    assert words in shown


def test_without_a_total_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "━" not in drawn(monkeypatch, "loading the model")


def test_the_bar_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, "x", 900, 1000) != drawn(monkeypatch, "x", 100, 1000)


def test_a_remaining_time_that_the_caller_does_not_know_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "left" not in drawn(monkeypatch, "lime", 3, 9, "texts", "", "")


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(wait=0) as show:
        show("loading")
    assert capsys.readouterr().err == ""
