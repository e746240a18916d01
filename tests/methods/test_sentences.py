"""Sentences as features: captum and lime with the same groups, windows against brute force, records and views."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation, ShapleyValues

import heedful
from heedful.core.arrays import Floats
from heedful.core.explanation import Attribution, from_json
from heedful.core.sentences import sentence_spans
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths import lime
from heedful.maths.shapley import all_subsets, enumerated
from heedful.methods import method
from heedful.methods.cost import plan
from heedful.methods.explain import explain
from heedful.methods.lime import Lime
from heedful.methods.perturbation import LeaveOneOut, Occlusion
from heedful.methods.shapley import Shapley, ShapleyPartition
from heedful.model.classifier import Classifier
from heedful.model.inference import answers
from heedful.model.masking import FeatureUnit, features
from tests.methods.test_lime import PROBABILITY, as_design, package
from tests.methods.test_perturbation import attribution, outputs
from tests.support.models import TEXTS, build, shared

TEXT = (
    "The film was not funny. Mr. Good moved me to tears! A warm story, never dull: two sisters. Good music? Bad film."
)
LONG = " ".join([TEXT] * 3)  # 93 tokens; the models read 64
MANY, SHORT = (
    "the features are sentences: the text has more than 64 words",
    "the features are words: the text has at most 64",
)
SINGLE = "the features are words: the text is one sentence"
METHODS = (
    LeaveOneOut(by="sentence"),
    Occlusion(by="sentence", window=2),
    Lime(by="sentence", samples=40),
    Shapley(by="sentence"),
    ShapleyPartition(by="sentence"),
)


def sums(why: Attribution) -> Floats:
    """A score per sentence."""
    return np.array([why.scores[group].sum() for group in features(why.tokens, "sentence")])


# what a feature is


@pytest.mark.parametrize("pair", [None, "One two. Three!"])
@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_features_are_the_sentences_of_both_texts(family: str, pair: str | None) -> None:
    tokens = shared(family).tokens(TEXT, pair)
    groups = features(tokens, "sentence")
    assert sorted(i for group in groups for i in group) == list(tokens.content)
    assert len(groups) == len(sentence_spans(TEXT)) + len(sentence_spans(pair or "")) == (5 if pair is None else 7)
    assert groups == [g for g in tokens.by("sentence")[1] if not tokens.special[g[0]]]


@pytest.mark.parametrize(
    ("text", "by", "kind", "note"),
    [
        (TEXT, "sentence", "sentence", ()),
        (TEXT, "auto", "word", (SHORT,)),
        ("Good film. " + "good " * 61, "auto", "word", (SHORT,)),
        ("Good film. " + "good " * 62, "auto", "sentence", (MANY,)),
        ("good " * 70, "auto", "word", (SINGLE,)),
        ("no mark at all", "sentence", "word", (SINGLE,)),
        (TEXT, "word", "word", ()),
        (TEXT, "bag", "word", ()),
    ],
)  # fmt: skip
def test_auto_is_words_up_to_64_and_one_sentence_is_words(text: str, by: Any, kind: str, note: tuple[str, ...]) -> None:
    tokens = build("bert", max_position_embeddings=256).tokens(text)
    unit = FeatureUnit.of(tokens, by)
    assert (unit.kind, unit.notes) == (kind, note)
    if by in ("sentence", "auto"):
        assert features(tokens, by) == [g for g in tokens.by(kind)[1] if not tokens.special[g[0]]]
        assert unit.details(features(tokens, by)) == {"unit": kind, "features": len(features(tokens, by))}


def test_what_counts_is_what_the_model_reads() -> None:
    """A truncated text by what is left, and each of its windows by the whole."""
    tokens = shared("bert").tokens("Good film. " + "good " * 40 + "bad. " * 100)
    assert FeatureUnit.of(tokens, "auto").kind == "sentence"
    assert FeatureUnit.of(tokens.cut(40), "auto").kind == "word"
    assert FeatureUnit.of(tokens.cut(6), "sentence").sentences == 2
    windows = [tokens.take(at) for at in tokens.windows(20)]
    assert {FeatureUnit.of(window, "auto").kind for window in windows} == {"sentence"}
    inside = next(w for w in windows if {s for s in w.spans if s and not 11 <= s[0] < 200} == set())
    assert len(features(inside, "auto")) == 1  # a window within one long sentence has that one feature


# other packages, with the same groups


def masks(tokens: Tokens) -> torch.Tensor:
    """captum's feature mask: the sentence of each token of the text."""
    number = {i: j for j, group in enumerate(features(tokens, "sentence")) for i in group}
    return torch.tensor([[number[i] for i in tokens.content]])


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(FeatureAblation, LeaveOneOut), (ShapleyValues, Shapley)],
    ids=["leave-one-out", "shapley"],
)
def test_scores_are_captums_with_the_same_groups(family: str, theirs: Any, ours: Any) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(TEXT)
    scores = theirs(lambda words: outputs(classifier, tokens, words)[:, 1]).attribute(
        torch.tensor([[tokens.ids[i] for i in tokens.content]]),
        baselines=classifier.tokenizer.mask_token_id,
        feature_mask=masks(tokens),
        perturbations_per_eval=16,
    )[0]
    expected = [float(scores[masks(tokens)[0] == j][0]) for j in range(5)]
    why = attribution(classifier, TEXT, ours(by="sentence", masking="mask"), target=1)
    assert sums(why) == pytest.approx(expected, abs=1e-5)
    assert all(np.ptp(why.scores[group]) == 0 for group in features(tokens, "sentence"))


def test_coefficients_are_those_of_the_lime_package(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    sentences = [TEXT[a:b] for a, b in sentence_spans(TEXT)]
    theirs, data, labels = package(classifier, TEXT, monkeypatch, bow=True, split_expression=lambda text: sentences)
    how = Lime(by="sentence")
    asked = how.variants(classifier.tokens(TEXT), data.astype(bool), torch.Generator())
    values = answers(classifier, [asked]).values(classifier, PROBABILITY)
    assert values == pytest.approx(labels[:, 1], abs=1e-5)
    fitted = lime.fit_surrogate(as_design(data), values, how.kernel_width, how.ridge)
    coefficients = dict(theirs.local_exp[1])
    assert fitted.coefficients == pytest.approx([coefficients[i] for i in range(5)], abs=1e-5)


def test_occlusion_is_the_mean_over_windows_of_sentences() -> None:
    classifier = shared("bert")
    tokens = classifier.tokens(TEXT)
    groups = features(tokens, "sentence")

    def value(gone: list[int]) -> float:
        stay = [i for i in range(len(tokens)) if not any(i in groups[j] for j in gone)]
        with torch.no_grad():
            return float(classifier.logits(classifier.batch([tokens.take(stay)]))[0, 1])

    effects = {j: value([]) - value([j, j + 1]) for j in range(4)}
    expected = [np.mean([e for j, e in effects.items() if k in (j, j + 1)]) for k in range(5)]
    assert sums(attribution(classifier, TEXT, METHODS[1], target=1)) == pytest.approx(expected, abs=1e-5)


# windows


def slow_windows(classifier: Classifier, target: Target) -> tuple[Tokens, Any]:
    """The mean over all windows of the target's value with some sentences of the whole text."""
    tokens = classifier.tokens(LONG)
    number = {i: j for j, group in enumerate(features(tokens, "sentence")) for i in group}

    def value(kept: Any) -> float:
        windows = [
            tokens.take([i for i in at if i not in number or kept[number[i]]])
            for at in tokens.windows(classifier.limit)
        ]
        with torch.no_grad():
            logits = [classifier.logits(classifier.batch([window]))[0].double() for window in windows]
        return float(target.of(torch.stack(logits), classifier.head).mean())

    return tokens, value


@pytest.fixture(scope="module")
def document() -> Classifier:
    return build("bert")


def test_leaving_a_sentence_out_of_all_windows(document: Classifier) -> None:
    """Some sentences cross the border of a window."""
    tokens, value = slow_windows(document, Target(1))
    groups, windows = features(tokens, "sentence"), tokens.windows(document.limit)
    assert any(0 < len(set(group) & set(at)) < len(group) for group, at in product(groups, windows))
    why = attribution(document, LONG, LeaveOneOut(by="sentence"), target=1, windows=True)
    effects = value(np.ones(15, bool)), np.array([value(row) for row in ~np.eye(15, dtype=bool)])
    assert sums(why) == pytest.approx(effects[0] - effects[1], abs=1e-5)
    assert dict(why.details) == {"unit": "sentence", "features": 15}


@pytest.mark.thorough
def test_shapley_values_of_the_mean_over_windows() -> None:
    """A window's Shapley values are exact, and sentences outside it are null players: their mean is exact too."""
    classifier = build("bert", max_position_embeddings=24)
    text = "Good film. The music was not funny, never dull. Two sisters! A warm story moved me to tears? Bad acting."
    tokens = classifier.tokens(text)
    windows, groups = tokens.windows(classifier.limit), features(tokens, "sentence")
    assert len(windows) > 1
    keep = all_subsets(len(groups))
    number = {i: j for j, group in enumerate(groups) for i in group}
    values = np.zeros(len(keep))
    for at in windows:
        rows = [tokens.take([i for i in at if i not in number or row[number[i]]]) for row in keep]
        with torch.no_grad():
            values += [float(classifier.logits(classifier.batch([row]))[0, 1]) / len(windows) for row in rows]
    why = attribution(classifier, text, Shapley(by="sentence"), target=1, windows=True)
    assert sums(why) == pytest.approx(enumerated(values).scores, abs=1e-5)
    assert why.scores.sum() == pytest.approx(values[-1] - values[0], abs=1e-5)


def test_windows_of_auto_have_one_unit_and_say_so_once(document: Classifier) -> None:
    why = attribution(document, LONG, Lime(by="auto", samples=20), windows=True)
    assert why.unit == "sentence"
    assert [note for note in why.notes if "features" in note] == [MANY]


# identities and records


@pytest.mark.parametrize("how", METHODS, ids=lambda how: type(how).__name__)
def test_an_explanation_by_sentences_says_so_and_is_read_back(how: Any) -> None:
    why = attribution(shared("bert"), TEXT, how)
    assert (why.details["unit"], why.details["features"], why.unit) == ("sentence", 5, "sentence")
    view = why.by("sentence")
    assert view.scores[list(view.tokens.content)] == pytest.approx(sums(why))
    again = from_json(why.to_json())
    assert again == why
    assert isinstance(again, Attribution)
    assert again.unit == "sentence"
    assert "two sisters" in repr(why) or "Good" in repr(why)


@pytest.mark.parametrize(
    "how", [Shapley(by="sentence"), Shapley(by="sentence", exact_up_to=0, samples=12), METHODS[-1]]
)
def test_shapley_values_of_sentences_add_up(how: Any) -> None:
    classifier = shared("bert")
    why = attribution(classifier, TEXT, how, target=1)
    assert why.base is not None
    assert why.gap == pytest.approx(0, abs=1e-5)
    whole = classifier.predictions([classifier.tokens(TEXT)])[0].logits[1]
    assert sums(why).sum() == pytest.approx(whole - why.base, abs=1e-5)


@pytest.mark.parametrize("how", ["leave-one-out", "lime", "shapley", "occlusion", "shapley-partition", "random"])
def test_defaults_are_words_and_their_records_unchanged(how: str) -> None:
    made: Any = method(how, {"samples": 40} if how in ("lime", "shapley", "shapley-partition") else {})
    assert made.by == ("bag" if how == "lime" else "word")
    why = attribution(shared("bert"), TEXT, made)
    assert why.unit == "word"
    assert not {"unit", "features"} & set(why.details)
    assert not any("features" in note for note in why.notes)


@pytest.mark.parametrize("how", METHODS, ids=lambda how: type(how).__name__)
def test_passes_are_those_of_the_sentences(how: Any) -> None:
    classifier = build("bert")
    cost = plan(classifier, TEXT, how).costs[0].passes
    assert cost is not None
    why = explain(classifier, TEXT, how)
    assert why.source.forwards <= cost.forwards <= 32  # all sets of five sentences
    if isinstance(how, LeaveOneOut):
        assert why.source.forwards == cost.forwards == 6


def test_counterfactuals_remove_sentences() -> None:
    why: Any = explain(shared("bert"), TEXT, method("input-reduction", {"by": "sentence"}))
    gone = set(why.removed)
    assert all(gone >= set(group) or not gone & set(group) for group in features(why.tokens, "sentence"))
    assert why.details["unit"] == "sentence"


# views


def test_a_page_and_a_terminal_show_sentences_as_blocks() -> None:
    from rich.console import Console

    from heedful.report.terminal import show_explanations

    whys = heedful.explain(shared("bert"), [TEXT], [LeaveOneOut(by="sentence")])
    page = whys.to_html()
    assert "The strongest sentences" in page
    assert ">A warm story, never dull: two sisters.</span>" in page
    console = Console(width=300, record=True, no_color=True, highlight=False)
    show_explanations(whys, console)
    shown = console.export_text()
    assert "strongest sentence of each method" in shown
    assert "unit sentence, 5 features" in shown


def test_methods_by_words_and_by_sentences_on_one_page() -> None:
    page = heedful.explain(shared("bert"), [TEXT], [LeaveOneOut(by="sentence"), LeaveOneOut()]).to_html()
    assert "The strongest words" in page
    assert ">sisters</span>" in page
    assert ">Good music?</span>" in page


def test_texts_of_different_units_run_in_one_batch() -> None:
    texts = [TEXT, TEXTS[1], LONG[:150]]
    whys = explain(shared("bert"), texts, LeaveOneOut(by="sentence"))
    assert [why.details["unit"] for why in whys] == ["sentence", "word", "sentence"]
    alone = [attribution(shared("bert"), text, LeaveOneOut(by="sentence")) for text in texts]
    assert all(np.allclose(a.scores, b.scores, atol=1e-5) for a, b in zip(alone, whys, strict=True))  # type: ignore[attr-defined]
