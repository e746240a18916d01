"""Adversarial: how different attention could be while the model answers the same (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import torch

from heedful.checks.adversarial_rows import Opened, affine, decoder, last_kind, opened, passed
from heedful.checks.base import PEAKS, Case, Finding, Floats, Measure
from heedful.core.finding import Place
from heedful.core.settings import Between, Checked, Ge, Gt
from heedful.core.tokens import Tokens
from heedful.maths.adversary import (
    Polytope,
    Problem,
    Witness,
    attention_distance,
    bracket,
    envelope,
    exact,
    limits,
    null_dimension,
    polytope,
    preserving_rows,
    tvd_bound,
)
from heedful.maths.adversary_search import (
    Farthest,
    Padded,
    Search,
    farthest,
    gradient_search,
    initial_scores,
    optimise,
    output_change,
)
from heedful.methods import Method, Passes
from heedful.methods.attention import Layer
from heedful.model import huggingface as facts
from heedful.model.classifier import Classifier

if TYPE_CHECKING:
    from heedful.core.finding import Findings

BINS = np.linspace(0, 0.7, 41)


@dataclass(frozen=True)
class Adversarial(Checked):
    """The most different attention, over all that the query may attend to, with which the output moves by ε at most.

    Where a network has one query and logits affine in its weights: exactly for one head and one number as output,
    else a lower and an upper bound; and what the search of Jain & Wallace finds. In a Transformer, for each head of a
    layer: a row of weights that leaves what the head reads as it is (δ = 0) or within δ of its size. That suffices for
    an equal output and is not necessary: a witness, not a maximum. `bounded` is the share of problems for which a bound
    is proved in `milp_seconds`. All attentions reported are run through the model.
    """

    epsilon: Annotated[float, Ge(0)] = 0.05
    candidates: Annotated[int, Ge(1)] = 5
    steps: Annotated[int, Ge(0)] = 500
    delta: tuple[Annotated[float, Ge(0)], ...] = (0.0, 0.05)
    layer: Layer = -1
    bounded: Annotated[float, Between(0, 1)] = 0.0
    milp_seconds: Annotated[float, Gt(0)] = 2.0

    summary: ClassVar[str] = "the most different attention that gives the same output"
    paper: ClassVar[str] = "Jain & Wallace 2019; Brunner et al. 2020"
    changes: ClassVar[str] = "the pooled position's attention is replaced by the most different one with a like output"
    measures: ClassVar[Mapping[str, Measure]] = {
        "jsd exact": Measure("the largest JSD of an attention that moves the output by ε at most", better="lower"),
        "tvd exact": Measure("the largest TVD of such an attention", better="lower"),
        "change exact": Measure("how far the model's output really moves with these two: the larger TVD"),
        "jsd upper": Measure("no attention that moves the output by ε at most has a larger JSD", better="lower"),
        "tvd upper": Measure("or a larger TVD", better="lower"),
        "jsd lower": Measure("the JSD of one such attention", better="lower"),
        "tvd lower": Measure("the TVD of one such attention", better="lower"),
        "change lower": Measure("how far the model's output really moves with these two: the larger TVD"),
        "jsd found": Measure("ε-max JSD: the largest that the search of Jain & Wallace found", better="lower"),
        "change found": Measure("how far the model's output really moves with it (TVD)"),
        "jsd witness": Measure(
            "the JSD of a row of attention that leaves what its head reads within δ", better="lower"
        ),
        "tvd witness": Measure("its TVD", better="lower"),
        "change witness": Measure("how far the model's output really moves with it (TVD)"),
        "jsd any head": Measure(
            "the JSD of the witness that is farthest (by TVD) among the layer's heads", better="lower"
        ),
        "tvd any head": Measure("its TVD", better="lower"),
        "change any head": Measure("how far the model's output really moves with it (TVD)"),
        "jsd bound": Measure("no row that leaves what its head reads within δ has a larger JSD"),
        "tvd bound": Measure("no attention sought here has a larger TVD: proved by integer programming on a sample"),
        "null dimension": Measure("directions in which a head's row may move without changing what it reads"),
        "max attention": Measure("the largest weight of the attention itself, mean over heads or of one head"),
    }

    @property
    def _search(self) -> Search:
        return Search(self.candidates, self.steps)

    def __call__(self, case: Case) -> list[Finding]:
        """What is found on one text."""
        return self.many([case])[0]

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """The search does all texts at once."""
        found: dict[int, list[Finding]] = {}
        asked: dict[int, tuple[Opened, Problem]] = {}
        for i, case in enumerate(cases):
            sites = opened(case, self.layer)
            problem = self._affine(sites)
            if problem is None:
                found[i] = [finding for site in sites for finding in self._held(site)]
            else:
                asked[i] = sites[0].released(), problem
        rngs = [cases[i].rng("adversarial", "search") for i in asked]
        candidates = optimise([problem for _, problem in asked.values()], rngs, self._search)
        for (i, (text, problem)), some in zip(asked.items(), candidates, strict=True):
            found[i] = self._solved(text, problem, some)
        return [found[i] for i in range(len(cases))]

    def _affine(self, sites: Sequence[Opened]) -> Problem | None:
        return affine(sites[0]) if len(sites) == 1 and sites[0].alone and len(sites[0].keys) else None

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most; heads are counted from the configuration."""
        layers = sum(kind == last_kind(classifier) for kind, _ in classifier.sites)
        rows = facts.heads(classifier.model, classifier.reads) * len(self.delta)
        held = 1 + (layers if self.layer == "all" else 1) * passed(rows, len(tokens))
        if layers > 1 or not hasattr(classifier.model, "attention_sites"):
            return Passes(held, exactly=False)
        solved = 1 + 2 * passed(3, len(tokens)) + passed(1, len(tokens))
        return Passes(max(held, solved), len(classifier.labels), exactly=False)

    # one query, logits affine in its weights

    def _solved(self, text: Opened, problem: Problem, candidates: Floats) -> list[Finding]:
        exactly = self._exact(problem)
        name = "lower" if exactly is None else "exact"
        jsd, tvd = exactly or (bracket(problem, self.epsilon, d).lower for d in ("jsd", "tvd"))
        found = farthest(problem.attention, candidates, problem.change(candidates), self.epsilon)
        moved = text.changes(text.rows(np.stack([jsd.attention, tvd.attention, found.attention])))
        numbers = {f"jsd {name}": jsd.distance, f"tvd {name}": tvd.distance, f"change {name}": float(moved[:2].max())}
        if exactly is None:
            numbers |= {f"{d} upper": bracket(problem, self.epsilon, d).upper for d in ("jsd", "tvd")}
        if self._drawn(text, "milp"):
            space = polytope(problem, limits(problem, self.epsilon)[0])
            numbers["tvd bound"] = tvd_bound(space, self.milp_seconds).upper
        numbers["max attention"] = float(problem.attention.mean(0).max())
        shown = {f"jsd {name}": jsd.attention, "jsd found": found.attention}
        numbers |= {"jsd found": found.jsd, "change found": float(moved[2])}
        return [_finding(n, x, {}, _shown(text, shown[n]) if n in shown else {}) for n, x in numbers.items()]

    def _exact(self, problem: Problem) -> tuple[Witness, Witness] | None:
        jsd, tvd = (exact(problem, self.epsilon, "jsd"), exact(problem, self.epsilon, "tvd"))
        return None if jsd is None or tvd is None else (jsd, tvd)

    def _drawn(self, text: Opened, *names: object) -> bool:
        chance = torch.rand((), generator=text.case.rng("adversarial", "bounded", *names), dtype=torch.float64)
        return float(chance) < self.bounded

    # what a head reads is held

    def _held(self, text: Opened) -> list[Finding]:
        if not len(text.keys):
            return [_finding(name, np.nan, {}, {}) for name in self._absent(text)]
        where = [{"layer": text.site.layer, "head": head} for head in range(len(text.attention))]
        values = [text.mapped() if text.alone and len(where) == 1 else text.values(at["head"]) for at in where]
        made = [
            _finding(name, number, at, {})
            for at, own, vectors in zip(where, text.attention, values, strict=True)
            for name, number in (
                ("max attention", float(own.max())),
                ("null dimension", float(null_dimension(vectors, text.eps))),
            )
        ]
        sought = [
            (at | {"delta": d}, preserving_rows(own, vectors, d, text.eps))
            for at, own, vectors in zip(where, text.attention, values, strict=True)
            for d in self.delta
        ]
        return made + self._witnesses(text, sought) + self._searched(text)

    def _absent(self, text: Opened) -> tuple[str, ...]:
        """What a text would have, if there were a word in it to attend to."""
        head = text.case.classifier.head
        nothing = Problem(text.attention, np.zeros((*text.attention.shape, len(text.logits))), text.logits, head)
        single = len(text.attention) == 1 and len(limits(nothing, self.epsilon)[0].forms) == 1
        bounds = ("jsd exact", "tvd exact") if single else ("jsd lower", "tvd lower", "jsd upper", "tvd upper")
        return (*bounds, "jsd found", "max attention")

    def _witnesses(self, text: Opened, sought: Sequence[tuple[dict[str, Any], Polytope | None]]) -> list[Finding]:
        owns = [text.attention[[at["head"]]] for at, _ in sought]
        solved = [_witness(own, space) for own, (_, space) in zip(owns, sought, strict=True)]
        rows = [
            max(
                (solved[j][0] for j in _within(i, [at for at, _ in sought])),
                key=lambda w: float(attention_distance(w, own, "jsd")),
            )
            for i, own in enumerate(owns)
        ]
        moved = text.changes([text.row(at["head"], row[0]) for (at, _), row in zip(sought, rows, strict=True)])
        jsd = [float(attention_distance(row, own, "jsd")) for row, own in zip(rows, owns, strict=True)]
        made = []
        for i, ((at, space), row, own) in enumerate(zip(sought, rows, owns, strict=True)):
            made += [
                _finding("jsd witness", jsd[i], at, _shown(text, row, own) if jsd[i] == max(jsd) else {}),
                _finding("tvd witness", float(attention_distance(row, own, "tvd")), at, {}),
                _finding("change witness", float(moved[i]), at, {}),
                _finding("jsd bound", solved[i][1], at, {}),
            ]
            if self._drawn(text, at):
                bound = 0.0 if space is None else tvd_bound(space, self.milp_seconds).upper
                made.append(_finding("tvd bound", bound, at, {}))
        return made + _any_head(made)

    def _searched(self, text: Opened) -> list[Finding]:
        """The search, where the network's decoder is known though it is not affine."""
        decode = decoder(text) if text.alone else None
        if decode is None:
            return []
        own, base = (torch.from_numpy(x)[None] for x in (text.attention, text.logits))
        head = text.case.classifier.head
        padded = Padded(own, torch.ones(1, own.shape[-1], dtype=torch.bool), base, head)
        first = initial_scores(text.attention.shape, text.case.rng("adversarial", "search"), self._search)[None]
        made = gradient_search(decode, padded, first, self._search)
        with torch.no_grad():
            moved = output_change(decode(made)[0], base, head).numpy()
        found: Farthest = farthest(text.attention, made[0].numpy(), moved, self.epsilon)
        real = float(text.changes(text.rows(found.attention[None]))[0])
        return [
            _finding("jsd found", found.jsd, {}, _shown(text, found.attention)),
            _finding("change found", real, {}, {}),
        ]

    def tables(self, found: Findings) -> dict[str, Any]:
        """JSD over texts: 40 bins from 0 to 0.7, by the largest weight of the attention and by predicted label."""
        return {
            name: [_table(found, name, at) for at in found.places(name)]
            for name in ("jsd exact", "jsd lower", "jsd found", "jsd witness")
            if found.places(name)
        }


def _any_head(made: Sequence[Finding]) -> list[Finding]:
    """The head whose row could be farthest from its own attention, for each δ."""
    names = ("jsd", "tvd", "change")
    rows = {(f.at["delta"], f.at["head"], f.measure): f for f in made}
    found = []
    for delta in dict.fromkeys(delta for delta, _, _ in rows):
        heads = [head for d, head, name in rows if d == delta and name == "tvd witness"]
        best = max(heads, key=lambda head: rows[delta, head, "tvd witness"].value)
        for name in names:
            one = rows[delta, best, f"{name} witness"]
            at = {"layer": one.at["layer"], "delta": delta}
            found.append(_finding(f"{name} any head", one.value, at, {"head": best}))
    return found


def _finding(measure: str, value: float, at: Place, details: Mapping[str, Any]) -> Finding:
    return Finding("adversarial", "", measure, value, at, details)


def _shown(text: Opened, attention: Floats, own: Floats | None = None) -> dict[str, Any]:
    """For the picture of both side by side: by head, over positions."""
    before = text.attention if own is None else own
    return {
        "query": text.query,
        "adversarial": text.spread(attention).tolist(),
        "attention": text.spread(before).tolist(),
    }


def _within(i: int, places: Sequence[Mapping[str, Any]]) -> list[int]:
    """The problems whose rows are rows of this one: of the same head, with a δ no larger."""
    here = places[i]
    return [j for j, at in enumerate(places) if at["head"] == here["head"] and at["delta"] <= here["delta"]]


def _witness(own: Floats, space: Polytope | None) -> tuple[Floats, float]:
    """A row [1,n] as far away as the linear program gets, and the bound that it gives for all."""
    if space is None:
        return own, 0.0
    found = envelope(space, "jsd")
    return found.lower.attention, found.upper


def _table(found: Findings, measure: str, at: Mapping[str, Any]) -> dict[str, Any]:
    values = found.values(measure, at=dict(at))
    where = {name: at[name] for name in ("layer", "head") if name in at}
    peaks = found.values("max attention", at=where)
    labels = np.asarray(found.texts["predicted"])
    bins = np.clip(np.digitize(peaks, PEAKS) - 1, 0, len(PEAKS) - 2)
    groups = [
        {"label": name, "max attention": [PEAKS[j], PEAKS[j + 1]], **_counted(values[some])}
        for i, name in enumerate(found.labels)
        for j in range(len(PEAKS) - 1)
        if (some := (labels == i) & (bins == j) & ~np.isnan(peaks)).any()
    ]
    return {"at": dict(at), "bins": BINS.tolist(), **_counted(values), "groups": groups}


def _counted(values: Floats) -> dict[str, Any]:
    """How many there are, their median, and their histogram; NaN is left out, so `n` counts what exists."""
    real = values[~np.isnan(values)]
    counts = np.histogram(np.clip(real, BINS[0], BINS[-1]), BINS)[0]
    return {"n": len(real), "median": float(np.median(real)) if len(real) else None, "counts": counts.tolist()}
