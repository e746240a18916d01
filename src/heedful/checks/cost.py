"""Cost: what an explanation takes. Seconds and bytes differ from run to run and are kept apart, in timing.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from heedful.checks.base import Case, Finding, Measure, Passes
from heedful.core.tokens import Tokens
from heedful.methods import Method
from heedful.model.classifier import Classifier


@dataclass(frozen=True)
class Cost:
    """Passes asked for by each method, for one explanation, whatever was shared with other methods."""

    summary: ClassVar[str] = "passes asked for, CPU seconds and memory of an explanation"
    paper: ClassVar[str] = "–"
    changes: ClassVar[str] = "nothing is changed; seconds and bytes are in timing.json"
    measures: ClassVar[Mapping[str, Measure]] = {
        "forwards": Measure("texts sent through the model", better="lower", compared=False),
        "backwards": Measure("texts sent back through it for derivatives", better="lower", compared=False),
    }

    def passes(self, classifier: Classifier, tokens: Tokens, methods: Mapping[str, Method]) -> Passes:
        """None: the explanations are there."""
        return Passes(0)

    def __call__(self, case: Case) -> list[Finding]:
        """Two numbers for each method; none where the scores were brought, for what they took is not known."""
        return [
            Finding("cost", name, measure, float(getattr(why.source, measure)))
            for name, why in case.explanations.items()
            for measure in self.measures
            if getattr(case.methods.get(name), "again", True)
        ]
