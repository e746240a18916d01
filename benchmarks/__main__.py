"""`python -m benchmarks [JOB …] [--quick]`: run the jobs, print one table, update results.json and the figures."""

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
    adversarial_training,
    adversary,
    attattr,
    audit,
    erasure,
    figures,
    growth,
    ice,
    integrated_gradients,
    leave_one_out,
    lime,
    overhead,
    prompts,
    pruning,
    sentences,
    shapley,
    theory,
    training,
    workers,
)
from benchmarks.material import Scale
from benchmarks.measure import Report

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "speed.md"
JOBS: dict[str, Callable[[Scale], Report]] = {
    "attattr": attattr.run,
    "lime": lime.run,
    "lime-passes": lime.run_passes,
    "shapley": shapley.run,
    "leave-one-out": leave_one_out.run,
    "integrated-gradients": integrated_gradients.run,
    "theory-lime": theory.run,
    "overhead": overhead.run,
    "growth": growth.run,
    "sentences": sentences.run,
    "training": training.run,
    "erasure": erasure.run,
    "random-rationales": ice.run,
    "audit": audit.run,
    "workers": workers.run,
    "adversary": adversary.run,
    "pruning": pruning.run,
    "prompt-prefix": prompts.run,
    "adversarial-training": adversarial_training.run,
}
HEADS = ("job", "on", "against", "theirs", "ours", "ratio", "target", "reached", "agreement")
Row = dict[str, Any]


def _amount(value: float, unit: str) -> str:
    if unit == "passes":
        return f"{value:,.0f}"
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms" if value < 0.1 else f"{1000 * value:.0f} ms"


def _ratio(row: Row) -> str:
    """With the smallest and the largest ratio of single texts, where there are several."""
    low, high = row.get("between") or (0.0, 0.0)
    digits = 0 if row["ratio"] >= 100 else 2
    span = f" ({low:.2f} to {high:.2f})" if low < high else ""
    return f"{'> ' if row.get('bound') else ''}{row['ratio']:,.{digits}f} ×{span}"


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
    """docs/speed.md with this table between its markers."""
    lines = [" | ".join(cells(row)) for row in rows]
    table = "\n".join(f"| {line} |" for line in (" | ".join(HEADS), "|".join("---" for _ in HEADS), *lines))
    return re.sub(
        r"(<!-- table -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{where}\n\n{table}\n{m[2]}", page, flags=re.DOTALL
    )


def machine() -> str:
    """The processor and versions that the numbers were measured with."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(": ")[1] for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "captum", "lime", "shap"))
    return f"{names[0] if names else platform.processor()}, one thread; Python {platform.python_version()}, {packages}."


def main() -> None:
    """Run the given jobs. The results of each are stored when it is done, so an interrupted run can be resumed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"one or more of {', '.join(JOBS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few texts, two minutes; nothing is stored")
    parser.add_argument("--show", action="store_true", help="run nothing; show, draw and write the stored results")
    args = parser.parse_args()
    unknown = sorted(set(args.jobs) - set(JOBS))
    if unknown:
        parser.error(f"job '{unknown[0]}' is not one of {', '.join(JOBS)}")
    torch.set_num_threads(1)
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() and not args.quick else {}
    for name in () if args.show else args.jobs or JOBS:
        start, cpu = time.monotonic(), time.process_time()
        report = JOBS[name](Scale(args.quick))
        spent, used = time.monotonic() - start, time.process_time() - cpu
        print(f"{name}: {spent:.0f} s, of which {used:.0f} s CPU here", file=sys.stderr, flush=True)
        results[name] = {"machine": machine(), "rows": [row.to_json() for row in report.rows], "curves": report.curves}
        if not args.quick:
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rows = [row for name in JOBS if name in results for row in results[name]["rows"]]
    show(rows)
    if not args.quick and results:
        curves = {figure: lines for one in results.values() for figure, lines in one["curves"].items()}
        figures.write(curves, PAGE.parent)
        where = "; ".join(sorted({one["machine"] for one in results.values()}))
        if PAGE.exists():
            PAGE.write_text(into_page(PAGE.read_text("utf-8"), rows, where), encoding="utf-8")


if __name__ == "__main__":
    main()
