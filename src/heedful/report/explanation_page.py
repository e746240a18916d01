"""Explanation page: explanations in, HTML out. Needs no torch.

explanation_page, tree_page           one self-contained document, which loads nothing and contains its own data
explanation_fragment, tree_notebook   a fragment without script, for a cell of Jupyter

Pure functions prepare small frozen records; the templates only lay them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import jinja2

from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Counterfactual, Explanation, Interaction, Prediction, Source
from heedful.core.tokens import Tokens
from heedful.core.tree import Tree, grow
from heedful.report import html
from heedful.report.explanation_rows import (
    MAX_CELLS,
    ColouredRun,
    Map,
    MethodRow,
    Removal,
    by_unit,
    comparison,
    headline,
    heat_map,
    label_rows,
    matching_maps,
    number_repeats,
    removal,
    row,
)
from heedful.report.phrases import prediction_text, score_text
from heedful.report.tree_layout import TreeLayout, lay_out, tree_facts, walk


@dataclass(frozen=True)
class TextSection:
    """Everything the page shows about one text. `labels` are (name, probability or None, logit), largest first."""

    tokens: Tokens
    headline: str
    labels: list[tuple[str, float | None, float]]
    models: list[str]
    targets: list[str]
    warnings: list[str]
    notes: list[str]
    rows: list[MethodRow] = field(default_factory=list)
    lines: list[tuple[ColouredRun, list[ColouredRun | None]]] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)
    trees: list[TreeLayout] = field(default_factory=list)

    @property
    def unit(self) -> str:
        """What the page calls a unit: a sentence where all methods scored sentences."""
        units = {r.why.unit for r in self.rows}
        return units.pop() if len(units) == 1 else "word" if self.tokens.unit == "token" else self.tokens.unit


def explanation_page(explanations: Sequence[Explanation]) -> str:
    """One HTML document: a section per text, the methods side by side, the heads, and what was run."""
    groups = _by_text(explanations)
    cells = MAX_CELLS // max(1, sum(isinstance(e, Interaction) for e in explanations))
    sections = [replace(text_section(group), maps=_maps(group, cells), trees=_trees(group)) for group in groups]
    return _page(sections, [e.source for e in explanations])


def tree_page(why: Tree) -> str:
    """One HTML document with an attribution tree, drawn and as a list."""
    section = TextSection(
        tokens=why.tokens,
        headline=headline(why.prediction),
        labels=label_rows(why.prediction),
        models=_unique([why.source.model]),
        targets=[str(why.target)],
        warnings=_unique([why.tokens.notice]),
        notes=[],
        trees=[lay_out(why)],
    )
    return _page([section], [why.source])


def _page(sections: Sequence[TextSection], sources: Sequence[Source]) -> str:
    # the results as `to_dict` writes them: `from_dict` reads the raw scores back from the page
    data = {
        "attributions": [[row.why.to_dict() for row in s.rows] for s in sections],
        "counterfactuals": [[r.why.to_dict() for r in s.removals] for s in sections],
        "trees": [[grown.why.to_dict() for grown in s.trees] for s in sections],
        "maps": [[m.data for m in s.maps] for s in sections],
    }
    return html.render_page(
        _templates(), "page.html.j2", "page.js", sections=sections, sources=ran(sources), data=html.script_json(data)
    )


def _maps(group: Sequence[Explanation], cells: int) -> list[Map]:
    """Each heat map, with the number of the one that is shown beside it."""
    maps = [e for e in group if isinstance(e, Interaction)]
    mates = matching_maps(maps)
    drawn = [heat_map(e, cells) for e in maps]
    return [replace(m, data=m.data | {"mate": mates.get(i)}) for i, m in enumerate(drawn)]


def _trees(group: Sequence[Explanation]) -> list[TreeLayout]:
    """The trees of attention attributions."""
    square = [e for e in group if isinstance(e, Interaction) and e.weights.shape[2] == len(e.tokens)]
    return [lay_out(grow(e)) for e in square if e.method == "attattr"]


def explanation_fragment(explanations: Sequence[Explanation], skipped: Iterable[str] = ()) -> str:
    """A fragment with the prediction and the coloured text of each method: no script, no class, no id."""
    interactions = [e for e in explanations if isinstance(e, Interaction)]
    sections = [text_section(group) for group in _by_text(explanations)]
    return _fragment(sections=sections, interactions=interactions, skipped=list(skipped))


def tree_notebook(why: Tree) -> str:
    """The same for an attribution tree, as an indented list."""
    return _fragment(tree=why, said=prediction_text(why.prediction), facts=tree_facts(why), nodes=list(walk(why)))


def _fragment(**values: Any) -> str:
    return _templates().get_template("notebook.html.j2").render(**values)


def text_section(group: Sequence[Explanation]) -> TextSection:
    """Everything about one text but its heat maps and trees."""
    prediction = next((e.prediction for e in group if e.prediction.logits), Prediction())
    attributions = [e for e in group if isinstance(e, Attribution)]
    names = number_repeats([a.method or "unnamed" for a in attributions])
    return TextSection(
        tokens=group[0].tokens,
        headline=headline(prediction),
        labels=label_rows(prediction),
        models=_unique(e.source.model for e in group),
        targets=_unique(str(e.target) for e in group),
        warnings=_unique(e.truncation for e in group),
        notes=_unique(f"{e.method}: {note}" for e in group for note in e.notes),
        rows=[row(a, name) for a, name in zip(attributions, names, strict=True)],
        lines=comparison([by_unit(a) for a in attributions]),
        removals=[removal(e) for e in group if isinstance(e, Counterfactual)],
    )


def ran(sources: Iterable[Source]) -> list[tuple[Source, list[Source]]]:
    """The methods run, grouped by model, seed and versions; without the cost, which differs from text to text."""
    groups: dict[str, tuple[Source, dict[str, Source]]] = {}
    for source in sources:
        run = replace(source, forwards=0, backwards=0, windows=1)
        shared = replace(run, method="", settings={})
        groups.setdefault(repr(shared), (shared, {}))[1][repr(run)] = run
    return [(shared, list(runs.values())) for shared, runs in groups.values()]


def _by_text(explanations: Sequence[Explanation]) -> list[list[Explanation]]:
    if not explanations:
        raise BadInput("there is no explanation to show; give at least one.")
    groups: dict[tuple[str, str | None], list[Explanation]] = {}
    for e in explanations:
        groups.setdefault((e.tokens.text, e.tokens.pair), []).append(e)
    return list(groups.values())


def _unique(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


@cache
def _templates() -> jinja2.Environment:
    return html.environment({"number": score_text})
