"""The drawing of a network: its boxes carry the network's sizes, and no arrow runs through a box."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from heedful.cli import main
from heedful.core.errors import Unsupported
from heedful.nets import MultiHeadShape
from heedful.nets.training.recipes import RECIPES
from heedful.report.figures import draw_network
from heedful.report.figures.network import DIAGRAMS, Diagram, Grid
from heedful.report.figures.sheet import Picture

DRAWN = ("multihead", "multihead-6", "bilstm", "average", "bilstm-uniform", "mlp-given", "transformer")


def diagram(recipe: str, **more: Any) -> Diagram:
    settings = RECIPES[recipe].settings()
    return DIAGRAMS[settings.model_type](asdict(settings) | more)


def words(figure: Picture) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_boxes_carry_the_sizes_of_the_network() -> None:
    shape = MultiHeadShape(50, 3, ("a", "b", "c"), embedding=10, attention=6, value=4, heads=5)
    sizes = {box.name: box.size for box in DIAGRAMS["multihead"](vars(shape)).boxes}
    assert sizes == {
        "tokens": "T ≤ 256", "word vectors + positions": "T × 10", "query": "6", "keys": "T × 6", "values": "T × 4",
        "attention": "T", "weighted sum": "4", "output of the head": "3", "logits": "3",
    }  # fmt: skip
    shown = words(draw_network("multihead", vars(shape)))
    assert {"5 heads", "αₜ = softmaxₜ(q · kₜ / √6)", "mean over heads: a, b, c"} <= set(shown)


@pytest.mark.parametrize("recipe", DRAWN)
def test_a_box_reads_boxes_above_it_and_all_but_the_last_are_read(recipe: str) -> None:
    boxes = diagram(recipe).boxes
    assert all(boxes[source].row < box.row for box in boxes for source in box.reads)
    assert {source for box in boxes for source in box.reads} == set(range(len(boxes) - 1))


@pytest.mark.parametrize("recipe", DRAWN)
def test_no_arrow_runs_through_a_box_and_each_meets_both_of_its_own(recipe: str) -> None:
    drawn = diagram(recipe)
    grid = Grid(piled=bool(drawn.groups))
    settings = RECIPES[recipe].settings()
    axes = draw_network(settings.model_type, asdict(settings)).axes[0]
    arrows = iter([patch for patch in axes.patches if hasattr(patch, "_posA_posB")])
    for box in drawn.boxes:
        for source in box.reads:
            (x, start), (_, end) = next(arrows)._posA_posB
            crossed = [
                b.name
                for b in drawn.boxes
                for left, top, width, height in [grid.frame(b)]
                if left <= x <= left + width and start - 1e-9 <= top + height and top <= end + 1e-9
            ]
            assert crossed == [drawn.boxes[source].name, box.name]


@pytest.mark.parametrize("recipe", DRAWN)
def test_every_text_of_a_box_fits_into_it(recipe: str) -> None:
    settings = RECIPES[recipe].settings()
    drawn, figure = diagram(recipe), draw_network(settings.model_type, asdict(settings))
    canvas: Any = figure.canvas
    axes, grid = figure.axes[0], Grid(piled=bool(drawn.groups))
    texts = [text for text in axes.texts if not text.get_rotation()]
    inches = [text.get_window_extent(canvas.get_renderer()).width / figure.dpi for text in texts]
    for box, name, formula, size in zip(drawn.boxes, inches[::3], inches[1::3], inches[2::3], strict=True):
        room = grid.frame(box)[2] - 0.16
        assert name + size < room, box
        assert formula < room, box


def test_a_last_state_that_is_read_has_no_attention() -> None:
    assert [box.name for box in diagram("bilstm", attention="none").boxes][-1] == "logits"
    assert "attention" not in {box.name for box in diagram("bilstm", attention="none").boxes}


def test_a_network_without_a_drawing_is_refused() -> None:
    with pytest.raises(Unsupported, match="han-rnn has no drawing; there are drawings of multihead, single, transf"):
        draw_network("hierarchical", {}, "han-rnn")


def test_the_command_draws_a_recipe_and_needs_its_name(tmp_path: Path) -> None:
    file = tmp_path / "network.svg"
    done = CliRunner().invoke(main, ["recipes", "multihead-6", "--figure", str(file)])
    assert (done.exit_code, done.stderr, file.read_bytes()[:5]) == (0, f"wrote {file}\n", b"<?xml")
    refused = CliRunner().invoke(main, ["recipes", "--figure", str(file)])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
