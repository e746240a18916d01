"""Removal: a text without some of its words, and the prediction without them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
from matplotlib.lines import Line2D

from heedful.core.explanation import Counterfactual
from heedful.report.figures.sheet import ACCENT, AGAINST, INK, LINE, MARGIN_INCHES, SOFT, Sheet
from heedful.report.phrases import certainty, details, outcome
from heedful.report.text_runs import text_runs

_WIDE, _ROW, _BAR = 7.4, 0.27, 0.34
MAX_LABELS = 6  # probabilities shown, the largest first


@dataclass(frozen=True)
class RemovalPart:
    """The text with the removed words struck out, and the probabilities before and after."""

    why: Counterfactual
    width = _WIDE

    def _words(self) -> list[list[tuple[str, bool, bool]]]:
        """The words of each text, whether they were removed, and whether a space precedes them."""
        removed = set(self.why.removed)
        view, groups = self.why.tokens.by("word")
        return [
            [
                (view.surface(run.unit), bool(removed & set(groups[run.unit])), n > 0 and runs[n - 1].unit is None)
                for n, run in enumerate(runs)
                if run.unit is not None
            ]
            for runs in text_runs(view)
        ]

    def _labels(self) -> list[int]:
        after, before = self.why.outcome.probabilities, self.why.prediction.probabilities
        if after is None or before is None:
            return []
        return sorted(range(len(before)), key=lambda i: -max(before[i], after[i]))[:MAX_LABELS]

    def _notes(self) -> list[str]:
        facts = [f"removed by: {self.why.masking}", details(self.why.details)]
        return [f"{outcome(self.why)}; {certainty(self.why)}", "; ".join(fact for fact in facts if fact)]

    def texts(self) -> list[str]:
        """Words, names and notes."""
        words = [word for text in self._words() for word, *_ in text]
        return [*words, *self.why.prediction.labels, self.why.method, *self._notes()]

    def height(self, sheet: Sheet) -> float:
        """Lines of text, notes, and two bars for each label."""
        notes = sum(len(sheet.fitted(note, _WIDE, sheet.style(8.5))) for note in self._notes())
        return 0.32 + self._text(sheet, 0, probe=True) + 0.1 + notes * 0.18 + 0.15 + len(self._labels()) * _BAR

    def paint(self, sheet: Sheet, top: float) -> None:
        """Text, notes, bars."""
        sheet.write(MARGIN_INCHES, top, self.why.method or "counterfactual", sheet.style(9, bold=True))
        top += 0.32
        top += self._text(sheet, top) + 0.1
        for note in self._notes():
            for line in sheet.fitted(note, _WIDE, sheet.style(8.5)):
                sheet.write(MARGIN_INCHES, top, line, sheet.style(8.5, SOFT))
                top += 0.18
        if self._labels():
            self._bars(sheet, top + 0.15)

    def _text(self, sheet: Sheet, top: float, probe: bool = False) -> float:
        """Write the words line by line, right to left if the text begins so; returns their height."""
        plain, space = sheet.style(11), 0.055
        start = top
        for words in self._words():
            at, leftwards = 0.0, _leftwards("".join(word for word, *_ in words))
            for word, cut, spaced in words:
                wide = sheet.width_of(word, plain)
                at += space if spaced and at else 0.0
                if at and at + wide > _WIDE:
                    at, top = 0.0, top + _ROW
                if not probe:
                    left = MARGIN_INCHES + (_WIDE - at - wide if leftwards else at)
                    self._word(sheet, left, top + 0.15, word, wide if cut else 0.0)
                at += wide + 0.01
            top += _ROW * bool(words)
        return top - start

    def _word(self, sheet: Sheet, left: float, baseline: float, word: str, struck: float) -> None:
        written = sheet.write(left, baseline, word, sheet.style(11, AGAINST if struck else INK))
        written.set_verticalalignment("baseline")
        w, h = sheet.figure.get_size_inches()
        if struck:
            x, y = np.array([left, left + struck]) / w, np.full(2, 1 - (baseline - 0.042) / h)
            sheet.figure.add_artist(Line2D(x, y, color=AGAINST, linewidth=1.3))

    def _bars(self, sheet: Sheet, top: float) -> None:
        labels, names = self._labels(), self.why.prediction.labels
        before, after = self.why.prediction.probabilities, self.why.outcome.probabilities
        assert before is not None
        assert after is not None
        room = min(2.4, 0.3 + max(sheet.width_of(sheet.letters.safe(names[i], 24)) for i in labels))
        axes = sheet.axes(MARGIN_INCHES + room, top, _WIDE - room - 1.2, _BAR * len(labels))
        at = np.arange(len(labels))
        for shift, chances, colour, name in ((-0.2, before, LINE, "before"), (0.2, after, ACCENT, "after")):
            axes.barh(at + shift, [chances[i] for i in labels], 0.36, color=colour)
            for y, i in zip(at, labels, strict=True):
                axes.text(chances[i] + 0.01, y + shift, f"{chances[i]:.3f} {name}", va="center", **sheet.style(7, SOFT))
        axes.set_xlim(0, 1)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xticks([])
        axes.set_yticks(at)
        axes.set_yticklabels([sheet.letters.safe(names[i], 24) for i in labels], **sheet.style(9))
        axes.axvline(0, color=SOFT, linewidth=0.7)


def _leftwards(text: str) -> bool:
    """Whether the first character with a direction is right to left."""
    return next((d != "L" for c in text if (d := unicodedata.bidirectional(c)) in ("L", "R", "AL")), False)
