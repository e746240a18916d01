"""A run is extended by checks and methods: it ends with the bytes of a run that had them from the start."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from heedful.audits.audit import audit
from heedful.audits.chunk import chunk_of, one_thread
from heedful.audits.forecast import forecast
from heedful.audits.job import AuditProgress, AuditRequest, Job, prepare
from heedful.audits.record import load_record
from heedful.audits.result import Audit
from heedful.audits.run import GROUP_TEXTS, read_run
from heedful.checks import CHECKS
from heedful.checks.base import Case, Finding, Measure, removal_effects
from heedful.cli import main
from heedful.cli.audit import _watching as watching
from heedful.core.errors import BadInput
from heedful.data import Example
from heedful.model.function import Plain
from heedful.model.inference import sharing
from heedful.model.masking import features
from heedful.report.progress import Show
from tests.audits.test_audit import Another, Counting, Stop, stop_at, summary
from tests.checks.test_conformance import SMALL
from tests.support import processes, toys
from tests.support.models import TEXTS as SENTENCES
from tests.support.models import shared
from tests.support.patience import PATIENCE_SECONDS

POINTER = toys.build("bert", toys.POINTER)
TEXTS = [Example(text, label=POINTER.labels[i % 2]) for i, text in enumerate(toys.texts(18))]
METHODS = ["attention-mean", "leave-one-out"]
CHEAP, SIGN = ["cost", "complexity"], ["infidelity", "sign"]
FEW = ["infidelity.samples=8"]


def run(out: Path, methods: Any = METHODS, checks: Any = CHEAP, **more: Any) -> Audit:
    settings = more.pop("settings", FEW if "infidelity" in (checks or ()) else ())
    return audit(POINTER, TEXTS, methods, checks, out, settings=settings, **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has everything from the start."""
    folder = tmp_path_factory.mktemp("whole")
    run(folder, checks=[*CHEAP, *SIGN])
    return folder


def parts(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "parts").glob("*.parquet"))}


def notes(out: Path, **more: Any) -> str:
    """What an audit says."""
    lines: list[AuditProgress] = []
    run(out, watch=lines.append, **more)
    return " ".join(now.note for now in lines if now.note)


def test_a_check_is_added_and_the_others_are_not_run_again(tmp_path: Path) -> None:
    every: dict[str, Any] = {"methods": METHODS, "checks": [*CHEAP, Counting(), *SIGN]}
    run(tmp_path / "whole", **every)
    run(tmp_path / "grown", checks=[*CHEAP, Counting()])
    Counting.seen.clear()
    said = notes(tmp_path / "grown", checks=[*SIGN, Counting()])
    assert Counting.seen == []
    assert said == (
        f"'{tmp_path / 'grown'}' is extended by check sign, check infidelity. "
        "The run keeps check complexity, check cost."
    )
    assert summary(tmp_path / "grown") == summary(tmp_path / "whole")
    assert parts(tmp_path / "grown") == parts(tmp_path / "whole")


def test_checks_alone_add_to_the_methods_of_the_run(whole: Path, tmp_path: Path) -> None:
    """Not to those of the default profile, with its settings."""
    run(tmp_path)
    run(tmp_path, methods=None, checks=SIGN)
    assert summary(tmp_path) == summary(whole)


def test_methods_alone_add_to_the_checks_of_the_run(whole: Path, tmp_path: Path) -> None:
    run(tmp_path, methods=METHODS[:1], checks=[*CHEAP, *SIGN])
    said = notes(tmp_path, methods=METHODS[1:], checks=None)
    assert "All checks run again, because the methods change." in said
    assert summary(tmp_path) == summary(whole)


def test_a_changed_setting_is_measured_again(tmp_path: Path) -> None:
    other = {"settings": ["infidelity.samples=7"], "checks": SIGN}
    run(tmp_path / "whole", **other)
    run(tmp_path / "grown", checks=SIGN)
    assert notes(tmp_path / "grown", **other) == "Measured again with other settings: check infidelity."
    assert summary(tmp_path / "grown") == summary(tmp_path / "whole")


def test_a_forgotten_setting_of_a_method_does_not_cost_the_run(tmp_path: Path) -> None:
    audit(POINTER, TEXTS[:2], ["lime"], ["cost"], tmp_path, settings=["lime.samples=20"])
    before = parts(tmp_path)
    with pytest.raises(BadInput, match=r"setting methods.lime.samples \(20 then, [0-9]+ now\)"):
        audit(POINTER, TEXTS[:2], ["lime"], ["cost"], tmp_path)
    assert parts(tmp_path) == before


def numbers(folder: Path) -> dict[str, Any]:
    """The summary without what depends on how often it was looked at."""
    stored = json.loads(summary(folder))
    return {name: value for name, value in stored.items() if name not in ("looks", "verdicts")}


def test_what_is_not_asked_for_stays_as_it_is(whole: Path, tmp_path: Path) -> None:
    run(tmp_path, checks=[*CHEAP, *SIGN])
    before = parts(tmp_path)
    assert notes(tmp_path, checks=["cost"], limit=3) == "The run keeps check sign, check infidelity, check complexity."
    assert (summary(tmp_path), parts(tmp_path)) == (summary(whole), before)


def test_a_run_of_more_texts_is_extended_on_all_of_them(whole: Path, tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, checks=SIGN, limit=3)
    assert summary(tmp_path) == summary(whole)


def test_without_a_limit_a_check_is_added_on_the_texts_of_the_run(whole: Path, tmp_path: Path) -> None:
    run(tmp_path / "grown", limit=6)
    run(tmp_path / "grown", methods=None, checks=SIGN)
    run(tmp_path / "whole", checks=[*CHEAP, *SIGN], limit=6)
    assert summary(tmp_path / "grown") == summary(tmp_path / "whole")
    run(tmp_path / "more", methods=METHODS[:1], checks=[*CHEAP, *SIGN], limit=6)
    run(tmp_path / "more", methods=METHODS[1:], checks=None)
    assert summary(tmp_path / "more") == summary(tmp_path / "whole")


@pytest.mark.thorough
def test_an_extension_of_more_texts_and_checks(whole: Path, tmp_path: Path) -> None:
    run(tmp_path, limit=6)
    run(tmp_path, checks=SIGN, limit=18)
    assert numbers(tmp_path) == numbers(whole)
    assert load_record(tmp_path).summary.looks.before == (6,)


@pytest.mark.thorough
def test_an_extension_that_is_stopped_goes_on(whole: Path, tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(Stop):
        run(tmp_path, checks=SIGN, watch=stop_at(16))
    with pytest.raises(BadInput, match=r"has no timing.json: its audit was interrupted"):
        load_record(tmp_path)
    assert read_run(tmp_path).count() == 16
    run(tmp_path, checks=SIGN)
    assert summary(tmp_path) == summary(whole)


@pytest.mark.parametrize(
    "file",
    [
        "00000.parquet",
        *(
            pytest.param(n, marks=pytest.mark.thorough)
            for n in ("manifest.json", "00001.texts.parquet", "summary.json")
        ),
    ],
)
def test_an_extension_that_is_killed_goes_on(whole: Path, tmp_path: Path, file: str) -> None:
    """A real kill -9, when a file is written and not yet in its place."""
    for part in (POINTER.model, POINTER.tokenizer):
        part.save_pretrained(tmp_path / "model")
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps({"text": e.text, "label": e.label}) for e in TEXTS))
    asked = ["audit", str(tmp_path / "data.jsonl"), "--model", str(tmp_path / "model"), "--out", str(tmp_path / "a")]

    def command(checks: list[str]) -> list[str]:
        settings = ["--set", *FEW] if "infidelity" in checks else []
        return [*asked, "--methods", ",".join(METHODS), "--checks", ",".join(checks), *settings]

    assert CliRunner().invoke(main, command(CHEAP)).exit_code == 0
    with processes.command(command(SIGN), before=processes.dies_at(file)) as process:
        assert process.wait() == -signal.SIGKILL
    again = CliRunner().invoke(main, command(SIGN))
    assert again.exit_code == 0, again.stderr
    assert summary(tmp_path / "a") == summary(whole)


@pytest.mark.thorough
def test_two_processes_extend_a_run(whole: Path, tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, checks=SIGN, jobs=2)
    assert summary(tmp_path) == summary(whole)


def test_a_method_that_cannot_be_made_again_must_be_given(tmp_path: Path) -> None:
    run(tmp_path, methods=[Another()])
    with pytest.raises(BadInput, match="also has the method Another, which is not in the catalogue; give it again"):
        run(tmp_path, methods=["attention-mean"])
    assert notes(tmp_path, methods=[Another(), "attention-mean"]).startswith(f"'{tmp_path}' is extended by method")


def findings(job: Job) -> dict[str, str]:
    """The findings of each check on the first two texts."""
    with one_thread(), sharing(job.classifier):
        rows = chunk_of(job, [(0, 0), (1, 1)])[0]
    exact = [(f.check, n, f.method, f.measure, f.place, f.value, dict(f.details)) for n, f in rows]
    return {name: repr([row for row in exact if row[0] == name]) for name in job.battery.checks}


def with_checks(job: Job, names: Iterable[str]) -> Job:
    return replace(job, battery=replace(job.battery, checks={name: job.battery.checks[name] for name in names}))


def test_findings_of_a_check_do_not_depend_on_the_checks_before_it() -> None:
    texts, checks = [Example(text) for text in SENTENCES[:2]], [CHECKS.make(name, SMALL.get(name)) for name in CHECKS]
    job = prepare(AuditRequest(shared("bilstm"), texts, ["attention-mean", "leave-one-out"], checks))
    assert findings(job) == findings(with_checks(job, reversed(list(job.battery.checks))))


@dataclass(frozen=True)
class Halves:
    """The effect of removing all words but one; of the first word alone if not `every`."""

    every: bool = True

    name: ClassVar[str] = "halves"
    summary: ClassVar[str] = "halves"
    paper: ClassVar[str] = "–"
    changes: ClassVar[str] = "words are removed"
    measures: ClassVar[Mapping[str, Measure]] = {"effect": Measure("effect")}

    def __call__(self, case: Case) -> list[Finding]:
        words = len(features(case.tokens, "word"))
        keep = np.eye(words, dtype=bool)[: None if self.every else 1]
        effect = removal_effects([case], [keep], "word", "delete")[0][0]
        return [Finding(self.name, "", "effect", float(effect))]


@dataclass(frozen=True)
class Half(Halves):
    """Another check of some of the inputs."""

    every: bool = False

    name: ClassVar[str] = "half"


def test_findings_of_a_check_do_not_depend_on_the_batches_of_another() -> None:
    """Of a model whose answers depend on the batch in all digits, not only in the last."""
    uneven = Plain(lambda texts: [[p := (len(t) % 7 + 1) / (9 + len(texts) % 50), 1 - p] for t in texts])
    texts = [Example("one two three four"), Example("five six seven")]
    job = prepare(AuditRequest(uneven, texts, ["uniform"], [Halves(), Half()]))
    every = findings(job)
    assert every == {name: findings(with_checks(job, [name]))[name] for name in every}


# time


def test_a_time_budget_ends_a_run_after_a_group_of_texts(whole: Path, tmp_path: Path) -> None:
    checks = [*CHEAP, *SIGN]
    lines: list[AuditProgress] = []
    counts = [run(tmp_path, checks=checks, time_budget=0.0, watch=lines.append).summary.texts.n for _ in range(4)]
    assert [now.texts for now in lines if now.doing == "summarising"] == counts
    assert counts == [GROUP_TEXTS, 2 * GROUP_TEXTS, 3 * GROUP_TEXTS, 4 * GROUP_TEXTS]
    assert run(tmp_path, checks=checks).complete
    assert (numbers(tmp_path), parts(tmp_path)) == (numbers(whole), parts(whole))


def test_a_run_that_may_end_early_says_the_longest_time(capsys: pytest.CaptureFixture[str]) -> None:
    for may_end, words in ((False, "about"), (True, "at most")):
        with watching(Show(), None, may_end) as watch:
            watch(AuditProgress(0, 60))
            watch(AuditProgress(16, 60, "lime"))
        assert re.search(rf"16 of 60 texts, \d+ s, {words} \d+ s left: lime", capsys.readouterr().err)


def test_a_slow_run_says_where_it_is_before_a_text_is_finished(capsys: pytest.CaptureFixture[str]) -> None:
    def wait_for(line: str) -> None:
        lines, end = [""], time.monotonic() + PATIENCE_SECONDS
        while not re.fullmatch(line, lines[-1]):
            assert time.monotonic() < end, lines
            lines += capsys.readouterr().err.splitlines()
            time.sleep(0.01)

    with watching(Show(), None, first=0.05, every=0.05) as watch:
        wait_for(r"loading the model and the data, \d+ s")
        watch(AuditProgress(0, 60, "lime"))
        wait_for(r"0 of 60 texts, \d+ s: lime")
        watch(AuditProgress(0, 60, "ig", partial=0.9))  # too little to know the pace
        wait_for(r"0 of 60 texts, \d+ s: ig")
        watch(AuditProgress(0, 60, "sign", partial=2.5))
        wait_for(r"2 of 60 texts, \d+ s, about .+ left: sign")


def test_the_progress_of_a_run_never_falls_and_follows_the_cost(tmp_path: Path) -> None:
    lines: list[AuditProgress] = []
    run(tmp_path, checks=[*CHEAP, *SIGN], watch=lines.append)
    shares = [now.share for now in lines[:-1]]
    assert shares == sorted(shares)
    assert len({int(now.texts + now.partial) for now in lines}) > len(TEXTS) / GROUP_TEXTS


@pytest.mark.thorough
def test_a_forecast_is_of_what_is_run() -> None:
    job = prepare(AuditRequest(POINTER, TEXTS, METHODS, SIGN, settings=FEW))
    forecast(job)  # what is slow the first time
    spent = min(audit(POINTER, TEXTS, METHODS, SIGN, settings=FEW).timing["seconds"] for _ in range(2))
    assert 1 / 3 < forecast(job).seconds / spent < 3  # wide, for a noisy machine
