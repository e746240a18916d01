"""Catalogue: names, aliases, lazy imports and plugins, the same for methods, checks and recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from heedful.checks import CHECKS
from heedful.core import catalogue
from heedful.core.catalogue import Catalogue
from heedful.core.errors import BadInput
from heedful.methods import METHODS
from heedful.nets.training.recipes import RECIPES


@dataclass(frozen=True)
class Gentle:
    """It does little."""

    force: int = 1

    summary: ClassVar[str] = "a gentle one"
    paper: ClassVar[str] = "nobody"
    aliases: ClassVar[tuple[str, ...]] = ("soft", "strong")

    def __call__(self) -> None:
        """Do it."""


@dataclass(frozen=True)
class Strong:
    aliases: ClassVar[tuple[str, ...]] = ("soft", "hard")


class Point:
    """An entry point."""

    def __init__(self, name: str, thing: Any) -> None:
        self.name, self.value, self.thing = name, f"elsewhere:{name}", thing

    def load(self) -> Any:
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    points = [Point("very_strong", Strong), Point("gentle-tool", Strong), Point("soft", Strong), Point("x", OSError())]
    monkeypatch.setattr(catalogue, "entry_points", lambda group: points if group == "heedful.tools" else [])
    return Catalogue("tool", "tools", "heedful.core", {"gentle-tool": Gentle, "tokens": "tokens:Tokens"})


def test_built_in_things_come_first_and_then_plugins(tools: Catalogue) -> None:
    assert list(tools) == ["gentle-tool", "tokens", "very-strong"]


def test_a_plugin_takes_no_name_and_no_alias_of_a_built_in_one(tools: Catalogue) -> None:
    assert (tools["gentle-tool"], tools["soft"], tools["hard"]) == (Gentle, Gentle, Strong)


def test_each_plugin_that_is_skipped_is_a_line_in_the_log(tools: Catalogue, logged: list[str]) -> None:
    len(tools)
    assert logged == [
        "tool 'gentle-tool' of elsewhere:gentle-tool cannot be loaded (BadInput: the name is taken)",
        "tool 'soft' of elsewhere:soft cannot be loaded (BadInput: the name is taken)",
        "tool 'x' of elsewhere:x cannot be loaded (OSError: )",
    ]


@pytest.mark.parametrize("name", ["gentle-tool", "Gentle_Tool", " gentle tool ", "SOFT"])
def test_a_name_is_found_in_any_spelling(tools: Catalogue, name: str) -> None:
    assert (tools.full_name(name), name in tools) == ("gentle-tool", True)


@pytest.mark.parametrize("error", [KeyError, BadInput])
def test_an_unknown_name_says_of_which_kind_it_is_not(tools: Catalogue, error: type[Exception]) -> None:
    with pytest.raises(error) as refused:
        tools["gentel"]
    assert (
        str(refused.value) == "tool 'gentel' is not known; did you mean 'gentle-tool'? `heedful tools` lists them all."
    )


def test_a_mapping_without_the_name_answers_with_the_default(tools: Catalogue) -> None:
    assert tools.get("nothing", 3) == 3


def test_an_object_is_known_by_the_name_of_its_class(tools: Catalogue) -> None:
    from heedful.core.target import Target
    from heedful.core.tokens import Tokens

    tokens = object.__new__(Tokens)
    assert [tools.name_of(one) for one in (Gentle(), tokens, Strong(), Target())] == [
        "gentle-tool", "tokens", "very-strong", "Target",
    ]  # fmt: skip


def test_settings_are_checked(tools: Catalogue) -> None:
    with pytest.raises(BadInput, match=r"^force is a whole number, not 'much'\.$"):
        tools.make("gentle-tool", {"force": "much"})


def test_what_is_neither_a_name_nor_an_object_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^a int is not a check; give a name or a check such as Agreement\(\)\.$"):
        CHECKS.make(3)


@pytest.mark.parametrize(("known", "kind"), [(METHODS, "method"), (CHECKS, "check"), (RECIPES, "recipe")])
def test_every_catalogue_names_its_own_kind(known: Catalogue, kind: str) -> None:
    with pytest.raises(BadInput, match=rf"^{kind} 'zzz' is not known\. `heedful {kind}s` lists them all\.$"):
        known.rows("zzz")


@pytest.mark.parametrize("known", [METHODS, CHECKS])
def test_every_built_in_class_can_be_imported_and_is_known_by_its_name(known: Catalogue) -> None:
    assert [known.name_of(cls()) for cls in known.values()] == list(known)


def test_no_two_methods_claim_an_alias() -> None:
    claimed = [alias for cls in METHODS.values() for alias in getattr(cls, "aliases", ())]
    assert len(claimed) == len({*claimed, *METHODS}) - len(METHODS)
