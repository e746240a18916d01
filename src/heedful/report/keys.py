"""Keys: which numbers of two runs are laid side by side, and what they say. Only words; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EVERYWHERE = {"layer": "all", "head": "all"}
DELETE = {"masking": "delete"}
GRADIENT, LOO, ATTENTION = "gradient-x-input", "leave-one-out", "attention-mean"


@dataclass(frozen=True)
class Key:
    """Which number: a measure of a check, of a method, at the one place that has all of `at`.

    `words` name it in a table and a chart, `says` in a sentence.
    """

    check: str
    measure: str
    words: str
    says: str = ""
    method: str = ""
    at: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Each:
    """A measure of every method, at a place."""

    measure: str
    says: str
    at: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What is asked of both runs, by numbers of a check and by measures of each of its methods."""

    check: str
    title: str
    asks: str
    reading: str
    keys: tuple[Key, ...] = ()
    each: tuple[Each, ...] = ()


@dataclass(frozen=True)
class Headline:
    """What is said first of a key: {more} is said of {a} against {b}."""

    words: str
    symbol: str
    sentence: str


QUESTIONS = (
    Question(
        "agreement",
        "Agreement of methods",
        "Do methods put the words in the same order, in one run more than in the other?",
        "Kendall's τ, its mean over texts. Gradient × input with leave-one-out is the ceiling to compare with: both "
        "ask the model. On long texts τ is mostly about the order of words that hardly matter.",
        (
            Key(
                "agreement",
                "tau",
                "leave-one-out, attention",
                "agreement of leave-one-out with attention (τ)",
                LOO,
                {"with": ATTENTION},
            ),
            Key(
                "agreement",
                "tau",
                "gradient, attention",
                "agreement of gradient × input with attention (τ)",
                GRADIENT,
                {"with": ATTENTION},
            ),
            Key(
                "agreement",
                "tau",
                "gradient, leave-one-out",
                "agreement of gradient × input with leave-one-out (τ)",
                GRADIENT,
                {"with": LOO},
            ),
        ),
    ),
    Question(
        "permutation",
        "Attention shuffled",
        "Does shuffling attention change the answers of one more than those of the other?",
        "A small change means that a model does not need its attention where it is; a large one does not mean that "
        "attention explains. Flat attention cannot change much, and an unsure model changes more easily.",
        (
            Key(
                "permutation",
                "tvd",
                "change (TVD), shuffled",
                "change of the answer with attention shuffled (TVD)",
                "",
                EVERYWHERE,
            ),
            Key("permutation", "correct", "right, shuffled", "right answers with attention shuffled", "", EVERYWHERE),
            Key("permutation", "correct as it is", "right as it is", "right answers with attention as it is"),
        ),
    ),
    Question(
        "uniform",
        "Attention made uniform",
        "Does one need its attention more than the other?",
        "Nothing is trained again: this is whether the trained models need their attention, not whether the task does.",
        (
            Key(
                "uniform",
                "tvd",
                "change (TVD), uniform",
                "change of the answer with attention uniform (TVD)",
                "",
                EVERYWHERE,
            ),
            Key("uniform", "correct", "right, uniform", "right answers with attention uniform", "", EVERYWHERE),
            Key("uniform", "correct as it is", "right as it is", "right answers with attention as it is"),
        ),
    ),
    Question(
        "adversarial",
        "Adversarial attention",
        "How different could attention be with the same answer?",
        "A far-away twin exists for almost every model with two labels, so that a high number says little against "
        "either model; compare them.",
        (
            Key(
                "adversarial",
                "jsd exact",
                "farthest (JSD), exact",
                "JSD of the farthest attention with the same answer",
            ),
            Key(
                "adversarial", "jsd found", "farthest (JSD), found", "JSD of the farthest attention that a search finds"
            ),
            Key(
                "adversarial", "jsd upper", "none is farther (JSD)", "JSD beyond which no attention has the same answer"
            ),
            Key("adversarial", "jsd lower", "one is as far (JSD)", "JSD of some attention with the same answer"),
            Key(
                "adversarial",
                "tvd any head",
                "head reads alike (TVD)",
                "TVD of an attention with which a head reads the same to 5 %",
                "",
                {"delta": 0.05},
            ),
        ),
    ),
    Question(
        "erasure",
        "Attention erased",
        "Does the label hang on what attention points at?",
        "The share erased is over the texts whose label changes at all: look at “never” beside it.",
        (
            Key(
                "erasure",
                "delta js",
                "ΔJS, top weight",
                "JSD by erasing the top weight less that by erasing another",
                "attention",
            ),
            Key(
                "erasure",
                "fraction",
                "share until a change",
                "share of items erased, the highest weight first, when the label changes",
                "attention",
            ),
            Key("erasure", "never", "never changes", "texts whose label never changes", "attention"),
        ),
    ),
    Question(
        "input-erasure",
        "Words erased",
        "Do the first words of an explanation carry the prediction?",
        "These numbers are of a model and a method together: the probability of a brittle model falls for any order of "
        "words, random too. Compare how far each method is from random within a model.",
        each=(
            Each("aopc comprehensiveness", "fall of the probability without the first words (AOPC)", DELETE),
            Each("aopc sufficiency", "fall of the probability with the first words alone (AOPC)", DELETE),
            Each("deletion", "area under the probability as words go", DELETE),
        ),
    ),
    Question(
        "sign",
        "Signs",
        "Does the strongest word push the way its score says?",
        "A method without signs claims support everywhere.",
        each=(Each("violation", "texts whose strongest word pushes the other way"),),
    ),
    Question(
        "randomisation",
        "Weights randomised",
        "Does an explanation survive the loss of the model's weights?",
        "Similarity is bad here: what stays has nothing to do with what was learned.",
        each=(Each("similarity of fully random", "likeness once every weight is random (τ)"),),
    ),
    Question(
        "stability",
        "Stability",
        "Would another seed or more samples say the same?",
        "A method that draws nothing has τ = 1 with another seed: that is no merit.",
        each=(
            Each("tau", "likeness with another seed (τ)", {"with": "seed"}),
            Each("tau", "likeness with more samples (τ)", {"with": "samples"}),
        ),
    ),
    Question(
        "plausibility",
        "Plausibility",
        "Are the highest words those that people marked?",
        "Plausible is not faithful: a model that is right for a wrong reason has a faithful explanation that scores "
        "low.",
        each=(Each("auprc", "average precision for marked words"),),
    ),
)
HEADLINES = (
    Headline("leave-one-out, attention", "τ", "attention of {a} agrees with leave-one-out {more} than that of {b}"),
    Headline(
        "gradient, leave-one-out",
        "τ",
        "gradient × input and leave-one-out, which both ask the model, agree {more} in {a} than in {b}",
    ),
    Headline("change (TVD), shuffled", "TVD", "shuffling attention moves the answers of {a} {more} than those of {b}"),
    Headline("farthest (JSD), exact", "JSD", "attention could differ {more} in {a} than in {b}, with the same answer"),
)

__all__ = ["ATTENTION", "HEADLINES", "QUESTIONS", "Each", "Headline", "Key", "Question"]
