"""Jain & Wallace 2019: numbers of several trainings against twins, and a whole small reproduction."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from heedful.audits.record import load_record
from heedful.checks.tables import AgreementTables
from heedful.report.reproductions import jain2019 as report
from heedful.report.reproductions.overview import overview
from heedful.report.study import report as whole_report
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction.jain2019 import Jain2019, Taus, _deviation, _measurement, _test_scores, class_order
from heedful.studies.reproduction.published import Judgement, read_published
from heedful.studies.reproduction.reproduce import reproduce

SIZES = ["seeds=1", "words=400", "scored=12", "audited=6", "searched=2", "epochs=1", "draws=3", "steps=2"]
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return reproduce("jain2019", out=tmp_path_factory.mktemp("jain"), profile="smoke", settings=SIZES)


# the published numbers


def test_published_numbers_are_possible_and_every_data_set_is_known() -> None:
    known = {data.name for data in Jain2019.data}
    for number in read_published("jain2019"):
        least = -1 if "mean" in number.column else 0
        assert least <= number.value <= 1, number
        assert number.data in known or (number.data, number.table) == ("", "Log-odds attention"), number


def test_the_mean_over_texts_lies_between_those_of_the_classes() -> None:
    """Of the authors' own numbers, up to their rounding: a check of the transcription."""
    values = {(p.data, p.row, p.column): p.value for p in read_published("jain2019") if p.table != "First version"}
    triples = 0
    for (data, row, column), value in values.items():
        if column.endswith(" all mean"):
            pair = column.removesuffix(" all mean")
            classes = [values.get((data, row, f"{pair} {i} mean")) for i in (0, 1)]
            known = [x for x in classes if x is not None]
            if len(known) == 2 and (data, row, f"{pair} 2 mean") not in values:
                triples += 1
                assert min(known) - 0.011 <= value <= max(known) + 0.011, (data, row, pair)
    assert triples > 25


# numbers and their errors


def test_columns_are_the_published_cells_of_each_training() -> None:
    tau = RNG.uniform(-1, 1, (2, 9))
    tau[0, 0] = np.nan
    significant, predicted = (tau > 0.3).astype(float), np.tile(np.arange(9) % 2, (2, 1))
    columns = dict(Taus(tau, significant, predicted).columns(2))
    for label in ("all", "0", "1"):
        for k in range(2):
            chosen = [i for i in range(9) if not np.isnan(tau[k, i]) and label in ("all", str(predicted[k, i]))]
            values = [float(tau[k, i]) for i in chosen]
            twin = (np.mean(values), np.std(values), np.mean([v > 0.3 for v in values]))
            found = tuple(columns[f"{label} {name}"][k][0] for name in ("mean", "std", "sig."))
            assert found == pytest.approx(twin)


def test_a_class_that_is_hardly_predicted_has_no_column() -> None:
    taus = Taus(np.zeros((1, 4)), np.zeros((1, 4)), np.array([[0, 0, 0, 1]]))
    assert {name.split()[0] for name, _ in taus.columns(2)} == {"all", "0"}


def test_the_error_of_a_standard_deviation_is_that_over_samples() -> None:
    samples = RNG.gamma(2.0, size=(4000, 100))
    errors = [_deviation(x)[1] for x in samples[:400]]
    assert np.mean(errors) == pytest.approx(samples.std(1).std(), rel=0.12)
    assert _deviation(np.full(5, 0.3)) == (0.0, 0.0)


def test_errors_of_test_scores_are_those_over_samples() -> None:
    def draw() -> tuple[Any, Any]:
        gold = RNG.integers(2, size=150)
        scores = 1 / (1 + np.exp(-(RNG.normal(size=150) + 1.5 * gold - 0.7)))
        return gold, np.stack([1 - scores, scores], 1)

    runs = [_test_scores(*draw()) for _ in range(40)]
    for name in ("accuracy", "F1", "ROC AUC", "PR AUC"):
        values, errors = np.array([run[name] for run in runs]).T
        assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.4)


def test_a_measurement_has_the_spread_of_trainings_and_their_mean_error() -> None:
    found = _measurement([(0.3, 0.02), (0.4, 0.04), (0.5, 0.03)], "fewer texts")
    assert found.trainings == 3
    assert (found.mean, found.error) == pytest.approx((0.4, 0.03))
    assert found.spread == pytest.approx(scipy_stats.tstd([0.3, 0.4, 0.5]))


@pytest.mark.parametrize(("data", "labels", "order"), [
    ("agnews", ("Business", "World"), [1, 0]),  # the paper's class 0 is World
    ("agnews", ("0", "2"), [0, 1]),
    ("sst", ("negative", "positive"), [0, 1]),
])  # fmt: skip
def test_classes_are_in_the_papers_order(data: str, labels: tuple[str, ...], order: list[int]) -> None:
    classifier: Any = SimpleNamespace(labels=labels)
    subject: Any = SimpleNamespace(classifier=classifier)
    assert class_order(data, subject) == order


# a whole reproduction


@pytest.mark.thorough
def test_every_measured_number_is_that_of_the_audits(outcome: Outcome) -> None:
    measured = {c.published.key: c for c in outcome.result.comparisons if c.ours is not None}
    assert {c.judgement for c in measured.values()} == {Judgement.NOT_COMPARED}
    assert outcome.folder is not None
    for encoder, row in (("bilstm", "BiLSTM"), ("average", "average")):
        part = outcome.result.parts[f"sst {encoder} additive 0"]
        tables = load_record(outcome.folder / part).tables("agreement", AgreementTables)
        assert tables is not None
        ours = measured["All configurations", "sst", row, "τ_g all mean"].ours
        assert ours is not None
        assert ours.mean == pytest.approx(tables.published[0].all.mean)
    assert {key[0] for key in measured} >= {"Table 2", "All configurations", "Test scores", "First version"}


@pytest.mark.thorough
def test_findings_are_of_the_networks_that_were_run(outcome: Outcome) -> None:
    assert len(outcome.result.claims) == 5
    assert {claim.holds for claim in outcome.result.claims} == {None}  # six texts


@pytest.mark.thorough
def test_the_report_has_the_papers_figures_and_both_networks_in_one_table(outcome: Outcome) -> None:
    ours, figures = report.sections(outcome)
    heads = [column.head for column in ours.tables[0].columns]
    assert heads[3:] == [f"{n}: {c}" for n in ("BiLSTM", "average") for c in ("τ", "Sig. Frac.")]
    names = [figure.name for figure in figures.figures]
    assert len(names) == len(set(names)) == 12
    for part in ("agreement-tau", "permutation-by-max", "adversarial-jsd", "adversarial-found-by-max"):
        assert sum(part in name for name in names) >= 2
    assert any("Table 2" in section.title for section in whole_report(outcome).sections)


@pytest.mark.thorough
def test_the_overview_has_one_row_for_the_paper_and_names_what_is_outside(outcome: Outcome) -> None:
    measured = next(c for c in outcome.result.comparisons if c.ours is not None)
    far = replace(measured, judgement=Judgement.OUTSIDE, limit=0.125, reason="fewer texts")
    others = [c for c in outcome.result.comparisons if c is not measured]
    text = overview([replace(outcome, result=replace(outcome.result, comparisons=(far, *others)))])
    counts = [len(others) + 1, sum(c.ours is not None for c in others) + 1, 0, 1, 0, 0, 5]
    assert f"| jain2019 | {' | '.join(f'{n:,}' for n in counts)} |" in text
    assert "| 0.125 | fewer texts |" in text
    assert "encoders=bilstm,average" in text
    assert f"{far.published.table}, SST-2, " in text  # not "sst"
    assert "Published numbers that are outside" not in overview([outcome])


@pytest.mark.thorough
def test_a_reproduction_resumes_to_the_same_bytes(outcome: Outcome) -> None:
    folder = outcome.folder
    assert folder is not None
    before = (folder / "outcome.json").read_bytes()
    for file in [*sorted((folder / "steps").glob("*.json"))[::2], folder / "outcome.json"]:
        file.unlink()
    reproduce("jain2019", out=folder, profile="smoke", settings=SIZES)
    assert (folder / "outcome.json").read_bytes() == before
