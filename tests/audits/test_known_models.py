"""Audits of models whose answer is known: every check must find it, through the whole run and its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

import heedful
from heedful.audits.result import Audit
from heedful.audits.summary import Row
from heedful.data import Example
from heedful.maths.stats import Decision
from heedful.methods import method
from heedful.model.classifier import Classifier
from tests.support import operating, stories, toys
from tests.support.parameters import mostly_thorough

pytestmark = pytest.mark.usefixtures("unchecked")

SMALL: dict[str, dict[str, Any]] = {
    "agreement": {"top": 1},
    "permutation": {"draws": 19, "layer_draws": 3, "head_draws": 0},
    "adversarial": {"steps": 20, "candidates": 2},
    "identifiability": {"starts": 0},
    "erasure": {"draws": 3, "orders": 5},
    "input-erasure": {"maskings": ["delete"], "points": 4, "greedy_words": 4, "exhaustive_words": 6},
    "infidelity": {"samples": 10},
    "sensitivity": {"limit": 1, "texts": 2},
    "randomisation": {"stages": 2, "texts": 5},
    "stability": {"seeds": 1, "texts": 5},
}
ON_ATTENTION = ("permutation", "uniform", "adversarial", "erasure", "plausibility", "complexity")
ON_LAYERS = ("permutation", "uniform", "adversarial", "identifiability", "erasure")
EVERYWHERE = {"layer": "all", "head": "all"}
TWO = ("bert", "bilstm")
N = 30


@dataclass(frozen=True)
class Another:
    """Random scores under another name."""

    def __call__(self, classifier: Any, tokens: Any, target: Any, rng: torch.Generator) -> heedful.Attribution:
        return heedful.Attribution(tokens=tokens, scores=torch.rand(len(tokens), generator=rng).numpy(), signed=False)


@cache
def built(architecture: str, toy: toys.Toy) -> Classifier:
    return toys.build(architecture, toy)


@cache
def texts() -> tuple[str, ...]:
    """No bag is balanced: a model that is undecided answers by rounding."""
    drawn = dict.fromkeys(toys.texts(2 * N, shortest=5, longest=8))
    return tuple(t for t in drawn if abs(np.mean([toys.bag_weight(w) for w in t.split()])) > 0.03)[:N]


def examples(classifier: Classifier) -> list[Example]:
    """Labelled with what the model says, and the marker marked."""
    said = classifier.predictions([classifier.tokens(t) for t in texts()])
    return [Example(t, label=p.label, rationale=(marked(t),)) for t, p in zip(texts(), said, strict=True)]


def marked(text: str) -> tuple[int, int]:
    words = text.split()
    start = len(" ".join(words[: toys.marker(words)])) + (toys.marker(words) > 0)
    return start, start + len(words[toys.marker(words)])


def audited(classifier: Classifier, names: Sequence[str], methods: Sequence[Any]) -> Audit:
    return heedful.audit(classifier, examples(classifier), methods, [heedful.check(n, SMALL.get(n)) for n in names])


@cache
def pointer(architecture: str) -> Audit:
    """Every check there is."""
    chosen = ["leave-one-out", method("integrated-gradients", {"steps": 8}), Another()]
    return audited(built(architecture, toys.POINTER), list(heedful.CHECKS), chosen)


@cache
def pointer_attention(architecture: str) -> Audit:
    """The checks of attention, which differ where there are layers and heads."""
    if architecture == "bilstm":
        return pointer(architecture)
    return audited(built(architecture, toys.POINTER), ON_LAYERS, ["attention-mean", "leave-one-out"])


@cache
def deaf(architecture: str) -> Audit:
    return audited(built(architecture, toys.DEAF), ON_ATTENTION, ["attention-mean"])


@cache
def bag(architecture: str) -> Audit:
    names = [
        "permutation",
        "uniform",
        "adversarial",
        "complexity",
        "agreement",
        "input-erasure",
        "sign",
        "completeness",
    ]
    return audited(built(architecture, toys.BAG_TOY), names, [method("integrated-gradients", {"steps": 8}), Another()])


def row(found: Audit, check: str, measure: str, named: str = "", at: Mapping[str, Any] | None = None) -> Any:
    """The one row of a summary."""
    (one,) = [r for r in found.rows(check, measure, named) if r.at == (at or {})]
    return one


def better(of: Row, decision: Decision) -> bool:
    """Whether a row is better than random, in this direction."""
    difference = of.versus_random
    return difference is not None and (difference.decision, difference.better) == (decision, True)


def means(found: Audit, check: str, measure: str) -> list[float]:
    return [r.mean for r in found.rows(check, measure)]


def confidences(classifier: Classifier) -> np.ndarray[Any, Any]:
    """The probability of the label that is predicted, for each text."""
    return np.array([max(p.probabilities or ()) for p in classifier.predictions(list(map(classifier.tokens, texts())))])


def lengths(classifier: Classifier) -> np.ndarray[Any, Any]:
    return np.array([len(classifier.tokens(t)) for t in texts()])


def words() -> np.ndarray[Any, Any]:
    return np.array([len(t.split()) for t in texts()])


one = pytest.mark.parametrize("architecture", ["bilstm"])
two = pytest.mark.parametrize("architecture", TWO)
two_if_thorough = pytest.mark.parametrize("architecture", mostly_thorough(TWO, ("bilstm",)))


# every run


@pytest.mark.parametrize(
    ("run", "architecture"),
    [
        *((pointer_attention, "bert"), (pointer, "bilstm"), (deaf, "bilstm"), (bag, "bilstm")),
        *mostly_thorough([(pointer, "bert"), (deaf, "bert")], ()),
    ],
)
def test_nothing_is_left_out_and_every_text_is_counted(run: Any, architecture: str) -> None:
    found = run(architecture)
    assert found.summary.left_out == ()
    assert found.summary.texts.n == N
    assert {r.n + r.missing for c in found.summary.checks.values() for r in c.rows} <= {N, 2, 5}


@two_if_thorough
def test_every_check_has_rows(architecture: str) -> None:
    found = pointer(architecture)
    assert [name for name in heedful.CHECKS if not found.rows(name)] == []


# deaf: attention is peaked and means nothing


@two_if_thorough
@pytest.mark.parametrize("measure", ["tvd", "jsd", "flip"])
@pytest.mark.parametrize("check", ["permutation", "uniform"])
def test_a_deaf_model_is_not_moved_at_all(check: str, measure: str, architecture: str) -> None:
    rows = [r for r in deaf(architecture).rows(check, measure) if "activation" not in r.at]
    assert {(r.n, r.mean, r.high) for r in rows if r.measure != "flip"} <= {(N, 0.0, 0.0)}
    assert {r.mean for r in rows} == {0.0}


@two_if_thorough
@pytest.mark.parametrize("check", ["permutation", "uniform"])
def test_a_deaf_model_is_as_often_right_as_before(check: str, architecture: str) -> None:
    found = deaf(architecture)
    assert row(found, check, "correct as it is").mean == 1
    assert set(means(found, check, "correct")) == {1.0}
    changes = [line["change"]["mean"] for line in found.summary.checks[check].tables["accuracy"][1:]]
    assert set(changes) == {0.0}


@two_if_thorough
def test_a_deaf_model_has_peaked_attention(architecture: str) -> None:
    assert row(deaf(architecture), "permutation", "max attention").mean > 0.999


@two_if_thorough
def test_erasing_attention_tells_a_deaf_model_nothing(architecture: str) -> None:
    found = deaf(architecture)
    assert max(map(abs, means(found, "erasure", "delta js"))) < 1e-12
    assert set(means(found, "erasure", "flip top")) == {0.0}
    assert set(means(found, "erasure", "never")) == {1.0}
    assert {r.n for r in found.rows("erasure", "fraction")} == {0}


@two_if_thorough
def test_a_deaf_model_has_a_twin_as_far_away_as_can_be(architecture: str) -> None:
    found = deaf(architecture)
    name = "exact" if architecture == "bilstm" else "witness"
    assert min(means(found, "adversarial", f"tvd {name}")) > 0.999
    assert set(means(found, "adversarial", f"change {name}")) == {0.0}


@two_if_thorough
def test_attention_of_a_deaf_model_pleases_people(architecture: str) -> None:
    """It marks the words that were marked, and is no explanation: plausible is not faithful."""
    assert row(deaf(architecture), "plausibility", "auprc", "attention-mean").mean == 1


# pointer: attention is the explanation


@two_if_thorough
def test_what_the_pointer_loses_without_its_marker_is_all_above_one_half(architecture: str) -> None:
    found = row(
        pointer(architecture), "input-erasure", "aopc comprehensiveness", "attention-mean", {"masking": "delete"}
    )
    assert found.mean == pytest.approx((confidences(built(architecture, toys.POINTER)) - 0.5).mean(), abs=1e-5)
    assert better(found, Decision.HIGHER)


@two_if_thorough
@pytest.mark.parametrize("measure", ["aopc comprehensiveness", "deletion"])
def test_attention_of_the_pointer_is_as_good_as_leave_one_out(measure: str, architecture: str) -> None:
    one, other = (
        row(pointer(architecture), "input-erasure", measure, name, {"masking": "delete"})
        for name in ("attention-mean", "leave-one-out")
    )
    assert one.mean == pytest.approx(other.mean, abs=1e-4)


@two_if_thorough
def test_the_marker_alone_suffices_the_pointer(architecture: str) -> None:
    found = row(pointer(architecture), "input-erasure", "aopc sufficiency", "attention-mean", {"masking": "delete"})
    assert found.mean == pytest.approx(0, abs=1e-4)
    assert better(found, Decision.LOWER)


@two_if_thorough
def test_no_order_is_better_than_the_pointers_attention_on_short_texts(architecture: str) -> None:
    """The optimum over all sets of words, where it was sought."""
    best = row(pointer(architecture), "input-erasure", "aopc comprehensiveness", "optimum", {"masking": "delete"})
    short = words() <= SMALL["input-erasure"]["exhaustive_words"]
    assert (best.n, best.missing) == (int(short.sum()), int((~short).sum()))
    assert best.mean == pytest.approx((confidences(built(architecture, toys.POINTER)) - 0.5)[short].mean(), abs=1e-4)


@two
def test_permuted_attention_points_elsewhere(architecture: str) -> None:
    """The median over draws: the marker keeps its weight in one draw of as many as there are tokens."""
    found = row(pointer_attention(architecture), "permutation", "tvd", "", EVERYWHERE)
    assert found.mean == pytest.approx((confidences(built(architecture, toys.POINTER)) - 0.5).mean(), abs=0.01)


@two
def test_uniform_attention_divides_the_pointers_logit_by_the_length(architecture: str) -> None:
    classifier = built(architecture, toys.POINTER)
    p = confidences(classifier)
    flat = 1 / (1 + ((1 - p) / p) ** (1 / lengths(classifier)))
    assert row(pointer_attention(architecture), "uniform", "tvd", "", EVERYWHERE).mean == pytest.approx(
        (p - flat).mean(), abs=5e-3
    )


@two
def test_attention_of_the_pointer_is_one_weight_from_uniform(architecture: str) -> None:
    found = pointer_attention(architecture).rows("uniform", "tvd to uniform")[-1]
    assert found.mean == pytest.approx((1 - 1 / lengths(built(architecture, toys.POINTER))).mean(), abs=1e-3)


def test_the_twin_of_the_pointer_is_as_far_as_epsilon_lets_it() -> None:
    """Weight taken from the marker takes as much of the logit, and p may fall by ε = .05: solved for the weight."""
    p = confidences(built("bilstm", toys.POINTER))
    taken = 1 - np.log((p - 0.05) / (1.05 - p)) / np.log(p / (1 - p))
    found = pointer("bilstm")
    assert row(found, "adversarial", "tvd exact").mean == pytest.approx(taken.mean(), abs=1e-4)
    assert row(found, "adversarial", "change exact").mean == pytest.approx(0.05, abs=1e-6)


def test_what_the_pointers_head_reads_has_no_twin() -> None:
    found = row(pointer_attention("bert"), "adversarial", "tvd witness", "", {"layer": 1, "head": 0, "delta": 0.0})
    assert found.mean < 1e-3


@two
def test_only_the_marker_has_a_value(architecture: str) -> None:
    """One vector that is not zero: all directions but one are null, and but two if weights add up to one."""
    n = lengths(built(architecture, toys.POINTER)).mean()
    for measure, less in (("null", 1), ("null constrained", 2)):
        last = pointer_attention(architecture).rows("identifiability", measure)[-1]
        assert last.mean == pytest.approx(n - less)


@two
@pytest.mark.parametrize("name", ["attention", "attention-mean", "leave-one-out"])
def test_erasing_the_marker_leaves_the_pointer_undecided(name: str, architecture: str) -> None:
    p = confidences(built(architecture, toys.POINTER))
    expected = np.mean([jensenshannon([one, 1 - one], [0.5, 0.5]) ** 2 for one in p])
    assert row(pointer_attention(architecture), "erasure", "delta js", name).mean == pytest.approx(expected, abs=1e-4)


@two_if_thorough
def test_attention_and_leave_one_out_agree_on_the_pointers_first_word(architecture: str) -> None:
    found = row(pointer(architecture), "agreement", "top-k overlap", "attention-mean", {"with": "leave-one-out"})
    assert (found.n, found.mean) == (N, 1.0)


@two_if_thorough
def test_leave_one_out_has_the_sign_of_its_effects(architecture: str) -> None:
    found = pointer(architecture)
    assert row(found, "sign", "violation", "leave-one-out").mean == 0
    assert row(found, "sign", "agreement of signs", "leave-one-out").mean == 1


@two_if_thorough
def test_the_pointers_effects_add_up(architecture: str) -> None:
    """Only the marker has an effect, so that of a set is the marker's or nothing."""
    found = pointer(architecture)
    assert row(found, "infidelity", "infidelity", "leave-one-out").mean < 1e-3
    assert row(found, "infidelity", "correlation", "leave-one-out").mean == pytest.approx(1, abs=1e-3)


@two_if_thorough
def test_one_word_explains_the_pointer(architecture: str) -> None:
    found = pointer(architecture)
    for name in ("attention-mean", "leave-one-out", "integrated-gradients"):
        assert row(found, "complexity", "effective words", name).mean == pytest.approx(1, abs=0.05)
        assert row(found, "plausibility", "auprc", name).mean == 1
        assert row(found, "plausibility", "token f1", name).mean == 1


@two_if_thorough
def test_marked_words_are_counted(architecture: str) -> None:
    share = pointer(architecture).rows("plausibility", "rationale share")[0]
    assert share.mean == pytest.approx((1 / words()).mean())


@two_if_thorough
def test_what_draws_nothing_is_the_same_with_another_seed(architecture: str) -> None:
    found = pointer(architecture)
    for name in ("attention-mean", "leave-one-out", "integrated-gradients", "position"):
        assert row(found, "stability", "tau", name, {"with": "seed"}).mean == pytest.approx(1)
        assert row(found, "stability", "distance", name, {"with": "seed"}).mean == pytest.approx(0, abs=1e-6)
    assert abs(row(found, "stability", "tau", "Another", {"with": "seed"}).mean) < 0.5


@two_if_thorough
def test_what_looks_at_no_model_stays_when_its_weights_go(architecture: str) -> None:
    found = pointer(architecture)
    assert set(np.round(means_of(found, "randomisation", "tau", "position"), 9)) == {1.0}
    assert set(means_of(found, "randomisation", "jsd", "uniform")) == {0.0}
    assert row(found, "randomisation", "similarity of fully random", "position").mean == pytest.approx(1)
    assert min(means(found, "randomisation", "output change")) > 0.1


def means_of(found: Audit, check: str, measure: str, name: str) -> list[float]:
    return [r.mean for r in found.rows(check, measure, name)]


@two_if_thorough
def test_reading_attention_takes_one_pass_and_a_control_none(architecture: str) -> None:
    found = pointer(architecture)
    assert row(found, "cost", "forwards", "attention-mean").mean == 1
    assert row(found, "cost", "forwards", "random").mean == 0


# bag: attention is constant and claims nothing


@one
@pytest.mark.parametrize("measure", ["tau", "spearman", "top-k overlap"])
def test_constant_attention_has_no_order_and_that_is_counted(measure: str, architecture: str) -> None:
    rows = [r for r in bag(architecture).rows("agreement", measure) if "attention-mean" in (r.method, r.at["with"])]
    assert len(rows) == 7
    assert {(r.n, r.missing, r.known) for r in rows} == {(0, N, False)}


@one
def test_constant_attention_is_missing_in_the_table_too(architecture: str) -> None:
    pairs = bag(architecture).summary.checks["agreement"].tables["pairs"]
    cells = [pair["all"] for pair in pairs if "attention-mean" in (pair["method"], pair["other"])]
    assert {(cell["n"], cell["missing"], cell["mean"]) for cell in cells} == {(0, N, None)}


@one
def test_uniform_attention_changes_nothing_where_it_is_uniform(architecture: str) -> None:
    found = bag(architecture)
    changed = [r for r in found.rows("uniform", "tvd") if "activation" not in r.at]
    assert {r.mean for r in changed} == {0.0}
    assert max(means(found, "uniform", "tvd to uniform")) < 1e-6
    assert set(means(found, "permutation", "tvd")) == {0.0}


@one
def test_constant_attention_rests_on_all_words(architecture: str) -> None:
    found = bag(architecture)
    assert row(found, "complexity", "effective words", "attention-mean").mean == pytest.approx(words().mean())
    assert row(found, "complexity", "gini", "attention-mean").mean == pytest.approx(0, abs=1e-6)


def test_the_twin_of_constant_attention_is_one_weight() -> None:
    n = lengths(built("bilstm", toys.BAG_TOY))
    assert row(bag("bilstm"), "adversarial", "tvd exact").mean == pytest.approx((1 - 1 / n).mean(), abs=1e-6)


@one
def test_words_of_the_bag_have_the_effects_that_leave_one_out_says(architecture: str) -> None:
    found = bag(architecture)
    assert row(found, "sign", "violation", "leave-one-out").mean == 0
    assert row(found, "sign", "agreement of signs", "leave-one-out").mean == 1
    erased = row(found, "input-erasure", "aopc comprehensiveness", "leave-one-out", {"masking": "delete"})
    assert better(erased, Decision.HIGHER)


@one
def test_integrated_gradients_of_the_bag_are_complete(architecture: str) -> None:
    found = bag(architecture)
    assert row(found, "completeness", "gap", "integrated-gradients").mean < 1e-6
    assert row(found, "completeness", "relative gap", "integrated-gradients").high < 1e-4


@one
@pytest.mark.parametrize("measure", ["aopc comprehensiveness", "aopc sufficiency", "tvd", "deletion", "never"])
def test_attention_that_claims_nothing_cannot_be_told_from_random(measure: str, architecture: str) -> None:
    rows = bag(architecture).rows("input-erasure", measure, "attention-mean")
    assert {r.versus_random.decision for r in rows if r.versus_random} == {Decision.NOT_SIGNIFICANT}


# chance


@pytest.mark.parametrize(
    ("run", "architecture"), [(pointer, "bilstm"), (bag, "bilstm"), *mostly_thorough([(pointer, "bert")], ())]
)
def test_another_random_method_cannot_be_told_from_random(run: Any, architecture: str) -> None:
    found = run(architecture)
    rows = [r for check in CONTROLLED if check in found.summary.checks for r in found.rows(check, None, "Another")]
    decisions = {
        (r.measure, str(r.at)): r.versus_random.decision for r in rows if r.versus_random and r.versus_random.n >= 30
    }
    assert len(decisions) > 20
    assert {key: one for key, one in decisions.items() if one != Decision.NOT_SIGNIFICANT} == {}


CONTROLLED = ("input-erasure", "sign", "infidelity", "plausibility")


# mix: a dial


@two_if_thorough
def test_the_less_attention_is_heard_the_less_its_permutation_matters(architecture: str) -> None:
    check = heedful.check("permutation", {"draws": 5, "layer_draws": 0, "head_draws": 0})
    found = []
    for c in (0.0, 0.3, 0.6, 1.0):
        classifier = built(architecture, toys.mix(c))
        run = heedful.audit(classifier, examples(classifier), ["attention-mean"], [check], limit=16)
        found.append(row(run, "permutation", "tvd", "", EVERYWHERE))
    assert (np.diff([r.mean for r in found]) < 0).all()
    assert found[-1].mean < 1e-3  # what is not read still has a share in the norm of what is


# profiles: the smaller one asks the same questions of the same numbers


@pytest.mark.thorough
def test_the_profile_verdict_decides_as_standard_does() -> None:
    classifier = built("bilstm", toys.mix(0.5))
    methods = ["attention-mean", "integrated-gradients", "leave-one-out"]
    checks = ("agreement", "permutation", "input-erasure", "complexity", "cost")
    small, large = (
        heedful.audit(classifier, examples(classifier), methods, checks, profile=profile).summary
        for profile in ("verdict", "standard")
    )
    for one, other in zip(small.verdicts.values(), large.verdicts.values(), strict=True):
        assert one.word == other.word
        for a, b in zip(one.answers, other.answers, strict=True):
            assert (a.says, a.n) == (b.says, b.n)
            assert (a.attention, a.chance, a.reference) == pytest.approx((b.attention, b.chance, b.reference), abs=1e-6)
    first, second = ({row.method: row.rank for row in s.rankings[0].methods} for s in (small, large))
    assert first == second


# pairs: attention is over the first text, and right about it; the second text decides too


@cache
def pair(c: float) -> Audit:
    """A share c of the output is decided by the second text."""
    checks = [heedful.check(name, SMALL.get(name)) for name in ("agreement", "complexity")]
    data = [Example(*texts) for texts in toys.pairs(N)]
    return heedful.audit(built("pair", toys.mix(c)), data, ["attention-mean", "leave-one-out"], checks)


@pytest.mark.parametrize("c", [0.0, 0.8])
def test_words_of_the_second_text_take_no_part_in_where_attention_points(c: float) -> None:
    assert row(pair(c), "agreement", "pointing", "attention-mean").mean == pytest.approx(1, abs=1e-6)
    for name in ("random", "uniform", "position"):
        one, other = (row(pair(share), "agreement", "pointing", name).mean for share in (0.0, c))
        assert one == pytest.approx(other, abs=1e-3)


@pytest.mark.parametrize("c", [0.0, 0.8])
def test_the_share_of_words_that_attention_can_point_at_is_that_of_the_first_text(c: float) -> None:
    firsts = [len(first.split()) / len(f"{first} {second}".split()) for first, second in toys.pairs(N)]
    assert row(pair(c), "agreement", "attended words").mean == pytest.approx(np.mean(firsts))


def test_attention_on_one_word_is_far_from_uniform_over_the_words_that_it_can_point_at() -> None:
    expected = np.mean([1 - 1 / len(first.split()) for first, _ in toys.pairs(N)])
    assert row(pair(0.8), "complexity", "from uniform", "attention-mean").mean == pytest.approx(expected, abs=1e-3)


# a reader of stories: its answer is a word of the story, which attention points at


@cache
def read() -> Audit:
    needed = ("agreement", "permutation", "input-erasure", "complexity")
    checks = [heedful.check(name, operating.SMALL.get(name)) for name in needed]
    methods = ["attention-mean", "integrated-gradients", "leave-one-out"]
    return heedful.audit(stories.reader(), stories.stories(N), methods, checks)


@pytest.mark.thorough
def test_the_reader_answers_every_question() -> None:
    assert row(read(), "permutation", "correct as it is").mean == 1


def test_without_the_answer_the_reader_says_another_place() -> None:
    """The story without the place of the answer, if it is named once: the logit is finite, and the label changes."""
    told = [story for story in stories.stories(N) if story.text.count(str(story.label)) == 1]
    assert len(told) > 10
    for story in told:
        why = heedful.explain(stories.reader(), story.text, "leave-one-out", pair=story.pair)
        assert isinstance(why, heedful.Attribution)
        effect = dict(zip(why.tokens.pieces, why.scores, strict=True))[str(story.label)]
        assert effect == pytest.approx(stories.LOGIT, abs=0.1)
        assert np.abs(why.scores).max() <= stories.LOGIT


def test_attention_explains_what_the_reader_reads_and_not_what_it_is_asked() -> None:
    found = read().verdict
    assert (found.word, [answer.says for answer in found.answers]) == ("explanation", ["for", "for", "for"])
    (partial,) = [caveat for caveat in found.qualifiers if caveat.kind == "partial"]
    assert partial.holds
    assert partial.estimate.mean == pytest.approx(18 / 22)  # three sentences of six words, four words of the question


def test_the_readers_attention_agrees_with_leave_one_out_on_what_it_can_point_at() -> None:
    """Attention has the place; leave-one-out also who went there, and whoever went elsewhere after that."""
    found = read()
    assert row(found, "agreement", "pointing", "attention-mean").mean > 0.8
    assert row(found, "agreement", "pointing", "random").mean < 0.3
    assert row(found, "agreement", "tau", "attention-mean", {"with": "leave-one-out"}).mean > 0.3
