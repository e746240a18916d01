"""Settings: what a field may hold follows from its annotation, and what it may not hold is said in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from heedful.core import settings
from heedful.core.errors import BadInput
from heedful.core.settings import Setting
from heedful.methods import METHODS, method
from heedful.methods.choosing import choose

Way = Literal["delete", "mask", "pad"]


def setting(kind: Any) -> Setting:
    return Setting("x", kind, None)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "500", 500),
        (int, " -1 ", -1),
        (float, "1e-3", 0.001),
        (float, "2", 2.0),
        (bool, "true", True),
        (bool, "No", False),
        (str, "any text", "any text"),
        (Way, "MASK", "mask"),
        (int | Literal["all"], "all", "all"),
        (int | Literal["all"], "-1", -1),
        (int | None, "none", None),
        (str | None, "none", None),
        (Way | None, "pad", "pad"),
        (tuple[int, ...], "1,2, 3", (1, 2, 3)),
        (tuple[str, ...], "a,b", ("a", "b")),
        (int | tuple[int, ...], "4", 4),
        (int | tuple[int, ...], "4,5", (4, 5)),
        (Literal[1, 2], "2", 2),
    ],
)
def test_a_text_is_read_by_the_annotation(kind: Any, text: str, value: Any) -> None:
    read = setting(kind).read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (int, "many", "x is a whole number, not 'many'."),
        (int, "1.5", "x is a whole number, not '1.5'."),
        (int, "1_000", "x is a whole number, not '1_000'."),
        (float, "nan", "x is a number, not 'nan'."),
        (float, "inf", "x is a number, not 'inf'."),
        (bool, "perhaps", "x is true or false, not 'perhaps'."),
        (Way, "dellete", "x 'dellete' is not one of delete, mask, pad; did you mean 'delete'?"),
        (Way | None, "zzz", "x 'zzz' is not one of delete, mask, pad."),
        (int | Literal["all"], "top", "x is a whole number or 'all', not 'top'."),
        (tuple[int, ...], "1,b", "x is a whole number or several with commas between, not '1,b'."),
        (tuple[int, ...], ",", "x is a whole number or several with commas between, not ','."),
        (int | None, "", "x is a whole number or none, not ''."),
        (dict, "{}", "x cannot be written as text; give it in Python."),
    ],
)
def test_a_wrong_text_is_refused(kind: Any, text: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        setting(kind).read(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [(float, 25, 25.0), (int, np.int64(3), 3), (tuple[int, ...], [1, 2], (1, 2)), (dict, {"a": 1}, {"a": 1})],
)
def test_a_value_has_one_form_so_that_chance_does_not_depend_on_how_it_was_written(
    kind: Any, value: Any, kept: Any
) -> None:
    found = setting(kind).checked(value)
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("kind", "value"), [(int, True), (int, 1.0), (float, "1"), (float, np.nan), (bool, 1), (str, 1), (Way, 1)]
)
def test_a_value_of_another_type_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(BadInput, match=r"^x "):
        setting(kind).checked(value)


@pytest.mark.parametrize("name", METHODS)
def test_every_default_is_a_value_that_its_setting_accepts(name: str) -> None:
    assert {s.name: s.checked(s.default) for s in settings.of(METHODS[name]).values()} == {
        s.name: s.default for s in settings.of(METHODS[name]).values()
    }


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_can_be_written_and_read_back(name: str) -> None:
    for s in settings.of(METHODS[name]).values():
        text = ",".join(map(str, s.default)) if isinstance(s.default, tuple) else str(s.default)
        assert s.read(text) == s.default


def test_annotations_that_cannot_be_resolved_check_nothing() -> None:
    @dataclass(frozen=True)
    class Loose:
        x: Missing = 1  # type: ignore[name-defined]

    assert settings.of(Loose)["x"].checked("anything") == "anything"


# methods with settings


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("ig", {"steps": "many"}, "steps is a whole number, not 'many'."),
        ("ig", {"baseline": "maks"}, "baseline 'maks' is not one of auto, mask, pad, zero; did you mean 'mask'?"),
        ("ig", {"stesp": 3}, "integrated-gradients has no setting 'stesp'; did you mean 'steps'?"),
        ("ig", {"steps": 0}, "integrated-gradients needs at least one step, not 0."),
        ("rollout", {"steps": 3}, "rollout has no setting 'steps'; its settings are: none."),
    ],
)
def test_python_users_meet_the_same_checks(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        method(name, given)
    assert str(refused.value) == message


def steps_of(methods: list[Any]) -> list[int | None]:
    return [getattr(m, "steps", None) for m in methods]


def test_a_setting_goes_to_every_method_that_has_it() -> None:
    assert steps_of(choose(["ig", "random", "integrated-gradients"], ["steps=8"])) == [8, None, 8]


@pytest.mark.parametrize("order", [1, -1])
def test_a_setting_that_names_its_method_beats_one_that_does_not(order: int) -> None:
    assert steps_of(choose(["ig"], ["ig.steps=8", "steps=4"][::order])) == [8]


def test_of_two_values_the_last_counts() -> None:
    assert steps_of(choose(["ig"], ["steps=4", "steps=8"])) == [8]


def test_a_value_may_hold_an_equals_sign_and_a_dot() -> None:
    with pytest.raises(BadInput, match=r"^baseline 'a=b\.c' is not one of"):
        choose(["ig"], ["baseline=a=b.c"])


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (["ig"], "steps", "'steps' is no setting; write name=value, or method.name=value."),
        (["ig"], "=3", "'=3' is no setting; write name=value, or method.name=value."),
        (["ig"], "stesp=3", "integrated-gradients has no setting 'stesp'; did you mean 'steps'?"),
        (["ig", "rollout"], "stesp=3", "none of the methods chosen has a setting 'stesp'; did you mean 'steps'?"),
        (["rollout"], "steps=3", "rollout has no setting 'steps'; known are: none."),
        (["rollout"], "ig.steps=3", "integrated-gradients is not among the methods chosen: rollout."),
        (["ig"], "rolout.steps=3",
         "method 'rolout' is not known; did you mean 'rollout'? `heedful methods` lists them all."),
    ],
)  # fmt: skip
def test_a_setting_that_would_go_nowhere_is_refused(names: list[str], given: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        choose(names, [given])
    assert str(refused.value) == message
