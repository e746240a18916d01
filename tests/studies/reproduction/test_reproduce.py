"""A whole reproduction: data that are found or missing, resuming, processes, and wrong arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import heedful
from heedful.core.errors import BadInput
from heedful.nets.training.train import RECORD
from heedful.report.study import report
from heedful.studies.base import Trial
from heedful.studies.folder import StudyFolder, Trainings, open_study
from heedful.studies.reproduction import PAPERS
from heedful.studies.reproduction.base import limited_words
from heedful.studies.reproduction.published import Judgement
from heedful.studies.reproduction.reproduce import prepare, reproduce


def data_folder(folder: Path) -> Path:
    (folder / "SST2").mkdir(parents=True)
    lines = [
        json.dumps({"text": f"{'good' if i % 2 else 'bad'} film with a plot of {i} parts", "label": i % 2})
        for i in range(60)
    ]
    (folder / "SST2" / "all.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("paper", list(PAPERS))
def test_every_paper_runs_on_the_embedded_corpus(paper: str, tmp_path: Path) -> None:
    outcome = reproduce(paper, out=tmp_path / "r", profile="smoke")
    assert {c.judgement for c in outcome.result.comparisons} <= {Judgement.NOT_COMPARED}
    assert "<svg" in (tmp_path / "r" / "report.html").read_text("utf-8")
    assert heedful.open(tmp_path / "r").to_dict() == outcome.to_dict()
    page = report(outcome)
    said = [dict(page.facts)["data"], *(section.title for section in page.sections)]
    known = {data.name for data in PAPERS[paper].data}
    assert not known & {word.strip(",.:") for words in said for word in words.split()}  # "SST-2", not "sst"


def test_data_sets_are_found_by_their_names_and_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = data_folder(tmp_path)
    (folder / "SST2" / "all.jsonl").rename(folder / "SST2" / "train.jsonl")
    (folder / "SST2" / "test.jsonl").write_text((folder / "SST2" / "train.jsonl").read_text().replace("film", "book"))
    job = prepare("wiegreffe2019", folder, profile="smoke")
    assert [subject.name for subject in job.subjects] == ["sst"]
    missing = job.study.missing(job.trial(None))  # type: ignore[arg-type]
    assert "it must be a folder 'imdb': train and test with a review" in missing["imdb"]


def test_the_published_files_of_ag_news_are_read_without_titles_and_two_classes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "agnews").mkdir()
    for part in ("train", "test"):
        rows = [f'"{i % 4 + 1}","Title {i}","Text {part} {i} of this class."' for i in range(160)]
        (tmp_path / "agnews" / f"{part}.csv").write_text("\n".join(rows))
    (subject,) = prepare("jain2019", tmp_path, profile="smoke").subjects
    assert {e.label for e in subject.splits.test} == {"1", "3"}
    assert all(e.text.startswith("Text test") for e in subject.splits.test)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paper": "wiegrefe2019"}, "paper 'wiegrefe2019' is not known; did you mean 'wiegreffe2019'"),
        ({"paper": "wiegreffe2019", "profile": "fast"}, "profile 'fast' is not one of smoke, quick, full"),
        ({"paper": "wiegreffe2019", "data": "nowhere"}, "'nowhere' is not a folder; give one with a folder for each"),
        ({"paper": "wiegreffe2019", "data": "."}, "has none of the paper's data sets ('sst', 'imdb'"),
        ({"paper": "hao2021", "settings": ["encoder=nowhere"]}, "'nowhere'"),
        ({"paper": "wiegreffe2019", "settings": ["sed=3"]}, "wiegreffe2019 has no setting 'sed'"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    arguments: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        reproduce(**arguments, out=tmp_path / "r")  # type: ignore[arg-type]
    assert not (tmp_path / "r").exists()


@pytest.mark.thorough
def test_a_reproduction_that_lost_steps_ends_with_the_same_bytes(tmp_path: Path) -> None:
    first, again = tmp_path / "a", tmp_path / "b"
    for folder in (first, again):
        reproduce("wiegreffe2019", out=folder, profile="smoke")
    steps = [*(again / "steps").glob("*.json"), *(again / "parts").glob("*/steps/*.json")]
    for file in [*steps[::2], *(again / "parts").glob("*/report.html"), again / "outcome.json"]:
        file.unlink()
    reproduce("wiegreffe2019", out=again, profile="smoke", jobs=2)
    assert (first / "outcome.json").read_bytes() == (again / "outcome.json").read_bytes()


# trainings that studies share


def store(folder: Path) -> StudyFolder:
    return open_study(folder, prepare("wiegreffe2019", profile="smoke").manifest())


def test_a_training_that_another_study_has_done_is_copied(tmp_path: Path) -> None:
    trained: list[Path] = []

    def train(folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"weights %d" % len(trained))
        (folder / RECORD).write_text('{"test": {"accuracy": 0.5}}')
        trained.append(folder)

    first, second = (
        Trial((), store(tmp_path / "parts" / name), trainings=Trainings(tmp_path)) for name in ("first", "second")
    )
    for trial in (first, second, first):
        assert trial.train_once("seed 1", {"seed": 1}, train) == {"test": {"accuracy": 0.5}}
    assert trained == [first.store.model("seed 1")]
    assert (second.store.model("seed 1") / "model.safetensors").read_bytes() == b"weights 0"
    second.train_once("seed 2", {"seed": 2}, train)
    alone = Trial((), store(tmp_path / "alone"))
    alone.train_once("seed 1", {"seed": 1}, train)
    assert len(trained) == 3


@pytest.mark.thorough
def test_a_shared_training_is_what_each_study_would_train_itself(tmp_path: Path) -> None:
    reproduce("wiegreffe2019", out=tmp_path, profile="smoke")
    models = sorted((tmp_path / "parts").glob("*/models/*"))
    assert len(list((tmp_path / "trainings").glob("*.json"))) < len(models)
    seed, twin = (tmp_path / "parts" / name / "models" / "seed-1" for name in ("seeds-sst", "adversarial-training-sst"))
    record = json.loads((seed / RECORD).read_text())
    subject = prepare("wiegreffe2019", profile="smoke").subjects[0]
    alone = tmp_path / "alone"
    heedful.train(
        "bilstm", limited_words(subject, 1200).splits, alone, {"epochs": 1, "seed": record["settings"]["seed"]}
    )
    for file in ("model.safetensors", "heedful.json", RECORD):
        assert (seed / file).read_bytes() == (twin / file).read_bytes() == (alone / file).read_bytes()
