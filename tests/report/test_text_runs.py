"""A text with what stands between its units."""

from __future__ import annotations

import pytest

from heedful.core.tokens import Tokens
from heedful.report.text_runs import TextRun, text_runs
from tests.support.models import EVERY, TEXTS, shared


def tokens(text: str, spans: list[tuple[int, int] | None]) -> Tokens:
    pieces = tuple("<s>" if span is None else text[slice(*span)] or "?" for span in spans)
    segments = tuple(None if span is None else 0 for span in spans)
    return Tokens(text, None, (), pieces, tuple(spans), (None,) * len(spans), segments)


def test_characters_between_units_belong_to_none() -> None:
    assert text_runs(tokens("a  b!", [(0, 1), (3, 4)])) == [
        [TextRun("a", 0, 0), TextRun("  ", 1), TextRun("b", 3, 1), TextRun("!", 4)]
    ]


def test_a_unit_whose_characters_another_one_has_is_empty() -> None:
    assert text_runs(tokens("ab", [(0, 2), (0, 2)]))[0] == [TextRun("ab", 0, 0), TextRun("", 2, 1)]


def test_special_tokens_stand_where_they_were_only_if_asked_for() -> None:
    cut = tokens("ab", [None, (0, 2), None])
    assert [run.unit for run in text_runs(cut)[0]] == [1]
    assert [run.unit for run in text_runs(cut, {2})[0]] == [1, 2]


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
def test_the_runs_join_to_the_texts_as_written(family: str, unit: str) -> None:
    text, pair = " 👩‍👧 Cafe\u0301,  naïve\t映画! ", TEXTS[0]
    view = shared(family).tokens(text, pair).by(unit)[0]
    assert ["".join(run.text for run in runs) for runs in text_runs(view)] == [text, pair]
