"""Tokenizers learned from training texts, and word vectors from a file or from the texts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from heedful.core.errors import BadInput
from heedful.model.huggingface import tokenize
from heedful.model.loading import wrapped
from heedful.nets.vocabulary import (
    CLS,
    NUMBER,
    UNK,
    TokenRules,
    ids,
    learned,
    log_odds,
    log_odds_of_labels,
    specials,
    trained_vectors,
    vectors,
)

TEXTS = [
    "It's a well-made film, isn't it?<br /><br />Yes!",
    "The film of 1999 costs 3.5 dollars...",
    "a film is a FILM",
]


def cut(text: str, how: TokenRules) -> list[str]:
    return list(learned([*TEXTS, text], how).encode(text, add_special_tokens=False).tokens)


def test_words_keep_their_apostrophes_and_lose_tags() -> None:
    assert cut(TEXTS[0], TokenRules()) == ["it's", "a", "well-made", "film", ",", "isn't", "it", "?", "yes", "!"]


def test_marks_can_be_left_out() -> None:
    assert cut(TEXTS[1], TokenRules(punctuation=False)) == ["the", "film", "of", "1999", "costs", "3.5", "dollars"]


def test_words_with_digits_can_become_one_word() -> None:
    assert cut("costs 3.5 dollars in 1999 or 2nd", TokenRules(digits=True))[1::2] == [NUMBER, "in", "or"]


@given(st.text("aé1٢²9 -'’.,()_Q\u0301", max_size=24))
@example("(1993), a 4-star b2b costs 3.5 dollars, 2nd of 1,000.")
@example("x-ray2 5_7 5é7 3d21 Ünï9!")
def test_words_with_digits_keep_their_spans(text: str) -> None:
    """The tokens are those without the setting, each that has a digit replaced."""
    plain, numbers = (learned([*TEXTS, text], TokenRules(digits=digits)).encode(text) for digits in (False, True))
    assert numbers.offsets == plain.offsets
    assert numbers.tokens == [NUMBER if any(map(str.isnumeric, token)) else token for token in plain.tokens]


def test_letters_can_keep_their_case() -> None:
    assert cut("a Film", TokenRules(lower=False)) == ["a", "Film"]


@pytest.mark.parametrize(
    ("frame", "single", "pair"),
    [
        ("ends", ["<s>", "film", "</s>"], ["<s>", "film", "</s>", "yes", "</s>"]),
        ("cls", [CLS, "film"], [CLS, "film", "yes"]),
        ("none", ["film"], ["film", "yes"]),
    ],
)
def test_frames(frame: str, single: list[str], pair: list[str]) -> None:
    made = learned(TEXTS, TokenRules(frame=frame))  # type: ignore[arg-type]
    assert made.encode("film").tokens == single
    assert made.encode("film", "yes").tokens == pair
    assert made.encode("film", "yes").type_ids[-1] == 1


def test_the_papers_numbers_of_special_tokens() -> None:
    made = learned(TEXTS, TokenRules())
    assert [made.token_to_id(t) for t in ("<pad>", "<unk>", "<s>", "</s>")] == [0, 1, 2, 3]


def test_rare_words_are_unknown() -> None:
    made = learned(TEXTS, TokenRules(frame="none", min_count=2))
    assert made.encode("a dollars film").tokens == ["a", UNK, "film"]
    assert learned(TEXTS, TokenRules(most=2)).get_vocab_size() == len(specials("ends")) + 2


@pytest.mark.parametrize("how", [TokenRules(), TokenRules(pieces=60)])
def test_the_order_of_the_texts_does_not_matter(how: TokenRules) -> None:
    texts = [f"{a}{b} {c}" for a in "abc" for b in ("ing", "ed", "") for c in ("film", "films", "story")]
    shuffled = random.Random(0).sample(texts, len(texts))
    assert learned(texts, how).to_str() == learned(shuffled, how).to_str()


def test_pieces_keep_their_characters() -> None:
    made = learned([*TEXTS, "filming filmed films"] * 3, TokenRules(pieces=40, frame="none"))
    text = "Filming, well!"
    tokens = tokenize(wrapped(made, specials("none")), text)
    assert "".join(text[slice(*(span or (0, 0)))] for span in tokens.spans) == text.replace(" ", "")
    assert len(tokens) > 4


def test_words_keep_their_characters() -> None:
    tokens = tokenize(wrapped(learned(TEXTS, TokenRules()), specials("ends")), TEXTS[0])
    assert tokens.surface(1) == "It's"
    assert tokens.text[slice(*(tokens.spans[-2] or (0, 0)))] == "!"


def test_ids_finds_words_and_pieces_that_begin_one() -> None:
    assert ids(learned(TEXTS, TokenRules()), [".", "no-such-word"]) == (learned(TEXTS, TokenRules()).token_to_id("."),)
    assert len(ids(learned(TEXTS * 3, TokenRules(pieces=60)), ["!"])) >= 1


def test_nothing_to_learn_is_said() -> None:
    with pytest.raises(BadInput, match="no words to learn"):
        learned([" ", ""], TokenRules())


# word vectors


def test_vectors_with_and_without_a_header(tmp_path: Path) -> None:
    body = "film 1 2 3\nunheard 4 5 6\nthe -1 0.5 1e-2\n"
    for name, text in (("plain.txt", body), ("header.vec", "3 3\n" + body)):
        (tmp_path / name).write_text(text)
        result = vectors(tmp_path / name, {"film": 7, "the": 2}, 3)
        assert set(result) == {2, 7}
        assert torch.equal(result[2], torch.tensor([-1, 0.5, 1e-2]))


def test_words_with_spaces_in_them_do_not_confuse(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 1 2 3\n. . . 4 5 6\nfilm 7 8 9\n")
    result = vectors(tmp_path / "glove.txt", {"film": 7, ".": 4}, 3)
    assert {i: row.tolist() for i, row in result.items()} == {7: [7, 8, 9]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("film 1 2\n", "line 1 has 2 numbers, the network's embedding 3; set embedding=2"),
        ("the 1 2 3\nfilm 1 b 3\n", "line 2 is not a word vector"),
        ("other 1 2 3\n", "have none of the training texts' words"),
    ],
)
def test_bad_vectors_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "v.txt"
    file.write_text(text)
    with pytest.raises(BadInput, match=message):
        vectors(file, {"film": 7, "the": 2}, 3)


def test_vectors_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        vectors(tmp_path / "no.txt", {}, 3)
    (tmp_path / "b.txt").write_bytes(b"film \xff\xfe\n")
    with pytest.raises(BadInput, match="are not UTF-8 text"):
        vectors(tmp_path / "b.txt", {"film": 1}, 3)


@pytest.mark.parametrize("labels", [2, 3])
def test_log_odds_of_each_label_have_the_sizes_of_log_odds(labels: int) -> None:
    rng = np.random.default_rng(0)
    gold = np.arange(60) % labels
    texts = [[int(label), *rng.integers(3, 9, 4).tolist()] for label in gold]
    by_label = log_odds_of_labels(texts, gold, labels, 9)
    assert np.abs(by_label).max(0) == pytest.approx(np.abs(log_odds(texts, gold, 9)))
    assert by_label.argmax(1).tolist() == list(range(labels))


def test_a_label_without_texts_has_no_log_odds() -> None:
    texts, gold = [[0, 2], [1, 2]] * 20, np.array([0, 2] * 20)
    weights = log_odds_of_labels(texts, gold, 3, 3)
    assert not weights[1].any()
    assert weights[0] == pytest.approx(-weights[2])


SYNONYMS = ((1, 2), (3, 4), (5, 6))


def planted(texts: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Texts of ten tokens: one topic's context words (10 each) around either of its two synonyms, which never meet."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(texts):
        topic = int(rng.integers(len(SYNONYMS)))
        row = 10 * (topic + 1) + rng.integers(10, size=10)
        row[rng.integers(10)] = rng.choice(SYNONYMS[topic])
        rows.append(row)
    return np.concatenate(rows), np.repeat(np.arange(texts), 10)


def test_synonyms_are_nearest_though_they_never_meet() -> None:
    rows = trained_vectors(*planted(), width=8)
    table = torch.stack([rows[i] for pair in SYNONYMS for i in pair])
    near = table @ table.T - 2 * torch.eye(len(table), dtype=table.dtype)
    assert near.argmax(1).tolist() == [1, 0, 3, 2, 5, 4]


def test_trained_vectors_have_length_one_and_the_same_bits_again() -> None:
    first, second = trained_vectors(*planted(), width=8), trained_vectors(*planted(), width=8)
    assert all(float(row.norm()) == pytest.approx(1) for row in first.values())
    assert all(torch.equal(first[i], second[i]) for i in first)


def test_special_and_rare_words_get_no_trained_vector() -> None:
    tokens, runs = planted()
    tokens[:4] = 99
    assert not {1, 99} & set(trained_vectors(tokens, runs, 8, special=[1]))
    tokens[4] = 99
    assert 99 in trained_vectors(tokens, runs, 8, special=[1])


def test_words_of_two_runs_do_not_meet() -> None:
    """Words 0 and 1 meet in their runs; where each token is a run, nothing does."""
    tokens = np.tile([0, 1], 20)
    assert set(trained_vectors(tokens, np.repeat(np.arange(20), 2), 4)) == {0, 1}
    with pytest.raises(BadInput, match="no words that occur 5 times and near others; give more texts"):
        trained_vectors(tokens, np.arange(40), 4)


def test_texts_without_frequent_words_have_no_trained_vectors() -> None:
    with pytest.raises(BadInput, match="leave out vectors=train"):
        trained_vectors(np.arange(30), np.zeros(30, dtype=int), 4)
