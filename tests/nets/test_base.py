"""A network as a folder: it comes back the same, and a damaged folder is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import heedful
from heedful.core.errors import BadInput, Unsupported
from heedful.nets import Hierarchical, MultiHead, MultiHeadShape, Net, Pair, Single, Transformer
from heedful.nets.base import Saved, _Uninitialised, save
from heedful.nets.hierarchical import HierarchicalShape
from heedful.nets.pair import PairShape
from heedful.nets.single import SingleShape
from heedful.nets.transformer import TransformerShape
from heedful.nets.vocabulary import Frame, TokenRules, learned, specials

TEXTS = ["The film was not funny. Its ending moved me!", "A warm story, and a clever one."]
LABELS = ("bad", "good")


def shapes(v: int) -> dict[str, tuple[Frame, Callable[[], Net]]]:
    guide = {"vocabulary": v, "num_labels": 1, "embedding": 6, "hidden": 4, "special": (2, 3)}
    return {
        "multihead": (
            "cls",
            lambda: MultiHead(MultiHeadShape(v, 2, LABELS, embedding=8, attention=4, value=4, heads=2, layers=2)),
        ),
        "single": ("ends", lambda: Single(SingleShape(v, 1, LABELS, embedding=6, hidden=4, special=(2, 3)))),
        "log-odds": ("ends", lambda: Single(SingleShape(v, 1, LABELS, embedding=6, hidden=4, attention="log-odds"))),
        "given": (
            "ends",
            lambda: Single(SingleShape(v, 1, LABELS, embedding=6, hidden=4, attention="given", guide=dict(guide))),
        ),
        "pair": ("ends", lambda: Pair(PairShape(v, 2, LABELS, embedding=6, hidden=4, candidates=(5, 6)))),
        "hierarchical": (
            "none",
            lambda: Hierarchical(HierarchicalShape(v, 2, LABELS, embedding=6, hidden=4, ends=(4,))),
        ),
        "transformer": (
            "none",
            lambda: Transformer(TransformerShape(v, 1, LABELS, width=8, heads=2, inner=8, layers=2)),
        ),
    }


def made(name: str) -> Saved:
    size = learned(TEXTS, TokenRules()).get_vocab_size()
    frame, network = shapes(size)[name]
    torch.manual_seed(0)
    return Saved(network().eval(), learned(TEXTS, TokenRules(frame)), specials(frame))


NAMES = sorted(shapes(9))


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_sized_without_drawing_its_weights(name: str) -> None:
    drawn = []

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (torch.nn.init.normal_, torch.Tensor.normal_):
                drawn.append(func)
            return func(*args, **(kwargs or {}))

    with torch.device("meta"), Watching():
        shapes(9)[name][1]()
        assert drawn
        drawn.clear()
        with _Uninitialised():
            shapes(9)[name][1]()
    assert not drawn


@pytest.mark.parametrize("name", NAMES)
def test_a_network_comes_back_the_same(name: str, tmp_path: Path) -> None:
    net = made(name)
    save(net, tmp_path)
    loaded, ours = heedful.load(tmp_path), net.model
    ids = torch.tensor([[2, 5, 7, 3]])
    assert torch.equal(loaded.model(ids).logits, ours(ids).logits)
    assert loaded.labels == LABELS
    assert loaded.fingerprint == heedful.Classifier(ours, loaded.tokenizer).fingerprint
    assert {p.name for p in tmp_path.iterdir()} == {"model.safetensors", "heedful.json"}


@pytest.mark.parametrize("name", NAMES)
def test_saving_twice_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save(made(name), tmp_path / folder)
    for file in ("model.safetensors", "heedful.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_single_logit_has_two_names_and_two_opposite_answers(tmp_path: Path) -> None:
    save(made("single"), tmp_path)
    classifier = heedful.load(tmp_path)
    said = classifier.predictions([classifier.tokens("warm film")])[0]
    assert said.labels == LABELS
    assert said.logits[0] == -said.logits[1]
    assert said.probabilities is not None
    assert np.sum(said.probabilities) == pytest.approx(1)


def test_a_network_is_loaded_in_the_precision_asked_for(tmp_path: Path) -> None:
    save(made("single"), tmp_path)
    assert heedful.load(tmp_path, dtype="float64").model.decoder.weight.dtype == torch.float64
    assert heedful.load(tmp_path).model.decoder.weight.dtype == torch.float32


def spoiled(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    description = json.loads((folder / "heedful.json").read_text())
    change(description)
    (folder / "heedful.json").write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda description: description.update(format=2), "has an unknown format"),
        (lambda description: description["shape"].update(hidden=5), "is damaged"),
        (lambda description: description["shape"].update(strange=5), "is damaged"),
        (
            lambda description: description["shape"].update(hidden="x"),
            r"is damaged \(hidden is a whole number of at least 1, not 'x'",
        ),
        (lambda description: description.update(tokenizer={}), "is damaged"),
        (lambda description: description["shape"].update(hidden=10**7), "describes a larger model than its weights"),
        (
            lambda description: description["shape"].update(vocabulary=10**9),
            "describes a larger model than its weights",
        ),
        (
            lambda description: description["shape"].update(num_labels=10**9),
            "has num_labels=1,000,000,000, and its weights are",
        ),
    ],
)
def test_damaged_folders_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    save(made("single"), tmp_path)
    spoiled(tmp_path, change)
    with pytest.raises(BadInput, match=message):
        heedful.load(tmp_path)


def test_half_a_json_and_half_the_weights_are_refused(tmp_path: Path) -> None:
    save(made("single"), tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="are damaged"):
        heedful.load(tmp_path)
    (tmp_path / "heedful.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read"):
        heedful.load(tmp_path)


def test_an_unknown_network_is_named(tmp_path: Path) -> None:
    save(made("single"), tmp_path)
    spoiled(tmp_path, lambda description: description.update(network="seq2seq"))
    with pytest.raises(Unsupported, match="holds a seq2seq, which is not a text classifier"):
        heedful.load(tmp_path)
