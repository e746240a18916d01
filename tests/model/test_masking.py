"""Ways of taking words away, against twins that edit Python lists; and the masked language model that fills gaps."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, DistilBertConfig, DistilBertForMaskedLM

from heedful.core.arrays import Bools
from heedful.core.errors import BadInput, Unsupported
from heedful.core.tokens import Tokens
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.loading import language_model
from heedful.model.masking import (
    InputRows,
    Variants,
    check_masking,
    features,
    joined,
    over_positions,
    spread_scores,
    stand_in,
)
from tests.support.models import EVERY, TEXTS, build, shared, tokenizer

EMOJI = "I ❤️ this 👩‍👧 film 😀, café"
LONG = "not funny but good music " * 110
PAIR = ("The film was unbelievably good", "The music was not good, the film was")


# the twin


def replaced(classifier: Classifier, way: str) -> int:
    """The id that stands in, read off the vocabulary."""
    t = classifier.tokenizer
    name = {"mask": t.mask_token, "unk": t.unk_token, "pad": t.pad_token}.get(way) or way.removeprefix("token:")
    return int(t.convert_tokens_to_ids(name))


def edited(
    classifier: Classifier, tokens: Tokens, keep: Any, way: str
) -> tuple[list[int], list[int] | None, list[bool]]:
    """Ids, types and visible positions of one variant: lists, one token after the other."""
    ids: list[int] = []
    types: list[int] = []
    seen: list[bool] = []
    for i, token in enumerate(tokens.ids):
        gone = not keep[i] and tokens.segments[i] is not None
        if gone and way == "delete":
            continue
        ids.append(replaced(classifier, way) if gone and way != "attention" else token)
        types.append(0 if tokens.types is None else tokens.types[i])
        seen.append(not (gone and way == "attention"))
    if not ids:
        ids, types, seen = [int(classifier.tokenizer.bos_token_id)], [0], [True]
    return ids, None if tokens.types is None else types, seen


def made(classifier: Classifier, tokens: Tokens, keep: Bools, way: str) -> list[Any]:
    """What the engine gives to the model, as lists of the same form."""
    rows = Variants(tokens, keep, way).rows(classifier, slice(0, len(keep)))
    return [listed(rows, i) for i in range(len(rows))]


def listed(rows: InputRows, i: int) -> tuple[list[int], list[int] | None, list[bool]]:
    n = int(rows.lengths[i])
    types = None if rows.types is None else rows.types[i, :n].tolist()
    return rows.ids[i, :n].tolist(), types, rows.seen[i, :n].tolist()


def masks(n: int, d: int, seed: int = 0) -> Bools:
    """Random sets of features, with everything and nothing among them."""
    keep = np.random.default_rng(seed).random((n, d)) < np.linspace(0.1, 0.9, n)[:, None]
    keep[0], keep[-1] = True, False
    return keep


# what is a feature


def test_tokens_are_the_content_positions() -> None:
    tokens = shared("bert").tokens("Dull film.")
    assert features(tokens, "token") == [[i] for i in range(1, len(tokens) - 1)]


@pytest.mark.parametrize("family", ["bert", "roberta", "t5", "gpt2"])
@pytest.mark.parametrize("text", [*TEXTS, EMOJI])
def test_words_are_the_pieces_that_start_in_them(family: str, text: str) -> None:
    tokens = shared(family).tokens(text)
    twin: dict[int, list[int]] = {}
    for i in tokens.content:
        word = tokens.words[i]
        assert word is not None
        twin.setdefault(word, []).append(i)
    assert features(tokens, "word") == list(twin.values())


def test_a_bag_is_every_occurrence_of_a_word_with_its_case() -> None:
    tokens = shared("roberta").tokens("good Good good, good")
    words = features(tokens, "word")
    assert features(tokens, "bag") == [words[0] + words[2] + words[4], words[1], words[3]]


def test_a_bag_stays_in_one_text_of_a_pair() -> None:
    tokens = shared("bert").tokens(*PAIR)
    words = {i: tokens.text[slice(*s)] if g == 0 else PAIR[1][slice(*s)] for i, (g, s) in enumerate(
        zip(tokens.segments, tokens.spans, strict=True)) if s is not None}  # fmt: skip
    for group in features(tokens, "bag"):
        assert len({tokens.segments[i] for i in group}) == 1
    films = [group for group in features(tokens, "bag") if words[group[0]] == "film"]
    assert [tokens.segments[group[0]] for group in films] == [0, 1]


def test_every_content_position_is_in_one_feature() -> None:
    tokens = shared("roberta").tokens(*PAIR)
    for unit in ("token", "word", "bag"):
        assert sorted(i for group in features(tokens, unit) for i in group) == list(tokens.content)


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(BadInput) as e:
        features(shared("bert").tokens("Dull."), "phrase")  # type: ignore[arg-type]
    assert str(e.value) == "features 'phrase' is not one of token, word, bag, sentence, auto."


def test_positions_of_a_feature_stay_or_go_together() -> None:
    keep = np.array([[True, False], [False, True]])
    assert over_positions([[1, 4], [2]], keep, 6).tolist() == [
        [True, True, False, True, True, True],
        [True, False, True, True, False, True],
    ]


def test_spread_scores_add_up_to_the_features() -> None:
    scores = spread_scores([[1, 4], [2]], np.array([3.0, -1.0]), 6)
    assert scores.tolist() == [0, 1.5, -1, 0, 1.5, 0]


# the names of the ways


@pytest.mark.parametrize("way", ["delete", "mask", "unk", "pad", "attention", "token:film", "token:a:b", "mlm:folder"])
def test_a_known_way_is_taken(way: str) -> None:
    check_masking(way)


LISTED = "is not one of delete, mask, unk, pad, attention, token:WORD, mlm:FOLDER"


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("maks", f"masking 'maks' {LISTED}; did you mean 'mask'?"),
        ("Delete", f"masking 'Delete' {LISTED}; did you mean 'delete'?"),
        ("xyz", f"masking 'xyz' {LISTED}."),
        ("", f"masking '' {LISTED}."),
        ("mlm:", f"masking 'mlm:' {LISTED}."),
    ],
)
def test_an_unknown_way_is_refused(way: str, message: str) -> None:
    tokens = shared("bert").tokens("Dull.")
    for refused in (lambda: check_masking(way), lambda: Variants(tokens, np.ones((1, 4), bool), way)):
        with pytest.raises(BadInput) as e:
            refused()
        assert str(e.value) == message


def test_token_without_a_word_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^masking 'token:' is not one of delete, mask, .*"):
        check_masking("token:")


# ids, types and lengths

GRID = [
    ("bert", "delete"), ("bert", "mask"), ("bert", "unk"), ("bert", "pad"), ("bert", "attention"),
    ("bert", "token:film"), ("roberta", "delete"), ("roberta", "mask"), ("roberta", "attention"), ("gpt2", "delete"),
    ("gpt2", "unk"), ("t5", "delete"), ("t5", "pad"), ("xlnet", "delete"), ("xlnet", "attention"),
    ("xlnet", "mask"), ("bart", "delete"), ("bart", "unk"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "way"), GRID)
@pytest.mark.parametrize("unit", ["token", "word", "bag"])
def test_variants_are_edited_lists(family: str, way: str, unit: Any) -> None:
    classifier = shared(family)
    texts = [(TEXTS[0], None), ("Dull", None), ("a", None), (EMOJI, None), (TEXTS[3], None), PAIR]
    for text, pair in texts:
        tokens = classifier.tokens(text, pair)
        groups = features(tokens, unit)
        keep = over_positions(groups, masks(7, len(groups)), len(tokens))
        assert made(classifier, tokens, keep, way) == [edited(classifier, tokens, row, way) for row in keep], text


@pytest.mark.parametrize(("family", "way"), [("bert", "delete"), ("bert", "attention"), ("gpt2", "delete")])
def test_more_than_512_tokens(family: str, way: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(LONG)
    assert len(tokens) > 512
    keep = masks(5, len(tokens))
    assert made(classifier, tokens, keep, way) == [edited(classifier, tokens, row, way) for row in keep]


@pytest.mark.parametrize(("family", "way"), GRID)
def test_with_everything_kept_the_input_is_the_text(family: str, way: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(*PAIR)
    types = None if tokens.types is None else list(tokens.types)
    assert made(classifier, tokens, np.ones((1, len(tokens)), bool), way) == [
        (list(tokens.ids), types, [True] * len(tokens))
    ]


@pytest.mark.parametrize("way", ["delete", "mask", "attention", "pad"])
def test_special_tokens_stay_whatever_the_caller_says(way: str) -> None:
    classifier = shared("bert")
    tokens = classifier.tokens(*PAIR)
    special = [i for i, s in enumerate(tokens.special) if s]
    assert len(special) == 3
    ids, types, seen = made(classifier, tokens, np.zeros((1, len(tokens)), bool), way)[0]
    marks = [(i, t, s) for i, t, s in zip(ids, types, seen, strict=True) if i in (1, 2)]
    assert marks == [(tokens.ids[i], (tokens.types or ())[i], True) for i in special]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_pair_without_one_of_its_texts_keeps_the_others_segment(gone: int) -> None:
    classifier = shared("bert")
    tokens = classifier.tokens(*PAIR)
    keep = np.array([[segment != gone for segment in tokens.segments]])
    ids, types, _ = made(classifier, tokens, keep, "delete")[0]
    left = [(i, t) for i, t, s in zip(tokens.ids, tokens.types or (), tokens.segments, strict=True) if s != gone]
    assert list(zip(ids, types, strict=True)) == left
    assert set(types) == {0, 1}


def test_nothing_left_of_a_text_without_special_tokens_is_one_token() -> None:
    classifier = shared("gpt2")
    tokens = classifier.tokens("Dull film")
    assert not any(tokens.special)
    keep = np.array([[False] * len(tokens), [True] + [False] * (len(tokens) - 1)])
    bos = classifier.tokenizer.bos_token_id
    assert [row[0] for row in made(classifier, tokens, keep, "delete")] == [[bos], [tokens.ids[0]]]


@pytest.mark.parametrize(
    ("names", "token"),
    [
        ({"bos_token_id": None, "eos_token_id": 7, "unk_token_id": 8, "pad_token_id": 9}, 7),
        ({"bos_token_id": None, "eos_token_id": None, "unk_token_id": 8, "pad_token_id": 9}, 8),
        ({"bos_token_id": None, "eos_token_id": None, "unk_token_id": None, "pad_token_id": 9}, 9),
        ({"bos_token_id": None, "eos_token_id": None, "unk_token_id": None, "pad_token_id": None}, 0),
        ({"bos_token_id": 0, "eos_token_id": 7, "unk_token_id": 8, "pad_token_id": 9}, 0),
    ],
)
def test_the_stand_in_for_nothing_is_the_first_token_that_says_nothing(names: dict[str, Any], token: int) -> None:
    class Known:
        tokenizer = type("T", (), names)
        possible = staticmethod(lambda tokens: None)

    tokens = shared("gpt2").tokens("Dull film")
    rows = Variants(tokens, np.zeros((1, len(tokens)), bool)).rows(Known(), slice(0, 1))  # type: ignore[arg-type]
    assert listed(rows, 0)[0] == [token]


def test_some_of_the_variants_are_a_slice_of_all() -> None:
    classifier = shared("bert")
    tokens = classifier.tokens(TEXTS[0])
    keep = masks(9, len(tokens))
    rows = Variants(tokens, keep, "delete").rows(classifier, slice(3, 7))
    assert [listed(rows, i) for i in range(len(rows))] == made(classifier, tokens, keep, "delete")[3:7]


# never decoded and read again


@pytest.mark.parametrize(("family", "text"), [("bert", "unbelievably cafés"), ("roberta", EMOJI), ("t5", TEXTS[3])])
def test_pieces_are_never_decoded_and_read_again(family: str, text: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens(text)
    keep = ~np.eye(len(tokens), dtype=bool)[list(tokens.content)]
    changed = 0
    for row, (ids, _, _) in zip(keep, made(classifier, tokens, keep, "delete"), strict=True):
        left = [token for token, kept in zip(tokens.ids, row, strict=True) if kept]
        assert ids == left
        again = classifier.tokenizer(classifier.tokenizer.decode(left, skip_special_tokens=True))["input_ids"]
        changed += again != left
    assert changed > 0, "this text would not show it"


# the tokens that stand in


def test_a_tokenizer_without_the_token_is_refused() -> None:
    for way in ("mask", "pad"):
        with pytest.raises(BadInput) as e:
            stand_in(shared("gpt2"), way)
        assert str(e.value) == f"the tokenizer of tiny-gpt2 has no {way} token; use masking=delete or token:WORD."


def test_a_word_of_several_tokens_is_refused() -> None:
    n = len(shared("bert").tokens("funnyfilm").content)
    assert n > 1
    with pytest.raises(BadInput) as e:
        stand_in(shared("bert"), "token:funnyfilm")
    assert str(e.value) == f"'funnyfilm' is {n} tokens for tiny-bert; give a word that is one token."


@pytest.mark.parametrize(
    ("family", "word", "piece"),
    [
        ("bert", "film", "film"), ("bert", "Film", "film"), ("bert", "[MASK]", "[MASK]"), ("roberta", " film", "Ġfilm"),
        ("gpt2", "<|endoftext|>", "<|endoftext|>"), ("t5", "music", "▁music"),
    ],
)  # fmt: skip
def test_a_word_is_a_piece_of_the_vocabulary_or_is_read(family: str, word: str, piece: str) -> None:
    t = shared(family).tokenizer
    if piece not in t.get_vocab():
        pytest.fail(f"{piece} is no piece of the {family} tokenizer")
    assert stand_in(shared(family), f"token:{word}") == t.get_vocab()[piece]


def test_a_word_that_would_be_unknown_is_refused() -> None:
    assert shared("bert").tokens("zebra").pieces[1] == "[UNK]"
    with pytest.raises(BadInput) as e:
        stand_in(shared("bert"), "token:zebra")
    assert str(e.value) == "'zebra' is not in the vocabulary of tiny-bert; give another word, or masking=unk."


# rows


def test_the_same_input_has_one_key_however_wide_its_table() -> None:
    classifier = shared("bert")
    short, long = classifier.tokens("Dull."), classifier.tokens(TEXTS[0])
    nothing = [Variants(t, np.zeros((1, len(t)), bool)).rows(classifier, slice(0, 1)) for t in (short, long)]
    assert nothing[0].keys() == nothing[1].keys()
    assert len(set(joined(nothing).keys())) == 1


def test_different_inputs_have_different_keys() -> None:
    ids, seen, types = np.array([[5, 6, 7]]), np.ones((1, 3), bool), np.zeros((1, 3), np.int64)
    rows = [
        InputRows(ids, seen, types, np.array([3])),
        InputRows(ids, seen, types, np.array([2])),
        InputRows(ids[:, ::-1], seen, types, np.array([3])),
        InputRows(ids, np.array([[True, False, True]]), types, np.array([3])),
        InputRows(ids, seen, np.array([[0, 1, 1]]), np.array([3])),
        InputRows(np.array([[5, 6, 7, 0]]), np.ones((1, 4), bool), np.zeros((1, 4), np.int64), np.array([4])),
    ]
    assert len({row.keys()[0] for row in rows}) == len(rows)


def test_what_lies_beyond_the_length_is_no_part_of_the_input() -> None:
    seen, types = np.ones((1, 3), bool), np.zeros((1, 3), np.int64)
    one, other = (InputRows(np.array([[5, 6, x]]), seen, types, np.array([2])) for x in (7, 8))
    assert one.keys() == other.keys()


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_rows_of_several_texts_stand_under_each_other(family: str) -> None:
    classifier = shared(family)
    texts = [classifier.tokens(t) for t in TEXTS[:3]]
    parts = [Variants(t, masks(3, len(t)), "delete").rows(classifier, slice(0, 3)) for t in texts]
    together = joined(parts)
    assert [listed(together, i) for i in range(9)] == [listed(part, i) for part in parts for i in range(3)]
    some = together.take(np.array([8, 4, 4]))
    assert [listed(some, i) for i in range(3)] == [listed(together, i) for i in (8, 4, 4)]
    assert some.ids.shape[1] == max(some.lengths)


def test_a_batch_knows_its_hidden_tokens_from_padding() -> None:
    mask, hidden = torch.tensor([[1, 0, 1, 0]]), torch.tensor([[False, True, False, False]])
    batch = Batch(torch.arange(4)[None], mask, None, hidden)
    assert batch.real.tolist() == [[True, True, True, False]]
    assert Batch(batch.ids, mask).real.tolist() == [[True, False, True, False]]
    assert batch.repeat(2).row(1).real.tolist() == batch.real.tolist()


# hidden from attention


def by_hand(classifier: Classifier, ids: Any, seen: Any, types: Any) -> torch.Tensor:
    """The model itself, on one row."""
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([seen]).long()}
    if types is not None:
        inputs["token_type_ids"] = torch.tensor([types])
    with torch.no_grad():
        result: torch.Tensor = classifier.model(**inputs).logits[0]
    return result


@pytest.mark.parametrize("family", EVERY)
def test_a_model_hides_a_word_if_no_other_in_its_place_moves_it(family: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens("The film was not funny, but good").cut(classifier.limit)
    worst = 0.0
    for hidden in [*([i] for i in tokens.content), list(tokens.content[1:4]), list(tokens.content)]:
        seen = [i not in hidden for i in range(len(tokens))]
        answers = []
        for stranger in (None, tokens.ids[tokens.content[1]], tokens.ids[tokens.content[-2]]):
            ids = [t if s or stranger is None else stranger for t, s in zip(tokens.ids, seen, strict=True)]
            answers.append(by_hand(classifier, ids, seen, tokens.types))
        worst = max(worst, float((torch.stack(answers) - answers[0]).abs().max()))
    assert classifier.mask_hides_words == (worst < 1e-5), worst


def test_a_hidden_word_of_a_bilstm_is_as_good_as_deleted() -> None:
    assert shared("bilstm").mask_hides_words


@pytest.mark.parametrize("family", ["gpt2", "bart", "t5"])
def test_attention_is_refused_where_the_word_is_still_read(family: str) -> None:
    classifier = shared(family)
    tokens = classifier.tokens("Dull film.")
    with pytest.raises(BadInput) as e:
        Variants(tokens, np.ones((1, len(tokens)), bool), "attention").rows(classifier, slice(0, 1))
    assert str(e.value) == (
        f"tiny-{family} depends on words that attention may not use (it pools words of the text, has a decoder, or "
        "is int8); use masking=delete or another way."
    )


# a masked language model

GAPS = "good film, not bad"


@cache
def _bias() -> torch.Tensor:
    """Log-chances of every token: a few words share all, and special tokens would have still more."""
    t = tokenizer("wordpiece")
    bias = torch.full((len(t),), -30.0)
    for word, share in {"good": 0.5, "bad": 0.3, "film": 0.15, "two": 0.05}.items():
        bias[t.get_vocab()[word]] = np.log(share)
    bias[t.all_special_ids] = 3.0
    return bias


def saved(folder: Path, planted: bool = True, **settings: Any) -> Path:
    """A masked language model that says the same everywhere (planted), or reads what stands around a gap."""
    t = tokenizer("wordpiece")
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**({"vocab_size": len(t), "max_position_embeddings": 64} | shape | settings)))
    with torch.no_grad():
        for p in model.parameters():
            p.zero_() if planted else p.add_(torch.randn_like(p) * 0.4)
        if planted:
            model.cls.predictions.bias.copy_(_bias())
    model.save_pretrained(folder)
    t.save_pretrained(folder)
    return folder


def drawn(folder: Path, n: int, seed: int = 0, family: str = "bert", chosen: tuple[int, ...] = (1, 4)) -> Any:
    classifier = shared(family)
    tokens = classifier.tokens(GAPS)
    keep = np.ones((n, len(tokens)), bool)
    keep[:, list(chosen)] = False
    rng = torch.Generator().manual_seed(seed)
    return tokens, Variants(tokens, keep, f"mlm:{folder}", rng).rows(classifier, slice(0, n))


def test_gaps_are_drawn_from_the_language_models_chances(tmp_path: Path) -> None:
    n = 4000
    _, rows = drawn(saved(tmp_path), n)
    vocabulary = tokenizer("wordpiece").get_vocab()
    for gap in (1, 4):
        counted = Counter(rows.ids[:, gap].tolist())
        for word, share in {"good": 0.5, "bad": 0.3, "film": 0.15, "two": 0.05}.items():
            assert counted.pop(vocabulary[word]) / n == pytest.approx(share, abs=4.5 * (share * (1 - share) / n) ** 0.5)
        assert not counted  # neither a special token nor anything else
    both = Counter(zip(rows.ids[:, 1].tolist(), rows.ids[:, 4].tolist(), strict=True))
    good = vocabulary["good"]
    assert both[good, good] / n == pytest.approx(0.25, abs=4.5 * (0.25 * 0.75 / n) ** 0.5)  # independent


def test_the_language_model_reads_the_text_with_every_gap_masked(tmp_path: Path) -> None:
    n = 4000
    tokens, rows = drawn(saved(tmp_path, planted=False), n)
    t = tokenizer("wordpiece")
    ids = torch.tensor([[t.mask_token_id if i in (1, 4) else token for i, token in enumerate(tokens.ids)]])
    with torch.no_grad():
        logits = BertForMaskedLM.from_pretrained(tmp_path).eval()(ids, token_type_ids=torch.zeros_like(ids)).logits[0]
    logits[:, t.all_special_ids] = -torch.inf
    for gap in (1, 4):
        chances = logits[gap].softmax(-1).numpy()
        counted = np.bincount(rows.ids[:, gap], minlength=len(t)) / n
        assert chances.max() > 0.05  # sharp enough to tell from any other
        assert np.all(np.abs(counted - chances) <= 5 * np.sqrt(chances * (1 - chances) / n) + 1e-3)


def test_what_is_kept_stays_and_types_and_lengths_too(tmp_path: Path) -> None:
    tokens, rows = drawn(saved(tmp_path), 50)
    for i in range(50):
        ids, types, seen = listed(rows, i)
        assert [x for j, x in enumerate(ids) if j not in (1, 4)] == [
            x for j, x in enumerate(tokens.ids) if j not in (1, 4)
        ]
        assert (types, seen) == (list(tokens.types or ()), [True] * len(tokens))


def test_nothing_taken_away_is_the_text_itself(tmp_path: Path) -> None:
    tokens, rows = drawn(saved(tmp_path), 3, chosen=())
    assert rows.ids.tolist() == [list(tokens.ids)] * 3


def test_special_tokens_stay_under_a_language_model(tmp_path: Path) -> None:
    tokens, rows = drawn(saved(tmp_path), 3, chosen=tuple(range(len(shared("bert").tokens(GAPS)))))
    assert rows.ids[:, [0, -1]].tolist() == [[tokens.ids[0], tokens.ids[-1]]] * 3


def test_the_same_seed_draws_the_same_words(tmp_path: Path) -> None:
    saved(tmp_path)
    one, again, other = (drawn(tmp_path, 40, seed)[1].ids.tolist() for seed in (3, 3, 4))
    assert one == again != other


def test_draws_do_not_use_the_global_generator(tmp_path: Path) -> None:
    saved(tmp_path)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    drawn(tmp_path, 40)
    assert torch.equal(torch.get_rng_state(), before)


def test_many_gaps_are_drawn_a_few_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path)
    monkeypatch.setattr("heedful.model.masking.MLM_BATCH_TOKENS", 64)
    widest: list[int] = []
    forward = BertForMaskedLM.forward

    def spied(self: Any, **inputs: Any) -> Any:
        widest.append(inputs["input_ids"].numel())
        return forward(self, **inputs)

    monkeypatch.setattr(BertForMaskedLM, "forward", spied)
    tokens, rows = drawn(tmp_path, 100)
    assert sum(widest) == 100 * len(tokens)
    assert max(widest) <= 64
    assert len(rows) == 100


def test_a_language_model_of_another_family_with_the_same_vocabulary_will_do(tmp_path: Path) -> None:
    t = tokenizer("wordpiece")
    shape = DistilBertConfig(vocab_size=len(t), dim=16, n_layers=1, n_heads=2, hidden_dim=8)
    DistilBertForMaskedLM(shape).save_pretrained(tmp_path)
    t.save_pretrained(tmp_path)
    _, rows = drawn(tmp_path, 20)  # it takes no token types, and the classifier's tokenizer gives them
    assert not set(rows.ids[:, [1, 4]].ravel().tolist()) & set(t.all_special_ids)


def test_rows_of_the_table_that_no_token_uses_are_never_drawn(tmp_path: Path) -> None:
    t = tokenizer("wordpiece")
    saved(tmp_path, planted=False, vocab_size=len(t) + 40)
    chances = language_model(str(tmp_path), t)(Batch(torch.tensor([[1, 4, 2]]), torch.ones(1, 3).long()))
    assert chances.shape == (1, 3, len(t) + 40)
    assert chances[..., len(t) :].sum() == 0
    assert chances.sum(-1).numpy() == pytest.approx(1, abs=1e-5)


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(BadInput) as e:
        drawn(tmp_path, 1, family="roberta")
    assert str(e.value) == (f"'{tmp_path}' has another vocabulary than the classifier; give a model with the same one.")


def test_no_folder_is_refused(tmp_path: Path) -> None:
    for source in (tmp_path / "none", Path("bert-base-uncased")):
        with pytest.raises(BadInput) as e:
            drawn(source, 1)
        assert str(e.value) == f"'{source}' is not a folder; give mlm:FOLDER with a masked language model."


def test_pickled_weights_are_refused_and_never_opened(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    with pytest.raises(BadInput) as e:
        drawn(tmp_path, 1)
    assert str(e.value) == (
        f"'{tmp_path}' has only pickled weights (pytorch_model.bin), which can run code when loaded; if you trust "
        "them, convert them once with AutoModelForMaskedLM.from_pretrained(folder, use_safetensors=False)"
        ".save_pretrained(folder)."
    )


def test_a_model_without_a_language_head_is_refused(tmp_path: Path) -> None:
    shared("bert").model.save_pretrained(tmp_path)
    tokenizer("wordpiece").save_pretrained(tmp_path)
    with pytest.raises(Unsupported, match=r"has no trained masked-language head \(cls\.predictions\.\S+\)\.$"):
        drawn(tmp_path, 1)


def test_a_text_too_long_for_the_language_model_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, max_position_embeddings=6)
    with pytest.raises(BadInput) as e:
        drawn(tmp_path, 1)
    assert str(e.value) == f"the text has 7 tokens and '{tmp_path}' reads 6; shorten it."


def test_a_tokenizer_without_a_mask_token_cannot_have_its_gaps_filled(tmp_path: Path) -> None:
    saved(tmp_path)
    classifier = build("bert")
    classifier.tokenizer = tokenizer("wordpiece").__class__(
        tokenizer_object=tokenizer("wordpiece").backend_tokenizer, unk_token="[UNK]", cls_token="[CLS]"
    )
    tokens = shared("bert").tokens(GAPS)
    with pytest.raises(BadInput, match=r"^the tokenizer of tiny-bert has no mask token; use masking=delete"):
        Variants(tokens, np.zeros((1, len(tokens)), bool), f"mlm:{tmp_path}").rows(classifier, slice(0, 1))
