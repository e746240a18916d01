"""Columns: which column of a table is the text, the pair, the label and the rationale; set, or guessed by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heedful.core.errors import BadInput, nearest

_LONGEST_NAME = 30  # characters of a name in an error message


@dataclass(frozen=True)
class Columns:
    """The name of each column, or its number, from 1: None means guess it from the names, "" means there is none.

    The columns of a text in several parts are separated by commas: "title,description", "2,3".
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    rationale: str | None = None


GUESSED = Columns()
# the first line with a name in the data decides; two names of one line are ambiguous
_NAMES = {
    "text": (
        "text",
        "sentence sentence1 premise question1 review content document comment tweet body passage utterance phrase "
        "message sms description text_a text1 review_text comment_text #1_string",
        "question query headline title",
    ),
    "pair": ("text_pair pair", "sentence2 hypothesis question2 text_b text2 #2_string", "question query aspect"),
    "label": (
        "label labels",
        "class classes target category sentiment gold_label is_duplicate quality polarity classification topic emotion "
        "intent stars rating class_index",
    ),
    "rationale": ("rationale_characters", "rationale rationales"),
}
_PAIR_NAMES = {"text": ("source", "text"), "label": ("target", "label")}  # of parallel data, the first one first
_KNOWN = {name for tiers in _NAMES.values() for tier in tiers for name in tier.split()}
_COUPLES = (("question", "sentence"), ("question", "passage"))  # QNLI and BoolQ put the question first


def names_a_column(names: Sequence[str], columns: Columns) -> bool:
    """Whether these could be column names: one is known, or is in `columns`."""
    # subtle: a row that begins with the number of its class is no header, even if its title is "Review"
    if names[0].strip().isdecimal() and not all(name.strip().isdecimal() for name in names):
        return False
    chosen = set(_chosen(columns))
    return any(_plain(name) in _KNOWN or name.strip() in chosen for name in names)


def numbers_a_column(columns: Columns) -> bool:
    """Whether a column is chosen by its number."""
    return any(name.isdecimal() for name in _chosen(columns))


def _chosen(columns: Columns) -> list[str]:
    texts = [columns.text or "", *parts_of(columns.text)]
    return [name for name in (*texts, columns.pair, columns.label, columns.rationale) if name]


def parts_of(text: str | None) -> list[str]:
    """The columns of a text, in their order: parts_of("2, 3") -> ["2", "3"]."""
    return [name.strip() for name in text.split(",")] if text else []


def name_list(names: Iterable[object]) -> str:
    """Names for an error message, truncated if they are many or long."""
    short = [text if len(text := str(name)) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…" for name in names]
    return "found: " + ", ".join(short[:12]) + (", …" if len(short) > 12 else "")


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().casefold())


def is_gold_label(name: str | None) -> bool:
    """Whether a column is the gold label of SNLI and MNLI, in which "-" says that the annotators did not agree."""
    return name is not None and _plain(name) == "gold_label"


def resolve(names: Sequence[str], columns: Columns, where: str) -> Columns:
    """The columns of a row: those that are set, and the others guessed from the names."""
    columns = Columns(*(_by_number(names, getattr(columns, what)) for what in _NAMES))
    by_plain = {_plain(name): name for name in names}
    couple = next((c for c in _COUPLES if set(c) <= set(by_plain) and "text" not in by_plain), None)
    if couple is not None and columns.text is None and columns.pair is None:
        columns = Columns(by_plain[couple[0]], by_plain[couple[1]], columns.label, columns.rationale)
    several = [] if columns.text is None or columns.text in names else parts_of(columns.text)
    text = columns.text if len(several) > 1 else _column("text", by_plain, columns.text, where)
    if text is None:
        found = f"no column of {where} looks like the text ({name_list(names)})"
        raise BadInput(f"{found}; choose it, or several to join, with --text-column.")
    for part in several if len(several) > 1 else [text]:
        by_plain.pop(_plain(_column("text", by_plain, part, where) or ""), None)
    return Columns(text, *(_column(w, by_plain, getattr(columns, w), where) for w in ("pair", "label", "rationale")))


def resolve_pair(names: Sequence[str], columns: Columns, where: str, labelled: bool = False) -> Columns:
    """The columns of a row of parallel data: the source as `text`, the target as `label`.

    They are called source and target; where a row is known to be a pair (`labelled`), also text and label.
    """
    by_plain = {_plain(name): name for name in names}
    places = []
    for what, known in _PAIR_NAMES.items():
        chosen = _by_number(names, getattr(columns, what))
        likely = (by_plain[name] for name in known[: 1 + labelled] if name in by_plain)
        place = next(likely, None) if chosen is None else chosen
        if place not in names:
            lacking = f"'{chosen}'" if chosen else f"for the {known[0]}"
            found = f"{where} has no column {lacking} ({name_list(names)})"
            raise BadInput(f"{found}; name it {known[0]}, or choose it with --{what}-column.")
        places.append(place)
    return Columns(text=places[0], label=places[1])


def _by_number(names: Sequence[str], chosen: str | None) -> str | None:
    """The columns that are chosen, each by name; a number is a place if no column has that name."""
    if chosen is None or chosen in names:
        return chosen
    places = {str(i): name for i, name in enumerate(names, 1)}
    return ",".join(part if part in names else places.get(part, part) for part in parts_of(chosen))


def _column(what: str, by_plain: Mapping[str, str], chosen: str | None, where: str) -> str | None:
    if chosen is not None:
        if chosen and chosen not in by_plain.values():
            hint = nearest(chosen, tuple(by_plain.values())) or f"; check --{what}-column."
            raise BadInput(f"{where} has no column '{chosen}' ({name_list(by_plain.values())}){hint}")
        return chosen or None
    for tier in _NAMES[what]:
        candidates = [by_plain[name] for name in tier.split() if name in by_plain]
        if len(candidates) > 1:
            several = f"{len(candidates)} columns of {where} could be the {what} ({', '.join(candidates)})"
            raise BadInput(f"{several}; name one with --{what}-column.")
        if candidates:
            return candidates[0]
    return None


def check_same(first: Columns, other: Columns, where: str) -> None:
    """Refuse a row without the text, pair or label that the first row has; a rationale may be missing."""
    for what in ("text", "pair", "label"):
        before, now = getattr(first, what), getattr(other, what)
        if before != now:
            difference = f"has no '{before}'" if before is not None else f"has the {what} '{now}'"
            raise BadInput(f"{where} {difference}, unlike the rows before it; correct the row or name the column.")
