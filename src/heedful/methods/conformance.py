"""The conformance battery: what every method must do on every classifier. For our methods, and for yours.

from heedful.methods.conformance import conforms
conforms(MyMethod(), heedful.load())        # an AssertionError says what does not hold
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.core.errors import Unsupported
from heedful.core.explanation import Attribution, Counterfactual, Explanation, Interaction, from_json
from heedful.methods import Method
from heedful.methods.explain import explain, explain_all
from heedful.model.classifier import Classifier
from heedful.model.huggingface import model_fingerprint

PROBE_TEXTS = (
    "The film was not funny, but its ending moved me to tears.",
    "Dull.",
    "A warm and clever story about two sisters who never stop arguing",
)
SEED = 3


def as_array(explanation: Explanation) -> NDArray[Any]:
    """What an explanation says, as an array; of a counterfactual, 1 for each token that stays."""
    if isinstance(explanation, Counterfactual):
        return np.isin(np.arange(len(explanation.tokens)), explanation.kept).astype(np.float64)
    assert isinstance(explanation, (Attribution, Interaction)), f"{type(explanation).__name__} has no numbers"
    return explanation.scores if isinstance(explanation, Attribution) else explanation.weights


def scores_every_token(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """A finite number for each token of a text, of a single word, and of a pair."""
    word = explain(classifier, "Dull", method)
    pair = explain(classifier, PROBE_TEXTS[1], method, pair=PROBE_TEXTS[2])
    for why in (explanation, word, pair):
        assert as_array(why).shape[-1] == len(why.tokens), f"{as_array(why).shape} for {len(why.tokens)} tokens"
        assert np.isfinite(as_array(why)).all(), f"not finite on {why.tokens.text!r}"


def repeats(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """The same seed gives the same numbers, whatever torch's global generator does."""
    torch.manual_seed(1)
    again = explain(classifier, PROBE_TEXTS[0], method, seed=SEED)
    assert np.array_equal(as_array(explanation), as_array(again)), "the same seed gave other numbers"


def ignores_company(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """A text's numbers do not depend on the texts it is explained with, nor on padding."""
    separate = [explanation, *(explain(classifier, text, method, seed=SEED) for text in PROBE_TEXTS[1:])]
    for single, batched in zip(separate, explain_all(classifier, PROBE_TEXTS, method, seed=SEED), strict=True):
        alone, together = as_array(single), as_array(batched)
        worst = float(np.abs(alone - together).max())
        allowed = 1e-5 + 1e-4 * float(np.abs(alone).max())
        assert worst <= allowed, f"in a batch {single.tokens.text!r} is off by {worst:.1e}"


def leaves_the_model_alone(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """Weights, modes, hooks, configuration and gradients are afterwards as before, also when the model raises."""
    state = snapshot(classifier)
    explain(classifier, PROBE_TEXTS[0], method)
    assert (now := snapshot(classifier)) == state, f"changed: {_changed(state, now)}"
    target = explanation.target.resolved(classifier.labels, 0)
    with _failing(classifier), suppress(_PlannedError):
        method(classifier, explanation.tokens, target, torch.Generator().manual_seed(0))
    assert (now := snapshot(classifier)) == state, f"changed after an error: {_changed(state, now)}"


def survives_json(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """Written and read again, an explanation is the same."""
    again = from_json(explanation.to_json())
    assert np.array_equal(as_array(explanation), as_array(again)), "numbers changed"
    assert explanation.to_json() == again.to_json(), "something changed"


def tells_its_source(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """Provenance is complete; passes are counted, and no more than the method announced, if it announced any."""
    source = explanation.source
    assert source.method, "no method named"
    assert source.seed == SEED, "another seed"
    assert source.fingerprint == classifier.fingerprint, "another model"
    assert source.backwards <= source.forwards, f"{source.backwards} backward passes after {source.forwards} forward"
    assert explanation.prediction.labels == classifier.labels, "the prediction is missing"
    planned = getattr(method, "passes", lambda *_: None)(classifier, explanation.tokens)
    if planned is not None:
        plan, count = (planned.forwards, planned.backwards), (source.forwards, source.backwards)
        right = count == plan if planned.exactly else (count[0] <= plan[0] and count[1] <= plan[1])
        assert right, f"it took {count} passes (forward, backward) and announced {plan}"


# Each claim is given an explanation of the first text, with SEED: explaining it once for all of them saves a third.
CLAIMS: dict[str, Callable[[Method, Classifier, Explanation], None]] = {
    claim.__name__: claim
    for claim in (
        scores_every_token,
        repeats,
        ignores_company,
        leaves_the_model_alone,
        survives_json,
        tells_its_source,
    )
}


def conforms(method: Method, classifier: Classifier) -> bool:
    """Every claim, one after the other. A method may instead raise Unsupported, if it names the model: then False."""
    torch.manual_seed(0)
    try:
        explanation = explain(classifier, PROBE_TEXTS[0], method, seed=SEED)
    except Unsupported as e:
        if classifier.name not in str(e):
            raise AssertionError(f"Unsupported does not name the model: {e}") from e
        return False
    for name, claim in CLAIMS.items():
        try:
            claim(method, classifier, explanation)
        except AssertionError as e:
            raise AssertionError(f"{type(method).__name__} on {classifier.name}: {name}: {e}") from e
    return True


def snapshot(classifier: Classifier) -> dict[str, Any]:
    """Everything about a model and tokenizer that an explanation might disturb."""
    model = classifier.model
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    return {
        "weights": model_fingerprint(model),
        "training": [m.training for m in model.modules()],
        "checkpointing": [getattr(m, "gradient_checkpointing", None) for m in model.modules()],
        "trainable": [p.requires_grad for p in model.parameters()],
        "gradients": [p.grad is None for p in model.parameters()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()],
        "attention": [getattr(c, "_attn_implementation_internal", None) for c in configs.values()],
        "padding": [getattr(c, "pad_token_id", None) for c in configs.values()],
        "attributes": sorted(vars(model)),
        "vocabulary": len(classifier.tokenizer) if hasattr(classifier.tokenizer, "__len__") else None,
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
    }


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    return ", ".join(key for key in before if before[key] != after[key])


class _PlannedError(Exception):
    pass


class _failing:  # noqa: N801
    """Inside, the model raises in the middle of its forward pass."""

    def __init__(self, classifier: Classifier) -> None:
        self.module = [m for m in classifier.model.modules() if not list(m.children())][-1]

    def __enter__(self) -> None:
        def fail(*_: Any) -> None:
            raise _PlannedError

        self.hook = self.module.register_forward_pre_hook(fail)

    def __exit__(self, *_: object) -> None:
        self.hook.remove()
