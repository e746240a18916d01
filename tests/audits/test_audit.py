"""The audit: a run is the same run however often it is stopped, extended, or shared among workers."""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import heedful
from heedful.audits import forecast
from heedful.audits.audit import audit
from heedful.audits.job import AuditProgress, AuditRequest, battery, prepare
from heedful.audits.result import Audit
from heedful.audits.run import GROUP_TEXTS
from heedful.checks.base import Case, Check, Finding, Measure
from heedful.cli import main
from heedful.cli.audit import duration
from heedful.core.errors import BadInput, Unsupported
from heedful.core.files import HOST
from heedful.core.finding import CONTROLS
from heedful.data import Columns, Example, Selection
from heedful.maths.stats import Decision
from heedful.methods import METHODS
from heedful.methods.perturbation import LeaveOneOut
from tests.support import processes, toys
from tests.support.patience import PATIENCE_SECONDS

POINTER = toys.build("bert", toys.POINTER)
TEXTS = [Example(text, label=POINTER.labels[i % 2]) for i, text in enumerate(toys.texts(40))]
METHOD, CHECKS = ["attention-mean"], ["cost", "complexity"]


@dataclass(frozen=True)
class Counting:
    """Counts its calls; as many as `texts` texts get it."""

    texts: int | None = None

    summary: ClassVar[str] = "counts"
    paper: ClassVar[str] = "–"
    changes: ClassVar[str] = "nothing"
    measures: ClassVar[Mapping[str, Measure]] = {"length": Measure("words")}
    seen: ClassVar[list[str]] = []

    def __call__(self, case: Case) -> list[Finding]:
        self.seen.append(case.tokens.text)
        return [Finding("Counting", "", "length", float(len(case.tokens)))]


@dataclass(frozen=True)
class Choosy:
    """Refuses texts with "yes" in them, several together whenever one of them is refused."""

    summary: ClassVar[str] = "refuses"
    paper: ClassVar[str] = "–"
    changes: ClassVar[str] = "nothing"
    measures: ClassVar[Mapping[str, Measure]] = {"one": Measure("one", "rate")}

    def __call__(self, case: Case) -> list[Finding]:
        return self.many([case])[0]

    def many(self, cases: list[Case]) -> list[list[Finding]]:
        if any("yes" in case.tokens.text for case in cases):
            raise Unsupported("this text says yes.")
        return [[Finding("Choosy", "", "one", 1.0)] for _ in cases]


def run(out: Path | None = None, **more: Any) -> Audit:
    return audit(POINTER, TEXTS, more.pop("methods", METHOD), more.pop("checks", CHECKS), out, **more)


def summary(folder: Path) -> bytes:
    return (folder / "summary.json").read_bytes()


class Stop(Exception):  # noqa: N818
    pass


def stop_at(texts: int) -> Any:
    def watch(now: AuditProgress) -> None:
        if now.texts >= texts:
            raise Stop

    return watch


def test_a_run_that_was_stopped_ends_with_the_same_bytes_and_repeats_no_chunk(tmp_path: Path) -> None:
    run(tmp_path / "whole", checks=[*CHECKS, Counting()])
    Counting.seen.clear()
    for texts in (16, 32):
        with pytest.raises(Stop):
            run(tmp_path / "cut", checks=[*CHECKS, Counting()], watch=stop_at(texts))
    run(tmp_path / "cut", checks=[*CHECKS, Counting()])
    assert summary(tmp_path / "cut") == summary(tmp_path / "whole")
    assert len(Counting.seen) == len(TEXTS)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    run(tmp_path / "a", checks=[Counting()])
    before = summary(tmp_path / "a")
    Counting.seen.clear()
    run(tmp_path / "a", checks=[Counting()])
    assert Counting.seen == []
    assert summary(tmp_path / "a") == before


def test_a_larger_limit_extends_a_run(tmp_path: Path) -> None:
    run(tmp_path / "whole", limit=40)
    for limit in (5, 20, 40):
        run(tmp_path / "grown", limit=limit)
    grown, whole = (json.loads(summary(tmp_path / name)) for name in ("grown", "whole"))
    assert grown.pop("looks") != whole.pop("looks")
    assert grown.pop("verdicts")["attention-mean"]["rule"]["limits"] == "anytime"
    assert grown == {key: value for key, value in whole.items() if key != "verdicts"}


def test_every_prefix_of_a_run_is_of_both_labels() -> None:
    assert run(limit=10).summary.texts.labelled == dict.fromkeys(POINTER.labels, 5)


def test_a_kept_run_has_its_findings() -> None:
    with pytest.raises(BadInput, match="were not stored; audit again with a folder"):
        run(limit=3).findings()


def test_findings_are_a_table(tmp_path: Path) -> None:
    found = run(tmp_path / "a", limit=3).findings("cost")
    assert set(found.column("check").to_pylist()) == {"cost"}
    assert len(found) == 3 * 2 * (1 + len(CONTROLS))


def test_controls_always_run() -> None:
    methods = {row.method for row in run(limit=3).rows("complexity")}
    assert set(CONTROLS) <= methods


def test_a_time_budget_ends_a_run_after_a_group_of_texts_and_says_so(tmp_path: Path) -> None:
    found = run(tmp_path / "a", time_budget=0.0)
    assert (found.complete, found.summary.texts.n) == (False, GROUP_TEXTS)
    assert run(tmp_path / "a").complete


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"target": heedful.Target(scale="probability")}, "scale"),
    ],
)
def test_a_changed_setting_refuses_to_resume_and_is_named(changed: dict[str, Any], named: str, tmp_path: Path) -> None:
    run(tmp_path / "a", limit=3)
    with pytest.raises(BadInput, match=named):
        run(tmp_path / "a", limit=3, **changed)


def test_a_changed_model_or_text_refuses_to_resume(tmp_path: Path) -> None:
    run(tmp_path / "a", limit=3)
    with pytest.raises(BadInput, match="weights"):
        audit(toys.build("bert", toys.DEAF), TEXTS, METHOD, CHECKS, tmp_path / "a", limit=3)
    with pytest.raises(BadInput, match="data"):
        audit(POINTER, TEXTS[1:], METHOD, CHECKS, tmp_path / "a", limit=3)


def test_what_a_check_or_a_method_cannot_do_is_told_apart() -> None:
    found = run(methods=["attention-mean", "theory-lime"], checks=[Choosy(), "cost"])
    refused = sum("yes" in e.text for e in TEXTS)
    told = {(one.check, one.method): one.texts for one in found.summary.left_out}
    assert told == {("explain", "theory-lime"): 40, ("Choosy", ""): refused}
    assert found.rows("Choosy")[0].n == 40 - refused


@dataclass(frozen=True)
class Broken(Choosy):
    """Fails where it would refuse."""

    def many(self, cases: list[Case]) -> list[list[Finding]]:
        try:
            return super().many(cases)
        except Unsupported as e:
            raise IndexError("list index\nout of range") from e


@pytest.mark.usefixtures("bugs_are_told")
def test_an_error_that_nobody_expected_is_told_and_the_audit_goes_on() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaveOneOut, "many", lambda *_: [][1])
        found = run(methods=["leave-one-out"], checks=[Broken(), "cost"])
    refused = sum("yes" in e.text for e in TEXTS)
    told = {one.check: (one.texts, one.reason) for one in found.summary.left_out}
    why = "fails: IndexError: list index out of range"
    assert told == {"explain": (40, why), "Broken": (refused, why)}


@pytest.mark.usefixtures("bugs_are_told")
def test_a_text_on_which_the_model_fails_is_left_out() -> None:
    classifier = toys.build("bert", toys.POINTER)
    short = min(len(classifier.tokens(e.text)) for e in TEXTS)

    def fail(module: Any, inputs: Any, given: dict[str, Any]) -> None:
        if given["input_ids"].shape[1] > short:
            raise RuntimeError(f"no more than {short} tokens")

    handle = classifier.model.register_forward_pre_hook(fail, with_kwargs=True)
    found = audit(classifier, TEXTS, ["leave-one-out"], ["cost"])
    handle.remove()
    left = next(one for one in found.summary.left_out if one.check == "text")
    assert left.reason == f"fails: RuntimeError: no more than {short} tokens"
    assert found.rows("cost", "forwards", "random")[0].n == 40 - left.texts > 0


def test_a_run_with_holes_is_summed_up_over_what_it_has(tmp_path: Path) -> None:
    found = run(tmp_path / "a", checks=[Counting()])
    for part in (tmp_path / "a" / "parts").glob("00001.*"):
        part.unlink()
    lengths = [len(POINTER.tokens(t)) for t in found.run.texts().column("text").to_pylist()]  # type: ignore[union-attr]
    again = run(tmp_path / "a", checks=[Counting()], limit=1)
    assert again.summary.texts.n == 24
    assert again.rows("Counting")[0].mean == pytest.approx(np.mean(lengths))


def test_a_number_found_twice_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="twice on text 0"):
        run(checks=[Twice()], limit=1)


@dataclass(frozen=True)
class Twice(Counting):
    """Says everything twice."""

    def __call__(self, case: Case) -> list[Finding]:
        return 2 * super().__call__(case)


def test_a_check_may_want_the_first_texts_only() -> None:
    assert run(checks=[Counting(texts=7)]).rows("Counting")[0].n == 7


def test_a_text_that_the_model_cannot_read_is_left_out_and_said() -> None:
    found = audit(POINTER, [*TEXTS[:3], Example("[PAD]")], METHOD, ["cost"])
    assert [(one.check, one.texts) for one in found.summary.left_out] == [("text", 1)]
    assert found.rows("cost", "forwards", "attention-mean")[0].n == 3


def test_below_thirty_texts_nothing_is_decided() -> None:
    few = run(limit=29).rows("complexity", "gini", "attention-mean")[0]
    many = run(limit=40).rows("complexity", "gini", "attention-mean")[0]
    assert few.versus_random is not None
    assert many.versus_random is not None
    assert few.versus_random.decision == Decision.TOO_FEW
    assert many.versus_random.decision == Decision.HIGHER


def test_another_draw_of_random_cannot_be_told_from_random() -> None:
    """The control `random` itself, under another name."""
    few = {"maskings": ["delete"], "points": 2, "greedy_words": 0, "exhaustive_words": 0}
    found = run(methods=[Another()], checks=[heedful.check("input-erasure", few)])
    rows = found.rows("input-erasure", "aopc comprehensiveness", "Another")
    assert {row.versus_random.decision for row in rows if row.versus_random} == {Decision.NOT_SIGNIFICANT}


@dataclass(frozen=True)
class Another:
    """Random scores."""

    def __call__(self, classifier: Any, tokens: Any, target: Any, rng: torch.Generator) -> heedful.Attribution:
        return heedful.Attribution(tokens=tokens, scores=torch.rand(len(tokens), generator=rng).numpy(), signed=False)


def test_the_difference_is_paired() -> None:
    found = run(methods=["leave-one-out"], checks=["complexity"])
    own, other = (found.rows("complexity", "gini", name)[0] for name in ("leave-one-out", "random"))
    assert own.versus_random is not None
    assert own.versus_random.mean == pytest.approx(own.mean - other.mean)


def test_a_label_that_the_model_has_not_is_refused_before_anything_runs() -> None:
    with pytest.raises(BadInput, match=r"label 'maybe' in row 1 is not one of .* give --rename-labels maybe=NAME"):
        audit(POINTER, [Example("ape yes", label="maybe")], METHOD, CHECKS)


def test_how_texts_were_selected_does_not_make_another_run() -> None:
    texts = [Example("one two", None, "a"), Example("three", None, "b"), Example("four five", None, "a")]
    rename = {"a": "0", "b": "1"}
    job = prepare(AuditRequest(POINTER, texts, select=Selection(rename=rename, min_words=2)))
    same = prepare(AuditRequest(POINTER, [Example(e.text, None, "0") for e in (texts[0], texts[2])]))
    assert job.note == "1 text was dropped: 1 with fewer than 2 words."
    assert job.manifest().stamp == same.manifest().stamp
    assert job.manifest().differences(same.manifest()) == []


def test_no_texts() -> None:
    with pytest.raises(BadInput, match=r"no texts|no examples"):
        audit(POINTER, [], METHOD, CHECKS)


def test_threads_and_memory_are_given_back(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    try:
        run(limit=3)
        assert (torch.get_num_threads(), POINTER.answered) == (2, None)
    finally:
        torch.set_num_threads(1)


def test_inputs_that_methods_and_checks_share_run_once() -> None:
    found = run(methods=["leave-one-out", "occlusion"], checks=["sign"], limit=16)
    passes = found.timing["passes"]
    assert passes["shared"] > passes["asked"] / 3


# batteries


def test_settings_go_where_they_are_meant() -> None:
    chosen = battery(
        "standard", ["lime", "shapley"], ["permutation", "erasure"], settings=["lime.samples=77", "permutation.draws=5"]
    )
    settings = chosen.to_dict()
    assert settings["methods"]["lime"]["samples"] == 77
    assert settings["methods"]["shapley"]["samples"] == 200
    assert settings["checks"]["permutation"]["draws"] == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["samplse=3"], "nothing chosen has a setting 'samplse'"),
        (["shapley.samples=3"], "'shapley' is not among those chosen"),
        (["lime.samples=many"], "samples is a whole number"),
        (["lime"], "is not a setting"),
    ],
)
def test_a_setting_that_goes_nowhere_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        battery("standard", ["lime"], ["cost"], settings=given)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"profile": "standart"}, "did you mean 'standard'"),
        ({"methods": ["lmie"]}, "did you mean 'lime'"),
        ({"checks": ["permutatoin"]}, "did you mean 'permutation'"),
        ({"methods": ["minimal-flip"]}, "gives no score per token"),
        ({"methods": []}, "no method was given"),
        ({"checks": []}, "no check was given"),
    ],
)
def test_what_is_no_method_or_check_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        battery(**asked)


def test_the_order_of_names_does_not_matter() -> None:
    one = battery("standard", ["lime", "attention-mean"], ["cost", "agreement"])
    other = battery("standard", ["attention-mean", "lime"], ["agreement", "cost"])
    assert (list(one.methods), list(one.checks)) == (list(other.methods), list(other.checks))


def test_full_has_every_method_that_scores_tokens() -> None:
    chosen = battery("full")
    assert set(METHODS) - set(chosen.methods) == {"attention-weights", "attattr", "input-reduction", "minimal-flip"}
    assert list(chosen.checks) == list(heedful.CHECKS)


@pytest.mark.parametrize("name", heedful.CHECKS)
def test_every_check_says_what_it_is(name: str) -> None:
    cls = heedful.CHECKS[name]
    assert isinstance(cls(), Check)
    assert all((cls.summary, cls.paper, cls.changes, cls.measures, cls.__doc__))
    assert heedful.CHECKS.name_of(heedful.check(name)) == name


# the command

COMMAND = ["audit", "corpus", "--limit", "34", "--checks", "cost,complexity,agreement"]
COMMAND += ["--methods", "attention-mean,gradient-x-input"]


def command(*args: str) -> Any:
    return CliRunner().invoke(main, [*COMMAND, *args])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "whole"
    assert command("--out", str(folder)).exit_code == 0
    return folder


def test_the_command_prints_a_table_and_keeps_a_run(whole: Path) -> None:
    found = command("--out", str(whole))
    assert found.exit_code == 0
    assert "data: corpus, 34 texts of" in found.output
    assert re.search(r"accuracy: \d+ % \[\d+, \d+\]", found.output)
    assert "gradient-x-input" in found.output


def test_the_summary_as_json(whole: Path) -> None:
    found = command("--out", str(whole), "--json")
    assert json.loads(found.stdout) == json.loads(summary(whole))


def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """A real kill -9, when the second part is written and not yet in its place."""
    for part in (POINTER.model, POINTER.tokenizer):
        part.save_pretrained(tmp_path / "model")
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps({"text": e.text, "label": e.label}) for e in TEXTS))
    asked = ["audit", str(tmp_path / "data.jsonl"), "--model", str(tmp_path / "model"), "--checks", "cost,complexity"]
    asked += ["--methods", "attention-mean,gradient-x-input", "--out"]

    with processes.command([*asked, str(tmp_path / "a")], before=processes.dies_at("00001.parquet")) as process:
        assert process.wait() == -signal.SIGKILL
    left = {file.name for file in (tmp_path / "a" / "parts").iterdir()}
    assert ("00000.parquet" in left, "00001.parquet" in left) == (True, False)
    assert any(name.startswith(f".00001.parquet.{HOST}.{process.pid}.") for name in left)
    for folder in ("a", "whole"):
        assert CliRunner().invoke(main, [*asked, str(tmp_path / folder)]).exit_code == 0
    assert summary(tmp_path / "a") == summary(tmp_path / "whole")


@pytest.mark.thorough
def test_a_command_that_is_stopped_and_then_killed_goes_on(whole: Path, tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "heedful", *COMMAND, "--out", str(tmp_path / "a")]

    def until(parts: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + PATIENCE_SECONDS
        while (
            process.poll() is None
            and time.monotonic() < end
            and len(list((tmp_path / "a" / "parts").glob("*[0-9].parquet"))) < parts
        ):
            time.sleep(0.01)
        return process

    process = until(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (130, 0)  # it may have been too late
    assert "Traceback" not in said
    process = until(2)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == -signal.SIGKILL
    assert command("--out", str(tmp_path / "a")).exit_code == 0
    assert summary(tmp_path / "a") == summary(whole)


def test_a_dry_run_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_seconds", lambda job: 90.0)  # to time a text takes seconds
    found = CliRunner().invoke(main, ["audit", "corpus", "--dry-run", "--out", str(tmp_path / "a")])
    assert found.exit_code == 0
    assert not (tmp_path / "a").exists()
    for name in ("60 texts", *set(battery().methods) - {"theory-gradient", "theory-lime"}, *battery().checks):
        assert name in found.output


def test_what_cannot_apply_to_the_model_is_not_in_the_default_battery(tmp_path: Path) -> None:
    heedful.train("multihead", "corpus", tmp_path / "net", {"epochs": 1})
    theory = {"theory-gradient", "theory-lime"}
    assert not theory & set(prepare(AuditRequest(POINTER, TEXTS)).battery.methods)
    assert theory <= set(prepare(AuditRequest(tmp_path / "net", "corpus")).battery.methods)
    assert "theory-lime" in prepare(AuditRequest(POINTER, TEXTS, ["theory-lime"])).battery.methods


def test_a_request_has_the_arguments_of_an_audit_with_their_defaults() -> None:
    parameters = inspect.signature(heedful.audit).parameters
    request = inspect.signature(AuditRequest).parameters
    assert list(request) == [name for name in parameters if name in request]
    assert {name: p.default for name, p in request.items()} == {name: parameters[name].default for name in request}
    how = {"out", "jobs", "workers", "time_budget", "restart", "watch"}
    assert set(parameters) - set(request) == how


@pytest.mark.parametrize(("seconds", "words"), [(3.2, "3 s"), (600, "10 min"), (3725 * 2, "2 h 4 min")])
def testdurations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_dry_run_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_seconds", lambda job: 90.0)
    found = CliRunner().invoke(main, ["audit", "corpus", "--dry-run", "--json", "--checks", "cost,sign"])
    plan = json.loads(found.stdout)
    assert (plan["texts"], plan["seconds"]) == (60, 90.0)
    assert {line["name"] for line in plan["plan"] if line["kind"] == "check"} == {"cost", "sign"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "no folder was given for the run; add --out DIR."),
        (["--out", "x", "--time-budget", "soon"], "'soon' is not a time; write it as 90s, 10m or 2h."),
        (["--out", "x", "--checks", "permutatoin"], "did you mean 'permutation'"),
        (["--out", "x", "--profile", "slow"], "profile 'slow' is not one of verdict, standard, full"),
        (["--out", "/dev/null/x"], "cannot be"),
    ],
)
def test_mistakes_are_one_sentence(args: list[str], said: str) -> None:
    found = CliRunner().invoke(main, ["audit", "corpus", *args])
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert said in found.stderr


def test_the_library_does_what_the_command_does(tmp_path: Path) -> None:
    """Model and checkpoints by folder, columns, settings and files of explanations as the command takes them."""
    heedful.train("average", "corpus", tmp_path / "net", {"epochs": 1})
    rows = [{"words": f"A film, number {i}.", "gold": ["negative", "positive"][i % 2]} for i in range(20)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    mine = [{"text": row["words"], "method": "mine", "scores": [1, 2, 3, i]} for i, row in enumerate(rows[:18])]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, mine)))
    net, data, scores = (str(tmp_path / name) for name in ("net", "data.jsonl", "mine.jsonl"))
    asked = ["audit", data, "--model", net, "--methods", "lime", "--checks", "stability,complexity", "--seed", "3"]
    asked += ["--set", "lime.samples=20", "--set", "stability.seeds=1", "--scale", "probability"]
    asked += ["--text-column", "words", "--label-column", "gold"]
    asked += ["--checkpoints", net, "--explanations", scores, "--limit", "17", "--out", str(tmp_path / "command")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.stderr
    found = audit(
        net,
        data,
        ["lime"],
        ["stability", "complexity"],
        tmp_path / "library",
        seed=3,
        settings=["lime.samples=20", "stability.seeds=1"],
        columns=Columns("words", None, "gold"),
        target=heedful.Target(scale="probability"),
        checkpoints=[net],
        explanations=[scores],
        limit=17,
    )
    assert summary(tmp_path / "library") == summary(tmp_path / "command")
    assert found.rows("complexity", "gini", "mine")


def test_checkpoints_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="two checkpoints have the same folder name"):
        audit(POINTER, TEXTS, METHOD, CHECKS, checkpoints=[tmp_path / "a" / "net", tmp_path / "b" / "net"])


def test_checkpoints_are_several(tmp_path: Path) -> None:
    for name in ("a", "b"):
        heedful.train("average", "corpus", tmp_path / name, {"epochs": 1})
    models = [str(tmp_path / name) for name in ("a", "b")]
    asked = ["audit", "corpus", "--model", models[0], "--methods", "attention-mean", "--checks", "stability"]
    asked += ["--limit", "3", "--json", "--checkpoints", *models, "--out", str(tmp_path / "run")]
    found = CliRunner().invoke(main, asked)
    assert found.exit_code == 0, found.output
    places = {str(row["at"].get("with")) for row in json.loads(found.stdout)["checks"]["stability"]["rows"]}
    assert {"checkpoint:a", "checkpoint:b"} <= places


def test_checks_are_listed_and_told() -> None:
    listed = CliRunner().invoke(main, ["checks"]).output
    assert [line.split()[0] for line in listed.splitlines()] == list(heedful.CHECKS)
    told = CliRunner().invoke(main, ["checks", "permutation"]).output
    assert "draws" in told
    assert "what is changed:" in told
    wrong = CliRunner().invoke(main, ["checks", "permutatoin"])
    assert wrong.exit_code == 2
    assert "did you mean 'permutation'" in wrong.stderr


def test_numbers_do_not_depend_on_other_texts_of_the_data() -> None:
    """A text's findings are its own, to rounding, whatever chunk it is in."""
    found = [audit(POINTER, some, ["leave-one-out"], ["input-erasure"]) for some in (TEXTS[:1], TEXTS[:1] * 2)]
    once, twice = (np.array([row.mean for row in one.rows("input-erasure")], dtype=float) for one in found)
    np.testing.assert_allclose(once, twice, atol=1e-6)
