"""Settings: what a field may hold follows from its annotation, and what it may not hold is said in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest

from heedful.checks import CHECKS
from heedful.core import settings
from heedful.core.errors import BadInput
from heedful.core.random import seeded
from heedful.core.settings import Between, Checked, Ge, Gt, Le, Lt, Must, Setting
from heedful.methods import METHODS, method

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
        (Annotated[int, Ge(1)], "1", 1),
        (Annotated[int, Ge(2)] | Literal["auto"], "auto", "auto"),
        (tuple[Annotated[float, Between(0, 1)], ...], "0,1", (0.0, 1.0)),
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
        (dict, "{}", "x cannot be written as text; set it in Python."),
        (Annotated[int, Ge(1)], "0", "x is a whole number of at least 1, not '0'."),
        (Annotated[int, Ge(2)] | Literal["auto"], "1", "x is a whole number of at least 2 or 'auto', not '1'."),
        (
            tuple[Annotated[int, Ge(1)], ...],
            "1,0",
            "x is a whole number of at least 1 or several with commas between, not '1,0'.",
        ),
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
    result = setting(kind).checked(value)
    assert (result, type(result)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("kind", "value"), [(int, True), (int, 1.0), (float, "1"), (float, np.nan), (bool, 1), (str, 1), (Way, 1)]
)
def test_a_value_of_another_type_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(BadInput, match=r"^x "):
        setting(kind).checked(value)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Annotated[int, Ge(1)], 0, "x is a whole number of at least 1, not 0."),
        (Annotated[float, Gt(0)], 0.0, "x is a number above 0, not 0.0."),
        (Annotated[float, Le(1)], 1.5, "x is a number of at most 1, not 1.5."),
        (Annotated[float, Gt(0), Lt(1)], 1.0, "x is a number above 0 and below 1, not 1.0."),
        (Annotated[float, Between(0, 1)] | None, -0.5, "x is a number from 0 to 1 or none, not -0.5."),
    ],
)
def test_a_value_out_of_bounds_is_refused(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        setting(kind).checked(value)
    assert str(refused.value) == message


def test_a_check_of_another_kind_gives_its_own_message() -> None:
    def refuse(value: Any) -> None:
        raise BadInput(f"never {value}.")

    with pytest.raises(BadInput, match=r"^never a\.$"):
        setting(Annotated[str, Must(refuse)]).checked("a")


@dataclass(frozen=True)
class Settled(Checked):
    steps: Annotated[int, Ge(1)] = 3
    way: Way = "mask"


@pytest.mark.parametrize("given", [{"steps": 0}, {"steps": 1.5}, {"way": "mak"}])
def test_an_object_is_checked_when_it_is_made(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Settled(**given)


# the key of random numbers


@dataclass(frozen=True)
class Old:
    steps: int = 3
    width: float = 0.5


@dataclass(frozen=True)
class Later:
    nodes: int = 3
    width: float = 0.5
    fast: bool = False

    key_name: ClassVar[str] = "old"
    key_names: ClassVar[dict[str, str]] = {"nodes": "steps"}
    key_added: ClassVar[tuple[str, ...]] = ("fast",)


def test_the_key_is_the_name_and_the_settings_in_the_order_of_the_fields() -> None:
    name, values = settings.draw_key("old", Old(4))
    assert (name, list(values.items())) == ("old", [("steps", 4), ("width", 0.5)])


def test_a_renamed_class_with_a_renamed_and_a_new_setting_draws_the_old_numbers() -> None:
    old, later = (seeded(0, "a text", *settings.draw_key(*one)) for one in (("old", Old(4)), ("later", Later(4))))
    assert old.initial_seed() == later.initial_seed()


def test_a_new_setting_that_is_not_at_its_default_enters_the_key() -> None:
    assert settings.draw_key("later", Later(fast=True))[1] == {"steps": 3, "width": 0.5, "fast": True}


def test_the_key_of_a_method_is_what_it_was() -> None:
    """LIME on a text: a draw of the first version."""
    rng = seeded(0, "a text", None, *settings.draw_key("lime", method("lime")))
    assert rng.initial_seed() == 6897364050419758998


@pytest.mark.parametrize("cls", [*METHODS.values(), *CHECKS.values()])
def test_every_annotation_can_be_resolved_so_that_every_setting_is_checked(cls: Any) -> None:
    assert [s.name for s in settings.of(cls).values() if s.kind is Any] == []


@pytest.mark.parametrize("cls", [*METHODS.values(), *CHECKS.values()])
def test_every_class_with_settings_checks_them_when_it_is_made(cls: Any) -> None:
    for name in settings.of(cls):
        with pytest.raises(BadInput, match=rf"^{name} "):
            cls(**{name: object()})


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
        ("ig", {"steps": "many"}, "steps is a whole number of at least 1, not 'many'."),
        ("ig", {"baseline": "maks"}, "baseline 'maks' is not one of auto, mask, pad, zero; did you mean 'mask'?"),
        ("ig", {"stesp": 3}, "integrated-gradients has no setting 'stesp'; did you mean 'steps'?"),
        ("ig", {"steps": 0}, "steps is a whole number of at least 1, not 0."),
        ("rollout", {"steps": 3}, "rollout has no setting 'steps'; known are: none."),
    ],
)
def test_python_users_meet_the_same_checks(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        method(name, given)
    assert str(refused.value) == message


def steps_of(methods: list[Any]) -> list[int | None]:
    return [getattr(m, "steps", None) for m in methods]


def test_a_setting_goes_to_every_method_that_has_it() -> None:
    assert steps_of(METHODS.choose(["ig", "random", "integrated-gradients"], ["steps=8"])) == [8, None, 8]


@pytest.mark.parametrize("order", [1, -1])
def test_a_setting_that_names_its_method_beats_one_that_does_not(order: int) -> None:
    assert steps_of(METHODS.choose(["ig"], ["ig.steps=8", "steps=4"][::order])) == [8]


def test_of_two_values_the_last_counts() -> None:
    assert steps_of(METHODS.choose(["ig"], ["steps=4", "steps=8"])) == [8]


def test_a_value_may_hold_an_equals_sign_and_a_dot() -> None:
    with pytest.raises(BadInput, match=r"^baseline 'a=b\.c' is not one of"):
        METHODS.choose(["ig"], ["baseline=a=b.c"])


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (["ig"], "steps", "'steps' is not a setting; write name=value, or owner.name=value."),
        (["ig"], "=3", "'=3' is not a setting; write name=value, or owner.name=value."),
        (["ig"], "stesp=3", "integrated-gradients has no setting 'stesp'; did you mean 'steps'?"),
        (["ig", "rollout"], "stesp=3", "nothing chosen has a setting 'stesp'; did you mean 'steps'?"),
        (["rollout"], "steps=3", "rollout has no setting 'steps'; known are: none."),
        (["rollout"], "ig.steps=3", "'ig' is not among those chosen; chosen are: rollout."),
        (["ig"], "rolout.steps=3",
         "'rolout' is not among those chosen; chosen are: integrated-gradients."),
    ],
)  # fmt: skip
def test_a_setting_that_would_go_nowhere_is_refused(names: list[str], given: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        METHODS.choose(names, [given])
    assert str(refused.value) == message
