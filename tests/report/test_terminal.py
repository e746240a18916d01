"""What a terminal shows, from explanations made by hand."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from heedful.core.explanation import Attribution, Counterfactual, Explanation, Interaction, Prediction, Source
from heedful.core.target import Target
from heedful.core.tokens import Tokens, word_spans
from heedful.core.tree import Edge, Tree
from heedful.report.terminal import AGAINST, SUPPORTS, UNSIGNED, clean, show_explanations, show_tree

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def cut(text: str, pair: str | None = None) -> Tokens:
    """One token for each word, between [CLS] and [SEP]."""
    spans = [(s, 0) for s in word_spans(text)] + [(s, 1) for s in word_spans(pair or "")]
    texts = (text, pair or "")
    return Tokens(
        text=text,
        pair=pair,
        ids=tuple(range(len(spans) + 2)),
        pieces=("[CLS]", *(texts[segment][slice(*span)] for span, segment in spans), "[SEP]"),
        spans=(None, *(span for span, _ in spans), None),
        words=(None, *range(len(spans)), None),
        segments=(None, *(segment for _, segment in spans), None),
    )


def made(tokens: Tokens, *scores: float, signed: bool = True, labels: tuple[str, ...] = ("bad", "good")) -> Attribution:
    """An attribution with these scores for the words and 9 for the special tokens, which no one should see."""
    logits = tuple(float(i) for i in range(len(labels)))
    chances = tuple(float(x) for x in np.exp(logits) / np.exp(logits).sum())
    return Attribution(
        tokens=tokens,
        scores=np.array([9, *scores, 9]),
        signed=signed,
        prediction=Prediction(labels, logits, chances),
        target=Target(labels[-1]),
        source=Source(method="by-hand", model="toy"),
    )


def plain(*explanations: Explanation, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show_explanations(explanations, console)
    return shown(console)


def colour(*explanations: Explanation, width: int = 80, no_color: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, highlight=False, no_color=no_color, force_terminal=True,
        color_system="truecolor",
    )  # fmt: skip
    show_explanations(explanations, console)
    return shown(console)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def styles(output: str, word: str) -> set[str]:
    """The codes that stand before the first appearance of a word."""
    found = re.search(rf"\x1b\[([0-9;]*)m{re.escape(word)}", output)
    return set() if found is None else set(re.findall(r"[34]8;2;\d+;\d+;\d+|\d+", found[1]))


def ground(hue: tuple[int, int, int]) -> str:
    return "48;2;{};{};{}".format(*hue)


def ink(hue: tuple[int, int, int]) -> str:
    return "38;2;{};{};{}".format(*hue)


UNDERLINE = "4"
FILM = cut("not funny but warm film")


# colour


def test_the_strongest_support_is_filled_with_blue() -> None:
    assert ground(SUPPORTS) in styles(colour(made(FILM, 0, 0, 0, 2, 0)), "warm")


def test_the_strongest_word_against_is_filled_with_orange() -> None:
    assert ground(AGAINST) in styles(colour(made(FILM, -3, 0, 0, 2, 0)), "not")


@pytest.mark.parametrize("score", [-1.0, -0.6, -0.2])
def test_what_speaks_against_is_underlined_at_every_strength(score: float) -> None:
    assert UNDERLINE in styles(colour(made(FILM, score, 0, 0, 1, 0)), "not")


def test_what_supports_is_not_underlined() -> None:
    assert UNDERLINE not in styles(colour(made(FILM, 0, 0, 0, 1, 0)), "warm")


def test_a_weak_word_has_coloured_letters_and_no_box() -> None:
    found = styles(colour(made(FILM, 0, 0.3, 0, 1, 0)), "funny")
    assert (ink(SUPPORTS) in found, [s for s in found if s.startswith("48")]) == (True, [])


def test_a_negligible_word_has_no_colour() -> None:
    assert styles(colour(made(FILM, 0, 0.05, 0, 1, 0)), "funny") == set()


def test_scores_without_a_sign_have_a_colour_of_their_own() -> None:
    assert ground(UNSIGNED) in styles(colour(made(FILM, 0, 0, 0, 1, 0, signed=False)), "warm")


def test_letters_on_every_filled_box_can_be_read() -> None:
    """WCAG 2: at least 4.5 for black letters."""

    def luminance(hue: tuple[int, int, int]) -> float:
        linear = [c / 12.92 if (c := v / 255) <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for v in hue]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    assert min((luminance(hue) + 0.05) / 0.05 for hue in (SUPPORTS, AGAINST, UNSIGNED)) >= 4.5


def test_colour_changes_no_letter() -> None:
    first = ESCAPE.sub("", colour(made(FILM, -1, 0.5, 0, 1, 0.2)))
    assert "by-hand  not funny but warm film" in first


def test_no_color_shows_numbers() -> None:
    output = colour(made(FILM, -1, 0, 0, 0.5, 0), no_color=True)
    assert ("not(−1.00) funny but warm(+0.50) film" in output, "8;2;" in output) == (True, False)


@pytest.mark.parametrize("system", ["standard", "256"])
def test_for_and_against_differ_on_terminals_with_few_colours(system: str) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=system)  # type: ignore[arg-type]
    show_explanations([made(FILM, -1, 0, 0, 1, 0)], console)
    against, support = (re.search(rf"\x1b\[([0-9;]*)m{word}", shown(console)) for word in ("not", "warm"))
    assert against is not None
    assert support is not None
    assert {*against[1].split(";")} - {UNDERLINE} != {*support[1].split(";")}


@pytest.mark.parametrize(("score", "signed"), [(0.3, True), (-0.3, True), (0.3, False)])
def test_coloured_letters_are_never_black_or_white_with_sixteen_colours(score: float, signed: bool) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    show_explanations([made(FILM, score, 0, 0, 1, 0, signed=signed)], console)
    letters = styles(shown(console), "not") - {UNDERLINE}
    assert (len(letters), letters & {"30", "37", "90", "97"}) == (1, set())


# without colour


def test_strong_words_carry_their_share_of_the_strongest() -> None:
    assert "not(−1.00) funny but(−0.50) warm(+0.75) film" in plain(made(FILM, -4, 0.1, -2, 3, 0))


def test_words_without_a_sign_carry_none() -> None:
    assert "not funny but warm(1.00) film" in plain(made(FILM, 0, 0, 0, 3, 0, signed=False))


def test_a_text_without_any_score_is_shown_as_it_is() -> None:
    assert "by-hand  not funny but warm film" in plain(made(FILM, 0, 0, 0, 0, 0))


# the frame


def test_the_prediction_comes_first() -> None:
    assert plain(made(FILM, 0, 0, 0, 1, 0)).splitlines()[0].rstrip() == "toy predicts good (73.1%)"


def test_labels_are_listed_from_the_most_probable() -> None:
    lines = plain(made(FILM, 0, 0, 0, 1, 0)).splitlines()[1:3]
    assert [line.split()[0] for line in lines] == ["good", "bad"]


def test_many_labels_are_counted_instead_of_listed() -> None:
    assert "… and 15 more labels" in plain(made(FILM, 0, 0, 0, 1, 0, labels=tuple(f"L{i}" for i in range(20))))


def test_a_regression_shows_its_number() -> None:
    number = replace(made(FILM, 0, 0, 0, 1, 0), prediction=Prediction(("stars",), (3.25,), None))
    assert plain(number).splitlines()[0].rstrip() == "toy predicts stars = 3.250"


def test_what_was_explained_is_said() -> None:
    against = replace(made(FILM, 0, 0, 0, 1, 0), target=Target("good", "probability", "bad"))
    assert "explained: probability of good against bad" in plain(against)


def test_base_and_gap_are_shown_where_a_method_has_them() -> None:
    assert "base 0.500 + scores 19.000, gap 1.0e−03" in plain(replace(made(FILM, 0, 0, 0, 1, 0), base=0.5, gap=1e-3))


def test_notes_are_shown() -> None:
    assert "baseline: mask token" in plain(replace(made(FILM, 0, 0, 0, 1, 0), notes=("baseline: mask token",)))


def test_a_cut_is_noticed_and_marked() -> None:
    tokens = replace(FILM, dropped=7, total=12)
    output = plain(made(tokens, 0, 0, 0, 1, 0), width=100)
    notice = "Notice: the model reads 5 of this text's 12 tokens: the other 7 were cut off."
    assert (notice in output, "film …" in output) == (True, True)


def test_both_texts_of_a_pair_are_shown_on_lines_of_their_own() -> None:
    lines = plain(made(cut("one film", "two films"), 0, 1, 0, -1)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("by-hand"))
    assert [line.strip() for line in lines[at : at + 2]] == ["by-hand  one film(+1.00)", "two films(−1.00)"]


def matrices() -> Interaction:
    weights = np.full((2, 3, 7, 7), 1 / 7, dtype=np.float32)
    return Interaction(tokens=FILM, weights=weights, prediction=Prediction(("good",), (1.0,), (0.7,)))


def test_matrices_are_measured_instead_of_drawn() -> None:
    assert "2 layers × 3 heads of self attention, 7 × 7 tokens: see them with --html" in plain(matrices(), width=100)


@pytest.mark.parametrize("render", [plain, colour])
@pytest.mark.parametrize(
    ("signed", "legend"),
    [
        ((True,), {"supports", "opposes"}),
        ((False,), {"direction"}),
        ((True, False), {"supports", "opposes", "direction"}),
    ],
)
def test_the_legend_explains_what_is_shown_and_no_more(
    render: Callable[..., str], signed: tuple[bool, ...], legend: set[str]
) -> None:
    output = ESCAPE.sub("", render(*(made(FILM, 0, 0, 0, 1, 0, signed=s) for s in signed)))
    assert {"supports", "opposes", "direction"} & set(output.split()) == legend


def test_matrices_alone_need_no_legend() -> None:
    assert "scaled" not in plain(matrices())


def test_standard_errors_stand_beside_the_numbers_on_the_same_scale() -> None:
    why = replace(made(FILM, -4, 0, 0, 3, 0), errors=np.array([0, 0.4, 0, 0, 0.2, 0, 0]))
    assert "not(−1.00±0.10) funny but warm(+0.75±0.05) film" in plain(why)


def test_details_are_shown_in_a_line() -> None:
    why = replace(made(FILM, 0, 0, 0, 1, 0), details={"samples": 1000, "r2": 0.8312, "by_layer": [1, 2]})
    assert "1,000 samples, R² 0.83\n" in re.sub(" +\n", "\n", plain(why))


def test_the_largest_gap_of_a_layer_is_shown() -> None:
    assert "gap of a layer at most 2.0e−02" in plain(replace(matrices(), gaps=(0.001, -0.02)), width=100)


# counterfactuals


def without(*removed: int, exact: bool = False, found: bool = True) -> Counterfactual:
    prediction = Prediction(("bad", "good"), (0.0, 1.0), (0.27, 0.73))
    outcome = Prediction(("bad", "good"), (1.0, 0.0), (0.812, 0.188))
    return Counterfactual(
        tokens=FILM, removed=removed, outcome=outcome, masking="delete", prediction=prediction,
        source=Source(method="minimal", model="toy"), exact=exact, found=found,
    )  # fmt: skip


def test_removed_words_are_between_tildes_where_there_is_no_colour() -> None:
    assert "minimal  not funny but ~~warm~~ film" in plain(without(4))


def test_removed_words_are_struck_out_in_colour() -> None:
    output = colour(without(4))
    assert ("9" in styles(output, "warm"), "~~" in output) == (True, False)


@pytest.mark.parametrize(
    ("removed", "words"),
    [((4,), "without this word the model predicts bad (81.2%)"),
     ((1, 4), "without these 2 words the model predicts bad (81.2%)"),
     ((), "no word was removed; the model predicts bad (81.2%)")],
)  # fmt: skip
def test_what_the_model_says_without_the_words_is_said(removed: tuple[int, ...], words: str) -> None:
    assert words in plain(without(*removed))


@pytest.mark.parametrize(
    ("exact", "found", "words"),
    [(True, True, "exact: no better set exists"), (False, True, "greedy: a better set may exist"),
     (True, False, "not found: every set was tried"),
     (False, False, "not found: the search was greedy, so one may exist")],
)  # fmt: skip
def test_how_sure_the_search_is_is_said(exact: bool, found: bool, words: str) -> None:
    assert f"{words}; removed by: delete" in plain(without(4, exact=exact, found=found), width=120)


# trees


def grown(*edges: Edge, tokens: Tokens = FILM) -> Tree:
    heights = {1: 1.0} | {edge.key: 0.5 for edge in edges}
    return Tree(
        tokens=tokens, root=1, edges=edges, heights=heights, how="greedy", threshold=0.4, penalty=0.0, objective=0.6,
        layers=(0, 1), prediction=Prediction(("bad", "good"), (0.0, 1.0), (0.27, 0.73)), source=Source(model="toy"),
    )  # fmt: skip


def planted(tree: Tree) -> str:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    show_tree(tree, console)
    return re.sub(" +\n", "\n", shown(console))


def test_a_tree_grows_down_from_its_root_in_reading_order() -> None:
    output = planted(grown(Edge(1, 1, 5, 0.2, 0.9), Edge(1, 1, 2, 0.2, 0.8), Edge(0, 2, 3, 0.2, 0.412)))
    assert (
        "not  the root\n├── funny  layer 1, share 0.80\n│   └── but  layer 0, share 0.41\n"
        "└── film  layer 1, share 0.90\n"
    ) in output


def test_a_tree_says_how_it_was_made() -> None:
    output = planted(grown(Edge(1, 1, 5, 0.2, 0.9)))
    assert "1 edge, built by greedy search" in output
    assert "edges above 0.4 of the largest edge of their layer; objective +0.6" in output


def test_a_tree_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in planted(grown(tokens=cut("\x1b[31m [bold]x[/bold]")))


# unruly content


@pytest.mark.parametrize("code", ["\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\r", "\x08"])
def test_control_characters_are_replaced(code: str) -> None:
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in clean(f"a{code}b"))


def test_line_ends_and_tabs_are_kept() -> None:
    assert clean("a\n\tb") == "a\n\tb"


STEER = "\x1b[31m"


@pytest.mark.parametrize(
    "unruly",
    [
        made(cut(f"a {STEER} film"), *[1.0] * (len(cut(f"a {STEER} film")) - 2)),
        made(FILM, 0, 0, 0, 1, 0, labels=("bad", f"{STEER}good")),
        replace(made(FILM, 0, 0, 0, 1, 0), source=Source(method=f"{STEER}m", model="toy")),
        replace(made(FILM, 0, 0, 0, 1, 0), source=Source(method="m", model=f"{STEER}toy")),
        replace(made(FILM, 0, 0, 0, 1, 0), notes=(f"{STEER}note",)),
    ],
    ids=["text", "label", "method", "model", "note"],
)
def test_nothing_can_steer_the_terminal(unruly: Attribution) -> None:
    assert "\x1b" not in plain(unruly)


def test_markup_of_the_terminal_library_is_only_text() -> None:
    tokens = cut("[bold]film[/bold] :smile:")
    assert "[bold]film[/bold] :smile:" in plain(made(tokens, *[0.0] * (len(tokens) - 2)))


WIDE = {
    "long word": "x" * 200,
    "wide letters": "電影很好看" * 20,
    "emoji": "👩‍👧 " * 30,
    "combining": "फ़िल्म अच्छी थी",
    "right to left": "הסרט היה טוב",
}


@pytest.mark.parametrize("text", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("render", [plain, colour])
def test_a_narrow_terminal_loses_no_letter(render: Callable[..., str], text: str) -> None:
    tokens = cut(text)
    output = ESCAPE.sub("", render(made(tokens, *[0.0] * (len(tokens) - 3), 0.1), width=40)).split("by-hand")[1]
    letters = [c for c in output.split("+1.00")[0] if c in text and not c.isspace()]
    assert len(letters) == len("".join(text.split()))


@pytest.mark.parametrize("text", WIDE.values(), ids=WIDE)
def test_a_narrow_terminal_is_not_overrun(text: str) -> None:
    tokens = cut(text)
    output = plain(made(tokens, *[0.0] * (len(tokens) - 3), 0.1), width=40)
    assert max(map(cell_len, output.splitlines())) <= 40
