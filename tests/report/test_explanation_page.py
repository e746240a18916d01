"""The page: what a text or label says never becomes markup, every number is there, the network is left alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution, Counterfactual, Interaction, Prediction, Source, from_dict
from heedful.core.target import Target
from heedful.core.tokens import Span, Tokens, word_indices, word_spans
from heedful.core.tree import Edge, Tree, grow
from heedful.report import explanation_page as report
from heedful.report import explanation_rows as heatmaps
from heedful.report import explanation_rows as rows
from heedful.report import html, phrases

NASTY = """Bad "quotes" & <script>alert(1)</script> it's </script><!-- \u2028 text"""
NASTY_LABEL = """</script><i title='x'>"pos"&amp;"""
RTL = "الفيلم لم يكن مضحكا 😀 אבל הסוף"
TWO = Prediction(("negative", "positive"), (-1.0, 2.0), (0.047, 0.953))


def cut(text: str, pair: str | None = None, dropped: int = 0) -> Tokens:
    """One piece per word, words of more than five letters in two, between [CLS] and [SEP]."""
    texts = [t for t in (text, pair) if t is not None]
    spans: list[Span | None] = [None]
    segments: list[int | None] = [None]
    for s, t in enumerate(texts):
        halves = [[(a, b)] if b - a <= 5 else [(a, a + 3), (a + 3, b)] for a, b in word_spans(t)]
        spans += [*(span for half in halves for span in half), None]
        segments += [*(s for half in halves for _ in half), None]
    pieces = tuple(
        "[CLS]" if i == 0 else "[SEP]" if span is None or s is None else texts[s][slice(*span)]
        for i, (span, s) in enumerate(zip(spans, segments, strict=True))
    )
    which = tuple(word_indices(spans, segments, texts))
    return Tokens(
        text, pair, tuple(range(len(pieces))), pieces, tuple(spans), which, tuple(segments), dropped=dropped, total=1000
    )


def scored(tokens: Tokens, method: str = "occlusion", signed: bool = True, prediction: Prediction = TWO) -> Attribution:
    scores = np.random.default_rng(len(tokens)).normal(size=len(tokens))
    return Attribution(
        tokens=tokens,
        scores=scores if signed else np.abs(scores),
        signed=signed,
        prediction=prediction,
        target=Target(prediction.label),
        source=Source(method, {"masking": "<mask>"}, "a/model", "f00d", 7, 12, 3, versions={"torch": "2"}),
    )


def attended(n: int, layers: int = 2, heads: int = 3, first: int = 0) -> Interaction:
    numbers = tuple(range(first, first + layers))
    weights = np.random.default_rng(n).dirichlet(np.ones(n), (layers, heads, n)).astype(np.float32)
    tokens = cut(" ".join(["word"] * (n - 2)))
    return Interaction(tokens=tokens, weights=weights, source=Source("attention"), prediction=TWO, layers=numbers)


class Parsed(HTMLParser):
    """What a browser would see: elements with attributes, the text outside scripts, the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else self._inside
        self.scripts += [""] if tag == "script" else []

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif not self._inside:
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])

    def titles(self, word: str) -> list[str]:
        """The tooltips of the elements that have this class."""
        return [a["title"] or "" for _, a in self.elements if word in (a.get("class") or "").split() and "title" in a]


def test_nothing_in_a_text_or_label_becomes_markup() -> None:
    plain = report.explanation_page([scored(cut("a b b"))])
    nasty = report.explanation_page(
        [scored(cut(NASTY), prediction=Prediction(("no", NASTY_LABEL), (-1.0, 2.0), (0.1, 0.9)))]
    )
    assert {tag for tag, _ in Parsed(nasty).elements} == {tag for tag, _ in Parsed(plain).elements}


def test_a_nasty_text_and_label_are_shown_as_they_are() -> None:
    parsed = Parsed(
        report.explanation_page(
            [scored(cut(NASTY), prediction=Prediction(("no", NASTY_LABEL), (-1.0, 2.0), (0.1, 0.9)))]
        )
    )
    assert parsed.text.count(NASTY) == 3  # the quote, by word, and by token but for [CLS] and [SEP] around it
    assert f"Why did the model predict {NASTY_LABEL}?" in parsed.text


def test_no_script_but_the_two_of_the_page() -> None:
    assert len(Parsed(report.explanation_page([scored(cut(NASTY, NASTY))])).scripts) == 2


def test_the_data_block_holds_nothing_that_could_end_it() -> None:
    block = html.script_json({"text": NASTY})
    assert not re.search("[<>&\u2028\u2029]", block)
    assert json.loads(block) == {"text": NASTY}


def test_the_data_block_gives_every_score_back() -> None:
    why = scored(cut(NASTY, RTL))
    back = from_dict(Parsed(report.explanation_page([why])).data["attributions"][0][0])
    assert isinstance(back, Attribution)
    assert back.to_json() == why.to_json()


def test_the_page_asks_nothing_of_the_network() -> None:
    page = report.explanation_page([scored(cut("a b c d")), attended(6)])
    assert not re.search(r"https?:|//[a-z]|url\(|@import", page)
    links = [v or "" for _, attrs in Parsed(page).elements for k, v in attrs.items() if k in ("src", "href")]
    assert [link for link in links if not link.startswith("#")] == ["data:,"]


def test_the_policy_allows_nothing_from_outside() -> None:
    page = report.explanation_page([scored(cut("a"))])
    policies = [a["content"] or "" for _, a in Parsed(page).elements if "http-equiv" in a]
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policies[0].startswith(
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    )


def test_the_number_of_every_piece_can_be_read() -> None:
    why = scored(cut("unbelievably good, isn't it", "a second text"))
    tips = Parsed(report.explanation_page([why])).titles("w")
    wanted = [f"{phrases.score_text(s)}\npiece {p}" for s, p in zip(why.scores, why.tokens.pieces, strict=True)]
    assert set(wanted) <= set(tips)


def test_a_word_shows_its_sum_and_its_pieces() -> None:
    why = scored(cut("splendid"))
    first, second = float(why.scores[1]), float(why.scores[2])
    tip = f"{phrases.score_text(first + second)}\nspl {phrases.score_text(first)} · endid {phrases.score_text(second)}"
    assert tip in Parsed(report.explanation_page([why])).titles("w")


@pytest.mark.parametrize("text", [RTL, "two  spaces\n\n\ttab ", "👩‍👧 日本語です。", NASTY])
def test_the_runs_join_to_the_text_as_written(text: str) -> None:
    why = rows.row(scored(cut(text, RTL)), "x")
    assert ["".join(run.text for run in runs) for runs in why.words] == [text, RTL]


def test_right_to_left_text_is_left_to_the_browser_to_turn() -> None:
    parsed = Parsed(report.explanation_page([scored(cut(RTL))]))
    assert RTL in parsed.text
    assert all(attrs.get("dir") == "auto" for tag, attrs in parsed.elements if tag == "blockquote")


def test_bytes_of_one_emoji_keep_their_numbers() -> None:
    tokens = Tokens("😀", None, (1, 2), ("ðŁ", "ĺĢ"), ((0, 1), (0, 1)), (0, 0), (0, 0))
    why = Attribution(tokens=tokens, scores=np.array([0.25, -0.5]), prediction=TWO)
    runs = rows.row(why, "x").pieces[0]
    assert [(run.text, run.tip) for run in runs] == [("😀", "+0.25\npiece ðŁ"), ("ĺĢ", "−0.5\npiece ĺĢ")]


def test_special_tokens_are_dimmed_and_only_among_tokens() -> None:
    row = rows.row(scored(cut("good")), "x")
    assert [run.text for run in row.pieces[0] if run.special] == ["[CLS]", "[SEP]"]
    assert not [run for run in row.words[0] if run.special]
    assert len(Parsed(report.explanation_page([scored(cut("good"))])).titles("special")) == 2


def test_what_was_cut_off_is_said_and_marked() -> None:
    tokens = cut("one two three")
    why = scored(Tokens(**(tokens.to_dict() | {"text": "one two three four five", "dropped": 2})))
    assert rows.row(why, "x").words[0][-1] == rows.ColouredRun(" four five", unread=True)
    assert f"Truncated: {why.truncation}." in Parsed(report.explanation_page([why])).text


@pytest.mark.parametrize(("signed", "legend"), [(True, ["signed"]), (False, ["unsigned"])])
def test_the_legend_explains_the_colours_in_use_and_no_others(signed: bool, legend: list[str]) -> None:
    parsed = Parsed(report.explanation_page([scored(cut("good"), signed=signed)]))
    assert [
        a["class"] for tag, a in parsed.elements if tag == "li" and a.get("class") in ("signed", "unsigned")
    ] == legend


def test_tones_follow_sign_and_kind() -> None:
    tokens = Tokens("a b", None, (1, 2), ("a", "b"), ((0, 1), (2, 3)), (0, 1), (0, 0))
    signed = Attribution(tokens=tokens, scores=np.array([2.0, -1.0]))
    assert [(u.tone, u.strength) for u in rows.token_runs(signed, ["", ""])] == [("for", 1.0), ("against", 0.5)]
    unsigned = Attribution(tokens=tokens, scores=np.array([2.0, 1.0]), signed=False)
    assert [u.tone for u in rows.token_runs(unsigned, ["", ""])] == ["weight", "weight"]


def test_bars_meet_at_zero_and_fill_the_axis() -> None:
    tokens = Tokens("a b", None, (1, 2), ("a", "b"), ((0, 1), (2, 3)), (0, 1), (0, 0))
    up, down = rows.strongest_bars(Attribution(tokens=tokens, scores=np.array([3.0, -1.0])))
    assert (up.left, up.width) == pytest.approx((25, 75))
    assert (down.left, down.width) == pytest.approx((0, 25))


def test_a_repeated_word_says_which_one_it_is() -> None:
    why = rows.by_unit(scored(cut("good or good")))
    assert {(bar.word.text, bar.nth) for bar in rows.strongest_bars(why)} == {("good", 1), ("or", None), ("good", 2)}


def test_the_table_has_each_method_s_number_for_each_word() -> None:
    first, second = scored(cut("good or bad")), scored(cut("good or bad"), signed=False)
    lines = rows.comparison([first, second])
    assert [word.text for word, _ in lines] == ["[CLS]", "good", "or", "bad", "[SEP]"]
    read = [[float(cell.number.replace("−", "-")) for cell in cells if cell] for _, cells in lines]
    assert np.array(read) == pytest.approx(np.stack([first.scores, second.scores], 1), abs=0.006)


def test_two_runs_of_one_method_have_two_names() -> None:
    assert rows.number_repeats(["a", "b", "a"]) == ["a (1)", "b", "a (2)"]


def test_ten_labels_are_shown_and_the_rest_folded() -> None:
    many = Prediction(tuple("abcdefghijkl"), tuple(map(float, range(12))), tuple(x / 66 for x in range(12)))
    page = report.explanation_page([scored(cut("good"), prediction=many)])
    assert "2 more" in Parsed(page.split('id="prediction-1"')[1]).text
    assert [label for label, _, _ in rows.label_rows(many)] == list("lkjihgfedcba")


def test_a_regression_shows_its_number() -> None:
    why = scored(cut("good"), prediction=Prediction(("score",), (3.417,), None))
    assert "Why did the model predict 3.417?" in Parsed(report.explanation_page([why])).text


def test_several_texts_get_a_section_each_and_an_index() -> None:
    parsed = Parsed(report.explanation_page([scored(cut("one")), scored(cut("two")), scored(cut("one"), "again")]))
    assert [a["href"] for tag, a in parsed.elements if tag == "a"] == ["#text-1", "#text-2"]
    assert [len(rows) for rows in parsed.data["attributions"]] == [2, 1]


def test_a_small_map_keeps_every_weight_to_half_a_step() -> None:
    why = attended(9, first=4)
    data = heatmaps.heat_map(why).data
    roots = np.frombuffer(base64.b64decode(data["steps"]), np.uint8).reshape(why.weights.shape) / 255
    assert np.abs(roots - np.sqrt(why.weights / data["top"])).max() <= 0.5 / 255 + 1e-6
    assert (data["numbers"], data["side"], data["signed"]) == ((4, 5), 9, False)


def test_a_bin_holds_its_largest_weight() -> None:
    weights = np.random.default_rng(0).normal(size=(1, 2, 7, 7)).astype(np.float32)
    bounds = [(0, 2), (2, 4), (4, 7)]
    blocks = [[[w[a:b, c:d] for c, d in bounds] for a, b in bounds] for w in weights[0]]
    slow = [[[x.flat[np.abs(x).argmax()] for x in row] for row in head] for head in blocks]
    assert (heatmaps.pool_bins(weights, np.array([0, 2, 4]))[0] == np.array(slow)).all()


def test_a_map_with_negative_weights_keeps_their_sign() -> None:
    why = attended(4)
    flipped = Interaction(tokens=why.tokens, weights=-why.weights)
    data = heatmaps.heat_map(flipped).data
    steps = np.frombuffer(base64.b64decode(data["steps"]), np.uint8)
    assert data["signed"]
    assert steps.min() == 1
    assert steps.max() <= 128


def test_a_page_of_512_tokens_and_144_heads_is_thinned_and_says_so() -> None:
    page = report.explanation_page([attended(512, 12, 12), scored(cut(" ".join(["word"] * 510)))])
    assert len(page.encode()) < 5_000_000
    assert "512 tokens shown in 64 bins, the largest weight of each bin." in Parsed(page).text


def test_every_map_has_words_for_who_cannot_see_it() -> None:
    why = attended(5, first=4)
    said = [
        a["aria-label"]
        for tag, a in Parsed(report.explanation_page([why])).elements
        if tag == "button" and "data-l" in a
    ]
    top = phrases.score_text(float(why.weights[1, 2].max()), signed=False)
    assert len(said) == 6
    assert (said[5] or "").startswith(f"Layer 5, head 2: strongest weight {top} from ")


def test_all_maps_together_keep_to_the_budget() -> None:
    assert heatmaps.heat_map(attended(30, 4, 5), cells=20 * 100).data["side"] == 10


def test_the_notebook_fragment_has_no_script_and_nothing_to_clash_with() -> None:
    parsed = Parsed(report.explanation_fragment([scored(cut(NASTY)), attended(4)]))
    assert {tag for tag, _ in parsed.elements} <= {"div", "span", "p", "b", "bdi"}
    assert not [a for _, a in parsed.elements if "class" in a or "id" in a]
    assert NASTY in parsed.text


def test_the_notebook_names_the_prediction_and_each_method() -> None:
    text = Parsed(
        report.explanation_fragment([scored(cut("good")), scored(cut("good"), "gradient", signed=False)])
    ).text
    assert "positive 0.953" in text
    assert "occlusion" in text
    assert "gradient (without direction)" in text


def test_an_explanation_alone_draws_itself() -> None:
    assert scored(cut("good")).to_html() == report.explanation_page([scored(cut("good"))])


def test_no_explanation_is_an_error() -> None:
    with pytest.raises(BadInput, match=r"^there is no explanation to show; give at least one\.$"):
        report.explanation_page([])


def test_the_single_row_of_a_pooling_query_is_drawn_for_every_token_and_said() -> None:
    tokens = Tokens("a b c", None, (1, 2, 3), ("a", "b", "c"), ((0, 1), (2, 3), (4, 5)), (0, 1, 2), (0, 0, 0))
    why = Interaction(tokens=tokens, weights=np.array([[[[0.1, 0.7, 0.2]]]], dtype=np.float32))
    assert heatmaps.heat_map(why).strongest == [["0.7 to b"]]
    assert len(base64.b64decode(heatmaps.heat_map(why).data["steps"])) == 9
    assert "One query attends to the whole text" in report.explanation_page([why])


# standard errors and details


def doubtful() -> Attribution:
    why = scored(cut("splendid or bad"))
    return replace(why, errors=np.linspace(0.1, 0.2, len(why.tokens)), details={"samples": 1000, "r2": 0.8312})


def test_a_tip_gives_the_standard_error_of_the_word() -> None:
    why = doubtful()
    words = why.by("word")
    assert words.errors is not None
    tips = Parsed(report.explanation_page([why])).titles("w")
    assert any(tip.startswith(f"{phrases.score_text(words.scores[1])} ± {words.errors[1]:.2g}\n") for tip in tips)


def test_whiskers_are_centred_on_the_end_of_their_bar_and_stay_on_the_axis() -> None:
    words = rows.by_unit(doubtful())
    bars = rows.strongest_bars(words)
    assert words.errors is not None
    low, high = (words.scores - words.errors)[1:-1].min(initial=0), (words.scores + words.errors)[1:-1].max(initial=0)
    for bar in bars:
        i = next(i for i in words.tokens.content if words.tokens.surface(i) == bar.word.text)
        assert bar.end == pytest.approx(100 * (words.scores[i] - low) / (high - low))
        assert bar.error == pytest.approx(100 * words.errors[i] / (high - low))
    assert min(bar.end - bar.error for bar in bars) >= -1e-9
    assert max(bar.end + bar.error for bar in bars) <= 100 + 1e-9


@pytest.mark.parametrize(("why", "said"), [(doubtful(), True), (scored(cut("good")), False)])
def test_whiskers_are_explained_where_there_are_any(why: Attribution, said: bool) -> None:
    page = report.explanation_page([why])
    assert ("Whiskers show one standard error." in page, 'class="whisker"' in page) == (said, said)


def test_details_are_among_the_facts() -> None:
    assert ("details", "1,000 samples, R² 0.83") in rows.method_facts(doubtful())


# counterfactuals


def without(tokens: Tokens, *removed: int, found: bool = True) -> Counterfactual:
    outcome = Prediction(TWO.labels, (1.0, 0.0), (0.812, 0.188))
    return Counterfactual(
        tokens=tokens, removed=removed, outcome=outcome, masking="delete", found=found, prediction=TWO,
        source=Source("minimal"),
    )  # fmt: skip


def test_only_the_removed_words_are_struck_out() -> None:
    page = report.explanation_page([without(cut("good or bad"), 1, 3)])
    assert re.findall("<del>(.*?)</del>", page) == ["good", "bad"]


def test_a_counterfactual_s_text_stays_as_written() -> None:
    runs = rows.removal(without(cut(NASTY, RTL), 1)).texts
    assert ["".join(run.text for run in text) for text in runs] == [NASTY, RTL]


def test_what_the_model_says_without_the_words_is_said_on_the_page() -> None:
    text = Parsed(report.explanation_page([without(cut("good or bad"), 1, 3)])).text
    assert "Without these 2 words the model predicts negative (81.2%)." in text
    assert "Greedy: a better set may exist." in text


def test_what_was_not_found_is_said_on_the_page() -> None:
    text = Parsed(report.explanation_page([without(cut("good"), 1, found=False)])).text
    assert "Not found: the search was greedy, so one may exist." in text


def test_a_counterfactual_can_be_read_back_from_the_page() -> None:
    why = without(cut(NASTY), 1, 2)
    back = from_dict(Parsed(report.explanation_page([why])).data["counterfactuals"][0][0])
    assert back.to_json() == why.to_json()


def test_the_notebook_shows_a_counterfactual() -> None:
    parsed = Parsed(report.explanation_fragment([without(cut("good or bad"), 1)]))
    assert "without this word the model predicts negative (81.2%); greedy: a better set may exist." in parsed.text
    assert {tag for tag, _ in parsed.elements} <= {"div", "span", "p", "b", "bdi"}


# pairs of maps


def named(why: Interaction, method: str, layers: tuple[int, ...] = (0, 1)) -> Interaction:
    return replace(why, source=Source(method), layers=layers, weights=why.weights[: len(layers)])


def mates(*maps: Interaction) -> list[int | None]:
    return [m["mate"] for m in Parsed(report.explanation_page(maps)).data["maps"][0]]


def test_attention_and_its_attribution_are_shown_beside_each_other() -> None:
    why = attended(5)
    assert mates(named(why, "attention-weights"), named(why, "other")) == [1, 0]


def test_an_attribution_alone_has_no_mate() -> None:
    assert mates(named(attended(5), "other")) == [None]


@pytest.mark.parametrize("other", [{"attention": "cross"}, {"layers": (1, 2)}])
def test_what_speaks_of_other_matrices_is_no_mate(other: dict[str, Any]) -> None:
    why = attended(5)
    assert mates(named(why, "attention-weights"), replace(named(why, "other"), **other)) == [None, None]


def test_the_gap_of_each_layer_is_shown() -> None:
    page = report.explanation_page([replace(attended(5), gaps=(0.25, -0.5))])
    assert re.findall('<td class="gap">(.*?)</td>', page) == ["+0.25", "−0.5"]


# trees


def grown(tokens: Tokens, *edges: Edge) -> Tree:
    heights = {1: 1.0} | {edge.key: 0.75 - 0.25 * (edge.query != 1) for edge in edges}
    return Tree(
        tokens=tokens, root=1, edges=edges, heights=heights, how="greedy", threshold=0.4, penalty=0.0, objective=0.6,
        layers=(0, 1), prediction=TWO, source=Source("attattr"),
    )  # fmt: skip


FAMILY = Edge(1, 1, 3, 0.2, 1.0), Edge(0, 3, 2, 0.2, 0.5), Edge(1, 1, 4, 0.2, 0.8)


class Outline(HTMLParser):
    """The nested list of a tree as (depth, token)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.depth, self.bold, self.items = 0, False, list[tuple[int, str]]()
        self.feed(re.search('<details class="outline">(.*?)</details>', page, re.DOTALL)[1])  # type: ignore[index]
        assert self.depth == 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += tag == "ul"
        self.bold = tag in ("b", "bdi")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "ul"
        self.bold = False

    def handle_data(self, data: str) -> None:
        if self.bold:
            self.items.append((self.depth, data))


def test_a_tree_is_told_as_a_nested_list() -> None:
    page = report.tree_page(grown(cut("a b c d"), *FAMILY))
    assert Outline(page).items == [(1, "a"), (2, "c"), (3, "b"), (2, "d")]


def test_a_tree_has_a_curve_for_each_edge_and_its_words() -> None:
    parsed = Parsed(report.tree_page(grown(cut("a b c d"), *FAMILY)))
    tips = [attrs["data-tip"] for _, attrs in parsed.elements if attrs.get("class") == "edge"]
    assert tips[1] == "b → c\nlayer 0, share 0.50, weight +0.2"
    assert len(tips) == 3


def test_a_tree_stands_in_reading_order_at_its_heights() -> None:
    drawn = report.tree_page(grown(cut("a b c d"), *FAMILY))
    spots = re.findall(r'<circle class="node" cx="([\d.]+)" cy="([\d.]+)"', drawn)
    (b_x, b_y), (c_x, c_y), (d_x, d_y) = ((float(x), float(y)) for x, y in spots)
    assert b_x < c_x < d_x
    assert c_y == d_y < b_y


def test_nothing_in_a_text_becomes_markup_in_a_tree() -> None:
    plain, nasty = (Parsed(report.tree_page(grown(cut(text), *FAMILY))) for text in ("a b c d e", NASTY))
    assert {tag for tag, _ in nasty.elements} == {tag for tag, _ in plain.elements}


def test_a_tree_s_page_asks_nothing_of_the_network() -> None:
    page = report.tree_page(grown(cut("a b c d"), *FAMILY))
    assert not re.search(r"https?:|//[a-z]|url\(|@import", page)


def test_a_root_alone_is_a_tree() -> None:
    assert Outline(report.tree_page(grown(cut("a b")))).items == [(1, "a")]


def test_a_page_of_attention_attributions_draws_their_tree() -> None:
    why = named(attended(6), "attattr")
    assert Outline(report.explanation_page([why])).items == Outline(report.tree_page(grow(why))).items
