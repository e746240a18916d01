"""Training on pairs of one's own: symbols, what is dropped, resuming, the commands, and exact match by length."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.data import Example, Splits
from heedful.maths.stats import wilson
from heedful.nets.training import lengths
from heedful.nets.training.lengths import Bin, compare_lengths, scored_pairs
from heedful.nets.training.loop import TrainingPlan, TrainingProgress, fit
from heedful.nets.training.pairs import PAD, STOP, UNK, TextPair, cut, frequent_symbols, join
from heedful.nets.training.train import train
from heedful.nets.training.translate import Translator, tokenizer
from heedful.nets.training.translation_job import Seq2SeqSettings, job

TINY = Seq2SeqSettings(embedding=5, hidden=6, units=4, batch=8)
WORDS = replace(TINY, symbols="word")
TRAIN = [("the red cat", "le chat rouge"), ("a red dog", "un chien rouge"), ("the dog", "le chien")]


def splits(train: Sequence[tuple[str, str]] = TRAIN, other: Sequence[tuple[str, str]] = TRAIN[:1]) -> Splits:
    parts = [[Example(a, label=b) for a, b in part] for part in (train, other, other)]
    return Splits(*parts)


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


# symbols


@pytest.mark.parametrize(("kind", "symbols"), [("character", list("a  b\n")), ("word", ["a", "b"])])
def test_a_text_is_cut_into_characters_or_words(kind: Any, symbols: list[str]) -> None:
    assert list(cut("a  b\n", kind)) == symbols
    assert join(symbols, kind) == ("a  b\n" if kind == "character" else "a b")


def test_words_are_cut_as_the_tokenizer_of_the_classifier_cuts_them() -> None:
    known = (PAD, UNK, "a\u00a0b", "é,", "c")
    for text in (" a\u00a0b\té, \n c", "c\x1cd é,"):
        read = tokenizer(known, "word").encode(text)
        assert [text[a:b] for a, b in read.offsets] == list(cut(text, "word"))


def test_frequent_symbols_are_counted_in_all_texts_and_special_ones_are_not_symbols() -> None:
    assert frequent_symbols(["b a", "b </s> </s>"], "word", 2) == ("b",)
    assert frequent_symbols(["ab", "b"], "character", 1) == ("a", "b")


def test_symbols_come_from_the_training_part_alone() -> None:
    made = job(WORDS, splits(other=[("a new cat", "un nouveau chat")]))
    assert made.translator.symbols == (PAD, UNK, "a", "cat", "dog", "red", "the")
    assert made.model.config.labels == (STOP, "chat", "chien", "le", "rouge", "un")
    assert made.translator.encode(["the <pad> new cat"]).tolist() == [[6, 1, 1, 3]]
    assert made.record(None)["test"]["impossible"] == 1


def test_rare_symbols_are_unknown_and_can_be_written() -> None:
    made = job(replace(WORDS, min_count=2), splits())
    assert made.translator.symbols == (PAD, UNK, "dog", "red", "the")
    assert made.model.config.labels == (STOP, UNK, "chien", "le", "rouge")
    symbols, real = made.translator.encode_targets(["le chat rouge", "le"])
    assert symbols.tolist() == [[3, 1, 4, 0], [3, 0, 0, 0]]
    assert real.sum(1).tolist() == [4, 2]


def test_without_rare_symbols_an_unknown_one_cannot_be_written() -> None:
    with pytest.raises(BadInput, match=r"'le loup' has a symbol that .* cannot write"):
        job(WORDS, splits()).translator.encode_targets(["le loup"])


def test_long_training_pairs_are_dropped_and_others_kept() -> None:
    data = splits([*TRAIN, ("a " * 5, "un")], [("a " * 9, "un")])
    made = job(replace(WORDS, longest_source=4, longest_target=2), data)
    assert made.data.train == (TextPair("the dog", "le chien"),)
    assert made.dropped == {"with a target of more than 2 words": 2, "with a source of more than 4 words": 1}
    assert len(made.data.test) == 1
    assert made.translator.longest == 3
    record = made.record(data)["train"]
    assert (record["texts"], record["used"], sum(record["dropped"].values())) == (4, 1, 3)


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        (replace(WORDS, longest_source=1), splits(), "all 3 training pairs are too long for longest_source=1"),
        (WORDS, splits([]), "the data have 0 training and 1 validation pairs"),
        (WORDS, Splits([Example("a")], [Example("a")], []), "a text has no target"),
    ],
)
def test_pairs_that_cannot_be_learned_are_refused(settings: Seq2SeqSettings, data: Splits, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        job(settings, data)


# words in and out


def test_a_translator_of_words_reads_and_writes_words(tmp_path: Path) -> None:
    made = job(WORDS, splits())
    made.model.out.bias.data[0] -= 20.0
    made.translator.save(tmp_path)
    again = Translator.load(tmp_path)
    assert (again.kind, again.longest) == ("word", 4)
    alignment = again.align("the  zebra dog")
    assert alignment.read == ("the", "zebra", "dog")
    assert alignment.weights.shape == (4, 3)
    assert alignment.written == " ".join(alignment.symbols)
    classifier = again.classifier("the zebra dog", 2)
    tokens = classifier.tokens("the zebra dog")
    assert [tokens.surface(i) for i in range(len(tokens))] == ["the", "zebra", "dog"]
    assert classifier.predictions([tokens])[0].label == alignment.symbols[2]


def test_a_folder_of_before_has_characters(tmp_path: Path) -> None:
    job(TINY, splits()).translator.save(tmp_path)
    file = tmp_path / "heedful.json"
    content = json.loads(file.read_text("utf-8"))
    del content["symbol_kind"], content["longest"], content["shape"]["order"]
    file.write_text(json.dumps(content), "utf-8")
    again = Translator.load(tmp_path)
    assert (again.kind, again.longest, again.model.config.order) == ("character", 64, "luong")
    file.write_text(json.dumps(content | {"symbol_kind": "syllable"}), "utf-8")
    with pytest.raises(BadInput, match="is damaged"):
        Translator.load(tmp_path)


# training


def test_a_killed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    plan = TrainingPlan(epochs=2, lr=1e-2, clip=1.0)
    data = splits([(f"the cat {i}", f"le chat {i}") for i in range(20)])
    settings = replace(TINY, order="bahdanau", dropout=0.1)

    def kill(now: TrainingProgress) -> None:
        if (now.epoch, now.step) == (1, 2):
            raise KeyboardInterrupt

    whole, resumed = job(settings, data), job(settings, data)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    fit(whole, plan, folders[0])
    with pytest.raises(KeyboardInterrupt):
        fit(job(settings, data), plan, folders[1], kill, every=0)
    fit(resumed, plan, folders[1])
    one, other = whole.model.state_dict(), resumed.model.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_other_data_are_not_resumed() -> None:
    assert job(TINY, splits()).identity != job(TINY, splits(TRAIN[:2])).identity


def test_the_settings_of_other_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="n_train is a setting for generated dates"):
        train("seq2seq-dot", splits(), tmp_path / "m", {"n_train": 5})
    with pytest.raises(BadInput, match="min_count is a setting for pairs of your own"):
        train("seq2seq-dot", "dates", tmp_path / "m", {"min_count": 2})
    assert not list(tmp_path.iterdir())


def pairs_file(path: Path, n: int = 40) -> Path:
    rows = (f"{i} old cats\t{i} vieux chats\n" for i in range(n))
    path.write_text("source\ttarget\n" + "".join(rows), "utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    sizes = [f"--set={k}={v}" for k, v in {"hidden": 6, "embedding": 5, "epochs": 1, "symbols": "word"}.items()]
    data = pairs_file(folder / "pairs.tsv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heedful.nets.training.train.find_spec", lambda name: None)  # draws no curve
        done = run("train", "seq2seq-general", data, "--out", folder / "m", *sizes, "--set=longest_source=3")
    assert done.exit_code == 0, done.output
    assert "4 of 4 test texts have a target with a symbol, or a length, that no training target has" in done.stdout
    assert f"try: heedful translate TEXT --model {folder / 'm'}" in done.stdout
    return folder


def test_the_command_trains_on_pairs_and_translates(trained: Path) -> None:
    record = json.loads((trained / "m" / "training.json").read_text("utf-8"))
    assert record["recipe"] == "seq2seq-multiplicative"
    assert [record["data"][part]["texts"] for part in ("train", "dev", "test")] == [32, 4, 4]
    assert run("translate", "3 old cats", "-m", trained / "m").exit_code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["pairs.tsv", "--names", "a,b"], "--names is for classifiers"),
        (["pairs.tsv", "--labels", "a"], "--labels is for classifiers"),
        (["pairs.tsv", "--label-column", "goal"], "has no column 'goal'"),
        (["corpus", "--set", "symbols=syllable"], "symbols"),
        (["nowhere.tsv"], "'nowhere.tsv' does not exist"),
        (["dates", "--limit", "5"], "--limit is for data of your own, and dates are generated"),
    ],
)
def test_a_wrong_command_is_one_sentence(
    args: list[str], message: str, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    found = run("train", "seq2seq-concat", *args, "--out", "x")
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert message in found.stderr
    assert not (trained / "x").exists()


# lengths


class Oracle:
    """Right on sources of up to a number of characters."""

    def __init__(self, longest: int, kind: str = "character") -> None:
        self.longest, self.kind = longest, kind

    def translate_all(self, texts: Sequence[str]) -> list[str]:
        return ["right" if len(text) <= self.longest else "wrong" for text in texts]


def test_models_are_compared_by_length() -> None:
    pairs = [TextPair("x" * n, "right") for n in range(1, 45)]
    models: Any = {"a/short": Oracle(20), "b/all": Oracle(99)}
    result = compare_lengths(models, pairs)
    assert result.unit == "characters"
    assert [(b.low, b.high, b.n, b.share) for b in result.bins["short"]] == [
        (0, 14, 14, 1.0), (15, 29, 15, pytest.approx(6 / 15)), (30, 44, 15, 0.0),
    ]  # fmt: skip
    assert result.overall["all"] == Bin(1, 44, 44, 1.0)
    printed = json.loads(result.to_json())["models"][0]
    assert printed["all"]["interval"] == pytest.approx(wilson(20, 44))
    assert [len(own) for own in result.drawn(15).values()] == [2, 2]


def test_lengths_are_in_words_if_all_models_read_words() -> None:
    pairs = [TextPair("xx " * n, "right") for n in range(1, 10)]
    one: Any = {"a/m": Oracle(99, "word"), "b/m": Oracle(5, "word")}
    result = compare_lengths(one, pairs)
    assert (result.unit, [b.n for b in result.bins["a/m"]]) == ("words", [4, 5])


def test_dates_are_scored_on_the_test_part_of_the_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Seq2SeqSettings(n_train=30, n_dev=5, n_test=6)
    monkeypatch.setattr(lengths, "Seq2SeqSettings", lambda: small)
    assert scored_pairs("dates") == job(small).data.test


def test_a_file_is_scored_whole_and_of_a_folder_its_test_part(tmp_path: Path) -> None:
    for name, n in (("train", 12), ("dev", 3), ("test", 5)):
        pairs_file(tmp_path / f"{name}.tsv", n)
    assert len(scored_pairs(str(tmp_path / "train.tsv"))) == 12
    assert len(scored_pairs(str(tmp_path))) == 5
    (tmp_path / "test.tsv").unlink()
    with pytest.raises(BadInput, match="has no test part; add one, or give a single file"):
        scored_pairs(str(tmp_path))


def test_the_command_prints_a_table_and_draws(trained: Path, tmp_path: Path) -> None:
    model, data, figure = trained / "m", trained / "pairs.tsv", tmp_path / "lengths.svg"
    shown = run("translate", "--lengths", data, "-m", model, "--figure", figure)
    assert shown.exit_code == 0, shown.output
    head, *rows = shown.stdout.splitlines()
    assert head.split() == ["words", "texts", "m"]
    assert [row.split()[:2] for row in rows] == [["0", "–"], ["all", "40"]]
    assert figure.read_bytes().startswith(b"<?xml")
    printed = json.loads(run("translate", "--lengths", data, "-m", model, "--json").stdout)
    assert printed["models"][0]["all"]["n"] == 40


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give either a text to translate or --lengths DATA"),
        (["text", "--lengths", "dates"], "give either a text to translate or --lengths DATA"),
        (["text", "-m", "other"], "a text is translated by one model, not by 2"),
        (["--lengths", "nowhere.tsv"], "'nowhere.tsv' does not exist"),
        (["--lengths", "pairs.tsv", "--rename-labels", "a=b"], "--rename-labels is for classifiers"),
    ],
)
def test_a_wrong_translation_is_one_sentence(
    args: list[str], message: str, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    found = run("translate", *args, "-m", "m")
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert message in found.stderr


def test_words_are_drawn_above_their_columns(trained: Path) -> None:
    from heedful.report.figures.maps import draw_alignment

    alignment = Translator.load(trained / "m").align("3 old extraordinarily cats")
    axes = draw_alignment(alignment).axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["3", "old", "extraordinari…", "cats"]
    image: Any = axes.images[0].get_array()
    assert np.array_equal(image, alignment.weights)
