"""Imports go down only: what knows less never imports what knows more."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "heedful"
LAYERS = [
    {"errors"},
    {
        "tokens",
        "target",
        "explanation",
        "wording",
        "settings",
        "writing",
        "metering",
        "trees",
        "growing",
        "finding",
        "templating",
    },
    {
        "formulas",
        "stats",
        "ranks",
        "seeding",
        "theory",
        "flow",
        "projection",
        "edits",
        "aligning",
        "kriging",
        "activations",
    },
    {"changes", "adversary", "fitting", "optimising", "scoring", "data", "columns", "formats"},
    {"surrogates"},
    {"shapley"},
    {"seam", "reading", "facts", "batch"},
    {"classifier", "encoding"},
    {"loading", "nets", "plain"},
    {"masking", "plans", "translating", "placing", "adapting"},
    {"inference", "lines", "jobs", "recipes"},
    {"methods", "training"},
    {"explaining", "conformance", "choosing", "planning", "comparing", "bringing"},
    {"checks", "runs", "storing", "parts", "manifest"},
    {"summarising", "batteries"},
    {"records", "evidence", "verdict", "leagues"},
    {"chunking"},
    {"auditing", "forecasting", "reporting", "capabilities"},
    {"treeview", "heatmaps", "rows", "drawing"},
    {"report", "terminal", "figures"},
    {"auditview"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]


def imported(path: Path) -> set[str]:
    """The heedful modules that a file imports when it is imported; not for types, and not later."""
    tree = ast.parse(path.read_text())
    types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    later = {id(n) for part in (*types, *functions) for n in ast.walk(part)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.startswith("heedful")
            and id(node) not in later
        ):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    above = {name for name in imported(path) if LEVEL[name] > LEVEL[own]}
    assert not above, f"{own} imports {above}"


def test_a_page_needs_no_torch() -> None:
    import subprocess
    import sys

    pages = "heedful.report, heedful.terminal, heedful.cli, heedful.reporting.reports, heedful.reporting.versus"
    code = f"import sys, {pages}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_loading_and_reading_know_hugging_face() -> None:
    knowing = {p.stem for p in FILES if "import transformers" in p.read_text() or "from transformers" in p.read_text()}
    assert knowing == {"loading"}
