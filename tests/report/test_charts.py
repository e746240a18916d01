"""Charts: what is drawn can be read back as the numbers that went in, and no name can break it."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from scipy.optimize import minimize
from scipy.stats import gaussian_kde, iqr

from heedful.report.charts import (
    Box,
    Group,
    Interval,
    MarkedBox,
    PlottedCurve,
    Words,
    boxes,
    brief,
    dots,
    histogram,
    lines,
    marked_boxes,
    matrix,
    scatter,
    standalone,
    style,
    svg,
    tone,
    violins,
)
from heedful.report.charts.rows import bandwidth, density
from heedful.report.document import Figure

NAN = float("nan")
NASTY = "<script>alert(\"1\")</script> & 'x' 👩‍👧 cafe\u0301 日本語 \x00\x1b[1m\ud800 ]]> " + "long " * 40
WORDS = Words("name", "A title", x="across", y="up")
RNG = np.random.default_rng(0)


def tree(figure: Figure) -> ET.Element:
    return ET.fromstring(figure.svg)


def of_class(figure: Figure, kind: str) -> list[ET.Element]:
    return [e for e in tree(figure).iter() if kind in e.get("class", "").split()]


def texts(figure: Figure, kind: str | None = None) -> list[tuple[float, float, str]]:
    """Place and words of what is written; with a class, or (None) with any."""
    found = [e for e in tree(figure).iter("text") if kind is None or kind == e.get("class", "")]
    return [(float(e.get("x", "")), float(e.get("y", "")), "".join(e.itertext())) for e in found]


def number(words: str) -> float | None:
    try:
        return float(words.replace("−", "-").replace(",", ""))
    except ValueError:
        return None


def reader(places: list[tuple[float, str]]) -> Callable[[float], float]:
    """From a place on the paper to its number, by the ticks alone."""
    ticks = [(place, x) for place, words in places if (x := number(words)) is not None]
    slope, start = np.polyfit([place for place, _ in ticks], [x for _, x in ticks], 1)
    return lambda place: float(slope * place + start)


def read_x(figure: Figure) -> Callable[[float], float]:
    return reader([(x, words) for x, _, words in texts(figure, "c-soft c-middle")])


def read_y(figure: Figure) -> Callable[[float], float]:
    return reader([(y - 4.5, words) for _, y, words in texts(figure, "c-soft c-end")])


def spots(d: str) -> list[tuple[float, float]]:
    """Where markers stand."""
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.-]+) ([\d.-]+)m", d)]


def corners(d: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", d)]


@cache
def every(name: str = "a", n: int = 3) -> dict[str, Figure]:
    """One chart of each kind, of things with this name."""
    many = [f"{name} {i}" for i in range(n)]
    words = Words("n", name, name, name, "", name)
    return {
        "dots": dots(words, [Interval(m, i, i - 1, i + 1, m, m) for i, m in enumerate(many)], 0.0),
        "boxes": boxes(words, [Box(m, 0, 1, 2, 3, 4, m, 7) for m in many]),
        "marked boxes": marked_boxes(words, [MarkedBox(m, np.arange(5.0), {m: 2.5}) for m in many], name, 0.0),
        "violins": violins(words, [Group(m, RNG.normal(size=20), m) for m in many]),
        "lines": lines(words, [PlottedCurve(m, [0, 1], [i, 2], [i, 1], [i, 3]) for i, m in enumerate(many)]),
        "histogram": histogram(words, {m: ([0, 1, 2], [3, 4]) for m in many}, {name: 0.5}),
        "scatter": scatter(words, range(n), range(n), many),
        "matrix": matrix(words, many, [[0.1 * i for i in range(n)]] * n),
    }


EMPTY = {
    "dots": dots(WORDS, []),
    "boxes": boxes(WORDS, []),
    "marked boxes": marked_boxes(WORDS, [], "a"),
    "violins": violins(WORDS, []),
    "lines": lines(WORDS, []),
    "histogram": histogram(WORDS, {}),
    "scatter": scatter(WORDS, [], []),
    "matrix": matrix(WORDS, [], []),
    "no dot": dots(WORDS, [Interval("a", NAN, None, None)]),
    "no box": boxes(WORDS, [Box("a", 0, 1, NAN, 3, 4)]),
    "no value": violins(WORDS, [Group("a", np.array([NAN, NAN]))]),
    "no point": lines(WORDS, [PlottedCurve("a", [0, 1], [NAN, NAN])]),
    "no count": histogram(WORDS, {"a": ([0, 1], [0])}),
    "no pair": scatter(WORDS, [NAN], [1.0]),
    "no cell": matrix(WORDS, ["a"], [[None]]),
}


# what is drawn is what was given


@pytest.mark.parametrize("limits", [None, (-1.0, 1.0), (0.0, 0.1)])
def test_dots_and_their_whiskers_stand_at_their_numbers(limits: tuple[float, float] | None) -> None:
    rows = [Interval("a", 0.31, 0.28, 0.34), Interval("b", -0.5, -0.75, 0.1, note="rank 1–3")]
    made = dots(WORDS, rows, 0.0, limits)
    at = read_x(made)
    means = [at(spots(e.get("d", ""))[0][0]) for e in of_class(made, "c-fill")]
    ends = [at(x) for e in of_class(made, "c-stroke") for x in {x for x, _ in corners(e.get("d", ""))}]
    assert means == pytest.approx([0.31, -0.5], abs=2e-3)
    assert sorted(ends) == pytest.approx([-0.75, 0.1, 0.28, 0.34], abs=2e-3)


def test_the_line_of_reference_stands_at_its_number() -> None:
    made = dots(WORDS, [Interval("a", 0.5, 0.4, 0.6)], zero=0.2)
    assert read_x(made)(float(of_class(made, "c-zero")[0].get("x1", ""))) == pytest.approx(0.2, abs=1e-3)


def test_a_box_has_its_five_numbers() -> None:
    made = boxes(WORDS, [Box("a", 0.1, 0.2, 0.35, 0.6, 0.9, n=12)])
    at = read_x(made)
    box, median = of_class(made, "c-box")[0], of_class(made, "c-mid")[0]
    left, wide = float(box.get("x", "")), float(box.get("width", ""))
    ends = [at(x) for x, _ in corners(of_class(made, "c-stroke")[0].get("d", ""))]
    assert [at(left), at(left + wide), at(float(median.get("x1", "")))] == pytest.approx([0.2, 0.6, 0.35], abs=2e-3)
    assert (min(ends), max(ends)) == pytest.approx((0.1, 0.9), abs=2e-3)


def test_outliers_are_points_and_series_are_colours() -> None:
    made = boxes(WORDS, [Box("a", 0.1, 0.2, 0.3, 0.4, 0.5, outliers=(0.9, 0.7), series=s) for s in ("x", "y")])
    at = read_x(made)
    clouds = of_class(made, "c-cloud")
    assert [[at(float(point.get("cx", ""))) for point in cloud] for cloud in clouds] == [
        pytest.approx([0.7, 0.9], abs=2e-3)
    ] * 2
    assert [box.get("class") for box in of_class(made, "c-box")[-2:]] == ["c-s0 c-box", "c-s1 c-box"]
    assert made.alt.startswith("a, x: median 0.30, half within 0.20 and 0.40, all but 2 within 0.10 and 0.50")


def test_a_marked_box_has_its_quartiles_and_marks_at_their_numbers() -> None:
    values = np.array([0.5, 0.1, 0.9, 0.3, 0.2])
    made = marked_boxes(WORDS, [MarkedBox("a", values, {"x": -0.4, "y": 0.7})], "runs", 0.0)
    at = read_x(made)
    box = of_class(made, "c-box")[0]
    left, wide = float(box.get("x", "")), float(box.get("width", ""))
    assert [at(left), at(left + wide)] == pytest.approx([0.2, 0.5], abs=2e-3)
    ends = [at(x) for x, _ in corners(of_class(made, "c-stroke")[0].get("d", ""))]
    assert (min(ends), max(ends)) == pytest.approx((0.1, 0.9), abs=2e-3)
    marks = [at(spots(e.get("d", ""))[0][0]) for e in of_class(made, "c-fill")[-2:]]
    assert marks == pytest.approx([-0.4, 0.7], abs=2e-3)
    assert made.alt == "a: median 0.30, within 0.10 and 0.90, x −0.40, y 0.70"


def test_a_violin_marks_the_median_and_ends_at_its_values() -> None:
    values = RNG.beta(1, 4, 40)
    made = violins(WORDS, [Group("a", values)], (0, 1))
    at = read_x(made)
    outline = [at(x) for x, _ in corners(of_class(made, "c-area")[0].get("d", ""))]
    assert at(float(of_class(made, "c-median")[0].get("cx", ""))) == pytest.approx(np.median(values), abs=2e-3)
    assert (min(outline), max(outline)) == pytest.approx((values.min(), values.max()), abs=2e-3)


def test_few_values_are_points_and_no_density() -> None:
    made = violins(WORDS, [Group("a", np.array([0.1, 0.5, 0.2, 0.4]))], (0, 1))
    found = [read_x(made)(spots(e.get("d", ""))[0][0]) for e in of_class(made, "c-fill")]
    assert not of_class(made, "c-area")
    assert found == pytest.approx([0.1, 0.2, 0.4, 0.5], abs=2e-3)


def test_equal_values_have_a_median_and_no_density() -> None:
    made = violins(WORDS, [Group("a", np.full(9, 0.25))], (0, 1))
    assert not of_class(made, "c-area")
    assert len(of_class(made, "c-median")) == 1


def test_points_of_a_cloud_stand_at_their_numbers() -> None:
    x, y = RNG.normal(size=50), RNG.normal(size=50) * 100
    made = scatter(WORDS, x, y)
    at, up = read_x(made), read_y(made)
    found = sorted((at(a), up(b)) for e in of_class(made, "c-cloud")[0] for a, b in spots(e.get("d", "")))
    wanted = sorted(zip(x, y, strict=True))
    assert np.abs(np.array(found) - np.array(wanted)).max(axis=0) == pytest.approx([0, 0], abs=0.5)
    assert [a for a, _ in found] == pytest.approx([a for a, _ in wanted], abs=0.01)


def test_a_curve_runs_through_its_means_and_its_band_around_them() -> None:
    made = lines(WORDS, [PlottedCurve("a", [0, 1, 2], [0.1, 0.7, 0.4], [0, 0.6, 0.3], [0.2, 0.8, 0.5])], (0, 1))
    up = read_y(made)
    curve = [up(y) for _, y in corners(of_class(made, "c-d0")[0].get("d", ""))]
    band = [up(y) for _, y in corners(of_class(made, "c-band")[0].get("d", ""))]
    assert curve == pytest.approx([0.1, 0.7, 0.4], abs=3e-3)
    assert band == pytest.approx([0.2, 0.8, 0.5, 0.3, 0.6, 0], abs=3e-3)


def test_a_number_that_is_not_there_is_a_gap_in_a_curve_and_the_lone_one_is_marked() -> None:
    made = lines(WORDS, [PlottedCurve("a", [0, 1, 2, 3], [0.1, 0.2, NAN, 0.4], faint=True)])
    d = of_class(made, "c-d0")[0].get("d", "")
    assert (d.count("M"), d.count("L")) == (2, 1)
    assert len(spots(of_class(made, "c-fill")[0].get("d", ""))) == 1
    assert "1 point without a number" in made.alt


def test_a_curve_that_is_not_joined_is_points_alone_however_many() -> None:
    x = [i / 40 for i in range(41)]
    made = lines(WORDS, [PlottedCurve("a", x, x, faint=True, joined=False)])
    assert len(spots(of_class(made, "c-fill")[0].get("d", ""))) == 41
    assert all(not shape.get("d") for shape in of_class(made, "c-stroke"))


def test_steps_of_a_histogram_are_as_high_as_their_counts() -> None:
    made = histogram(WORDS, {"a": ([0, 0.5, 1, 2], [3, 0, 7])}, {"a bound": 0.75})
    at, up = read_x(made), read_y(made)
    steps = [(at(x), up(y)) for x, y in corners(of_class(made, "c-stroke")[-1].get("d", ""))]
    wanted = [(0, 0), (0, 3), (0.5, 3), (0.5, 0), (1, 0), (1, 7), (2, 7), (2, 0)]
    assert np.array(steps) == pytest.approx(np.array(wanted), abs=0.03)
    assert at(float(of_class(made, "c-mark")[0].get("x1", ""))) == pytest.approx(0.75, abs=5e-3)


def test_cells_of_a_matrix_stand_in_their_row_and_column() -> None:
    values: list[list[float | None]] = [[None, 0.25, -0.5], [0.31, None, 0.99], [-0.02, 0.996, 12.3]]
    made = matrix(WORDS, ["a", "b", "c"], values)
    written = texts(made, "c-middle")
    rows = sorted({y for _, y, _ in written})
    columns = sorted({x for x, _, _ in written})
    found = {(rows.index(y), columns.index(x)): words for x, y, words in written}
    assert found == {
        (0, 1): ".25", (0, 2): "−.50", (1, 0): ".31", (1, 2): ".99", (2, 0): "−.02", (2, 1): "1.0", (2, 2): "12",
    }  # fmt: skip


def test_a_number_beyond_the_limits_widens_the_axis() -> None:
    made = dots(WORDS, [Interval("a", 1.5, 1.2, 1.8)], limits=(0, 1))
    x = spots(of_class(made, "c-fill")[0].get("d", ""))[0][0]
    assert read_x(made)(x) == pytest.approx(1.5, abs=5e-3)
    assert x < svg.CHART_WIDTH


# densities


@pytest.mark.parametrize("limits", [None, (0.0, 1.0)])
def test_the_density_is_that_of_scipy_on_mirrored_values(limits: tuple[float, float] | None) -> None:
    values, grid = RNG.beta(0.7, 3, 60), np.linspace(0, 1, 41)
    own = gaussian_kde(values, bandwidth(values) / np.std(values, ddof=1))
    mirrors = [own(2 * limit - grid) for limit in limits] if limits else []
    assert density(values, grid, limits) == pytest.approx(own(grid) + sum(mirrors), rel=1e-9)


def test_nothing_leaks_over_the_limits() -> None:
    grid = np.linspace(0, 1, 2001)
    assert np.trapezoid(density(RNG.beta(0.5, 2, 80), grid, (0, 1)), grid) == pytest.approx(1, abs=1e-3)


def test_the_bandwidth_is_silvermans() -> None:
    values = RNG.normal(size=70)
    assert bandwidth(values) == pytest.approx(0.9 * min(values.std(ddof=1), iqr(values) / 1.34) * 70**-0.2)


def test_the_bandwidth_of_values_that_are_mostly_equal_is_not_zero() -> None:
    values = np.array([0.0] * 9 + [1.0])
    assert bandwidth(values) == pytest.approx(0.9 * values.std(ddof=1) * 10**-0.2)


# words


def test_the_numbers_are_told() -> None:
    rows = [Interval("a", 0.31, 0.28, 0.34), Interval("b", -0.5, None, None, "s", "rank 1–3"), Interval("c", NAN, 0, 1)]
    assert dots(WORDS, rows).alt == "a 0.31 [0.28, 0.34]; b, s −0.50 (rank 1–3); 1 row without a number"


def test_texts_without_a_number_are_counted() -> None:
    made = violins(WORDS, [Group("a", np.array([1, 2, 3, NAN, np.inf])), Group("b", np.array([NAN]))])
    assert made.alt == "a: median 2.00, half within 1.50 and 2.50 (n = 3); b: no number; 3 texts without a number"


def test_shares_beside_zero_are_told() -> None:
    made = scatter(WORDS, [1, 2, 3, 4, NAN], [1, -1, 0, 2, 5])
    assert made.alt == "of 4 points, 50.0% lie above zero, 25.0% below and 25.0% at zero; 1 point without a number"


def test_a_matrix_tells_each_pair_once() -> None:
    made = matrix(WORDS, ["a", "b", "c"], [[1, 0.5, None], [0.5, 1, -0.25], [None, -0.25, 1]])
    assert made.alt == "a and b 0.50; b and c −0.25; 1 pair without a number"


def test_a_matrix_that_is_not_symmetric_tells_both_halves() -> None:
    assert matrix(WORDS, ["a", "b"], [[None, 0.5], [0.25, None]]).alt == "a and b 0.50; b and a 0.25"


def test_a_histogram_tells_how_many_and_where_most_are() -> None:
    made = histogram(WORDS, {"a": ([0, 0.5, 1], [3, 1]), "b": ([0, 1], [0])}, {"bound": 0.7})
    assert made.alt == "a: 4 in all, most (3) between 0.00 and 0.50; b: none; bound at 0.70"


def test_a_curve_is_told_at_its_ends_and_in_the_middle() -> None:
    made = lines(WORDS, [PlottedCurve("a", [0, 1, 2], [0.9, 0.2, 0.5], [0.8, 0.1, 0.4], [1, 0.3, 0.6])])
    assert made.alt == "a 0.90 [0.80, 1.00] at 0, 0.20 [0.10, 0.30] at 1, 0.50 [0.40, 0.60] at 2"


def test_a_box_is_told_with_its_number() -> None:
    assert boxes(WORDS, [Box("a", 0, 0.25, 0.5, 0.75, 1, n=1234)]).alt == (
        "a: median 0.50, half within 0.25 and 0.75, all within 0.00 and 1.00 (n = 1,234)"
    )


def test_own_words_stand_in_place_of_the_numbers() -> None:
    made = dots(Words("n", "t", alt="mine"), [Interval("a", 1, 0, 2)])
    assert (made.alt, tree(made).get("aria-label")) == ("mine", "t: mine")


@pytest.mark.parametrize("kind", EMPTY)
def test_what_is_empty_says_so(kind: str) -> None:
    assert EMPTY[kind].alt.startswith("nothing to show")
    assert "nothing to show" in "".join(tree(EMPTY[kind]).itertext())


# hostile and odd input


@pytest.mark.parametrize("name", [NASTY, "", "a\nb", "\u202eabc", "m" * 500])
@pytest.mark.parametrize("kind", every())
def test_no_name_breaks_a_chart(kind: str, name: str) -> None:
    made = every(name)[kind]
    tags = {e.tag for e in tree(made).iter()}
    assert tags <= {"svg", "title", "g", "path", "line", "rect", "circle", "text"}
    standalone(made).encode("utf-8")


@pytest.mark.parametrize("kind", every())
@pytest.mark.parametrize("n", [1, 10, 20])
def test_words_stay_on_the_paper(kind: str, n: int) -> None:
    made = every("integrated-gradients", n)[kind]
    wide = float(tree(made).get("viewBox", "").split()[2])
    for e in tree(made).iter("text"):
        own = "".join(t for t in e.itertext() if t not in [title.text for title in e.iter("title")])
        x, size, anchor = float(e.get("x", "")), svg.width_of(own), e.get("class", "")
        left = x - size if "c-end" in anchor else x - size / 2 if "c-middle" in anchor else x
        assert -5 <= left <= wide + 5 - size, own


@pytest.mark.parametrize("kind", every())
def test_a_chart_has_classes_and_no_colours_or_ids(kind: str) -> None:
    made = every()[kind]
    used = {name for e in tree(made).iter() for name in e.get("class", "").split()}
    attributes = {name for e in tree(made).iter() for name in e.attrib}
    assert not attributes & {"id", "style", "fill", "stroke", "href"}
    assert used - {"chart", "c-few"} <= set(re.findall(r"\.(c-[\w-]+)", style())) | {"c-d0"}


@pytest.mark.parametrize("kind", every())
def test_coordinates_have_one_decimal(kind: str) -> None:
    drawn = re.sub(r'(aria-label|fill-opacity)="[^"]*"|>[^<]*<|m[^M"]*z', "", every()[kind].svg)
    assert not re.findall(r"\d\.\d\d", drawn)


def test_the_same_numbers_give_the_same_bytes() -> None:
    values = RNG.normal(size=30)
    first, second = (violins(WORDS, [Group("a", values.copy(), s) for s in "xyz"]).svg for _ in range(2))
    assert first == second


def test_a_thousand_points_are_small() -> None:
    made = scatter(WORDS, RNG.normal(size=1000), RNG.normal(size=1000), [f"s{i % 8}" for i in range(1000)])
    assert sum(len(spots(e.get("d", ""))) for g in of_class(made, "c-cloud") for e in g) == 1000
    assert len(made.svg.encode()) < 60_000


def test_names_of_curves_that_end_together_do_not_overlap() -> None:
    made = lines(WORDS, [PlottedCurve(f"line {i}", [0, 1], [i, 0.5]) for i in range(20)])
    places = sorted(y for _, y, words in texts(made) if words.startswith("line "))
    assert len(places) == 20
    assert min(b - a for a, b in itertools.pairwise(places)) >= svg.SIZE


def test_curves_that_end_together_are_named_in_the_order_of_their_means() -> None:
    made = lines(WORDS, [PlottedCurve(f"line {m}", [0, 1, 2], [0.5, m, 0.5]) for m in (0.2, 0.9, 0.4)])
    names = sorted((y, words) for _, y, words in texts(made) if words.startswith("line "))
    assert [words for _, words in names] == ["line 0.9", "line 0.4", "line 0.2"]


def test_neighbours_of_one_label_share_it() -> None:
    made = dots(WORDS, [Interval(label, 1, 0, 2, s) for label in ("first", "second") for s in ("x", "y")])
    labels = [words for _, _, words in texts(made) if words in ("first", "second")]
    assert labels == ["first", "second"]
    assert len(of_class(made, "c-fill")) == 4 + 2


def test_every_series_of_many_looks_unlike_the_others() -> None:
    assert len({(svg.colour(i), svg.dash(i), svg.marker(i, (0, 0))) for i in range(64)}) == 64


def test_counts_that_do_not_fit_their_edges_are_refused() -> None:
    with pytest.raises(ValueError, match="2 counts of 'a' need 3 edges, got 2"):
        histogram(WORDS, {"a": ([0, 1], [1, 2])})


def test_a_matrix_that_is_not_square_is_refused() -> None:
    with pytest.raises(ValueError, match="2 names"):
        matrix(WORDS, ["a", "b"], [[1, 2]])


# the low level


@given(st.floats(-100, 100), st.floats(0.01, 1e6), st.integers(2, 9))
def test_ticks_are_even_round_and_inside(low: float, span: float, about: int) -> None:
    found = svg.ticks(low, low + span, about)
    steps = np.diff(found)
    mantissa = float(f"{steps[0]:e}".split("e")[0]) if len(steps) else 1.0
    assert all(low - 1e-6 * span <= x <= low + span * (1 + 1e-6) for x in found)
    assert steps == pytest.approx(np.full(len(steps), steps[0] if len(steps) else 0), rel=1e-6)
    assert min(abs(mantissa - m) for m in (1, 2, 2.5, 5, 10)) < 1e-3
    assert about / 2 - 1 <= len(found) <= 2 * about + 1


def test_ticks_have_digits_enough_and_a_true_minus() -> None:
    assert svg.tick_words([-0.25, 0, 0.25]) == ["−0.25", "0.00", "0.25"]
    assert svg.tick_words([0, 5000.0]) == ["0", "5,000"]
    assert svg.tick_words([-2.5e-7, 0, 2.5e-7]) == ["−2.5e−7", "0", "2.5e−7"]
    assert svg.tick_words([0, 5e-5]) == ["0.00000", "0.00005"]
    assert svg.tick_words([1.0, 1.0000001]) == ["1.0000000", "1.0000001"]


@given(st.lists(st.floats(0, 200), min_size=1, max_size=12))
def test_spread_keeps_order_gap_and_bounds(wanted: list[float]) -> None:
    found = svg.spread_places(wanted, 15, 0, 200)
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    assert all(found[b] - found[a] >= 15 - 1e-9 for a, b in itertools.pairwise(order))
    assert min(found) >= -1e-9
    assert max(found) <= 200 + 1e-9


def test_spread_moves_as_little_as_can_be() -> None:
    wanted = [10.0, 12.0, 13.0, 60.0, 66.0, 120.0]
    apart = [{"type": "ineq", "fun": lambda y, i=i: y[i + 1] - y[i] - 15} for i in range(5)]
    best = minimize(lambda y: ((y - wanted) ** 2).sum(), np.arange(6) * 20.0, constraints=apart, tol=1e-12)
    assert svg.spread_places(wanted, 15, -500, 500) == pytest.approx(best.x, abs=1e-3)


@given(st.text(max_size=60), st.floats(20, 200))
def test_shortened_words_fit(words: str, room: float) -> None:
    found = svg.shortened(words, room)
    assert svg.width_of(found) <= room
    assert found == words or words.startswith(found[:-1])


def test_a_letter_keeps_its_accent_and_an_emoji_its_joiners() -> None:
    cut = {svg.shortened("e\u0301👩‍👧" * 9, room) for room in range(10, 300)}
    assert all(re.fullmatch("(e\u0301👩‍👧)*(e\u0301)?…?", words) for words in cut)


@pytest.mark.parametrize("words", ["integrated-gradients", "Δα of MAXIMA", "−0.31 [−0.50, 0.12]", "n = 1,024", "日本"])
def test_words_are_not_wider_than_thought_in_a_wide_font(words: str) -> None:
    if words == "日本":
        assert svg.width_of(words) >= 2 * svg.SIZE
        return
    true = TextPath((0, 0), words, size=svg.SIZE, prop=FontProperties(family="DejaVu Sans")).get_extents().width
    assert 0.97 * true <= svg.width_of(words) <= 1.35 * true


@pytest.mark.parametrize(
    ("x", "shown"), [(0.004, ".00"), (-0.001, ".00"), (-0.314, "−.31"), (0.996, "1.0"), (-1, "−1.0"), (1234, "1,234")]
)
def test_brief_numbers(x: float, shown: str) -> None:
    assert brief(x) == shown


def test_cells_are_coloured_by_side_and_strength() -> None:
    assert tone(0.5, (-1, 1)) == ("c-for", 0.5)
    assert tone(-0.5, (-1, 1)) == ("c-against", 0.5)
    assert tone(3, (2, 4)) == ("c-weight", 0.5)
    assert tone(9, (0, 1)) == ("c-weight", 1.0)


# files and colours


@pytest.mark.parametrize("kind", every())
def test_a_file_stands_alone(kind: str) -> None:
    made = standalone(every(NASTY)[kind])
    root = ET.fromstring(made.encode())
    sheet = root.find("{http://www.w3.org/2000/svg}style")
    paper = root.find("{http://www.w3.org/2000/svg}rect")
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert paper is not None
    assert paper.get("fill") == "#fff"
    assert sheet is not None
    assert sheet.text
    assert not re.search(r"var\(|light-dark|:has|@|url|http", sheet.text)
    assert {f".c-s{i}" for i in range(8)} <= set(re.findall(r"\.c-s\d", sheet.text))


@pytest.mark.parametrize("n", [3, 16, 20])
def test_letters_of_a_matrix_are_ten_pixels_high_on_a_telephone(n: int) -> None:
    root = tree(every("integrated-gradients", n)["matrix"])
    least = [re.search(rf"svg\.{name} .*min-width: (\d+)rem", style()) for name in root.get("class", "").split()]
    shown = max([360, *(16 * int(found[1]) for found in least if found)])
    assert svg.SIZE * shown / float(root.get("viewBox", "").split()[2]) >= 10


def test_what_is_no_chart_is_no_file() -> None:
    with pytest.raises(ValueError, match="'x' is not a chart"):
        standalone(Figure("x", "", "<svg/>", ""))


def test_the_page_asks_nothing_of_others() -> None:
    assert not re.search(r"url\(|@import|http", style())


def linear(colour: str) -> np.ndarray:
    c: np.ndarray = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    """Ottosson 2020: distances in it are about as large as they look."""
    a = [[0.41222147, 0.53633254, 0.05144599], [0.2119035, 0.68069955, 0.10739696], [0.08830246, 0.28171884, 0.6299787]]
    b = [
        [0.21045426, 0.79361779, -0.00407205],
        [1.9779985, -2.42859221, 0.45059371],
        [0.02590404, 0.78277177, -0.80867577],
    ]
    return np.asarray(np.array(b) @ np.cbrt(np.array(a) @ np.clip(rgb, 0, 1)))


SIGHT = {  # Machado et al. 2009, severity 1
    "all cones": np.eye(3),
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def palette(dark: bool) -> list[str]:
    light = dict(re.findall(r"\.c-s(\d) { fill: var\(--[\w-]+, (#\w{6})\)", style()))
    night = dict(re.findall(r"light-dark\((#\w{6}), (#\w{6})\)", style()))
    night |= {"#2166ac": "#6fb0ea", "#b35806": "#f0a05c"}  # the page's own
    return [night[light[str(i)]] if dark else light[str(i)] for i in range(8)]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart_by_every_sight(dark: bool, sight: str) -> None:
    seen = [oklab(np.array(SIGHT[sight]) @ linear(c)) for c in palette(dark)]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.09


@pytest.mark.parametrize(("dark", "paper"), [(False, "#fbfaf7"), (True, "#131519")])
def test_colours_stand_out_from_the_paper(dark: bool, paper: str) -> None:
    light = [float(linear(c) @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (paper, *palette(dark))]
    assert min(max(light[0], y) / min(light[0], y) for y in light[1:]) >= 3  # WCAG 2.2, 1.4.11
