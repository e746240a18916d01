"""Studies as a whole: their folder, resumption, parts of the data, several processes, and bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import heedful
from heedful.core.errors import BadInput, Unsupported
from heedful.core.finding import Measure
from heedful.core.settings import Checked, Count
from heedful.data import Example, Selection, Splits
from heedful.studies import STUDIES
from heedful.studies.base import Cost, Trial, disjoint, row_of
from heedful.studies.folder import STUDY_FORMAT, file_name, open_study
from heedful.studies.outcome import Result
from heedful.studies.pruning import Pruning
from heedful.studies.study import StudyRequest, _Steps, forecast, prepare
from tests.studies.test_pruning import tiny_data
from tests.support import models


@dataclass(frozen=True)
class Lengths(Checked):
    """The mean length of texts, in steps of `size` texts."""

    size: Count = 2

    summary: ClassVar[str] = "the length of texts"
    paper: ClassVar[str] = "nobody 1999"
    changes: ClassVar[str] = "nothing"
    measures: ClassVar[Mapping[str, Measure]] = {"length": Measure("tokens of a text")}
    uses: ClassVar[Mapping[str, str]] = {"test": "texts are counted"}
    calls: ClassVar[list[int]] = []

    def __call__(self, trial: Trial) -> Result:
        """One row."""
        texts = trial.texts(trial.classifier(), "test", self.uses["test"])

        def count(part: Any) -> list[int]:
            self.calls.append(len(part))
            return [len(tokens) for tokens in part.tokens]

        lengths = np.concatenate(trial.chunks("counting", texts, count, self.size)).astype(float)
        return Result(rows=(row_of("lengths", self.measures, "length", lengths),), texts=(texts.used,))

    def costs(self, trial: Trial) -> Sequence[Cost]:
        """Nothing."""
        return [Cost("counting")]


@pytest.fixture
def data() -> Splits:
    return tiny_data(models.shared("bert"))


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix not in (".seconds", ".html"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def test_an_interrupted_study_ends_with_the_same_bytes(tmp_path: Path, data: Splits) -> None:
    c, study = models.shared("bert"), Pruning(draws=1, keep=0.5, importances=("taylor", "accuracy"))
    heedful.study(study, data, c, out=tmp_path / "whole")
    steps = sorted(p.name for p in (tmp_path / "whole" / "steps").glob("*.json"))
    assert len(steps) >= 4
    for i in range(len(steps)):
        cut = tmp_path / f"cut{i}"
        shutil.copytree(tmp_path / "whole", cut)
        for name in ("outcome.json", "report.html", *(f"steps/{step}" for step in steps[i:])):
            (cut / name).unlink()
        heedful.study(study, data, c, out=cut)
        assert contents(cut) == contents(tmp_path / "whole")


def test_finished_steps_are_not_computed_again(tmp_path: Path, data: Splits) -> None:
    c = models.shared("bert")
    Lengths.calls.clear()
    heedful.study(Lengths(), data, c, out=tmp_path / "s")
    assert Lengths.calls == [2, 2, 2, 2]
    (tmp_path / "s" / "steps" / "counting-0001.json").unlink()
    heedful.study(Lengths(), data, c, out=tmp_path / "s")
    assert Lengths.calls == [2] * 5


def test_an_error_in_a_step_leaves_no_half_written_file(
    tmp_path: Path, data: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heedful.studies.pruning.importance", fail)
    with pytest.raises(KeyboardInterrupt):
        heedful.study(Pruning(), data, models.shared("bert"), out=tmp_path / "s")
    assert {p.name for p in (tmp_path / "s").iterdir()} == {"study.json", "steps"}
    assert not list((tmp_path / "s" / "steps").iterdir())


def test_another_process_restores_the_study_and_computes_a_step_to_the_same_bytes(tmp_path: Path) -> None:
    """On texts with rationales and places, as the embedded corpus has them."""
    settings = ["ranked=4", "scored=6", "draws=1", "importances=taylor", "each_layer=false"]
    job = prepare(StudyRequest("pruning", "corpus", settings=settings))
    assert any(example.rationale for example in job.subjects[0].splits.test)
    here = open_study(tmp_path / "here", job.manifest())
    job.study(job.trial(here))
    there = open_study(tmp_path / "there", job.manifest())
    described = json.loads(json.dumps(_Steps(job, there).describe(tmp_path)))
    for _ in here.folder.glob("steps/*.json"):  # each of the study's groups has one step
        _Steps.restore(described).do(0)
    assert contents(there.folder) == contents(here.folder)


@pytest.mark.thorough
def test_two_processes_end_with_the_bytes_of_one(tmp_path: Path) -> None:
    run = {"profile": "quick", "settings": ["ranked=6", "scored=40", "draws=1", "importances=taylor"]}
    heedful.study("pruning", "corpus", out=tmp_path / "one", **run)  # type: ignore[arg-type]
    heedful.study("pruning", "corpus", out=tmp_path / "two", jobs=2, **run)  # type: ignore[arg-type]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_an_outcome_is_read_from_its_folder(tmp_path: Path, data: Splits) -> None:
    outcome = heedful.study(Pruning(draws=1), data, models.shared("bert"), out=tmp_path / "s")
    again = heedful.open(tmp_path / "s")
    assert again.to_dict() == outcome.to_dict()
    assert again.rows("area accuracy", "taylor") == outcome.rows("area accuracy", "taylor")
    assert repr(again) == repr(outcome)
    assert (tmp_path / "s" / "report.html").read_text("utf-8") == outcome.to_html()


def test_a_folder_of_another_study_is_refused_and_stays(tmp_path: Path, data: Splits) -> None:
    c = models.shared("bert")
    heedful.study(Lengths(), data, c, out=tmp_path / "s")
    before = contents(tmp_path / "s")
    with pytest.raises(BadInput, match=r"holds a different study: setting study \(Lengths then, pruning now\)"):
        heedful.study(Pruning(), data, c, out=tmp_path / "s")
    assert contents(tmp_path / "s") == before
    heedful.study(Pruning(draws=1), data, c, out=tmp_path / "s", restart=True)
    assert heedful.open(tmp_path / "s").study == "pruning"


def test_a_folder_with_other_files_is_refused(tmp_path: Path, data: Splits) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(BadInput, match=r"holds files that are not a study's \(thesis.tex\)"):
        heedful.study(Lengths(), data, models.shared("bert"), out=tmp_path)


def test_an_unfinished_study_cannot_be_opened(tmp_path: Path, data: Splits) -> None:
    heedful.study(Lengths(), data, models.shared("bert"), out=tmp_path / "s")
    (tmp_path / "s" / "outcome.json").unlink()
    with pytest.raises(BadInput, match="its study was interrupted; run the same `heedful study` again"):
        heedful.open(tmp_path / "s")


def test_a_study_of_another_version_is_refused(tmp_path: Path, data: Splits) -> None:
    heedful.study(Lengths(), data, models.shared("bert"), out=tmp_path / "s")
    file = tmp_path / "s" / "study.json"
    file.write_text(file.read_text().replace(STUDY_FORMAT, "heedful study 0"))
    with pytest.raises(BadInput, match="has the format 'heedful study 0' of another version"):
        heedful.open(tmp_path / "s")


# data


def example(text: str, label: str | None = "a") -> Example:
    return Example(text, label=label)


def test_parts_have_no_text_in_common() -> None:
    splits, note = disjoint(Splits([*map(example, "abcd")], [*map(example, "cde")], [*map(example, "def")]))
    assert not note
    assert [[e.text for e in part] for part in (splits.train, splits.dev, splits.test)] == [
        ["a", "b"],
        ["c"],
        ["d", "e", "f"],
    ]


def test_a_test_part_without_labels_is_replaced_by_dev() -> None:
    texts = [example(f"text {i}", "ab"[i % 2]) for i in range(40)]
    splits, note = disjoint(Splits(texts[:30], texts[30:], [example("unlabelled", None)]))
    assert splits.test == texts[30:]
    assert len(splits.dev) == 3
    assert len(splits.train) == 27
    assert "no labelled test part" in note


def test_the_outcome_says_which_texts_were_used(data: Splits) -> None:
    outcome = heedful.study(Pruning(draws=1, ranked=5), data, models.shared("bert"))
    assert [(t.use, t.split, t.texts) for t in outcome.result.texts] == [
        ("heads are ranked", "dev", 5),
        ("curves are scored", "test", 8),
    ]


def test_a_study_says_what_was_dropped_from_its_data() -> None:
    rows = [*(example(f"one two {i}", "ab"[i % 2]) for i in range(40)), example("one", "a"), example("two", "c")]
    select = Selection(("a", "b"), {"a": "LABEL_0", "b": "LABEL_1"}, min_words=2)
    job = prepare(StudyRequest(Pruning(), rows, models.shared("bert"), select=select))
    dropped = {"all": {"with fewer than 2 words": 1, "with another label": 1}}
    assert job.subjects[0].note == "2 texts were dropped: 1 with fewer than 2 words, 1 with another label."
    assert job.manifest().data["dropped"] == dropped
    with pytest.raises(BadInput, match="the data are Splits, from which nothing is selected; give select to"):
        prepare(StudyRequest(Pruning(), job.subjects[0].splits, models.shared("bert"), select=select))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (Splits([], [example("a")], [example("b")]), r"has 1 labelled texts for its dev part \(heads are ranked\)"),
        (
            Splits([], [*map(example, "abcdef")], [*map(example, "ghijkl")]),
            "the dev part of the data has only the label 'a'; give texts of two",
        ),
        (
            Splits([], [example(x, x) for x in "abcd"], [example(x, x) for x in "efgh"]),
            "label 'a' in a text is not one of LABEL_0, LABEL_1, LABEL_2; correct it, or give --rename-labels a=NAME",
        ),
    ],
)
def test_unusable_data_are_refused_and_nothing_is_written(splits: Splits, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        heedful.study(Pruning(), splits, models.shared("bert"), out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("subject", [{"model": "bilstm"}, {"recipe": "bilstm"}, {"recipe": "han-rnn"}])
def test_a_model_without_heads_is_refused_and_nothing_is_written(
    subject: dict[str, Any], data: Splits, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {k: models.shared(v) if k == "model" else v for k, v in subject.items()}
    with pytest.raises(Unsupported, match="heads"):
        heedful.study(Pruning(), data, out=tmp_path / "s", **arguments)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("study", "subject", "message"),
    [
        ("uniform-training", {"model": "bert"}, "has no recipe, so it cannot be trained again"),
        ("seeds", {"model": "bert"}, "has no recipe"),
        ("guides", {"recipe": "bilstm-pair"}, "needs a network of one text"),
        ("guides", {"recipe": "transformer"}, "replaces one learned attention"),
        ("uniform-training", {"recipe": "bilstm-uniform"}, "needs learned attention"),
        ("adversarial-training", {"recipe": "han-rnn"}, "has two levels"),
        ("adversarial-training", {"model": "fnet"}, "attention cannot be read"),
        ("adversarial-keys", {"model": "bilstm"}, "keys"),
        ("adversarial-keys", {"recipe": "bilstm"}, "no heads to compare"),
        ("substitution", {"model": "fnet"}, "attention cannot be read"),
        ("triggers", {"model": "fnet"}, "attention cannot be read"),
        ("heads-across-tasks", {"model": ["bert", "bilstm"]}, "heads"),
    ],
)
def test_a_subject_that_a_study_cannot_take_is_refused_and_nothing_is_written(
    study: str, subject: dict[str, Any], message: str, data: Splits, tmp_path: Path
) -> None:
    def load(name: Any) -> Any:
        return [models.shared(part) for part in name] if isinstance(name, list) else models.shared(name)

    arguments: dict[str, Any] = {k: load(v) if k == "model" else v for k, v in subject.items()}
    with pytest.raises(heedful.HeedfulError, match=message):
        heedful.study(study, data, out=tmp_path / "s", **arguments)
    assert not (tmp_path / "s").exists()


# arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"study": "prunning"}, "study 'prunning' is not known; did you mean 'pruning'"),
        ({"study": "pruning", "profile": "fast"}, "profile 'fast' is not one of full, quick"),
        ({"study": "pruning", "settings": ["drows=3"]}, "pruning has no setting 'drows'; did you mean 'draws'"),
        ({"study": "pruning", "model": "x", "recipe": "bilstm"}, "both a model and a recipe were given"),
        ({"study": "pruning", "model": ["a", "b"]}, "pruning takes one model and one data set, not 2"),
        ({"study": "pruning", "recipe": "nope"}, "recipe 'nope' is not known"),
    ],
)
def test_wrong_arguments_are_refused_before_a_model_is_loaded(
    arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.model.loading.load", lambda *_, **__: pytest.fail("a model was loaded"))
    with pytest.raises(heedful.HeedfulError, match=message):
        heedful.study(data="corpus", **arguments)


def test_the_cost_is_forecast_without_a_step(data: Splits) -> None:
    plan = forecast(prepare(StudyRequest(Pruning(draws=2), data, models.shared("bert"))))
    assert [cost.what for cost in plan.costs][-1] == "scoring without heads"
    assert plan.seconds > 0


def test_names_of_steps_are_file_names() -> None:
    assert file_name("λ = 0.1, seed 3") == "λ-0.1-seed-3"


def test_every_study_owns_its_words() -> None:
    for name, cls in STUDIES.items():
        for attribute in ("summary", "paper", "title", "question", "reading", "changes", "measures", "uses", "quick"):
            assert getattr(cls, attribute), f"{name} has no {attribute}"
        STUDIES.make(name, cls.quick)
