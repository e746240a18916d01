"""Explanations: the numbers stay what the method gave, through views, JSON, windows and batches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import heedful
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import (
    Attribution,
    Explanation,
    Explanations,
    Interaction,
    Prediction,
    Source,
    from_json,
    reduction,
)
from heedful.core.target import Target
from heedful.core.tokens import Span, Tokens, word_indices
from heedful.methods.explain import STREAM_TEXTS, explain, explain_all
from heedful.methods.gradient import GradientXInput, IntegratedGradients
from heedful.model.classifier import Classifier
from tests.support.models import TEXTS, build, shared

PIECES: tuple[str, ...] = ("[CLS]", "un", "##believ", "##able", "film", ",", "not", "bad", "[SEP]")
SPANS: tuple[Span | None, ...] = (None, (0, 2), (2, 8), (8, 12), (13, 17), (17, 18), (19, 22), (23, 26), None)
TEXT = "Unbelievable film, not bad"
SCORES = (9.0, 1.0, -3.0, 0.5, 2.0, 0.0, -2.0, 0.25, -7.0)
LONG = " ".join(TEXTS) * 6


def refused(message: str) -> Any:
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def tokens(n: int | None = None) -> Tokens:
    """The nine pieces above, or n pieces of one letter."""
    pieces, spans, text = PIECES, SPANS, TEXT
    if n is not None:
        pieces, spans, text = ("x",) * n, tuple((i, i + 1) for i in range(n)), "x" * n
    segments = tuple(None if span is None else 0 for span in spans)
    words = tuple(word_indices(spans, segments, (text, "")))
    return Tokens(text, None, tuple(range(len(pieces))), pieces, spans, words, segments)


def scored(scores: Any = SCORES, **more: Any) -> Attribution:
    return Attribution(tokens=tokens(), scores=np.array(scores), **more)


def attribution(*args: Any, **more: Any) -> Attribution:
    """`explain`, for one method that gives scores."""
    result = explain(*args, **more)
    assert isinstance(result, Attribution)
    return result


def same(a: Explanation, b: Explanation) -> bool:
    """Equal in every field, the numbers to the last bit."""
    numbers = [x.scores if isinstance(x, Attribution) else x.weights for x in (a, b)]  # type: ignore[attr-defined]
    return (
        a.to_dict() == b.to_dict()
        and type(a) is type(b)
        and (a.tokens, a.prediction, a.target, a.notes) == (b.tokens, b.prediction, b.target, b.notes)
        and numbers[0].dtype == numbers[1].dtype
        and numbers[0].tobytes() == numbers[1].tobytes()
    )


# scores


@pytest.mark.parametrize("shape", [(8,), (10,), (9, 1), ()])
def test_there_is_one_score_for_each_token(shape: tuple[int, ...]) -> None:
    message = f"9 tokens and scores of shape {shape}; give one score per token"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        scored(np.zeros(shape))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused(bad: float) -> None:
    with refused("occlusion computed a score that is not finite: the model overflows."):
        scored([bad, *SCORES[1:]], source=Source("occlusion"))


def test_a_weight_that_is_not_finite_is_refused() -> None:
    with refused("the method computed a weight that is not finite: the model overflows."):
        Interaction(tokens=tokens(), weights=np.full((1, 1, 9, 9), np.nan, np.float32))


@pytest.mark.parametrize("shape", [(1, 1, 9, 8), (1, 1, 2, 9), (1, 9, 9)])
def test_weights_are_layer_head_query_key(shape: tuple[int, ...]) -> None:
    message = f"9 tokens and weights of shape {shape}; give [layer, head, 9 or 1, 9]"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Interaction(tokens=tokens(), weights=np.zeros(shape, np.float32))


def test_a_network_that_pools_with_one_query_has_one_row() -> None:
    assert Interaction(tokens=tokens(), weights=np.zeros((2, 3, 1, 9), np.float32)).weights.shape == (2, 3, 1, 9)


def test_scores_cannot_be_changed() -> None:
    why = scored()
    with pytest.raises(ValueError, match="read-only"):
        why.scores[0] = 1
    with pytest.raises(FrozenInstanceError):
        why.scores = why.scores * 2  # type: ignore[misc]


def test_the_callers_array_is_copied_and_stays_writable() -> None:
    mine = np.array(SCORES)
    why = scored(mine)
    mine[:] = 0
    assert why.scores.tolist() == list(SCORES)


def test_scores_of_any_precision_become_doubles() -> None:
    assert scored(np.array(SCORES, np.float16)).scores.dtype == np.float64


# views


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("sum", [9, -1.5, 2, 0, -2, 0.25, -7]),
        ("mean", [9, -0.5, 2, 0, -2, 0.25, -7]),
        ("max", [9, -3, 2, 0, -2, 0.25, -7]),
    ],
)
def test_words_join_the_scores_of_their_pieces(how: Any, expected: list[float]) -> None:
    view = scored().by("word", how)
    assert view.scores.tolist() == expected
    assert (view.reduced, view.tokens.unit) == (how, "word")
    assert view.tokens.pieces == ("[CLS]", "Unbelievable", "film", ",", "not", "bad", "[SEP]")


def test_the_scores_of_tokens_were_not_joined() -> None:
    why = scored()
    assert why.by("token") is why
    assert why.reduced is None


def halves(text: str) -> list[tuple[int, int]]:
    return [(0, 13), (13, len(text))]


@given(st.lists(st.floats(-1e6, 1e6), min_size=9, max_size=9), st.sampled_from(["word", "sentence", halves]))
def test_sums_keep_the_total(scores: list[float], unit: Any) -> None:
    assert scored(scores).by(unit).scores.sum() == pytest.approx(sum(scores), abs=1e-6)


def test_scores_by_the_callers_own_splitter() -> None:
    view = scored().by(halves)
    assert view.scores.tolist() == [9, -1.5, 0.25, -7]
    assert (view.tokens.unit, view.reduced) == ("halves", "sum")


def test_an_unknown_way_to_join_is_refused() -> None:
    with refused("'median' is not a way to combine scores; choose sum, mean or max."):
        scored().by("word", "median")  # type: ignore[arg-type]


@given(hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-5, 5)))
def test_max_is_the_piece_of_largest_magnitude_with_its_sign(x: Floats) -> None:
    assert reduction("max")(x) in x
    assert abs(reduction("max")(x)) == max(map(abs, x))


def test_top_is_by_magnitude_without_special_tokens_and_ties_in_reading_order() -> None:
    assert scored().top(4) == [("believ", -3.0), ("film", 2.0), ("not", -2.0), ("Un", 1.0)]


def test_top_gives_all_when_asked_for_more() -> None:
    assert len(scored().top(100)) == 7


def test_as_list_is_the_text_in_reading_order() -> None:
    shown = ["Un", "believ", "able", "film", ",", "not", "bad"]
    assert scored().as_list() == list(zip(shown, SCORES[1:-1], strict=True))


def test_strengths_are_relative_to_the_text_not_to_special_tokens() -> None:
    assert scored().strengths().tolist() == [1, 1 / 3, -1, 0.5 / 3, 2 / 3, 0, -2 / 3, 0.25 / 3, -1]


def test_strengths_of_nothing_are_nothing() -> None:
    assert scored(np.zeros(9)).strengths().tolist() == [0] * 9


def test_views_leave_the_raw_scores_alone() -> None:
    why = scored()
    why.by("word"), why.by("sentence", "max"), why.top(3), why.strengths(), why.as_list(), why.to_dataframe()
    why.to_json(), why.to_html()
    assert why.scores.tolist() == list(SCORES)


def test_a_dataframe_has_a_row_for_each_token() -> None:
    frame = scored().to_dataframe()
    assert list(frame.columns) == ["piece", "text", "start", "end", "word", "segment", "special", "score"]
    assert frame["score"].tolist() == list(SCORES)
    assert frame["piece"].tolist() == list(PIECES)
    assert frame.loc[2].tolist() == ["##believ", "believ", 2, 8, 0, 0, False, -3.0]
    assert frame.loc[0, ["start", "end", "word", "segment"]].isna().all()


def test_a_dataframe_of_words() -> None:
    assert scored().by("word").to_dataframe()["text"].tolist()[1:3] == ["Unbelievable", "film"]


# JSON

SOURCE = Source("occlusion", {"masking": "<m>", "steps": 3}, "a/model", "f00d", 7, 12, 3, 2, {"torch": "2"})


def full(scores: Any, cut: Tokens) -> Attribution:
    return Attribution(
        tokens=cut,
        scores=scores,
        signed=False,
        base=0.1,
        gap=-1e-17,
        reduced="mean",
        prediction=Prediction(("ja", "nein 😀"), (0.1, -2.5e-9), (0.3, 0.7)),
        target=Target("ja", "probability", "nein 😀"),
        source=SOURCE,
        notes=("a note", "another"),
    )


@given(hnp.arrays(np.float64, 9, elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_json_keeps_every_bit_of_the_scores(scores: Floats) -> None:
    why = full(scores, tokens())
    assert same(from_json(why.to_json()), why)


@given(hnp.arrays(np.float32, (2, 1, 3, 3), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_json_keeps_every_bit_of_the_weights(weights: NDArray[np.float32]) -> None:
    why = Interaction(tokens=tokens(3), weights=weights, attention="cross", layers=(4, 6), source=SOURCE)
    assert same(from_json(why.to_json()), why)


@pytest.mark.parametrize("method", ["integrated-gradients", "attention-weights", "random"])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_json_keeps_an_explanation_of_a_strange_pair(method: str, kind: str) -> None:
    why = explain(shared(kind), 'good 😀 "film"\n\u2028 café', method, pair="שלום 👩‍👧 <script>")
    assert same(from_json(why.to_json()), why)


def test_json_keeps_a_view() -> None:
    view = attribution(shared("bert"), LONG, "gradient-l2").by("word", "max")
    assert same(from_json(view.to_json()), view)


def test_json_is_one_line() -> None:
    assert len(explain(shared("bert"), "two\nlines", "uniform").to_json().splitlines()) == 1


def test_a_regression_comes_back_without_probabilities() -> None:
    why = scored(prediction=Prediction(("score",), (1.5,), None))
    assert from_json(why.to_json()).prediction == Prediction(("score",), (1.5,), None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        ("{}", "KeyError: 'heedful'"),
        ("[]", "TypeError: list indices must be integers or slices, not str"),
        ("null", "TypeError: 'NoneType' object is not subscriptable"),
        ('{"heedful": 1}', "KeyError: 'tokens'"),
    ],
)
def test_what_is_no_explanation_is_refused(text: str, reason: str) -> None:
    with refused(f"this is not an explanation written by heedful ({reason})."):
        from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"scores": [1.0]},
        {"scores": [[1.0], [2.0, 3.0]]},
        {"scores": "many"},
        {"kind": "essay"},
        {"tokens": {"text": "x"}},
        {"source": {"who": "me"}},
        {"notes": None},
        {"prediction": []},
    ],
)
def test_a_damaged_explanation_is_refused_in_one_sentence(change: dict[str, Any]) -> None:
    damaged = json.dumps(scored().to_dict() | change)
    with pytest.raises(BadInput, match=r"^this is not an explanation written by heedful \((?:(?!\. ).)+\)\.$"):
        from_json(damaged)


@pytest.mark.parametrize("text", ["[" * 100_000, scored().to_json()[:-9]])
def test_broken_json_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"^this is not an explanation written by heedful \(\w+Error: [^\n]+\)\.$"):
        from_json(text)


def test_another_format_is_refused() -> None:
    with refused("this explanation has format 2; this version of heedful reads 1."):
        from_json(json.dumps(scored().to_dict() | {"heedful": 2}))


# explain


def test_one_method_gives_one_explanation_and_a_list_gives_explanations() -> None:
    classifier = shared("bert")
    one = explain(classifier, TEXTS[0], "gradient-l2")
    listed = explain(classifier, TEXTS[0], ["gradient-l2"])
    several = explain(classifier, TEXTS[0], ("uniform", GradientXInput()))
    assert isinstance(one, Explanation)
    assert isinstance(listed, Explanations)
    assert same(listed[0], one)
    assert [why.method for why in several] == ["uniform", "gradient-x-input"]


def test_integrated_gradients_are_the_default() -> None:
    assert explain(shared("bert"), "good").method == "integrated-gradients"


def test_no_method_is_refused() -> None:
    with refused("no method was given; `heedful methods` lists them all."):
        explain(shared("bert"), "good", [])


def test_the_prediction_is_the_models() -> None:
    classifier = shared("bert")
    with torch.no_grad():
        logits = classifier.model(**classifier.tokenizer(TEXTS[0], return_tensors="pt")).logits[0].double()
    result = explain(classifier, TEXTS[0], "uniform").prediction
    assert result.logits == pytest.approx(logits.tolist(), abs=1e-5)
    assert result.probabilities == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)
    assert result.label == classifier.labels[int(logits.argmax())]


def test_the_target_may_be_a_name_an_index_or_a_target() -> None:
    classifier = shared("bert")
    asked = [explain(classifier, "good film", "gradient-l2", t) for t in ("LABEL_2", "label_2", 2, Target(2))]
    assert all(same(why, asked[0]) for why in asked)
    assert asked[0].target == Target("LABEL_2")


def test_the_seed_decides_chance_and_nothing_else_does() -> None:
    classifier = shared("bert")
    torch.manual_seed(1)
    first = attribution(classifier, TEXTS[0], "random", seed=3)
    torch.manual_seed(2)
    again, other = (attribution(classifier, TEXTS[0], "random", seed=seed) for seed in (3, 4))
    assert np.array_equal(first.scores, again.scores)
    assert not np.array_equal(first.scores, other.scores)
    assert (first.source.seed, other.source.seed) == (3, 4)


def test_the_source_says_how_to_make_it_again() -> None:
    classifier = shared("bert")
    source = explain(classifier, TEXTS[0], IntegratedGradients(steps=5, baseline="zero"), seed=9).source
    assert (source.method, source.seed, source.model) == ("integrated-gradients", 9, "tiny-bert")
    assert source.settings == {"steps": 5, "baseline": "zero", "through_attention": True}
    assert source.fingerprint == classifier.fingerprint == build("bert").fingerprint
    assert source.fingerprint != build("bert", seed=1).fingerprint
    assert source.versions == {name: version(name) for name in ("heedful", "torch", "transformers")}


def test_the_source_counts_passes_without_the_prediction() -> None:
    source = explain(shared("bert"), TEXTS[0], "gradient-l2").source
    assert (source.forwards, source.backwards, source.windows) == (1, 1, 1)
    source = explain(shared("bert"), TEXTS[0], IntegratedGradients(steps=5, baseline="zero")).source
    assert source.backwards == 5


def test_the_verbs_are_at_the_top() -> None:
    assert (heedful.explain, heedful.explain_all, heedful.from_json) == (explain, explain_all, from_json)


# explain_all


class Counted:
    """An endless stream of texts that knows how many were taken."""

    def __init__(self) -> None:
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        while True:
            self.taken += 1
            yield f"good film {self.taken}"


def test_explain_all_takes_texts_as_they_are_needed() -> None:
    texts = Counted()
    result = explain_all(shared("bert"), texts, "uniform")
    assert texts.taken == 0
    next(result)
    assert 0 < texts.taken <= STREAM_TEXTS
    for _ in range(STREAM_TEXTS):
        next(result)
    assert STREAM_TEXTS < texts.taken <= 2 * STREAM_TEXTS


def test_explain_all_refuses_a_bad_method_at_once() -> None:
    with pytest.raises(BadInput, match=r"^method 'nonsense' is not known"):
        explain_all(shared("bert"), iter(()), "nonsense")


def test_explain_all_keeps_the_order_of_texts_of_any_length() -> None:
    texts = [text * (1 + i % 3) for i, text in enumerate(TEXTS * 20)]
    result = list(explain_all(shared("bert"), texts, "uniform"))
    assert [why.tokens.text for why in result] == texts


def test_explain_all_gives_what_explain_gives() -> None:
    classifier = shared("bert")
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2])]
    mixed: list[str | tuple[str, str]] = [TEXTS[0], *pairs, TEXTS[3]]
    alone = [
        attribution(classifier, t, "gradient-x-input", "LABEL_1")
        if isinstance(t, str)
        else attribution(classifier, t[0], "gradient-x-input", "LABEL_1", t[1])
        for t in mixed
    ]
    for why, twin in zip(explain_all(classifier, mixed, "gradient-x-input", "LABEL_1"), alone, strict=True):
        assert isinstance(why, Attribution)
        assert (why.tokens, why.target) == (twin.tokens, twin.target)
        assert why.scores == pytest.approx(twin.scores, abs=1e-5)


def test_explain_all_with_a_list_of_methods_gives_explanations() -> None:
    result = list(explain_all(shared("bert"), TEXTS[:2], ["uniform", "random"], seed=5))
    assert [[why.method for why in row] for row in result] == [["uniform", "random"]] * 2
    assert [why.to_dict()["scores"] for why in result[1][1:]] == [
        attribution(shared("bert"), TEXTS[1], "random", seed=5).scores.tolist()
    ]


def test_explain_all_of_nothing_is_nothing() -> None:
    assert list(explain_all(shared("bert"), [])) == []


# texts that are too long


def test_a_long_text_is_cut_and_says_so() -> None:
    classifier = shared("bert")
    whole = len(classifier.tokens(LONG).content)
    why = explain(classifier, LONG, "gradient-l2")
    assert classifier.limit == len(why.tokens) == 64
    assert why.truncation == (f"the model reads 62 of this text's {whole} tokens: the other {whole - 62} were cut off")


def test_a_text_that_fits_has_no_notice() -> None:
    assert explain(shared("bert"), TEXTS[0], "uniform", truncate=False).truncation is None


def test_a_long_text_is_refused_if_it_must_not_be_cut() -> None:
    whole = len(shared("bert").tokens(LONG))
    with refused(f"the text has {whole} tokens and tiny-bert reads 64; shorten it, allow truncation, or use windows."):
        explain(shared("bert"), LONG, "uniform", truncate=False)


def parts(classifier: Classifier, method: Any, target: Target, text: str, pair: str | None) -> list[Attribution]:
    """The slow twin of windows: the method itself, window after window."""
    whole = classifier.tokens(text, pair)
    rng = torch.Generator()
    result = [method(classifier, whole.take(at), target, rng) for at in whole.windows(classifier.limit)]
    assert all(isinstance(part, Attribution) for part in result)
    return result


@pytest.mark.parametrize("method", [GradientXInput(), IntegratedGradients(steps=6)])
@pytest.mark.parametrize("pair", [None, TEXTS[1]])
def test_windows_give_the_mean_over_all_windows(method: Any, pair: str | None) -> None:
    classifier = shared("bert")
    why = attribution(classifier, LONG, method, 1, pair, windows=True)
    whole = classifier.tokens(LONG, pair)
    expected = np.zeros(len(whole))
    result = parts(classifier, method, Target(1), LONG, pair)
    for at, part in zip(whole.windows(classifier.limit), result, strict=True):
        for i, score in zip(at, part.scores, strict=True):
            expected[i] += score / len(result)
    assert why.tokens == whole
    assert why.scores == pytest.approx(expected, abs=1e-5)
    assert why.source.windows == len(result) > 2


def test_windows_keep_what_integrated_gradients_promise() -> None:
    classifier = shared("bert")
    why = attribution(classifier, LONG, IntegratedGradients(steps=64), 1, windows=True)
    assert why.base is not None
    assert why.gap is not None
    assert why.base + why.scores.sum() + why.gap == pytest.approx(why.prediction.logits[1], abs=1e-5)
    assert abs(why.gap) < 1e-3


def test_windows_predict_by_the_mean_of_their_logits() -> None:
    classifier = shared("bert")
    whole = classifier.tokens(LONG)
    each = [p.logits for p in classifier.predictions([whole.take(at) for at in whole.windows(classifier.limit)])]
    why = explain(classifier, LONG, "uniform", windows=True)
    assert why.prediction.logits == pytest.approx(np.mean(each, axis=0).tolist(), abs=1e-5)
    assert why.target.label == why.prediction.label


def test_windows_count_all_their_passes_and_cut_nothing() -> None:
    why = explain(shared("bert"), LONG, "gradient-l2", windows=True)
    assert why.source.forwards == why.source.backwards == why.source.windows
    assert why.truncation is None
    assert why.notes[-1] == f"mean over {why.source.windows} overlapping windows"


def test_windows_do_not_matter_to_a_short_text() -> None:
    a, b = (explain(shared("bert"), TEXTS[0], "gradient-l2", windows=windows) for windows in (True, False))
    assert same(a, b)


def test_attention_matrices_cannot_be_joined_over_windows() -> None:
    message = "attention-weights cannot be joined over windows; explain a shorter text, or allow truncation."
    with pytest.raises(Unsupported, match=f"^{re.escape(message)}$"):
        explain(shared("bert"), LONG, "attention-weights", windows=True)


def test_long_and_short_texts_keep_their_order_with_windows() -> None:
    texts = [TEXTS[0], LONG, TEXTS[1], LONG + " bad"]
    result = list(explain_all(shared("bert"), texts, "uniform", windows=True))
    assert [(why.tokens.text, why.source.windows > 1) for why in result] == [(text, len(text) > 500) for text in texts]


def test_the_text_of_an_explanation_may_be_replaced_only_with_its_scores() -> None:
    with pytest.raises(ValueError, match=r"^3 tokens and scores of shape \(9,\); give one score per token$"):
        replace(scored(), tokens=tokens(3))


def test_ten_thousand_words_are_explained_with_a_notice() -> None:
    why = attribution(shared("bert"), "a " * 10_000, "gradient-l2")
    assert why.truncation == "the model reads 62 of this text's 10,000 tokens: the other 9,938 were cut off"


def test_a_setting_that_json_does_not_know_is_written_as_text() -> None:
    result = explain(shared("bert"), TEXTS[0], "random")
    odd = replace(result, source=replace(result.source, settings={"path": Path("x")}))
    assert from_json(odd.to_json()).source.settings == {"path": "x"}
