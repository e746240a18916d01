"""Shapes are checked at run time in every test; tables that a test makes are printed when all are done."""

import importlib
import inspect
import os
import re
from collections.abc import Iterator
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["NUMBA_DISABLE_JIT"] = "1"  # shap compiles for seconds what takes none here

import jaxtyping

CHECKED = (
    "maths.formulas",
    "maths.theory",
    "maths.stats",
    "maths.ranks",
    "maths.distances",
    "model.edits",
    "model.batch",
    "model.classifier",
)
hook = jaxtyping.install_import_hook([f"heedful.{name}" for name in CHECKED], "beartype.beartype")

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

from heedful.core import errors  # noqa: E402
from heedful.model.precision import bf16_fault  # noqa: E402

torch.set_num_threads(1)
# a busy machine is no failure
hypothesis.settings.register_profile("heedful", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("heedful")


def functions_of(module: Any) -> Iterator[Any]:
    """Those of a module and its classes, out of whatever holds them."""
    holders = [module, *(c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__)]
    for held in [one for holder in holders for one in vars(holder).values()]:
        for inner in (held, *(getattr(held, name, None) for name in ("fget", "func", "__func__"))):
            if inspect.isfunction(inner) and inner.__module__ == module.__name__:
                yield inner


for name in CHECKED:  # what says nothing of shapes is mypy's, and is called a hundred times as often
    for function in functions_of(importlib.import_module(f"heedful.{name}")):
        if not any(re.search(r"\b(Float|Int|Bool)\[", str(said)) for said in function.__annotations__.values()):
            function.__no_type_check__ = True

TELL = errors.told
TOLD: list[str] = []
FIRST = (
    "methods/test_conformance",
    "audits/test_verdict",
    "checks/test_battery",
    "audits/test_audit",
    "audits/test_known_models",
)  # they take long


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """What takes long begins first, so that no worker is left with it at the end."""
    order = {name: i for i, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(f"{item.path.parent.name}/{item.path.stem}", len(FIRST)))


def _loud(e: Exception) -> errors.HeedfulError:
    if not isinstance(e, errors.HeedfulError):
        raise e
    return e


@pytest.fixture(scope="session", autouse=True)
def _bugs_come_out() -> Iterator[None]:
    """An audit goes on past an error that nobody expected; a test must not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "told", _loud)
        yield


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shapes are checked: for simulations, which call small functions very often that other tests check."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def bugs_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it."""
    monkeypatch.setattr(errors, "told", TELL)


@pytest.fixture
def bf16() -> None:
    """Skips the test where this machine's CPU cannot compute in bf16."""
    if (fault := bf16_fault()) is not None:
        pytest.skip(f"bf16 cannot be used on this machine ({fault})")


@pytest.fixture
def told() -> list[str]:
    """Lines for the end of the run."""
    return TOLD


def pytest_sessionfinish(session: Any) -> None:
    """A worker hands its lines to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["told"] = TOLD


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker handed over."""
    TOLD.extend(getattr(node, "workeroutput", {}).get("told", []))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print them."""
    if TOLD:
        terminalreporter.write_sep("=", "explanation / not not explanation / undecided / not explanation, of 20 audits")
        terminalreporter.write_line("\n".join(TOLD))
