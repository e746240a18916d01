"""Figures: every kind of explanation becomes one, nothing in a text can break it, and the same is drawn the same."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Counterfactual, Explanation, Interaction, Prediction, Source
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.core.tree import Edge, Tree
from heedful.report.figures import FIGURE_FORMATS, draw, draw_tree, encode, kind
from heedful.report.figures.bars import MAX_WORDS
from heedful.report.figures.maps import MAX_BINS, MAX_HEAD_BINS, MAX_HEAD_NAMES, tiled
from heedful.report.figures.sheet import AGAINST, BOX, FOR, WEIGHT, Letters
from tests.report.test_terminal import cut
from tests.support.parameters import mostly_thorough
from tests.support.patience import PATIENCE_SECONDS

SAID = Prediction(("bad", "good"), (-1.0, 2.0), (0.047, 0.953))
NASTY = "$x^2$ cost \\frac{1} $ 50% _under_ {brace} 日本語 👩‍👧 🎬 הסרט cafe\u0301 a\tb"


def common(method: str) -> dict[str, Any]:
    return {"prediction": SAID, "target": Target("good"), "source": Source(method, model="toy")}


def scored(tokens: Tokens, *scores: float, method: str = "by-hand", signed: bool = True) -> Attribution:
    found = np.array(scores or np.arange(len(tokens)) - len(tokens) / 2)
    return Attribution(tokens=tokens, scores=found if signed else np.abs(found), signed=signed, **common(method))


def weighed(tokens: Tokens, layers: int = 2, heads: int = 3, method: str = "attention-weights") -> Interaction:
    n = len(tokens)
    weights = np.random.default_rng(n).dirichlet(np.ones(n), (layers, heads, n))
    sign = np.where(np.arange(n) % 2, -1, 1) if method != "attention-weights" else 1
    return Interaction(tokens=tokens, weights=(weights * sign).astype(np.float32), **common(method))


def removed(tokens: Tokens, *positions: int) -> Counterfactual:
    outcome = Prediction(SAID.labels, (1.0, -1.0), (0.88, 0.12))
    return Counterfactual(tokens=tokens, removed=positions, outcome=outcome, masking="delete", **common("minimal"))


def grown(tokens: Tokens, *keys: int) -> Tree:
    edges = tuple(Edge(3 - i, 1 if i == 0 else keys[i - 1], key, 0.2, 0.5) for i, key in enumerate(keys))
    heights = {1: 1.0} | {key: 1 - (i + 1) / 4 for i, key in enumerate(keys)}
    return Tree(
        tokens=tokens, root=1, edges=edges, heights=heights, how="greedy", threshold=0.4, penalty=0.0,
        objective=0.6, layers=(0, 1, 2, 3), **common("attattr"),
    )  # fmt: skip


FILM = cut("not funny but warm film")
EVERY: dict[str, Any] = {
    "attribution": scored(FILM),
    "interaction": weighed(FILM),
    "one head": weighed(FILM, 1, 1),
    "counterfactual": removed(FILM, 1, 2),
}


def labels(axes: Axes, axis: str = "y") -> list[str]:
    return [tick.get_text() for tick in getattr(axes, f"get_{axis}ticklabels")()]


def written(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def bars(axes: Axes) -> list[tuple[float, str]]:
    found = next(c for c in axes.containers if isinstance(c, BarContainer))
    return [(float(bar.get_width()), to_hex(bar.get_facecolor())) for bar in found]


# files


@pytest.mark.parametrize("made", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_every_explanation_becomes_every_kind_of_file(made: Explanation, ending: str, magic: bytes) -> None:
    assert encode(made.plot(), ending).startswith(magic)


@pytest.mark.parametrize("ending", mostly_thorough(FIGURE_FORMATS, ("svg",)))
def test_the_same_explanation_gives_the_same_bytes(ending: str) -> None:
    whole = [*EVERY.values()][1:]
    assert encode(draw(whole), ending) == encode(draw(whole), ending)


@pytest.mark.parametrize("ending", ["pdf", "svg"])
def test_no_date_is_written(ending: str) -> None:
    assert b"Date" not in encode(draw(EVERY["counterfactual"]), ending).replace(b"dc:date", b"Date")


@pytest.mark.parametrize(("path", "found"), [("a.png", "png"), ("b/c.PDF", "pdf"), ("x.y.svg", "svg")])
def test_the_ending_of_the_file_chooses_the_kind(path: str, found: str) -> None:
    assert kind(path) == found


@pytest.mark.parametrize("path", ["figure", "a.jpg", "png", ".png.txt"])
def test_another_ending_is_refused(path: str) -> None:
    with pytest.raises(BadInput) as refused:
        kind(path)
    assert str(refused.value) == f"'{path}' does not end in .png, .pdf or .svg; give a figure one of these endings."


# no global state


def test_pyplot_and_the_style_of_the_caller_are_left_alone() -> None:
    before = dict(matplotlib.rcParams)
    encode(draw(EVERY["attribution"]), "png")
    assert dict(matplotlib.rcParams) == before


def test_the_style_of_the_caller_does_not_change_the_picture() -> None:
    plain = encode(draw(EVERY["attribution"]), "png")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "savefig.dpi": 20}):
        assert encode(draw(EVERY["attribution"]), "png") == plain


def test_a_notebook_is_given_a_picture() -> None:
    assert draw(EVERY["attribution"])._repr_png_().startswith(b"\x89PNG")


def test_without_matplotlib_one_sentence_says_what_to_do() -> None:
    code = """
import sys
sys.modules["matplotlib"] = None
import numpy as np
from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.core.tokens import Tokens
tokens = Tokens("a", None, (1,), ("a",), ((0, 1),), (0,), (0,))
try:
    Attribution(tokens=tokens, scores=np.ones(1)).plot()
except BadInput as e:
    print(e)
"""
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    ).stdout
    assert out == "figures need matplotlib; install it with: pip install 'heedful[figures]'\n"


# attributions


def test_words_stand_in_reading_order_without_special_tokens() -> None:
    assert labels(draw(scored(FILM)).axes[0]) == ["not", "funny", "but", "warm", "film"]


def test_bars_have_the_scores_and_the_colours_of_their_sign() -> None:
    figure = draw(scored(FILM, 9, -3.0, 0.5, 0.0, 2.0, 1.0, 9))
    assert bars(figure.axes[0]) == [(-3.0, AGAINST), (0.5, FOR), (0.0, FOR), (2.0, FOR), (1.0, FOR)]


def test_bars_without_direction_have_a_colour_of_their_own() -> None:
    assert {colour for _, colour in bars(draw(scored(FILM, signed=False)).axes[0])} == {WEIGHT}


def test_whiskers_are_one_standard_error_to_each_side() -> None:
    errors = np.linspace(0.1, 0.7, len(FILM))
    why = replace(scored(FILM), errors=errors)
    whiskers = next(c for c in draw(why).axes[0].containers if isinstance(c, ErrorbarContainer))
    ends = [segment[:, 0] for segment in whiskers.lines[2][0].get_segments()]
    assert np.array(ends) == pytest.approx(np.stack([why.scores - errors, why.scores + errors], 1)[1:-1])
    assert "whiskers: one standard error" in written(draw(why))


def test_methods_stand_side_by_side_on_one_row() -> None:
    figure = draw([scored(FILM, method=name) for name in ("a", "b", "c")])
    assert len({round(axes.get_position().y0, 6) for axes in figure.axes}) == 1
    assert [name for name in written(figure) if name in "abc"] == ["a", "b", "c"]


def test_many_methods_go_on_below_with_the_same_words() -> None:
    figure = draw([scored(FILM, method=f"m{i}") for i in range(7)])
    assert len({round(axes.get_position().y0, 6) for axes in figure.axes}) == 2
    named = [labels(axes) for axes in figure.axes if any(labels(axes))]
    assert named == [["not", "funny", "but", "warm", "film"]] * 2


def test_of_a_long_text_the_strongest_words_are_shown_and_that_is_said() -> None:
    tokens = cut(" ".join(f"w{i}" for i in range(100)))
    why = scored(tokens, *np.arange(102.0))
    assert labels(draw(why).axes[0]) == [f"w{i}" for i in range(100 - MAX_WORDS, 100)]
    assert f"the {MAX_WORDS} strongest of 100 words" in written(draw(why))


def test_details_are_written_below() -> None:
    why = replace(scored(FILM), details={"samples": 1000, "r2": 0.8312})
    assert "by-hand: 1,000 samples, R² 0.83" in written(draw(why))


# interactions


def test_all_heads_are_one_picture_with_every_weight_in_its_place() -> None:
    why = weighed(FILM)
    n, picture = len(FILM), tiled(weighed(FILM))
    for layer in range(2):
        for head in range(3):
            at = slice(layer * (n + 2), layer * (n + 2) + n), slice(head * (n + 2), head * (n + 2) + n)
            assert (picture[at] == why.weights[layer, head]).all()


def test_layers_keep_their_numbers() -> None:
    assert labels(draw(replace(weighed(FILM), layers=(4, 7))).axes[0]) == ["4", "7"]


def test_a_single_head_names_its_tokens() -> None:
    assert labels(draw(weighed(FILM, 1, 1)).axes[0]) == list(FILM.pieces)


def test_attention_and_its_attribution_stand_beside_each_other() -> None:
    figure = draw([weighed(FILM), weighed(FILM, method="attattr")])
    images = [axes for axes in figure.axes if axes.images]
    assert len({round(axes.get_position().y0, 6) for axes in images}) == 1
    assert [float(np.min(axes.images[0].norm.vmin or 0)) < 0 for axes in images] == [False, True]


def test_only_the_layers_that_were_attributed_are_shown_of_attention() -> None:
    other = replace(weighed(FILM, 1, method="attattr"), layers=(1,))
    figure = draw([weighed(FILM), other])
    assert [labels(axes) for axes in figure.axes if axes.images] == [["1"], ["1"]]


def test_long_texts_are_thinned_to_their_largest_weights() -> None:
    why = weighed(cut(" ".join(["w"] * 150)), 1, 2)
    picture = tiled(why)
    assert picture.shape == (MAX_BINS, 2 * MAX_BINS + 2)
    assert np.nanmax(picture) == why.weights.max()


@pytest.mark.parametrize(("heads", "columns"), [(2, 2), (6, 3), (8, 4)])
def test_the_heads_of_one_layer_are_large_maps_in_rows_that_name_tokens(heads: int, columns: int) -> None:
    why = weighed(FILM, 1, heads)
    maps = [axes for axes in draw(why).axes if axes.images]
    assert [np.asarray(axes.images[0].get_array()).tolist() for axes in maps] == why.weights[0].tolist()
    assert [labels(axes) == list(FILM.pieces) for axes in maps] == [n % columns == 0 for n in range(heads)]
    assert len({(axes.images[0].norm.vmin, axes.images[0].norm.vmax) for axes in maps}) == 1


def test_a_long_text_names_some_tokens_of_each_head_where_they_are() -> None:
    n = 3 * MAX_HEAD_BINS
    why = weighed(cut(" ".join(f"w{i}" for i in range(n - 2))), 1, 2)
    first = draw(why).axes[0]
    image = np.asarray(first.images[0].get_array())
    assert (image.shape, image.max()) == ((MAX_HEAD_BINS, MAX_HEAD_BINS), why.weights[0, 0].max())
    names = dict(zip(labels(first), first.get_yticks(), strict=True))
    assert len(names) <= MAX_HEAD_NAMES
    assert all(abs(place - (int(name[1:]) + 1) / 3) < 1 for name, place in names.items() if name[0] == "w")


def test_a_single_query_is_repeated_and_that_is_said() -> None:
    tokens = cut("a b c")
    why = Interaction(tokens=tokens, weights=np.full((1, 1, 1, 5), 0.2, np.float32), **common("attention-weights"))
    assert "one query attends to the whole text: its row is repeated" in written(draw(why))


# counterfactuals


def test_removed_words_are_struck_out() -> None:
    figure = draw(removed(FILM, 1, 2))
    struck = [text.get_text() for text in figure.texts if text.get_color() == AGAINST]
    assert (struck, len([a for a in figure.artists if isinstance(a, Line2D)])) == (["not", "funny"], 2)


def test_the_probabilities_before_and_after_are_drawn() -> None:
    before, after = (c for c in draw(removed(FILM, 1)).axes[0].containers if isinstance(c, BarContainer))
    assert [bar.get_width() for bar in before] == [0.953, 0.047]
    assert [bar.get_width() for bar in after] == [0.12, 0.88]


@pytest.mark.parametrize(
    ("exact", "found", "words"),
    [(True, True, "exact: no better set exists"), (False, True, "greedy: a better set may exist"),
     (True, False, "not found: every set was tried")],
)  # fmt: skip
def test_how_sure_the_search_is_is_said(exact: bool, found: bool, words: str) -> None:
    assert any(words in text for text in written(draw(replace(removed(FILM, 1), exact=exact, found=found))))


# trees


def test_nodes_stand_at_their_place_in_the_text_and_at_their_height() -> None:
    axes = draw_tree(grown(FILM, 4, 2)).axes[0]
    points = [np.asarray(line.get_xydata()) for line in axes.lines]
    spots = {(float(p[0, 0]), float(p[0, 1])) for p in points if len(p) == 1}
    assert spots == {(1.0, 1.0), (4.0, 0.75), (2.0, 0.5)}


def test_edges_are_as_wide_as_their_share() -> None:
    thin, wide = grown(FILM, 4), replace(grown(FILM, 4), edges=(Edge(3, 1, 4, 0.2, 1.0),))
    first, second = (draw_tree(tree).axes[0].patches[0].get_linewidth() for tree in (thin, wide))
    assert first < second


def test_every_token_is_named_below_the_tree() -> None:
    assert labels(draw_tree(grown(FILM, 4)).axes[0], "x") == list(FILM.pieces)


def test_the_root_is_marked() -> None:
    assert [text.get_text() for text in draw_tree(grown(FILM, 4)).axes[0].texts] == ["root: not"]


def test_a_root_alone_can_be_drawn() -> None:
    assert encode(draw_tree(grown(FILM)), "png")


def test_a_long_text_names_only_the_tokens_of_its_tree() -> None:
    tokens = cut(" ".join(f"w{i}" for i in range(100)))
    assert labels(draw_tree(grown(tokens, 90, 40)).axes[0], "x") == ["w0", "w39", "w89"]


def test_names_below_a_tree_do_not_touch() -> None:
    figure = draw_tree(grown(cut(" ".join(["unbelievably"] * 50)), 4))
    encode(figure, "png")
    boxes = [tick.get_window_extent() for tick in figure.axes[0].get_xticklabels()]
    assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))


# unruly texts


@pytest.mark.parametrize("ending", mostly_thorough(FIGURE_FORMATS, ("svg",)))
def test_no_sign_in_a_text_can_break_a_figure(ending: str) -> None:
    tokens = cut(NASTY)
    label = Prediction((NASTY, "b"), (1.0, 0.0), (0.7, 0.3))
    whole = [scored(tokens), weighed(tokens, 1, 1), replace(removed(tokens, 2), outcome=label)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encode(draw([replace(e, prediction=label, target=Target(NASTY)) for e in whole]), ending)
        encode(draw_tree(grown(tokens, 4)), ending)


def test_dollars_and_backslashes_are_shown_as_they_are() -> None:
    figure = draw(scored(cut(r"$a$ \frac")))
    assert labels(figure.axes[0]) == ["$", "a", "$", "\\", "frac"]
    assert not any(tick.get_parse_math() for tick in figure.axes[0].get_yticklabels())


def test_what_no_font_has_becomes_one_box() -> None:
    letters = Letters(("DejaVu Sans",), frozenset(map(ord, "film ")))
    assert letters.safe("film 👩‍👧 日") == f"film {BOX} {BOX}"


def test_white_space_and_control_signs_leave_one_line() -> None:
    assert Letters.of([""]).safe("a\n\tb\x1b[31m") == f"a b{BOX}[31m"


def test_long_words_are_cut_with_an_ellipsis() -> None:
    assert Letters.of([""]).safe("x" * 50, 10) == "x" * 9 + "…"


# what cannot be drawn


def test_no_explanation_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^there is no explanation to draw; give at least one\.$"):
        draw([])


def test_two_texts_in_one_figure_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^a figure shows one text; draw each text separately\.$"):
        draw([scored(FILM), scored(cut("another"))])
