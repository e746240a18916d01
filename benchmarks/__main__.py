"""`python -m benchmarks [JOB …] [--quick]`: run the jobs, print one table, keep results.json and the figures."""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import (
    adversary_,
    attattr_,
    erasing,
    growth,
    lime_,
    overhead,
    paths,
    pictures,
    removal,
    shapley_,
    theory_,
    training_,
)
from benchmarks.material import Scale
from benchmarks.measure import Report

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "speed.md"
JOBS: dict[str, Callable[[Scale], Report]] = {
    "attattr": attattr_.run,
    "lime": lime_.run,
    "lime-passes": lime_.run_passes,
    "shapley": shapley_.run,
    "leave-one-out": removal.run,
    "integrated-gradients": paths.run,
    "theory-lime": theory_.run,
    "overhead": overhead.run,
    "growth": growth.run,
    "training": training_.run,
    "erasing": erasing.run,
    "adversary": adversary_.run,
}
HEADS = ("job", "on", "against", "theirs", "ours", "ratio", "target", "reached", "agreement")
Row = dict[str, Any]


def _amount(value: float, unit: str) -> str:
    if unit == "passes":
        return f"{value:,.0f}"
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms" if value < 0.1 else f"{1000 * value:.0f} ms"


def _ratio(row: Row) -> str:
    """With the least and the most of single texts, where there are several."""
    low, high = row.get("between") or (0.0, 0.0)
    digits = 0 if row["ratio"] >= 100 else 2
    apart = f" ({low:.2f} to {high:.2f})" if low < high else ""
    return f"{'> ' if row.get('bound') else ''}{row['ratio']:,.{digits}f} ×{apart}"


def cells(row: Row) -> list[str]:
    """One line of the table, as texts."""
    sign = "≤" if row["at_most"] else "≥"
    reached = {None: "", True: "yes", False: "no"}[row["reached"]]
    return [
        row["job"],
        row["on"],
        row["against"],
        _amount(row["theirs"], row["unit"]),
        _amount(row["ours"], row["unit"]),
        _ratio(row),
        "" if row["target"] is None else f"{sign} {row['target']:,g}",
        reached + (f" ({row['remark']})" if row["remark"] else ""),
        row["agreement"],
    ]


def show(rows: Sequence[Row]) -> None:
    """The table, in the terminal."""
    table = Table(*HEADS, show_lines=False)
    for row in rows:
        table.add_row(*cells(row))
    Console(width=None if sys.stdout.isatty() else 230).print(table)


def into_page(page: str, rows: Sequence[Row], where: str) -> str:
    """docs/speed.md with this table between its marks."""
    lines = [" | ".join(cells(row)) for row in rows]
    table = "\n".join(f"| {line} |" for line in (" | ".join(HEADS), "|".join("---" for _ in HEADS), *lines))
    return re.sub(
        r"(<!-- table -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{where}\n\n{table}\n{m[2]}", page, flags=re.DOTALL
    )


def machine() -> str:
    """Where the numbers come from."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(": ")[1] for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "captum", "lime", "shap"))
    return f"{names[0] if names else platform.processor()}, one thread; Python {platform.python_version()}, {packages}."


def main() -> None:
    """Run what is asked for. Every job is kept when it is done, so a run can be stopped and gone on with."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"one or more of {', '.join(JOBS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few texts, two minutes; nothing is kept")
    parser.add_argument("--show", action="store_true", help="run nothing; show, draw and write what is kept")
    given = parser.parse_args()
    wrong = sorted(set(given.jobs) - set(JOBS))
    if wrong:
        parser.error(f"job '{wrong[0]}' is not one of {', '.join(JOBS)}")
    torch.set_num_threads(1)
    kept: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() and not given.quick else {}
    for name in () if given.show else given.jobs or JOBS:
        start, cpu = time.monotonic(), time.process_time()
        report = JOBS[name](Scale(given.quick))
        spent, used = time.monotonic() - start, time.process_time() - cpu
        print(f"{name}: {spent:.0f} s, of which {used:.0f} s CPU here", file=sys.stderr, flush=True)
        kept[name] = {"machine": machine(), "rows": [row.to_json() for row in report.rows], "curves": report.curves}
        if not given.quick:
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    rows = [row for name in JOBS if name in kept for row in kept[name]["rows"]]
    show(rows)
    if not given.quick and kept:
        curves = {figure: lines for one in kept.values() for figure, lines in one["curves"].items()}
        pictures.write(curves, PAGE.parent)
        where = "; ".join(sorted({one["machine"] for one in kept.values()}))
        if PAGE.exists():
            PAGE.write_text(into_page(PAGE.read_text("utf-8"), rows, where), encoding="utf-8")


if __name__ == "__main__":
    main()
