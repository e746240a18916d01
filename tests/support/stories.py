"""Stories in the form of bAbI's first task (Weston et al. 2015), and networks that answer with a word of the story.

"Mary moved to the garden . John went to the kitchen ." / "Where is Mary ?" -> garden

`loud` has random weights. `reader` has planted ones, and its answer is known: each state of the story remembers who was
named last; attention is on the last place at which that is the person of the question; the answer is that place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from heedful.data import Example
from heedful.model.classifier import Classifier
from heedful.model.loading import wrapped
from heedful.nets.pair import Pair, PairShape
from heedful.nets.vocabulary import TokenRules, learned, specials
from tests.support import models

PEOPLE = ("Daniel", "John", "Mary", "Sandra")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
MOVES = ("journeyed", "moved", "travelled", "went")
LOGIT = 4.0  # of the reader's answer; other places of the story have 0


def story(moves: Sequence[tuple[str, str]], asked: str, verb: str = "moved") -> Example:
    """Who went where, in this order, and where one of them is."""
    text = " ".join(f"{who} {verb} to the {where} ." for who, where in moves)
    return Example(text, f"Where is {asked} ?", dict(moves)[asked])


def stories(n: int, seed: int = 0, sentences: int = 3) -> list[Example]:
    """Different stories of so many sentences."""
    rng = torch.Generator().manual_seed(seed)

    def draw(words: Sequence[str]) -> str:
        return words[int(torch.randint(len(words), (), generator=rng))]

    made: dict[tuple[str, str | None], Example] = {}
    while len(made) < n:
        moves = [(draw(PEOPLE), draw(PLACES)) for _ in range(sentences)]
        new = story(moves, draw([who for who, _ in moves]), draw(MOVES))
        made[new.text, new.pair] = new
    return list(made.values())


@cache
def tokenizer() -> Any:
    """Whole words, as `heedful train` cuts them."""
    words = " ".join((*PEOPLE, *PLACES, *MOVES, "to the . Where is ?"))
    return wrapped(learned([words], TokenRules()), specials("ends"))


def network(**more: Any) -> Pair:
    """A network for stories, whose labels are the places."""
    t = tokenizer()
    candidates = tuple(t.convert_tokens_to_ids(list(PLACES)))
    sizes: dict[str, Any] = {
        "embedding": 8,
        "hidden": 6,
        "special": (t.bos_token_id, t.eos_token_id),
        "candidates": candidates,
    }
    torch.manual_seed(0)
    return Pair(PairShape(len(t), len(PLACES), PLACES, **(sizes | more)))


@cache
def loud(seed: int = 0) -> Classifier:
    """Random weights that matter."""
    return Classifier(models.loud(network(), seed, 0.7), tokenizer(), name="loud-stories")


# units of the reader: who was named last, which place a word is, whether it is one, how many names there were
PERSON, WHERE = slice(len(PEOPLE)), slice(len(PEOPLE), len(PEOPLE) + len(PLACES))
PLACE, NAMES, UNITS = WHERE.stop, WHERE.stop + 1, WHERE.stop + 2
OPEN = 8.0  # a gate's bias; −OPEN closes it


@cache
@torch.no_grad()
def reader() -> Classifier:
    """A BiLSTM with planted weights; its backward half is silent."""
    net: Any = network(embedding=UNITS, hidden=UNITS, attention="general")
    for p in net.parameters():
        p.zero_()
    for i, word in enumerate((*PEOPLE, *PLACES)):
        vector = torch.zeros(UNITS)
        vector[[i, NAMES if word in PEOPLE else PLACE]] = 1.0
        net.words.weight[tokenizer().convert_tokens_to_ids(word.lower())] = vector.repeat(2)
    for encoder in (net.passage, net.question):
        lstm = encoder.layer.onward
        (into, forget, _, out), weights = lstm.bias_ih_l0.chunk(4), lstm.weight_ih_l0.chunk(4)
        for gate, bias in ((into, OPEN), (forget, -OPEN), (out, OPEN)):
            gate.fill_(bias)  # each state is its word's
        weights[2].copy_(torch.eye(UNITS))
        into[PERSON], weights[0][PERSON, NAMES] = -OPEN, 2 * OPEN  # a name stays until the next one
        forget[PERSON], weights[1][PERSON, NAMES] = OPEN, -2 * OPEN
        forget[NAMES], weights[2][NAMES, NAMES] = OPEN, 0.1  # names are counted
    scores = net.score.map.weight[:, PERSON]  # [units of the story, who is asked for]
    scores[PERSON] = 60 * torch.eye(len(PEOPLE))
    scores[[PLACE, NAMES]] = 60.0
    net.from_passage.weight[: len(PLACES), WHERE] = torch.eye(len(PLACES))
    place = torch.tensor(1.0).tanh().tanh().tanh()  # through the cell, its output and the decoder
    net.decoder.weight[:, : len(PLACES)] = LOGIT / place * torch.eye(len(PLACES))
    return Classifier(net.eval(), tokenizer(), name="reader")
