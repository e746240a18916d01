"""What tests/conftest.py promises of every test."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from heedful.core import errors
from heedful.maths.formulas import head_relevance
from heedful.model.batch import Batch


def test_shapes_of_functions_are_checked() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        head_relevance(torch.zeros(2, 3, 3), torch.zeros(2, 3, 4))


def test_shapes_of_dataclasses_are_checked() -> None:
    ids = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(jaxtyping.TypeCheckError):
        Batch(ids=ids, mask=ids[:, 1:], segments=None)


def test_an_unexpected_error_is_raised() -> None:
    def fail(_: list[int]) -> list[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        errors.results_or_errors(fail, [1])
