"""Pick: a few texts that together show what matters to a model (SP-LIME), from explanations by any method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Explanation, Explanations
from heedful.maths.coverage import coverage, greedy_cover, importance

MAX_NEW_WORDS = 5  # named for each pick
Word = tuple[int | None, str]  # the segment, and the word without its case


def pick(explanations: Iterable[Explanation], count: int = 5, words: int | None = 10) -> Explanations:
    """The `count` explanations whose words together matter most: the submodular pick of Ribeiro et al. 2016.

    The explanations are of several texts by one method that scores words. A word matters by the root of the sum of its
    |scores| over all texts; each pick is the text that adds most to the importance of the words covered so far, the
    first among equals. Of each text only the `words` strongest count, as LIME's explanations have K words; None takes
    all. Words are compared without their case, and occurrences in a text are added up. The details of a picked
    explanation have its `coverage`, the share of all importance that it and the picks before it cover, and `new_words`,
    the most important words that it adds. There are fewer picks where no further text adds a word.
    """
    for name, value in (("count", count), ("words", words)):
        if value is not None and value < 1:
            raise BadInput(f"{name} is {value}; give at least 1.")
    attributions = [_attribution(why) for why in explanations]
    if not attributions:
        raise BadInput("there is no explanation to pick from; give at least one.")
    if len(methods := dict.fromkeys(why.method for why in attributions)) > 1:
        raise BadInput(f"the explanations are by {', '.join(methods)}; give those of one method, see by_method.")
    rows = [strengths(why, words) for why in attributions]
    picks, values = greedy_cover(rows, count), importance(rows)
    if not picks:
        raise BadInput("every word of these texts scores 0, so no text shows more than another; use another method.")
    whole = coverage(rows, range(len(rows)))
    picked: list[Attribution] = []
    for n, i in enumerate(picks):
        known = {word for earlier in picks[:n] for word in rows[earlier]}
        new = sorted((word for word in rows[i] if word not in known), key=lambda word: -values[word])
        details = {
            "coverage": coverage(rows, picks[: n + 1]) / whole,
            "new_words": [word for _, word in new[:MAX_NEW_WORDS]],
        }
        picked.append(replace(attributions[i], details=details | dict(attributions[i].details)))
    return Explanations(picked)


def strengths(why: Attribution, words: int | None = None) -> dict[Word, float]:
    """|score| of each word of a text, occurrences added up, the strongest first; at most `words` of them, none of 0."""
    view = why.by("word")
    scores: dict[Word, float] = {}
    for i in view.tokens.content:
        word = view.tokens.segments[i], view.tokens.surface(i).casefold()
        scores[word] = scores.get(word, 0.0) + float(view.scores[i])
    order = sorted((word for word in scores if scores[word] != 0), key=lambda word: -abs(scores[word]))
    return {word: abs(scores[word]) for word in order[:words]}


def _attribution(why: Explanation) -> Attribution:
    if not isinstance(why, Attribution):
        name = getattr(why, "method", "") or type(why).__name__
        raise BadInput(f"{name} has no score for each word; give explanations by one method that scores words.")
    return why
