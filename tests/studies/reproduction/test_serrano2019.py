"""Serrano & Smith 2019: numbers of several trainings against twins, and a whole small reproduction."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from heedful.audits.record import load_record
from heedful.checks.tables import ErasureTables
from heedful.core.finding import Findings
from heedful.report.reproductions import serrano2019 as report
from heedful.report.study import report as whole_report
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction.data_sets import AMAZON, IMDB10, YAHOO, YELP, DataSet
from heedful.studies.reproduction.published import Judgement, read_published
from heedful.studies.reproduction.reproduce import reproduce
from heedful.studies.reproduction.serrano2019 import CELLS, Erasures, Network, _claims

RNG = np.random.default_rng(0)
SIZES = ["train=40", "audited=6", "encoders=rnn", "orders=2"]


def reviews(folder: Path) -> Path:
    """IMDB with two labels: reviews of three sentences."""
    (folder / "imdb").mkdir(parents=True)
    words = {0: ("bad", "dull"), 1: ("good", "fine")}
    for part, count in (("train", 60), ("test", 30)):
        lines = []
        for i in range(count):
            first, second = words[i % 2]
            text = f"The {part} film number {i} is {first}. Its story was {second} and {first}. We saw it in town."
            lines.append(json.dumps({"text": text, "label": i % 2}))
        (folder / "imdb" / f"{part}.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    data = reviews(tmp_path_factory.mktemp("data"))
    out = tmp_path_factory.mktemp("serrano")
    return reproduce("serrano2019", data, out, profile="smoke", settings=SIZES)


def numbers(values: dict[tuple[str, str], list[float]]) -> Findings:
    """Findings of the check on some texts, by (order, measure)."""
    groups = {(order, measure, ""): np.array(x) for (order, measure), x in values.items()}
    n = len(next(iter(groups.values())))
    texts = {"number": np.arange(n), "gold": np.zeros(n, int), "predicted": np.arange(n) % 2}
    return Findings(groups, {key: np.ones(n, bool) for key in groups}, texts)


# the published numbers


def test_published_cells_add_up_to_all_texts() -> None:
    """Up to their rounding: a check of the transcription."""
    cells: dict[str, dict[str, float]] = {}
    for number in read_published("serrano2019"):
        cells.setdefault(number.data, {})[number.column] = number.value
    assert list(cells) == ["yahoo", "imdb10", "amazon", "yelp"]
    assert all(tuple(own) == CELLS and sum(own.values()) == pytest.approx(100, abs=0.2) for own in cells.values())


# data


@pytest.mark.parametrize(
    ("known", "name", "lines"),
    [
        (IMDB10, "imdb.{}.txt.ss", "u{0}\t\tm\t\t{1}\t\tA {2} film {0} . <sssss> I saw it ."),
        (YAHOO, "{}.csv", '"{1}","{2} {0}?","What is it?","It is a {2}."'),
        (AMAZON, "{}.csv", '"{1}","{2} {0}","I bought it."'),
        (YELP, "{}.csv", '"{1}","{2} {0}. I ate it."'),
        (AMAZON, "{}.jsonl", '{{"text": "{2} {0}. I bought it.", "label": {1}}}'),
    ],
)
def test_data_are_read_as_their_authors_publish_them(known: DataSet, name: str, lines: str, tmp_path: Path) -> None:
    for part in ("train", "test"):
        rows = [lines.format(i, 1 + i % 5, part) for i in range(40)]
        (tmp_path / name.format(part)).write_text("\n".join(rows))
    splits = known.subject(tmp_path).splits
    assert {e.label for e in splits.train} == {"1", "2", "3", "4", "5"}
    assert len(splits.train) + len(splits.dev) == len(splits.test) == 40
    assert all(e.text.rstrip(" .").endswith(("it", "a test")) and "test" in e.text for e in splits.test)


def test_settings_are_those_of_the_papers_table() -> None:
    assert Network("yelp", "han", "rnn").settings(None) == {
        "lr": 1e-4, "epochs": 60, "patience": 5, "dropout_sentence": 0.7, "dropout_document": 0.1,
        "dropout_output": 0.7,
    }  # fmt: skip
    assert Network("yahoo", "flan", "none").settings(None) == {"dropout_output": 0.446}
    assert Network("imdb", "han", "none").settings(3) == {"epochs": 6}


# numbers


def test_the_four_cells_are_counted_without_texts_of_one_item() -> None:
    top, other = RNG.integers(2, size=(2, 3, 20)).astype(float)
    top[:, 4] = other[:, 4] = np.nan
    own = Erasures([
        numbers({("attention", "flip top"): list(a), ("attention", "flip random"): list(b)})
        for a, b in zip(top, other, strict=True)
    ])  # fmt: skip
    cells = own.cells()
    for cell, (a, b) in zip(CELLS, product((1, 0), (1, 0)), strict=True):
        counts = [sum(x == a and y == b for x, y in zip(*pair, strict=True)) for pair in zip(top, other, strict=True)]
        assert cells[cell].over_trainings.mean == pytest.approx(np.mean(counts) / 19)
    assert sum(scores.measurement(scale=100).mean for scores in cells.values()) == pytest.approx(100)


def test_what_never_flips_needs_all_items() -> None:
    fraction = {("attention", "fraction"): [0.2, np.nan, np.nan], ("attention", "never"): [0, 1, np.nan]}
    random = {("random", "fraction"): [0.5, np.nan, np.nan], ("random", "never"): [0.25, 1, np.nan]}
    own = Erasures([numbers(fraction | random)])
    assert own.needed("attention") == pytest.approx([0.2, 1, np.nan], nan_ok=True)
    assert own.needed("random") == pytest.approx([0.75 * 0.5 + 0.25, 1, np.nan], nan_ok=True)


@pytest.mark.parametrize("true", [True, False])
def test_findings_hold_where_they_are_planted(true: bool) -> None:
    """Fractions in the paper's order, or in the opposite one."""
    n, networks = 40, [Network("x", "han", encoder) for encoder in ("rnn", "conv", "none")]
    steps = {"attention-slope": 0, "attention-x-slope": 0, "attention": 1, "random": 2}
    erasures = {}
    for place, network in enumerate(networks):
        values: dict[tuple[str, str], list[float]] = {}
        for order, step in steps.items():
            middle = 0.5 + (0.1 * step - 0.05 * place) * (1 if true else -1)
            values[order, "fraction"] = list(middle + RNG.uniform(-0.01, 0.01, n))
            values[order, "never"] = [0.0] * n
        values["attention", "delta js"] = list((1 if true else -1) * RNG.uniform(0.1, 0.2, n))
        flips = [0.0] * n if true else [1.0] * n
        values |= {("attention", "flip top"): flips, ("attention", "flip random"): flips}
        erasures[network] = Erasures([numbers(values)])
    claims = _claims("x", erasures)
    assert len(claims) == 3 * 3 + 3 + 2
    assert {claim.holds for claim in claims} == {true}


# a whole reproduction


@pytest.mark.thorough
def test_two_labels_stand_beside_ten_and_are_not_judged(outcome: Outcome) -> None:
    measured = {c.published.column: c for c in outcome.result.comparisons if c.ours is not None}
    assert tuple(measured) == CELLS
    assert {c.published.data for c in measured.values()} == {"imdb10"}
    assert {c.judgement for c in outcome.result.comparisons} == {Judgement.NOT_COMPARED}
    assert all("IMDB with 2 labels; the paper's has 10 ratings" in c.reason for c in measured.values())
    others = {c.published.data: c.reason for c in outcome.result.comparisons if c.ours is None}
    assert "it must be a folder 'yelp': train.csv and test.csv without a header" in others["yelp"]


@pytest.mark.thorough
def test_flips_and_boxes_are_those_of_the_audits(outcome: Outcome) -> None:
    assert outcome.folder is not None
    record = load_record(outcome.folder / outcome.result.parts["imdb han-rnn 0"])
    tables = record.tables("erasure", ErasureTables)
    assert tables is not None
    flips = tables.flips["attention"]
    ours = [c.ours.mean for c in outcome.result.comparisons if c.ours is not None]
    counts = (flips.both, flips.only_top, flips.only_random, flips.neither)
    assert ours == pytest.approx([100 * count / flips.n for count in counts])
    boxes = {(b["network"], b["order"]): b["stops"] for b in outcome.result.details["boxes"]}
    assert boxes["HANrnn", "attention × gradient"]["median"] == pytest.approx(
        tables.fractions["attention-x-slope"].median, nan_ok=True
    )


@pytest.mark.thorough
def test_the_report_has_all_networks_in_one_figure(outcome: Outcome) -> None:
    flips, sets, weights = report.sections(outcome)
    (grid,) = sets.figures
    for network in ("HANrnn", "FLANrnn"):
        drawn = [b for b in outcome.result.details["boxes"] if b["network"] == network and b["stops"]["n"]]
        assert all(f"{network}, {b['order']}: median" in grid.alt for b in drawn)
        assert network in grid.svg
    assert all(ranking in grid.svg for ranking in ("random", "attention", "gradient", "attention × gradient"))
    assert len(weights.figures) == 2
    ours = [row for row in flips.tables[0].rows if row[:3] == ("imdb", "HANrnn", "attention")]
    assert [row[4] for row in ours] == ["changes", "does not"]
    assert sum(x for row in ours for x in row[5:]) == pytest.approx(100)  # type: ignore[misc]
    published = [row for row in flips.tables[0].rows if row[:2] == ("imdb10", "HANrnn, published")]
    assert [row[5:] for row in published] == [(2.2, 12.2), (1.4, 84.2)]
    assert any(section.name == "importance-sets" for section in whole_report(outcome).sections)


@pytest.mark.thorough
def test_the_report_needs_no_folder(outcome: Outcome) -> None:
    *_, weights = report.sections(replace(outcome, folder=None))
    assert not weights.figures
    assert weights.tables
