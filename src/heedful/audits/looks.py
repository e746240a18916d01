"""Looks: when the results of a run were seen while texts were still being added, and the end of `until="decided"`.

A limit for a fixed number of texts holds for one look. A run to which texts were added after its summary had been
computed, or until its verdict was decided, has the anytime rule. Needs no torch.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from heedful.audits.run import CHUNK_TEXTS, SUMMARY, Run
from heedful.audits.verdict import NEEDED, Evidence, Rule, decided, gather, join, readings
from heedful.core.arrays import Ints
from heedful.core.decode import decode
from heedful.core.errors import BadInput
from heedful.core.finding import Findings

if TYPE_CHECKING:
    from heedful.checks import Check
    from heedful.methods import Method
    from heedful.model.classifier import Classifier


@dataclass(frozen=True)
class Looks:
    """How often a run was seen while texts were still being added.

    `before` has the numbers of texts of earlier summaries; `until` says whether texts were added until the verdict was
    decided. Both are part of the summary, which is replaced as a whole: a killed run has those of the last one.
    """

    before: tuple[int, ...] = ()
    until: bool = False

    @property
    def rule(self) -> Rule:
        """The rule of such a run's verdict."""
        return Rule(limits="anytime" if self.before or self.until else "fixed")


def looks_of(run: Run, until: bool = False) -> Looks:
    """The looks of a run, from the summary that is in its folder, and the texts that were added since."""
    texts, earlier = _stored(run)
    before = (*earlier.before, texts) if 0 < texts < run.count() else earlier.before
    return Looks(before, until or earlier.until)


def _stored(run: Run) -> tuple[int, Looks]:
    """The number of texts of the summary in the folder, and its looks; none where nobody can have seen one."""
    try:
        stored = json.loads((run.folder / SUMMARY).read_bytes())
        return int(stored["texts"]["n"]), decode(Looks, stored.get("looks", {}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0, Looks()


def in_order(evidence: Mapping[str, Evidence], rule: Rule, numbers: Ints) -> dict[str, Evidence]:
    """By the anytime rule, the evidence on the texts before the first that is missing: later looks add to the same."""
    there = len(numbers) if rule.limits == "fixed" else int((numbers == np.arange(len(numbers))).cumprod().sum())
    return {name: some.map(lambda values: values[:there]) for name, some in evidence.items()}


# until decided


def refuse_undecidable(
    until: str, classifier: Classifier, methods: Mapping[str, Method], checks: Mapping[str, Check]
) -> None:
    """Refuse `until="decided"` where the run cannot have a verdict, and any other word."""
    if until != "decided":
        raise BadInput(f"until is '{until}'; the only word that ends a run is 'decided'.")
    roles = {role for check in checks.values() for role in getattr(check, "roles", ())}
    rule = Rule()
    absent = [name for name in (rule.attention, rule.reference) if name not in methods]
    if absent:
        raise BadInput(
            f"a run without {absent[0]} has no verdict; add this method, or give --limit instead of --until."
        )
    if classifier.head == "regression":
        raise BadInput(
            f"{classifier.name} is a regression model, whose changes have no limits: texts cannot be added until "
            "the verdict is decided; give --limit instead of --until."
        )
    if not set(NEEDED) <= roles:
        raise BadInput(
            "a run without the checks agreement, input-erasure, permutation and complexity has no verdict; add them, "
            "or give --limit instead of --until."
        )


class Decision:
    """Whether the texts before the first missing chunk decide the verdict.

    It is looked at after each chunk, in their order: where a run ends depends neither on the number of processes nor on
    their speed. Chunks that were finished beyond the end are not part of the run, but those of an earlier summary are.
    """

    def __init__(self, run: Run, checks: Mapping[str, Check], total: int, missing: Iterable[int]) -> None:
        self._run, self._checks, self._rule = run, checks, Rule(limits="anytime")
        self._finished = set(range(-(-total // CHUNK_TEXTS))) - set(missing)
        self._evidence: list[Evidence] = []  # of each chunk
        self._texts: list[int] = []
        self.reached = False

    def until(self, chunks: Iterator[int]) -> Iterator[int]:
        """The chunks that workers finish, until the verdict is decided; the workers are ended then."""
        try:
            for chunk in chunks:
                yield chunk
                self._finished.add(chunk)
                if self.look():
                    return
        finally:
            if isinstance(chunks, Generator):
                chunks.close()

    def look(self) -> bool:
        """Read the chunks that continue those before, and say whether they decide the verdict."""
        while not self.reached and len(self._evidence) in self._finished:
            self._read(len(self._evidence))
            self.reached = decided(join(self._evidence, self._texts), self._rule)
        return self.reached

    def end(self) -> Run:
        """The run with the chunks that decide, and those of its summary; with all if none decide."""
        if not self.reached:
            return self._run
        before = -(-_stored(self._run)[0] // CHUNK_TEXTS)
        run = replace(self._run, span=range(max(before, len(self._evidence))))
        run.drop()
        return run

    def _read(self, chunk: int) -> None:
        run = replace(self._run, span=range(chunk, chunk + 1))
        numbers = {"number": run.texts(["number"]).column("number").to_numpy()}
        evidence = readings([self._rule.attention])
        for name, check in self._checks.items():
            roles = [role for role in getattr(check, "roles", ()) if role in NEEDED]
            tables = run.each(name, ["text", "method", "measure", "at", "value"]) if roles else ()
            evidence = gather(evidence, roles, Findings.of(tables, numbers), self._rule)
        self._evidence.append(evidence[self._rule.attention])
        self._texts.append(len(numbers["number"]))
