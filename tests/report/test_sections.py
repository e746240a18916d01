"""Sections: what they say and draw is what the run has, number by number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.audits.record import Record, load_record
from heedful.audits.summary import Row, Summary
from heedful.checks.tables import (
    AdversarialTables,
    AgreementTables,
    Curve,
    ErasureTables,
    IdentifiabilityTables,
    PermutationTables,
    PlausibilityTables,
)
from heedful.core.finding import EVERYWHERE
from heedful.data import Example
from heedful.maths.stats import Decision, Difference, Estimate
from heedful.methods import method
from heedful.report import phrases
from heedful.report.document import Section
from heedful.report.sections import (
    adversarial,
    agreement,
    attention_changes,
    erasure,
    general_section,
    input_erasure,
    parts,
    permutation,
    randomisation,
    sections,
)
from heedful.report.sections import section as section_of
from heedful.report.sections.parts import NO_NUMBERS
from tests.support import toys

SMALL: dict[str, dict[str, Any]] = {
    "permutation": {"draws": 9, "layer_draws": 3, "head_draws": 1},
    "adversarial": {"steps": 10, "candidates": 2},
    "identifiability": {"starts": 1},
    "erasure": {"draws": 2, "orders": 3},
    "input-erasure": {"points": 4, "greedy_words": 6, "exhaustive_words": 5},
    "infidelity": {"samples": 8},
    "sensitivity": {"limit": 1, "texts": 2},
    "randomisation": {"stages": 3, "texts": 2},
    "stability": {"seeds": 1, "texts": 2},
}
ON_ATTENTION = ("permutation", "uniform", "adversarial", "identifiability", "erasure")
N = 7
ENDS = ("mean", "low", "high")
HOSTILE = '<b>&"name" 😀'
INTERVAL = re.compile(r"(−?[\d,]+(?:\.\d+)?(?:e−\d+)?) \[(−?[\d,.]+(?:e−\d+)?), (−?[\d,.]+(?:e−\d+)?)\]")


def made(architecture: str, n: int, checks: Any, folder: Any) -> Record:
    classifier = toys.build(architecture, toys.mix(0.5))
    texts = list(dict.fromkeys(toys.texts(3 * n, shortest=3, longest=8)))[:n]
    said = classifier.predictions([classifier.tokens(t) for t in texts])
    # one label is wrong, so that accuracy is not one
    labels = [classifier.labels[(p.index + (i == 0)) % 2] for i, p in enumerate(said)]
    marked = [(0, len(t.split()[0])) for t in texts]
    examples = [Example(t, label=label, rationale=(m,)) for t, label, m in zip(texts, labels, marked, strict=True)]
    methods: list[Any] = ["attention-mean", "leave-one-out", method("integrated-gradients", {"steps": 4})]
    heedful.audit(classifier, examples, methods, [heedful.check(c, SMALL.get(c)) for c in checks], out=folder)
    return load_record(folder)


@pytest.fixture(scope="module")
def bilstm(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Every check, on a network with one query."""
    return made("bilstm", N, heedful.CHECKS, tmp_path_factory.mktemp("runs") / "bilstm")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The checks of attention, on a Transformer with two layers."""
    return made("bert", 4, ON_ATTENTION, tmp_path_factory.mktemp("runs") / "bert")


def changed(record: Record, change: Callable[[dict[str, Any]], object]) -> Record:
    """The record with another summary."""
    summary = record.summary.to_dict()
    change(summary)
    return replace(record, summary=Summary.from_dict(summary))


def numbers(tree: Any) -> Iterator[dict[str, Any]]:
    """Everything in a summary that has a mean."""
    if isinstance(tree, dict):
        if "mean" in tree:
            yield tree
        for value in tree.values():
            yield from numbers(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from numbers(value)


WHOLE: dict[int, tuple[Section, ...]] = {}


def whole(record: Record) -> tuple[Section, ...]:
    """All sections of a run, made once."""
    if id(record) not in WHOLE:
        WHOLE[id(record)] = sections(record)
    return WHOLE[id(record)]


def section(record: Record, name: str) -> Section:
    return section_of(record, name)


def caught(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """What a chart is given."""
    given: list[Any] = []
    real = getattr(module, name)

    def chart(words: Any, *rest: Any, **more: Any) -> Any:
        given.append((words, *rest))
        return real(words, *rest, **more)

    monkeypatch.setattr(module, name, chart)
    return given


def unit(written_: str) -> float:
    """One of the last digit: unit("0.36") -> 0.01, unit("1.2e-7") -> 1e-8."""
    digits, _, power = written_.partition("e")
    return float(10.0 ** (int(power or 0) - len(digits.partition(".")[2])))


def row(record: Record, check: str, measure: str, named: str = "", at: Any = None) -> Any:
    (one,) = [r for r in record.rows(check, measure, named) if r.at == (at or {})]
    return one


def written(one: Any) -> str:
    """An interval of two digits, written in another way."""
    return "{:.2f} [{:.2f}, {:.2f}]".format(*(x + 0.0 for x in (one.mean, one.low, one.high))).replace("-", "−")


# numbers


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (0.364, "0.36"),
        (-0.25, "−0.25"),
        (-0.0, "0.00"),
        (0.0812, "0.081"),
        (1234.4, "1,234"),
        (12.34, "12.3"),
        (1.2e-7, "1.2e−7"),
        (-1.2e-7, "−1.2e−7"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
    ],
)
def test_a_number_is_short_and_has_a_true_minus(x: float | None, said: str) -> None:
    assert phrases.number(x) == said


@pytest.mark.parametrize(
    ("mean", "low", "high", "said"),
    [
        (0.36, 0.3, 0.42, "0.36 [0.30, 0.42]"),
        (-0.27, -0.38, -0.14, "−0.27 [−0.38, −0.14]"),
        (-0.07, -0.15, -0.0035, "−0.070 [−0.150, −0.004]"),
        (-0.0001, -0.02, 0.02, "0.000 [−0.020, 0.020]"),
        (0.0, 0.0, 0.0, "0.00 [0.00, 0.00]"),
        (0.5, None, None, "0.50"),
        (None, None, None, "–"),
    ],
)
def test_an_interval_has_as_many_digits_as_it_needs(mean: Any, low: Any, high: Any, said: str) -> None:
    given = Estimate(40, 0, *(np.nan if x is None else x for x in (mean, mean, 0.0, low, high)))
    assert phrases.interval(given) == said


@pytest.mark.parametrize(("n", "few"), [(29, True), (30, False)])
def test_below_thirty_texts_nothing_is_decided(n: int, few: bool) -> None:
    assert phrases.cautious("It is so.", n).startswith("Too few texts to decide") == few


@pytest.mark.parametrize(
    ("mean", "low", "high", "said"),
    [
        (0.85, 0.74, 0.92, "85 % [74, 92]"),
        (0.5, None, None, "50 %"),
        (-0.02, -0.1, 1.2, "−2 % [−10, 120]"),
        (0.475, 0.325, 0.625, "47 % [33, 62]"),  # as tables have them: 0.47, 0.33 and 0.62
    ],
)
def test_a_share_and_its_limits_are_percentages(mean: float, low: Any, high: Any, said: str) -> None:
    assert phrases.percent(mean, low, high) == said


def method_row(name: str, mean: float, n: int = 40, versus: tuple[Decision, bool | None] | None = None) -> Row:
    difference = versus and Difference(n, 0.1, 0.0, 0.2, 0.01, 0.01, *versus)
    own = Estimate(n, 0, mean, mean, 0.1, mean - 0.1, mean + 0.1)
    return Row(**vars(own), check="c", measure="m", method=name, versus_random=difference)


def test_a_spread_goes_from_the_lowest_method_to_the_highest() -> None:
    rows = [method_row(name, x) for name, x in {"a": 0.5, "b": 0.2, "c": 0.7, "random": 0.1, "position": 0.9}.items()]
    said = "It: from 0.20 [0.10, 0.30] (b) to 0.70 [0.60, 0.80] (c); random 0.10 [0.00, 0.20] (40 texts)."
    assert parts.extremes("it", rows) == said


def test_methods_that_share_an_end_are_counted() -> None:
    rows = [method_row(name, x) for name, x in {"a": 0.2, "b": 0.2, "c": 0.7}.items()]
    assert (
        parts.extremes("it", rows) == "It: from 0.20 [0.10, 0.30] (a and 1 more) to 0.70 [0.60, 0.80] (c) (40 texts)."
    )


def test_methods_that_are_all_alike_have_one_number() -> None:
    assert parts.extremes("it", [method_row("a", 0.2), method_row("b", 0.2)]) == (
        "It: 0.20 [0.10, 0.30] (a and 1 more) (40 texts)."
    )


def test_a_mean_over_other_texts_is_not_compared() -> None:
    rows = [method_row("a", 0.5), method_row("b", 0.2, n=10)]
    assert parts.extremes("it", rows) == "It: 0.50 [0.40, 0.60] (a) (40 texts)."


def test_methods_are_counted_by_what_may_be_said_of_them() -> None:
    given: dict[str, tuple[Decision, bool | None]] = {
        "a": (Decision.HIGHER, True),
        "b": (Decision.NOT_SIGNIFICANT, None),
        "c": (Decision.LOWER, False),
        "uniform": (Decision.LOWER, False),
    }
    rows = [method_row(name, 0.5, versus=versus) for name, versus in given.items()]
    assert parts.tally_methods(rows) == (
        "1 of 3 methods (a) is better than random; 1 of 3 methods (c) is worse than random; 1 of 3 methods (b) is not "
        "significantly different from random (paired over texts, Holm-corrected, p ≤ .05)."
    )


def test_methods_of_a_measure_that_has_no_better_way_are_higher_or_lower() -> None:
    rows = [method_row("a", 0.5, versus=(Decision.HIGHER, None)), method_row("b", 0.5, versus=(Decision.LOWER, None))]
    assert str(parts.tally_methods(rows)).startswith(
        "1 of 2 methods (a) is higher than random; 1 of 2 methods (b) is lower than random"
    )


def test_nothing_is_counted_below_thirty_texts() -> None:
    assert parts.tally_methods([method_row("a", 0.5, 20, (Decision.TOO_FEW, None))]) is None


@pytest.mark.parametrize(
    ("versus", "mark"),
    [
        ((Decision.HIGHER, True), ""),
        ((Decision.LOWER, False), " worse"),
        ((Decision.NOT_SIGNIFICANT, None), "*"),
        ((Decision.TOO_FEW, None), "?"),
        (None, ""),
    ],
)
def test_every_decision_against_random_has_its_mark(versus: tuple[Decision, bool | None] | None, mark: str) -> None:
    assert phrases.mark(method_row("a", 0.5, versus=versus)) == mark


@pytest.mark.parametrize(
    ("at", "name"),
    [
        ({"layer": "none"}, "unchanged"),
        ({"layer": "all", "head": "all"}, "everywhere"),
        ({"layer": 2, "head": "all"}, "layer 2"),
        ({"head": 0, "layer": 2}, "layer 2 head 0"),
        ({"layer": "sentence", "head": "all"}, "sentences"),
        ({"activation": "sparsemax"}, "sparsemax"),
        ({}, ""),
    ],
)
def test_a_place_has_a_name(at: dict[str, Any], name: str) -> None:
    assert phrases.place_name(at) == name


# every section


def test_checks_of_the_model_come_first_and_otherwise_the_runs_order_is_kept(bilstm: Record) -> None:
    of_the_model = ["permutation", "uniform", "adversarial", "identifiability"]
    rest = [name for name in heedful.CHECKS if name not in of_the_model]
    assert [s.name for s in whole(bilstm)] == [*of_the_model, *rest]


def test_every_section_is_under_the_words_of_its_check(bilstm: Record) -> None:
    for one in whole(bilstm):
        check = heedful.CHECKS[one.name]
        assert (one.title, one.question, one.reading) == (check.title, check.question, check.reading)


def test_a_section_of_a_package_that_is_not_installed_is_plain(bilstm: Record) -> None:
    def elsewhere(summary: dict[str, Any]) -> None:
        summary["checks"]["sign"]["about"]["section"] = "not_installed.here.sections"

    assert section(changed(bilstm, elsewhere), "sign") == general_section(bilstm, "sign")


def test_a_check_that_was_not_run_is_left_out(bert: Record) -> None:
    assert [s.name for s in whole(bert)] == list(ON_ATTENTION)


def test_every_section_asks_answers_and_names_its_source(bilstm: Record) -> None:
    for one in whole(bilstm):
        assert one.question.endswith("?")
        assert one.reading.endswith(".")
        assert one.figures
        assert one.tables
        assert all(sentence.endswith(".") for sentence in one.findings)
        assert one.source == bilstm.about(one.name).paper.strip("–")


def test_every_answer_says_that_texts_are_too_few(bilstm: Record) -> None:
    assert [s.name for s in whole(bilstm) if not s.findings[0].startswith("Too few texts to decide (n = ")] == []


def test_enough_texts_are_not_called_too_few(bilstm: Record) -> None:
    def more(summary: dict[str, Any]) -> None:
        for one in numbers(summary["checks"]):
            one["n"] = 64

    told = [s for s in sections(changed(bilstm, more)) if s.name not in ("identifiability", "erasure")]
    assert [s.name for s in told if "Too few" in " ".join(s.findings)] == []


def test_names_of_figures_and_tables_are_unlike_and_fit_for_files(bilstm: Record, bert: Record) -> None:
    for record in (bilstm, bert):
        names = [name for s in whole(record) for name in [*(f.name for f in s.figures), *(t.name for t in s.tables)]]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


def test_every_row_of_a_table_has_a_cell_for_every_column(bilstm: Record, bert: Record) -> None:
    for table in (t for record in (bilstm, bert) for s in whole(record) for t in s.tables):
        assert table.rows
        assert {len(r) for r in table.rows} == {len(table.columns)}


def test_every_interval_that_is_told_stands_in_the_summary(bilstm: Record, bert: Record) -> None:
    for record in (bilstm, bert):
        known = np.array(
            [
                [x[k] for k in ENDS]
                for x in numbers(record.summary.to_dict())
                if all(isinstance(x.get(k), float) for k in ENDS)
            ]
        )
        made_ = whole(record)
        told = [sentence for s in made_ for sentence in s.findings]
        told += [c for s in made_ for t in s.tables for r in t.rows for c in r if isinstance(c, str)]
        seen = [found for words in told for found in INTERVAL.findall(words)]
        assert len(seen) > 50
        for found in seen:
            plain_ = [x.replace("−", "-").replace(",", "") for x in found]
            near = np.abs(known - [float(x) for x in plain_]) <= 0.501 * np.array([unit(x) for x in plain_])
            assert near.all(1).any(), found


def test_a_run_without_tables_still_has_sections(bilstm: Record) -> None:
    def bare(summary: dict[str, Any]) -> None:
        for check in summary["checks"].values():
            check["tables"] = {}

    assert len(sections(changed(bilstm, bare))) == len(heedful.CHECKS)


def test_where_no_number_exists_nothing_is_told(bilstm: Record) -> None:
    def empty(summary: dict[str, Any]) -> None:
        for check in summary["checks"].values():
            check["tables"] = {}
            for one in check["rows"]:
                one |= {"mean": None, "low": None, "high": None, "n": 0}
                one["versus_random"] = None

    for one in sections(changed(bilstm, empty)):
        assert one.findings == (NO_NUMBERS,)


def test_one_text_has_numbers_without_limits(tmp_path: Any) -> None:
    record = made("bilstm", 1, ("permutation", "uniform", "adversarial", "complexity"), tmp_path / "run")
    answers = {s.name: s.findings[0] for s in sections(record)}
    tvd = row(record, "permutation", "tvd", at=EVERYWHERE).mean
    assert f"changes the output by {phrases.number(tvd)} (TVD" in answers["permutation"]
    assert "mean over 1 text)" in answers["permutation"]


# a check that has no words here


def other(record: Record) -> Record:
    rows = [asdict(method_row(name, mean)) for name, mean in ((HOSTILE, 0.5), ("random", 0.1), ("x" * 300, 0.2))]
    placed = [row | {"at": {"layer": 1}} for row in rows]
    check = {"about": {"summary": "whether it is so", "paper": "A & B 2020"}, "rows": placed, "tables": {}}
    return changed(record, lambda summary: summary["checks"].update({"my <check>": check}))


def test_an_unknown_check_comes_last_with_all_its_rows(bilstm: Record) -> None:
    last = sections(other(bilstm))[-1]
    assert (last.name, last.question, last.source) == ("my <check>", "Whether it is so", "A & B 2020")
    assert [r[1] for r in last.tables[0].rows] == [HOSTILE, "random", "x" * 300]
    assert next(r[3:7] for r in last.tables[0].rows) == pytest.approx((40, 0.5, 0.4, 0.6))


def test_names_from_outside_are_escaped_in_figures(bilstm: Record) -> None:
    (figure,) = general_section(other(bilstm), "my <check>").figures
    assert "<b>" not in figure.svg
    assert "&lt;b&gt;&amp;" in figure.svg
    assert figure.name == "my-check-first"


# attention shuffled


def test_the_answer_to_shuffling_is_the_summarys(bilstm: Record) -> None:
    tvd, flip = (row(bilstm, "permutation", name, at=EVERYWHERE) for name in ("tvd", "flip"))
    said = section(bilstm, "permutation").findings[0]
    assert (
        f"changes the output by {written(tvd)} (TVD, median over 9 shuffles of each text; mean over {N} texts)" in said
    )
    assert f"changes the label in {phrases.interval(flip)} of the shuffles" in said


def test_violins_are_the_medians_of_the_summarys_table(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, permutation, "violins")
    section(bilstm, "permutation")
    groups = {(g.label, g.series): g.values for g in given[0][1]}
    tables = bilstm.tables("permutation", PermutationTables)
    assert tables is not None
    assert {key: (len(v), float(np.median(v))) for key, v in groups.items()} == {
        (f"{r.start:g}–{r.end:g}", r.label): (r.n, r.median) for r in tables.by_peak if r.n
    }


def test_many_labels_share_a_violin(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, permutation, "violins")
    monkeypatch.setattr(Record, "labels", property(lambda _: tuple("abcdefghij")))
    permutation.section(replace(bilstm))
    assert {g.series for g in given[0][1]} == {""}
    assert sum(len(g.values) for g in given[0][1]) == N


def test_accuracy_begins_with_the_model_as_it_is(bert: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, parts, "dots")
    section(bert, "permutation")
    tables = bert.tables("permutation", PermutationTables)
    assert tables is not None
    assert [mark.label for mark in given[0][1]] == ["unchanged", "everywhere", "layer 0", "layer 1"]
    assert {mark.label: mark.mean for mark in given[0][1]} == {
        phrases.place_name(r.at): r.mean for r in tables.accuracy
    }


@pytest.mark.parametrize(
    ("n", "low", "high", "said"),
    [
        (40, -0.3, -0.1, "Accuracy falls from"),
        (40, 0.1, 0.3, "Accuracy rises from"),
        (40, -0.1, 0.1, "Accuracy does not change significantly: from"),
        (20, -0.3, -0.1, "Too few texts to decide (n = 20). Accuracy changes from"),
    ],
)
def test_accuracy_falls_where_the_interval_of_its_change_does(
    bilstm: Record, n: int, low: float, high: float, said: str
) -> None:
    def change(summary: dict[str, Any]) -> None:
        after = summary["checks"]["permutation"]["tables"]["accuracy"][-1]
        after["at"] = dict(EVERYWHERE)
        after["change"] |= {"n": n, "low": low, "high": high, "mean": (low + high) / 2}

    tables = changed(bilstm, change).tables("permutation", PermutationTables)
    assert tables is not None
    sentence = attention_changes.accuracy_sentence(tables.accuracy)
    assert sentence is not None
    assert sentence.startswith(said)
    assert ("not change significantly" in sentence) == (low < 0 < high)


def test_heads_are_the_ones_whose_shuffling_flips_most(bert: Record) -> None:
    def headed(summary: dict[str, Any]) -> None:
        own = {"check": "permutation", "measure": "flip", "n": 40, "missing": 0, "median": 0.0, "std": 0.0}
        summary["checks"]["permutation"]["rows"] += [
            own | {"at": {"layer": i // 6, "head": i % 6}, "mean": i / 12, "low": i / 12 - 0.01, "high": i / 12 + 0.01}
            for i in range(12)
        ]

    (table,) = [t for t in section(changed(bert, headed), "permutation").tables if t.name == "permutation-heads"]
    assert table.rows[0] == ("1", "5", 40, "0.92 [0.91, 0.93]")
    assert len(table.rows) == permutation.MAX_HEADS
    assert f"The {permutation.MAX_HEADS} of 12 heads" in table.caption


# adversarial attention


def test_the_histogram_is_the_summarys(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, adversarial, "histogram")
    section(bilstm, "adversarial")
    _, series, marks = given[0]
    tables = bilstm.tables("adversarial", AdversarialTables)
    assert tables is not None
    for (table,), kind in ((tables.exact, "exact"), (tables.found, "found by search")):
        assert series[kind][0] == pytest.approx(table.bins)
        assert tuple(series[kind][1].tolist()) == table.counts
    assert marks == {"mean, exact": row(bilstm, "adversarial", "jsd exact").mean}


def test_the_exact_adversary_is_told_with_its_tolerance(bilstm: Record) -> None:
    said = section(bilstm, "adversarial").findings[0]
    for measure in ("jsd exact", "tvd exact"):
        assert phrases.interval(row(bilstm, "adversarial", measure)) in said
    assert "by at most ε = 0.05" in said


def test_bounds_are_told_where_nothing_is_exact(bilstm: Record) -> None:
    def bounded(summary: dict[str, Any]) -> None:
        rows = summary["checks"]["adversarial"]["rows"]
        (one,) = [r for r in rows if r["measure"] == "jsd exact"]
        rows.remove(one)
        rows += [one | {"measure": "jsd lower", "mean": 0.2}, one | {"measure": "jsd upper", "mean": 0.6}]

    said = section(changed(bilstm, bounded), "adversarial").findings[0]
    assert "at least 0.20 [" in said
    assert "at most 0.60 [" in said


def test_witnesses_are_told_for_each_delta(bert: Record) -> None:
    one = section(bert, "adversarial")
    deltas = (0.0, 0.05)
    rows = [row(bert, "adversarial", "tvd any head", at={"layer": 1, "delta": d}) for d in deltas]
    assert [phrases.interval(r) in sentence for r, sentence in zip(rows, one.findings, strict=True)] == [True, True]
    assert [r[2] for r in one.tables[0].rows] == [phrases.interval(r) for r in rows]


def test_the_last_layer_is_the_highest_number(bert: Record) -> None:
    def later(summary: dict[str, Any]) -> None:
        rows = summary["checks"]["adversarial"]["rows"]
        own = [r for r in rows if r["measure"] == "tvd any head"]
        rows += [r | {"at": r["at"] | {"layer": layer}} for r in own for layer in (9, 10)]

    assert "In layer 10, a row of attention" in section(changed(bert, later), "adversarial").findings[0]


def test_identifiability_counts_texts_with_a_free_direction(bilstm: Record) -> None:
    found = bilstm.findings("identifiability").values("null constrained", at={"layer": 0, "head": 0})
    said = section(bilstm, "identifiability").findings[0]
    assert f"not identifiable on {(found > 0).sum()} of {N} texts" in said


def test_lengths_are_groups_of_the_summary(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, parts, "dots")
    section(bilstm, "identifiability")
    tables = bilstm.tables("identifiability", IdentifiabilityTables)
    assert tables is not None
    assert [m.mean for m in given[0][1]] == [r.null_constrained.mean for r in tables.by_length]
    assert given[0][1][-1].label.endswith(f"{tables.by_length[-1].end:.0f} tokens")


# attention erased


def test_points_are_the_texts(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, erasure, "scatter")
    section(bilstm, "erasure")
    found = bilstm.findings("erasure")
    assert given[0][1].tolist() == found.values("alpha difference", "attention").tolist()
    assert given[0][2].mean() == pytest.approx(row(bilstm, "erasure", "delta js", "attention").mean)


def test_boxes_are_the_summarys_and_say_who_never_flips(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, erasure, "boxes")
    section(bilstm, "erasure")
    tables = bilstm.tables("erasure", ErasureTables)
    assert tables is not None
    drawn = given[0][1]
    assert {b.label: (*b.numbers, b.n, b.note, len(b.outliers)) for b in drawn} == {
        name: (r.low, r.lower, r.median, r.upper, r.high, r.n, f"never: {r.never}", r.outliers)
        for name, r in tables.fractions.items()
        if r.n
    }
    assert all(not b.low <= x <= b.high for b in drawn for x in b.outliers)


def test_flips_are_two_by_two_and_add_up_to_all_texts(bilstm: Record) -> None:
    table = section(bilstm, "erasure").tables[0]
    tables = bilstm.tables("erasure", ErasureTables)
    assert tables is not None
    changes, does_not = table.rows[:2]
    flips = tables.flips["attention"]
    assert (changes[:3], does_not[:3]) == (("attention", N, "changes"), ("attention", N, "does not"))
    assert changes[3:] == pytest.approx((100 * flips.both / N, 100 * flips.only_top / N))
    assert does_not[3:] == pytest.approx((100 * flips.only_random / N, 100 * flips.neither / N))
    for one, other in zip(table.rows[::2], table.rows[1::2], strict=True):
        assert one[0] == other[0]
        assert sum(one[3:] + other[3:]) == pytest.approx(100)  # type: ignore[arg-type]


def test_the_second_weight_and_uniform_attention_are_said(bilstm: Record) -> None:
    *_, second, uniform = section(bilstm, "erasure").findings
    for measure, said in (("delta js second", second), ("js from uniform", uniform), ("kl from uniform", uniform)):
        assert phrases.interval(row(bilstm, "erasure", measure, "attention")) in said


def test_who_needs_fewer_items_is_told_from_attentions_side(bilstm: Record) -> None:
    def turned(summary: dict[str, Any]) -> None:
        one = {"a_fewer": 7, "b_fewer": 2, "equal": 0, "never": 0, "n": 40, "p": 0.18}
        summary["checks"]["erasure"]["tables"]["fewer"] = [
            {"a": "attention", "b": "random"} | one,
            {"a": "attention-x-slope", "b": "attention"} | one,
        ]

    said = section(changed(bilstm, turned), "erasure").findings
    assert "Attention needs fewer items than random on 7 and more on 2 of 40 texts" in said[-4]
    assert "Attention needs fewer items than attention-x-slope on 2 and more on 7 of 40 texts" in said[-3]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.1, 0.2, "changes the output more"),
        (-0.2, -0.1, "changes the output less"),
        (-0.1, 0.1, "does not change the output significantly more or less"),
    ],
)
def test_the_top_item_matters_more_where_the_interval_says_so(
    bilstm: Record, low: float, high: float, said: str
) -> None:
    def change(summary: dict[str, Any]) -> None:
        for one in summary["checks"]["erasure"]["rows"]:
            if (one["measure"], one["method"]) == ("delta js", "attention"):
                one |= {"n": 40, "low": low, "high": high, "mean": (low + high) / 2}

    assert said in section(changed(bilstm, change), "erasure").findings[0]


@pytest.mark.parametrize(("p", "said"), [(0.5, "0.50"), (0.0042, "0.004"), (5.8e-11, "5.8e−11"), (1.0, "1.00")])
def test_small_p_are_not_zero(p: float, said: str) -> None:
    assert phrases.p_value(p) == said


# words erased


def test_curves_are_the_rows_of_the_summary(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, input_erasure, "lines")
    section(bilstm, "input-erasure")
    assert len(given) == 2  # maskings
    for words, lines, *_ in given:
        way = {"masking": words.name.rsplit("-", 1)[1]}
        for line in lines:
            name = line.label.split(" (")[0]
            rows = [row(bilstm, "input-erasure", "curve", name, way | {"removed": x}) for x in line.x]
            assert line.mean == pytest.approx([r.mean for r in rows])
            assert line.low == pytest.approx([r.low for r in rows])
            assert line.faint == (name in ("random", "uniform", "position", "greedy"))


def test_a_bound_over_fewer_texts_says_so(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, input_erasure, "lines")
    section(bilstm, "input-erasure")
    n = row(bilstm, "input-erasure", "deletion", "greedy", {"masking": "delete"}).n
    assert 0 < n < N
    assert f"greedy (n = {n})" in [line.label for line in given[0][1]]


def test_a_method_is_beside_random_in_the_table(bilstm: Record) -> None:
    table = section(bilstm, "input-erasure").tables[0]
    (own,) = [r for r in table.rows if r[0] == "attention-mean"]
    told = row(bilstm, "input-erasure", "aopc comprehensiveness", "attention-mean", {"masking": "delete"})
    assert own[2] == phrases.interval(told) + "?"  # too few texts
    assert [r[0] for r in table.rows][-2:] == ["greedy", "optimum"]


@pytest.mark.parametrize(("tau", "warned"), [(0.79, True), (0.8, False)])
def test_an_order_that_depends_on_the_masking_is_a_warning(bilstm: Record, tau: float, warned: bool) -> None:
    given = changed(
        bilstm,
        lambda s: s["checks"]["input-erasure"]["tables"].update(agreement=[{"a": "delete", "b": "mask", "tau": tau}]),
    )
    sentence = f"The ranking of methods depends on the masking: τ = {tau:.2f} between delete and mask."
    assert (section(given, "input-erasure").findings[-1] == sentence) == warned


def test_a_curve_that_is_no_probability_has_its_own_limits(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, input_erasure, "lines")
    section(bilstm, "input-erasure")
    assert given[0][2] == (0.0, 1.0)

    def regressed(summary: dict[str, Any]) -> None:
        curve = asdict(Curve((0.0, 1.0), (3.0, -1.0), (2.0, -2.0), (4.0, 0.0)))
        summary["checks"]["input-erasure"]["tables"]["curves"]["delete"]["attention-mean"] = curve

    given.clear()
    section(changed(bilstm, regressed), "input-erasure")
    assert given[0][2] is None


# agreement


def test_the_matrix_is_the_summarys_without_methods_that_have_none(
    bilstm: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = caught(monkeypatch, agreement, "matrix")
    section(bilstm, "agreement")
    _, names, values = given[0]
    tables = bilstm.tables("agreement", AgreementTables)
    assert tables is not None
    places = [tables.matrix.methods.index(name) for name in names]
    assert "uniform" not in names
    assert "attention-mean" in names
    np.testing.assert_array_equal(values, [[tables.matrix.tau[i][j] for j in places] for i in places])


def test_a_histogram_of_tau_has_a_series_for_each_predicted_label(
    bilstm: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = caught(monkeypatch, agreement, "histogram")
    section(bilstm, "agreement")
    tables = bilstm.tables("agreement", AgreementTables)
    assert tables is not None
    assert len(given) == len(tables.published) >= 3
    for (_, series, marks), row in zip(given, tables.published, strict=True):
        assert marks == {"mean": row.all.mean}
        counts = {label: int(np.sum(n)) for label, (_, n) in series.items()}
        assert counts == {label: row.classes[label].n if label in row.classes else 0 for label in bilstm.labels}
        assert all(len(edges) == 31 for edges, _ in series.values())


def test_a_pair_is_found_under_either_name(bilstm: Record) -> None:
    one = agreement.pair(bilstm, "tau", "leave-one-out", "attention-mean")
    assert one is not None
    assert one == agreement.pair(bilstm, "tau", "attention-mean", "leave-one-out")
    assert f"τ = {phrases.interval(one)} with leave-one-out" in section(bilstm, "agreement").findings[0]


def test_the_words_that_took_part_are_named_where_they_were_not_all(bilstm: Record) -> None:
    def half(summary: dict[str, Any]) -> None:
        (seen,) = [row for row in summary["checks"]["agreement"]["rows"] if row["measure"] == "attended words"]
        seen |= {"mean": 0.5, "low": 0.4, "high": 0.6}

    sentence = "Only words that attention can point at are ranked: a share of 0.50 [0.40, 0.60] of the words of a text."
    assert sentence not in section(bilstm, "agreement").findings
    assert section(changed(bilstm, half), "agreement").findings[1] == sentence


def test_the_ceiling_is_told(bilstm: Record) -> None:
    tables = bilstm.tables("agreement", AgreementTables)
    assert tables is not None
    assert tables.ceiling is not None
    own = agreement.pair(bilstm, "tau", "gradient-x-input", "leave-one-out")
    assert own is not None
    assert own.mean == pytest.approx(tables.ceiling.all.mean)
    assert f"have τ = {phrases.interval(own)}" in section(bilstm, "agreement").findings[1]


def test_the_published_pairs_are_told_by_label(bilstm: Record) -> None:
    table = section(bilstm, "agreement").tables[0]
    tables = bilstm.tables("agreement", AgreementTables)
    assert tables is not None
    first = tables.published[0]
    assert [r[1] for r in table.rows[:3]] == ["all", *first.classes]
    assert table.rows[0][2:] == (first.all.n, first.all.missing, first.all.mean, first.all.std, first.all.significant)


# methods


@pytest.mark.parametrize(
    ("check", "measure"),
    [
        ("sign", "violation"),
        ("completeness", "gap"),
        ("infidelity", "correlation"),
        ("complexity", "effective words"),
        ("plausibility", "auprc"),
        ("cost", "forwards"),
    ],
)
def test_dots_are_the_means_of_the_summary(
    check: str, measure: str, bilstm: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = caught(monkeypatch, parts, "dots")
    section(bilstm, check)
    marks = {m.label: (m.mean, m.low, m.high) for m in given[0][1]}
    assert marks == {r.method: (r.mean, r.low, r.high) for r in bilstm.rows(check, measure)}


def test_the_best_comes_first_and_controls_last(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, parts, "dots")
    for check, lower in (("sign", True), ("infidelity", False)):
        given.clear()
        section(bilstm, check)
        marks = given[0][1]
        means = [m.mean for m in marks if m.series == "methods"]
        assert means == sorted(means, reverse=not lower)
        assert [m.series for m in marks] == sorted((m.series for m in marks), reverse=True)


def test_stages_of_a_cascade_are_in_order(bilstm: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    given = caught(monkeypatch, randomisation, "lines")
    section(bilstm, "randomisation")
    (position,) = [line for line in given[0][1] if line.label == "position"]
    assert position.x == sorted(position.x)
    assert len(position.x) == 3
    assert position.mean == pytest.approx([1, 1, 1])
    assert position.faint


def test_seeds_and_samples_have_a_chart_each(bilstm: Record) -> None:
    assert [f.name for f in section(bilstm, "stability").figures] == ["stability-tau-seed", "stability-tau-samples"]


def test_trainings_stand_beside_the_adversary(bilstm: Record) -> None:
    def trained(summary: dict[str, Any]) -> None:
        stability = summary["checks"]["stability"]
        own = {"measure": "attention jsd", "at": {"with": "checkpoints"}, "n": 40, "missing": 0, "median": 0, "std": 0}
        stability["rows"].append(own | {"mean": 0.12, "low": 0.1, "high": 0.14})
        stability["tables"]["attention_jsd"] = [
            {"label": HOSTILE, "start": 0.0, "end": 0.25, "n": 3, "median": 0.1, "lower": 0.05, "upper": 0.2},
            {"label": "b", "start": 0.25, "end": 0.5, "n": 0, "median": None, "lower": None, "upper": None},
        ]

    told = section(changed(bilstm, trained), "stability")
    far = phrases.interval(row(bilstm, "adversarial", "jsd exact"))
    assert told.findings[-1].endswith(f"by 0.12 [0.10, 0.14] (JSD, 40 texts); an adversary could change it by {far}.")
    assert told.tables[-1].rows == (("0–0.25", HOSTILE, 3, 0.1, 0.05, 0.2),)


def test_plausibility_is_told_apart_where_the_model_is_wrong(bilstm: Record) -> None:
    table = section(bilstm, "plausibility").tables[-1]
    own = {r[0]: r[1:] for r in table.rows}["attention-mean"]
    tables = bilstm.tables("plausibility", PlausibilityTables)
    assert tables is not None
    right, wrong = (
        next(r for r in part if (r.method, r.measure) == ("attention-mean", "auprc"))
        for part in (tables.right, tables.wrong)
    )
    assert own == (right.mean, right.n, wrong.mean, wrong.n)
    assert (right.n, wrong.n) == (N - 1, 1)


def test_seconds_come_from_the_runs_clock(bilstm: Record) -> None:
    table = section(bilstm, "cost").tables[0]
    seconds = {r[0]: r[4] for r in table.rows}
    assert seconds == {name: bilstm.timing["methods"][name]["seconds each"] for name in seconds}
    assert set(seconds) == set(bilstm.methods)


def test_a_run_without_a_clock_has_no_seconds(bilstm: Record) -> None:
    told = section(replace(bilstm, timing={}), "cost")
    assert {r[4] for r in told.tables[0].rows} == {None}
    assert not any("CPU" in sentence for sentence in told.findings)
