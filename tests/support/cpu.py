"""CPU seconds by test file: `pytest --cpu 40` prints them, and the 40 tests that take most.

CPU seconds, because wall time on a shared machine is not repeatable. Child processes are counted.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

STARTUP = "(start of a process)"


def cpu_seconds() -> float:
    """Of this process and its finished children, since they started."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class CpuTimes:
    """A pytest plugin; with xdist, each worker hands its numbers to the process that prints."""

    def __init__(self, tests_shown: int) -> None:
        self.tests_shown = tests_shown
        self.imports: defaultdict[str, float] = defaultdict(float)
        self.tests: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[Any]:
        """Importing torch and the plugins is no file's share."""
        self.imports[STARTUP] += cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Iterator[Any]:
        """The import of a file, and of what it is the first to import."""
        start = cpu_seconds()
        report = yield
        if isinstance(collector, pytest.Module):
            self.imports[collector.nodeid] += cpu_seconds() - start
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[Any]:
        """Set-up, call and teardown."""
        start = cpu_seconds()
        result = yield
        self.tests[item.nodeid] = cpu_seconds() - start
        return result

    def pytest_sessionfinish(self, session: Any) -> None:
        """A worker's numbers leave with it."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cpu"] = (dict(self.imports), dict(self.tests))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """They arrive."""
        imports, tests = getattr(node, "workeroutput", {}).get("cpu", ({}, {}))
        for file, seconds in imports.items():
            self.imports[file] += seconds
        self.tests |= tests

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print both tables, largest first."""
        by_file: defaultdict[str, list[float]] = defaultdict(list)
        for test, seconds in self.tests.items():
            by_file[test.split("::")[0]].append(seconds)
        totals = {file: sum(by_file[file]) + self.imports[file] for file in {*by_file, *self.imports}}
        terminalreporter.write_sep("=", f"CPU seconds: {sum(totals.values()):.0f}")
        terminalreporter.write_line("  total   tests  import  cases")
        for file in sorted(totals, key=lambda file: -totals[file]):
            tests = by_file[file]
            line = f"{totals[file]:7.1f} {sum(tests):7.1f} {self.imports[file]:7.1f} {len(tests):6d}  {file}"
            terminalreporter.write_line(line)
        for test in sorted(self.tests, key=lambda test: -self.tests[test])[: self.tests_shown]:
            terminalreporter.write_line(f"{self.tests[test]:7.2f}  {test}")
