"""Training from data to folder: every recipe, the same bytes, test looked at once, and errors a user can cause."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import heedful
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.core.random import torch_seed
from heedful.data import Example, Splits
from heedful.nets.training.batches import RIGHT
from heedful.nets.training.job import ClassifierJob, Cutter, Labels, probabilities, split_scores
from heedful.nets.training.loop import fit
from heedful.nets.training.recipes import RECIPES
from heedful.nets.training.settings import Given
from heedful.nets.training.train import train
from heedful.nets.vocabulary import learned
from tests.support.models import build
from tests.support.parameters import mostly_thorough
from tests.support.patience import PATIENCE_SECONDS

GOOD, BAD = ("good", "warm", "clever", "funny"), ("bad", "cold", "dull", "awful")
SMALL: dict[str, dict[str, Any]] = {
    "multihead": {"embedding": 16, "attention": 8, "value": 8, "heads": 2, "lr": 0.01, "max_length": 32},
    "single": {"embedding": 12, "hidden": 8, "lr": 0.02},
    "hierarchical": {"embedding": 12, "hidden": 6, "lr": 0.02, "min_count": 1, "dropout_sentence": 0.1},
    "transformer": {"width": 16, "inner": 24, "layers": 2, "heads": 2, "pieces": 120, "max_length": 48, "lr": 0.01},
}
SIZES = {
    **dict.fromkeys(("multihead", "multihead-6"), SMALL["multihead"]),
    **{n: SMALL["single"] for n in RECIPES if n in ("bilstm", "cnn", "single-cnn", "average", "bilstm-uniform")},
    **{n: SMALL["single"] for n in RECIPES if n.endswith("-pair")},
    **{n: SMALL["hierarchical"] for n in RECIPES if n.startswith(("han-", "flan-"))},
    "transformer": SMALL["transformer"],
}
CLASSIFIERS = sorted(SIZES)
ONE_OF_EACH = ("multihead", "bilstm", "cnn-pair", "average", "han-rnn", "flan-none", "transformer")  # mechanism


@pytest.fixture
def curve() -> None:
    """The curve of a training is drawn."""


@pytest.fixture(autouse=True)
def _few_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve takes longer to draw than a small network to train: drawn where it is tested, and always if thorough."""
    if request.config.getoption("families") != "all" and "curve" not in request.fixturenames:
        monkeypatch.setattr("heedful.nets.training.train.find_spec", lambda name: None)


def sentences(n: int, seed: int = 0, pairs: bool = False) -> list[Example]:
    """Texts whose label is whether their one telling word is a good one."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(n):
        label = int(rng.integers(2))
        telling = str(rng.choice((BAD, GOOD)[label]))
        filler = [f"w{i}" for i in rng.integers(30, size=int(rng.integers(2, 9)))]
        filler.insert(int(rng.integers(len(filler) + 1)), telling)
        text = " ".join(filler) + ". the end!"
        result.append(Example(text, "is it so?" if pairs else None, str(label)))
    return result


def data(pairs: bool = False) -> Splits:
    return Splits(sentences(200, 1, pairs), sentences(60, 2, pairs), sentences(60, 3, pairs))


@pytest.mark.parametrize("name", mostly_thorough(CLASSIFIERS, ONE_OF_EACH))
def test_every_recipe_learns_and_answers_as_a_classifier(name: str, tmp_path: Path) -> None:
    pairs = name.endswith("-pair")
    epochs = {"epochs": 6, "batch": 16}
    result = train(name, data(pairs), tmp_path / "m", SIZES[name] | epochs, names=["negative", "positive"])
    assert result.test is not None
    assert result.test["accuracy"] > 0.8
    classifier = heedful.load(tmp_path / "m")
    assert classifier.labels == ("negative", "positive")
    why = heedful.explain(classifier, "w1 w2 clever w3. the end!", "leave-one-out", pair="is it so?" if pairs else None)
    assert isinstance(why, heedful.Attribution)
    assert why.prediction.labels[int(np.argmax(why.prediction.logits))] == "positive"
    telling = next(i for i in why.tokens.content if why.tokens.surface(i) == "clever")
    assert why.scores[telling] > 0


@pytest.mark.parametrize("name", mostly_thorough(("bilstm", "han-rnn", "transformer"), ("bilstm", "transformer")))
def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(name: str, tmp_path: Path) -> None:
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(len(folder))
        train(name, data(), tmp_path / folder, SIZES[name] | {"epochs": 2, "seed": seed})
    for file in ("model.safetensors", "heedful.json", "training.json", "training.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    assert (tmp_path / "a" / "model.safetensors").read_bytes() != (tmp_path / "c" / "model.safetensors").read_bytes()


def test_a_killed_training_ends_with_the_same_bytes(tmp_path: Path) -> None:
    settings = SIZES["bilstm"] | {"epochs": 3}

    def kill(now: Any) -> None:
        if now.epoch == 1 and now.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("bilstm", data(), tmp_path / "killed", settings, watch=kill)
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    for folder in ("killed", "whole"):
        train("bilstm", data(), tmp_path / folder, settings)
    for file in ("model.safetensors", "training.json", "training.jsonl"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


@pytest.mark.usefixtures("curve")
def test_the_folder_says_what_was_done(tmp_path: Path) -> None:
    result = train("average", data(), tmp_path / "m", SIZES["average"] | {"epochs": 2})
    record = json.loads((tmp_path / "m" / "training.json").read_text())
    assert (record["recipe"], record["settings"]["epochs"], record["data"]["train"]["texts"]) == ("average", 2, 200)
    assert record["test"] == result.test
    assert record["dev"]["roc_auc"] == max(row["roc_auc"] for row in result.history)
    kept = {"model.safetensors", "heedful.json", "training.json", "training.jsonl", "training.svg"}
    assert {p.name for p in (tmp_path / "m").iterdir()} == kept


def test_without_matplotlib_a_network_is_trained_without_its_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "heedful.report.figures"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("heedful.nets.training.train.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    train("average", data(), tmp_path / "m", SIZES["average"] | {"epochs": 1})
    assert not (tmp_path / "m" / "training.svg").exists()
    assert (tmp_path / "m" / "training.json").exists()


def test_scores_are_the_classifiers_own(tmp_path: Path) -> None:
    """What training says of test is what the loaded classifier answers, text by text."""
    split = data()
    result = train("cnn", split, tmp_path / "m", SIZES["cnn"] | {"epochs": 2})
    classifier = heedful.load(tmp_path / "m")
    said = classifier.predictions([classifier.tokens(e.text) for e in split.test])
    right = [p.labels[int(np.argmax(p.logits))] == e.label for p, e in zip(said, split.test, strict=True)]
    assert result.test is not None
    assert result.test["accuracy"] == pytest.approx(np.mean(right))


def test_test_texts_are_not_looked_at_while_training(tmp_path: Path) -> None:
    split, other = data(), data()
    flipped = [Example(e.text, None, "10"[int(str(e.label))]) for e in other.test]
    settings = SIZES["average"] | {"epochs": 2}
    train("average", split, tmp_path / "a", settings)
    train("average", Splits(split.train, split.dev, flipped), tmp_path / "b", settings)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


def test_without_test_texts_there_is_no_test_score(tmp_path: Path) -> None:
    split = data()
    assert train("average", Splits(split.train, split.dev, []), tmp_path / "m", {"epochs": 1}).test is None


def test_more_than_two_labels_and_several_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ("red", "green", "blue", "grey")

    def made(n: int, several: bool) -> list[Example]:
        chosen = [[w for w in words if rng.random() < 0.5] if several else [str(rng.choice(words))] for _ in range(n)]
        texts = [" ".join(["it", "is", *c, "now"]) for c in chosen]
        return [Example(t, None, tuple(c) if several else c[0]) for t, c in zip(texts, chosen, strict=True)]

    for several in (False, True):
        split = Splits(made(300, several), made(80, several), made(80, several))
        result = train("bilstm", split, tmp_path / str(several), SIZES["bilstm"] | {"epochs": 5, "batch": 16})
        assert result.test is not None
        assert result.test["accuracy"] > 0.9
        assert result.classifier.head == ("sigmoid" if several else "softmax")
        assert result.classifier.labels == tuple(sorted(words))


@pytest.mark.parametrize(
    "name", mostly_thorough(("bilstm", "cnn", "han-rnn", "multihead", "transformer"), ("bilstm", "transformer"))
)
def test_networks_train_in_bfloat16(name: str, tmp_path: Path) -> None:
    split = Splits(sentences(120, 1), sentences(40, 2), [])
    result = train(name, split, tmp_path / "m", SIZES[name] | {"epochs": 2, "batch": 16, "bf16": True})
    assert result.history[1]["loss"] < result.history[0]["loss"]
    assert all(p.dtype == torch.float32 for p in result.classifier.model.parameters())


def test_a_network_that_attends_to_padding_trains_lazily(tmp_path: Path) -> None:
    """One step changes the rows of its words, and of the padding word, which is in no text."""
    data = Splits(sentences(8), sentences(8, 1), [])
    settings = SMALL["multihead"] | {"masked": False, "lazy": True, "epochs": 1, "batch": 8, "max_length": 20}
    moved, still = (train("multihead", data, tmp_path / f"{lr}", settings | {"lr": lr}) for lr in (0.01, 1e-30))
    change = (moved.classifier.model.words.weight - still.classifier.model.words.weight).abs().sum(1) > 0
    assert change[moved.classifier.model.config.pad_token_id]
    assert not change.all()


def test_a_guide_lends_its_attention(tmp_path: Path) -> None:
    split, settings = data(), SIZES["bilstm"] | {"epochs": 2}
    base = train("bilstm", split, tmp_path / "base", settings).classifier
    student = train("mlp-given", split, tmp_path / "student", settings | {"guide": str(tmp_path / "base")}).classifier
    text = split.test[0].text
    theirs, ours = (heedful.explain(c, text, "attention-mean") for c in (base, student))
    assert isinstance(theirs, heedful.Attribution)
    assert isinstance(ours, heedful.Attribution)
    assert ours.scores == pytest.approx(theirs.scores, abs=1e-6)


@pytest.mark.parametrize("more", [{"attention": "log-odds"}, {"regularised": 5.0}])
def test_log_odds_attention_trains(tmp_path: Path, more: dict[str, Any]) -> None:
    result = train("bilstm", data(), tmp_path / "m", SIZES["bilstm"] | {"epochs": 6, "batch": 16} | more)
    assert result.test is not None
    assert result.test["accuracy"] > 0.9
    why = heedful.explain(result.classifier, "w1 w2 clever w3", "attention-mean")
    assert isinstance(why, heedful.Attribution)
    assert why.tokens.surface(int(why.scores.argmax())) == "clever"


def test_candidates_answer_with_words_of_the_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    places, people = ("kitchen", "garden", "office"), ("mary", "john")

    def story(n: int) -> list[Example]:
        drawn = [(str(rng.choice(people)), str(rng.choice(places))) for _ in range(n)]
        return [Example(f"{who} went to the {where}", f"where is {who}", where) for who, where in drawn]

    split = Splits(story(150), story(40), story(40))
    result = train("bilstm-pair", split, tmp_path / "m", SIZES["bilstm-pair"] | {"epochs": 5, "candidates": True})
    why = heedful.explain(result.classifier, "mary went to the garden", "attention-mean", pair="where is mary")
    assert why.prediction.probabilities is not None
    by_name = dict(zip(why.prediction.labels, why.prediction.probabilities, strict=True))
    assert by_name["kitchen"] == by_name["office"] == pytest.approx(0, abs=1e-30)


def test_the_same_sentence_under_two_aspects(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def reviews(n: int) -> list[Example]:
        drawn = [(str(rng.choice((*GOOD, *BAD))), str(rng.choice((*GOOD, *BAD)))) for _ in range(n)]
        return [
            Example(f"the food was {food} and the service {service}", aspect, "good" if word in GOOD else "bad")
            for food, service in drawn
            for aspect, word in (("food", food), ("service", service))
        ]

    split = Splits(reviews(300), reviews(60), reviews(60))
    result = train("bilstm-pair", split, tmp_path / "m", SIZES["bilstm-pair"] | {"epochs": 8, "batch": 16})
    assert result.test is not None
    assert result.test["accuracy"] > 0.9
    text = "the food was warm and the service cold"
    said = [heedful.explain(result.classifier, text, "attention-mean", pair=a).prediction for a in ("food", "service")]
    assert [p.label for p in said] == ["good", "bad"]


def test_an_encoder_is_fine_tuned(tmp_path: Path) -> None:
    tiny = build("bert", labels=5)
    tiny.model.save_pretrained(tmp_path / "encoder")
    tiny.tokenizer.save_pretrained(tmp_path / "encoder")
    settings = {"encoder": str(tmp_path / "encoder"), "epochs": 2, "lr": 1e-3}
    result = train("finetune", data(pairs=True), tmp_path / "m", settings, names=["no", "yes"])
    assert result.classifier.labels == ("no", "yes")
    assert result.test is not None
    assert heedful.explain(result.classifier, "clever", "attention-mean", pair="so?").prediction.labels == ("no", "yes")
    train("finetune", data(pairs=True), tmp_path / "again", settings, names=["no", "yes"])
    assert (tmp_path / "m/model.safetensors").read_bytes() == (tmp_path / "again/model.safetensors").read_bytes()


@pytest.mark.parametrize("family", ["distilbert", "xlnet", "roberta"])
def test_fine_tuning_asks_each_family_in_its_own_way(family: str, tmp_path: Path) -> None:
    """Token types and the side of padding differ; scores are those of the classifier, text by text."""
    tiny = build(family, labels=2)
    tiny.model.save_pretrained(tmp_path / "encoder")
    tiny.tokenizer.save_pretrained(tmp_path / "encoder")
    split = data()
    result = train("finetune", split, tmp_path / "m", {"encoder": str(tmp_path / "encoder"), "epochs": 1, "lr": 1e-3})
    said = result.classifier.predictions([result.classifier.tokens(e.text) for e in split.test])
    right = [p.labels[int(np.argmax(p.logits))] == e.label for p, e in zip(said, split.test, strict=True)]
    assert result.test is not None
    assert result.test["accuracy"] == pytest.approx(np.mean(right))


def test_without_every_label_there_is_no_auc(tmp_path: Path) -> None:
    split = data()
    ones = [e for e in split.test if e.label == "1"]
    refused("roc_auc of the validation texts is not a number", split=Splits(split.train, ones, []), out=tmp_path / "a")
    result = train("average", Splits(split.train, split.dev, ones), tmp_path / "m", SIZES["average"] | {"epochs": 1})
    assert result.test is not None
    assert set(result.test) == {"accuracy", "f1"}
    assert "NaN" not in (tmp_path / "m/training.json").read_text()


def test_a_mistake_makes_no_folder_and_a_restart_with_one_deletes_nothing(tmp_path: Path) -> None:
    refused("cannot be read", out=tmp_path / "new", vectors="no.txt")
    assert not (tmp_path / "new").exists()
    train("average", data(), tmp_path / "m", SIZES["average"] | {"epochs": 1})
    before = {p.name for p in (tmp_path / "m").iterdir()}
    with pytest.raises(BadInput, match="cannot be read"):
        train("average", data(), tmp_path / "m", {"vectors": "no.txt"}, restart=True)
    assert {p.name for p in (tmp_path / "m").iterdir()} == before


def test_pretrained_vectors_are_the_start(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("clever " + " ".join(["7"] * 12) + "\n")
    settings = SIZES["average"] | {"epochs": 1, "lr": 1e-9, "vectors": str(tmp_path / "v.txt")}
    classifier = train("average", data(), tmp_path / "m", settings).classifier
    row = classifier.tokenizer.get_vocab()["clever"]
    assert torch.allclose(classifier.model.words.weight[row], torch.full((12,), 7.0), atol=1e-5)


TRAINED = ("average", "cnn-pair", "han-rnn", "multihead", "transformer")


def start(name: str, split: Splits, **settings: Any) -> tuple[Any, dict[str, int]]:
    """The initial word vectors of a recipe, and its vocabulary."""
    ready = RECIPES[name].settings(SIZES[name] | settings)
    tokenizer = learned((t for e in split.train for t in (e.text, e.pair) if t), ready.cut)
    cut = Cutter(tokenizer, ready, Labels.of(split.train), RIGHT).split(split.train, "training")
    with torch_seed(0):
        net = ready.build(Given(tokenizer, ("0", "1"), False, cut.texts, cut.truth))
    return net.words.weight.detach(), tokenizer.get_vocab()


@pytest.mark.parametrize("name", TRAINED)
def test_vectors_from_the_training_texts_keep_the_size_of_random_ones(name: str) -> None:
    split = data(name.endswith("-pair"))
    (own, _), (random, _) = start(name, split, vectors="train"), start(name, split)
    assert int((own != random).any(1).sum()) > 30
    assert torch.allclose(own.norm(dim=1), random.norm(dim=1), rtol=1e-5)


def test_both_halves_of_a_pair_get_the_vectors_from_the_training_texts() -> None:
    words, vocabulary = start("cnn-pair", data(pairs=True), vectors="train")
    row = words[vocabulary["clever"]]
    assert torch.equal(row[:12], row[12:])


def test_the_two_texts_of_a_pair_are_no_context_of_each_other() -> None:
    """A second text of one word has no context, so that the word keeps its random vector."""
    lonely = [Example(e.text, "so", e.label) for e in sentences(60)]
    split = Splits(lonely, lonely, [])
    (own, vocabulary), (random, _) = (start("average-pair", split, vectors=v) for v in ("train", None))
    assert torch.equal(own[vocabulary["so"]], random[vocabulary["so"]])


def test_special_and_rare_words_keep_their_random_vectors() -> None:
    split = data()
    split.train[0] = Example("once " + split.train[0].text, None, split.train[0].label)
    (own, vocabulary), (random, _) = start("average", split, vectors="train"), start("average", split)
    same = [vocabulary[word] for word in ("<s>", "</s>", "<pad>", "<unk>", "once")]
    assert torch.equal(own[same], random[same])


def test_a_network_with_vectors_from_its_texts_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    settings = SIZES["bilstm"] | {"epochs": 3, "vectors": "train", "batch": 16}

    def kill(now: Any) -> None:
        if now.epoch == 1 and now.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("bilstm", data(), tmp_path / "killed", settings, watch=kill)
    accuracy = [
        (train("bilstm", data(), tmp_path / folder, settings).test or {})["accuracy"] for folder in ("killed", "whole")
    ]
    assert min(accuracy) > 0.8
    assert (tmp_path / "killed/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_a_file_called_train_is_named_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train").write_text("clever " + " ".join(["7"] * 12) + "\n")
    row = {
        name: words[v["clever"]]
        for name in ("train", "./train")
        for words, v in [start("average", data(), vectors=name)]
    }
    assert torch.equal(row["./train"], torch.full((12,), 7.0))
    assert not torch.equal(row["train"], row["./train"])


def test_texts_too_few_for_vectors_are_refused(tmp_path: Path) -> None:
    few = Splits([Example("a b", None, "0"), Example("c d", None, "1")], sentences(9), [])
    refused("no words that occur 5 times and near others", split=few, out=tmp_path / "m", vectors="train")


def test_short_texts_are_dropped() -> None:
    examples = [Example("a b c d e f", None, "0"), Example("a b", None, "1"), Example("a b c", None, "1")]
    settings = RECIPES["average"].settings({"min_length": 5})
    tokenizer = learned([e.text for e in examples], settings.cut)
    split = Cutter(tokenizer, settings, Labels(("0", "1"), False), RIGHT).split(examples, "training")
    assert (list(split.texts.lengths), split.truth.tolist()) == ([8, 5], [0, 1])


def test_no_text_of_these_lengths_is_refused() -> None:
    settings = RECIPES["average"].settings({"min_length": 9})
    cutter = Cutter(learned(["a b"], settings.cut), settings, Labels(("0", "1"), False), RIGHT)
    with pytest.raises(BadInput, match="no training text has at least 9 tokens; set another min_length"):
        cutter.split([Example("a b", None, "0")], "training")


def test_long_texts_are_cut_or_dropped() -> None:
    examples = [Example("a b c d e f", None, "0"), Example("a b", None, "1")]
    tokenizer, labels = (
        learned([e.text for e in examples], RECIPES["average"].settings().cut),
        Labels(("0", "1"), False),
    )

    def kept(how: str) -> list[int]:
        settings = RECIPES["average"].settings({"max_length": 5, "long": how})
        return list(Cutter(tokenizer, settings, labels, RIGHT).split(examples, "training").texts.lengths)

    assert (kept("cut"), kept("drop")) == ([5, 4], [4])


def test_the_record_says_how_many_texts_fitted(tmp_path: Path) -> None:
    train("average", data(), tmp_path / "m", SIZES["average"] | {"epochs": 1, "max_length": 11, "long": "drop"})
    counts = json.loads((tmp_path / "m/training.json").read_text())["data"]["train"]
    assert 0 < counts["used"] < counts["texts"] == 200


def test_rare_labels_weigh_more() -> None:
    examples = [Example("a", None, "0")] * 30 + [Example("b", None, "1")] * 10
    settings = RECIPES["average"].settings({"embedding": 4, "hidden": 4})
    labels = Labels.of(examples)
    tokenizer = learned(["a b"], settings.cut)
    split = Cutter(tokenizer, settings, labels, RIGHT).split(examples, "training")
    one = build("bert", labels=2)
    for logits, expected in ((1, [3.0]), (2, [2 / 3, 2.0])):
        one.model.config.num_labels = logits
        job = ClassifierJob(one.model, settings, labels, split, split)
        assert job._class_weights is not None
        assert job._class_weights.tolist() == pytest.approx(expected)


def test_batch_size_does_not_change_scores(tmp_path: Path) -> None:
    split = data()
    result = train("han-rnn", split, tmp_path / "m", SIZES["han-rnn"] | {"epochs": 1})
    model, labels = result.classifier.model, Labels.of(split.train)
    backend = result.classifier.tokenizer.backend_tokenizer
    several = []
    for batch in (1, 16):
        settings = RECIPES["han-rnn"].settings(SIZES["han-rnn"] | {"batch": batch})
        cut = Cutter(backend, settings, labels, RIGHT).split(split.test, "test")
        several.append(probabilities(model, cut.texts, settings))
        assert split_scores(model, labels, cut, settings) == pytest.approx(result.test)
    assert several[0] == pytest.approx(several[1], abs=1e-6)


# errors


def refused(message: str, name: str = "average", split: Any = None, out: Any = None, **settings: Any) -> None:
    with pytest.raises(BadInput, match=message):
        train(name, split or data(), out, settings)


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    out, some = tmp_path / "m", sentences(4)
    refused("recipe 'bilsmt' is not known; did you mean 'bilstm'?", "bilsmt", out=out)
    refused("average has no setting 'epoch'; did you mean 'epochs'?", out=out, epoch=3)
    refused("lr is a number above 0, not 'fast'", out=out, lr="fast")
    refused("batch is a whole number of at least 1, not 0", out=out, batch=0)
    refused("hidden is a whole number of at least 1, not -1", out=out, hidden=-1)
    refused("dropout is a number of at least 0 and below 1, not 2.0", out=out, dropout=2.0)
    refused("seed is a whole number of at least 0, not -1", out=out, seed=-1)
    refused("only the label '1'", split=Splits([Example("a", None, "1")] * 9, some, []), out=out)
    refused(
        "label '7' in validation text 1 is not one of the training texts' labels 0, 1",
        split=Splits(sentences(9), [Example("a", None, "7")], []),
        out=out,
    )
    refused("4 training and 0 validation texts", split=Splits(some, [], []), out=out)
    refused("attention=given needs guide=FOLDER, and no other attention does", "mlp-given", out=out)
    refused("encoder is empty; set encoder=FOLDER", "finetune", out=out)
    refused("finetune has no setting 'vectors'", "finetune", out=out, vectors="glove.txt")
    refused("max_length is none, but this network needs a number of positions", "multihead", out=out, max_length=None)
    (tmp_path / "file").write_text("")
    refused("is a file; give a folder", out=tmp_path / "file")
    refused("holds other files", out=tmp_path)
    with pytest.raises(BadInput, match=r"3 names \(a, b, c\) for 2 labels"):
        train("average", data(), out, names=["a", "b", "c"])


def test_a_finished_folder_is_not_written_over(tmp_path: Path) -> None:
    train("average", data(), tmp_path / "m", SIZES["average"] | {"epochs": 1})
    refused("holds a finished training; give another folder, or --restart", out=tmp_path / "m")
    train("average", data(), tmp_path / "m", SIZES["average"] | {"epochs": 1}, restart=True)


def test_a_restarted_run_in_a_finished_folder_can_be_resumed(tmp_path: Path) -> None:
    tiny = build("bert", labels=2)
    tiny.model.save_pretrained(tmp_path / "m")  # what an earlier fine-tuning left
    (tmp_path / "m/training.json").write_text("{}")

    def kill(now: Any) -> None:
        if now.epoch == 1 and now.step == 1:
            raise KeyboardInterrupt

    settings = SIZES["average"] | {"epochs": 2}
    with pytest.raises(KeyboardInterrupt):
        train("average", data(), tmp_path / "m", settings, restart=True, watch=kill)
    assert train("average", data(), tmp_path / "m", settings).best in (1, 2)


def test_an_encoder_that_is_nowhere_is_named(tmp_path: Path) -> None:
    refused("'no/such-encoder' is not a local folder", "finetune", out=tmp_path / "m", encoder="no/such-encoder")


# the command line


def written(folder: Path) -> Path:
    for name, examples in (("train", sentences(120, 1)), ("dev", sentences(40, 2)), ("test", sentences(40, 3))):
        rows = [json.dumps({"text": e.text, "label": int(str(e.label))}) for e in examples]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def run(*args: Any) -> Any:
    return CliRunner().invoke(main, [str(a) for a in args])


def test_heedful_train(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    options = [f"--set={k}={v}" for k, v in (SIZES["average"] | {"epochs": 2}).items()]
    out = run("train", "average", written(tmp_path / "data"), "--out", tmp_path / "m", "--names", "bad,good", *options)
    assert out.exit_code == 0, out.output
    assert "epoch 2 of 2  loss" in out.stderr
    assert "test        accuracy" in out.stdout
    again = run("explain", "a clever film", "--model", tmp_path / "m", "--method", "attention-mean", "--json")
    assert json.loads(again.stdout)["prediction"]["labels"] == ["bad", "good"]


def test_heedful_train_with_vectors_from_its_texts(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    options = [f"--set={k}={v}" for k, v in (SIZES["average"] | {"epochs": 4, "vectors": "train"}).items()]
    out = run("train", "average", written(tmp_path / "data"), "--out", tmp_path / "m", "--json", *options)
    assert json.loads(out.stdout)["test"]["accuracy"] > 0.8
    assert json.loads((tmp_path / "m/training.json").read_text())["settings"]["vectors"] == "train"


def test_heedful_train_prints_json(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    out = run(
        "train",
        "average",
        written(tmp_path / "data"),
        "--out",
        tmp_path / "m",
        "--set",
        "epochs=1",
        "--json",
        "--limit",
        50,
    )
    assert json.loads(out.stdout)["best_epoch"] == 1
    assert json.loads((tmp_path / "m/training.json").read_text())["data"]["train"]["texts"] == 50


def test_a_typing_error_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    out = run("train", "average", written(tmp_path / "data"), "--out", tmp_path / "m", "--set", "lr=fast")
    assert (out.exit_code, out.stderr) == (2, "heedful: lr is a number above 0, not 'fast'.\n")
    assert not (tmp_path / "m").exists()


def test_heedful_recipes() -> None:
    listing = run("recipes").stdout
    assert all(name in listing for name in RECIPES)
    one = run("recipes", "bilstm").stdout
    assert "Jain & Wallace 2019" in one
    assert "lr" in one
    rows: Sequence[dict[str, Any]] = [json.loads(line) for line in run("recipes", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == list(RECIPES)


def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """A real kill -9 in the middle; the same command again ends with the bytes of a run that was left alone."""
    (tmp_path / "data").mkdir()
    written(tmp_path / "data")
    args = ["train", "average", tmp_path / "data", "--set", "epochs=3", "--set", "embedding=8", "--out"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork where there are threads: the child uses none
        child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_SECONDS)
        try:
            run_until_killed([*args, tmp_path / "m"])
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    for folder in ("m", "whole"):
        out = run(*args, tmp_path / folder)
        assert out.exit_code == 0, out.output
    for file in ("model.safetensors", "training.jsonl"):
        assert (tmp_path / "m" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def run_until_killed(args: Sequence[Any]) -> None:
    """Run the command in a process that keeps its state after every step and kills itself in the second epoch."""
    fit.__defaults__ = (None, -1.0)
    command = sys.modules["heedful.cli.train"]
    watch_of = command._watch

    def deadly(show: Any) -> Any:
        tell = watch_of(show)

        def watch(now: Any) -> None:
            tell(now)
            if (now.epoch, now.step) == (1, 2):
                os.kill(os.getpid(), signal.SIGKILL)

        return watch

    command._watch = deadly  # type: ignore[attr-defined]
    run(*args)


@pytest.mark.usefixtures("curve")
def test_an_encoder_and_decoder_is_trained_on_dates(tmp_path: Path) -> None:
    sizes = {"embedding": 5, "hidden": 6, "units": 4, "n_train": 40, "n_dev": 8, "n_test": 8, "most": 1, "epochs": 2}
    options = [f"--set={k}={v}" for k, v in sizes.items()]
    out = run("train", "seq2seq-additive", "dates", "--out", tmp_path / "m", *options)
    assert out.exit_code == 0, out.output
    assert "exact match" in out.stdout
    assert run("translate", "due the 3rd of March, 2026", "--model", tmp_path / "m").exit_code == 0
    wrong = run("train", "seq2seq-none", "corpus", "--out", tmp_path / "n")
    assert "has no column for the source (found: text, label" in wrong.stderr
