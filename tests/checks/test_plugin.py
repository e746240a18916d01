"""A check of another package, its words and its section, two files: it appears wherever a check of heedful does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import heedful
from heedful.audits.record import Record, load_record
from heedful.checks import CHECKS
from heedful.checks.conformance import conforms
from heedful.data import Example
from heedful.report.audit import report
from heedful.report.compare import compare
from heedful.report.document_terminal import show_document
from heedful.report.writers import WRITERS
from tests.support import toys

CHECK = '''
from dataclasses import dataclass
from typing import ClassVar

from heedful.checks.base import Finding, Measure
from heedful.core.finding import Highlight, SideBySide


@dataclass(frozen=True)
class Shouting:
    """Where a text shouts."""

    title: ClassVar[str] = "Shouting"
    question: ClassVar[str] = "Does the highest word shout?"
    reading: ClassVar[str] = "Nobody has to shout."
    summary: ClassVar[str] = "whether the highest word is long"
    paper: ClassVar[str] = "Loud & Quiet 2031"
    changes: ClassVar[str] = "nothing is changed"
    section: ClassVar[str] = "loud_package.loud_section"
    measures: ClassVar = {"volume": Measure("letters of the highest word", better="higher")}
    highlights: ClassVar = (Highlight("volume", "letters of the highest word", head="loud"),)
    compared: ClassVar = (SideBySide("volume", "letters of the highest word"),)

    def __call__(self, case):
        return [
            Finding("shouting", name, "volume", float(len(case.tokens.pieces[int(abs(why.scores).argmax())])))
            for name, why in case.attributions.items()
        ]
'''
SECTION = """
from heedful.report.sections.parts import MethodMeasure, check_section

MAIN = MethodMeasure("volume", "the volume of a method", "letters", "higher")


def section(record):
    findings = ["It is loud in here.", *MAIN.findings(record, "shouting")]
    return check_section(record, "shouting", findings, MAIN.figures(record, "shouting"))
"""


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, installed."""
    place = tmp_path_factory.mktemp("site")
    package, info = place / "loud_package", place / "loud_package-1.0.dist-info"
    for folder in (package, info):
        folder.mkdir()
    (package / "__init__.py").write_text(CHECK)
    (package / "loud_section.py").write_text(SECTION)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[heedful.checks]\nshouting = loud_package:Shouting\n")
    known = ("_entries", "_aliases")  # which a catalogue reads once
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        for name in known:
            patch.delitem(vars(CHECKS), name, raising=False)
        yield place
    for name in known:
        vars(CHECKS).pop(name, None)


@pytest.fixture(scope="module")
def record(plugged: Path, tmp_path_factory: pytest.TempPathFactory) -> Record:
    examples = [Example(text) for text in toys.texts(4)]
    out = tmp_path_factory.mktemp("runs") / "run"
    heedful.audit(toys.build("bilstm", toys.POINTER), examples, ["attention-mean"], ["shouting"], out)
    return load_record(out)


@pytest.mark.usefixtures("plugged")
def test_it_is_listed_and_conforms() -> None:
    assert list(CHECKS)[-1] == "shouting"
    assert conforms(heedful.check("shouting"), toys.build("bilstm", toys.POINTER))


def test_its_section_is_its_own(record: Record) -> None:
    (section, *_) = report(record).sections
    assert (section.title, section.question, section.source) == (
        "Shouting", "Does the highest word shout?", "Loud & Quiet 2031",
    )  # fmt: skip
    assert section.findings[0] == "It is loud in here."
    assert section.reading == "Nobody has to shout."


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "csv"])
def test_it_is_in_every_format(kind: str, record: Record) -> None:
    content = WRITERS[kind](report(record)).decode()
    assert "It is loud in here." in content
    assert "Does the highest word shout?" in content
    assert "volume of a method" in content


def test_its_numbers_are_in_the_tables_of_a_spreadsheet(record: Record) -> None:
    assert "\nshouting,volume,attention-mean,," in WRITERS["csv"](report(record)).decode()


def test_it_has_a_column_on_the_terminal(record: Record) -> None:
    console = Console(file=io.StringIO(), width=120)
    show_document(report(record), console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "loud: letters of the highest word" in printed


def test_it_is_set_side_by_side(record: Record) -> None:
    (section,) = compare(record, record).sections
    assert section.title == "Shouting"
    assert [row[0] for row in section.tables[0].rows] == ["attention-mean", "random", "uniform", "position"]


def test_a_report_where_it_is_not_installed_has_its_numbers_and_words(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.report.sections.find_spec", lambda module: None)
    (section, *_) = report(record).sections
    assert section.question == "Does the highest word shout?"
    assert [row[0] for row in section.tables[0].rows] == ["attention-mean", "random", "uniform", "position"]
