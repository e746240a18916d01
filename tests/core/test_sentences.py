"""Sentences: a table of hard cases, and what holds for every text."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.core.sentences import sentence_spans
from heedful.core.tokens import Tokens, word_indices, word_spans


def cut(text: str) -> list[str]:
    return [text[a:b] for a, b in sentence_spans(text)]


# hard cases: " | " marks each border and is not part of the text
CASES = {
    "plain": "One. | Two! | Three?",
    "title": "Mr. and Mrs. Reed met Dr. Low and Capt. Ames. | They talked.",
    "title at the end of a line": "He calls me Mr.\n | She does not.",
    "initials": "J. K. Marsh wrote it with R. Low. | We read it.",
    "I at the end": "She stayed, and so did I. | We slept.",
    "example": "Some fruit, e.g. Spanish pears, i.e. green ones, is cheap. | Buy it.",
    "versus": "It was Reed vs. Low again.",
    "and so on": "Pears, figs, etc. are cheap. | Buy pears, figs, etc. | Then go.",
    "company": "Apt Inc. Chairman Reed left. | He left Apt Inc. | The firm grew.",
    "country": "The U.S. Army came. | It left the U.S. | They stayed.",
    "time": "It is 5 p.m. in Rome. | We met at 5 p.m. | Then we ate.",
    "month": "On Jan. 5 it rained. | The sun shone in Sept. | It was hot.",
    "verb like a weekday": "He sat. | Mary stood. | We saw the sun. | Rain came.",
    "number": "See No. 5 on p. 7 in Fig. 2. | No. | Not today.",
    "lower case number word": "we said no. | we left.",
    "decimal": "It cost 3.5 euros, or 1,200.75 in all. | Cheap!",
    "decimal without a zero": "About .5 of it is lost. | Half!",
    "year": "It was made in 1999. | We saw it in 2001.",
    "version": "Use version 2.1.3. | It works.",
    "ellipsis in mid-sentence": "Well ... maybe it is… fine. | Or not.",
    "ellipsis at the end": "Wait... | I know… | Yes.",
    "spaced ellipsis": "It went on . . . and on. | It ended . . .",
    "mixed marks": "Really?! | No!!! | What?? | Yes.",
    "quote": 'He said "no." | Then he left.',
    "quote goes on": '"No." he said. | "Stop!" she cried, and "why?" too.',
    "curly quotes": "“It is late.” | “Is it?” | ‘Yes.’ | We left.",
    "guillemets": "« Il est tard. » | Elle part.",
    "brackets": "(It rained.) | We left. | [See above.] | Then we ate.",
    "inside brackets": "He left (why? Nobody knows. Really.) and came back. | Good.",
    "open bracket": "He left (why? | Nobody knows. | It is late.",
    "emoticons": "I was sad :( today. | Now I am fine :) again. | Good.",
    "line ends": "a title\n | its text\r\n | more",
    "blank lines": "a title\n\n\n | its text",
    "HTML line ends": "A film.<br /><br /> | I saw it.<BR> | twice",
    "list": "1. Pears are good. | 2. Figs too\n | (a) Not plums\n | - nor nuts\n | * or so",
    "numbered list with long items": "iv. Pears. | v. Figs.",
    "bullets on one line": "Buy: | • pears | • figs | • nuts",
    "a line of marks": "one\n---\n | two\n***\n | three",
    "marks first": "-- \nOne. | Two.",
    "tokenized": "it 's great . | we left . ! ? | `` no , '' he said .",
    "tokenized quote": "he said `` no . '' | We left .",
    "tokenized names": "we met mr . reed and j . k . low . | so did i . | it was plan 9 . | good .",
    "lower case": "it was dull. | we left! | really? | yes.",
    "upper case": "IT WAS DULL. | WE LEFT.",
    "no space": "It was dull.We left",
    "URL": "See https://a.example/b.c?d=e.f and www.b.example. | Then go to http://c.example/? | Yes.",
    "address": "Write to a.b@c.example. | Thanks.",
    "file": "Open a.txt. | Read it. | It is in .config. | Yes.",
    "Chinese": "今天很好。 | 你好！ | 是吗？ | “好的。” | 再见",
    "Chinese, several marks": "真的吗？！ | 是的！！ | 好",
    "Japanese": "良い。 | 悪い！ | 「本当？」と聞いた。 | はい",
    "wide decimal": "３．５円です。 | はい",
    "URL in Chinese": "看https://a.example/搜？q=1。 | 然后走。",
    "Hindi": "यह अच्छा है। | वह गया।",
    "Arabic": "هل هذا جيد؟ | نعم.",
    "Spanish": "¿Qué pasa? | ¡Nada! | Adiós.",
    "emoji": "Good! | 👍\n | Bad. | 👎",
    "no mark": "no mark at all in this text",
    "marks only": "... ?!",
    "blank": "  ",
}


WITHOUT_SPACES = ("HTML line ends", "Chinese", "Chinese, several marks", "Japanese", "wide decimal", "URL in Chinese")


@pytest.mark.parametrize("name", CASES)
def test_hard_cases(name: str) -> None:
    expected = [part.strip() for part in CASES[name].split("| ")]
    text = CASES[name].replace(" | ", "" if name in WITHOUT_SPACES else " ")
    assert cut(text) == [part for part in expected if part]


# every text

signs = st.text("ab AB1.,!?…。！？．\"'”’()[]「」•-\n\r\u2028 \u0301\u200d\ufe0f😀‼と:/")
plain = st.characters(exclude_characters="\x1c\x1d\x1e\x1f")  # a space for Python alone, not for regular expressions
texts = st.text(plain) | signs | st.lists(st.sampled_from(list(CASES.values())), max_size=3).map(" ".join)


@settings(max_examples=150)
@given(texts)
@example("。\u0301a。\ufe0fb")
@example("‼\u200d👩. a")
def test_sentences_are_disjoint_in_order_and_hold_every_word(text: str) -> None:
    spans = sentence_spans(text)
    flat = [place for span in spans for place in span]
    assert flat == sorted(flat)
    assert all(a < b for a, b in spans)
    assert all(sum(a <= start and end <= b for a, b in spans) == 1 for start, end in word_spans(text))


@settings(max_examples=100)
@given(texts)
def test_sentences_and_the_space_between_are_the_text(text: str) -> None:
    spans = sentence_spans(text)
    assert all(text[a:b] == text[a:b].strip() for a, b in spans)
    starts, ends = [0, *(b for _, b in spans)], [*(a for a, _ in spans), len(text)]
    gaps = [text[a:b] for a, b in zip(starts, ends, strict=True)]
    assert not "".join(gaps).strip()
    assert "".join(g + s for g, s in zip(gaps, [*cut(text), ""], strict=True)) == text


@settings(max_examples=40)
@given(texts.filter(str.strip), texts.filter(str.strip))
def test_the_sentences_of_a_pair_are_those_of_both_texts_and_special_tokens_belong_to_none(a: str, b: str) -> None:
    spans = (None, *word_spans(a), None, *word_spans(b), None)
    segments = (None, *[0] * len(word_spans(a)), None, *[1] * len(word_spans(b)), None)
    words = tuple(word_indices(spans, segments, (a, b)))
    view, groups = Tokens(a, b, (), ("x",) * len(spans), spans, words, segments).by("sentence")
    assert [view.spans[j] for j in view.content] == [*sentence_spans(a), *sentence_spans(b)]
    assert [groups[j] for j, special in enumerate(view.special) if special] == [
        [i] for i, segment in enumerate(segments) if segment is None
    ]


@pytest.mark.parametrize(
    "text", ["a. " * 10_000, "(a. " * 5_000 + ")", "a" * 100_000 + ".", ". " * 20_000, "a " * 50_000 + "."]
)
def test_time_grows_with_the_length(text: str) -> None:
    start = time.process_time()
    sentence_spans(text)
    assert time.process_time() - start < 2
