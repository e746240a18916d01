"""Findings to numbers with intervals, and numbers to the terminal."""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from heedful.audits.chunk import metered
from heedful.audits.parts import FINDINGS
from heedful.audits.summary import left_out, rows
from heedful.core.files import json_value
from heedful.core.finding import Finding, Findings, Measure
from heedful.maths import stats
from heedful.report.auditview import show

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
    assert json.dumps(rows(cut, MEASURES, ["good"])) == json.dumps(rows(of(found), MEASURES, ["good"]))


def test_a_number_that_does_not_exist_is_missing_and_an_absent_one_is_not() -> None:
    made = rows(of([(0, Finding("c", "m", "x", 1.0)), (1, Finding("c", "m", "x", np.nan))], 4), MEASURES, [])
    assert (made[0]["n"], made[0]["missing"]) == (1, 1)


def test_places_and_methods() -> None:
    found = of(drawn())
    assert found.places("hit") == [{"layer": 0}, {"layer": 1}]
    assert found.methods("x") == ["good", "bad", "random"]
    assert found.places("x", "good") == [{}]


def test_a_row_is_the_summary_of_its_group() -> None:
    found = of(drawn())
    for row in rows(found, MEASURES, ["good", "bad", "random"]):
        values = found.values(row["measure"], row["method"], row["at"])
        wanted = stats.summary(values[~np.isnan(values)], MEASURES[row["measure"]].kind)
        assert (row["n"], row["mean"], row["low"], row["high"]) == (wanted.n, wanted.mean, wanted.low, wanted.high)


def test_differences_are_paired_and_corrected_over_the_measure() -> None:
    found = of(drawn())
    made = {row["method"]: row for row in rows(found, MEASURES, ["good", "bad", "random"]) if row["measure"] == "x"}
    one = stats.paired(found.values("x", "good"), found.values("x", "random"))
    assert made["good"]["random"]["mean"] == one.mean
    assert made["good"]["random"]["holm"] == pytest.approx(min(1, 2 * one.p))
    assert made["good"]["random"]["says"] == "higher than random: better"
    assert made["bad"]["random"]["says"] == "cannot be told from random"
    assert "random" not in made["random"]


def test_a_measure_may_ask_not_to_be_compared() -> None:
    made = rows(of(drawn()), {"x": Measure("x", compared=False)}, [])
    assert not any("random" in row for row in made)


def test_rows_come_in_the_order_of_measures_methods_and_places() -> None:
    found = of(
        [(0, Finding("c", m, "x", 1.0, at)) for at in ({"layer": 10}, {"layer": 2}, {"layer": "all"}) for m in "ba"], 1
    )
    made = [(row["method"], row["at"]["layer"]) for row in rows(found, MEASURES, ["a", "b"])]
    assert made == [("a", "all"), ("a", 2), ("a", 10), ("b", "all"), ("b", 2), ("b", 10)]


def test_the_order_of_findings_does_not_matter() -> None:
    found = drawn()
    one, other = (rows(of(some), MEASURES, ["good", "bad"]) for some in (found, found[::-1]))
    assert json.dumps(one) == json.dumps(other)


def test_what_was_left_out_is_counted_by_reason() -> None:
    some = [(i, Finding("c", "", "left out", np.nan, {}, {"reason": f"because {i % 2}"})) for i in range(3)]
    told = left_out([table([*some, (0, Finding("c", "m", "x", 1.0))])])
    assert [(one["reason"], one["texts"]) for one in told] == [("because 0", 2), ("because 1", 1)]
    assert rows(of(some, 3), MEASURES, []) == []


def test_json_has_no_nan() -> None:
    made = json_value({"a": np.nan, "b": [np.float64(1), np.inf], "c": np.arange(2), "d": np.bool_(True), 1: (2,)})
    assert json.dumps(made, allow_nan=False) == '{"a": null, "b": [1.0, null], "c": [0, 1], "d": true, "1": [2]}'


# the terminal


def row(
    measure: str, method: str, mean: float, n: int = 40, at: Mapping[str, Any] | None = None, says: str = ""
) -> dict[str, Any]:
    made = {
        "measure": measure,
        "method": method,
        "at": dict(at or {}),
        "n": n,
        "mean": mean,
        "low": mean - 0.1,
        "high": mean + 0.1,
    }
    return made | ({"random": {"says": says}} if says else {})


def shown(checks: Mapping[str, list[dict[str, Any]]], n: int = 40) -> str:
    summary = {
        "texts": {"n": n, "accuracy": {"mean": 0.8, "low": 0.7, "high": 0.9}},
        "checks": {name: {"rows": found, "tables": {}} for name, found in checks.items()},
        "left out": [{"check": "explain", "method": "lime", "reason": "no \x1b[31m reason", "texts": 3}],
    }
    console = Console(file=io.StringIO(), width=120)
    show(summary, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_what_cannot_be_told_from_random_is_marked() -> None:
    told = shown({"sign": [row("violation", "a", 0.25, says="cannot be told from random"), row("violation", "b", 0.5)]})
    assert "0.25*" in told
    assert "0.50*" not in told


def test_means_over_other_texts_are_not_set_beside_each_other() -> None:
    told = shown({"input-erasure": [row("deletion", "a", 0.25), row("deletion", "greedy", 0.125, n=12)]})
    assert "0.25" in told
    assert "greedy" not in told


def test_a_pair_is_found_under_either_name() -> None:
    told = shown(
        {
            "agreement": [
                row("tau", "leave-one-out", 0.33, at={"with": "lime"}),
                row("tau", "a", -0.5, at={"with": "leave-one-out"}),
            ]
        }
    )
    assert [line.split()[-1] for line in told.splitlines() if line.startswith(("a ", "lime "))] == ["−0.50", "0.33"]


def test_attention_has_its_own_lines() -> None:
    told = shown(
        {
            "permutation": [
                row("tvd", "", 0.2, at={"layer": "all", "head": "all"}),
                row("tvd", "", 0.7, at={"layer": 0, "head": "all"}),
            ]
        }
    )
    assert "0.200 [0.100, 0.300]  n = 40" in told
    assert "0.700" not in told


def test_few_texts_and_control_characters() -> None:
    told = shown({"sign": [row("violation", "a", 0.25)]}, n=7)
    assert "fewer than 30: nothing is decided" in told
    assert "\x1b" not in told
    assert "left out: lime on 3 texts" in told


def test_a_meter_is_filled_in_also_after_an_error() -> None:
    gc.collect()  # what other tests left would be given back meanwhile, and make up for what is taken
    with pytest.raises(ValueError), metered() as meter:  # noqa: PT012
        held = bytearray(200_000_000)
        held[::4096] = b"x" * len(held[::4096])
        raise ValueError
    assert meter.seconds > 0
    assert meter.bytes is None or meter.bytes > 30_000_000
