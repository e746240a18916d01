"""The texts that a report shows, and the words that count most over all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import kendalltau

import heedful
from heedful.audits.manifest import Manifest
from heedful.audits.record import Record, TextRow, load_record
from heedful.audits.run import CHUNK_TEXTS, open_run
from heedful.audits.summary import About, CheckSummary, Row, Summary, TextFacts
from heedful.checks import CHECKS
from heedful.core.explanation import Attribution
from heedful.core.finding import Finding
from heedful.data import Example
from heedful.maths import stats
from heedful.methods import method
from heedful.report.coloured_text import CUT, MAX_WORDS_SHOWN, PAIR_SIGN, canvas, preferred, read_text_row
from heedful.report.document import ColouredWord, Shown
from heedful.report.examples import MAX_EXAMPLES, example_section, keeps
from heedful.report.words import in_text, ranked, word_section
from tests.support import toys

HOSTILE = ("<script>alert(1)</script>", '"&amp;" & \\textbf{x}', "👩‍👧 | `code`", "../../etc/passwd", "x" * 300)
DELETED: dict[str, Any] = {"masking": "delete", "share": 0.2}
EVERYWHERE: dict[str, Any] = {"layer": "all", "head": "all"}


# runs: of a model, and by hand


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Every third label is wrong, and one text is there three times."""
    classifier = toys.build("bilstm", toys.mix(0.5))
    drawn = toys.texts(16, shortest=4, longest=7)
    texts = [*dict.fromkeys(drawn), drawn[0], drawn[0]]
    said = [p.label for p in classifier.predictions([classifier.tokens(t) for t in texts])]
    other = dict(zip(classifier.labels, reversed(classifier.labels), strict=True))
    gold = [other[name] if i % 3 == 0 else name for i, name in enumerate(said)]
    checks: list[Any] = [
        "agreement",
        heedful.check("permutation", {"draws": 5, "layer_draws": 0, "head_draws": 0}),
        heedful.check("adversarial", {"steps": 5, "candidates": 2}),
        heedful.check("input-erasure", {"maskings": ["delete"], "points": 4, "greedy_words": 0, "exhaustive_words": 0}),
    ]
    methods: list[Any] = ["attention-mean", "leave-one-out", method("integrated-gradients", {"steps": 4})]
    out = tmp_path_factory.mktemp("run")
    heedful.audit(classifier, [Example(t, label=g) for t, g in zip(texts, gold, strict=True)], methods, checks, out=out)
    return load_record(out)


def row(number: int, text: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A text of a run by hand, each word of it a piece, with scores 1, 2, 3 … unless others are given."""
    spans = [m.span() for m in re.finditer(r"\S+", text)]
    rising = [float(i + 1) for i in range(len(spans))]
    made = {
        "number": number,
        "index": number,
        "text": text,
        "pair": None,
        "label": None,
        "predicted": "no",
        "probabilities": [0.9, 0.1],
        "pieces": [text[a:b] for a, b in spans],
        "starts": [a for a, _ in spans],
        "ends": [b for _, b in spans],
        "segments": [0] * len(spans),
        "scores": [
            {"method": "attention-mean", "scores": rising, "signed": False},
            {"method": "leave-one-out", "scores": [-x for x in rising], "signed": True},
        ],
    }
    return made | dict(given or {})


@pytest.fixture
def by_hand(tmp_path: Path) -> Callable[..., Record]:
    def made(
        texts: Sequence[Mapping[str, Any]],
        findings: Sequence[tuple[int, Finding]] = (),
        labels: Sequence[str] = ("no", "yes"),
        target: str | int | None = None,
    ) -> Record:
        methods = dict.fromkeys(told["method"] for one in texts for told in one["scores"])
        settings = {"methods": {name: {} for name in methods}, "checks": {}, "target": {"label": target}}
        model = {"name": "m", "fingerprint": "f", "labels": list(labels)}
        run = open_run(tmp_path / "run", Manifest(model, {"name": "d", "texts": len(texts)}, settings, 0, {}))
        for c in range(-(-len(texts) // CHUNK_TEXTS)):
            some = texts[c * CHUNK_TEXTS : (c + 1) * CHUNK_TEXTS]
            run.write(c, [(n, f) for n, f in findings if n // CHUNK_TEXTS == c], some, {})
        nothing = stats.estimate(np.zeros(0))
        row = Row(**vars(nothing), measure="m")
        checks = {f.check: CheckSummary(About(roles=CHECKS[f.check].roles), (row,)) for _, f in findings}
        run.finish(Summary(TextFacts(len(texts), {}, None, None, nothing), checks).to_dict(), {})
        return load_record(tmp_path / "run")

    return made


def titled(record: Record, words: str) -> list[Shown]:
    return [one for one in example_section(record).examples if words in one.title]


def joined(coloured: Sequence[ColouredWord]) -> str:
    return "".join(word.space + word.text for word in coloured).strip()


# a text, read and shown


def test_a_words_score_is_the_sum_that_an_explanation_has() -> None:
    text, pieces = "unbelievable fun!", ("[CLS]", "un", "believ", "able", "fun", "!", "[SEP]")
    spans = (None, (0, 2), (2, 8), (8, 12), (13, 16), (16, 17), None)
    whole = heedful.Tokens(
        text, None, (0,) * 7, pieces, spans, (None, 0, 0, 0, 1, 2, None), (None, 0, 0, 0, 0, 0, None)
    )
    scores = np.array([9.0, 0.1, -0.7, 0.3, 2.0, -1.0, 4.0])
    expected = Attribution(tokens=whole, scores=scores).by("word")
    starts, ends = zip(*(span or (-1, -1) for span in spans), strict=True)
    given = {"pieces": list(pieces), "starts": starts, "ends": ends, "segments": [-1, 0, 0, 0, 0, 0, -1]}
    one = read_text_row(TextRow.of(row(0, text, given)))
    assert one.summed(scores) == pytest.approx(expected.scores, abs=1e-12)
    assert one.view.pieces == expected.tokens.pieces


@pytest.mark.parametrize(
    "text",
    ["a b  c\n\nd", "it 's, well", *HOSTILE[:3], "数据 ok", "a\u202eb c", "  led by space ", "one"],
)
def test_coloured_words_read_as_the_text_does(text: str) -> None:
    one = read_text_row(TextRow.of(row(0, text)))
    shown = canvas(one, [np.ones(len(one.groups))]).coloured(np.ones(len(one.groups)), True, 1.0)
    assert joined(shown) == " ".join(text.split())


def test_characters_that_no_piece_has_stay_and_have_no_score() -> None:
    given = {"pieces": ["a", "c"], "starts": [0, 6], "ends": [1, 7], "segments": [0, 0]}
    one = read_text_row(TextRow.of(row(0, "a ☃ b c and what was cut off") | given))
    shown = canvas(one, [np.ones(2)]).coloured(np.array([1.0, -2.0]), True, 2.0)
    assert joined(shown) == "a ☃ b c and what was cut off"
    assert [(w.text, w.tone, w.strength, w.score) for w in shown if w.score is not None] == [
        ("a", "for", 0.5, 1.0),
        ("c", "against", 1.0, -2.0),
    ]


def test_a_long_text_is_cut_to_the_window_with_the_largest_scores() -> None:
    n = 300
    one = read_text_row(TextRow.of(row(0, " ".join(f"w{i}" for i in range(n)))))
    scores = np.random.default_rng(0).normal(size=n) ** 3
    shown = canvas(one, [scores]).coloured(scores, True, float(np.abs(scores).max()))
    best = max(range(n - MAX_WORDS_SHOWN + 1), key=lambda i: np.abs(scores[i : i + MAX_WORDS_SHOWN]).sum())
    assert [w.text for w in shown] == [CUT, *(f"w{i}" for i in range(best, best + MAX_WORDS_SHOWN)), CUT]


def test_of_a_pair_the_short_text_stays_whole_and_the_long_one_is_cut() -> None:
    long = " ".join(f"w{i}" for i in range(100))
    made = row(0, long)
    extra = {"pair": "p q", "pieces": [*made["pieces"], "p", "q"], "segments": [0] * 100 + [1, 1]}
    one = read_text_row(TextRow.of(made | extra | {"starts": [*made["starts"], 0, 2], "ends": [*made["ends"], 1, 3]}))
    shown = [w.text for w in canvas(one, [np.ones(102)]).coloured(np.ones(102), False, 1.0)]
    assert shown == [*(f"w{i}" for i in range(MAX_WORDS_SHOWN - 2)), CUT, PAIR_SIGN, "p", "q"]


def test_a_very_long_word_is_cut() -> None:
    one = read_text_row(TextRow.of(row(0, "x" * 5000)))
    (word,) = canvas(one, [np.ones(1)]).coloured(np.ones(1), False, 1.0)
    assert len(word.text) == 40
    assert word.text.endswith(CUT)


def test_scores_of_nothing_but_zeros_colour_nothing() -> None:
    one = read_text_row(TextRow.of(row(0, "a b")))
    shown = canvas(one, [np.zeros(2)]).coloured(np.zeros(2), True, 0.0)
    assert [(w.tone, w.strength) for w in shown] == [("none", 0.0)] * 2


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["attention-mean", "lime", "leave-one-out", "random"], ["leave-one-out", "lime", "attention-mean"]),
        (["random", "own", "shapley", "other", "more"], ["shapley", "own", "other"]),
        (["uniform", "position"], []),
    ],
)
def test_methods_that_ask_the_model_come_first_and_attention_last(present: list[str], chosen: list[str]) -> None:
    assert preferred(present) == chosen


# examples


def test_the_two_attentions_are_as_far_apart_as_is_said(toy: Record) -> None:
    (shown,) = titled(toy, "with the same output")
    own, other = (np.array([w.score for w in c.words]) for c in shown.colourings)
    assert shown.beside
    assert own.sum() == pytest.approx(1, abs=1e-6)
    assert other.sum() == pytest.approx(1, abs=1e-6)
    told = re.match(r"JSD ([\d.]+)", shown.note)
    assert told
    assert float(told[1]) == pytest.approx(jensenshannon(own, other) ** 2, abs=6e-4)


def test_no_attention_that_surely_keeps_the_label_is_farther_than_the_one_shown(toy: Record) -> None:
    found = toy.findings("adversarial")
    far, moved = found.values("jsd exact"), found.values("change exact")
    sure = [max(p) - min(p) > 2 * m for p, m in zip(toy.texts.column("probabilities").to_pylist(), moved, strict=True)]
    (shown,) = titled(toy, "with the same output")
    assert far[shown.text] == max(value for value, keeps in zip(far, sure, strict=True) if keeps)


def test_a_change_that_keeps_labels_keeps_them_whatever_moves() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3000):
        p, q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
        if keeps(p.tolist(), 0.5 * float(np.abs(p - q).sum())):
            assert p.argmax() == q.argmax()
        a, b = rng.random(3), rng.random(3)
        if keeps(a.tolist(), float(np.abs(a - b).mean())):
            assert ((a > 0.5) == (b > 0.5)).all()


@pytest.mark.parametrize(("chances", "change"), [([0.6, 0.4], 0.05), ([0.9, 0.9, 0.05], 0.1), ([], 3.0)])
def test_a_change_too_small_for_any_label_keeps_them(chances: list[float], change: float) -> None:
    assert keeps(chances, change)


def test_attention_that_may_change_the_label_is_not_shown(by_hand: Callable[..., Record]) -> None:
    details = {"query": 0, "attention": [[0.7, 0.3]], "adversarial": [[0.1, 0.9]]}
    findings = [
        (n, f)
        for n in (0, 1)
        for f in (
            Finding("adversarial", "", "jsd found", 0.4 - 0.1 * n, {}, details),
            Finding("adversarial", "", "change found", 0.04),
        )
    ]
    texts = [row(0, "a b", {"probabilities": [0.53, 0.47]}), row(1, "c d")]
    (shown,) = titled(by_hand(texts, findings), "with the same output")
    assert shown.text == 1
    assert "JSD 0.300" in shown.note


@pytest.mark.parametrize(("words", "best"), [("disagree most", min), ("agree most", max)])
def test_the_texts_of_extreme_agreement_are_shown(toy: Record, words: str, best: Callable[..., float]) -> None:
    (shown,) = titled(toy, f"Attention and leave-one-out {words}")
    taus = toy.findings("agreement").values("tau", "attention-mean", {"with": "leave-one-out"})
    others = {texts_of(toy)[one.text] for one in example_section(toy).examples if one.title != shown.title}
    long = [i for i, text in enumerate(texts_of(toy)) if len(text.split()) >= 5 and text not in others]
    assert taus[shown.text] == best(taus[i] for i in long)


def test_agreement_is_that_of_the_coloured_words(toy: Record) -> None:
    (shown,) = titled(toy, "Attention and leave-one-out agree most")
    a, b = (np.abs([w.score for w in c.words if w.score is not None]) for c in shown.colourings[:2])
    assert f"is {kendalltau(a, b)[0]:.2f}".replace("-", "−") in shown.note


def texts_of(record: Record) -> list[str]:
    found: list[str] = record.texts.column("text").to_pylist()
    return found


def test_no_text_is_shown_twice_though_the_data_have_it_thrice(toy: Record) -> None:
    shown = [texts_of(toy)[one.text] for one in example_section(toy).examples]
    assert len(shown) == len(set(shown)) == MAX_EXAMPLES


def test_the_most_confident_mistake_is_shown_and_no_right_answer(toy: Record) -> None:
    wrong = np.flatnonzero(toy.facts["gold"] != toy.facts["predicted"])
    shown = titled(toy, "Wrong")
    before = {texts_of(toy)[one.text] for one in example_section(toy).examples if "Wrong" not in one.title}
    free = [i for i in wrong if texts_of(toy)[i] not in before]
    assert shown[0].text == max(free, key=lambda i: (toy.facts["confidence"][i], -i))
    assert all(one.gold != one.label.split(" (")[0] for one in shown)


def erased(falls: Sequence[tuple[float, float]]) -> list[tuple[int, Finding]]:
    """What attention's and leave-one-out's first words take from the label, of two."""
    return [
        (n, Finding("input-erasure", name, measure, abs(fall) if measure == "tvd" else fall, DELETED))
        for n, both in enumerate(falls)
        for name, fall in zip(("attention-mean", "leave-one-out"), both, strict=True)
        for measure in ("tvd", "comprehensiveness")
    ]


def test_where_only_the_other_words_change_the_label_comes_before_a_larger_difference(
    by_hand: Callable[..., Record],
) -> None:
    texts = [row(i, f"a b c d e{i}", {"probabilities": p}) for i, p in enumerate([[0.99, 0.01], [0.7, 0.3]])]
    (shown,) = titled(by_hand(texts, erased([(0.0, 0.4), (0.0, 0.3)])), "matter more")
    assert shown.text == 1
    assert [c.note for c in shown.colourings] == [
        "without its top 20 % of the words the output changes by 0.000 (TVD), and the label stays the same",
        "without its top 20 % of the words the output changes by 0.300 (TVD), and the label changes",
    ]


def test_labels_are_not_said_to_change_where_that_is_not_known(by_hand: Callable[..., Record]) -> None:
    chances = {"probabilities": [0.8, 0.1, 0.1]}  # what falls to .4 may be the highest, or not
    texts = [row(i, f"a b c d e{i}", chances) for i in range(2)]
    record = by_hand(texts, erased([(0.0, 0.4), (0.0, 0.1)]), labels=("no", "yes", "perhaps"))
    (shown,) = titled(record, "matter more")
    assert shown.colourings[1].note.endswith("0.400 (TVD)")
    assert shown.colourings[0].note.endswith("the label stays the same")


def test_nothing_is_said_of_labels_where_another_than_the_predicted_is_explained(
    by_hand: Callable[..., Record],
) -> None:
    record = by_hand([row(0, "a b c d e")], erased([(0.0, 0.9)]), target="yes")
    (shown,) = titled(record, "matter more")
    assert all("label" not in c.note for c in shown.colourings)


def test_numbers_that_do_not_exist_choose_no_text(by_hand: Callable[..., Record]) -> None:
    values = [np.nan, 0.2, 0.6]
    findings = [(n, Finding("permutation", "", "tvd", x, EVERYWHERE)) for n, x in enumerate(values)]
    record = by_hand([row(i, f"a b c d e{i}") for i in range(3)], findings)
    assert [(one.text, one.title[-4:]) for one in example_section(record).examples] == [(2, "most"), (1, "east")]
    assert "the mean over 2 texts is 0.400" in example_section(record).examples[0].note


def test_a_text_of_few_words_is_passed_over(by_hand: Callable[..., Record]) -> None:
    texts = [row(0, "a b"), *(row(i, f"a b c d e{i}") for i in (1, 2, 3))]
    findings = [(n, Finding("permutation", "", "tvd", x, EVERYWHERE)) for n, x in enumerate((0.9, 0.5, 0.2, 0.1))]
    first = example_section(by_hand(texts, findings)).examples[0]
    assert first.text == 1
    assert "fewer than 5 words are skipped" in first.note


def test_a_run_without_checks_or_labels_says_that_there_is_nothing(by_hand: Callable[..., Record]) -> None:
    section = example_section(by_hand([row(0, "a b c d e f")]))
    assert section.examples == ()
    assert section.findings[0].startswith("None of 1 text is shown")


def test_a_text_that_could_not_be_read_is_left_out(by_hand: Callable[..., Record]) -> None:
    nothing: dict[str, Any] = {"predicted": None, "probabilities": [], "scores": []}
    places: dict[str, Any] = {"pieces": [], "starts": [], "ends": [], "segments": []}
    record = by_hand([row(0, "a b c", nothing | places | {"label": "yes"})])
    assert example_section(record).examples == ()
    assert word_section(record).tables == ()


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_kept_as_they_are_up_to_a_length(by_hand: Callable[..., Record], name: str) -> None:
    texts = [row(i, name + " a b c d e", {"predicted": name, "label": "yes"}) for i in range(2)]
    (shown,) = example_section(by_hand(texts, labels=(name, "yes"))).examples  # the same text twice
    kept = name if len(name) <= 40 else name[:39] + CUT
    assert shown.label == f"{kept} (90.0%)"
    assert shown.gold == "yes"


def test_a_pair_is_shown_with_both_texts(by_hand: Callable[..., Record]) -> None:
    given: dict[str, Any] = {
        "pair": "d e",
        "pieces": ["a", "b", "d", "e"],
        "starts": [0, 2, 0, 2],
        "ends": [1, 3, 1, 3],
    }
    given |= {"segments": [0, 0, 1, 1], "label": "yes", "scores": row(0, "a b c d")["scores"]}
    (shown,) = example_section(by_hand([row(0, "a b", given)])).examples
    assert [joined(c.words) for c in shown.colourings] == [f"a b {PAIR_SIGN} d e"] * 2
    assert PAIR_SIGN in shown.note


# words over all texts


def test_a_words_score_in_a_text_is_the_mean_of_its_occurrences() -> None:
    assert in_text(["Bad", "a", "bad"], np.array([3.0, -1.0, 1.0]), True) == {"bad": 2.0, "a": -1.0}


def test_without_a_sign_scores_are_shares_of_the_text() -> None:
    assert in_text(["a", "b"], np.array([-1.0, 3.0]), False) == {"a": 0.25, "b": 0.75}


def test_a_text_without_any_weight_says_nothing() -> None:
    assert in_text(["a", "b"], np.zeros(2), False) == {}


def test_words_are_ranked_by_the_lower_limit_of_their_own_interval() -> None:
    rng = np.random.default_rng(1)
    values = {f"w{i}": rng.normal(size=int(rng.integers(1, 9))).tolist() for i in range(60)}
    expected = {word: stats.estimate(np.array(own)) for word, own in values.items() if len(own) >= 3}
    made = ranked(values, 3)
    assert [one.word for one in made] == sorted(expected, key=lambda word: -expected[word].low)
    for one in made:
        told = expected[one.word]
        assert (one.texts, one.mean, one.low, one.high) == pytest.approx((told.n, told.mean, told.low, told.high))


def test_the_table_of_a_run_is_that_of_a_slow_twin(toy: Record) -> None:
    expected = []
    for label in toy.labels:
        seen: dict[str, list[float]] = {}
        for one in toy.texts.to_pylist():
            if one["predicted"] == label:
                (told,) = [s["scores"] for s in one["scores"] if s["method"] == "leave-one-out"]
                own = [(p, s) for p, s, seg in zip(one["pieces"], told, one["segments"], strict=True) if seg == 0]
                for word in {p for p, _ in own}:
                    seen.setdefault(word, []).append(float(np.mean([s for p, s in own if p == word])))
        found = {word: stats.estimate(np.array(some)) for word, some in seen.items() if len(some) >= 2}
        first = sorted(found, key=lambda word: -found[word].low)[:12]
        expected += [(word, label, found[word].n, found[word].mean, found[word].low) for word in first]
    table = next(t for t in word_section(toy).tables if t.name == "words-leave-one-out")
    assert [r[:3] for r in table.rows] == [r[:3] for r in expected]
    assert [r[3:5] for r in table.rows] == [pytest.approx(r[3:], abs=1e-9) for r in expected]


def test_the_markers_of_a_pointing_model_come_first(toy: Record) -> None:
    table = next(t for t in word_section(toy).tables if t.name == "words-attention-mean")
    means: dict[str, dict[Any, Any]] = {name: {} for name in toy.labels}
    for word, label, _, mean, *_ in table.rows:
        means[str(label)][word] = mean
    assert {max(own, key=own.__getitem__) for own in means.values()} == set(toys.MARKERS)


@pytest.mark.parametrize(("n", "least"), [(59, 2), (60, 3)])
def test_in_a_larger_run_a_word_must_be_in_three_texts(by_hand: Callable[..., Record], n: int, least: int) -> None:
    texts = [row(i, f"all {'twice' if i < 2 else 'x'}{'' if i < 2 else i}") for i in range(n)]
    (table, _) = word_section(by_hand(texts)).tables
    assert {r[0]: r[2] for r in table.rows} == ({"all": n} | ({"twice": 2} if least == 2 else {}))


def test_a_method_with_a_sign_names_only_words_above_zero(by_hand: Callable[..., Record]) -> None:
    said = word_section(by_hand([row(i, "a b") for i in range(4)])).findings[0]
    assert said == (
        "By leave-one-out, no word significantly supports no: none of the 2 ranked words has an interval above zero."
    )


def test_ten_labels_have_all_words_in_tables_and_three_labels_in_charts(by_hand: Callable[..., Record]) -> None:
    labels = [*HOSTILE, *"fghij"]
    texts = [row(i, f"{labels[i % 10][:9]}", {"predicted": labels[i % 10]}) for i in range(44)]
    section = word_section(by_hand(texts, labels=labels))
    assert len({r[1] for r in section.tables[0].rows}) == 10
    names = [f.name for f in section.figures]
    assert len(set(names)) == 6
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert not any("<script>" in f.svg for f in section.figures)


def test_methods_with_names_alike_have_files_apart(by_hand: Callable[..., Record]) -> None:
    told = [{"method": name, "scores": [1.0, 2.0], "signed": True} for name in ("Own <b>", "own-b", "../own/b")]
    section = word_section(by_hand([row(i, "a b", {"scores": told}) for i in range(3)]))
    names = [t.name for t in section.tables] + [f.name for f in section.figures]
    assert len(set(names)) == 6
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


def test_one_text_ranks_no_word(by_hand: Callable[..., Record]) -> None:
    section = word_section(by_hand([row(0, "a b c")]))
    assert not section.tables
    assert not section.figures
    assert section.findings[0].startswith("No word is in 2 texts")


def test_what_is_shared_by_chance_is_told_beside_what_is_shared(by_hand: Callable[..., Record]) -> None:
    text = " ".join(f"w{i:02d}" for i in range(24))
    said = word_section(by_hand([row(i, text) for i in range(3)])).findings[-1]
    # attention rises along the text and leave-one-out falls: the first twelve of one are the last of the other
    assert said == "Top words that attention-mean and leave-one-out share: for no 0 of 12 (6.0 by chance)."


@pytest.mark.parametrize("target", ["yes", 1])
def test_the_label_that_is_explained_is_named(by_hand: Callable[..., Record], target: str | int) -> None:
    record = by_hand([row(i, "a b") for i in range(3)], target=target)
    assert "supports yes in texts predicted no" in word_section(record).findings[0]
    assert "towards “yes”, explained in every text" in word_section(record).reading
    assert "supporting “yes”" in example_section(record).reading
