"""The documentation is under test: its code runs, and nothing public is missing from it."""

from __future__ import annotations

import pkgutil
import re
import shlex
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import heedful
from heedful.checks import CHECKS
from heedful.cli import main
from heedful.methods import METHODS
from heedful.model import edits
from heedful.studies import STUDIES
from tests.support.parameters import mostly_thorough

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILES = {"heedful.json", "heedful.py"}  # names of files, not of things to import
ALL = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
# lines of a page or the demo that give sentences to a model, in a command or in code
CALLS = re.compile(r'^.*(?:\b(?:explain\w*|tree|tokens)\b.*|\btexts? = .*|"A [a-z ]+": )"[A-Z].*$', re.MULTILINE)
SENTENCES = {
    "The jokes are tired, but the two leads are a delight.": "positive",
    "The jokes are tired, but the two leads are a delight from start to finish.": "positive",
    "I did not want it to end.": "positive",
    "The plot is a mess and the acting is wooden.": "negative",
    "A warm, funny film that I did not want to end.": "positive",
    "A slow start and a wonderful end.": "positive",
    "A slow start.": "negative",
    "A slow start. The music is wonderful. I did not want it to end.": "positive",
    "Dull, and far too long.": "negative",
    "The story is thin but the music is wonderful.": "positive",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec", dont_inherit=True), names)  # as a reader runs it


@pytest.mark.parametrize("page", mostly_thorough(PAGES, PAGES[:1]), ids=lambda p: p.name)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(?:bash|sh)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in "\n".join(blocks).splitlines():
        if line.startswith("heedful "):
            result = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
            assert result.exit_code == 0, f"{line}: {result.output}"


def test_the_embedded_model_is_right_about_every_sentence_of_the_pages_and_the_demo() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (*PAGES, ROOT / "scripts" / "demo.py", ROOT / "Makefile")]
    lines = [line for source in sources for line in CALLS.findall(source)]
    assert {text for line in lines for text in re.findall(r'"([A-Z][^"]+[.!?])"', line)} == set(SENTENCES)
    classifier = heedful.load()
    predictions = classifier.predictions([classifier.tokens(text) for text in SENTENCES])
    assert {text: p.label for text, p in zip(SENTENCES, predictions, strict=True)} == SENTENCES


@pytest.mark.thorough
def test_the_witnesses_of_the_embedded_model_are_as_far_as_the_page_of_checks_says() -> None:
    audit = heedful.audit(None, "corpus", ["attention-mean"], ["adversarial"], limit=16)
    means = [
        fmean(row.mean for row in audit.rows("adversarial", measure) if row.at["delta"] == 0.05)
        for measure in ("jsd witness", "jsd bound")
    ]
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert "{:.2f} against {:.2f} at δ = .05".format(*means) in page


@pytest.mark.thorough
def test_under_two_aspects_attention_is_on_the_clause_and_leave_one_out_on_the_adjective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page of networks says of its example; its decimals may differ on another machine."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "aspects" in code), names)
    assert names["aspects"].test["accuracy"] > 0.97
    rows = []
    for example in names["splits"].test:  # the noun was adjective but the noun was adjective
        noun = example.text.split().index(example.pair)
        pair = [(example.text, example.pair)]
        whys = heedful.explain(names["aspects"].classifier, pair, ["attention-mean", "leave-one-out"]).by("word")
        attention, change = (np.array([score for _, score in why.as_list()[:9]]) for why in whys)  # type: ignore[attr-defined]
        own, other = noun + 2, 9 - noun
        rows.append(
            (attention[noun : own + 1].sum(), attention[own], attention[other], change[own], abs(change[other]))
        )
    clause, own_attention, other_attention, own_change, other_change = np.mean(rows, axis=0)
    assert clause > 0.9
    assert other_attention < 0.01 < own_attention < 0.6
    assert own_change > 3 * other_change


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_in_the_table(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_a_section_with_its_measures(name: str) -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    missing = [measure for measure in CHECKS[name].measures if f"`{measure}`" not in sections[name]]
    assert f"| `{name}` |" in page
    assert not missing


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_row_and_a_section(name: str) -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page
    assert f"\n## {name}\n" in page
    assert f"`{name}`" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_is_documented(name: str) -> None:
    assert f"heedful {name}" in ALL


@pytest.mark.parametrize(
    "name", ["uniform", "permuted", "scaled", "without_heads", "without_positions", "replaced", "at", "then"]
)
def test_every_edit_is_documented(name: str) -> None:
    assert callable(getattr(edits, name))
    assert f"edits.{name}" in ALL


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", ALL))))
def test_links_inside_the_project_lead_somewhere(link: str) -> None:
    if not link.startswith("http"):
        assert any((folder / link).exists() for folder in (ROOT, ROOT / "docs"))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\bheedful(?:\.[A-Za-z_]\w*)+", ALL)) - FILES))
def test_paths_in_the_documents_resolve(path: str) -> None:
    assert pkgutil.resolve_name(path) is not None


# what users rely on: names may be added, and none taken away


def test_public_names_exist_and_stay() -> None:
    promised = {
        "CHECKS", "METHODS", "RECIPES", "Attribution", "Audit", "BadInput", "Batch", "Check", "Classifier",
        "Counterfactual", "Edit", "Example", "Explanation", "Explanations", "Finding", "HeedfulError", "Interaction",
        "Method", "Plain", "Prediction", "Site", "Source", "Splits", "Target", "Tokens", "Trained", "Tree",
        "Unsupported", "audit", "check", "edits", "explain", "explain_all", "from_json", "load", "method", "train",
        "tree",
    }  # fmt: skip
    assert promised <= set(heedful.__all__)
    assert [name for name in heedful.__all__ if getattr(heedful, name) is None] == []


def test_commands_stay() -> None:
    promised = {
        "audit", "capabilities", "checks", "compare", "explain", "methods", "recipes", "report", "theory", "train",
        "translate", "tree",
    }  # fmt: skip
    assert promised <= set(main.commands)


def test_groups_of_entry_points_stay() -> None:
    assert {catalogue.plural for catalogue in (heedful.METHODS, heedful.CHECKS, heedful.RECIPES)} == {
        "methods",
        "checks",
        "recipes",
    }


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
