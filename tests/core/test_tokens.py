"""Pieces, words and characters: every tokenizer's cut leads back to the text as the user wrote it."""

from __future__ import annotations

import copy
import re
import sys
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import regex
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models as tk
from tokenizers import normalizers, pre_tokenizers, processors
from transformers import ByT5Tokenizer, PreTrainedTokenizer, PreTrainedTokenizerFast

from heedful.core.alignment import align_pieces
from heedful.core.errors import BadInput
from heedful.core.tokens import Span, Tokens, check_text, trim, word_indices, word_spans
from heedful.model.classifier import Classifier
from heedful.model.huggingface import tokenize
from tests.support.models import shared, tokenizer

FAMILY = "👩‍👩‍👧"
STRANGE = {
    "accents": "The naïve café, déjà vu",
    "decomposed": "un cafe\u0301 noir",
    "emoji": f"good 😀 film {FAMILY} bad 👍🏽!",
    "right to left": "הסרט היה טוב, film جيد",
    "devanagari": "हिन्दी कुछ अच्छा",
    "cjk": "映画は良い。カメラ很好 film",
    "hyphen and apostrophe": "a well-made film, isn't it? l’été",
    "numbers": "3.5 of 10,000 in 2024, 1st B2B",
    "url": "see http://a.b/c?d=1&e=f#g now",
    "white space": " a\t\tb\n\n c   d ",
    "markup": "<script>alert('good')</script> & film",
    "compatibility": "ﬁlm ½ … Ｆｉｌｍ",
    "soft hyphen": "good\u00adfilm good\u200bfilm",
    "marks of tokenizers": "the ▁film ##ing low</w> Ġnot @@",
}
KINDS = ("wordpiece", "roberta", "gpt", "t5", "xlnet")
every_kind = pytest.mark.parametrize("kind", KINDS)
every_text = pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE.keys())


# twins: one vocabulary, fixed, in a fast tokenizer and in a slow one

SPECIAL = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
LETTERS = "abcdefghiklmnoprstuvwy"  # without j, q, x, z: words that have them are unknown
WHOLE = [
    "the",
    "film",
    "good",
    "not",
    "bad",
    "was",
    "un",
    "##believ",
    "##able",
    "cafe",
    ",",
    ".",
    "'",
    "-",
    "?",
    "#",
    "映",
]
VOCABULARY = [*SPECIAL.values(), *WHOLE, *LETTERS, *(f"##{c}" for c in LETTERS)]
PUNCTUATION = r"[\p{P}$+<=>^`|~]"


class SlowWordPiece(PreTrainedTokenizer):  # type: ignore[misc, unused-ignore]
    """Lower-casing, without accents, "##" before the rest of a word, [UNK] for a word that cannot be spelt."""

    model_input_names = ("input_ids", "attention_mask", "token_type_ids")

    def __init__(self) -> None:
        self.ids = {piece: i for i, piece in enumerate(VOCABULARY)}
        super().__init__(**SPECIAL, special_tokens_pattern="cls_sep")

    @property
    def vocab_size(self) -> int:
        return len(self.ids)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.ids)

    def _tokenize(self, text: str) -> list[str]:
        kept = "".join(c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
        plain = "".join(c for c in unicodedata.normalize("NFD", kept) if unicodedata.category(c) != "Mn").lower()
        result = regex.findall(rf"\p{{Han}}|{PUNCTUATION}|(?:(?!\p{{Han}}|{PUNCTUATION})\S)+", plain)
        return [piece for word in result for piece in self._pieces(word)]

    def _pieces(self, word: str) -> list[str]:
        pieces: list[str] = []
        while word:
            mark = "##" if pieces else ""
            size = next((n for n in range(len(word), 0, -1) if mark + word[:n] in self.ids), 0)
            if not size:
                return ["[UNK]"]
            pieces.append(mark + word[:size])
            word = word[size:]
        return pieces

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids.get(token, self.ids["[UNK]"])

    def _convert_id_to_token(self, index: int) -> str:
        return str(VOCABULARY[index])

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return " ".join(tokens).replace(" ##", "")


@cache
def slow_wordpiece() -> SlowWordPiece:
    return SlowWordPiece()


@cache
def fast_wordpiece() -> Any:
    ids = {piece: i for i, piece in enumerate(VOCABULARY)}
    t = tokenizers.Tokenizer(tk.WordPiece(ids, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    names = ["input_ids", "attention_mask", "token_type_ids"]
    return PreTrainedTokenizerFast(tokenizer_object=t, **SPECIAL, model_input_names=names)


class Hidden(PreTrainedTokenizer):  # type: ignore[misc, unused-ignore]
    """The pieces of a fast tokenizer, "▁" and all, without their offsets."""

    def __init__(self, fast: Any) -> None:
        self.fast = fast
        super().__init__(unk_token="<unk>", eos_token="</s>", special_tokens_pattern="eos")

    @property
    def vocab_size(self) -> int:
        return len(self.fast)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.fast.get_vocab())

    def _tokenize(self, text: str) -> list[str]:
        # subtle: an unknown token's piece is the text it stands for, and would give the answer away
        ids = self.fast(text, add_special_tokens=False)["input_ids"]
        return [str(piece) for piece in self.fast.convert_ids_to_tokens(ids)]

    def _convert_token_to_id(self, token: str) -> int:
        return int(self.fast.convert_tokens_to_ids(token))

    def _convert_id_to_token(self, index: int) -> str:
        return str(self.fast.convert_ids_to_tokens(index))

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens).replace("▁", " ").strip()


class EndOfWord(PreTrainedTokenizer):  # type: ignore[misc, unused-ignore]
    """The BPE of the first GPT and of XLM: lower-casing, two letters to a piece, "</w>" after the last."""

    def __init__(self) -> None:
        super().__init__(unk_token="<unk>")
        self.known: list[str] = ["<unk>"]

    @property
    def vocab_size(self) -> int:
        return 10_000

    def get_vocab(self) -> dict[str, int]:
        return {"<unk>": 0}

    def _tokenize(self, text: str) -> list[str]:
        halves = [[word[i : i + 2] for i in range(0, len(word), 2)] for word in text.lower().split()]
        return [piece for word in halves for piece in (*word[:-1], word[-1] + "</w>")]

    def _convert_token_to_id(self, token: str) -> int:
        if token not in self.known:
            self.known.append(token)
        return self.known.index(token)

    def _convert_id_to_token(self, index: int) -> str:
        return self.known[index]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens).replace("</w>", " ").strip()


def shown(tokens: Tokens) -> list[str]:
    """The characters that each piece of text stands for."""
    texts = (tokens.text, tokens.pair or "")
    spans = [(tokens.segments[i], tokens.spans[i]) for i in tokens.content]
    return [texts[segment][slice(*span)] for segment, span in spans if segment is not None and span is not None]


def covered(tokens: Tokens) -> set[int]:
    return {k for i in tokens.content for k in range(*(tokens.spans[i] or (0, 0)))}


# what every tokenizer's cut must be


@every_kind
@every_text
def test_every_visible_character_belongs_to_a_piece(kind: str, text: str) -> None:
    tokens = tokenize(tokenizer(kind), text)
    # BERT's normaliser takes away accents and invisible characters
    lost = {i for i, c in enumerate(text) if c.isspace() or unicodedata.category(c) in ("Mn", "Cf")}
    assert covered(tokens) | lost == set(range(len(text)))


@every_kind
@every_text
def test_pieces_follow_the_text_without_white_space_at_their_ends(kind: str, text: str) -> None:
    spans = [tokens.spans[i] for tokens in [tokenize(tokenizer(kind), text)] for i in tokens.content]
    inside = [span for span in spans if span is not None]
    assert len(inside) == len(spans)
    assert [s[0] for s in inside] == sorted(s[0] for s in inside)
    assert all(text[slice(*span)] == text[slice(*span)].strip() for span in inside)


@every_kind
@every_text
def test_a_piece_belongs_to_the_word_that_holds_its_first_character(kind: str, text: str) -> None:
    tokens, units = tokenize(tokenizer(kind), text), word_spans(text)
    begins = {i: span[0] for i in tokens.content if (span := tokens.spans[i]) is not None and span[0] < span[1]}
    assert all(tokens.words[i] == next(w for w, (a, b) in enumerate(units) if a <= k < b) for i, k in begins.items())


@every_kind
@every_text
def test_special_tokens_are_marked_and_only_they(kind: str, text: str) -> None:
    t = tokenizer(kind)
    tokens = tokenize(t, text)
    bare = t(text, add_special_tokens=False)["input_ids"]
    assert [tokens.ids[i] for i in tokens.content] == bare
    assert all(
        (tokens.spans[i] is None) == (tokens.words[i] is None) == special for i, special in enumerate(tokens.special)
    )


@every_kind
def test_ids_and_types_are_what_the_tokenizer_gives(kind: str) -> None:
    t = tokenizer(kind)
    encoding = t("The film was good", "not bad")
    tokens = tokenize(t, "The film was good", "not bad")
    assert list(tokens.ids) == encoding["input_ids"]
    assert (None if tokens.types is None else list(tokens.types)) == encoding.get("token_type_ids")


def test_the_pieces_of_a_word_are_its_letters() -> None:
    tokens = tokenize(fast_wordpiece(), "Unbelievably NOT bad")
    assert tokens.pieces == ("[CLS]", "un", "##believ", "##a", "##b", "##l", "##y", "not", "bad", "[SEP]")
    assert shown(tokens) == ["Un", "believ", "a", "b", "l", "y", "NOT", "bad"]
    assert tokens.words == (None, 0, 0, 0, 0, 0, 0, 1, 2, None)


def test_every_byte_of_an_emoji_is_the_whole_emoji() -> None:
    tokens = tokenize(tokenizer("roberta"), "😀")
    assert [tokens.spans[i] for i in tokens.content] == [(0, 1)] * 4


def test_only_the_first_byte_of_an_emoji_is_shown_as_the_emoji() -> None:
    tokens = tokenize(tokenizer("roberta"), "😀")
    assert [tokens.surface(i) for i in range(len(tokens))] == ["<s>", "😀", *tokens.pieces[2:5], "</s>"]


@every_kind
def test_a_family_of_joined_emoji_is_one_word(kind: str) -> None:
    tokens = tokenize(tokenizer(kind), f"good {FAMILY} film")
    assert set(tokens.words) - {None} == {0, 1, 2}


def test_the_mark_before_a_sentencepiece_text_is_empty() -> None:
    tokens = tokenize(tokenizer("t5"), "Qx film")
    assert tokens.pieces[0] == "▁"
    assert (tokens.spans[0], tokens.surface(0), tokens.surface(1)) == ((0, 0), "▁", "Qx")


def test_reading_leaves_truncation_and_padding_of_the_tokenizer_alone() -> None:
    t = copy.deepcopy(fast_wordpiece())
    t.backend_tokenizer.enable_truncation(4)
    t.backend_tokenizer.enable_padding(length=6)
    before = t.backend_tokenizer.to_str()
    assert len(tokenize(t, "the film was not good")) == 7
    assert t.backend_tokenizer.to_str() == before


def steps(words: int) -> int:
    """Lines of Python that are executed to read so many words."""
    tokenizer, text, count = fast_wordpiece(), " ".join(["film"] * words), 0

    def trace(frame: Any, event: str, value: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        tokenize(tokenizer, text).by("word")
    finally:
        sys.settrace(before)
    return count


def test_twice_as_many_words_take_twice_as_long() -> None:
    assert steps(400) < 2.2 * steps(200)  # with a search through all words for each piece, nearly four times as long


# slow tokenizers


@every_text
def test_a_slow_wordpiece_tokenizer_has_the_spans_of_its_fast_twin(text: str) -> None:
    slow, fast = tokenize(slow_wordpiece(), text), tokenize(fast_wordpiece(), text)
    assert not slow_wordpiece().is_fast
    assert slow == fast


@pytest.mark.parametrize(
    "text", ["qa a bad", "xyz zoo the", "😀a a", "jab bad ajar bad", "q-a a", "zé ze e", "qqqq q q"]
)
def test_letters_of_an_unknown_word_are_not_taken_for_the_next_word(text: str) -> None:
    assert tokenize(slow_wordpiece(), text) == tokenize(fast_wordpiece(), text)


def test_a_long_stretch_of_unknown_words_does_not_lose_the_rest() -> None:
    text = "good " + "ж" * 300 + " film " + "ж я " * 200 + "not bad"
    assert shown(tokenize(slow_wordpiece(), text)) == text.split()


def test_a_slow_pair_has_the_segments_types_and_words_of_its_fast_twin() -> None:
    pair = ("the [SEP] film", "Qua café")
    assert tokenize(slow_wordpiece(), *pair) == tokenize(fast_wordpiece(), *pair)


# subtle: two unknown words in a row that hold known letters ("жж aq a") cannot be told apart without offsets
KNOWN = st.lists(st.sampled_from([*"aábeéfilmÉNs", "film", "e\u0301", "the"]), min_size=1, max_size=6).map("".join)
UNKNOWN = st.sampled_from(["q", "zqz", "😀", "ж", "नु", "👩\u200d👧", "<"])
BETWEEN = st.sampled_from([" ", "\t", "  ", ", ", "-", "?", "映", " < "])


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(KNOWN | UNKNOWN, BETWEEN).map("".join), min_size=1, max_size=10).map("".join))
def test_slow_spans_are_the_fast_ones_or_the_gap_around_them(text: str) -> None:
    slow, fast = tokenize(slow_wordpiece(), text), tokenize(fast_wordpiece(), text)
    assert slow.ids == fast.ids
    for piece, a, b in zip(slow.pieces, slow.spans, fast.spans, strict=True):
        if a is None or b is None or piece != "[UNK]":
            assert a == b
        else:
            assert a[0] <= b[0] and b[1] <= a[1]  # noqa: PT018


@every_text
def test_sentencepiece_without_offsets_shows_the_characters_of_its_fast_twin(text: str) -> None:
    if "</" in text:
        return
    slow, fast = tokenize(Hidden(tokenizer("t5")), text), tokenize(tokenizer("t5"), text)
    known = [i for i in fast.content if fast.ids[i] != tokenizer("t5").unk_token_id]
    assert slow.ids == fast.ids
    assert [shown(slow)[i] for i in known] == [shown(fast)[i] for i in known]


def test_pieces_with_an_end_of_word_mark_are_found() -> None:
    tokens = tokenize(EndOfWord(), "The Café\n closed")
    assert tokens.pieces == ("th", "e</w>", "ca", "fé</w>", "cl", "os", "ed</w>")
    assert shown(tokens) == ["Th", "e", "Ca", "fé", "cl", "os", "ed"]


def test_bytes_without_offsets_lead_to_their_characters() -> None:
    tokens = tokenize(ByT5Tokenizer(), "Zé 😀 a")
    assert shown(tokens) == ["Z", "é", "é", "", "😀", "😀", "😀", "😀", "", "a"]


# align


@pytest.mark.parametrize(
    ("text", "surfaces", "expected"),
    [
        ("Ünder way", ["un", "der", "way"], ["Ün", "der", "way"]),
        ("ﬁlm", ["f", "i", "lm"], ["ﬁ", "ﬁ", "lm"]),
        ("Straße", ["strass", "e"], ["Straß", "e"]),
        ("cafe\u0301 x", ["cafe", "x"], ["cafe", "x"]),
        ("a 漢 b", ["a", None, "b"], ["a", "漢", "b"]),
        ("a 漢 字 b", ["a", None, None, "b"], ["a", "漢", "字", "b"]),
        ("a 漢字漢 b", ["a", None, None, "b"], ["a", "漢字漢", "漢字漢", "b"]),
        ("漢 b", [None, "b"], ["漢", "b"]),
        ("b 漢", ["b", None], ["b", "漢"]),
        ("one two", ["one", "never there", "two"], ["one", "", "two"]),
        ("हिन्दी", ["हिनद", "ी"], ["हिन्द", "ी"]),
        ("to be", ["to", " ", "be"], ["to", "", "be"]),
        ("漢", [], []),
    ],
)
def test_align_finds(text: str, surfaces: list[str | None], expected: list[str]) -> None:
    assert [text[slice(*span)] for span in align_pieces(text, surfaces)] == expected


def stripped(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")


@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(st.text("aAbBcÇéÉñÑüÜøßжЖ7漢", min_size=1, max_size=4), min_size=1, max_size=4), max_size=12))
def test_align_recovers_the_pieces_of_lower_cased_text_without_accents(cut: list[list[str]]) -> None:
    text = "  ".join("".join(word) for word in cut)
    pieces = [piece for word in cut for piece in word]
    assert [text[slice(*span)] for span in align_pieces(text, [stripped(piece) for piece in pieces])] == pieces


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40), st.lists(st.none() | st.text(max_size=4), max_size=12))
def test_align_gives_ordered_spans_inside_the_text_whatever_it_is_given(text: str, surfaces: list[str | None]) -> None:
    spans = align_pieces(text, surfaces)
    assert len(spans) == len(surfaces)
    assert all(0 <= a <= b <= len(text) for a, b in spans)
    assert [a for a, _ in spans] == sorted(a for a, _ in spans)


# words and sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm ok.", ["I'm", "ok", "."]),
        ("l’été well-made e-mail", ["l’été", "well-made", "e-mail"]),
        ("3.5 10,000 1st 2.", ["3.5", "10,000", "1st", "2", "."]),
        ("cafe\u0301s हिन्दी", ["cafe\u0301s", "हिन्दी"]),
        (f"a{FAMILY}👍🏽🇫🇷b", ["a", FAMILY, "👍🏽", "🇫🇷", "b"]),
        ("映画はカメラ", ["映", "画", "は", "カメラ"]),
        ("שלום, جيد", ["שלום", ",", "جيد"]),
        ("<b>x</b>", ["<", "b", ">", "x", "<", "/", "b", ">"]),
        ("'tis snake_case -- end-", ["'", "tis", "snake_case", "-", "-", "end", "-"]),
        (" \t\n", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert [text[a:b] for a, b in word_spans(text)] == expected


@settings(max_examples=300)
@given(st.text())
def test_words_hold_every_visible_character_once(text: str) -> None:
    held = [k for a, b in word_spans(text) for k in range(a, b)]
    assert len(held) == len(set(held))
    assert {k for k, c in enumerate(text) if not c.isspace()} <= set(held)


@given(st.text("ab .\n"))
def test_trim_is_strip(text: str) -> None:
    assert text[slice(*trim(text, (0, len(text))))] == text.strip()


# refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty; give at least one word."),
        (" \t\n\u2003", "the text is empty; give at least one word."),
        ("ab\0c", "the text has a NUL character at position 2, which is not text; remove it."),
        ("😀 \ud83d!", "the text has a lone surrogate (U+D83D) at position 2, which is not text; remove it."),
        ("[SEP]", "the text has only special tokens for this model; give at least one word."),
        ("[CLS] [MASK]", "the text has only special tokens for this model; give at least one word."),
        ("\u200b", "the text has only special tokens for this model; give at least one word."),
    ],
)
def test_a_text_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        shared("bert").tokens(text)


@pytest.mark.parametrize("given", [None, 3, b"good", ["good"]])
def test_what_is_no_string_is_refused(given: Any) -> None:
    with pytest.raises(BadInput, match=rf"^the text is a {type(given).__name__}; give one string\.$"):
        check_text(given)


def test_a_bad_pair_is_called_the_pair() -> None:
    with pytest.raises(BadInput, match=r"^the pair has a NUL character at position 0, which is not text; remove it\.$"):
        shared("bert").tokens("good", "\0")


def test_a_special_token_that_the_user_typed_is_text() -> None:
    tokens = shared("bert").tokens("good [SEP] film")
    assert [tokens.surface(i) for i in tokens.content][1:-1] == ["[SEP]"]
    assert tokens.special == (True, False, False, False, True)


def test_a_word_that_the_model_does_not_know_is_text() -> None:
    assert shared("bert").tokens("😀").content == (1,)


# pairs


@every_kind
def test_word_numbers_go_on_through_the_pair(kind: str) -> None:
    first, second = "The film, 😀", "not bad"
    tokens = tokenize(tokenizer(kind), first, second)
    by_segment = [{w for w, s in zip(tokens.words, tokens.segments, strict=True) if s == segment} for segment in (0, 1)]
    assert by_segment == [{0, 1, 2, 3}, {4, 5}]


@every_kind
def test_spans_of_a_pair_are_characters_of_its_own_text(kind: str) -> None:
    tokens = tokenize(tokenizer(kind), "good film", "awful music")
    alone = tokenize(tokenizer(kind), "awful music")
    assert [tokens.spans[i] for i in tokens.content if tokens.segments[i] == 1] == [
        alone.spans[i] for i in alone.content
    ]


# cutting, windows, units: on any tokens at all


def made(first: int, second: int | None = None) -> Tokens:
    """[CLS] a a a [SEP] (b b b [SEP]): one letter to a piece, two to a word."""
    texts = [" ".join([letter * 2] * (n // 2) + [letter] * (n % 2)) for letter, n in (("a", first), ("b", second or 0))]
    spans: list[Span | None] = [None]
    segments: list[int | None] = [None]
    for segment, text in enumerate(texts[: 1 if second is None else 2]):
        spans += [*((k, k + 1) for k, c in enumerate(text) if c != " "), None]
        segments += [*(segment for c in text if c != " "), None]
    return Tokens(
        text=texts[0],
        pair=None if second is None else texts[1],
        ids=tuple(range(len(spans))),
        pieces=tuple(f"p{i}" for i in range(len(spans))),
        spans=tuple(spans),
        words=tuple(word_indices(spans, segments, texts)),
        segments=tuple(segments),
        types=tuple(i % 2 for i in range(len(spans))),
    )


def lengths(tokens: Tokens) -> tuple[int, int, int]:
    return (tokens.segments.count(0), tokens.segments.count(1), tokens.segments.count(None))


single_or_pair = st.builds(made, st.integers(1, 30), st.none() | st.integers(1, 30))


@pytest.mark.parametrize(
    ("first", "second", "limit", "kept"),
    [
        (10, None, 12, (10, 0, 2)),
        (10, None, 11, (9, 0, 2)),
        (10, None, 3, (1, 0, 2)),
        (10, 2, 10, (5, 2, 3)),
        (2, 10, 10, (2, 5, 3)),
        (6, 9, 13, (5, 5, 3)),
        (6, 9, 14, (5, 6, 3)),
        (6, 9, 16, (6, 7, 3)),
        (4, 4, 5, (1, 1, 3)),
    ],
)
def test_the_longer_text_is_cut_first(first: int, second: int | None, limit: int, kept: tuple[int, int, int]) -> None:
    assert lengths(made(first, second).cut(limit)) == kept


def cut_one_by_one(tokens: Tokens, limit: int) -> Tokens:
    """The slow twin of `cut`: while it is too long, the longer text (of two alike, the first) loses its last piece."""
    while len(tokens) > limit:
        first, second, _ = lengths(tokens)
        longer = 0 if first >= second else 1
        last = max(i for i in tokens.content if tokens.segments[i] == longer)
        tokens = tokens.take([i for i in range(len(tokens)) if i != last])
    return tokens


@given(single_or_pair, st.integers(4, 70))
def test_cut_is_dropping_the_longer_texts_last_piece_again_and_again(tokens: Tokens, limit: int) -> None:
    assert tokens.cut(limit).ids == cut_one_by_one(tokens, limit).ids


@given(single_or_pair, st.integers(4, 70), st.integers(4, 70))
def test_cutting_twice_is_cutting_once(tokens: Tokens, one: int, other: int) -> None:
    assert tokens.cut(max(one, other)).cut(min(one, other)) == tokens.cut(min(one, other))


@given(single_or_pair, st.integers(4, 70))
def test_what_was_cut_is_counted(tokens: Tokens, limit: int) -> None:
    cut = tokens.cut(limit)
    assert cut.dropped == len(tokens) - len(cut)
    assert cut.total == (len(tokens.content) if cut.dropped else 0)


def test_the_notice_says_how_much_was_cut() -> None:
    assert made(2_000).cut(512).notice == (
        "the model reads 510 of this text's 2,000 tokens: the other 1,490 were cut off"
    )


def test_there_is_no_notice_when_nothing_was_cut() -> None:
    assert (made(5).notice, made(5).cut(7).notice, made(5).cut(None).notice) == (None, None, None)


def test_a_limit_of_special_tokens_alone_is_refused() -> None:
    message = r"^the model reads 2 tokens, which leaves no room for text beside its special tokens\.$"
    with pytest.raises(BadInput, match=message):
        made(5).cut(2)
    with pytest.raises(BadInput, match=message):
        made(5).windows(2)


@given(single_or_pair, st.data())
def test_take_keeps_what_belongs_together(tokens: Tokens, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, len(tokens) - 1), unique=True).map(sorted))
    taken = tokens.take(positions)
    columns = ("ids", "pieces", "spans", "words", "segments", "types")
    assert all(getattr(taken, c) == tuple(getattr(tokens, c)[i] for i in positions) for c in columns)
    assert (taken.text, taken.pair) == (tokens.text, tokens.pair)


@given(st.integers(1, 60), st.none() | st.integers(1, 4), st.integers(9, 40))
def test_windows_hold_every_piece_fit_the_model_and_overlap(first: int, second: int | None, limit: int) -> None:
    tokens = made(first, second)
    windows = tokens.windows(limit)
    assert set().union(*windows) == set(range(len(tokens)))
    assert all(len(w) <= limit and w == tuple(sorted(w)) for w in windows)
    moving = 0 if second is None or first >= second else 1
    runs = [[i for i in w if tokens.segments[i] == moving] for w in windows]
    assert all(run == list(range(run[0], run[0] + len(run))) for run in runs)
    assert all(set(a) & set(b) and a < b for a, b in pairwise(runs))


@given(st.integers(10, 60), st.integers(1, 4))
def test_every_window_holds_all_special_tokens_and_the_shorter_text(first: int, second: int) -> None:
    tokens = made(first, second)
    fixed = {i for i, segment in enumerate(tokens.segments) if segment != 0}
    assert all(fixed <= set(window) for window in tokens.windows(12))


def test_a_short_text_is_one_window() -> None:
    assert made(5).windows(7) == made(5).windows(None) == [tuple(range(7))]


def test_a_pair_that_leaves_no_window_is_refused() -> None:
    message = (
        "the shorter text of the pair has 8 tokens and the model reads 11: no window of the longer text fits beside "
        "it; shorten the pair."
    )
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        made(20, 8).windows(11)


@given(single_or_pair, st.sampled_from(["word", "sentence", "token"]))
def test_units_divide_the_pieces_in_order(tokens: Tokens, unit: str) -> None:
    view, groups = tokens.by(unit)
    assert [i for group in groups for i in group] == list(range(len(tokens)))
    assert len(view) == len(groups)
    assert all(len(group) == 1 for group in groups if tokens.segments[group[0]] is None)


@given(single_or_pair)
def test_units_of_a_text_follow_each_other(tokens: Tokens) -> None:
    view, _ = tokens.by("word")
    for segment in (0, 1):
        spans = [s for s, g in zip(view.spans, view.segments, strict=True) if g == segment and s is not None]
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


@every_kind
@every_text
def test_the_words_of_a_view_are_the_words_of_the_text(kind: str, text: str) -> None:
    view, _ = tokenize(tokenizer(kind), text).by("word")
    numbers = [number for i in view.content if (number := view.words[i]) is not None]
    assert numbers == sorted(set(numbers))


def test_words_are_shown_as_the_user_wrote_them() -> None:
    view, _ = tokenize(fast_wordpiece(), "Unbelievable café, isn't it?").by("word")
    assert view.pieces == ("[CLS]", "Unbelievable", "café", ",", "isn't", "it", "?", "[SEP]")
    assert (view.unit, view.ids, view.types) == ("word", (), None)


def test_sentences_of_a_pair_stay_apart() -> None:
    view, _ = tokenize(fast_wordpiece(), "The film. Not bad.", "Good! The film.").by("sentence")
    assert [view.pieces[i] for i in view.content] == ["The film.", "Not bad.", "Good!", "The film."]


def clauses(text: str) -> list[str]:
    return text.split(", ")


def test_a_splitter_may_return_strings() -> None:
    view, groups = tokenize(fast_wordpiece(), "the film, not bad, good").by(clauses)
    assert [view.pieces[i] for i in view.content] == ["the film", ", not bad", ", good"]
    assert (view.unit, [len(group) for group in groups]) == ("clauses", [1, 2, 3, 2, 1])


def test_a_splitter_may_return_spans() -> None:
    view, _ = tokenize(fast_wordpiece(), "the film was bad").by(lambda text: [(0, 8), (9, len(text))])
    assert [view.pieces[i] for i in view.content] == ["the film", "was bad"]


def test_a_splitter_that_finds_nothing_leaves_one_unit() -> None:
    assert len(made(6).by(lambda text: [])[1]) == 3


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (["film", "the"], "the splitter returned 'the', which is not in the rest of the text."),
        (["music"], "the splitter returned 'music', which is not in the rest of the text."),
        ([(0, 99)], "the splitter returned the span (0, 99), which is not inside the text or not in order."),
        ([(4, 8), (0, 3)], "the splitter returned the span (0, 3), which is not inside the text or not in order."),
        ([(3, 1)], "the splitter returned the span (3, 1), which is not inside the text or not in order."),
        ([7], "the splitter returned 7; it must return strings or (start, end) spans."),
        ([None], "the splitter returned None; it must return strings or (start, end) spans."),
        ([(1, 2, 3)], "the splitter returned (1, 2, 3); it must return strings or (start, end) spans."),
        ([(0.0, 2.5)], "the splitter returned (0.0, 2.5); it must return strings or (start, end) spans."),
    ],
)
def test_a_bad_splitter_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        tokenize(fast_wordpiece(), "the film").by(lambda text: returned)


def test_an_unknown_unit_is_refused() -> None:
    message = "unit 'clause' is not one of token, word, sentence, or a function from a text to spans."
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        made(5).by("clause")


@given(single_or_pair)
def test_tokens_come_back_from_a_dictionary(tokens: Tokens) -> None:
    assert Tokens.from_dict(tokens.to_dict()) == tokens


# through the classifier


def test_a_classifier_reads_with_a_slow_tokenizer() -> None:
    model = shared("bert").model
    slow, fast = Classifier(model, slow_wordpiece()), Classifier(model, fast_wordpiece())
    assert slow.tokens("Unbelievably bad café") == fast.tokens("Unbelievably bad café")


def test_an_accent_that_the_tokenizer_strips_stays_with_its_letter() -> None:
    classifier = shared("bert")
    tokens, _ = classifier.tokens("un cafe\u0301, e\u0301te\u0301").by("word")
    assert [tokens.surface(i) for i in tokens.content] == ["un", "cafe\u0301", ",", "e\u0301te\u0301"]
