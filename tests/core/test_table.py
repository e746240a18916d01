"""Rows as aligned lines."""

from __future__ import annotations

from heedful.core.table import align_columns


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert align_columns([("a", "1"), ("long", "1,000")], right=[1]) == "a         1\nlong  1,000"


def test_wide_letters_take_two_places() -> None:
    assert align_columns([("映画", "x"), ("film", "y")]) == "映画  x\nfilm  y"


def test_lines_may_be_indented_and_have_no_space_at_their_end() -> None:
    assert align_columns([("a", "b"), ("c", "")], indent="  ") == "  a  b\n  c"


def test_no_rows_are_no_lines() -> None:
    assert align_columns([]) == ""
