"""Adversarial: the most different attention with the same output (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from heedful.checks import adversarial_rows
from heedful.checks.adversarial_rows import QueryAttention
from heedful.checks.base import Case, Divergence, Finding, Measure, Share, Together
from heedful.checks.tables import AdversarialTables, Histogram, PeakHistogram, peaks
from heedful.core.arrays import Floats
from heedful.core.finding import Findings, Highlight, Place, Role, SideBySide
from heedful.core.settings import Between, Ge, Gt
from heedful.core.tokens import Tokens
from heedful.maths import adversary, adversary_search
from heedful.maths.adversary import Polytope, Problem, attention_distance
from heedful.maths.adversary_search import Loss, Padded, Search
from heedful.methods import Method, Passes
from heedful.methods.attention import LayerChoice
from heedful.model import huggingface
from heedful.model.classifier import Classifier

_Jsd = partial(Divergence, better="lower")
_Tvd = partial(Share, better="lower")
JSD_BINS = np.linspace(0, 0.7, 41)  # edges; a JSD is at most ln 2


@dataclass(frozen=True)
class Adversarial(Together):
    """The most different attention, over all keys that the query may attend to, that changes the output by at most ε.

    Where a network has one query and logits affine in its weights: the exact solution for one head and one output
    number, otherwise a lower and an upper bound; and the result of Jain & Wallace's search. In a Transformer, for each
    head of a layer: a row of weights that preserves the head's output exactly (δ = 0) or within δ of its size. That is
    sufficient for an equal output, not necessary: a witness, not a maximum. `bounded` is the share of problems for
    which integer programming proves a bound within `milp_seconds`. `loss` is what the search minimises: as the paper
    says, or as the authors' program does. All reported attentions are run through the model.
    """

    epsilon: Annotated[float, Ge(0)] = 0.05
    candidates: Annotated[int, Ge(1)] = 5
    steps: Annotated[int, Ge(0)] = 500
    delta: tuple[Annotated[float, Ge(0)], ...] = (0.0, 0.05)
    layer: LayerChoice = -1
    bounded: Annotated[float, Between(0, 1)] = 0.0
    milp_seconds: Annotated[float, Gt(0)] = 2.0
    loss: Loss = "paper"

    name: ClassVar[str] = "adversarial"
    title: ClassVar[str] = "Adversarial attention"
    question: ClassVar[str] = "How different could attention be with the same output?"
    reading: ClassVar[str] = (
        "In a binary model a very different attention with the same output almost always exists: only one number has "
        "to be preserved, and two words suffice. A high number is therefore weak evidence against one model; compare "
        "models, and ask whether training would find such attention. A search and a witness give lower bounds, not the "
        "maximum."
    )
    full: ClassVar[Mapping[str, Any]] = {"layer": "all"}
    jain2019: ClassVar[Mapping[str, Any]] = {"loss": "code"}
    probe: ClassVar[Mapping[str, Any]] = {"steps": 2, "candidates": 1, "milp_seconds": 0.5}
    summary: ClassVar[str] = "the most different attention that gives the same output"
    paper: ClassVar[str] = "Jain & Wallace 2019; Brunner et al. 2020"
    changes: ClassVar[str] = (
        "the pooled position's attention is replaced by the most different one with nearly the same output"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        "jsd exact": _Jsd("largest JSD of an attention that changes the output by at most ε"),
        "tvd exact": _Tvd("largest TVD of an attention that changes the output by at most ε"),
        "change exact": Share("measured change of the model's output with these two: the larger TVD"),
        "jsd upper": _Jsd("upper bound of the JSD of all attentions that change the output by at most ε"),
        "tvd upper": _Tvd("upper bound of their TVD"),
        "jsd lower": _Jsd("JSD of one attention that changes the output by at most ε"),
        "tvd lower": _Tvd("TVD of one such attention"),
        "change lower": Share("measured change of the model's output with these two: the larger TVD"),
        "jsd found": _Jsd("ε-max JSD: the largest found by Jain & Wallace's search"),
        "change found": Share("measured change of the model's output with it (TVD)"),
        "jsd witness": _Jsd("JSD of a row of attention that preserves its head's output within δ"),
        "tvd witness": _Tvd("its TVD"),
        "change witness": Share("measured change of the model's output with it (TVD)"),
        "jsd any head": _Jsd("JSD of the witness with the largest TVD among the layer's heads"),
        "tvd any head": _Tvd("its TVD"),
        "change any head": Share("measured change of the model's output with it (TVD)"),
        "jsd bound": Divergence("upper bound of the JSD of rows that preserve the head's output within δ"),
        "tvd bound": Share("upper bound of the TVD, proved by integer programming on a sample of problems"),
        "null dimension": Measure("dimension of the changes of a head's row that preserve its output"),
        "max attention": Measure("largest weight of the model's own attention, mean over heads or of one head"),
    }
    highlights: ClassVar[tuple[Highlight, ...]] = (
        Highlight("jsd exact", "most different attention with the same output (JSD), exact"),
        Highlight("jsd found", "most different attention with the same output (JSD), found by search"),
        Highlight("tvd any head", "other attention with the same head output within 5 % (TVD)", at={"delta": 0.05}),
    )
    compared: ClassVar[tuple[SideBySide, ...]] = (
        SideBySide(
            "jsd exact",
            "JSD of the farthest attention with the same output",
            words="farthest (JSD), exact",
            headline="attention could differ {more} in {a} than in {b}, with the same output",
            symbol="JSD",
        ),
        SideBySide("jsd found", "JSD of the farthest attention that a search finds", words="farthest (JSD), found"),
        SideBySide("jsd upper", "upper bound of the JSD with the same output", words="upper bound (JSD)"),
        SideBySide("jsd lower", "lower bound of the JSD with the same output", words="lower bound (JSD)"),
        SideBySide(
            "tvd any head",
            "TVD of an attention with the same head output within 5 %",
            words="same head output (TVD)",
            at={"delta": 0.05},
        ),
    )
    roles: ClassVar[tuple[Role, ...]] = ("elsewhere",)

    @property
    def _search(self) -> Search:
        return Search(self.candidates, self.steps, loss=self.loss)

    def many(self, cases: Sequence[Case]) -> list[list[Finding]]:
        """The findings on each text; the search runs for all texts at once."""
        findings: dict[int, list[Finding]] = {}
        affine: dict[int, tuple[QueryAttention, Problem]] = {}
        for i, case in enumerate(cases):
            sites = adversarial_rows.query_attentions(case, self.layer)
            solvable = len(sites) == 1 and sites[0].single_query and len(sites[0].keys) > 0
            problem = adversarial_rows.affine_problem(sites[0]) if solvable else None
            if problem is None:
                findings[i] = [finding for site in sites for finding in self._per_head(site)]
            else:
                affine[i] = sites[0].detached(), problem
        rngs = [cases[i].rng(self.name, "search") for i in affine]
        candidates = adversary_search.optimise([problem for _, problem in affine.values()], rngs, self._search)
        for (i, (text, problem)), attentions in zip(affine.items(), candidates, strict=True):
            findings[i] = self._solved(text, problem, attentions)
        return [findings[i] for i in range(len(cases))]

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """At most; heads are counted from the configuration."""
        layers = sum(kind == adversarial_rows.last_kind(classifier) for kind, _ in classifier.sites)
        rows = huggingface.head_count(classifier.model, classifier.main_kind) * len(self.delta)
        per_head = 1 + (layers if self.layer == "all" else 1) * adversarial_rows.forward_count(rows, len(tokens))
        if layers > 1 or not hasattr(classifier.model, "attention_sites"):
            return Passes(per_head, exactly=False)
        solved = 1 + 2 * adversarial_rows.forward_count(3, len(tokens)) + adversarial_rows.forward_count(1, len(tokens))
        return Passes(max(per_head, solved), len(classifier.labels), exactly=False)

    # one query, logits affine in its weights

    def _solved(self, text: QueryAttention, problem: Problem, candidates: Floats) -> list[Finding]:
        jsd, tvd = (adversary.exact_witness(problem, self.epsilon, d) for d in ("jsd", "tvd"))
        is_exact = jsd is not None and tvd is not None
        if jsd is None or tvd is None:
            jsd, tvd = (adversary.bracket(problem, self.epsilon, d).lower for d in ("jsd", "tvd"))
        name = "exact" if is_exact else "lower"
        searched = adversary_search.farthest_candidate(
            problem.attention, candidates, problem.change(candidates), self.epsilon
        )
        moved = text.changes(text.rows(np.stack([jsd.attention, tvd.attention, searched.attention])))
        numbers = {f"jsd {name}": jsd.distance, f"tvd {name}": tvd.distance, f"change {name}": float(moved[:2].max())}
        if not is_exact:
            numbers |= {f"{d} upper": adversary.bracket(problem, self.epsilon, d).upper for d in ("jsd", "tvd")}
        if self._bounds(text, "milp"):
            space = adversary.polytope(problem, adversary.limits(problem, self.epsilon)[0])
            numbers["tvd bound"] = adversary.tvd_bound(space, self.milp_seconds).upper
        numbers["max attention"] = float(problem.attention.mean(0).max())
        details = {f"jsd {name}": _details(text, jsd.attention), "jsd found": _details(text, searched.attention)}
        numbers |= {"jsd found": searched.jsd, "change found": float(moved[2])}
        return [_finding(measure, value, {}, details.get(measure)) for measure, value in numbers.items()]

    def _bounds(self, text: QueryAttention, *key: object) -> bool:
        """Whether this problem is in the random sample for which a bound is proved."""
        u = torch.rand((), generator=text.case.rng(self.name, "bounded", *key), dtype=torch.float64)
        return float(u) < self.bounded

    # head by head: the head's output is preserved

    def _per_head(self, text: QueryAttention) -> list[Finding]:
        if not len(text.keys):
            return [_finding(name, np.nan) for name in self._missing(text)]
        where = [{"layer": text.site.layer, "head": head} for head in range(len(text.attention))]
        described, problems = [], []
        for at, row in zip(where, text.attention, strict=True):
            vectors = text.projected() if text.single_query and len(where) == 1 else text.values(at["head"])
            described += [
                _finding("max attention", float(row.max()), at),
                _finding("null dimension", float(adversary.null_dimension(vectors, text.eps)), at),
            ]
            problems += [(at | {"delta": d}, adversary.preserving_rows(row, vectors, d, text.eps)) for d in self.delta]
        return described + self._witnesses(text, problems) + self._searched(text)

    def _missing(self, text: QueryAttention) -> tuple[str, ...]:
        """The measures that a text would have if it had a word to attend to."""
        head = text.case.classifier.head
        empty = Problem(text.attention, np.zeros((*text.attention.shape, len(text.logits))), text.logits, head)
        single = len(text.attention) == 1 and len(adversary.limits(empty, self.epsilon)[0].forms) == 1
        bounds = ("jsd exact", "tvd exact") if single else ("jsd lower", "tvd lower", "jsd upper", "tvd upper")
        return (*bounds, "jsd found", "max attention")

    def _witnesses(
        self, text: QueryAttention, problems: Sequence[tuple[dict[str, Any], Polytope | None]]
    ) -> list[Finding]:
        originals = [text.attention[[at["head"]]] for at, _ in problems]
        solved = [_witness(row, space) for row, (_, space) in zip(originals, problems, strict=True)]
        rows = []
        for i, (at, _) in enumerate(problems):
            # a solution for the same head and a smaller δ is one of this problem too
            candidates = [
                solved[j][0]
                for j, (other, _) in enumerate(problems)
                if other["head"] == at["head"] and other["delta"] <= at["delta"]
            ]
            distances = [float(attention_distance(row, originals[i], "jsd")) for row in candidates]
            rows.append(candidates[int(np.argmax(distances))])
        moved = text.changes([text.row(at["head"], row[0]) for (at, _), row in zip(problems, rows, strict=True)])
        jsd = [float(attention_distance(row, before, "jsd")) for row, before in zip(rows, originals, strict=True)]
        findings = []
        for i, ((at, space), row, before) in enumerate(zip(problems, rows, originals, strict=True)):
            findings += [
                _finding("jsd witness", jsd[i], at, _details(text, row, before) if jsd[i] == max(jsd) else {}),
                _finding("tvd witness", float(attention_distance(row, before, "tvd")), at),
                _finding("change witness", float(moved[i]), at),
                _finding("jsd bound", solved[i][1], at),
            ]
            if self._bounds(text, at):
                bound = 0.0 if space is None else adversary.tvd_bound(space, self.milp_seconds).upper
                findings.append(_finding("tvd bound", bound, at))
        return findings + _any_head(findings)

    def _searched(self, text: QueryAttention) -> list[Finding]:
        """The gradient search, for a network whose decoder is known but not affine."""
        decode = adversarial_rows.attention_decoder(text) if text.single_query else None
        if decode is None:
            return []
        weights, base = (torch.from_numpy(x)[None] for x in (text.attention, text.logits))
        head = text.case.classifier.head
        padded = Padded(weights, torch.ones(1, weights.shape[-1], dtype=torch.bool), base, head)
        rng = text.case.rng(self.name, "search")
        first = adversary_search.initial_scores(text.attention.shape, rng, self._search)
        candidates = adversary_search.gradient_search(decode, padded, first[None], self._search)
        with torch.no_grad():
            moved = adversary_search.output_change(decode(candidates)[0], base, head).numpy()
        farthest = adversary_search.farthest_candidate(text.attention, candidates[0].numpy(), moved, self.epsilon)
        real = float(text.changes(text.rows(farthest.attention[None]))[0])
        return [
            _finding("jsd found", farthest.jsd, {}, _details(text, farthest.attention)),
            _finding("change found", real),
        ]

    def tables(self, findings: Findings) -> AdversarialTables:
        """JSD over texts: 40 bins from 0 to 0.7, by the largest weight of the attention and by predicted label."""
        measures = {kind: f"jsd {kind}" for kind in ("exact", "lower", "found", "witness")}
        tables = {k: tuple(_table(findings, name, at) for at in findings.places(name)) for k, name in measures.items()}
        return AdversarialTables(**tables)


def _any_head(witnesses: Sequence[Finding]) -> list[Finding]:
    """For each δ, the head whose row could be farthest from its own attention."""
    rows = {(f.at["delta"], f.at["head"], f.measure): f for f in witnesses}
    findings = []
    for delta in dict.fromkeys(delta for delta, _, _ in rows):
        heads = [head for d, head, name in rows if d == delta and name == "tvd witness"]
        best = max(heads, key=lambda head: rows[delta, head, "tvd witness"].value)
        for name in ("jsd", "tvd", "change"):
            witness = rows[delta, best, f"{name} witness"]
            at = {"layer": witness.at["layer"], "delta": delta}
            findings.append(_finding(f"{name} any head", witness.value, at, {"head": best}))
    return findings


def _finding(measure: str, value: float, at: Place | None = None, details: Mapping[str, Any] | None = None) -> Finding:
    return Finding(Adversarial.name, "", measure, value, at or {}, details or {})


def _details(text: QueryAttention, attention: Floats, original: Floats | None = None) -> dict[str, Any]:
    """Both attentions by head, over all positions, for the figure that shows them side by side."""
    both = {"adversarial": attention, "attention": text.attention if original is None else original}
    return {"query": text.query} | {name: text.spread(weights).tolist() for name, weights in both.items()}


def _witness(row: Floats, space: Polytope | None) -> tuple[Floats, float]:
    """The farthest row [1,n] that the linear program finds, and its upper bound for all rows."""
    if space is None:
        return row, 0.0
    bracket = adversary.envelope(space, "jsd")
    return bracket.lower.attention, bracket.upper


def _table(findings: Findings, measure: str, at: Mapping[str, Any]) -> Histogram:
    values = findings.values(measure, at=dict(at))
    where = {name: at[name] for name in ("layer", "head") if name in at}
    groups = [
        PeakHistogram(peak.label, peak.start, peak.end, **_counted(values[inside]))
        for peak, inside in peaks(findings, findings.values("max attention", at=where))
        if inside.any()
    ]
    return Histogram(at=dict(at), bins=tuple(JSD_BINS.tolist()), groups=tuple(groups), **_counted(values))


def _counted(values: Floats) -> dict[str, Any]:
    """The number of values that are not NaN, their median, and their histogram."""
    real = values[~np.isnan(values)]
    counts = np.histogram(np.clip(real, JSD_BINS[0], JSD_BINS[-1]), JSD_BINS)[0]
    return {"n": len(real), "median": float(np.median(real)) if len(real) else np.nan, "counts": tuple(counts.tolist())}
