"""A whole reproduction: data that are found or missing, resuming, processes, and wrong arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
from heedful.studies.reproduction.data_sets import DataSet
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
    assert any(section.title.startswith("Each layer by itself") for section in page.sections) == (
        paper in ("hao2021", "poster")
    )
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


def published_parts(folder: Path, name: str, row: Callable[[int], str], files: Sequence[str]) -> DataSet:
    """A data set with forty rows in each published file."""
    (folder / name).mkdir()
    for file in files:
        (folder / name / file).write_text("\n".join(f"{row(i)}" for i in range(40)).replace("PART", file))
    every: list[DataSet] = [known for paper in PAPERS.values() for known in paper.data]
    return next(known for known in every if name in (known.name, *known.folders))


PAIR = '{{"gold_label": "{}", "sentence1": "a man {} PART", "sentence2": "he sleeps"}}'


@pytest.mark.parametrize(
    ("name", "files", "row", "text", "labels"),
    [
        ("yelp_review_full_csv", ["train.csv", "test.csv"], lambda i: f'"{i % 5 + 1}","PART {i}\\n""Fine"""',
         'train.csv 0\n"Fine"', 5),
        ("amazon", ["train.csv", "test.csv"], lambda i: f'"{i % 5 + 1}","PART {i}","a\\nb"', "train.csv 0 a\nb", 5),
        ("yahoo_answers_csv", ["train.csv", "test.csv"], lambda i: f'"{i % 9 + 1}","PART {i}?","","so"',
         "train.csv 0? so", 9),
        ("adr", ["train.tsv", "test.tsv"], lambda i: f"35{i}\t7{i}\t{i % 2}\tno sleep at all since PART {i}",
         "no sleep at all since train.tsv 0", 2),
        ("snli_1.0", [f"snli_1.0_{part}.{end}" for part in ("train", "dev", "test") for end in ("jsonl", "txt")],
         lambda i: PAIR.format(["neutral", "entailment", "-"][i % 3], i), "a man 0 snli_1.0_train.jsonl", 2),
        ("multinli_1.0", [f"multinli_1.0_{part}.jsonl" for part in ("train", "dev_matched", "dev_mismatched")],
         lambda i: PAIR.format(["neutral", "entailment", "-"][i % 3], i), "a man 0 multinli_1.0_train.jsonl", 2),
    ],
)  # fmt: skip
def test_the_published_files_of_a_data_set_are_read(
    name: str, files: Sequence[str], row: Callable[[int], str], text: str, labels: int, tmp_path: Path
) -> None:
    known = published_parts(tmp_path, name, row, files)
    folder = known.find(tmp_path)
    assert folder is not None
    parts = known.subject(folder).splits
    assert text in {e.text for e in (*parts.train, *parts.dev)}
    assert all(len({e.label for e in part}) == labels for part in (parts.train, parts.test))
    assert "mismatched" not in " ".join(e.text for e in parts.test)


def test_the_questions_of_cnn_are_found_in_their_archive(tmp_path: Path) -> None:
    (cnn,) = (known for known in PAPERS["jain2019"].data if known.name == "cnn")
    for part in ("training", "validation", "test"):
        (tmp_path / "cnn" / "questions" / part).mkdir(parents=True)
        for i in range(4):
            lines = ("http://x", f"@entity{i} and @entity9 met {part}", f"@placeholder met {part}", f"@entity{i}")
            (tmp_path / "cnn" / "questions" / part / f"{i}.question").write_text("\n\n".join((*lines, "@entity9:Ann")))
    folder = cnn.find(tmp_path)
    assert folder is not None
    assert [e.label for e in cnn.subject(folder).splits.train] == [f"entity{i}" for i in range(4)]


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
