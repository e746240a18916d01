"""The verdict: on numbers made by hand, and on models whose answer is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import t as student

from heedful.audits.limits import FixedLimits, one_sided
from heedful.audits.verdict import Evidence, Reason, Rule, Trio, Verdict, evidence_of, merge, verdict
from heedful.core.finding import Findings
from tests.support import operating, toys
from tests.support.parameters import mostly_thorough

POOL = 16
METHODS = ("attention-mean", "integrated-gradients")
ANSWERS = ((toys.POINTER, "explanation"), (toys.DEAF, "not explanation"), (toys.BAG_TOY, "undecided"))
RANK = {"explanation": 2, "not not explanation": 1, "undecided": 1, "not explanation": 0}


def numbers(
    shares: Mapping[str, float], n: int = 60, noise: float = 0.01, lead: float = 0.5, seed: int = 0
) -> Evidence:
    """Evidence in which attention has these shares of the reference's lead over chance."""
    rng = np.random.default_rng(seed)

    def trio(question: str) -> Trio:
        r = np.zeros(n) if question == "Q3" else rng.uniform(0.1, 0.2, n)
        s = r + lead + noise * rng.normal(size=n)
        return Trio(r + shares[question] * lead + noise * rng.normal(size=n), r, s)

    return Evidence(trio("Q1"), trio("Q2"), trio("Q3"), from_uniform=np.full(n, 0.5))


def shares(q1: float, q2: float, q3: float) -> dict[str, float]:
    return {"Q1": q1, "Q2": q2, "Q3": q3}


def says(found: Verdict) -> list[str]:
    return [answer.says for answer in found.answers]


# the rule


@pytest.mark.parametrize(
    ("given_shares", "word", "answers"),
    [
        (shares(0.9, 0.8, 0.7), "explanation", ["for", "for", "for"]),
        (shares(0.9, 0.3, 0.7), "not not explanation", ["for", "undecided", "for"]),
        (shares(0.9, 0.0, 0.0), "not not explanation", ["for", "against", "against"]),
        (shares(0.4, 0.3, 0.35), "not not explanation", ["undecided"] * 3),
        (shares(0.0, 0.1, 0.05), "not explanation", ["against"] * 3),
        (shares(0.3, 0.3, 0.0), "not explanation", ["undecided", "undecided", "against"]),
        (shares(0.0, 0.0, 0.3), "not explanation", ["against", "against", "undecided"]),
        (shares(0.0, 0.3, 0.3), "undecided", ["against", "undecided", "undecided"]),
    ],
)
def test_the_word_follows_from_the_answers(given_shares: Mapping[str, float], word: str, answers: list[str]) -> None:
    found = verdict(numbers(given_shares))
    assert (found.word, says(found)) == (word, answers)


def test_a_share_is_of_the_references_lead_over_chance() -> None:
    found = verdict(numbers(shares(0.9, 0.3, 0.6), noise=0.0))
    assert [answer.share for answer in found.answers] == pytest.approx([0.9, 0.3, 0.6])


@given(st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=15)
def test_more_of_the_same_is_never_worse(seed: int, low: float, more: float) -> None:
    weak = numbers(dict.fromkeys(("Q1", "Q2", "Q3"), low), noise=0.1, seed=seed)
    points, matters, used = (
        replace(trio, attention=np.asarray(trio.attention) + more) for trio in (weak.points, weak.matters, weak.used)
    )
    strong = replace(weak, points=points, matters=matters, used=used)
    assert RANK[verdict(strong).word] >= RANK[verdict(weak).word]


@given(st.integers(0, 1000), st.floats(-0.5, 1.5), st.sampled_from([0.01, 0.1, 0.3]))
@settings(max_examples=20)
def test_the_limits_of_a_share_say_what_the_rule_says(seed: int, share: float, noise: float) -> None:
    for answer in verdict(numbers(dict.fromkeys(("Q1", "Q2", "Q3"), share), noise=noise, seed=seed)).answers:
        assert (answer.says == "for") == (answer.low > 0.5)
        assert (answer.says == "against") == (answer.high < 0.2)
        assert answer.low <= answer.share <= answer.high


def test_limits_of_a_share_are_fiellers() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.4, 0.2, 400), rng.normal(1.0, 0.3, 400)
    q = student.ppf(0.98, 399) ** 2 / 400
    a, b, c = (
        y.mean() ** 2 - q * y.var(ddof=1),
        x.mean() * y.mean() - q * np.cov(x, y)[0, 1],
        x.mean() ** 2 - q * x.var(ddof=1),
    )
    reach = np.sqrt(b**2 - a * c)
    limits = FixedLimits(x, np.zeros(400), y, 0.98)
    assert limits.shares() == pytest.approx(((b - reach) / a, (b + reach) / a), abs=2e-3)


@pytest.mark.parametrize("seed", mostly_thorough(range(3), (0,)))
def test_limits_of_a_share_are_where_a_grid_finds_them(seed: int) -> None:
    """Skewed numbers of few texts: the limit of the mean crosses zero once, and there."""
    rng = np.random.default_rng(seed)
    lead = rng.gamma(0.5, 0.6, 30)
    ahead = 0.4 * lead + rng.gamma(0.3, 0.2, 30) - 0.05
    grid = np.linspace(-16, 16, 2001)
    for side, found in enumerate(FixedLimits(ahead, np.zeros(30), lead, 0.983).shares()):
        above = np.array([one_sided(ahead - t * lead, 0.983)[side] > 0 for t in grid])
        (last,) = np.flatnonzero(np.diff(above.astype(int)))
        assert grid[last] <= found <= grid[last + 1]


def test_limits_are_one_sided() -> None:
    values = np.random.default_rng(0).normal(1, 2, 100_000)
    low, high = one_sided(values, 0.983)
    reach = norm.ppf(0.983) * values.std() / np.sqrt(len(values))
    assert (low, high) == pytest.approx((values.mean() - reach, values.mean() + reach), rel=1e-3)


def test_all_three_answers_are_right_together_at_95_per_cent() -> None:
    assert 3 * (1 - Rule().level) == pytest.approx(0.05)


def test_a_question_at_its_line_is_answered_for_in_at_most_one_in_sixty() -> None:
    """Attention with exactly half of the lead: every "for" is an error."""
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        lead = rng.uniform(0, 1, 60)
        trio = Trio(lead * rng.integers(0, 2, 60), np.zeros(60), lead)
        wrong += verdict(Evidence(points=trio)).answers[0].says == "for"
    assert wrong <= 200 / 60 + 3 * np.sqrt(200 / 60)


def test_a_share_between_the_lines_is_said_to_be_there() -> None:
    found = verdict(numbers(shares(0.35, 0.9, 0.9)))
    assert (found.answers[0].says, found.answers[0].reason) == ("undecided", Reason.BETWEEN)


# what is not decided


def test_below_thirty_texts_nothing_is_decided() -> None:
    found = verdict(numbers(shares(1, 1, 1), n=29))
    assert (found.word, found.reason) == ("undecided", Reason.TOO_FEW)


def test_constant_attention_claims_nothing() -> None:
    found = verdict(replace(numbers(shares(0, 0, 0)), from_uniform=np.full(60, 0.049)))
    assert (found.word, found.reason) == ("undecided", Reason.CONSTANT)


def test_a_reference_without_a_lead_decides_nothing() -> None:
    found = verdict(numbers(shares(1, 1, 1), lead=0.0, noise=0.1))
    assert found.word == "undecided"
    assert {answer.reason for answer in found.answers} == {Reason.NO_LEAD}


def test_a_question_that_was_not_asked_leaves_it_open() -> None:
    given = numbers(shares(1, 1, 1))
    found = verdict(replace(given, used=replace(given.used, attention=None)))
    assert (found.word, found.reason) == ("undecided", Reason.QUESTIONS_MISSING)
    assert (found.answers[2].reason, found.answers[2].missing) == (Reason.NUMBERS_MISSING, ("attention",))


def test_a_model_without_attention_is_not_judged() -> None:
    given = numbers(shares(1, 1, 1))
    nothing = np.full(60, np.nan)
    points, matters, used = (replace(trio, attention=nothing) for trio in (given.points, given.matters, given.used))
    found = verdict(replace(given, points=points, matters=matters, used=used))
    assert (found.word, found.reason) == ("undecided", Reason.UNREADABLE)
    assert {answer.missing for answer in found.answers} == {("attention",)}
    assert verdict(Evidence()).reason == Reason.QUESTIONS_MISSING


def test_attention_that_was_not_compared_with_uniform_is_not_judged() -> None:
    found = verdict(replace(numbers(shares(0, 0, 0)), from_uniform=None))
    assert (found.word, found.reason) == ("undecided", Reason.UNIFORMITY_UNKNOWN)


def test_texts_that_lack_a_number_take_no_part() -> None:
    given = numbers(shares(0.9, 0.8, 0.7))
    assert given.points.reference is not None
    given.points.reference[:20] = np.nan
    assert [answer.n for answer in verdict(given).answers] == [40, 60, 60]


def test_nothing_at_all() -> None:
    assert verdict(Evidence()).word == "undecided"


# what qualifies


def test_distant_attention_with_the_same_answer_qualifies_and_does_not_decide() -> None:
    given = numbers(shares(0.9, 0.8, 0.7))
    qualified = verdict(replace(given, elsewhere=np.full(60, 0.9)))
    assert qualified.word == verdict(given).word
    assert [(q.kind, q.holds) for q in qualified.qualifiers] == [("elsewhere", True)]


def test_attention_that_moves_is_unstable() -> None:
    found = verdict(replace(numbers(shares(1, 1, 1)), steady=np.full(60, 0.2), unidentified=np.zeros(60)))
    assert {q.kind: q.holds for q in found.qualifiers} == {"unidentified": False, "unsteady": True}


def test_other_checkpoints_say_more_of_stability_than_other_commas() -> None:
    found = verdict(Evidence(steady=np.full(60, 0.9), trainings=np.full(60, 0.1)))
    assert [(q.kind, q.holds, round(q.estimate.mean, 9)) for q in found.qualifiers] == [
        ("unsteady trainings", True, 0.1)
    ]


@pytest.mark.parametrize(("share", "holds"), [(0.6, True), (1.0, False)])
def test_attention_over_a_part_of_the_input_qualifies(share: float, holds: bool) -> None:
    found = verdict(replace(numbers(shares(1, 1, 1)), seen=np.full(60, share)))
    assert (found.word, [(q.kind, q.holds) for q in found.qualifiers]) == ("explanation", [("partial", holds)])


def test_a_stricter_number_of_texts_holds_for_qualifiers_too() -> None:
    assert [q.holds for q in verdict(Evidence(elsewhere=np.full(60, 0.9)), Rule(texts=100)).qualifiers] == [False]


def test_few_texts_qualify_nothing() -> None:
    assert [q.holds for q in verdict(Evidence(elsewhere=np.full(20, 0.9))).qualifiers] == [False]


def test_evidence_of_several_checks_is_merged() -> None:
    one = Evidence(used=Trio(attention=np.ones(2)), steady=np.zeros(2))
    both = merge(one, Evidence(used=Trio(reference=np.full(2, 3.0))))
    assert [x if x is None else x.tolist() for x in (both.used.attention, both.used.chance, both.used.reference)] == [
        [1, 1], None, [3, 3]
    ]  # fmt: skip
    assert both.steady is one.steady


# from findings


def found(groups: Mapping[tuple[str, str, str], Any]) -> Findings:
    values = {key: np.asarray(row, dtype=float) for key, row in groups.items()}
    n = len(next(iter(values.values())))
    return Findings(values, {key: np.ones(n, bool) for key in values}, {"number": np.arange(n)}, ("no", "yes"))


def test_another_masking_serves_where_nothing_was_deleted() -> None:
    given = evidence_of("matters", found({("", "tvd without words", '{"masking":"mask"}'): [0.3, 0.4]}), *METHODS)
    assert given.used.reference is not None
    assert given.used.reference.tolist() == [0.3, 0.4]


def test_the_last_layers_heads_are_asked_whether_they_are_identifiable() -> None:
    groups = {
        ("", "null constrained", '{"head":0,"layer":0}'): [5, 5],
        ("", "null constrained", '{"head":0,"layer":1}'): [0, 3],
        ("", "null constrained", '{"head":1,"layer":1}'): [0, 0],
    }
    unidentified = evidence_of("identifiable", found(groups), *METHODS).unidentified
    assert unidentified is not None
    assert unidentified.tolist() == [0, 0.5]


def test_seeds_are_no_checkpoints() -> None:
    groups = {
        ("attention-mean", "tau", f'{{"with":"{name}"}}'): [x, x] for name, x in (("seed", 1), ("b", 0.2), ("c", 0.4))
    }
    assert evidence_of("trainings", found(groups), *METHODS).trainings == pytest.approx([0.3, 0.3])


# models whose answer is known


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("n", [40, 200])
@pytest.mark.parametrize(
    ("toy", "word"),
    ANSWERS,
    ids=["pointer", "deaf", "bag"],
)
def test_known_models_get_their_verdict_every_time(toy: toys.Toy, word: str, n: int) -> None:
    assert operating.frequencies("bilstm", toy, POOL, n) == {word: operating.SEEDS}


@pytest.mark.usefixtures("unchecked")
def test_the_bag_is_undecided_for_its_reason() -> None:
    reasons = {v.reason for v in operating.drawn("bilstm", toys.BAG_TOY, POOL, 40)}
    assert reasons == {Reason.CONSTANT}


@pytest.mark.parametrize("toy", [toys.POINTER, toys.DEAF, toys.BAG_TOY], ids=["pointer", "deaf", "bag"])
def test_five_texts_never_decide(toy: toys.Toy) -> None:
    assert operating.frequencies("bilstm", toy, POOL, 5) == {"undecided": operating.SEEDS}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("architecture", "toy", "word"),
    mostly_thorough(
        [(architecture, *answer) for architecture in ("bert", "gpt2") for answer in ANSWERS], [("bert", *ANSWERS[0])]
    ),
)
def test_known_models_in_other_architectures(architecture: str, toy: toys.Toy, word: str) -> None:
    assert operating.frequencies(architecture, toy, POOL // 2, 40) == {word: operating.SEEDS}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("c", [0.0, 0.5])
def test_attention_over_the_first_text_explains_what_the_first_text_decides(c: float) -> None:
    """Also where the second text decides as much: a caveat says that attention does not see it."""
    found = operating.drawn("pair", toys.mix(c), POOL, 40)
    assert {v.word for v in found} == {"explanation"}
    assert {q.holds for v in found for q in v.qualifiers if q.kind == "partial"} == {True}


@pytest.mark.usefixtures("unchecked")
def test_attention_over_a_text_that_decides_nothing_is_not_used() -> None:
    """No word that it can point at has an effect, so that Q1 and Q2 have no answer."""
    for found in operating.drawn("pair", toys.DEAF, POOL, 40):
        assert (found.word, says(found)) == ("undecided", ["undecided", "undecided", "against"])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dial", [operating.DIAL[::5], pytest.param(operating.DIAL, marks=pytest.mark.thorough)])
def test_the_dial_moves_one_way(dial: tuple[float, ...]) -> None:
    """Fewer and fewer audits find an explanation, the more the bag has to say."""
    audits = [operating.drawn("bilstm", toys.mix(c), POOL, 40) for c in dial]
    places = [sum(RANK[found.word] for found in some) for some in audits]
    assert places == sorted(places, reverse=True)
    assert (places[0], places[-1]) == (2 * operating.SEEDS, 0)


@pytest.mark.thorough
@pytest.mark.usefixtures("unchecked")
def test_the_operating_table_has_a_line_for_each_model(printed_at_end: list[str]) -> None:
    """It is printed when all tests are done, to be compared with docs/verdict.md."""
    lines = operating.table("bilstm", POOL, operating.named())
    printed_at_end += [" / ".join(operating.WORDS) + f", of {operating.SEEDS} audits", *lines]
    assert len(lines) == 2 + len(operating.named())
