"""LaTeX: a document for pdflatex. The output is ASCII, and no character of a text becomes a command.

A character that the standard fonts lack, such as an emoji, is named: \\texttt{U+1F600}.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from heedful.report.document import (
    Document,
    Section,
    Table,
    cells,
    example_texts,
    gold,
    notes,
    numeric_columns,
    strongest_words,
)

MAX_ROWS = 40  # rows of a table that fit on a page
MAX_UNBROKEN = 60  # characters of a cell that is not broken into lines
SMALL_PRINT_COLUMNS = 7  # columns from which a table has a smaller font

# fmt: off
_SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "$": r"\$",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",  # in the old font encoding they are other signs
    '"': r"{\char34}", "`": r"{\char96}",  # babel makes the first a command in some languages
    "\u00ad": r"\-", "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "„": ",,", "…": r"\ldots{}",
    "•": r"\textbullet{}", "§": r"\S{}", "©": r"\copyright{}", "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}",
    "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "ſ": "s",
}
_MATHS = {
    "−": "-", "±": r"\pm", "×": r"\times", "÷": r"\div", "·": r"\cdot", "≤": r"\le", "≥": r"\ge", "≠": r"\neq",
    "≈": r"\approx", "≪": r"\ll", "≫": r"\gg", "∞": r"\infty", "√": r"\surd", "∑": r"\sum", "∂": r"\partial",
    "∈": r"\in", "∉": r"\notin", "∥": r"\|", "‖": r"\|", "→": r"\to", "←": r"\leftarrow", "↑": r"\uparrow",
    "↓": r"\downarrow", "↔": r"\leftrightarrow", "¬": r"\neg", "°": r"^\circ", "µ": r"\mu", "½": r"\frac12",
    "¼": r"\frac14", "¾": r"\frac34", "′": r"\prime", "ε": r"\varepsilon", "ϵ": r"\epsilon", "ς": r"\varsigma",
    "ϕ": r"\phi", "φ": r"\varphi", "ο": "o",
}
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0327": "c",
}
# fmt: on
_SMALL = "alpha beta gamma delta zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon chi psi omega"
_GREAT = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
_MATHS |= {c: rf"\{name}" for c, name in zip("αβγδζηθικλμνξπρστυχψω", _SMALL.split(), strict=True)}
_MATHS |= {c: rf"\{name}" for c, name in zip("ΓΔΘΛΞΠΣΥΦΨΩ", _GREAT.split(), strict=True)}
_SIGNS |= dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧ", "ABEZHIKMNOPTX", strict=True))  # Greek ones without a name in TeX
_RUNS = re.compile(r"(?<=[-',])(?=[-',])")  # "--" would become one dash, "''" one quotation mark
_RAISED = {"<super>": "^", "<sub>": "_"}
_OPTIONS = ("[", "*")  # at the beginning of a table's line or an item they would be an option of it


def tex(text: str) -> str:
    """A text as one line of LaTeX, every special character escaped: tex("50% τ") -> r"50\\% $\\tau$"."""
    words = " ".join(unicodedata.normalize("NFC", text).split())
    line = "{}".join("".join(map(_sign, piece)) for piece in _RUNS.split(words))
    return f"{{{line[0]}}}{line[1:]}" if line.startswith(_OPTIONS) else line


def _sign(c: str) -> str:
    if c in _SIGNS:
        return _SIGNS[c]
    if c in _MATHS:
        return f"${_MATHS[c]}$"
    if " " <= c <= "~":
        return c
    return _accented(c) or _raised(c) or rf"\texttt{{U+{ord(c):04X}}}"


def _accented(c: str) -> str | None:
    """é is an e with an accent; i and j lose their dots under one."""
    letter, mark = (*unicodedata.normalize("NFD", c), "", "")[:2]
    if letter + mark != unicodedata.normalize("NFD", c) or not letter.isascii() or mark not in _ACCENTS:
        return None
    return rf"\{_ACCENTS[mark]}{{{letter if letter not in 'ij' else chr(92) + letter}}}"


def _raised(c: str) -> str | None:
    """² is a superscript 2."""
    kind, *codes = unicodedata.decomposition(c).split() or [""]
    plain = "".join(chr(int(code, 16)) for code in codes)
    return f"${_RAISED[kind]}{{{plain}}}$" if kind in _RAISED and plain.isascii() and plain.isalnum() else None


# the report


def latex(document: Document) -> str:
    r"""The report, to be \input in a document with \usepackage{booktabs}. ASCII; tables have labels \ref{tab:name}.

    Figures are described in words. What was run is in the run's manifest.json.
    """
    labels: set[str] = set()
    parts = [r"% needs \usepackage{booktabs}", rf"\section*{{{tex(document.title)}}}"]
    parts += [rf"\textbf{{{tex(text)}}}" if i == 0 else tex(text) for i, text in enumerate(document.advice)]
    parts += [rf"\textbf{{Attention: {tex(document.verdict)}}}"] if document.verdict else []
    parts += map(tex, document.sentences)
    parts += [_description(document.facts)] if document.facts else []
    for section in (*document.answers, *document.sections):
        parts += _tex_section(section, labels)
    if document.limits:
        parts += [r"\subsection*{Limits}", _environment("itemize", (rf"\item {tex(text)}" for text in document.limits))]
    if document.cite:
        lines = [tex(line) for line in document.cite.splitlines() if line.strip()]
        parts += [r"\subsection*{How to cite}", _environment("flushleft", [" \\\\\n".join(lines)])]
    return "\n\n".join(parts) + "\n"


def _tex_section(section: Section, labels: set[str]) -> Iterator[str]:
    yield rf"\subsection*{{{tex(section.title)}}}"
    if section.question:
        yield rf"\emph{{{tex(section.question)}}}"
    yield from map(tex, section.findings)
    for figure in section.figures:
        yield rf"\paragraph{{{tex(figure.title)}}} {tex(f'{figure.caption} {figure.alt}')}"
    for table in section.tables:
        yield from _tex_table(table, labels)
    for example in section.examples:
        yield rf"\paragraph{{{tex(example.title)}}} {tex(f'Text {example.text}: {example.label}{gold(example)}')}"
        yield from (_environment("quote", [tex(text)]) for text in example_texts(example))
        if example.colourings:
            yield _description((c.name, f"{strongest_words(c)} {c.note}") for c in example.colourings)
        if example.note:
            yield tex(example.note)
    yield from (tex(text) for text in (section.reading, section.source and f"Source: {section.source}") if text)


def _tex_table(table: Table, labels: set[str]) -> Iterator[str]:
    """A table, in parts where it is too long for a page; the first has a new label, which is added to `labels`."""
    rows, foot = cells(table), notes(table.columns)
    plain = re.sub(r"[^A-Za-z0-9:.-]+", "-", table.name).strip("-") or "table"
    label = next(name for i in count(1) if (name := plain if i == 1 else f"{plain}-{i}") not in labels)
    labels.add(label)
    for first in range(0, max(1, len(rows)), MAX_ROWS):
        title = f"{table.title} (continued)" if first else ". ".join(filter(None, (table.title, table.caption)))
        inside = [
            r"\centering",
            rf"\caption{{{tex(title)}}}",
            *([] if first else [rf"\label{{tab:{label}}}"]),
            *([r"\footnotesize"] if len(table.columns) >= SMALL_PRINT_COLUMNS else []),
            _tabular(table, rows[first : first + MAX_ROWS]),
            *([rf"\par\smallskip{{\footnotesize {tex(foot)}\par}}"] if foot else []),
        ]
        yield _environment("table", inside, "[htbp]")


def _tabular(table: Table, rows: Sequence[Sequence[str]]) -> str:
    long = [max((len(row[i]) for row in rows), default=0) > MAX_UNBROKEN for i in range(len(table.columns))]
    each = [
        "r" if number else (rf"p{{{0.7 / max(1, sum(long)):.2f}\textwidth}}" if wide else "l")
        for number, wide in zip(numeric_columns(table), long, strict=True)
    ]
    heads = " & ".join(tex(c.head) for c in table.columns)
    lines = [rf"{' & '.join(map(tex, row))} \\" for row in rows]
    inside = [r"\toprule", rf"{heads} \\", r"\midrule", *lines, r"\bottomrule"]
    return _environment("tabular", inside, f"{{{''.join(each) or 'l'}}}")


def _description(pairs: Iterable[tuple[str, str]]) -> str:
    """A name is in braces: a bracket in it would end it."""
    return _environment("description", (rf"\item[{{{tex(name)}}}] {tex(value)}" for name, value in pairs))


def _environment(name: str, lines: Iterable[str], options: str = "") -> str:
    return "\n".join([rf"\begin{{{name}}}{options}", *lines, rf"\end{{{name}}}"])
