"""Leave-one-out and occlusion against captum, by hand, and with a masked language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation
from captum.attr import Occlusion as CaptumOcclusion
from scipy.spatial.distance import jensenshannon
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, from_json
from heedful.core.tokens import Tokens
from heedful.methods.explain import explain, explain_all
from heedful.methods.lime import Lime
from heedful.methods.perturbation import LeaveOneOut, Occlusion
from heedful.methods.shapley import Shapley, ShapleyPartition
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.masking import features
from tests.support.models import TEXTS, build, loud, shared, tokenizer

TEXT = TEXTS[0]


def attribution(classifier: Classifier, text: str, how: Any, **more: Any) -> Attribution:
    found = explain(classifier, text, how, **more)
    assert isinstance(found, Attribution)
    return found


def inside(tokens: Tokens, words: Tensor) -> Tensor:
    """The text's ids with other ones in place of its words; special tokens stay."""
    ids = torch.tensor(tokens.ids).repeat(len(words), 1)
    ids[:, list(tokens.content)] = words
    return ids


def outputs(classifier: Classifier, tokens: Tokens, words: Tensor) -> Tensor:
    """Logits of the text with other words in the places of its own."""
    ids = inside(tokens, words)
    types = None if tokens.types is None else torch.tensor(tokens.types).repeat(len(ids), 1)
    with torch.no_grad():
        return classifier.logits(Batch(ids, torch.ones_like(ids), types)).double()


def logits_without(classifier: Classifier, tokens: Tokens) -> Floats:
    """Logits of the text, then without each word, its pieces left out, one input at a time."""
    rows = [[], *features(tokens, "word")]
    found = []
    for gone in rows:
        keep = [i for i in range(len(tokens)) if i not in gone]
        with torch.no_grad():
            found.append(classifier.logits(classifier.batch([tokens.take(keep)]))[0].double().numpy())
    return np.array(found)


def words_of(found: Attribution) -> Floats:
    """A score per word: the sum over its pieces."""
    return np.array([found.scores[group].sum() for group in features(found.tokens, "word")])


# captum


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("by", ["token", "word"])
def test_leave_one_out_is_captums_feature_ablation(family: str, by: Any) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(TEXTS[3])
    groups = features(tokens, by)
    place = {position: i for i, position in enumerate(tokens.content)}
    mask = torch.zeros((1, len(tokens.content)), dtype=torch.long)
    for j, group in enumerate(groups):
        mask[0, [place[i] for i in group]] = j
    captum = FeatureAblation(lambda words: outputs(classifier, tokens, words)[:, 1]).attribute(
        torch.tensor([[tokens.ids[i] for i in tokens.content]]),
        baselines=classifier.tokenizer.mask_token_id,
        feature_mask=mask,
    )[0]
    found = attribution(classifier, TEXTS[3], LeaveOneOut(masking="mask", by=by), target=1)
    for group in groups:  # captum repeats a word's change on each of its pieces, we share it
        assert found.scores[group].sum() == pytest.approx(float(captum[place[group[0]]]), abs=1e-5)
        assert np.ptp(found.scores[group]) == 0


@pytest.mark.parametrize("window", [1, 2, 3, 5, 100])
def test_occlusion_is_captums(window: int) -> None:
    """Captum's convention is ours: each window's change counts for all its tokens, mean over the windows of a token.

    A window longer than the text is the text.
    """
    classifier = shared("bert")
    tokens = classifier.tokens(TEXT)
    captum = CaptumOcclusion(lambda words: outputs(classifier, tokens, words)[:, 1]).attribute(
        torch.tensor([[tokens.ids[i] for i in tokens.content]]),
        sliding_window_shapes=(min(window, len(tokens.content)),),
        baselines=classifier.tokenizer.mask_token_id,
    )[0]
    found = attribution(classifier, TEXT, Occlusion(masking="mask", by="token", window=window), target=1)
    assert found.scores[list(tokens.content)] == pytest.approx(captum.numpy(), abs=1e-5)


def test_a_window_of_one_is_leave_one_out() -> None:
    one, other = (attribution(shared("bert"), TEXT, how) for how in (Occlusion(window=1), LeaveOneOut()))
    assert np.array_equal(one.scores, other.scores)


# by hand


def chances(logits: Floats, classifier: Classifier) -> Floats:
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) if classifier.head == "softmax" else 1 / (1 + np.exp(-logits))


SINGLE = {"labels": 1}
MULTI = {"labels": 3, "problem_type": "multi_label_classification"}


@pytest.mark.parametrize("head", [{"labels": 2}, {"labels": 10}, SINGLE, MULTI], ids=["two", "ten", "one", "multi"])
@pytest.mark.parametrize("change", ["target", "variation", "divergence"])
def test_changes_by_hand(head: dict[str, Any], change: Any) -> None:
    classifier = build("bert", **head)
    tokens = classifier.tokens(TEXT)
    logits = logits_without(classifier, tokens)
    p = chances(logits, classifier)
    found = attribution(classifier, TEXT, LeaveOneOut(change=change), target=1)
    if change == "target":
        twin = logits[0, 1] - logits[1:, 1]
    elif classifier.head == "softmax":
        distance = {
            "variation": lambda a, b: np.abs(a - b).sum() / 2,
            "divergence": lambda a, b: jensenshannon(a, b) ** 2,
        }
        twin = np.array([distance[change](p[0], row) for row in p[1:]])
    elif change == "variation":
        twin = np.abs(p[0] - p[1:]).mean(1)
    else:
        both = np.stack([p, 1 - p], -1)
        twin = np.array(
            [np.mean([jensenshannon(a, b) ** 2 for a, b in zip(both[0], row, strict=True)]) for row in both[1:]]
        )
    assert words_of(found) == pytest.approx(twin, abs=1e-6)
    assert found.signed == (change == "target")


@pytest.mark.parametrize("head", [{"labels": 2}, SINGLE], ids=["softmax", "single logit"])
def test_variation_is_jain_and_wallaces_of_a_yes_or_no_question(head: dict[str, Any]) -> None:
    """|ŷ − ŷ₋ₜ| of the probability of yes."""
    classifier = build("bert", **head)
    p = chances(logits_without(classifier, classifier.tokens(TEXT)), classifier)[:, 1]
    found = attribution(classifier, TEXT, LeaveOneOut(change="variation"))
    assert words_of(found) == pytest.approx(np.abs(p[0] - p[1:]), abs=1e-6)


def test_a_regression_model_has_a_target_only() -> None:
    classifier = build("bert", labels=1, problem_type="regression")
    assert attribution(classifier, TEXT, "leave-one-out").scores.any()
    with pytest.raises(BadInput, match="a regression model has no probabilities; use change=target"):
        explain(classifier, TEXT, LeaveOneOut(change="variation"))


def test_occlusion_by_hand_over_words() -> None:
    classifier = shared("bert")
    tokens = classifier.tokens(TEXT)
    groups = features(tokens, "word")
    change = []
    with torch.no_grad():
        whole = float(classifier.logits(classifier.batch([tokens]))[0, 1])
        for start in range(len(groups) - 2):
            gone = {i for group in groups[start : start + 3] for i in group}
            kept = tokens.take([i for i in range(len(tokens)) if i not in gone])
            change.append(whole - float(classifier.logits(classifier.batch([kept]))[0, 1]))
    twin = [np.mean([change[s] for s in range(len(change)) if s <= j < s + 3]) for j in range(len(groups))]
    assert words_of(attribution(classifier, TEXT, Occlusion(), target=1)) == pytest.approx(twin, abs=1e-5)


def test_windows_do_not_cross_from_one_text_into_the_other() -> None:
    """A text of two words and one of three: with windows of three, each is removed whole."""
    classifier = shared("bert")
    tokens = classifier.tokens("good film", "bad story two")
    found = attribution(classifier, "good film", Occlusion(), pair="bad story two", target=1)
    with torch.no_grad():
        whole = float(classifier.logits(classifier.batch([tokens]))[0, 1])
        without = []
        for side in (0, 1):
            kept = tokens.take([i for i in range(len(tokens)) if tokens.segments[i] != side])
            without.append(whole - float(classifier.logits(classifier.batch([kept]))[0, 1]))
    assert words_of(found) == pytest.approx([without[0]] * 2 + [without[1]] * 3, abs=1e-5)


# company, cost, precision


@pytest.mark.parametrize("how", [LeaveOneOut(), Occlusion(window=2), LeaveOneOut(masking="mask", by="token")])
def test_texts_together_are_as_alone(how: Any) -> None:
    classifier = shared("bert")
    texts: list[str | tuple[str, str]] = [*TEXTS, ("good film", "bad story")]
    for given, found in zip(texts, explain_all(classifier, texts, how), strict=True):
        text, pair = (given, None) if isinstance(given, str) else given
        assert found.scores == pytest.approx(attribution(classifier, text, how, pair=pair).scores, abs=1e-5)


@pytest.mark.parametrize("how", [LeaveOneOut(), Occlusion(), LeaveOneOut(precision="bf16"), Occlusion(window=50)])
@pytest.mark.parametrize("text", ["film", "film film film", TEXT])
def test_the_cost_is_no_more_than_promised(how: Any, text: str) -> None:
    classifier = shared("bert")
    found = attribution(classifier, text, how)
    assert 0 < found.source.forwards <= how.passes(classifier, found.tokens).forwards


def test_equal_inputs_run_once() -> None:
    assert attribution(shared("bert"), "film film film", "leave-one-out").source.forwards == 2


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("how", [LeaveOneOut, Occlusion])
def test_bf16_has_errors_that_hold(how: Any) -> None:
    classifier = shared("bert")
    z = []
    for text in TEXTS:
        rough = attribution(classifier, text, how(precision="bf16"), target=1)
        exact = attribution(classifier, text, how(), target=1)
        assert rough.errors is not None
        assert exact.errors is None
        content = list(rough.tokens.content)
        assert rough.errors[content].min() > 0
        z += list(((rough.scores - exact.scores) / rough.errors.clip(1e-12))[content])
    assert 0.1 < np.sqrt(np.mean(np.square(z))) < 3


def test_ten_classes_one_word_and_a_mark() -> None:
    many = build("bert", labels=10)
    for text in (TEXT, "film", "!", "好"):
        found = attribution(many, text, "leave-one-out")
        assert np.isfinite(found.scores).all()
        assert found.scores[list(found.tokens.content)].any()


def test_three_hundred_words() -> None:
    classifier = Plain(lambda texts: np.array([[0.5, 0.5] if "w7 " in t else [0.9, 0.1] for t in texts]))
    text = " ".join(f"w{i} " for i in range(300)) + "."
    found = attribution(classifier, text, "leave-one-out")
    assert found.top(1)[0][0] == "w7"
    assert np.count_nonzero(found.scores) == 1


# long texts

LONG = " ".join(["good film bad story great music awful acting"] * 12)


@pytest.mark.parametrize("how", [LeaveOneOut(), Occlusion(), ShapleyPartition(samples=60)])
def test_a_text_longer_than_the_limit_in_windows(how: Any) -> None:
    classifier = shared("bert")
    found = attribution(classifier, LONG, how, windows=True)
    assert len(found.tokens) > (classifier.limit or 0)
    assert found.notes[-1] == f"mean over {found.source.windows} overlapping windows"
    assert found.scores[list(found.tokens.content)].all()


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("how", [Lime(samples=40), Shapley(samples=40), LeaveOneOut(precision="bf16")])
def test_windows_of_a_method_with_errors(how: Any) -> None:
    found = attribution(shared("bert"), LONG, how, windows=True)
    assert found.errors is not None
    assert found.errors[list(found.tokens.content)].all()
    assert found.source.windows > 1


# a masked language model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny masked language model with the vocabulary of the tiny BERT."""
    t = tokenizer("wordpiece")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(t), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=64, pad_token_id=t.pad_token_id,
    )  # fmt: skip
    path: Path = tmp_path_factory.mktemp("mlm")
    loud(BertForMaskedLM(config), seed=1, scale=0.5).save_pretrained(path)  # type: ignore[operator]
    t.save_pretrained(path)
    return str(path)


def expected(classifier: Classifier, folder: str, tokens: Tokens, position: int) -> tuple[float, float]:
    """The mean and standard deviation of the change when one token is drawn from what the language model gives."""
    model = BertForMaskedLM.from_pretrained(folder).eval()
    t = classifier.tokenizer
    ids = torch.tensor([tokens.ids])
    blank = ids.clone()
    blank[0, position] = t.mask_token_id
    with torch.no_grad():
        scores = model(input_ids=blank, token_type_ids=torch.zeros_like(ids)).logits[0, position].double()
        scores[t.all_special_ids] = -torch.inf
        p = scores.softmax(-1)
        filled = ids.repeat(len(p), 1)
        filled[:, position] = torch.arange(len(p))
        types = torch.zeros_like(filled)
        values = classifier.logits(Batch(filled, torch.ones_like(filled), types))[:, 1].double()
        whole = classifier.logits(Batch(ids, torch.ones_like(ids), types[:1]))[0, 1].double()
    change = whole - values
    mean = float(p @ change)
    return mean, float((p @ (change - mean) ** 2).sqrt())


def test_draws_of_a_language_model_average_to_their_expectation(folder: str) -> None:
    classifier = shared("bert")
    tokens = classifier.tokens("good film bad story")
    how = LeaveOneOut(masking=f"mlm:{folder}", draws=300, by="token")
    found = attribution(classifier, "good film bad story", how, target=1)
    assert found.errors is not None
    for i in tokens.content:
        mean, spread = expected(classifier, folder, tokens, i)
        assert found.errors[i] == pytest.approx(spread / np.sqrt(300), rel=0.2)
        assert abs(found.scores[i] - mean) < 3.5 * found.errors[i]
    assert found.source.forwards <= how.passes(classifier, tokens).forwards


def test_draws_depend_on_the_seed_and_not_on_company(folder: str) -> None:
    classifier = shared("bert")
    how = LeaveOneOut(masking=f"mlm:{folder}", draws=3)
    one, again, other = (attribution(classifier, "good film", how, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.scores, again.scores)
    assert not np.array_equal(one.scores, other.scores)
    beside = list(explain_all(classifier, ["bad story", "good film"], how))[1]
    assert isinstance(beside, Attribution)
    assert beside.scores == pytest.approx(one.scores, abs=1e-5)


@pytest.mark.parametrize("how", [Shapley, ShapleyPartition, Lime])
def test_scores_with_words_drawn_once_say_so(folder: str, how: Any) -> None:
    more = {"samples": 30, "sampling": "stratified"} if how is Lime else {}
    found = attribution(shared("bert"), "good film bad", how(masking=f"mlm:{folder}", **more))
    assert any("drawn once for each set of words" in note for note in found.notes)
    assert not attribution(shared("bert"), "good film bad", how(**more)).notes


# settings


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        (LeaveOneOut, {"masking": "maks"}, "masking 'maks' is not one of .*did you mean 'mask'"),
        (LeaveOneOut, {"by": "letter"}, "by 'letter' is not one of token, word, bag"),
        (LeaveOneOut, {"change": "far"}, "change 'far' is not one of target, variation, divergence"),
        (LeaveOneOut, {"draws": 0}, "draws is a whole number of at least 1, not 0"),
        (Occlusion, {"window": 0}, "window is a whole number of at least 1, not 0"),
        (Occlusion, {"precision": "int8"}, "precision 'int8' is not one of float32, bf16"),
    ],
)
def test_wrong_settings_are_refused(method: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        method(**wrong)


@pytest.mark.usefixtures("bf16")
def test_errors_survive_json() -> None:
    found = attribution(shared("bert"), TEXT, LeaveOneOut(precision="bf16"))
    again = from_json(found.to_json())
    assert isinstance(again, Attribution)
    assert again.errors is not None
    assert np.array_equal(again.errors, found.errors if found.errors is not None else [])
