"""Any function from texts to probabilities: words spliced as characters, and methods against a known answer."""

from __future__ import annotations

import itertools
import re
from math import factorial
from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution, Counterfactual
from heedful.core.finding import CONTROLS
from heedful.core.target import Target
from heedful.methods import METHODS, method
from heedful.methods.conformance import CLAIMS, SEED, as_array
from heedful.methods.conformance import PROBE_TEXTS as CONFORMANCE_TEXTS
from heedful.methods.explain import explain, explain_all
from heedful.model.classifier import Classifier
from heedful.model.function import ROWS, Plain
from heedful.model.inference import Engine, answers
from heedful.model.masking import Variants

WEIGHTS = {"good": 1.5, "bad": -2.0, "not": -0.7, "film": 0.2, "warm": 0.9}
TEXT = "A good film, not bad but warm"
ODDS = Target(1, against=0)  # the log-odds, in which the bag of words is additive
WORKS = ("leave-one-out", "occlusion", "lime", "shapley", "shapley-partition", "input-reduction", "minimal-flip")


def score(text: Any) -> float:
    """The log-odds of a text: the sum of its words' weights, those of a pair's second text against it."""
    if isinstance(text, tuple):
        return score(text[0]) - score(text[1])
    return 0.3 + sum(WEIGHTS.get(word, 0.0) for word in re.findall(r"\w+", text.lower()))


def bag(texts: list[Any]) -> Floats:
    chances = 1 / (1 + np.exp([-score(text) for text in texts]))
    return np.stack([1 - chances, chances], axis=1)


@pytest.fixture
def plain() -> Plain:
    return Plain(bag, labels=["negative", "positive"])


def variant(plain: Plain, text: str, gone: set[int], way: str = "delete", pair: str | None = None) -> Any:
    tokens = plain.tokens(text, pair)
    keep = np.array([[i not in gone for i in range(len(tokens))]])
    return Variants(tokens, keep, way).texts(plain, slice(None))[0]


# the cut


def test_its_tokens_are_the_words_of_the_text(plain: Plain) -> None:
    tokens = plain.tokens("I'm  ok 👩‍👧.", "Fine")
    assert tokens.pieces == ("I'm", "ok", "👩‍👧", ".", "Fine")
    assert tokens.segments == (0, 0, 0, 0, 1)
    assert tokens.words == (0, 1, 2, 3, 4)
    assert [tokens.surface(i) for i in range(5)] == list(tokens.pieces)
    assert not any(tokens.special)


@pytest.mark.parametrize(("text", "pair"), [("", None), (" \n", None), ("fine", ""), ("a\0b", None)])
def test_what_is_no_text_is_refused(plain: Plain, text: str, pair: str | None) -> None:
    with pytest.raises(BadInput):
        plain.tokens(text, pair)


# splicing


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("one two three", {1}, "one three"),
        ("one two three", {0}, "two three"),
        ("one two three", {2}, "one two"),
        ("one two three", {0, 1, 2}, ""),
        ("one  two\n\nthree", {1}, "one\n\nthree"),
        ("one  two\n\nthree", {0, 1}, "three"),
        ("good, not bad.", {1}, "good not bad."),
        ("good, not bad.", {0}, ", not bad."),
        ("good, not bad.", {3}, "good, not."),
        ("(good)", {1}, "()"),
        ("a 👩‍👧 b", {1}, "a b"),
        ("漢字だ", {1}, "漢だ"),
        ("Dull", {0}, ""),
    ],
)
def test_a_deleted_word_takes_the_white_space_before_it(plain: Plain, text: str, gone: set[int], left: str) -> None:
    assert variant(plain, text, gone) == left


@pytest.mark.parametrize("text", [" one two ", "\n one\ttwo\n", "one two"])
@pytest.mark.parametrize("way", ["delete", "token:X"])
def test_with_everything_kept_the_text_is_as_it_was(plain: Plain, text: str, way: str) -> None:
    assert variant(plain, text, set(), way) == text


def test_white_space_around_the_text_stays_where_no_word_goes(plain: Plain) -> None:
    assert variant(plain, "  one two three \n", {1}) == "  one three \n"
    assert variant(plain, "  one two three \n", {0}) == "two three \n"
    assert variant(plain, " one ", {0}) == ""


@pytest.mark.parametrize(
    ("gone", "left"), [({0}, "[X], not bad."), ({2, 3}, "good, [X] [X]."), ({1}, "good[X] not bad."), (set(), None)]
)
def test_a_replaced_word_stands_in_its_place(plain: Plain, gone: set[int], left: str | None) -> None:
    assert variant(plain, "good, not bad.", gone, "token:[X]") == (left or "good, not bad.")


def test_a_word_with_a_colon_is_put_in_whole(plain: Plain) -> None:
    assert variant(plain, "one two", {0}, "token:a:b") == "a:b two"


def test_the_texts_of_a_pair_are_changed_each_by_itself(plain: Plain) -> None:
    assert variant(plain, "one two", {0, 3}, pair="one three") == ("two", "one")
    assert variant(plain, "one two", {2, 3}, pair="one three") == ("one two", "")
    assert variant(plain, "one two", {0, 3}, "token:X", pair="one three") == ("X two", "one X")


@pytest.mark.parametrize("way", ["mask", "unk", "pad", "attention", "mlm:folder"])
def test_ways_that_need_a_tokenizer_are_refused(plain: Plain, way: str) -> None:
    with pytest.raises(BadInput) as e:
        explain(plain, TEXT, method("leave-one-out", {"masking": way}))
    assert str(e.value) == "bag reads plain text; use masking=delete or token:WORD."


# what it answers


def test_the_logit_of_a_label_is_the_logarithm_of_its_probability(plain: Plain) -> None:
    result = plain.predictions([plain.tokens(TEXT), plain.tokens("bad")])
    twin = bag([TEXT, "bad"])
    assert np.array([p.logits for p in result]) == pytest.approx(np.log(twin), abs=1e-12)
    assert np.array([p.probabilities for p in result]) == pytest.approx(twin, abs=1e-12)
    assert [p.label for p in result] == ["positive", "negative"]


def test_a_probability_of_zero_is_a_finite_logit() -> None:
    sure = Plain(lambda texts: np.tile([0.0, 1.0], (len(texts), 1)))
    result = sure.predictions([sure.tokens("Dull")])[0]
    assert result.logits == pytest.approx((np.log(1e-12), 0.0))
    assert result.probabilities == pytest.approx((0.0, 1.0), abs=1e-9)


def test_a_pair_reaches_the_function_as_a_tuple() -> None:
    given: list[Any] = []

    def watched(texts: list[Any]) -> Any:
        given.extend(texts)
        return bag(texts)

    plain = Plain(watched)
    given.clear()
    explain(plain, "good", "leave-one-out", pair="bad film")
    assert given == [("good", "bad film"), ("good", "bad film"), ("", "bad film"), ("good", "film"), ("good", "bad")]


def test_texts_are_given_a_few_at_a_time_and_each_once() -> None:
    sizes: list[int] = []
    seen: list[str] = []

    def watched(texts: list[str]) -> Any:
        sizes.append(len(texts))
        seen.extend(texts)
        return bag(texts)

    plain = Plain(watched)
    tokens = plain.tokens("one two three four five six seven eight nine ten")
    keep = np.random.default_rng(0).random((500, 10)) < 0.5
    sizes.clear()
    seen.clear()
    result = answers(plain, [Variants(tokens, keep)])
    assert max(sizes) <= ROWS
    assert len(seen) == len(set(seen)) == result.distinct == plain.forwards < 500
    words = np.array(tokens.pieces)
    twin = np.log(bag([" ".join(words[row]) for row in keep]))
    assert result.logits.numpy() == pytest.approx(twin, abs=1e-12)


def test_an_engine_remembers_texts_but_not_those_that_failed() -> None:
    broken = [False]

    def shaky(texts: list[str]) -> Any:
        if broken[0]:
            raise ValueError("stop")
        return bag(texts)

    plain = Plain(shaky)
    engine = Engine(plain)
    one, other = (Variants(plain.tokens(text), np.ones((1, 1), bool)) for text in ("good", "bad"))
    broken[0] = True
    with pytest.raises(ValueError, match="stop"):
        engine.ask([one])
    broken[0] = False
    assert engine.ask([other]).logits.exp().numpy() == pytest.approx(bag(["bad"]))
    assert engine.ask([one]).logits.exp().numpy() == pytest.approx(bag(["good"]))
    count = plain.forwards
    engine.ask([one, other])
    assert plain.forwards == count


@pytest.mark.parametrize("made", [lambda p: p.tolist(), torch.from_numpy, lambda p: p.astype(np.float32)])
def test_lists_and_tensors_are_taken_too(made: Any) -> None:
    plain = Plain(lambda texts: made(bag(texts)))
    result = plain.predictions([plain.tokens(TEXT)])[0].probabilities
    assert result == pytest.approx(tuple(bag([TEXT])[0]), abs=1e-6)


def test_labels_are_named_or_numbered(plain: Plain) -> None:
    assert plain.labels == ("negative", "positive")
    assert Plain(bag).labels == ("LABEL_0", "LABEL_1")
    assert explain(plain, TEXT, "leave-one-out", target="negative").target.label == "negative"


def test_its_name_is_the_functions() -> None:
    assert Plain(bag).name == "bag"
    assert Plain(bag, name="mine").name == "mine"
    assert Plain(bag, name="mine").fingerprint != Plain(bag).fingerprint
    assert Plain(bag).fingerprint == Plain(bag).fingerprint


# what is no such function


def shape(*given: int) -> Any:
    return lambda texts: np.full(given, 1 / given[-1])


def message(shape: tuple[int, ...]) -> str:
    expected = "it must return one row per text and one probability per label."
    return f"f returned an array of shape {shape} for 1 texts; {expected}"


@pytest.mark.parametrize("given", [(1,), (2, 2), (1, 1), (1, 2, 2), (3,)])
def test_an_answer_of_another_shape_is_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(BadInput) as e:
        Plain(shape(*given), name="f")
    assert str(e.value) == message(given)


@pytest.mark.parametrize("row", [[0.5, 0.6], [1.5, -0.5], [np.nan, 1.0], [np.inf, 0.0], [2.0, 3.0], [0.0, 0.0]])
def test_numbers_that_are_no_probabilities_are_refused(row: list[float]) -> None:
    with pytest.raises(BadInput) as e:
        Plain(lambda texts: [row] * len(texts), name="f")
    assert str(e.value) == "f returned numbers that are not probabilities; each row must sum to 1."


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ([["yes", "no"]], "list"),
        ([[0.5, 0.5], [1.0]], "list"),
        ({"positive": 1.0}, "dict"),
        (torch.tensor([[0.5, 0.5]], requires_grad=True), "Tensor"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(answer: Any, kind: str) -> None:
    with pytest.raises(BadInput) as e:
        Plain(lambda texts: answer, name="f")
    assert str(e.value) == (
        f"f returned a {kind} that is not a table of numbers; it must return one row per text and one probability "
        "per label."
    )


def test_none_is_no_answer() -> None:
    with pytest.raises(BadInput) as e:
        Plain(lambda texts: None, name="f")
    assert str(e.value) == message(())


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(BadInput) as e:
        Plain("model")  # type: ignore[arg-type]
    assert str(e.value) == "a str cannot be called; give a function from texts to probabilities."


def test_labels_must_be_as_many_as_columns() -> None:
    with pytest.raises(BadInput) as e:
        Plain(bag, labels=["a", "b", "c"])
    assert str(e.value) == "3 labels for 2 columns of bag; give one for each column."


def test_an_answer_that_turns_bad_later_is_refused() -> None:
    def fickle(texts: list[str]) -> Any:
        return np.full((len(texts), 2), 0.5 if texts != [TEXT] else 0.7)

    with pytest.raises(BadInput, match=r"fickle returned numbers that are not probabilities"):
        explain(Plain(fickle), TEXT, "leave-one-out")


def test_the_functions_own_errors_come_through(plain: Plain) -> None:
    def broken(texts: list[str]) -> Any:
        if texts == [TEXT]:
            raise KeyError("mine")
        return bag(texts)

    with pytest.raises(KeyError, match="mine"):
        explain(Plain(broken), TEXT, "leave-one-out")


# methods


def test_every_method_works_or_is_refused() -> None:
    assert {name for name, cls in METHODS.items() if not getattr(cls, "needs", ())} == {*WORKS, *CONTROLS}


@pytest.mark.parametrize("name", [n for n in METHODS if n not in (*WORKS, *CONTROLS)])
def test_methods_that_look_inside_name_the_function(plain: Plain, name: str) -> None:
    for pair in (None, "bad"):
        with pytest.raises(Unsupported) as e:
            explain(plain, TEXT, name, pair=pair)
        assert str(e.value) == (
            "bag is a function from texts to probabilities: it has no attention and no gradients; use leave-one-out, "
            "occlusion, lime, shapley, shapley-partition, input-reduction or minimal-flip."
        )


@pytest.mark.parametrize("name", [*WORKS, *CONTROLS])
def test_conforms(plain: Plain, name: str) -> None:
    chosen = method(name, {"samples": 64} if name == "shapley" else {})
    explanation = explain(plain, CONFORMANCE_TEXTS[0], chosen, seed=SEED)
    for claim in CLAIMS:
        if claim != "leaves_the_model_alone":  # there is none
            CLAIMS[claim](chosen, plain, explanation)


def weights(text: str, pair: str | None = None) -> list[float]:
    """What each word adds to the log-odds."""
    tokens = Plain(bag).tokens(text, pair)
    signs = [-1.0 if segment else 1.0 for segment in tokens.segments]
    return [sign * WEIGHTS.get(piece.lower(), 0.0) for sign, piece in zip(signs, tokens.pieces, strict=True)]


def attribution(plain: Classifier, name: str, target: Target = ODDS, **more: Any) -> Attribution:
    result = explain(plain, more.pop("text", TEXT), method(name, more.pop("settings", {})), target=target, **more)
    assert isinstance(result, Attribution)
    return result


@pytest.mark.parametrize("name", ["leave-one-out", "shapley", "shapley-partition"])
@pytest.mark.parametrize("pair", [None, "not a bad film"])
@pytest.mark.parametrize("masking", ["delete", "token:[X]"])
def test_in_log_odds_each_word_is_worth_its_weight(plain: Plain, name: str, pair: str | None, masking: str) -> None:
    result = attribution(plain, name, pair=pair, settings={"masking": masking})
    assert result.scores == pytest.approx(weights(TEXT, pair), abs=1e-9)


def test_sampled_shapley_values_of_an_additive_function_are_its_weights(plain: Plain) -> None:
    text = "a good film not bad but warm and good again so warm a film"
    for estimator, allowed in (("wls", 1e-9), ("kriging", 5e-3)):
        settings = {"exact_up_to": 0, "samples": 200, "estimator": estimator}
        result = attribution(plain, "shapley", text=text, settings=settings)
        assert result.scores == pytest.approx(weights(text), abs=allowed), estimator


def test_a_bag_takes_every_occurrence_away(plain: Plain) -> None:
    result = attribution(plain, "shapley", text="good film good", settings={"by": "bag"})
    assert result.scores == pytest.approx([1.5, 0.2, 1.5], abs=1e-9)  # 3.0 in equal parts
    assert attribution(plain, "leave-one-out", text="good film good", settings={"by": "bag"}).scores == pytest.approx(
        [1.5, 0.2, 1.5], abs=1e-9
    )


def test_occlusion_is_the_mean_over_windows(plain: Plain) -> None:
    own = weights(TEXT)
    sums = [sum(own[i : i + 3]) for i in range(len(own) - 2)]
    twin = [np.mean([sums[s] for s in range(len(sums)) if s <= i < s + 3]) for i in range(len(own))]
    assert attribution(plain, "occlusion").scores == pytest.approx(twin, abs=1e-9)


def test_lime_finds_the_weights_of_a_linear_function(plain: Plain) -> None:
    result = attribution(plain, "lime", settings={"ridge": 0.0})
    assert result.scores == pytest.approx(weights(TEXT), abs=1e-6)
    shrunk = attribution(plain, "lime")
    assert np.argsort(shrunk.scores)[[0, -1]].tolist() == np.argsort(weights(TEXT))[[0, -1]].tolist()


def test_shapley_values_of_a_probability_are_the_mean_over_all_orders(plain: Plain) -> None:
    target = Target(1, "probability")
    words = plain.tokens("A good film, not bad").pieces
    n = len(words)

    def value(kept: frozenset[int]) -> float:
        return float(bag([" ".join(words[i] for i in sorted(kept))])[0, 1])

    twin = np.zeros(n)
    for order in itertools.permutations(range(n)):
        for at, word in enumerate(order):
            twin[word] += value(frozenset(order[: at + 1])) - value(frozenset(order[:at]))
    result = attribution(plain, "shapley", target, text="A good film, not bad")
    assert result.scores == pytest.approx(twin / factorial(n), abs=1e-9)


def flip(plain: Plain, name: str, text: str, **more: Any) -> Counterfactual:
    result = explain(plain, text, name, **more)
    assert isinstance(result, Counterfactual)
    return result


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("a warm and good film, not bad", ["good"]),  # 0.3 + 0.9 + 1.5 + 0.2 - 0.7 - 2 = 0.2
        ("a warm and good film, not bad but good", ["good", "good"]),  # 1.7: no single word is enough
        ("a bad film", ["bad"]),
    ],
)
def test_the_fewest_words_that_turn_the_answer(plain: Plain, text: str, removed: list[str]) -> None:
    result = flip(plain, "minimal-flip", text)
    assert [result.tokens.pieces[i] for i in result.removed] == removed
    assert result.outcome.label != result.prediction.label
    assert result.exact


def test_input_reduction_keeps_the_label(plain: Plain) -> None:
    result = flip(plain, "input-reduction", "a bad film, not warm")
    assert [result.tokens.pieces[i] for i in result.kept] == ["bad"]  # nothing at all is positive: 0.3
    assert result.outcome.label == "negative"


def test_many_texts_are_explained_together(plain: Plain) -> None:
    texts: list[tuple[str, str]] = [(TEXT, "warm"), ("Dull", "good"), ("good", "not a bad film")]
    for name in WORKS:
        together = list(explain_all(plain, texts, name))
        for (text, pair), one in zip(texts, together, strict=True):
            assert as_array(one) == pytest.approx(as_array(explain(plain, text, name, pair=pair)), abs=1e-9), name


def test_methods_cost_what_they_say(plain: Plain) -> None:
    tokens = plain.tokens(TEXT)
    for name in WORKS:
        made: Any = method(name)
        assert explain(plain, TEXT, made).source.forwards <= made.passes(plain, tokens).forwards, name
