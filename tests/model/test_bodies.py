"""SetFit and sentence-transformers: the same probabilities as their own, inside as open as any classifier."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

import heedful
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.methods.explain import explain, explain_all
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.loading import describe_classifier, load, restore_classifier, save
from tests.support.models import TEXTS
from tests.support.sentences import (
    Dense,
    Normalize,
    Pooling,
    Router,
    SetFitHead,
    SetFitModel,
    body,
    fitted,
)

LONG = "good film " * 60
LOGISTIC = {"C": 10}


def models() -> dict[str, tuple[SetFitModel, str, tuple[str, ...]]]:
    """SetFit models, with how their head's probabilities come about and their labels."""
    logistic = LogisticRegression(**LOGISTIC)
    xyz, numbers = ["x", "y", "z"], ("0", "1")
    return {
        "two labels": (SetFitModel(body(), fitted(logistic, 16, "two"), ["bad", "good"]), "softmax", ("bad", "good")),
        "several labels": (
            SetFitModel(body(Pooling("cls")), fitted(LogisticRegression(**LOGISTIC), 16, "three"), xyz),
            "softmax",
            tuple(xyz),
        ),
        "names as classes": (
            SetFitModel(body(Pooling("max"), Dense(16, 8)), fitted(LogisticRegression(**LOGISTIC), 8, "names")),
            "softmax",
            ("bad", "good", "so-so"),
        ),
        "one against the rest": (
            SetFitModel(
                body(Pooling("mean_sqrt_len_tokens"), Normalize()),
                fitted(OneVsRestClassifier(LogisticRegression(**LOGISTIC)), 16, "three"),
                xyz,
            ),
            "logsigmoid",
            tuple(xyz),
        ),
        "any of the labels": (
            SetFitModel(
                body(Pooling("weightedmean")), fitted(OneVsRestClassifier(LogisticRegression()), 16, "several"), xyz
            ),
            "sigmoid",
            tuple(xyz),
        ),
        "an output for each label": (
            SetFitModel(body(Pooling("lasttoken")), fitted(MultiOutputClassifier(LogisticRegression()), 16, "several")),
            "sigmoid",
            ("LABEL_0", "LABEL_1", "LABEL_2"),
        ),
        "two poolings, length 1": (
            SetFitModel(body(Pooling("mean", "cls")), fitted(LogisticRegression(**LOGISTIC), 32, "two"), None, True),
            "softmax",
            numbers,
        ),
        "a head of torch": (SetFitModel(body(), SetFitHead(16, 3), xyz), "softmax", tuple(xyz)),
        "a head of torch, several": (SetFitModel(body(), SetFitHead(16, 3, True), xyz), "sigmoid", tuple(xyz)),
        "short and lowercase": (
            SetFitModel(body(family="roberta", max_length=9, lower=True), SetFitHead(16, 3)),
            "softmax",
            ("LABEL_0", "LABEL_1", "LABEL_2"),
        ),
        "a decoder": (SetFitModel(body(Pooling("lasttoken"), family="llama"), SetFitHead(16, 2)), "softmax", ()),
    }


CASES = list(models())


@pytest.fixture(scope="module")
def every() -> dict[str, tuple[SetFitModel, str, tuple[str, ...]]]:
    return models()


def chances(classifier: Classifier, texts: list[str]) -> Floats:
    cut = [classifier.tokens(text).cut(classifier.limit) for text in texts]
    return np.array([prediction.probabilities for prediction in classifier.predictions(cut)])


@pytest.mark.parametrize("case", CASES)
def test_probabilities_are_those_of_the_model_and_of_its_folder(case: str, every: Any, tmp_path: Path) -> None:
    model, output, labels = every[case]
    classifier = load(model)
    texts = [*TEXTS, TEXTS[0].upper(), LONG]
    expected = model.predict_proba(texts)
    expected = expected[..., 1] if expected.ndim == 3 else expected
    assert (classifier.model.output, classifier.labels) == (output, labels or classifier.labels)
    assert np.allclose(chances(classifier, texts), expected, rtol=0, atol=1e-5)
    assert len(set(chances(classifier, texts).round(4).ravel())) > 4  # not all the same
    save(model, tmp_path / "folder")
    again = load(tmp_path / "folder")
    assert np.allclose(chances(again, texts), expected, rtol=0, atol=1e-5)
    assert (again.labels, again.head, again.limit) == (classifier.labels, classifier.head, classifier.limit)
    assert again.fingerprint == classifier.fingerprint


@pytest.fixture(scope="module")
def two(every: Any) -> SetFitModel:
    model: SetFitModel = every["two labels"][0]
    return model


@pytest.fixture
def folder(two: SetFitModel, tmp_path: Path) -> Path:
    save(two, tmp_path / "setfit")
    return tmp_path / "setfit"


@pytest.mark.parametrize("case", ["names as classes", "two poolings, length 1", "one against the rest"])
def test_attention_gradients_masks_and_branches_work_inside(case: str, every: Any) -> None:
    classifier = load(every[case][0])
    assert classifier.attention_fault is None
    assert classifier.key_maps.fault is None
    assert classifier.padding == "right"
    assert classifier.mask_hides_words
    assert classifier.can_branch
    why: Any = explain(classifier, TEXTS[0], "integrated-gradients", steps=128)
    assert abs(why.gap) < 0.02
    assert heedful.explain(classifier, TEXTS[0], "attention-mean").scores.any()  # type: ignore[attr-defined]


def test_it_takes_one_text(two: SetFitModel) -> None:
    with pytest.raises(BadInput, match=r"^SetFit \(LogisticRegression\) reads one text, not a pair; give one text.$"):
        load(two).tokens("a text", "another")


def test_the_model_stays_as_it_was(two: SetFitModel) -> None:
    inner: Any = two.model_body[0].auto_model
    before = ([name for name, _ in inner.named_modules()], inner.config.to_dict())
    two.model_body.train()
    list(explain_all(two, [TEXTS[0]], ["attention-mean", "gradient-l2"]))
    assert ([name for name, _ in inner.named_modules()], inner.config.to_dict()) == before
    assert inner.pooler is not None
    assert two.model_body.training
    two.model_body.eval()


def test_a_sentence_transformer_and_a_head_may_be_a_pair(two: SetFitModel) -> None:
    classifier = load((two.model_body, two.model_head))
    assert classifier.labels == ("0", "1")
    assert np.allclose(chances(classifier, list(TEXTS)), two.predict_proba(list(TEXTS)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("loaded", [True, False])
def test_another_process_gets_the_same_classifier(loaded: bool, two: SetFitModel, folder: Path, tmp_path: Path) -> None:
    classifier = load(folder) if loaded else load(two)
    described = json.loads(json.dumps(describe_classifier(classifier, tmp_path / "copy")))
    assert (tmp_path / "copy").exists() is not loaded
    again = restore_classifier(described)
    assert again.fingerprint == classifier.fingerprint
    assert np.array_equal(chances(again, list(TEXTS)), chances(classifier, list(TEXTS)))


# what is not linear


@pytest.mark.parametrize("what", ["head", "body"])
def test_a_model_of_another_kind_is_a_function(what: str, two: SetFitModel) -> None:
    head = fitted(RandomForestClassifier(5, random_state=0), 16, "two")
    inner = body(Pooling("mean"), Router())
    model = SetFitModel(two.model_body, head, ["bad", "good"]) if what == "head" else SetFitModel(inner, two.model_head)
    classifier = load(model)
    assert isinstance(classifier, Plain)
    assert np.allclose(chances(classifier, list(TEXTS)), model.predict_proba(list(TEXTS)), rtol=0, atol=1e-9)
    assert classifier.fingerprint == load(model).fingerprint
    assert explain(classifier, TEXTS[0], "leave-one-out").scores.any()  # type: ignore[attr-defined]


def test_several_labels_by_a_head_that_is_not_linear_are_refused() -> None:
    head = fitted(ClassifierChain(LogisticRegression()), 16, "several")
    message = "the head ClassifierChain has several labels for a text and is not linear; give a one-vs-rest or"
    with pytest.raises(BadInput, match=f"^{message} multi-output head of linear classifiers.$"):
        load(SetFitModel(body(), head))


def test_a_body_alone_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^a SentenceTransformer embeds texts and has no labels; give a SetFit model,"):
        load(body())


# folders


def test_the_folders_of_other_packages_are_read(folder: Path, two: SetFitModel) -> None:
    """As setfit writes them, with the head that a reader exports by hand: one row of float64."""
    head = {"weight": torch.tensor(two.model_head.coef_), "bias": torch.tensor(two.model_head.intercept_)}
    save_file(head, folder / "model_head.safetensors")
    (folder / "config_setfit.json").write_text('{"labels": ["bad", "good"], "normalize_embeddings": false}')
    (folder / "1_Pooling" / "config.json").write_text('{"embedding_dimension": 16, "pooling_mode": "mean"}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": false}')
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "sentence_transformers.base.modules.transformer.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    classifier = load(folder)
    assert classifier.limit == 12
    assert np.allclose(chances(classifier, [TEXTS[1]]), two.predict_proba([TEXTS[1]]), rtol=0, atol=1e-5)


def damage_modules(folder: Path, **entry: str) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*modules, {"idx": 2, "name": "2", "path": "2_X", **entry}]))


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (
            lambda f: ((f / "model_head.safetensors").unlink(), (f / "model_head.pkl").write_bytes(b"")),
            BadInput,
            "has a pickled head (model_head.pkl), which can run code when loaded; if you trust it, convert it "
            "once with heedful.save(SetFitModel.from_pretrained(folder), new_folder).",
        ),
        (lambda f: (f / "model_head.safetensors").unlink(), Unsupported, "embeds texts and has no head as safetensors"),
        (
            lambda f: damage_modules(f, type="sentence_transformers.models.LSTM"),
            Unsupported,
            "is a LSTM module; after the Pooling, Dense, Normalize and Dropout are read.",
        ),
        (lambda f: damage_modules(f, type="models.Dense", path="../other"), BadInput, "names the folder '../other'"),
        (lambda f: damage_modules(f, type="models.Dense"), BadInput, "names the weights 'model.safetensors'"),
        (
            lambda f: (f / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}'),
            Unsupported,
            "puts a prompt before each text; save it with default_prompt_name=None.",
        ),
        (
            lambda f: save_file({"weight": torch.ones(2, 8), "bias": torch.ones(2)}, f / "model_head.safetensors"),
            BadInput,
            "its head reads 8 numbers and gets 16; give one that fits.",
        ),
        (lambda f: (f / "modules.json").write_text("{"), BadInput, "cannot be read (JSONDecodeError)"),
        (lambda f: (f / "modules.json").write_text('["x"]'), BadInput, "is not a list of modules with type and path"),
        (lambda f: (f / "model_head.safetensors").write_bytes(b"x"), BadInput, "is damaged"),
        (
            lambda f: (f / "config_setfit.json").write_text('{"labels": ["one"]}'),
            BadInput,
            "it has 1 labels for 2 outputs; give one for each output.",
        ),
        (
            lambda f: (f / "1_Pooling" / "config.json").write_text('{"pooling_mode": "median"}'),
            Unsupported,
            "its pooling 'median' is not one of cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(
    damage: Any, error: type[HeedfulError], message: str, folder: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    damage(copy)
    with pytest.raises(error, match=re.escape(message)):
        load(copy)


def test_saving_needs_a_new_folder_and_a_network(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"exists and is not empty; give a new folder.$"):
        save(load(folder), folder)
    plain = Plain(lambda texts: [[0.5, 0.5]] * len(texts), name="coin")
    with pytest.raises(
        BadInput, match=r"^coin is a function from texts to probabilities, which cannot be saved here.$"
    ):
        save(plain, folder / "new")


def test_the_packages_themselves_agree(tmp_path: Path, folder: Path, two: SetFitModel) -> None:
    pytest.importorskip("sentence_transformers")
    setfit = pytest.importorskip("setfit")
    inner = __import__("sentence_transformers").SentenceTransformer(str(folder))
    assert np.allclose(inner.encode(list(TEXTS)), two.model_body.encode(list(TEXTS)), atol=1e-5)
    model = setfit.SetFitModel(model_body=inner, model_head=two.model_head, labels=["bad", "good"])
    expected = model.predict_proba(list(TEXTS), as_numpy=True)
    assert np.allclose(chances(load(model), list(TEXTS)), expected, rtol=0, atol=1e-5)
    model.save_pretrained(tmp_path / "pickled")
    with pytest.raises(BadInput, match="pickled head"):
        load(tmp_path / "pickled")
