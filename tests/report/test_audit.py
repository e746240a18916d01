"""The report of a run: the verdict and the ranking in words, put together, and written by the command."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import heedful
from heedful.audits.manifest import Manifest
from heedful.audits.ranking import rank_methods
from heedful.audits.record import Record, load_record
from heedful.audits.run import Run
from heedful.audits.summary import About, CheckSummary, Row, Summary
from heedful.audits.verdict import NEEDED, Answer, Evidence, Reason, Rule, Verdict, verdict
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.data import Example
from heedful.report.audit import report
from heedful.report.document_terminal import show_document
from heedful.report.ranking import advice, ranking_section
from heedful.report.verdict import conclusion, share_phrase, verdict_section, verdict_sentences
from tests.audits.test_verdict import numbers, shares
from tests.support import toys
from tests.support.findings import every_field
from tests.support.operating import SMALL

TEXTS = 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the pointer."""
    out = tmp_path_factory.mktemp("reports") / "run"
    classifier = toys.build("bilstm", toys.POINTER)
    examples = [Example(text, label=classifier.labels[i % 2]) for i, text in enumerate(toys.texts(TEXTS))]
    checks = [
        heedful.check(name, SMALL.get(name))
        for name in heedful.CHECKS
        if set(getattr(heedful.CHECKS[name], "roles", ())) & {*NEEDED, "cost"}
    ]
    heedful.audit(classifier, examples, ["attention-mean", "integrated-gradients"], checks, out, limit=TEXTS)
    return out


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    return load_record(folder)


def judged(given: Mapping[str, float], **more: Any) -> Verdict:
    return verdict(numbers(given, **more))


def ran(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


# what was not measured


def test_a_run_for_the_verdict_alone_says_what_it_left_out_and_how_to_add_it(record: Record) -> None:
    console = Console(file=io.StringIO(), width=500)
    show_document(report(record), console)
    said = dict(report(record).facts)["not measured"]
    assert f"not measured: {said}" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "uniform, adversarial, identifiability" in said
    assert "--profile standard" in said
    assert not any(name in said.split(".")[0].split(";")[0] for name in ("agreement", "permutation", "complexity"))


# the verdict in words


@cache
def _words(a: float, b: float, c: float) -> tuple[str, ...]:
    return verdict_sentences(judged(shares(a, b, c)))


def test_the_head_says_the_verdict() -> None:
    assert _words(0.9, 0.9, 0.9)[0].startswith("Attention may be used as an explanation of this model")
    assert _words(0.0, 0.0, 0.0)[0].startswith("Attention should not be used as an explanation of this model")
    assert _words(0.9, 0.0, 0.0)[0].startswith("Attention carries some, but not all, of what decides")


def test_each_question_has_its_answer_and_numbers() -> None:
    first = _words(0.9, 0.3, 0.0)[1:4]
    assert [sentence.split("? ")[1].split(".")[0].split(":")[0] for sentence in first] == ["Yes", "Undecided", "No"]
    assert "90 % [" in first[0]


def test_an_undecided_verdict_says_why() -> None:
    assert verdict_sentences(judged(shares(1, 1, 1), n=20))[0].endswith(
        "as an explanation of this model: fewer than 30 texts."
    )


def test_what_was_not_measured_is_said() -> None:
    said = verdict_sentences(verdict(Evidence()))
    assert said[1] == "Does attention point at the words that matter? Undecided: it was not measured."


@pytest.mark.parametrize(("n", "printed"), [(20, False), (60, True)])
def test_a_share_is_left_out_below_the_minimum_of_texts(n: int, printed: bool) -> None:
    first = verdict_sentences(judged(shares(1, 1, 1), n=n))[1]
    assert ("of the reference's lead over random" in first) == printed


def test_an_undecided_share_with_wide_limits_is_left_out() -> None:
    wide = Answer("Q1", "undecided", 60, Reason.OPEN, share=0.7, low=-9.0, high=1.6)
    assert (share_phrase(wide), share_phrase(replace(wide, low=0.4))) == (None, "70 % [40, 160]")


def test_only_what_holds_qualifies() -> None:
    given = replace(numbers(shares(1, 1, 1)), elsewhere=np.full(60, 0.9), steady=np.full(60, 0.9))
    last = verdict_sentences(verdict(given))[-1]
    assert last.startswith("Caveats: attention is not unique")
    assert "unstable" not in last


def test_the_constants_are_printed() -> None:
    rule = Rule(most=0.7, least=0.1)
    section = verdict_section({"attention-mean": verdict(numbers(shares(1, 1, 1)), rule)}, "attention-mean")
    assert "0.7 (s − r)" in section.reading
    assert "0.1 (s − r)" in section.reading


def test_the_reading_that_is_judged_comes_first() -> None:
    one = judged(shares(1, 1, 1))
    section = verdict_section({"attention-max": one, "attention-mean": one}, "attention-mean")
    assert [row[0] for row in section.tables[-1].rows] == ["attention-mean", "attention-max"]


@pytest.mark.parametrize(
    ("given", "end"),
    [
        (shares(1, 1, 1), "attention may be used as an explanation, too."),
        (shares(1, 1, 0), "attention may be shown beside another explanation, but not replace it."),
        (shares(0, 0, 0), "attention should not be used as an explanation."),
    ],
)
def test_the_conclusion_is_one_sentence(given: Mapping[str, float], end: str) -> None:
    assert conclusion("lime", judged(given)) == f"Use lime to explain this model; {end}"


def test_the_conclusion_says_why_attention_is_undecided() -> None:
    assert conclusion(None, judged(shares(1, 1, 1), n=20)) == (
        "No explanation of this model is recommended; whether attention may be used is undecided (fewer than 30 texts)."
    )


def test_the_terminal_ends_with_the_conclusion(record: Record) -> None:
    console = Console(file=io.StringIO(), width=200)
    show_document(report(record), console)
    assert console.file.getvalue().splitlines()[-1] == report(record).conclusion  # type: ignore[attr-defined]


# which to use, in words


def ranked(scores: Mapping[str, Any], costs: Mapping[str, float] | None = None) -> Record:
    rows = [
        Row(60, 0, cost, cost, 0.0, cost, cost, check="cost", measure="forwards", method=name)
        for name, cost in (costs or {}).items()
    ]
    checks = {"cost": CheckSummary(About(roles=("cost",)), tuple(rows))}
    texts: Any = None
    manifest = Manifest({"labels": []}, {}, {"methods": [], "checks": {}}, 0, {})
    return Record(
        Run(Path(), manifest), Summary(texts, checks, {}, (rank_methods("delete", scores),) if scores else ()), {}
    )


def scored(means: Mapping[str, float], n: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: mean + 0.05 * rng.normal(size=n) for name, mean in means.items()}


def test_the_best_is_named_with_what_it_takes() -> None:
    said = advice(ranked(scored({"a": 0.5, "b": 0.2, "random": 0.0}), {"a": 7}))
    assert said[0] == "Use a: its ranking of the words follows this model best (7 passes per text)."
    assert said[1].startswith("A has the highest score, 0.5")
    assert said[1].endswith("It is significantly better than every other method.")


@pytest.mark.parametrize(
    ("costs", "sentence"),
    [
        (
            {"a": 100, "b": 2},
            "Use b: of the 2 methods that follow this model best, it is the cheapest (2 passes per text).",
        ),
        (
            {"a": 100},
            "Use a: of the 2 methods that follow this model best, it is the cheapest of those whose cost is known "
            "(100 passes per text).",
        ),
        ({}, "Use a: no other method follows this model significantly better."),
    ],
)
def test_of_methods_without_a_significant_difference_the_cheapest_is_recommended(
    costs: dict[str, float], sentence: str
) -> None:
    scores = scored({"a": 0.5, "random": 0.0})
    noise = np.random.default_rng(1).normal(size=60)
    scores["b"] = scores["a"] + 0.1 * (noise - noise.mean()) - 1e-6  # a little worse, and not significantly
    sentences = advice(ranked(scores, costs))
    assert sentences[0] == sentence
    assert sentences[1].endswith("Not significantly different from it: b.")


def test_no_method_is_advised_that_cannot_be_told_from_random() -> None:
    said = advice(ranked(scored({"a": 0.001, "b": -0.001, "random": 0.0})))
    assert said == (
        "No explanation is recommended: no method ranks the words significantly better than a random order (60 texts).",
    )


def test_few_texts_give_no_advice() -> None:
    assert advice(ranked(scored({"a": 0.5, "random": 0.0}, n=20)))[0].startswith(
        "Too few texts to recommend an explanation (20 texts)"
    )


def test_a_run_without_erasure_has_no_ranking() -> None:
    assert advice(ranked({})) == (
        "No explanation is recommended: no check of this run ranks methods (input-erasure does).",
    )
    assert ranking_section(ranked({})) is None


# the whole


def test_a_run_of_the_pointer_is_told(record: Record) -> None:
    found = report(record)
    assert found.verdict == "explanation"
    assert [section.name for section in found.answers] == ["ranking", "verdict", "overview"]
    assert found.advice == found.answers[0].findings
    assert {"permutation", "agreement", "input-erasure", "examples", "words"} <= {s.name for s in found.sections}


def test_figures_have_names_of_their_own(record: Record) -> None:
    found = report(record)
    names = [figure.name for section in (*found.answers, *found.sections) for figure in section.figures]
    assert len(names) == len(set(names)) > 5


def test_the_verdict_found_anew_is_the_summarys(record: Record) -> None:
    assert every_field(record.verdicts(Rule())) == every_field(record.verdicts())


def test_another_rule_may_find_another_verdict(record: Record) -> None:
    assert report(record, Rule(texts=TEXTS + 1)).verdict == "undecided"


def test_places_and_cost_stand_beside_the_marks(record: Record) -> None:
    section = ranking_section(record)
    assert section is not None
    first = section.tables[0].rows[0]
    forwards, backwards = (record.rows("cost", m, str(first[0]))[0].mean for m in ("forwards", "backwards"))
    assert first[4] == pytest.approx(forwards + backwards)


# a run that is not whole


def test_a_run_that_goes_on_is_not_read(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "summary.json").read_text())
    stored["texts"]["n"] = 16
    (tmp_path / "run" / "summary.json").write_text(json.dumps(stored))
    with pytest.raises(BadInput, match="is incomplete: 32 texts, but the summary covers 16"):
        load_record(tmp_path / "run")


def test_a_run_without_a_summary_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    with pytest.raises(BadInput, match=r"no summary\.json: its audit was interrupted"):
        load_record(tmp_path / "run")


# the command


@pytest.mark.parametrize(("kind", "name"), [("html", "html"), ("md", "md"), ("csv", "csv"), ("latex", "tex")])
def test_every_format_is_written_into_the_run(folder: Path, kind: str, name: str) -> None:
    assert ran("report", folder, "--format", kind).exit_code == 0
    assert (folder / f"report.{name}").stat().st_size > 1000


def test_the_same_run_gives_the_same_page(folder: Path, tmp_path: Path) -> None:
    pages = [tmp_path / name for name in ("a.html", "b.html")]
    for page in pages:
        assert ran("report", folder, "--out", page).exit_code == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_figures_are_files_that_stand_alone(folder: Path, tmp_path: Path) -> None:
    assert (
        ran("report", folder, "--out", tmp_path / "r.md", "--format", "md", "--figures", tmp_path / "f").exit_code == 0
    )
    drawn = sorted((tmp_path / "f").glob("*.svg"))
    assert len(drawn) > 5
    assert all(file.read_text().startswith("<svg xmlns=") or "xmlns" in file.read_text()[:200] for file in drawn)
    assert f"{drawn[0].name}" in (tmp_path / "r.md").read_text()


def test_a_damaged_summary_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text('{"texts": 3}')
    with pytest.raises(BadInput, match=r"is not the summary of a run .*; run the same `heedful audit` again"):
        load_record(tmp_path / "run")


def test_a_constant_of_the_verdict_can_be_set(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.md"
    assert ran("report", folder, "--out", out, "--format", "md", "--set", "texts=1000").exit_code == 0
    assert "as an explanation of this model: fewer than 1000 texts" in out.read_text()
    assert "Nothing is decided on fewer than 30 texts, and no verdict is given on fewer than 1000." in out.read_text()


@pytest.mark.parametrize("wrong", ["most", "mots=1", "most=high"])
def test_a_constant_that_means_nothing_is_refused(folder: Path, wrong: str) -> None:
    result = ran("report", folder, "--set", wrong)
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    result = ran("report", tmp_path)
    assert result.exit_code == 2
    assert "holds no run" in result.output


def test_a_run_beside_itself_differs_in_nothing(folder: Path, tmp_path: Path) -> None:
    result = ran("compare", folder, folder, "--out", tmp_path / "c.html")
    assert result.exit_code == 0
    assert "differences are paired" in result.output
    assert (tmp_path / "c.html").exists()


def test_an_audit_has_its_verdict_and_page(folder: Path, tmp_path: Path) -> None:
    found = heedful.audit(heedful.load(), "corpus", ["attention-mean"], ["cost"], tmp_path / "run", limit=2)
    assert found.verdict.word == "undecided"
    assert "undecided" in found.to_html()


def test_without_attention_there_is_no_verdict_to_ask_for() -> None:
    found = heedful.audit(heedful.load(), "corpus", ["leave-one-out"], ["cost"], limit=2)
    with pytest.raises(BadInput, match="attention-mean is not among its methods; add attention-mean"):
        found.verdict  # noqa: B018


def test_an_audit_writes_its_report(tmp_path: Path) -> None:
    args = ("--limit", 8, "--methods", "attention-mean", "--checks", "complexity,cost")
    result = ran("audit", "corpus", "--out", tmp_path / "run", *args)
    assert result.exit_code == 0
    assert "Attention: undecided" in result.output
    assert (tmp_path / "run" / "report.html").read_text().startswith("<!DOCTYPE html>")
