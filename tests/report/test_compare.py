"""Two runs side by side: differences are those of the numbers, paired where they may be, and the page says which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

import heedful
from heedful.audits.contrasts import Contrast, Matching, contrast, match
from heedful.audits.manifest import ABSENT, Change
from heedful.audits.record import Record, load_record
from heedful.audits.summary import Row
from heedful.audits.verdict import QUESTIONS, Answer, Reason, Verdict
from heedful.checks.tables import AgreementTables
from heedful.core.finding import SideBySide
from heedful.data import Example
from heedful.maths import stats
from heedful.maths.stats import Estimate, unpaired
from heedful.report.compare import _change_cells, _headline, _limits, compare, run_names
from heedful.report.document import Document, Section
from heedful.report.phrases import fixed
from tests.support import toys

N = 30
CHECKS = {
    "agreement": {"top": 1},
    "permutation": {"draws": 3, "layer_draws": 0, "head_draws": 0},
    "sign": {},
}
EVERYWHERE = {"layer": "all", "head": "all"}


@cache
def texts() -> tuple[str, ...]:
    return tuple(dict.fromkeys(toys.texts(4 * N, shortest=5, longest=8)))[: 2 * N]


def made(
    folder: Path, toy: toys.Toy, some: Sequence[str], checks: Sequence[str] = tuple(CHECKS), seed: int = 0
) -> Record:
    classifier = toys.build("bilstm", toy)
    said = classifier.predictions([classifier.tokens(t) for t in some])
    examples = [Example(t, label=p.label) for t, p in zip(some, said, strict=True)]
    chosen = [heedful.check(name, CHECKS[name]) for name in checks]
    methods = ["attention-mean", "gradient-x-input", "leave-one-out"] if "agreement" in checks else ["gradient-x-input"]
    heedful.audit(classifier, examples, methods, chosen, out=folder, seed=seed)
    return load_record(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """A model whose attention is the explanation, and one that does not listen to it; and the first on other texts."""
    place = tmp_path_factory.mktemp("runs")
    first, second = texts()[:N], texts()[N:]
    return {
        "pointer": made(place / "pointer", toys.POINTER, first),
        "deaf": made(place / "deaf", toys.DEAF, first),
        "mixed": made(place / "mixed", toys.POINTER, first, ("sign",), seed=1),
        "other": made(place / "other", toys.POINTER, second, ("permutation",)),
        "few": made(place / "few", toys.DEAF, first[:3], ("permutation",)),
    }


@pytest.fixture(scope="module")
def both(runs: dict[str, Record]) -> Document:
    return compare(runs["pointer"], runs["deaf"])


def one(report: Document, name: str) -> Section:
    (found,) = [s for s in (*report.answers, *report.sections) if s.name == f"compare-{name}"]
    return found


def with_compared(record: Record, check: str, *compared: SideBySide) -> Record:
    """The record of a check that sets other numbers side by side."""
    own = record.summary.checks[check]
    changed = replace(own, about=replace(own.about, compared=compared))
    return replace(record, summary=replace(record.summary, checks={**record.summary.checks, check: changed}))


# pairing


def test_paired_differences_are_those_of_the_texts(runs: dict[str, Record]) -> None:
    a, b = runs["pointer"], runs["deaf"]
    found = contrast(a, b, "permutation", match(a, b))
    x, y = (r.findings("permutation").values("tvd", "", EVERYWHERE) for r in (a, b))
    paired = stats.paired(x, y)
    assert found[0].difference is not None
    assert replace(found[0].difference, p_adjusted=None, decision=None) == paired
    assert found[0].difference.mean == pytest.approx(x.mean() - y.mean())


def test_holm_is_over_all_rows_of_a_section(runs: dict[str, Record]) -> None:
    a, b = runs["pointer"], runs["deaf"]
    found = contrast(a, b, "permutation", match(a, b))
    p = np.array([c.difference.p for c in found if c.difference is not None])
    adjusted = [c.difference.p_adjusted for c in found if c.difference is not None]
    np.testing.assert_array_equal(adjusted, stats.holm(p))


def test_texts_are_matched_in_any_order(runs: dict[str, Record]) -> None:
    a, b = runs["pointer"], runs["mixed"]
    places = match(a, b)
    left, right = (r.texts.column("text").to_pylist() for r in (a, b))
    assert places.same
    assert left != right
    assert [left[i] for i in places.a] == [right[i] for i in places.b]


def test_the_same_model_in_another_order_has_no_difference(runs: dict[str, Record]) -> None:
    """Signs of leave-one-out draw nothing, so that texts that were wrongly matched would show."""
    a, b = runs["pointer"], runs["mixed"]
    a = with_compared(a, "sign", SideBySide("agreement of signs", "", "signs", "gradient-x-input"))
    (found,) = contrast(a, b, "sign", match(a, b))
    assert found.difference is not None
    assert (found.difference.mean, found.difference.low, found.difference.high) == (0, 0, 0)


def test_a_shorter_run_is_paired_over_its_texts(runs: dict[str, Record]) -> None:
    report = compare(runs["pointer"], runs["few"])
    assert report.sentences[-1].startswith("3 texts in both runs: numbers are over these texts")


def test_equal_texts_are_matched_one_by_one(tmp_path: Path) -> None:
    twice = [texts()[0], texts()[0], texts()[1]]
    a, b = (made(tmp_path / name, toys.POINTER, some, ("sign",)) for name, some in (("a", twice), ("b", twice[1:])))
    places = match(a, b)
    assert places.same
    assert sorted(places.b) == [0, 1]
    assert len(set(places.a)) == 2


def test_other_texts_are_not_paired(runs: dict[str, Record]) -> None:
    a, b = runs["pointer"], runs["other"]
    report = compare(a, b)
    (found, *_) = contrast(a, b, "permutation", match(a, b))
    rows = [r.rows("permutation", "tvd", "", **EVERYWHERE)[0] for r in (a, b)]
    assert found.difference is not None
    assert replace(found.difference, p_adjusted=None, decision=None) == unpaired(*rows)
    assert report.sentences[-1] == f"The runs have different texts ({N} and {N}): differences are unpaired."
    assert "unpaired" in one(report, "permutation").findings[0]


# the interval of an unpaired difference


def rows_of(*samples: Any, kind: Any = "mean") -> list[Estimate]:
    return [stats.estimate(np.asarray(x, float), kind) for x in samples]


def test_normal_values_have_welchs_interval_at_least() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(0, 1, 40), rng.normal(0.3, 3, 90)
    found = unpaired(*rows_of(x, y))
    welch = scipy_stats.ttest_ind(x, y, equal_var=False)
    low, high = welch.confidence_interval(0.95)
    assert found.mean == pytest.approx(x.mean() - y.mean())
    assert found.low <= low + 1e-12
    assert found.high >= high - 1e-12
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.05 * (high - low))
    assert found.p == pytest.approx(welch.pvalue, abs=0.02)


def test_rates_have_newcombes_interval_at_least() -> None:
    """Newcombe 1998, Table II: 56/70 − 48/80 by his method 10 is 0.2 [0.0524, 0.3339]."""
    samples = [np.repeat([1, 0], (56, 14)), np.repeat([1, 0], (48, 32))]
    found = unpaired(*rows_of(*samples, kind="rate"))
    assert found.mean == pytest.approx(0.2)
    assert found.low <= 0.0524 + 5e-5
    assert found.high >= 0.3339 - 5e-5
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=0.012)


def many(samples: Any, rates: bool) -> list[Estimate]:
    """The estimates of all rows at once."""
    n, means, spread = samples.shape[1], samples.mean(1), samples.std(1)
    low, high = (
        zip(*(stats.wilson(int(k), n) for k in samples.sum(1)), strict=True) if rates else stats.mean_intervals(samples)
    )
    columns = zip(means, spread, low, high, strict=True)
    return [Estimate(n, 0, m, np.nan, s, a, b) for m, s, a, b in columns]


def test_many_summaries_are_those_of_each() -> None:
    x = np.random.default_rng(4).random((3, 40))
    for one, other in zip(many(x, False), rows_of(*x), strict=True):
        assert (one.n, one.mean, one.std, one.low, one.high) == pytest.approx(
            (other.n, other.mean, other.std, other.low, other.high)
        )


DRAWS: dict[str, Any] = {
    "normal": (lambda r, n: r.normal(0, 1, n), lambda r, n: r.normal(0, 4, n), 0.0),
    "skewed": (lambda r, n: r.exponential(1, n), lambda r, n: r.beta(2, 5, n), 1 - 2 / 7),
    "zeros": (lambda r, n: r.beta(2, 5, n) * (r.random(n) < 0.3), lambda r, n: r.random(n), 0.3 * 2 / 7 - 0.5),
    "rates": (lambda r, n: r.random(n) < 0.04, lambda r, n: r.random(n) < 0.1, -0.06),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_an_unpaired_interval_covers_the_truth(kind: str) -> None:
    """1,000 simulated pairs of runs of 40 and 80 texts; the standard error of a share of .95 is .007."""
    rng = np.random.default_rng(1)
    left, right, truth = DRAWS[kind]
    sides = [many(draw(rng, (1000, n)).astype(float), kind == "rates") for draw, n in ((left, 40), (right, 80))]
    found = [unpaired(a, b) for a, b in zip(*sides, strict=True)]
    assert 0.93 <= np.mean([f.low <= truth <= f.high for f in found]) <= 0.99


def test_p_is_below_the_level_where_the_interval_excludes_zero() -> None:
    rng = np.random.default_rng(2)
    for shift in np.linspace(0, 1.2, 40):
        found = unpaired(*rows_of(rng.exponential(1, 35), rng.exponential(1, 50) + shift))
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


def test_values_that_never_vary_are_as_sure_as_dealing_out_texts_allows() -> None:
    found = unpaired(*rows_of(np.ones(3), np.zeros(4)))
    assert (found.mean, found.low, found.high) == (1, 1, 1)
    assert found.p == pytest.approx(2 / 35)
    assert unpaired(*rows_of(np.ones(3), np.ones(4))).p == 1


def test_one_text_has_no_interval() -> None:
    found = unpaired(*rows_of([0.5], np.zeros(40)))
    assert found.mean == 0.5
    assert np.isnan([found.low, found.high, found.p]).all()


def test_turned_round_a_difference_has_the_other_sign() -> None:
    rng = np.random.default_rng(3)
    rows = rows_of(rng.exponential(1, 35), rng.random(50))
    one, other = unpaired(*rows), unpaired(*rows[::-1])
    assert (one.mean, one.low, one.high, one.p) == pytest.approx((-other.mean, -other.high, -other.low, other.p))


# the report


def test_the_model_that_listens_is_moved_far_more(both: Document, runs: dict[str, Record]) -> None:
    names = run_names(runs["pointer"], runs["deaf"])
    (said,) = [s for s in both.sentences if s.startswith("Shuffling")]
    assert said.startswith(
        f"Shuffling attention changes the output of {names[0]} far more than that of {names[1]}: TVD "
    )
    assert f"paired over {N} texts" in said


def test_the_first_sentence_is_about_agreement(both: Document) -> None:
    assert both.sentences[0].startswith("Attention of ") or "whether attention of" in both.sentences[0]


def headed(mean: float, low: float, high: float, n: int = 40, p: float = 0.001) -> Contrast:
    row = Row(n, 0, 0.5, 0.5, 0.1, 0.4, 0.6, measure="tau")
    return Contrast(
        heedful.CHECKS["agreement"].compared[0], row, row, *stats.decide([stats.Difference(n, mean, low, high, p)])
    )


@pytest.mark.parametrize(
    ("found", "begins"),
    [
        (headed(0.3, 0.21, 0.4), "Attention of A agrees with leave-one-out far more than that of B: τ"),
        (headed(0.3, 0.19, 0.4), "Attention of A agrees with leave-one-out more than that of B: τ"),
        (headed(-0.3, -0.4, -0.19), "Attention of A agrees with leave-one-out less than that of B: τ"),
        (headed(-0.3, -0.4, -0.21), "Attention of A agrees with leave-one-out far less than that of B: τ"),
        (
            headed(0.3, 0.2, 0.4, p=0.06),
            "This comparison does not decide whether attention of A agrees with leave-one-out more",
        ),
        (headed(0.3, 0.2, 0.4, n=29), "Too few texts to decide whether attention of A agrees"),
    ],
)
def test_headlines_say_no_more_than_is_decided(found: Contrast, begins: str) -> None:
    same = Matching(np.arange(40), np.arange(40), True)
    assert _headline(found, ("A", "B"), same).startswith(begins)


def test_the_table_has_the_numbers_of_the_summaries(both: Document, runs: dict[str, Record]) -> None:
    row = one(both, "permutation").tables[0].rows[0]
    means = [runs[name].rows("permutation", "tvd", "", **EVERYWHERE)[0].mean for name in ("pointer", "deaf")]
    assert [float(str(cell).split(" [")[0]) for cell in row[1:3]] == [pytest.approx(m, abs=0.006) for m in means]


def test_the_published_table_has_both_runs_side_by_side(both: Document, runs: dict[str, Record]) -> None:
    table = one(both, "agreement").tables[-1]
    assert table.title == "The published pairs, side by side"
    tables = [runs[name].tables("agreement", AgreementTables) for name in ("pointer", "deaf")]
    cells = [t.published[1].all for t in tables if t is not None]
    row = next(row for row in table.rows if row[:2] == ("attention-mean, leave-one-out", "all"))
    assert row[2::3] == tuple(f"{fixed(c.mean)} ± {fixed(c.std)}" for c in cells)
    assert row[3::3] == tuple(c.significant for c in cells)
    assert row[4::3] == tuple(c.n for c in cells)


def test_a_check_of_one_run_is_shown_with_dashes(runs: dict[str, Record]) -> None:
    report = compare(runs["pointer"], runs["other"])
    rows = one(report, "agreement").tables[0].rows
    assert rows
    assert all(row[1] is not None and row[2:] == (None,) * 5 for row in rows)
    assert one(report, "agreement").findings[0].endswith("not measured in both runs.")


def test_a_check_that_neither_has_has_no_section(both: Document) -> None:
    assert "compare-plausibility" not in [s.name for s in both.sections]


def test_too_few_texts_decide_nothing(runs: dict[str, Record]) -> None:
    report = compare(runs["pointer"], runs["few"])
    row = one(report, "permutation").tables[0].rows[0]
    assert row[4:] == ("3", None, "too few texts")
    assert any("Too few texts to decide whether" in s for s in report.sentences)


def test_means_are_over_the_texts_that_both_have(runs: dict[str, Record]) -> None:
    a, b = runs["pointer"], runs["few"]
    (found, *_) = contrast(a, b, "permutation", match(a, b))
    assert found.a is not None
    assert found.b is not None
    assert found.difference is not None
    assert found.texts == (3, 3)
    assert found.a.mean - found.b.mean == pytest.approx(found.difference.mean, abs=1e-12)
    assert found.a.mean != a.rows("permutation", "tvd", layer="all", head="all")[0].mean


def test_a_run_beside_itself_differs_in_nothing(runs: dict[str, Record]) -> None:
    report = compare(runs["pointer"], runs["pointer"])
    assert one(report, "differences").findings == (
        "Nothing: both runs have the same model, data, settings and versions.",
    )
    columns = [(row, [c.head for c in t.columns]) for s in report.sections for t in s.tables for row in t.rows]
    assert {row[names.index("difference")] for row, names in columns if "difference" in names} == {"0.00 [0.00, 0.00]"}


def test_what_differs_is_told(both: Document) -> None:
    (table,) = one(both, "differences").tables
    assert table.rows[0][0] == "the model's weights"


@pytest.mark.parametrize(
    ("change", "cells"),
    [
        (Change(("seed",), 0, 1), ("the seed", "0", "1")),
        (Change(("settings", "checks", "sign"), ABSENT, {}), ("check sign", None, "yes")),
        (Change(("settings", "checks", "sign"), {"top": 1}, ABSENT), ("check sign", "yes", None)),
        (Change(("model", "name"), "a then, b", "c now)"), ("the model's name", "a then, b", "c now)")),
        (Change(("settings", "checks", "sign", "top"), 1, ABSENT), ("setting checks.sign.top", "1", None)),
        (Change(("settings", "target"), None, 2), ("setting target", "null", "2")),
    ],
)
def test_differences_in_three_cells(change: Change, cells: tuple[str | None, ...]) -> None:
    assert _change_cells(change) == cells


def renamed(record: Record, name: str | None, labels: Sequence[str] = ("no", "yes")) -> Record:
    model = {**record.run.manifest.model, "name": name, "labels": list(labels)}
    return replace(record, run=replace(record.run, manifest=replace(record.run.manifest, model=model)))


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ("x/one", "x/two", ("one", "two")),
        ("x/one", "y/one", ("A", "B")),
        ("x" * 25, "two", ("A", "B")),
        (None, "two", ("A", "B")),
        ("<b>", "😀&", ("<b>", "😀&")),
    ],
)
def test_names_are_short_and_differ(runs: dict[str, Record], a: str | None, b: str, names: tuple[str, str]) -> None:
    assert run_names(renamed(runs["pointer"], a), renamed(runs["deaf"], b)) == names


def test_other_labels_are_noted(runs: dict[str, Record]) -> None:
    a, b = renamed(runs["pointer"], "a"), renamed(runs["deaf"], "b", [f"label {i}" for i in range(10)])
    assert any("different labels" in limit for limit in _limits(a, b, match(runs["pointer"], runs["deaf"])))


def test_verdicts_stand_side_by_side(runs: dict[str, Record]) -> None:
    def judged(record: Record, *words: str) -> Record:
        answers = tuple(
            Answer(q, "undecided", 40, share=i / 4, low=0.2, high=np.nan if i else 0.3) for i, q in enumerate(QUESTIONS)
        )
        verdicts = {
            f"reading {i}": Verdict(word, Reason.CONSTANT, "a", answers)  # type: ignore[arg-type]
            for i, word in enumerate(words)
        }
        return replace(record, summary=replace(record.summary, verdicts=verdicts))

    found = one(
        compare(judged(runs["pointer"], "explanation", "undecided"), judged(runs["deaf"], "not explanation")),
        "verdicts",
    )
    assert found.tables[0].rows[:4] == (
        ("verdict by reading 0", "explanation", "not explanation"),
        ("verdict by reading 1", "undecided", None),
        ("Q1 points, share", "0 % [20, 30]", "0 % [20, 30]"),
        ("Q2 matters, share", None, None),  # not determined: it has no upper limit
    )
    assert found.findings[1].endswith(
        ": not explanation (reading 0): attention is nearly uniform: it ranks no word above another."
    )


def test_runs_without_a_verdict_say_so(runs: dict[str, Record]) -> None:
    bare = [replace(r, summary=replace(r.summary, verdicts={})) for r in list(runs.values())[:2]]
    assert one(compare(*bare), "verdicts").findings == ("Neither run has a verdict.",)


def test_figures_and_tables_have_names_of_their_own(both: Document) -> None:
    for kind in ("figures", "tables"):
        names = [piece.name for s in (*both.answers, *both.sections) for piece in getattr(s, kind)]
        assert len(set(names)) == len(names)


def test_figures_show_both_series(both: Document, runs: dict[str, Record]) -> None:
    (figure,) = one(both, "permutation").figures
    assert all(name in figure.alt for name in run_names(runs["pointer"], runs["deaf"]))
