"""docs/reproduction.md is as the command writes it: judgements follow from their rows, and counts from the rows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from heedful.maths.stats import replication_limit
from heedful.report.reproductions.overview import overview
from heedful.studies.reproduction import PAPERS
from heedful.studies.reproduction.published import MIN_TRAININGS, Judgement, read_published

PAGE = (Path(__file__).parents[3] / "docs" / "reproduction.md").read_text("utf-8")
NUMBERS = re.compile(r"\*\*[^\n]+: published beside ours\*\*\n\n(\|.+?)\n\n", re.DOTALL)
ULP = 0.0006  # of three printed digits


def table(text: str) -> list[dict[str, str]]:
    """The rows of a Markdown table by their columns."""
    cells = [
        [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in line.strip("|").split(" | ")] for line in text.split("\n")
    ]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def rows(paper: str) -> list[dict[str, str]]:
    """Every published number that stands beside ours."""
    sections = [part for part in PAGE.split("\n## ") if part.startswith(f"{paper}: ")]
    return [row for part in sections for found in NUMBERS.findall(part + "\n\n") for row in table(found)]


def test_the_page_begins_as_the_command_writes_it() -> None:
    assert PAGE.startswith(overview([]).partition("\n## ")[0])


def test_the_summary_counts_the_rows() -> None:
    summary = re.search(r"\*\*Published numbers, and findings\*\*\n\n(\|.+?)\n\n", PAGE, re.DOTALL)
    assert summary is not None
    papers = {row["paper"]: row for row in table(summary[1])}
    assert list(papers) == list(PAPERS)
    for paper, counts in papers.items():
        judged = Counter(row["judgement"] for row in rows(paper))
        assert number(counts["published"]) == len(read_published(paper))
        assert number(counts["measured"]) == judged.total(), paper
        assert (number(counts["inside"]), number(counts["outside"])) == (judged["inside"], judged["outside"])
        assert number(counts["CPU minutes"]) <= 60


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if rows(paper)])
def test_every_judgement_follows_from_its_row(paper: str) -> None:
    short = {data.name: data.short for data in PAPERS[paper].data}
    known = {(short[p.data], p.row, p.column, p.value, p.digits): p for p in read_published(paper) if p.data}
    for row in rows(paper):
        printed, _, mark = row["published"].partition(" ")
        data = row["data"].partition(", in place of ")
        place = (data[2] or data[0], row["row"], row["column"])
        cell = known[*place, number(printed), len(printed.partition(".")[2])]
        assert cell.verified == (mark != "(unverified)"), row
        if row["judgement"] == Judgement.NOT_COMPARED:
            continue
        limit, difference = number(row["within"]), abs(cell.value - number(row["ours"]))
        exact = replication_limit(number(row["s"]), int(row["k"]), number(row["SE"])) + cell.rounding
        assert int(row["k"]) >= MIN_TRAININGS, row
        assert limit == pytest.approx(exact, abs=6 * ULP), row
        assert row["judgement"] == ("inside" if difference <= limit else "outside") or abs(difference - limit) < ULP, (
            row
        )
