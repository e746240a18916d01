"""The report of a study, from an outcome in memory."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.audits.manifest import Manifest
from heedful.audits.summary import About
from heedful.core.finding import Measure
from heedful.maths.stats import estimate
from heedful.report.document import Document
from heedful.report.latex import latex
from heedful.report.markdown import csv, markdown
from heedful.report.page import document_page
from heedful.report.study import report
from heedful.studies.base import row_of
from heedful.studies.outcome import Curve, ExampleText, Outcome, Result, TextsUsed, WeightedWords

EVIL = "<script>alert('x')</script>"
MEASURES = {"accuracy": Measure("share of right predictions", "rate")}


def outcome(study: str = "a-plugin") -> Outcome:
    values = np.tile([0.0, 1.0, 1.0], 12)
    rows = (row_of(study, MEASURES, "accuracy", values, "before"), row_of(study, MEASURES, "accuracy", values, EVIL))
    coloured = WeightedWords(EVIL, (EVIL, "film"), (0.9, 0.1))
    result = Result(
        rows=rows,
        curves=(Curve("accuracy", "before", (0.0, 1.0), (estimate(values), estimate(values))),),
        examples=(ExampleText("attacked", "positive 0.9", "negative", (coloured,)),),
        texts=(TextsUsed("texts are scored", "test", 36, "abc", left_out=2),),
        models={"base": "models/base"},
        notes=("One model was not written.",),
    )
    about = About(title="A plugin's study", question="What?", changes="nothing is changed", paper="nobody 1999")
    manifest = Manifest({"name": EVIL}, {"name": "data"}, {"study": study}, 7, {})
    return Outcome(study, manifest, about, result, 90.0)


@pytest.fixture(scope="module")
def document() -> Document:
    return report(outcome())


def test_a_study_without_sections_of_its_own_has_all_numbers_in_a_table(document: Document) -> None:
    first = document.sections[0]
    assert first.title == "A plugin's study"
    assert [row[:2] for row in first.tables[0].rows] == [("accuracy", "before"), ("accuracy", EVIL)]


def test_a_report_says_which_texts_and_models(document: Document) -> None:
    tables = {section.name: section.tables for section in document.sections}
    assert tables["texts"][0].rows == (("texts are scored", "test", 36, 2),)
    assert tables["models"][0].rows == (("base", "models/base"),)
    assert document.limits[0] == "One model was not written."
    assert ("CPU time", "1.5 minutes") in document.facts


def test_every_text_is_escaped(document: Document) -> None:
    page = document_page(document)
    assert EVIL not in page
    assert "&lt;script&gt;alert" in page


def test_every_format_has_the_numbers(document: Document) -> None:
    for written in (markdown(document), csv(document), latex(document)):
        assert "before" in written
        assert "36" in written
