"""Shapes are checked at run time in every test; `--families` and `--cpu` are options of this suite.

Nothing here imports torch before `pytest_configure`: the process that only hands out tests to workers does not need it.
"""

import gc
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.cpu import CpuTimes

os.environ["HF_HUB_OFFLINE"] = "1"
# subtle: the threads of BLAS wait by spinning; with two workers on two cores that took 60 times the CPU of the work
os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
os.environ["NUMBA_DISABLE_JIT"] = "1"  # shap compiles for seconds what takes none here

SHAPE_CHECKED = (
    "maths.formulas",
    "maths.theory",
    "maths.stats",
    "maths.ranks",
    "maths.distances",
    "model.edits",
    "model.batch",
    "model.classifier",
)
# tests of whole runs: all that they compute is checked piece by piece in other tests
RUN_THROUGH = ("audits", "report", "cli", "test_docs.py", "test_battery.py")
LONGEST_FILES = (
    "methods/test_conformance",
    "audits/test_verdict",
    "checks/test_battery",
    "audits/test_audit",
    "audits/test_known_models",
)
# One of each mechanism: encoder, decoder, encoder and decoder, two streams with relative positions, one query.
DEFAULT_FAMILIES = ("bert", "gpt2", "bart", "xlnet", "bilstm")
PRINTED_AT_END: list[str] = []


def pytest_addoption(parser: Any) -> None:
    """Options of this suite."""
    parser.addoption(
        "--families", choices=("some", "all"), default="some", help="all: also `thorough` tests (default: some)"
    )
    parser.addoption("--cpu", type=int, metavar="N", help="print CPU seconds by file, and those of the N longest tests")


def pytest_configure(config: Any) -> None:
    """Prepare a process that runs tests."""
    if config.getoption("cpu") is not None:
        config.pluginmanager.register(CpuTimes(config.getoption("cpu")))
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    _check_shapes()
    import hypothesis
    import torch

    torch.set_num_threads(1)
    # a busy machine is no failure
    hypothesis.settings.register_profile("heedful", deadline=None, derandomize=True, max_examples=30)
    hypothesis.settings.load_profile("heedful")


def _check_shapes() -> None:
    """Check the shapes of tensors at run time, where a function or a dataclass states any."""
    import jaxtyping

    jaxtyped = jaxtyping.jaxtyped

    def where_shapes_are_stated(*, typechecker: Any) -> Any:
        # subtle: the hook decorates every function, also one that is defined inside another each time that is called
        def decorate(item: Any) -> Any:
            stated = " ".join(map(str, vars(item).get("__annotations__", item.__annotations__).values()))
            return jaxtyped(item, typechecker=typechecker) if re.search(r"\b(Float|Int|Bool)\[", stated) else item

        return decorate

    jaxtyping.jaxtyped = where_shapes_are_stated  # type: ignore[assignment]
    jaxtyping.install_import_hook([f"heedful.{name}" for name in SHAPE_CHECKED], "beartype.beartype")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out what was not asked for; begin with what takes long, so that no worker ends with it."""
    if config.getoption("families") == "some":
        left_out = {*_of_other_families(items), *(item for item in items if item.get_closest_marker("thorough"))}
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    order = {name: i for i, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: order.get(f"{item.path.parent.name}/{item.path.stem}", len(LONGEST_FILES)))


def _of_other_families(items: list[Any]) -> list[Any]:
    """Of tests that are parametrised by `family`: those of no default family, where a default family is tested too."""
    families = {item: item.callspec.params["family"] for item in items if "family" in getattr(item, "fixturenames", ())}
    tested = {(item.path, item.originalname) for item, family in families.items() if family in DEFAULT_FAMILIES}
    return [
        item
        for item, family in families.items()
        if family not in DEFAULT_FAMILIES and (item.path, item.originalname) in tested
    ]


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not walk half a million objects again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _unexpected_errors_are_raised() -> Iterator[Any]:
    """An audit goes on past an error that nobody expected; a test must not. Yields the function as users have it."""
    from heedful.core import errors

    original = errors.as_heedful_error

    def loud(e: Exception) -> errors.HeedfulError:
        if not isinstance(e, errors.HeedfulError):
            raise e
        return e

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "as_heedful_error", loud)
        yield original


@contextmanager
def _shapes_checked(wanted: bool) -> Iterator[None]:
    import jaxtyping

    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", not wanted)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shapes are checked: for simulations, which call small functions very often that other tests check."""
    with _shapes_checked(False):
        yield


@pytest.fixture(scope="module", autouse=True)
def _checked_piece_by_piece_or_thorough(request: pytest.FixtureRequest) -> Iterator[None]:
    """Shapes are checked in the tests of each piece; in those of whole runs with `--families all` only."""
    whole_runs = any(name in RUN_THROUGH for name in request.path.relative_to(request.config.rootpath).parts)
    with _shapes_checked(request.config.getoption("families") == "all" or not whole_runs):
        yield


@pytest.fixture
def bugs_are_told(_unexpected_errors_are_raised: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it."""
    from heedful.core import errors

    monkeypatch.setattr(errors, "as_heedful_error", _unexpected_errors_are_raised)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What is logged as a warning or worse. pytest's `caplog` is off: its handlers take 0.3 ms of every test."""
    import logging

    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    yield lines
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def bf16() -> None:
    """Skips the test where this machine's CPU cannot compute in bf16."""
    from heedful.model.precision import bf16_fault

    if (fault := bf16_fault()) is not None:
        pytest.skip(f"bf16 cannot be used on this machine ({fault})")


@pytest.fixture
def printed_at_end() -> list[str]:
    """Lines for the end of the run."""
    return PRINTED_AT_END


def pytest_sessionfinish(session: Any) -> None:
    """A worker hands its lines to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["printed at end"] = PRINTED_AT_END


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """What a worker handed over, or how it died: xdist names the test, and not the signal."""
    if error:
        code = node.gateway._io.popen.wait(timeout=60)
        reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"gone with exit code {code}"
        PRINTED_AT_END.append(f"worker {node.gateway.id} was {reason}")
    PRINTED_AT_END.extend(getattr(node, "workeroutput", {}).get("printed at end", []))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the lines."""
    if PRINTED_AT_END:
        terminalreporter.write_sep("=", "tables and notes")
        terminalreporter.write_line("\n".join(PRINTED_AT_END))
