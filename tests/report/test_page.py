"""The page of an audit: nothing given becomes markup, every number is there, everyone can read it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from heedful.report import page as pages
from heedful.report.document import ColouredWord, Colouring, Column, Document, Figure, Section, Shown, Table
from heedful.report.page import document_page
from heedful.report.phrases import Cell
from heedful.report.phrases import cell as shown

NASTY = """</script></style><img src=x onerror=alert(1)>"q" 'a' & &amp; {{ 7 * 7 }} <!-- 😀 \u202e"""
VOID = {"meta", "link", "input", "img", "br", "hr"}

FIGURE = Figure(
    "tau", "Agreement", '<svg class="chart" viewBox="0 0 9 9" role="img" aria-label="a"></svg>', "a 0.1", "Means."
)
TABLE = Table(
    "all", "All rows", (Column("method"), Column("tau", 3, "Kendall's τ."), Column("n")), (("lime", 0.5, 12),), "All."
)
SHOWN = Shown(
    title="Worst", text=1234, label="positive (98.0%)", gold="negative", note="So it is.",
    colourings=(
        Colouring("attention", (ColouredWord("good", "weight", 0.5, 0.25), ColouredWord("film")), "says positive"),
        Colouring("lime", (ColouredWord("good", "for", 1.0, 2.0), ColouredWord("film", "against", 0.05, -0.1, ""))),
    ),
)  # fmt: skip
SECTION = Section(
    "agreement", "Agreement", "Do methods agree?", ("They do: 0.50 [0.40, 0.60].", "So does lime."),
    (FIGURE,), (TABLE,), (SHOWN,), "With care.", "Jain & Wallace 2019",
)  # fmt: skip
REPORT = Document(
    title="Audit of m", verdict="not explanation", sentences=("Because.", "And because."), facts=(("texts", "12"),),
    answers=(replace(SECTION, name="verdict"),), sections=(SECTION, replace(SECTION, name="words")),
    limits=("Few texts.",), cite="@misc{m}", ran={"model": {"name": "m", "labels": ["a", "b"]}, "seed": 0},
)  # fmt: skip


class Parsed(HTMLParser):
    """What a browser would see: elements with attributes and their own text; it fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self.text = ""
        self._open: list[tuple[str, list[str]]] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own: list[str] = []
        self.elements.append((tag, {k: v or "" for k, v in attrs}, own))
        if tag not in VOID:
            self._open.append((tag, own))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}, []))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, own in self._open:
            own.append(data)
        if not {"script", "style"} & {tag for tag, _ in self._open}:
            self.text += data

    def all(self, tag: str, has: str = "") -> list[tuple[dict[str, str], str]]:
        """Attributes and text of the elements with this tag and class."""
        return [
            (attrs, "".join(own))
            for name, attrs, own in self.elements
            if name == tag and (not has or has in attrs.get("class", "").split())
        ]

    def texts(self, tag: str, has: str = "") -> list[str]:
        return [text for _, text in self.all(tag, has)]


def filled(piece: Any, word: str) -> Any:
    """A piece of the report with every string in it replaced, except what has a fixed set of values."""
    if isinstance(piece, str):
        return word
    if isinstance(piece, tuple):
        return tuple(filled(p, word) for p in piece)
    if isinstance(piece, list):
        return [filled(p, word) for p in piece]
    if isinstance(piece, dict):
        return {filled(k, word) + str(i): filled(v, word) for i, (k, v) in enumerate(piece.items())}
    if is_dataclass(piece) and not isinstance(piece, type):
        kept = {"svg", "tone"}
        return replace(
            piece, **{f.name: filled(getattr(piece, f.name), word) for f in fields(piece) if f.name not in kept}
        )
    return piece


def table(*rows: tuple[Cell, ...], digits: int = 2) -> Table:
    return Table("t", "T", tuple(Column(f"c{i}", digits) for i in range(len(rows[0]))), rows)


def with_table(t: Table) -> Parsed:
    return Parsed(document_page(replace(REPORT, answers=(), sections=(replace(SECTION, tables=(t,)),))))


# what is given stays what it is


def test_nothing_given_becomes_markup() -> None:
    plain, nasty = (Parsed(document_page(filled(REPORT, word))) for word in ("plain", NASTY))
    assert [tag for tag, _, _ in nasty.elements] == [tag for tag, _, _ in plain.elements]
    assert [set(attrs) for _, attrs, _ in nasty.elements] == [set(attrs) for _, attrs, _ in plain.elements]


def test_whatever_is_given_is_shown_as_it_is() -> None:
    plain, nasty = (Parsed(document_page(filled(REPORT, word))).text for word in ("PLAIN", NASTY))
    assert nasty.count(NASTY) == plain.count("PLAIN") > 80


@pytest.mark.parametrize("name", ["", "😀", "a b", 'x" onclick="y', "<", "a" * 3000, "MAIN", "limits"])
def test_ids_are_unique_and_plain_whatever_sections_are_called(name: str) -> None:
    same = replace(SECTION, name=name)
    html = document_page(replace(REPORT, answers=(same, same), sections=(same, replace(same, name=name + "-2"), same)))
    ids = [attrs["id"] for _, attrs, _ in Parsed(html).elements if "id" in attrs]
    assert max(Counter(ids).values()) == 1
    assert all(re.fullmatch("[a-z0-9-]+", i) for i in ids)


def test_every_link_and_label_leads_somewhere() -> None:
    elements = Parsed(document_page(REPORT)).elements
    ids = {attrs["id"] for _, attrs, _ in elements if "id" in attrs}
    to = {attrs["href"][1:] for tag, attrs, _ in elements if tag == "a"}
    named = {attrs["aria-labelledby"] for _, attrs, _ in elements if "aria-labelledby" in attrs}
    assert to | named <= ids
    assert {"main", "section-agreement", "section-words"} <= to


# it asks for nothing


def test_the_page_asks_nothing_of_the_network() -> None:
    html = document_page(REPORT)
    assert not re.search(r"https?:|url\(|@import", html)
    links = [v for _, attrs, _ in Parsed(html).elements for k, v in attrs.items() if k in ("src", "href", "action")]
    assert [link for link in links if not link.startswith("#")] == ["data:,"]


def test_the_policy_lets_only_the_script_of_the_page_run() -> None:
    parsed = Parsed(document_page(filled(REPORT, NASTY)))
    (script,) = parsed.texts("script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [attrs["content"] for attrs, _ in parsed.all("meta") if "http-equiv" in attrs]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert (rules["default-src"], rules["img-src"]) == ("'none'", "data:")


def test_no_element_carries_a_script() -> None:
    assert not [
        a for _, attrs, _ in Parsed(document_page(filled(REPORT, NASTY))).elements for a in attrs if a.startswith("on")
    ]


def test_the_page_is_the_same_each_time() -> None:
    assert document_page(REPORT) == document_page(REPORT)


# everyone can read it


def test_headings_go_down_one_step_at_a_time() -> None:
    levels = [int(tag[1]) for tag, _, _ in Parsed(document_page(REPORT)).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_there_are_landmarks_and_a_way_to_skip_to_them() -> None:
    parsed = Parsed(document_page(REPORT))
    tags = Counter(tag for tag, _, _ in parsed.elements)
    assert [tags[t] for t in ("header", "main", "footer", "nav")] == [1, 1, 1, 1]
    assert parsed.all("a")[0][0]["href"] == "#main"


def test_every_figure_is_also_told_in_words() -> None:
    figures = Parsed(document_page(REPORT)).texts("figure", "figure")
    assert len(figures) == 3
    assert all(FIGURE.alt in text and FIGURE.title in text for text in figures)


def test_what_scrolls_sideways_can_be_reached_by_keys_and_has_a_name() -> None:
    boxes = [attrs for attrs, _ in Parsed(document_page(REPORT)).all("div", "scroll")]
    assert boxes
    assert all((a["tabindex"], a["role"], a["aria-label"]) == ("0", "region", "All rows") for a in boxes)


def test_what_a_column_is_can_be_read_without_pointing_at_it() -> None:
    (says,) = set(Parsed(document_page(REPORT)).texts("dl", "says"))
    assert "tau" in says
    assert "Kendall's τ." in says


def test_scores_of_words_can_be_read_without_pointing_at_them() -> None:
    told = next(text for text in Parsed(document_page(REPORT)).texts("details", "small") if text.startswith("Scores"))
    lines = [" ".join(line.split()) for line in told.splitlines() if line.strip()]
    assert lines[1:] == ["attention good 0.25", "lime good +2 film −0.1"]


def test_only_the_first_sections_are_unfolded() -> None:
    many = tuple(replace(SECTION, name=f"s{i}") for i in range(6))
    folds = [attrs for attrs, _ in Parsed(document_page(replace(REPORT, sections=many))).all("details", "evidence")]
    assert ["open" in attrs for attrs in folds] == [True] * 3 + [False] * 3


def test_answers_stand_before_the_contents_and_sections_behind() -> None:
    html = document_page(REPORT)
    places = [html.index(x) for x in ('id="section-verdict"', "<nav", 'id="section-agreement"', 'id="limits"')]
    assert places == sorted(places)


# the verdict


@pytest.mark.parametrize(
    ("verdict", "said", "tone"),
    [
        ("explanation", "Attention is explanation for this model, on these texts: it may be used as one", "for"),
        (
            "not explanation",
            "Attention is not explanation for this model, on these texts: it should not be used as one",
            "against",
        ),
        (
            "not not explanation",
            "Attention is not\u00a0not explanation for this model, on these texts: "
            "it carries some, but not all, of what decides",
            "weight",
        ),
        ("undecided", "Undecided whether attention explains this model, on these texts", "undecided"),
        ("two models", "Two models", "undecided"),
    ],
)
def test_a_verdict_is_a_statement_with_its_colour(verdict: str, said: str, tone: str) -> None:
    assert Parsed(document_page(replace(REPORT, verdict=verdict))).texts("h2", tone) == [said]


def test_without_a_verdict_there_is_no_statement() -> None:
    assert not Parsed(document_page(replace(REPORT, verdict=""))).all("h2", "verdict")


# numbers


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (None, 2, "–"),
        (float("nan"), 2, "–"),
        (float("inf"), 2, "∞"),
        (float("-inf"), 2, "−∞"),
        (-0.125, 2, "−0.12"),
        (-0.001, 2, "0.00"),
        (-0.6, 0, "−1"),
        (-0.2, 0, "0"),
        (0.1 + 0.2, 4, "0.3000"),
        (1234567, 2, "1,234,567"),
        (-1234.5, 1, "−1,234.5"),
        (-3, 2, "−3"),
        (True, 2, "yes"),
        ("−0.2 [−0.3, −0.1]", 2, "−0.2 [−0.3, −0.1]"),
        ("a-b", 2, "a-b"),
        ("", 2, ""),
        (np.float64(0.5), 1, "0.5"),
        (np.int64(1200), 2, "1,200"),
    ],
)
def test_a_cell_is_written_with_its_digits(value: Cell, digits: int, said: str) -> None:
    assert shown(value, digits) == said


def test_every_number_of_a_table_is_on_the_page_where_it_belongs() -> None:
    values = np.random.default_rng(0).normal(size=(7, 4)) * 1000
    parsed = with_table(table(*((f"m{i}", *row) for i, row in enumerate(values.tolist())), digits=3))
    read = [float(text.replace(",", "").replace("−", "-")) for text in parsed.texts("td")]
    assert np.reshape(read, values.shape) == pytest.approx(values, abs=0.0005)
    assert parsed.texts("th")[5:] == [f"m{i}" for i in range(7)]


@pytest.mark.parametrize(("count", "folded"), [(40, 0), (41, 1), (130, 90)])
def test_long_tables_fold_their_rest_and_lose_nothing(count: int, folded: int) -> None:
    parsed = with_table(table(*((f"m{i}", i) for i in range(count))))
    rest = [text.count("m") - 1 for text in parsed.texts("details", "small") if "more rows" in text]  # 1: of "more"
    assert parsed.texts("td") == [str(i) for i in range(count)]
    assert rest == [folded] * bool(folded)


def test_a_row_that_is_too_short_is_an_error() -> None:
    wrong = Table("t", "T", (Column("a"), Column("b")), (("x",),))
    with pytest.raises(ValueError, match="zip"):
        with_table(wrong)


def test_a_table_without_rows_says_so() -> None:
    assert with_table(Table("t", "T", (Column("a"), Column("b")), ())).texts("td") == ["nothing to show"]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["0.1", "−0.2 [−0.3, −0.1]", "–", ""], "n"),
        (["< 0.001", "∞", "−∞", "3 %"], "n"),
        (["0.1", "none"], "s"),
        (["–", ""], "s"),
        ([], "s"),
        (["x" * 19], "l"),
        (["1" * 41], "l"),
    ],
)
def test_columns_are_set_by_what_they_hold(cells: list[str], kind: str) -> None:
    assert pages._kind(cells) == kind


@pytest.mark.parametrize(
    ("sentence", "unbroken"),
    [
        ("τ 0.36 [0.30, 0.42] over 12", "τ 0.36~[0.30,~0.42] over 12"),
        ("3 % [−1 %, 8 %] of", "3~%~[−1~%,~8~%] of"),
        ("in 4 % of 7 texts", "in 4~% of 7 texts"),
        ("see [a, b] and [1", "see [a, b] and [1"),
    ],
)
def test_a_number_stays_with_its_interval(sentence: str, unbroken: str) -> None:
    assert pages.unbroken(sentence) == unbroken.replace("~", "\u00a0")


# coloured words


def test_a_coloured_text_reads_as_it_was_written() -> None:
    words = (
        ColouredWord("Not", "for", 1.0, space=" "),
        ColouredWord("bad", "against", 0.5),
        ColouredWord(",", space=""),
        ColouredWord("no", space="\n"),
    )
    shown = replace(SHOWN, colourings=(Colouring("m", words),))
    parsed = Parsed(document_page(replace(REPORT, answers=(), sections=(replace(SECTION, examples=(shown,)),))))
    assert parsed.texts("p", "words") == ["Not bad,\nno"]
    assert parsed.texts("span", "for") + parsed.texts("span", "against")[1:] == ["Not", "bad"]  # the first: the legend


def test_words_carry_their_strength_and_their_score() -> None:
    spans = [attrs for attrs, text in Parsed(document_page(REPORT)).all("span", "w") if text in ("good", "film")][:3]
    assert [(a["class"], a["style"], a["title"]) for a in spans] == [
        ("w weight", "--s:0.5", "0.25"),
        ("w for", "--s:1.0", "+2"),
        ("w against weak", "--s:0.05", "−0.1"),
    ]


@pytest.mark.parametrize(("given", "shown"), [(float("nan"), 0.0), (7.0, 1.0), (-1.0, 0.0), (0.12345, 0.123)])
def test_no_strength_leaves_its_range(given: float, shown: float) -> None:
    assert pages.colour_strength(given) == shown


def test_the_legend_explains_the_colours_in_use_and_no_others() -> None:
    def legends(*tones: Any) -> list[str]:
        colouring = Colouring("m", tuple(ColouredWord("w", tone, 1.0, 1.0) for tone in tones))
        section = replace(SECTION, examples=(replace(SHOWN, colourings=(colouring,)),))
        items = Parsed(document_page(replace(REPORT, answers=(), sections=(section,)))).all("li")
        return [a["class"] for a, _ in items if a.get("class") in ("signed", "unsigned")]

    assert legends("for", "none") == ["signed"]
    assert legends("weight") == ["unsigned"]
    assert legends("against", "weight") == ["signed", "unsigned"]


def test_two_colourings_to_compare_stand_beside_each_other() -> None:
    beside = replace(SECTION, examples=(replace(SHOWN, beside=True),))
    parsed = Parsed(document_page(replace(REPORT, answers=(), sections=(beside, SECTION))))
    assert [attrs["class"] for attrs, _ in parsed.all("div", "colourings")] == ["colourings beside", "colourings"]


def test_a_text_without_a_label_of_the_data_says_nothing_of_one() -> None:
    section = replace(SECTION, examples=(replace(SHOWN, gold=None),))
    assert "the data say" not in Parsed(document_page(replace(REPORT, answers=(), sections=(section,)))).text


# what was run


def test_the_manifest_is_shown_as_a_tree() -> None:
    tree = {"a": {"b": None, "c": {"d": -1.5}}, "e": [1, "x", True], "f": [{"g": 2}], "h": {}, "i": "a-b"}
    flat = [(n.name, n.value, len(n.below)) for n in pages.nodes(tree)]
    assert flat == [("a", "", 2), ("e", "1, x, yes", 0), ("f", "", 1), ("h", "–", 0), ("i", "a-b", 0)]
    (a, *_) = pages.nodes(tree)
    assert a.below == (pages.ManifestNode("b", "none"), pages.ManifestNode("c", "", (pages.ManifestNode("d", "−1.5"),)))


def test_every_value_of_the_manifest_is_on_the_page() -> None:
    items = Parsed(document_page(replace(REPORT, ran={"model": {"name": NASTY}, "seed": 20}))).texts("li")
    assert f"name {NASTY}" in items
    assert "seed 20" in items


# little and much


def test_a_report_with_nothing_in_it_is_a_page() -> None:
    empty = Document("t", "undecided", (), (), (), (), (), "", {})
    tags = {tag for tag, _, _ in Parsed(document_page(empty)).elements}
    assert not {"nav", "section", "table", "figure", "details"} & tags


def test_a_section_with_nothing_to_show_has_nothing_to_unfold() -> None:
    bare = Section("x", "X", "", ())
    parsed = Parsed(document_page(replace(REPORT, answers=(), sections=(bare,))))
    assert not parsed.all("details", "evidence")
    assert not [text for text in parsed.texts("p") if not text.strip()]


def test_a_large_report_is_a_small_file() -> None:
    rows = tuple((f"method-{i}", *(0.123456789,) * 8) for i in range(300))
    wide = Table("t", "T", tuple(Column(f"column {i}") for i in range(9)), rows)
    many = tuple(replace(SECTION, name=f"s{i}", tables=(wide,)) for i in range(16))
    assert len(document_page(replace(REPORT, sections=many)).encode()) < 1_500_000
