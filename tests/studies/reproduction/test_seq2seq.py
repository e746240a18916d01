"""Encoder-decoders reproduced: attention on copied digits, thirds by length, findings, and a whole small run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.maths.stats import Decision
from heedful.nets.training.dates import DatePair, date_pairs
from heedful.nets.training.translate import Alignment
from heedful.nets.training.translation_job import Seq2SeqSettings, job
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction.base import Scores
from heedful.studies.reproduction.published import Claim
from heedful.studies.reproduction.reproduce import reproduce
from heedful.studies.reproduction.seq2seq import (
    ALIGNMENTS,
    ATTENTIONS,
    LONGEST,
    RECIPES,
    SHORTEST,
    Seq2SeqPapers,
    _claims,
    _curve,
    _thirds,
    _uniform,
    digit_attention,
)

PAIRS = date_pairs(9, 4, dates=(1, 2))


class Pointer:
    """Attends to the copied digit, or `off` characters after it, with this weight; the rest is on the first one."""

    def __init__(self, weight: float, off: int = 0) -> None:
        self.weight, self.off = weight, off

    def align_targets(self, pairs: Sequence[DatePair]) -> list[Alignment]:
        return [self._alignment(pair) for pair in pairs]

    def _alignment(self, pair: DatePair) -> Alignment:
        weights = np.zeros((len(pair.target) + 1, len(pair.source) + 9), dtype=np.float32)
        for there, here in pair.copies:
            weights[there, 0] += 1 - self.weight
            weights[there, here + self.off] += self.weight
        return Alignment(pair.source, pair.target, tuple(pair.source), tuple(pair.target), weights)


LATE = DatePair("on the 3rd of May, 2026", "2026-05-03", ((0, 19), (1, 20), (2, 21), (3, 22), (9, 7)))
EARLY = DatePair("the 3rd of May", "2026-05-03", ((9, 4),))


@pytest.mark.parametrize(
    ("pointer", "pair", "expected"),
    [
        (Pointer(0.7), LATE, (0.7, 0.7, 1)),
        (Pointer(0.7, 1), LATE, (0, 0.7, 1)),
        (Pointer(0.3), LATE, (0.3, 0.3, 0)),
        (Pointer(0.9, 5), EARLY, (0, 0, 0)),
    ],
)
def test_attention_on_copied_digits(pointer: Any, pair: DatePair, expected: tuple[float, float, float]) -> None:
    np.testing.assert_allclose(digit_attention(pointer, [pair])[:, 0], expected, atol=1e-6)


def test_uniform_attention_is_what_a_network_with_equal_weights_has() -> None:
    class Even:
        def align_targets(self, pairs: Sequence[DatePair]) -> list[Alignment]:
            weights = [np.full((len(p.target) + 1, len(p.source)), 1 / len(p.source)) for p in pairs]
            return [Alignment(p.source, p.target, (), (), w) for p, w in zip(pairs, weights, strict=True)]

    even: Any = Even()
    np.testing.assert_allclose(digit_attention(even, PAIRS)[:2], _uniform(PAIRS), rtol=1e-6)


def test_attention_on_digits_is_that_of_each_text_alone() -> None:
    translator = job(Seq2SeqSettings(hidden=6, embedding=5, n_train=1, n_dev=1, n_test=1)).translator
    together = digit_attention(translator, PAIRS)
    alone = np.concatenate([digit_attention(translator, [pair]) for pair in PAIRS], 1)
    np.testing.assert_allclose(together, alone, atol=1e-6)
    on = [
        np.mean([translator.align_targets([pair])[0].weights[there, here] for there, here in pair.copies])
        for pair in PAIRS
    ]
    np.testing.assert_allclose(together[0], on, atol=1e-6)


def test_thirds_have_equal_lengths_in_one_part() -> None:
    lengths = np.array([5, 5, 5, 5, 7, 8, 9, 9, 30])
    parts = _thirds(lengths)
    assert lengths[parts[SHORTEST]].tolist() == [5, 5, 5, 5]
    assert lengths[parts[LONGEST]].tolist() == [9, 9, 30]


def synthetic(bottleneck: Sequence[float]) -> tuple[dict[str, dict[str, Scores]], Any, Any]:
    """Attention is right everywhere and on the digit; the bottleneck as given; three lengths."""
    n = len(bottleneck)
    kinds = {kind: {name: Scores(np.ones((2, n))) for name in Seq2SeqPapers.measures} for kind in ATTENTIONS}
    kinds["bottleneck"] = {"exact match": Scores(np.array([bottleneck, bottleneck]))}
    return kinds, np.full((2, n), 0.1), np.repeat([10, 20, 30], n // 3)


def test_findings_hold_where_only_the_bottleneck_falls() -> None:
    claims = _claims(*synthetic([1.0] * 40 + [0.5] * 40 + [0.0] * 38 + [1.0] * 2))
    held = {(claim.finding, claim.measure): claim.holds for claim in claims}
    assert len(held) == len(claims) == 19
    wrong = [key[1] for key, holds in held.items() if holds is not True]
    both = " (over texts and trainings)"
    assert wrong == [f"exact match, concat − general{both}", f"exact match, concat − dot{both}"]  # they do not differ
    drop = next(c for c in claims if "shortest third" in c.measure and "additive" in c.measure)
    assert drop.difference.mean == pytest.approx(0 - 38 / 40)


def test_a_difference_that_changes_with_the_training_is_undecided() -> None:
    kinds, uniform, lengths = synthetic([0.0] * 120)
    kinds["concat"]["exact match"] = Scores(np.array([[0.98] * 120, [0.5] * 120]))
    claims = {claim.measure: claim for claim in _claims(kinds, uniform, lengths)}
    claim = next(claim for measure, claim in claims.items() if "concat − dot" in measure)
    assert claim.difference.mean == pytest.approx(-0.26)
    assert claim.difference.low < -0.5 < 0 < claim.difference.high
    assert claim.holds is None


def test_few_texts_decide_nothing() -> None:
    claims: list[Claim] = _claims(*synthetic([1.0, 1, 1, 0, 1, 0, 0, 0, 0]))
    assert {claim.difference.decision for claim in claims} == {Decision.TOO_FEW}
    assert {claim.holds for claim in claims} == {None}


def test_a_point_of_the_curve_is_the_mean_over_trainings_and_texts() -> None:
    values = np.zeros((2, 60))
    values[0, :30] = 1
    curve = _curve("dot", Scores(values), np.repeat([3, 20], 30))
    assert curve.x == (7.0, 22.0)
    assert [point.mean for point in curve.points] == [0.5, 0.0]


def run(folder: Path) -> Outcome:
    """A small run; curves of trainings take longer to draw than these networks to train."""
    tiny = ["train=24", "tested=12", "most=1", "epochs=1", "hidden=4"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("heedful.nets.training.train.find_spec", lambda name: None)
        return reproduce("seq2seq", out=folder, profile="smoke", seeds=1, settings=tiny)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(tmp_path_factory.mktemp("r") / "r")


def test_a_small_run_has_every_network_and_its_alignments(outcome: Outcome) -> None:
    assert {row.method for row in outcome.rows("exact match")} == set(RECIPES)
    assert {row.method for row in outcome.rows(ALIGNMENTS[0])} == {*ATTENTIONS, "uniform"}
    assert not outcome.result.comparisons
    assert len(outcome.result.claims) == 19
    example = outcome.result.details["alignments"]
    for rows in example["weights"].values():
        np.testing.assert_allclose(np.sum(rows, 1), 1, atol=0.03)
    assert all(example["target"][there] == example["source"][here] for there, here in example["copies"])


def test_its_report_draws_lengths_and_alignments(outcome: Outcome) -> None:
    assert outcome.folder is not None
    page = (outcome.folder / "report.html").read_text("utf-8")
    assert "Exact match by length of the text" in page
    assert all(f"Alignment, {kind}" in page for kind in ATTENTIONS)
    assert heedful.open(outcome.folder).to_dict() == outcome.to_dict()


def test_a_run_that_lost_steps_ends_with_the_same_bytes(outcome: Outcome) -> None:
    assert outcome.folder is not None
    before = (outcome.folder / "outcome.json").read_bytes()
    for file in sorted((outcome.folder / "steps").glob("*.json"))[::3]:
        file.unlink()
    (outcome.folder / "outcome.json").unlink()
    run(outcome.folder)
    assert json.loads((outcome.folder / "outcome.json").read_bytes()) == json.loads(before)
