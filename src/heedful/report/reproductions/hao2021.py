"""The sections of Hao et al. 2021: attribution trees, and head pruning in each layer."""

from __future__ import annotations

from dataclasses import replace

from heedful.core.tree import Tree
from heedful.report.charts import Words
from heedful.report.charts.frame import figure
from heedful.report.charts.svg import CHART_WIDTH, element, escaped
from heedful.report.document import Figure, Section
from heedful.report.phrases import prediction_text
from heedful.report.reproductions import data_namer, further_sections
from heedful.report.tree_layout import TreeLayout, lay_out, tree_facts
from heedful.studies.outcome import Outcome

PRUNING = "pruning "  # before the data set, in the names of parts
SLANTED = 16  # left of the first token, whose name is slanted


def sections(outcome: Outcome) -> list[Section]:
    """Trees; then for each data set the heads of each layer, removed one by one."""
    named = data_namer(outcome)
    layers = [
        replace(section, tables=())  # the study's own report has them
        for part in outcome.result.parts
        if part.startswith(PRUNING)
        for section in further_sections(outcome, part, named(part.removeprefix(PRUNING)))
    ]
    return [*_trees(outcome), *layers]


def _trees(outcome: Outcome) -> list[Section]:
    """The tree of a sentence, or of a pair, for each data set."""
    named = data_namer(outcome)
    trees = {named(data): Tree.from_dict(stored) for data, stored in outcome.result.details.get("trees", {}).items()}
    if not trees:
        return []
    findings = [
        f"{data}: predicted {prediction_text(tree.prediction)}; {tree_facts(tree)[0]}." for data, tree in trees.items()
    ]
    return [
        Section(
            name="trees",
            title="Attribution trees",
            question="How does information flow from the words to the prediction?",
            findings=tuple(findings),
            figures=tuple(tree_figure(data, tree) for data, tree in trees.items()),
            reading="An edge leads from a token to the one that attends to it; its width is its share of the largest "
            "attribution of its layer. The root is at the top.",
        )
    ]


def tree_figure(name: str, tree: Tree) -> Figure:
    """An attribution tree as a chart, each token at its place in the text."""
    layout = lay_out(tree)
    links = [line.words.replace("\n", ", ") for line in layout.lines]
    root = next((node.text for node in layout.nodes if node.root), "")
    alt = f"The root is {root}. {'; '.join(links)}."
    words = Words(f"tree-{name}", f"Attribution tree, {name}", "", caption="Each token at its place in the text.")
    shapes = f'<g transform="translate({SLANTED})">{_shapes(layout)}</g>'
    return figure(words, layout.height, shapes, alt, max(CHART_WIDTH, layout.width + SLANTED))


def _shapes(layout: TreeLayout) -> str:
    lines = [
        element(
            "path",
            {"class": "c-s0 c-stroke", "d": line.curve, "fill": "none", "stroke-width": f"{line.width:.1f}"},
            f"<title>{escaped(line.words)}</title>",
        )
        for line in layout.lines
    ]
    dots = [
        element("circle", {"class": "c-s0", "cx": node.x, "cy": node.y, "r": 4.5 if node.root else 3.0})
        for node in layout.nodes
        if node.inside
    ]
    bottom = max(node.y for node in layout.nodes) + 14
    names = [
        element(
            "text",
            {
                "class": "c-end" if node.inside else "c-soft c-end",
                "x": node.x,
                "y": bottom,
                "transform": f"rotate(-60 {node.x:.1f} {bottom:.1f})",
            },
            escaped(node.text),
        )
        for node in layout.nodes
    ]
    return "".join([*lines, *dots, *names])
