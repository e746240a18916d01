"""Explanations from elsewhere: read, carried to the model's tokens, audited like any other, and adapted from peers."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import heedful
from heedful.audits.summary import LeftOut
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.core.target import Target
from heedful.core.tokens import Tokens, word_spans
from heedful.data import Example
from heedful.methods.imported import adapters as adapting
from heedful.methods.imported.placement import GivenScores, map_scores
from heedful.methods.imported.reading import ImportedMethod, explained_examples, read, read_files
from heedful.model.classifier import Classifier
from tests.support import toys
from tests.support.findings import every_field
from tests.support.models import shared

FILM = "The film was good, unbelievably good."
ODD = "Café 👩‍👧 naïve — “so good”!"
RNG = torch.Generator()
FAMILIES = ("bert", "roberta", "t5")


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return path


def line(text: str = FILM, **more: Any) -> dict[str, Any]:
    scores = more.pop("scores", None) or [1.0] * len(word_spans(text))
    return {"text": text, "method": "mine", "scores": scores} | more


def one(tmp_path: Path, *lines: Any) -> ImportedMethod:
    (found,) = read(written(tmp_path / "mine.jsonl", *lines)).values()
    return found


def answered(method: ImportedMethod, text: str = FILM, target: int = 0, pair: str | None = None) -> heedful.Attribution:
    classifier = shared("bert")
    return method(classifier, classifier.tokens(text, pair), Target(target), RNG)


def on(own: Tokens, scores: Sequence[float], **more: Any) -> Any:
    """The scores of `mapped`."""
    return map_scores(GivenScores(own.text, "mine", tuple(scores), own.pair, **more), own).scores


def numbers(n: int) -> list[float]:
    return [float(x) for x in np.random.default_rng(n).normal(size=n)]


# reading


def test_methods_are_read_by_name_in_order(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", line(method="b"), "", line(method="a"), line(ODD, method="b"))
    found = read(path)
    assert list(found) == ["b", "a"]
    assert (found["b"].name, found["b"].file) == ("b", "x.jsonl")
    assert [found[name].knows(ODD) for name in found] == [True, False]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{", "is not JSON; write each explanation as one object on a line of its own."),
        ("[" * 100_000, "is not JSON; write each explanation as one object on a line of its own."),
        ("[1]", "is a list; write an object with text, method and scores."),
        ({"text": "a", "scores": [1]}, "has no method; give each explanation text, method and scores."),
        (line(token=["a"]), "has the unknown key 'token'; did you mean 'tokens'?"),
        (line(zzz=1), "has the unknown key 'zzz'; remove it."),
        (line(method=""), "names its method ''; give a name of 1 to 60 characters."),
        (line(method="a\nb"), "names its method 'a\\nb'; give a name of 1 to 60 characters."),
        (line(method="x" * 61), f"names its method '{'x' * 40}'; give a name of 1 to 60 characters."),
        (line(method="LIME"), "names its method 'LIME', which is heedful's own; give another, such as 'my-LIME'."),
        (line(method="shap"), "names its method 'shap', which is heedful's own; give another, such as 'my-shap'."),
        (line(method="Loo"), "names its method 'Loo', which is heedful's own; give another, such as 'my-Loo'."),
        (
            line(method="greedy"),
            "names its method 'greedy', which is heedful's own; give another, such as 'my-greedy'.",
        ),
        (line(scores="1"), "has scores that are not a list of numbers; give one for each token, span or word."),
        (line(scores=[1, True]), "has the score True at place 1; give finite numbers."),
        (line(scores=[float("nan")]), "has the score nan at place 0; give finite numbers."),
        (line(scores=[10**400]), f"has the score 1{'0' * 39} at place 0; give finite numbers."),
        (line(tokens=["a"]), "has 1 tokens and 8 scores; give as many of both."),
        (line(tokens=[1] * 8), "has tokens that are not a list of strings; give the pieces that the scores are of."),
        (line(tokens=["a"] * 8, spans=[None] * 8), "has both tokens and spans; give one of them."),
        (line(spans=[[0, 1]]), "has 1 spans and 8 scores; give as many of both."),
        (
            line(scores=[1], spans=[[0, 99]]),
            "has the span [0, 99]; give [start, end) in characters of the text, [start, end, 1] of the pair, "
            "or null for a special token.",
        ),
        (
            line(scores=[1], spans=[[0, 1, 1]]),
            "has the span [0, 1, 1]; give [start, end) in characters of the text, [start, end, 1] of the pair, "
            "or null for a special token.",
        ),
        (line(label=1.5), "has the label '1.5'; give a name or an index."),
        (line(signed="yes"), "has 'yes' for signed; give true or false."),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(wrong: Any, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", line(ODD), wrong)
    with pytest.raises(BadInput) as caught:
        read(path)
    assert str(caught.value) == f"'{path}' line 2 {said}"


def test_a_text_that_is_none_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", line(" ", scores=[1.0]))
    with pytest.raises(BadInput, match=f"the text in '{path}' line 1 is empty"):
        read(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xff\n")
    with pytest.raises(BadInput, match="line 1 is not UTF-8"):
        read(path)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_explanations_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(BadInput, match="has no explanations"):
        read(tmp_path / "x.jsonl")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read(tmp_path / "none.jsonl")


@pytest.mark.parametrize(("first", "second"), [(None, None), (None, "a"), ("a", None), ("a", "a"), (1, "1")])
def test_two_explanations_of_one_text_need_two_labels(first: Any, second: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", line(label=first), line(label=second))
    with pytest.raises(BadInput, match="line 2 explains the text of line 1 with 'mine' again; keep one of them"):
        read(path)


@pytest.mark.parametrize(
    ("lines", "signed"),
    [
        ([line(), line(ODD)], False),
        ([line(), line("bad film", scores=[1.0, -1.0])], True),
        ([line(signed=True), line(ODD)], True),
        ([line("bad film", scores=[1.0, -1.0], signed=False), line()], False),
    ],
)
def test_the_scores_of_a_method_are_all_signed_or_none(lines: list[Any], signed: bool, tmp_path: Path) -> None:
    assert answered(one(tmp_path, *lines)).signed is signed


def test_a_method_cannot_be_signed_here_and_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"line 2 says that the scores of 'mine' are signed, and .* line 1 that they are not"
    ):
        one(tmp_path, line(signed=False), line(ODD, signed=True))


def test_the_same_name_in_two_files_is_refused(tmp_path: Path) -> None:
    paths = [written(tmp_path / name, line()) for name in ("a.jsonl", "b.jsonl")]
    with pytest.raises(BadInput, match=r"method 'mine' is in '.*b.jsonl' and in 'a.jsonl'; rename one of them."):
        read_files(paths)


def test_a_file_of_other_data_is_refused(tmp_path: Path) -> None:
    brought = {"mine": one(tmp_path, line())}
    assert explained_examples(brought, [Example("bad film"), Example(FILM)]) == [Example(FILM)]
    with pytest.raises(BadInput, match=r"'mine.jsonl' has no explanation by 'mine' of any text in the data"):
        explained_examples(brought, [Example(FILM, "a pair")])
    assert explained_examples({}, [Example("bad film")]) == [Example("bad film")]


# a method like any other


def test_its_settings_are_name_file_and_fingerprint(tmp_path: Path) -> None:
    brought = one(tmp_path, line())
    other = one(tmp_path, line(scores=[2.0] * 8))
    assert list(asdict(brought)) == ["name", "file", "fingerprint"]
    assert brought.fingerprint != other.fingerprint
    assert brought != other


@pytest.mark.parametrize("copy", [replace, lambda b: pickle.loads(pickle.dumps(b))])  # noqa: S301
def test_a_copy_has_the_same_scores(copy: Any, tmp_path: Path) -> None:
    brought = one(tmp_path, line(scores=numbers(8)))
    assert np.array_equal(answered(copy(brought)).scores, answered(brought).scores)


def test_it_asks_the_model_nothing(tmp_path: Path) -> None:
    brought, classifier = one(tmp_path, line()), shared("bert")
    before = classifier.forwards
    answered(brought)
    assert classifier.forwards == before
    assert brought.passes(classifier, classifier.tokens(FILM)).forwards == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("bad film", "'mine.jsonl' has no explanation of this text."),
        (FILM + " ", "'mine.jsonl' has no explanation of this text, only one with different white space."),
    ],
)
def test_another_text_has_none(asked: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        answered(one(tmp_path, line()), asked)
    assert str(caught.value) == said


@pytest.mark.parametrize(("label", "target"), [("label_1", 1), (2, 2), ("2", 2), (None, 1)])
def test_a_label_is_a_name_or_an_index(label: Any, target: int, tmp_path: Path) -> None:
    assert answered(one(tmp_path, line(label=label)), target=target).scores.sum() == pytest.approx(8)


def test_an_explanation_of_another_label_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="for a different label than this run"):
        answered(one(tmp_path, line(label="LABEL_1")), target=0)


def test_a_label_that_the_model_has_not_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="label 'joy' is not one of 'LABEL_0', 'LABEL_1', 'LABEL_2'"):
        answered(one(tmp_path, line(label="joy")))


def test_one_label_by_name_and_by_index_is_twice(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="twice for the same label"):
        answered(one(tmp_path, line(label="LABEL_1"), line(label=1)), target=1)


def test_of_several_labels_the_one_that_is_asked_for(tmp_path: Path) -> None:
    brought = one(tmp_path, *(line(label=i, scores=[float(i + 1)] * 8) for i in range(3)))
    assert [answered(brought, target=i).scores.sum() for i in range(3)] == pytest.approx([8, 16, 24])


# the model's tokens


@pytest.mark.parametrize("text", [FILM, ODD, "a", "日本語 is good"])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_of_the_models_own_tokens_are_kept_bit_by_bit(family: str, text: str) -> None:
    tokens = shared(family).tokens(text)
    scores = numbers(len(tokens))
    by_piece, by_span = (
        on(tokens, scores, tokens=tokens.pieces),
        on(tokens, scores, spans=tuple(None if s is None else (*s, 0) for s in tokens.spans)),
    )
    assert by_piece.tolist() == by_span.tolist() == scores


def test_without_special_tokens_they_are_kept_too() -> None:
    tokens = shared("roberta").tokens(ODD)
    scores = numbers(len(tokens.content))
    found = on(tokens, scores, tokens=tuple(tokens.pieces[i] for i in tokens.content))
    assert found[list(tokens.content)].tolist() == scores
    assert not found[[i for i, special in enumerate(tokens.special) if special]].any()


def slow(tokens: Tokens, spans: Sequence[tuple[int, int]], scores: Sequence[float]) -> list[float]:
    """Every character by itself."""
    found = [0.0] * len(tokens)
    for (start, end), score in zip(spans, scores, strict=True):
        owners = [
            i
            for c in range(start, end)
            if not tokens.text[c].isspace()
            for i, span in enumerate(tokens.spans)
            if span is not None and span[0] <= c < span[1]
        ]
        for i in owners:
            found[i] += score / len(owners)
    return found


@settings(max_examples=30)
@given(st.data())
def test_characters_carry_scores_and_sums_stay(data: Any) -> None:
    tokens = shared(data.draw(st.sampled_from(FAMILIES))).tokens(data.draw(st.sampled_from([FILM, ODD])))
    cuts = data.draw(st.sets(st.integers(1, len(tokens.text) - 1)))
    ends = [0, *sorted(cuts), len(tokens.text)]
    spans = [(a, b) for a, b in pairwise(ends) if tokens.text[a:b].strip()]
    scores = data.draw(st.lists(st.floats(-9, 9), min_size=len(spans), max_size=len(spans)))
    read_by_model = [any(s is not None and s[0] < b and a < s[1] for s in tokens.spans) for a, b in spans]
    if not all(read_by_model):
        return
    found = on(tokens, scores, spans=tuple((a, b, 0) for a, b in spans))
    assert found == pytest.approx(slow(tokens, spans, scores), abs=1e-12)
    assert found.sum() == pytest.approx(sum(scores), abs=1e-9)


STYLES: dict[str, tuple[str, ...]] = {
    "words": ("The", "film", "was", "good", ",", "unbelievably", "good", "."),
    "white space": ("The", "film", "was", "good,", "unbelievably", "good."),
    "small letters": ("the", "film", "was", "good", ",", "unbelievably", "good", "."),
    "wordpiece": ("[CLS]", "the", "fi", "##lm", "was", "good", ",", "un", "##believ", "##ably", "good", ".", "[SEP]"),
    "bytes": ("<s>", "The", "Ġfilm", "Ġwas", "Ġgood", ",", "Ġunbeliev", "ably", "Ġgood", ".", "</s>"),
    "sentencepiece": ("▁The", "▁film", "▁was", "▁", "good", ",", "▁unbeliev", "ably", "▁good", ".", "</s>"),
    "ends of words": ("the</w>", "film</w>", "was</w>", "good</w>", ",</w>", "unbelie", "vably</w>", "good</w>", "."),
    "fairseq": ("The", "film", "was", "good", ",", "un@@", "believ@@", "ably", "good", "."),
    "unknown": ("[CLS]", "the", "film", "[UNK]", "good", ",", "[UNK]", "good", ".", "[SEP]"),
    "shap": ("", "The ", "film ", "was ", "good", ", ", "unbelievably ", "good", ".", ""),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("style", STYLES)
def test_tokens_of_any_style_are_found(style: str, family: str) -> None:
    """A token scores by its letters, so a word scores by its letters whatever the cut."""
    tokens, given_tokens = shared(family).tokens(FILM), STYLES[style]
    letters = {"[UNK]": 3.0}
    marks = ("[CLS]", "[SEP]", "<s>", "</s>")
    bare = [t.strip("#Ġ▁ @").removesuffix("</w>") if t not in marks else "" for t in given_tokens]
    scores = [letters.get(t, float(len(t.strip("@")))) for t in bare]
    if style == "unknown":
        scores[6] = 12.0
    found = heedful.Attribution(tokens=tokens, scores=on(tokens, scores, tokens=given_tokens)).by("word")
    expected = [float(len(FILM[slice(*span)])) for span in word_spans(FILM)]
    assert [score for _, score in found.as_list()] == pytest.approx(expected)


@pytest.mark.parametrize(
    "tokens",
    [("ca", "fe", "good"), ("caf", "Ã©", "Ġgood"), ("caf", "Ã", "©", "Ġgood"), ("▁caf", "<0xC3>", "<0xA9>", "▁good")],
)
def test_accents_and_bytes_are_found(tokens: tuple[str, ...]) -> None:
    own = shared("bert").tokens("café good")
    found = heedful.Attribution(tokens=own, scores=on(own, [1.0] * len(tokens), tokens=tokens)).by("word")
    assert [score for _, score in found.as_list()] == pytest.approx([len(tokens) - 1, 1])


@pytest.mark.parametrize(
    ("given_tokens", "kept"),
    [
        (("[CLS]", *STYLES["words"], "[SEP]"), True),
        (("<s>", *STYLES["words"], "</s>"), True),
        ((*STYLES["words"], "</s>"), False),
    ],
)
def test_special_tokens_are_kept_where_the_model_has_as_many(given_tokens: tuple[str, ...], kept: bool) -> None:
    tokens = shared("bert").tokens(FILM)
    scores = tuple(numbers(len(given_tokens)))
    found = map_scores(GivenScores(FILM, "mine", scores, tokens=given_tokens), tokens)
    ends = [scores[0], scores[-1]] if kept else [0, 0]
    assert found.scores[[0, -1]].tolist() == ends
    assert found.details == ({} if kept else {"dropped": scores[-1]})
    assert found.scores.sum() + found.details.get("dropped", 0) == pytest.approx(sum(scores))


def test_a_pair_is_told_apart() -> None:
    tokens = shared("bert").tokens("good film", "a good story")
    given_tokens = ("[CLS]", "good", "film", "[SEP]", "a", "good", "story", "[SEP]")
    by_token = on(tokens, range(8), tokens=given_tokens)
    by_span = on(
        tokens,
        range(8),
        spans=(None, (0, 4, 0), (5, 9, 0), None, (0, 1, 1), (2, 6, 1), (7, 12, 1), None),
    )
    by_word = on(tokens, [1, 2, 4, 5, 6])
    content = list(tokens.content)
    assert by_token.tolist() == by_span.tolist()
    assert by_token[content] == pytest.approx(by_word[content])
    assert tokens.by("word")[0].pieces[5] == "good"
    groups = tokens.by("word")[1]
    assert [by_token[group].sum() for group in groups] == pytest.approx(list(range(8)))


def test_a_pair_without_special_tokens_is_read_on() -> None:
    tokens = shared("bert").tokens("good film", "good story")
    found = on(tokens, [1, 2, 3, 4], tokens=("good", "film", "good", "story"))
    assert found.tolist() == on(tokens, [1, 2, 3, 4]).tolist()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"scores": [1.0] * 7},
            "the number of scores is not the number of words of this text; give tokens or spans with them.",
        ),
        (
            {"scores": [1.0], "spans": [[0, 20]]},
            "less than 90 % of the characters that the model reads of this text have a score.",
        ),
        (
            {"scores": [1.0] * 3, "tokens": ["an", "entirely", "other"]},
            "the tokens of this text do not occur in it in this order; give spans.",
        ),
    ],
)
def test_what_does_not_fit_is_left_out(more: Mapping[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        answered(one(tmp_path, line(**more)))
    assert str(caught.value) == f"'mine.jsonl': {said}"


def test_a_text_with_the_name_of_a_special_token_needs_spans(tmp_path: Path) -> None:
    text = "good </s> film"
    with pytest.raises(BadInput, match="contains the name of a special token; give spans"):
        answered(one(tmp_path, line(text, scores=[1.0] * 3, tokens=["good", "</s>", "film"])), text)


def test_scores_of_what_the_model_does_not_read_are_refused() -> None:
    whole = shared("bert").tokens(FILM)
    tokens = whole.cut(6)
    inside = [1.0 if span[1] <= 17 else 0.0 for span in word_spans(FILM)]
    assert on(tokens, inside).sum() == 4
    with pytest.raises(BadInput, match="more than 10 % of the scores"):
        on(tokens, [1.0] * 8)


# audits


@cache
def toy() -> Classifier:
    return toys.build("bert", toys.POINTER)


@cache
def texts() -> tuple[str, ...]:
    return tuple(dict.fromkeys(toys.texts(8, shortest=3, longest=4)))[:3]


def copied(path: Path, name: str = "brought", some: Sequence[str] | None = None) -> Path:
    """Leave-one-out's scores in a file, as a peer would write them."""
    found = heedful.explain_all(toy(), some or texts(), "leave-one-out")
    lines = [
        line(w.tokens.text, method=name, scores=w.scores.tolist(), tokens=list(w.tokens.pieces), label=w.target.label)
        for w in found
        if isinstance(w, heedful.Attribution)
    ]
    return written(path, *lines)


def audited(path: Path, checks: Sequence[Any], out: Path | None = None) -> heedful.Audit:
    brought = read(path).values()
    return heedful.audit(toy(), [Example(t) for t in texts()], ["leave-one-out", *brought], checks, out)


def test_a_copy_of_a_method_is_worth_as_much_as_the_method(tmp_path: Path) -> None:
    checks = [
        heedful.check("input-erasure", {"maskings": ["delete"], "points": 4, "greedy_words": 0, "exhaustive_words": 0}),
        *map(heedful.check, ("sign", "complexity")),
    ]
    found = audited(copied(tmp_path / "x.jsonl"), checks)
    assert found.summary.left_out == ()
    for name in ("input-erasure", "sign", "complexity"):
        own, other = (
            [replace(row, method="") for row in found.rows(name, method=m)] for m in ("leave-one-out", "brought")
        )
        assert own
        assert every_field(own) == every_field(other)


def test_what_explains_again_leaves_it_out_and_says_so(tmp_path: Path) -> None:
    checks = [
        heedful.check("sensitivity", {"limit": 1}),
        heedful.check("randomisation", {"stages": 1}),
        heedful.check("stability", {"seeds": 1}),
        heedful.check("cost"),
    ]
    found = audited(copied(tmp_path / "x.jsonl"), checks)
    reason = "its scores were read from a file and cannot be computed again"
    assert sorted(found.summary.left_out, key=lambda row: row.check) == [
        LeftOut(check, "brought", reason, len(texts())) for check in ("randomisation", "sensitivity", "stability")
    ]
    for name in ("sensitivity", "randomisation", "stability", "cost"):
        assert found.rows(name, method="leave-one-out")
        assert not found.rows(name, method="brought")


def test_texts_that_some_file_explains_are_audited(tmp_path: Path) -> None:
    a = copied(tmp_path / "a.jsonl", "a", some=texts()[1:2])
    b = copied(tmp_path / "b.jsonl", "b", some=texts()[1:3])
    found = heedful.audit(toy(), [Example(t) for t in texts()], read_files([a, b]).values(), ["complexity"])
    assert found.summary.texts.n == 2 < len(texts())
    assert found.summary.left_out == (LeftOut("explain", "a", "'a.jsonl' has no explanation of this text.", 1),)
    assert {row.n for row in found.rows("complexity", "gini", "b")} == {2}


def test_a_changed_file_is_another_run(tmp_path: Path) -> None:
    path = copied(tmp_path / "x.jsonl")
    audited(path, ["complexity"], tmp_path / "run")
    audited(path, ["complexity"], tmp_path / "run")
    path.write_text(path.read_text() + "\n")
    with pytest.raises(BadInput, match="fingerprint"):
        audited(path, ["complexity"], tmp_path / "run")


def test_the_command_audits_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.model.loading.load", lambda *_, **__: toy())
    path = copied(tmp_path / "x.jsonl", '<b>&"🙂')
    data = written(tmp_path / "data.jsonl", *({"text": text} for text in texts()))
    args = [
        "audit",
        str(data),
        "--explanations",
        str(path),
        "--out",
        str(tmp_path / "run"),
        "--methods",
        "leave-one-out",
    ]
    result = CliRunner().invoke(main, [*args, "--checks", "complexity,agreement", "--json"])
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert list(manifest["settings"]["methods"])[-1] == '<b>&"🙂'
    assert '<b>&"🙂' in {row["method"] for row in json.loads(result.stdout)["checks"]["complexity"]["rows"]}


def test_the_command_says_how_many_texts_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.model.loading.load", lambda *_, **__: toy())
    path = copied(tmp_path / "x.jsonl", some=texts()[:2])
    data = written(tmp_path / "data.jsonl", *({"text": text} for text in texts()))
    asked = ["audit", str(data), "--explanations", str(path), "--methods", "leave-one-out", "--checks", "cost"]
    result = CliRunner().invoke(main, [*asked, "--dry-run"])
    assert result.exit_code == 0, result.output
    assert f"2 of {len(texts())} texts are in the files of explanations; only these are audited." in result.stderr


def test_the_command_refuses_a_file_of_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.model.loading.load", lambda *_, **__: toy())
    path = written(tmp_path / "x.jsonl", line())
    data = written(tmp_path / "data.jsonl", *({"text": text} for text in texts()))
    result = CliRunner().invoke(main, ["audit", str(data), "--explanations", str(path), "--out", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert "'x.jsonl' has no explanation by 'mine' of any text in the data" in result.output


# peers


def through(
    lines: Sequence[Mapping[str, Any]], tmp_path: Path, text: str = FILM, target: int = 0
) -> heedful.Attribution:
    """Written, read, and carried to the model's tokens."""
    adapting.write(lines, tmp_path / "peer.jsonl")
    (brought,) = read(tmp_path / "peer.jsonl").values()
    return answered(brought, text, target)


def probabilities(given_texts: Any) -> Any:
    """What a peer asks for; it takes all words away, too."""
    classifier = shared("bert")

    def cut(text: str) -> Tokens:
        try:
            return classifier.tokens(text)
        except BadInput:
            return classifier.tokens("film")

    return np.array([p.probabilities for p in classifier.predictions([cut(str(text)) for text in given_texts])])


def test_captum(tmp_path: Path) -> None:
    """Attributions per dimension, as captum gives them."""
    from captum.attr import LayerIntegratedGradients

    classifier = shared("bert")
    tokens = classifier.tokens(FILM)
    ids, model = torch.tensor([tokens.ids]), classifier.model
    embedding = model.get_input_embeddings()
    pad = torch.full_like(ids, classifier.tokenizer.pad_token_id)
    captum = LayerIntegratedGradients(lambda x: model(x).logits, embedding)
    found = captum.attribute(ids, baselines=pad, target=1, n_steps=16)
    lines = adapting.from_captum(FILM, tokens.pieces, found, "captum-ig", label="LABEL_1")
    why = through(lines, tmp_path, target=1)
    assert why.signed
    assert why.scores == pytest.approx(found[0].sum(-1).double().numpy(), abs=1e-6)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (4, 3), (1, 4, 3)])
def test_captum_shapes(shape: tuple[int, ...]) -> None:
    values = torch.arange(float(np.prod(shape))).reshape(shape)
    (found,) = adapting.from_captum("a b c d", ["a", "b", "c", "d"], values, "x")
    assert found["scores"] == values.reshape(4, -1).sum(1).tolist()


@pytest.mark.parametrize("shape", [(3,), (2, 4), (1, 1, 4, 3)])
def test_captum_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"attributions have the shape .* for 4 tokens"):
        adapting.from_captum("a b c d", ["a", "b", "c", "d"], torch.zeros(shape), "x")


@cache
def shap_package() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap
    return shap


@cache
def shap_found() -> Any:
    shap = shap_package()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        masker = shap.maskers.Text(shared("bert").tokenizer)
        names = list(shared("bert").labels)
        return shap.Explainer(probabilities, masker, output_names=names, seed=0)([FILM, "Bad  film"], max_evals=20)


def test_shap_has_a_line_for_each_text_and_label() -> None:
    lines = adapting.from_shap(shap_found())
    assert [(one["text"], one["label"]) for one in lines] == [
        (text, f"LABEL_{i}") for text in (FILM, "Bad  film") for i in range(3)
    ]


@pytest.mark.parametrize(("text", "at"), [(FILM, 0), ("Bad  film", 1)])
def test_shaps_values_arrive_on_the_models_tokens(text: str, at: int, tmp_path: Path) -> None:
    why = through(adapting.from_shap(shap_found()), tmp_path, text, target=2)
    assert why.scores.tolist() == shap_found().values[at][:, 2].tolist()


def test_slices_of_shap_say_their_label() -> None:
    found = shap_found()
    whole = adapting.from_shap(found)
    assert adapting.from_shap(found[:, :, "LABEL_1"]) == [whole[1], whole[4]]
    assert adapting.from_shap(found[0]) == whole[:3]
    assert adapting.from_shap(found[0, :, "LABEL_1"]) == [whole[1]]


def test_shaps_own_names_are_indices() -> None:
    names = ["Output 0", "Output 1"]
    some = shap_package().Explanation(np.zeros((2, 2)), data=np.array(["a ", "b"], dtype=object), output_names=names)
    assert [one["label"] for one in adapting.from_shap(some)] == [0, 1]
    bare = SimpleNamespace(data=["a ", "b"], values=[1.0, 2.0], output_names=None)
    assert "label" not in adapting.from_shap(bare)[0]
    assert adapting.from_shap(bare, label="joy")[0]["label"] == "joy"


@cache
def lime_found(bow: bool, names: tuple[str, ...] | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lime.lime_text import LimeTextExplainer

        explainer = LimeTextExplainer(class_names=names, bow=bow, random_state=0)
        return explainer.explain_instance(FILM, probabilities, labels=(0, 2), num_features=4, num_samples=30)


@pytest.mark.parametrize("bow", [True, False])
def test_limes_weights_arrive_on_their_words(bow: bool, tmp_path: Path) -> None:
    """Of a bag of words, "good" stands for both."""
    found = lime_found(bow)
    why = through(adapting.from_lime(found, FILM), tmp_path, target=2)
    expected = dict.fromkeys(word_spans(FILM), 0.0)
    for feature, weight in found.as_map()[2]:
        string = found.domain_mapper.indexed_string
        starts = [int(start) for start in string.string_position(feature)]
        for start in starts:
            expected[start, start + len(string.word(feature))] = weight / len(starts)
    assert [score for _, score in why.by("word").as_list()] == pytest.approx(list(expected.values()))
    assert why.scores.sum() == pytest.approx(sum(weight for _, weight in found.as_map()[2]))


def test_lime_tells_its_labels() -> None:
    named = lime_found(True, ("a", "b", "c"))
    assert [one["label"] for one in adapting.from_lime(lime_found(True))] == [0, 2]
    assert [one["label"] for one in adapting.from_lime(named)] == ["a", "c"]
    assert adapting.from_lime(named, label="c") == adapting.from_lime(named, label=2) == adapting.from_lime(named)[1:]


def test_lime_refuses_what_it_has_not() -> None:
    with pytest.raises(BadInput, match="LIME explained no label '1' here, but 0, 2"):
        adapting.from_lime(lime_found(True), label=1)
    with pytest.raises(BadInput, match="the text is not the one that LIME explained"):
        adapting.from_lime(lime_found(True), "another")


SOURCE = ["▁The", "▁film", "▁was", "▁good", ",", "▁unbeliev", "ably", "▁good", ".", "</s>"]


def array_of(values: Any, how: str) -> Any:
    if how == "primitive":
        return values.tolist()
    raw = values.astype("<f4").tobytes()
    held = {
        "list": values.tolist(),
        "b64": f"b64:{base64.b64encode(raw).decode()}",
        "gz": f"b64.gz:{base64.b64encode(gzip.compress(raw)).decode()}",
    }[how]
    return {"__ndarray__": held, "dtype": "float32", "shape": list(values.shape), "Corder": True}


def instance(name: str, how: str, attributes: dict[str, Any]) -> dict[str, Any]:
    return attributes if how == "primitive" else {"__instance_type__": ["inseq", name], "attributes": attributes}


def inseq_saved(values: Any, how: str, source: Sequence[str] = SOURCE) -> dict[str, Any]:
    tokens = [instance("TokenWithId", how, {"token": token, "id": i}) for i, token in enumerate(source)]
    sequence = {
        "source": tokens,
        "target": [],
        "source_attributions": array_of(values, how),
        "target_attributions": None,
    }
    attributes = {
        "sequence_attributions": [instance("FeatureAttributionSequenceOutput", how, sequence)],
        "step_attributions": None,
        "info": {"input_texts": [FILM], "attribution_method": "input_x_gradient"},
    }
    return instance("FeatureAttributionOutput", how, attributes)


@pytest.mark.parametrize("how", ["primitive", "list", "b64", "gz"])
@pytest.mark.parametrize("shape", [(10, 3), (10, 3, 4)])
def test_inseq(shape: tuple[int, ...], how: str, tmp_path: Path) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    path = tmp_path / "inseq.json"
    path.write_text(json.dumps(inseq_saved(values, how)))
    (found,) = adapting.from_inseq(path)
    assert (found["text"], found["method"], found["tokens"]) == (FILM, "inseq-input-x-gradient", SOURCE)
    assert found["scores"] == values.reshape(10, -1).sum(1).tolist()
    assert adapting.from_inseq(path.read_text()) == adapting.from_inseq(str(path)) == [found]
    assert through([found], tmp_path).scores.sum() == pytest.approx(sum(found["scores"][:-1]))


def test_inseq_does_not_unpack_more_than_it_says() -> None:
    saved = inseq_saved(np.zeros((10, 3)), "gz")
    held = saved["attributes"]["sequence_attributions"][0]["attributes"]["source_attributions"]
    held["__ndarray__"] = f"b64.gz:{base64.b64encode(gzip.compress(bytes(10**7))).decode()}"
    with pytest.raises(BadInput, match="this is not JSON of inseq"):
        adapting.from_inseq(saved)


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ("{", "not JSON of inseq"),
        ("/nowhere/at/all.json", "not JSON of inseq"),
        ({}, "it needs sequence_attributions"),
        ({"sequence_attributions": [{}], "info": {"input_texts": ["a"]}}, "no source_attributions; give"),
        (
            {"sequence_attributions": [{"source": "a", "source_attributions": [1]}],
             "info": {"input_texts": "a"}},
            r"attributions have the shape .* for 1 source tokens",
        ),
    ],
)  # fmt: skip
def test_what_inseq_does_not_save_is_refused(saved: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        adapting.from_inseq(saved)


FERRET = {"text": FILM, "tokens": list(STYLES["wordpiece"]), "scores": np.arange(13.0), "explainer": "Partition SHAP"}


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"target": 1}, 1),
        ({"target": "LABEL_1", "target_pos_idx": 1}, "LABEL_1"),
        ({"target_pos_idx": 1}, 1),
        ({}, None),
    ],
)
def test_ferret(more: Mapping[str, Any], label: Any, tmp_path: Path) -> None:
    some = SimpleNamespace(**FERRET, **more)
    (found,) = adapting.from_ferret(some)
    assert (found["method"], found.get("label")) == ("ferret-partition-shap", label)
    assert adapting.from_ferret([some, some]) == [found, found]
    assert through([found], tmp_path, target=1).scores.sum() == pytest.approx(sum(range(13)))


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(BadInput, match="x has a score that is not finite"):
        adapting.from_captum("a", ["a"], [float("inf")], "x")


def test_any_text_survives_the_file(tmp_path: Path) -> None:
    text = 'a\u2028b \x85 " \\ 🙂'
    adapting.write([line(text, scores=[0.1 + 0.2] * len(word_spans(text)))], tmp_path / "x.jsonl")
    (brought,) = read(tmp_path / "x.jsonl").values()
    assert brought.knows(text)
