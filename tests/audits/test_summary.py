"""Findings to numbers with intervals, and numbers to the terminal."""

from __future__ import annotations

import gc
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from heedful.audits.chunk import metered
from heedful.audits.manifest import Manifest
from heedful.audits.parts import FINDINGS
from heedful.audits.ranking import rank_methods
from heedful.audits.record import Record
from heedful.audits.run import Run
from heedful.audits.summary import About, CheckSummary, LeftOut, Row, Summary, TextFacts, estimate_rows, left_out
from heedful.audits.verdict import Evidence, verdict
from heedful.checks import CHECKS
from heedful.core import finding
from heedful.core.files import json_value
from heedful.core.finding import Finding, Findings, Highlight, Measure
from heedful.maths import stats
from heedful.maths.stats import Decision, Difference
from heedful.report.audit import _left_out
from heedful.report.document import Document
from heedful.report.document_terminal import show_document
from heedful.report.overview import overview
from heedful.report.ranking import advice
from tests.support.findings import every_field

MEASURES = {"x": Measure("x", better="higher"), "hit": Measure("hit", "rate")}


def table(found: list[tuple[int, Finding]]) -> pa.Table:
    names = [field.name for field in FINDINGS]
    made = [
        (n, f.check, f.method, f.measure, f.place, f.value, json.dumps(dict(f.details)) if f.details else None)
        for n, f in found
    ]
    columns = dict(
        zip(("text", "check", "method", "measure", "at", "value", "details"), zip(*made, strict=True), strict=True)
    )
    return pa.table({name: columns[name] for name in names}, schema=FINDINGS)


def texts(n: int) -> dict[str, Any]:
    return {"number": np.arange(n)}


def drawn(n: int = 40) -> list[tuple[int, Finding]]:
    rng = np.random.default_rng(0)
    found = []
    for i in range(n):
        base = rng.normal()
        found += [
            (i, Finding("c", name, "x", base + more))
            for name, more in (("good", 1 + rng.normal()), ("bad", (-1.0) ** i), ("random", 0.0))
        ]
        found.append((i, Finding("c", "good", "hit", float(i % 4 == 0), {"layer": i % 2})))
    return found


def of(found: list[tuple[int, Finding]], n: int = 40) -> Findings:
    return Findings.of([table(found)], texts(n))


def test_values_stand_at_their_texts_and_nan_elsewhere() -> None:
    found = of([(2, Finding("c", "m", "x", 5.0)), (0, Finding("c", "m", "x", 3.0))], 4)
    np.testing.assert_array_equal(found.values("x", "m"), [3, np.nan, 5, np.nan])
    assert np.isnan(found.values("x", "nobody")).all()


def test_tables_are_taken_one_after_the_other() -> None:
    found = drawn()
    cut = Findings.of([table(found[:50]), table(found[50:])], texts(40))
    first, second = (estimate_rows("c", findings, MEASURES, ["good"]) for findings in (cut, of(found)))
    assert every_field(first) == every_field(second)


def test_the_numbers_of_many_texts_are_in_files_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = drawn(40)
    here = Findings.of([table(found)], texts(40))
    monkeypatch.setattr(finding, "IN_MEMORY", 39)
    there = Findings.of([table(found)], texts(40))
    assert {type(row) for row in there.groups.values()} == {np.memmap}
    assert estimate_rows("c", there, MEASURES, []) == estimate_rows("c", here, MEASURES, [])
    for key, row in here.groups.items():
        np.testing.assert_array_equal(there.groups[key], row)


def test_a_number_that_does_not_exist_is_missing_and_an_absent_one_is_not() -> None:
    made = estimate_rows(
        "c", of([(0, Finding("c", "m", "x", 1.0)), (1, Finding("c", "m", "x", np.nan))], 4), MEASURES, []
    )
    assert (made[0].n, made[0].missing) == (1, 1)


def test_places_and_methods() -> None:
    found = of(drawn())
    assert found.places("hit") == [{"layer": 0}, {"layer": 1}]
    assert found.methods("x") == ["good", "bad", "random"]
    assert found.places("x", "good") == [{}]


def test_a_row_is_the_summary_of_its_group() -> None:
    found = of(drawn())
    for row in estimate_rows("c", found, MEASURES, ["good", "bad", "random"]):
        values = found.values(row.measure, row.method, row.at)
        wanted = stats.estimate(values[~np.isnan(values)], MEASURES[row.measure].kind)
        assert (row.n, row.mean, row.low, row.high) == (wanted.n, wanted.mean, wanted.low, wanted.high)


def test_differences_are_paired_and_corrected_over_the_measure() -> None:
    found = of(drawn())
    made = {
        row.method: row for row in estimate_rows("c", found, MEASURES, ["good", "bad", "random"]) if row.measure == "x"
    }
    one = stats.paired(found.values("x", "good"), found.values("x", "random"))
    good, bad = made["good"].versus_random, made["bad"].versus_random
    assert good is not None
    assert bad is not None
    assert good.mean == one.mean
    assert good.p_adjusted == pytest.approx(min(1, 2 * one.p))
    assert (good.decision, good.better) == (Decision.HIGHER, True)
    assert (bad.decision, bad.better) == (Decision.NOT_SIGNIFICANT, None)
    assert made["random"].versus_random is None


def test_a_measure_may_ask_not_to_be_compared() -> None:
    made = estimate_rows("c", of(drawn()), {"x": Measure("x", compared=False)}, [])
    assert not any(row.versus_random for row in made)


def test_rows_come_in_the_order_of_measures_methods_and_places() -> None:
    found = of(
        [(0, Finding("c", m, "x", 1.0, at)) for at in ({"layer": 10}, {"layer": 2}, {"layer": "all"}) for m in "ba"], 1
    )
    made = [(row.method, row.at["layer"]) for row in estimate_rows("c", found, MEASURES, ["a", "b"])]
    assert made == [("a", "all"), ("a", 2), ("a", 10), ("b", "all"), ("b", 2), ("b", 10)]


def test_the_order_of_findings_does_not_matter() -> None:
    found = drawn()
    one, other = (estimate_rows("c", of(some), MEASURES, ["good", "bad"]) for some in (found, found[::-1]))
    assert every_field(one) == every_field(other)


def test_what_was_left_out_is_counted_by_reason() -> None:
    some = [(i, Finding("c", "", "left out", np.nan, {}, {"reason": f"because {i % 2}"})) for i in range(3)]
    found = left_out([table([*some, (0, Finding("c", "m", "x", 1.0))])])
    assert [(one.reason, one.texts) for one in found] == [("because 0", 2), ("because 1", 1)]
    assert estimate_rows("c", of(some, 3), MEASURES, []) == []


def test_json_has_no_nan() -> None:
    made = json_value({"a": np.nan, "b": [np.float64(1), np.inf], "c": np.arange(2), "d": np.bool_(True), 1: (2,)})
    assert json.dumps(made, allow_nan=False) == '{"a": null, "b": [1.0, null], "c": [0, 1], "d": true, "1": [2]}'


def test_a_summary_is_the_same_after_json() -> None:
    rows_ = tuple(estimate_rows("c", of(drawn()), MEASURES, ["good", "bad", "random"]))
    about = About(title="C", measures=MEASURES, highlights=(Highlight("x", "an x", head="x"),), roles=("points",))
    given = Summary(
        TEXTS,
        {"c": CheckSummary(about, rows_)},
        {"attention-mean": verdict(Evidence())},
        (rank_methods("delete", {"a": np.arange(40.0), "b": np.arange(40.0)[::-1] / 2}),),
        (LeftOut("c", "", "so", 3),),
    )
    stored = json.dumps(given.to_dict(), allow_nan=False)
    assert every_field(Summary.from_dict(json.loads(stored))) == every_field(given)


# the terminal

TEXTS = TextFacts(
    40, {"a": 40}, None, stats.estimate(np.array([1.0] * 34 + [0.0] * 6), "rate"), stats.estimate(np.ones(40))
)


def row(check: str, measure: str, method: str, mean: float, n: int = 40, **more: Any) -> Row:
    return Row(n, 0, mean, mean, 0.1, mean - 0.1, mean + 0.1, check=check, measure=measure, method=method, **more)


def decided(decision: Decision) -> Difference:
    return Difference(40, 0.1, 0.0, 0.2, 0.5, 0.5, decision)


def shown(*given: Row) -> str:
    names = dict.fromkeys(row.check for row in given)
    checks = {
        name: CheckSummary(About(highlights=CHECKS[name].highlights), tuple(row for row in given if row.check == name))
        for name in names
    }
    left = (LeftOut("explain", "lime", "no \x1b[31m reason", 3),)
    manifest = Manifest({"labels": ["a"]}, {}, {"methods": [], "checks": {}}, 0, {})
    record = Record(Run(Path(), manifest), Summary(TEXTS, checks, left_out=left), {})
    document = Document("", "", (), (), overview(record), _left_out(record), (), "", {}, advice=advice(record))
    console = Console(file=io.StringIO(), width=120)
    show_document(document, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_numbers_that_are_not_significantly_different_from_random_are_marked() -> None:
    printed = shown(
        row("sign", "violation", "a", 0.25, versus_random=decided(Decision.NOT_SIGNIFICANT)),
        row("sign", "violation", "b", 0.5),
        row("sign", "violation", "c", 0.75, versus_random=decided(Decision.TOO_FEW)),
    )
    assert re.findall(r"[abc] +(0[.]\S+)", printed) == ["0.25*", "0.50", "0.75?"]


def test_means_over_other_texts_are_not_set_beside_each_other() -> None:
    printed = shown(
        row("input-erasure", "deletion", "a", 0.25), row("input-erasure", "deletion", "greedy", 0.125, n=12)
    )
    assert "0.25" in printed
    assert "greedy" not in printed


def test_a_pair_is_found_under_either_name() -> None:
    printed = shown(
        row("agreement", "tau", "leave-one-out", 0.33, at={"with": "lime"}),
        row("agreement", "tau", "a", -0.5, at={"with": "leave-one-out"}),
    )
    assert [line.split()[-1] for line in printed.splitlines() if line.startswith(("a ", "lime "))] == ["−0.50", "0.33"]


def test_attention_has_its_own_lines() -> None:
    printed = shown(
        row("permutation", "tvd", "", 0.2, at={"layer": "all", "head": "all"}),
        row("permutation", "tvd", "", 0.7, at={"layer": 0, "head": "all"}),
    )
    assert "0.20 [0.10, 0.30]" in printed
    assert "0.70" not in printed
    assert not re.search(r"^method\b", printed, re.MULTILINE)  # no table of methods without any


def test_control_characters_of_a_reason_do_not_reach_the_terminal() -> None:
    printed = shown(row("sign", "violation", "a", 0.25))
    assert "\x1b" not in printed
    assert "left out: explain of lime on 3 texts" in printed


def test_a_meter_is_filled_in_also_after_an_error() -> None:
    gc.collect()  # what other tests left would be given back meanwhile, and make up for what is taken
    with pytest.raises(ValueError), metered() as meter:  # noqa: PT012
        held = bytearray(200_000_000)
        held[::4096] = b"x" * len(held[::4096])
        raise ValueError
    assert meter.seconds > 0
    assert meter.bytes is None or meter.bytes > 30_000_000
