"""Looks: audits until decided, and runs that were extended after somebody had seen them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import heedful
from heedful.audits.audit import audit
from heedful.audits.job import AuditProgress, AuditRequest, prepare
from heedful.audits.looks import Looks, in_order
from heedful.audits.record import load_record
from heedful.audits.result import Audit
from heedful.audits.run import GROUP_TEXTS
from heedful.audits.verdict import Evidence, Reason, Rule, Trio, decided, join, verdict
from heedful.audits.workers import ReportShare, Work, silent
from heedful.checks.base import Case, Finding, Measure
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.core.finding import Role
from heedful.data import Example
from heedful.methods import Method
from heedful.methods.gradient import IntegratedGradients
from heedful.report.audit import report
from heedful.report.looks import round_up
from tests.support import toys

POINTER = toys.build("bilstm", toys.POINTER)
TEXTS = [Example(text) for text in toys.texts(70)]
ANYTIME = Rule(limits="anytime")


@dataclass(frozen=True)
class Planted:
    """Numbers of all three questions: attention has `share` of a lead of 0.6, with noise by text."""

    share: float = 1.0

    name: ClassVar[str] = "Planted"
    summary: ClassVar[str] = "plants"
    paper: ClassVar[str] = "–"
    changes: ClassVar[str] = "nothing"
    roles: ClassVar[tuple[Role, ...]] = ("points", "matters", "used", "from uniform")
    measures: ClassVar[Mapping[str, Measure]] = {
        name: Measure(name) for name in ("pointing", "tvd", "tvd without words", "from uniform")
    }

    def __call__(self, case: Case) -> list[Finding]:
        noise = blake2b(case.tokens.text.encode(), digest_size=1).digest()[0] / 255 * 0.2 - 0.1
        numbers = {"random": 0.2, "integrated-gradients": 0.8, "attention-mean": 0.2 + 0.6 * self.share + noise}
        masking = {"masking": "delete"}
        return [
            Finding("Planted", "", "tvd", min(1.0, 0.1 + 0.5 * self.share), {"layer": "all", "head": "all"}),
            Finding("Planted", "", "tvd without words", 0.6, masking),
            Finding("Planted", "attention-mean", "from uniform", 0.5),
            *(
                Finding("Planted", name, measure, float(np.clip(value, 0, 1)), at)
                for name, value in numbers.items()
                for measure, at in (("pointing", {}), ("tvd", masking | {"share": 0.2}))
            ),
        ]


METHODS: list[str | Method] = ["attention-mean", IntegratedGradients(steps=1)]


def run(out: Path | None = None, share: float = 1.0, **more: Any) -> Audit:
    return audit(POINTER, TEXTS, METHODS, [Planted(share)], out, **more)


def summary(folder: Path) -> bytes:
    return (folder / "summary.json").read_bytes()


def backwards(
    work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
) -> Iterator[int]:
    """Workers whose later chunks are finished first."""
    for chunk in reversed(chunks):
        work.do(chunk, tell)
        yield chunk


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("looks") / "run"
    run(folder, until="decided")
    return folder


def test_an_audit_ends_when_its_verdict_is_decided(whole: Path) -> None:
    found = heedful.open(whole)
    assert found.complete
    assert (found.verdict.word, found.verdict.rule.limits) == ("explanation", "anytime")
    assert 30 <= found.summary.texts.n < len(TEXTS)
    assert found.summary.texts.n % 16 == 0


def test_it_ends_after_the_first_chunk_that_decides(whole: Path, tmp_path: Path) -> None:
    n = heedful.open(whole).summary.texts.n
    earlier = run(tmp_path / "a", until="decided", limit=n - 16)
    assert not all(answer.decided for answer in earlier.verdict.answers)
    assert earlier.summary.texts.n == n - 16


def test_where_it_ends_does_not_depend_on_the_workers(whole: Path, tmp_path: Path) -> None:
    found = run(tmp_path / "a", until="decided", workers=backwards)
    assert summary(tmp_path / "a") == summary(whole)
    assert len(found.findings()) == len(heedful.open(whole).findings())
    assert heedful.open(tmp_path / "a").complete
    files = [sorted(file.name for file in (folder / "parts").iterdir()) for folder in (whole, tmp_path / "a")]
    assert files[0] == files[1]  # chunks beyond the end are deleted: a later extension would count them


def test_a_killed_audit_ends_at_the_same_text(whole: Path, tmp_path: Path) -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def stop(now: AuditProgress) -> None:
        if now.texts >= 16:
            raise Stop

    with pytest.raises(Stop):
        run(tmp_path / "a", until="decided", watch=stop)
    run(tmp_path / "a", until="decided")
    assert summary(tmp_path / "a") == summary(whole)


def test_a_run_may_have_from_before_what_a_verdict_needs(tmp_path: Path) -> None:
    checks, few = ["agreement", "permutation", "input-erasure"], ["permutation.draws=5"]
    audit(POINTER, TEXTS, ["attention-mean", "integrated-gradients"], checks, tmp_path, limit=16, settings=few)
    grown = audit(POINTER, TEXTS, checks=["complexity"], out=tmp_path, until="decided")
    assert grown.verdict.word == "explanation"


def test_a_decided_audit_is_not_continued(whole: Path) -> None:
    before = summary(whole)
    run(whole, until="decided")
    assert summary(whole) == before


def test_the_report_says_that_its_limits_are_for_any_number_of_looks(whole: Path) -> None:
    record = load_record(whole)
    words = " ".join(report(record).sentences)
    assert "Texts were added until the verdict was decided, so that the limits are anytime-valid" in words
    assert f"The verdict uses {record.summary.texts.n} texts; each question is answered" in words


def test_an_undecided_audit_says_how_many_more_texts_it_needs(tmp_path: Path) -> None:
    found = run(tmp_path / "a", 0.55, until="decided", limit=32)
    words = " ".join(report(found.record).sentences)
    assert found.summary.texts.n == 32
    assert "Texts were added to decide the verdict" in words
    needed = found.verdict.answers[0].needed
    assert f"Q1 needs about {round_up(needed - 32):,} more texts like these to be decided, more than the data" in words


def test_no_limit_is_all_texts_and_not_the_profiles() -> None:
    totals = [
        prepare(AuditRequest(POINTER, TEXTS, METHODS, [Planted()], until=until)).total for until in (None, "decided")
    ]
    assert totals == [60, len(TEXTS)]


# extended runs


def test_an_extended_run_has_the_anytime_rule_and_says_so(tmp_path: Path) -> None:
    run(tmp_path / "a", limit=2)
    found = run(tmp_path / "a", limit=4)
    assert (found.summary.looks, found.verdict.rule.limits) == (Looks((2,)), "anytime")
    assert "after the results on 2 texts had been seen" in " ".join(report(found.record).sentences)
    again = run(tmp_path / "a", limit=6)
    assert again.summary.looks.before == (2, 4)
    assert run(tmp_path / "a", limit=3).summary.looks == again.summary.looks  # no text was added


def test_a_run_that_was_seen_once_has_the_limits_of_one_look(tmp_path: Path) -> None:
    for _ in range(2):
        found = run(tmp_path / "a", limit=3)
        assert (found.summary.looks, found.verdict.rule) == (Looks(), Rule())


def test_an_interruption_is_no_look_and_does_not_hide_one(tmp_path: Path) -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def stop(now: AuditProgress) -> None:
        if now.texts > 3:
            raise Stop

    run(tmp_path / "seen", limit=3)
    for folder in ("new", "seen"):
        with pytest.raises(Stop):
            run(tmp_path / folder, limit=17, watch=stop)
    assert run(tmp_path / "new", limit=17).summary.looks == Looks()
    assert run(tmp_path / "seen", limit=17).summary.looks == Looks((3,))


def test_a_time_budget_shows_a_summary(tmp_path: Path) -> None:
    run(tmp_path / "a", limit=17, time_budget=0.0)
    assert run(tmp_path / "a", limit=17).summary.looks == Looks((GROUP_TEXTS,))


def test_a_summary_without_looks_is_that_of_one_look(tmp_path: Path) -> None:
    run(tmp_path / "a", limit=2)
    stored = json.loads(summary(tmp_path / "a"))
    del stored["looks"]
    (tmp_path / "a" / "summary.json").write_text(json.dumps(stored))
    assert heedful.open(tmp_path / "a").summary.looks == Looks()


def test_an_audit_until_decided_stays_one(tmp_path: Path) -> None:
    run(tmp_path / "a", until="decided", limit=2)
    assert run(tmp_path / "a", limit=2).verdict.rule.limits == "anytime"


def test_other_constants_keep_the_rule_of_the_run(whole: Path) -> None:
    result = CliRunner().invoke(main, ["report", str(whole), "--set", "most=0.6", "--format", "md"])
    assert result.exit_code == 0, result.output
    assert "anytime-valid limits" in (whole / "report.md").read_text("utf-8")


# what cannot be decided


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"until": "late"}, "until is 'late'; the only word that ends a run is 'decided'."),
        (
            {"methods": ["attention-mean"]},
            "a run without integrated-gradients has no verdict; add this method, or give --limit",
        ),
        ({"checks": ["cost"]}, "a run without the checks agreement, input-erasure, permutation and complexity"),
    ],
)
def test_what_cannot_be_decided_is_refused(changed: dict[str, Any], said: str) -> None:
    arguments: dict[str, Any] = {"methods": METHODS, "checks": [Planted()], "until": "decided"} | changed
    with pytest.raises(BadInput, match=said):
        audit(POINTER, TEXTS, **arguments)


# the rule


def numbers(share: float, n: int, seed: int = 0) -> Trio:
    rng = np.random.default_rng(seed)
    r = rng.uniform(0.1, 0.3, n)
    s = r + rng.uniform(0.2, 0.7, n)
    return Trio(r + share * (s - r), r, s)


def evidence(share: float, n: int) -> Evidence:
    trio = numbers(share, n)
    used = Trio(trio.attention, np.zeros(n), trio.reference)
    return Evidence(trio, trio, used, from_uniform=np.full(n, 0.5))


@pytest.mark.parametrize("share", [0.0, 0.35, 0.9])
def test_decided_is_what_the_verdict_says(share: float) -> None:
    for n in (16, 29, 30, 48, 96, 400):
        answers = verdict(evidence(share, n), ANYTIME).answers
        assert decided(evidence(share, n), ANYTIME) == all(answer.decided for answer in answers)
    assert answers[0].decided


def test_a_share_between_the_lines_is_decided() -> None:
    assert verdict(evidence(0.35, 400), ANYTIME).answers[0].reason == Reason.BETWEEN


def test_the_limits_of_a_share_say_what_the_anytime_rule_says() -> None:
    for share in (-0.2, 0.1, 0.3, 0.55, 0.9):
        for answer in verdict(evidence(max(0, share), 150), ANYTIME).answers:
            assert (answer.says == "for") == (answer.low > 0.5)
            assert (answer.says == "against") == (answer.high < 0.2)


def test_what_is_decided_stays_decided() -> None:
    """Twenty texts of a pointer, then many of a model that is not: both were seen."""
    first, second = evidence(1.0, 60), evidence(0.5, 400)
    assert verdict(first, ANYTIME).answers[0].says == "for"
    assert verdict(join([first, second], [60, 400]), ANYTIME).answers[0].says == "for"


def test_changes_without_limits_have_no_anytime_answer() -> None:
    trio = replace(numbers(0.9, 60), attention=np.full(60, 3.0))
    answer = verdict(Evidence(points=trio), ANYTIME).answers[0]
    assert (answer.says, answer.reason) == ("undecided", Reason.UNBOUNDED)


def test_more_texts_decide_where_the_forecast_says() -> None:
    few = verdict(evidence(0.7, 40), ANYTIME).answers[0]
    assert not few.decided
    assert verdict(evidence(0.7, round(few.needed * 1.3)), ANYTIME).answers[0].decided
    assert not verdict(evidence(0.7, round(few.needed * 0.7)), ANYTIME).answers[0].decided


def test_the_anytime_rule_uses_the_texts_before_the_first_gap() -> None:
    every = {"attention-mean": evidence(0.9, 6)}
    gap = np.array([0, 1, 2, 5, 6, 7])
    assert len(in_order(every, ANYTIME, gap)["attention-mean"].from_uniform) == 3  # type: ignore[arg-type]
    assert len(in_order(every, Rule(), gap)["attention-mean"].from_uniform) == 6  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "rounded"), [(0.0, 0), (7.2, 8), (63.1, 64), (1234.0, 1300), (98765.0, 99000)])
def test_forecasts_have_two_digits(number: float, rounded: int) -> None:
    assert round_up(number) == rounded
