"""Hao et al. 2021: the published table of triggers."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.audits.summary import Row
from heedful.core.finding import Place
from heedful.studies.base import row_of
from heedful.studies.reproduction.hao2021 import trigger_table
from heedful.studies.triggers import Triggers


def row(method: str, at: Place) -> Row:
    return row_of("triggers", Triggers.measures, "accuracy", np.array([1.0, 1.0, 1.0, 0.0, 0.0]), method, at)


@pytest.mark.parametrize("label", ["neutral", "1"])
def test_accuracies_of_mnli_stand_beside_the_published_cells(label: str) -> None:
    rows = [
        row("unchanged", {"gold": label}),
        row("unchanged", {"gold": "all"}),
        row("attribution", {"gold": label, "trigger": 0}),
        row("attribution", {"gold": label, "trigger": 7}),
        row("log-odds", {"gold": label, "trigger": 1}),
    ]
    measured = trigger_table(rows)
    assert {(name, gold) for _, _, name, gold in measured} == {("no trigger", "neutral"), ("trigger 1", "neutral")}
    assert all(number.mean == pytest.approx(60) for number in measured.values())
