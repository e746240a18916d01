"""Packages import downwards only: what knows less never imports what knows more, not even inside a function."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

SOURCE = Path(__file__).parent.parent / "src" / "heedful"
ORDER = (
    "core",
    "maths",
    "data",
    "nets",
    "model",
    "nets.training",
    "methods",
    "checks",
    "audits",
    "studies",
    "report",
    "cli",
)
# A result shows itself: these methods of the nouns reach up to the report when they are called.
EXCEPTIONS = {
    ("core.explanation", "report"): "to_html, plot and _repr_html_ of an explanation",
    ("core.tree", "report"): "to_html, plot and _repr_html_ of a tree",
    ("audits.result", "report"): "to_html and _repr_html_ of an audit",
    ("studies.outcome", "report"): "to_html of an outcome",
    ("nets.training.train", "report"): "the training curve beside a trained network",
}
# Tests of several modules, or of one from a side of its own.
CROSS_MODULE_TESTS = {
    "core.explanations": "explanations as a sequence",
    "core.repr": "what every result shows in a notebook",
    "data.assets": "the corpus and the model that come with the package",
    "maths.theory_lemmas": "the lemmas behind maths.theory",
    "methods.methods": "what all methods of gradients and attention have in common",
    "methods.sentences": "sentences as features, in every method that removes words",
    "methods.smoothgrad": "a method of methods.gradients with papers of its own",
    "model.devices": "where a model runs: model.loading and the command line",
    "model.weights_in_other_forms": "packed int8, half precise and offloaded weights, wherever weights are read",
    "checks.battery": "every check on every kind of classifier",
    "checks.plugin": "a check of another package, wherever a check of heedful appears",
    "audits.known_models": "audits of models whose answer is known",
    "report.formats": "one report in every format",
    "cli.cli": "what all commands have in common",
    "studies.reproduction.docs": "docs/reproduction.md beside the command that writes it",
    "cli.errors": "how a command ends when something goes wrong",
}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
    if path.parent != SOURCE
}


def package(module: str) -> str:
    return "nets.training" if module.startswith("nets.training") else module.split(".")[0]


def imported(path: Path) -> Iterator[str]:
    """Every heedful module that a file imports: at the top, in functions, and for types."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "heedful":
            parent = node.module.removeprefix("heedful").removeprefix(".")
            for alias in node.names:
                full = f"{parent}.{alias.name}".removeprefix(".")
                yield full if full in MODULES else parent
        elif isinstance(node, ast.Import):
            yield from (a.name.removeprefix("heedful.") for a in node.names if a.name.startswith("heedful."))


def upward() -> dict[tuple[str, str], str]:
    """(module, package above it) for each import that goes up."""
    return {
        (module, package(other)): other
        for module, path in MODULES.items()
        for other in imported(path)
        if other and ORDER.index(package(other)) > ORDER.index(package(module))
    }


def test_packages_import_downwards_only_but_for_the_written_exceptions() -> None:
    assert set(upward()) == set(EXCEPTIONS)


def test_the_top_level_holds_packages_only() -> None:
    loose = {path.name for path in SOURCE.iterdir() if path.is_file()}
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert loose == {"__init__.py", "__main__.py", "py.typed"}
    assert folders == {name for name in ORDER if "." not in name}


def test_a_test_file_is_named_after_a_module_or_is_written_down() -> None:
    tests = SOURCE.parent.parent / "tests"
    files = [path.relative_to(tests).with_suffix("") for path in tests.glob("*/**/test_*.py")]
    names = {
        ".".join((*file.parts[:-1], file.name.removeprefix("test_"))) for file in files if file.parts[0] != "support"
    }
    assert {name for name in names if name not in MODULES} - set(CROSS_MODULE_TESTS) == set()


def test_reports_need_no_torch_pages_no_matplotlib_and_figures_no_pyplot() -> None:
    pages = ("explanation_page", "terminal", "audit", "compare", "page", "charts", "examples", "words", "sections")
    code = f"""
import sys, heedful.audits.run, heedful.cli, {", ".join(f"heedful.report.{page}" for page in pages)}
assert not {{"torch", "matplotlib"}} & set(sys.modules)
import heedful.report.figures
assert not {{"torch", "matplotlib.pyplot"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS)


def test_only_loading_knows_hugging_face() -> None:
    knowing = {m for m, p in MODULES.items() if "transformers" in p.read_text("utf-8") and _imports(p, "transformers")}
    assert knowing == {"model.loading"}


def _imports(path: Path, name: str) -> bool:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return any(
        (isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[0] == name)
        or (isinstance(n, ast.Import) and any(a.name.split(".")[0] == name for a in n.names))
        for n in nodes
    )
