"""Bars: the scores of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from heedful.core.explanation import Attribution
from heedful.core.tokens import Tokens
from heedful.report.figures.sheet import AGAINST, FOR, INK, LINE, LINE_HEIGHT, MARGIN_INCHES, SOFT, WEIGHT, Sheet
from heedful.report.phrases import details, format_number

MAX_WORDS = 40  # of a long text, the strongest
MAX_LETTERS = 22  # letters of a word
_ROW, _PANEL, _GAP = 0.2, 2.15, 0.28


@dataclass(frozen=True)
class Bars:
    """Methods side by side: a bar for each word in reading order, with whiskers of one standard error."""

    shown: tuple[int, ...]
    whys: tuple[Attribution, ...]

    @classmethod
    def of(cls, every: Sequence[Attribution], whys: Sequence[Attribution]) -> Bars:
        """The strongest words of all methods in `every`, so that all rows of panels show the same words."""
        content = every[0].tokens.content
        peak = np.max([np.abs(why.strengths()) for why in every], axis=0)
        strongest = sorted(content, key=lambda i: -peak[i])[:MAX_WORDS]
        return cls(tuple(sorted(strongest)), tuple(whys))

    @property
    def tokens(self) -> Tokens:
        """The words."""
        return self.whys[0].tokens

    @property
    def width(self) -> float:
        """Room for the words, and for each panel; a single panel is wide."""
        return self._words + (4.2 if len(self.whys) == 1 else len(self.whys) * (_PANEL + _GAP))

    @property
    def _words(self) -> float:
        # subtle: wide characters (CJK) take two places
        places = max(sum(2 if ord(c) > 0x2E80 else 1 for c in self.tokens.surface(i)[:MAX_LETTERS]) for i in self.shown)
        return 0.25 + 0.085 * places

    def _notes(self) -> list[str]:
        hidden = len(self.tokens.content) - len(self.shown)
        unit = self.tokens.unit
        cut = [f"the {len(self.shown)} strongest of {len(self.tokens.content)} {unit}s"] if hidden else []
        facts = [f"{why.method}: {line}" for why in self.whys if (line := details(why.details))]
        whiskers = ["whiskers: one standard error"] if any(why.errors is not None for why in self.whys) else []
        return [*cut, *whiskers, *facts]

    def texts(self) -> list[str]:
        """Words, names and notes."""
        return [*(self.tokens.surface(i) for i in self.shown), *(why.method for why in self.whys), *self._notes()]

    def height(self, sheet: Sheet) -> float:
        """A row for each word, the names above, the scale and the notes below."""
        return 0.3 + _ROW * len(self.shown) + 0.5 + LINE_HEIGHT * len(self._notes())

    def paint(self, sheet: Sheet, top: float) -> None:
        """The panels, from left to right."""
        left = MARGIN_INCHES
        rows = _ROW * len(self.shown)
        panel = (self.width - self._words) / len(self.whys) - (_GAP if len(self.whys) > 1 else 0)
        for n, why in enumerate(self.whys):
            at = left + self._words + n * (panel + _GAP)
            sheet.write(at, top, why.method or "scores", sheet.style(9, bold=True))
            self._panel(sheet.axes(at, top + 0.3, panel, rows), sheet, why, first=n == 0)
        signed = {why.signed for why in self.whys}
        legend = [("■ supports", FOR), ("■ opposes", AGAINST)] if True in signed else []
        legend += [("■ strength without direction", WEIGHT)] if False in signed else []
        sheet.write_legend(left + self._words, top + 0.3 + rows + 0.27, legend, 7.5, 0.18)
        sheet.write_notes(left + self._words, top + 0.3 + rows + 0.46, self._notes())

    def _panel(self, axes: Axes, sheet: Sheet, why: Attribution, first: bool) -> None:
        at = list(self.shown)
        scores, places = why.scores[at], np.arange(len(at))
        colours = [WEIGHT if not why.signed else AGAINST if s < 0 else FOR for s in scores]
        errors = None if why.errors is None else why.errors[at]
        axes.barh(
            places, scores, 0.72, color=colours, xerr=errors,
            error_kw={"elinewidth": 0.8, "ecolor": INK, "capsize": 1.8, "capthick": 0.8},
        )  # fmt: skip
        axes.axvline(0, color=SOFT, linewidth=0.7)
        axes.set_ylim(len(at) - 0.5, -0.5)
        axes.set_yticks(places)
        words = [sheet.letters.safe(why.tokens.surface(i), MAX_LETTERS) for i in at] if first else [""] * len(at)
        axes.set_yticklabels(words, **sheet.style(9))
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_number(x, ".4g")))
        axes.grid(axis="x", color=LINE, linewidth=0.5)
        axes.set_axisbelow(True)
