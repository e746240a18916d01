"""Reports as Markdown, LaTeX and CSV: every sign comes through, none becomes a command, and numbers stay themselves."""

from __future__ import annotations

import csv as standard
import io
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from markdown_it import MarkdownIt

from heedful.audits.summary import Row
from heedful.maths.stats import Decision, Difference
from heedful.report.document import ColouredWord, Colouring, Column, Document, Figure, Section, Shown, Table
from heedful.report.latex import latex, tex
from heedful.report.markdown import csv, markdown
from heedful.report.phrases import Cell
from heedful.report.phrases import cell as shown

HOSTILE = (
    r"<b>&amp; | `x` [a](http://evil) ![i](x) **b** _u_ # @you www.evil.org $x$ 50% {x} ~ ^ \end{table} \\ \input{x}"
)
COMMANDS = re.compile(r"\\([A-Za-z]+)")


def table(*rows: tuple[Cell, ...], name: str = "t", heads: tuple[str, ...] = ("method", "mean")) -> Table:
    return Table(name, "A table", tuple(Column(h, says="a mean") if h == "mean" else Column(h) for h in heads), rows)


def section(*tables: Table, name: str = "sign") -> Section:
    return Section(name, "Signs", "Do signs agree?", ("They do.",), tables=tables)


def report(*sections: Section) -> Document:
    return Document(
        "Title", "undecided", ("A sentence.",), (("model", "m"),), (), sections, ("A limit.",), "cite", {"s": 0}
    )


def hostile() -> Document:
    """Every field that comes from data is the same bad text."""
    word = ColouredWord(HOSTILE, "for", 1.0, -0.5)
    example = Shown(HOSTILE, 3, HOSTILE, HOSTILE, (Colouring(HOSTILE, (word,), HOSTILE),), note=HOSTILE)
    drawn = Figure(HOSTILE, HOSTILE, "<svg/>", HOSTILE, HOSTILE)
    cells = Table(
        HOSTILE, HOSTILE, (Column(HOSTILE, says=HOSTILE), Column("b")), ((HOSTILE, 1.0), (HOSTILE, None)), HOSTILE
    )
    part = Section(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), (drawn,), (cells,), (example,), HOSTILE, HOSTILE)
    return Document(
        HOSTILE, HOSTILE, (HOSTILE,), ((HOSTILE, HOSTILE),), (part,), (part,), (HOSTILE,), HOSTILE, {HOSTILE: HOSTILE}
    )


# cells


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
        (-0.0004, "0.00"),
        (-1234.567, "−1,234.57"),
        (1234, "1,234"),
        (0, "0"),
        ("a-b", "a-b"),
    ],
)
def test_a_cell_is_shown_as_a_reader_wants_it(cell: Cell, said: str) -> None:
    assert shown(cell) == said


def test_digits_are_the_columns() -> None:
    assert shown(0.12345, 4) == "0.1235"


# Markdown


def rendered(text: str) -> list[Any]:
    """All tokens of a text as CommonMark with tables has them, an outside reader."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [*tokens, *(child for token in tokens for child in token.children or ())]


def test_no_text_becomes_a_link_an_image_html_or_code() -> None:
    kinds = {token.type for token in rendered(markdown(hostile()))}
    assert not kinds & {"link_open", "image", "html_inline", "html_block", "code_inline"}


def test_a_text_comes_through_markdown_letter_by_letter() -> None:
    made = rendered(markdown(replace(report(), sentences=(HOSTILE,))))
    inline = [t for t in made if t.type == "inline"]
    told = ["".join(c.content for c in t.children if c.type in ("text", "text_special")) for t in inline]
    assert HOSTILE in told


def test_a_cell_with_a_pipe_is_one_cell() -> None:
    made = rendered(markdown(report(section(table(("a|b", 1.0), ("c\\|d", 2.0), ("e\nf", 3.0))))))
    cells = [made[i + 1].children for i, token in enumerate(made) if token.type == "td_open"]
    told = ["".join(c.content for c in cell) for cell in cells]
    assert told == ["model", "m", "a|b", "1.00", "c\\|d", "2.00", "e f", "3.00"]


@pytest.mark.parametrize(
    "text", ["- a", "1. a", "+ a", "# a", "> a", "=== ", "---", "[x]: y", "    a", "``` a", "* a", "7) a"]
)
def test_a_sentence_stays_a_paragraph(text: str) -> None:
    made = rendered(markdown(replace(report(), verdict="", sentences=("Before.", text))))
    paragraphs = [made[i + 1] for i, token in enumerate(made) if token.type == "paragraph_open"]
    said = ["".join(c.content for c in p.children or ()) for p in paragraphs]
    assert said[:2] == ["Before.", text.strip()]


def test_numbers_stand_right_and_intervals_are_easy_to_read() -> None:
    text = markdown(report(section(table(("a", -0.5), ("0.1 [0.0, 0.2] b", None)))))
    assert "| --- | ---: |" in text
    assert "| 0.1 [0.0, 0.2] b | – |" in text


def test_figures_are_files_of_the_folder() -> None:
    part = replace(section(), figures=(Figure("a b", "T", "<svg/>", "x is [1]"),))
    (image,) = [t for t in rendered(markdown(report(part), "fig ures")) if t.type == "image"]
    assert (image.attrs["src"], image.content) == ("fig%20ures/a%20b.svg", "x is \\[1\\]")


def test_without_a_folder_figures_are_words() -> None:
    text = markdown(report(replace(section(), figures=(Figure("n", "T", "<svg/>", "a is 0.3"),))))
    assert "a is 0.3" in text
    assert "svg" not in text


def test_a_fence_cannot_be_left() -> None:
    made = rendered(markdown(replace(report(), cite="a\n```\n# b\n````\n")))
    assert next(t.content for t in made if t.type == "fence") == "a\n```\n# b\n````\n"


def test_what_was_run_is_json() -> None:
    (ran,) = [
        t.content for t in rendered(markdown(replace(report(), cite="", ran={"a": ["`", 1]}))) if t.type == "fence"
    ]
    assert json.loads(ran) == {"a": ["`", 1]}


def test_signs_that_steer_are_replaced() -> None:
    text = markdown(replace(report(), sentences=("a\x1b[2Jb\u202ec\x00",)))
    assert not set(text) & set("\x1b\u202e\x00")


# LaTeX


def plain(made: str) -> str:
    """What TeX reads as signs: without our own commands and escaped ones."""
    return re.sub(r"\\[\\{}%_&#$]|\{\\char\d+\}|\\[A-Za-z]+(\{\})?", "", made)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("50% a_b & #1 $x$ {y}", r"50\% a\_b \& \#1 \$x\$ \{y\}"),
        ("~^\\", r"\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("τ Δ α ≤ −1 …", r"$\tau$ $\Delta$ $\alpha$ $\le$ $-$1 \ldots{}"),
        ("😀", r"\texttt{U+1F600}"),
        ("é ü ï ñ ç ß", r"\'{e} \"{u} \"{\i} \~{n} \c{c} \ss{}"),
        ("e\u0301", r"\'{e}"),
        ("R² 中", r"R$^{2}$ \texttt{U+4E2D}"),
        ("a--b ''", "a-{}-b '{}'"),
        ("[a]", "{[}a]"),
        ("* a\n\n b", "{*} a b"),
        ('<"`|>', r"\textless{}{\char34}{\char96}\textbar{}\textgreater{}"),
        ("", ""),
    ],
)
def test_signs_in_latex(text: str, made: str) -> None:
    assert tex(text) == made


def test_every_sign_there_is_becomes_ascii_with_balanced_braces() -> None:
    made = [tex(f"a{chr(i)}b") for i in (*range(0x3000), *range(0xD800, 0xD900), *range(0x1F600, 0x1F650), 0x10FFFF)]
    assert all(one.isascii() and one.isprintable() for one in made)
    assert all(re.sub(r"\\[{}]", "", one).count("{") == re.sub(r"\\[{}]", "", one).count("}") for one in made)


def test_no_command_of_a_text_is_left() -> None:
    ours = set(COMMANDS.findall(latex(report(section(table(("a", 1.0)))))))
    more = {"textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "char"}
    found = set(COMMANDS.findall(latex(hostile()).replace(r"\\", "")))
    assert found <= ours | more | {"paragraph", "footnotesize", "par", "smallskip", "textwidth"}


def test_environments_and_braces_are_balanced() -> None:
    text = latex(hostile())
    open_: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{([a-z]+)\}", text):
        open_ = [*open_, name] if kind == "begin" else open_[:-1] if open_[-1] == name else pytest.fail(name)
    bare = re.sub(r"\\[{}]", "", text)
    assert not open_
    assert bare.count("{") == bare.count("}")
    assert text.isascii()


def test_a_row_has_as_many_cells_as_its_table_has_columns() -> None:
    text = latex(hostile())
    for columns, body in re.findall(r"\\begin\{tabular\}\{([^\n]*)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL):
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        widths = {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines}
        assert widths == {len(re.sub(r"p\{[^}]*\}", "p", columns))}


def test_tables_have_captions_and_labels_of_their_own() -> None:
    text = latex(report(section(table(("a", 1.0), name="x y")), section(table(("a", 1.0), name="x y"))))
    assert re.findall(r"\\label\{(.*?)\}", text) == ["tab:x-y", "tab:x-y-2"]
    assert text.count(r"\caption{A table}") == 2


def test_a_long_table_is_cut_and_nothing_is_lost() -> None:
    text = latex(report(section(table(*((f"row{i}", float(i)) for i in range(95))))))
    assert text.count(r"\begin{tabular}") == 3
    assert [int(i) for i in re.findall(r"row(\d+)", text)] == list(range(95))
    assert text.count(r"\label") == 1


def test_numbers_stand_right_in_latex() -> None:
    assert r"\begin{tabular}{lr}" in latex(report(section(table(("a", 1.0), ("b", None)))))
    assert r"\begin{tabular}{ll}" in latex(report(section(table(("a", "1 [0, 2]")))))


def test_an_empty_table_and_an_empty_report_are_made() -> None:
    bare = Document("T", "", (), (), (), (section(table()),), (), "", {})
    for made in (markdown(bare), latex(bare), csv(bare)):
        assert "method" in made or made == "section,table,row,column,value\n"


# CSV


def read(text: str) -> list[dict[str, str]]:
    return list(standard.DictReader(io.StringIO(text)))


def test_csv_has_every_cell_in_full() -> None:
    third = 1 / 3
    lines = read(csv(report(section(table(("a", -third), ("b", None), ("c", float("nan")))))))
    assert [line["value"] for line in lines] == [repr(-third), "", ""]
    assert lines[0] == {"section": "sign", "table": "t", "row": "a", "column": "mean", "value": repr(-third)}


def test_rows_of_one_name_are_told_apart() -> None:
    rows = (("a", "delete", 1.0), ("a", "mask", 2.0))
    lines = read(csv(report(section(table(*rows, heads=("method", "masking", "mean"))))))
    assert [line["row"] for line in lines if line["column"] == "mean"] == ["a, delete", "a, mask"]


def test_equal_rows_are_numbered() -> None:
    lines = read(csv(report(section(table(("a", 1.0), ("a", 1.0))))))
    assert [line["row"] for line in lines] == ["a (1)", "a (2)"]


@pytest.mark.parametrize("text", ["a,b", 'say "x"', "two\nlines", "<b>&", "😀"])
def test_texts_come_through_csv(text: str) -> None:
    assert read(csv(report(section(table((text, text))))))[0]["value"] == text


def test_a_lone_return_is_a_line_end() -> None:
    assert read(csv(report(section(table(("a", "b\rc\r\nd"))))))[0]["value"] == "b\nc\nd"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_no_text_is_a_formula(text: str) -> None:
    assert read(csv(report(section(table(("a", text))))))[0]["value"] == f"'{text}"


def test_a_negative_number_is_no_formula() -> None:
    assert read(csv(report(section(table(("a", -1.5))))))[0]["value"] == "-1.5"


def test_rows_of_a_run_in_full() -> None:
    numbers = (3, 1, 1 / 3, 0.1, 0.2, math.nan, 0.5)
    chance = Difference(3, -1e-9, -0.1, 0.2, 0.01, 0.03, Decision.TOO_FEW)
    rows = (
        Row(*numbers, check="sign", measure="m", method="x", at={"b": 1, "a": "é"}, versus_random=chance),
        Row(*numbers, check="sign", measure="m"),
    )
    one, other = read(csv(replace(report(), rows=rows)))
    assert list(one.values()) == [
        "sign", "m", "x", '{"a":"é","b":1}', "3", "1", repr(1 / 3), "0.1", "0.2", "", "0.5",
        "-1e-09", "-0.1", "0.2", "0.01", "0.03", "too few texts", "",
    ]  # fmt: skip
    assert {name for name, value in other.items() if value == ""} == {
        "method", "at", "low", *(name for name in other if name.startswith("random")),
    }  # fmt: skip
