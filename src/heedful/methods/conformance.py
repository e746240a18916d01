"""The conformance battery: what every method must do on every classifier, built-in or not.

from heedful.methods.conformance import conforms
conforms(MyMethod(), heedful.load())        # an AssertionError says what does not hold
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

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
T = TypeVar("T")


def as_array(explanation: Explanation) -> NDArray[Any]:
    """The numbers of an explanation; of a counterfactual, 1 for each token that stays."""
    if isinstance(explanation, Counterfactual):
        return np.isin(np.arange(len(explanation.tokens)), explanation.kept).astype(np.float64)
    assert isinstance(explanation, (Attribution, Interaction)), f"{type(explanation).__name__} has no numbers"
    return explanation.scores if isinstance(explanation, Attribution) else explanation.weights


def scores_every_token(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """A finite number for each token of a text, of a single word, and of a pair."""
    word = explain(classifier, "Dull", method)
    pair = [explain(classifier, PROBE_TEXTS[1], method, pair=PROBE_TEXTS[2])] if classifier.reads_pairs else []
    for why in (explanation, word, *pair):
        assert as_array(why).shape[-1] == len(why.tokens), f"{as_array(why).shape} for {len(why.tokens)} tokens"
        assert np.isfinite(as_array(why)).all(), f"not finite on {why.tokens.text!r}"


def repeats(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """The same seed gives the same numbers, whatever the state of torch's global generator."""
    torch.manual_seed(1)
    again = explain(classifier, PROBE_TEXTS[0], method, seed=SEED)
    assert np.array_equal(as_array(explanation), as_array(again)), "the same seed gave different numbers"


def ignores_company(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """A text's numbers depend neither on the other texts of its batch nor on padding."""
    separate = [explanation, *(explain(classifier, text, method, seed=SEED) for text in PROBE_TEXTS[1:])]
    for single, batched in zip(separate, explain_all(classifier, PROBE_TEXTS, method, seed=SEED), strict=True):
        alone, together = as_array(single), as_array(batched)
        worst = float(np.abs(alone - together).max())
        allowed = 1e-5 + 1e-4 * float(np.abs(alone).max())
        assert worst <= allowed, f"in a batch {single.tokens.text!r} is off by {worst:.1e}"


def leaves_the_model_alone(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """Weights, modes, hooks, configuration and gradients do not change, not even when the model raises."""
    state = snapshot(classifier)
    explain(classifier, PROBE_TEXTS[0], method)
    assert (now := snapshot(classifier)) == state, f"changed: {changed_state(state, now)}"
    target = explanation.target.resolved(classifier.labels, 0)
    with _failing(classifier):
        method(classifier, explanation.tokens, target, torch.Generator().manual_seed(0))
    assert (now := snapshot(classifier)) == state, f"changed after an error: {changed_state(state, now)}"


def survives_json(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """An explanation that is written as JSON and read again is the same."""
    again = from_json(explanation.to_json())
    assert np.array_equal(as_array(explanation), as_array(again)), "JSON changed the numbers"
    assert explanation.to_json() == again.to_json(), "JSON changed a field"


def tells_its_source(method: Method, classifier: Classifier, explanation: Explanation) -> None:
    """Provenance is complete; passes are counted, and no more than the method's `passes` announced, if it has it."""
    source = explanation.source
    assert source.method, "the source names no method"
    assert source.seed == SEED, f"the source has seed {source.seed}, not {SEED}"
    assert source.fingerprint == classifier.fingerprint, "the source has the fingerprint of another model"
    assert source.backwards <= source.forwards, f"{source.backwards} backward passes after {source.forwards} forward"
    assert explanation.prediction.labels == classifier.labels, "the prediction is missing"
    planned = getattr(method, "passes", lambda *_: None)(classifier, explanation.tokens)
    if planned is not None:
        plan, count = (planned.forwards, planned.backwards), (source.forwards, source.backwards)
        right = count == plan if planned.exactly else (count[0] <= plan[0] and count[1] <= plan[1])
        assert right, f"it took {count} passes (forward, backward) and announced {plan}"


# Each claim gets an explanation of the first text, with SEED: explaining it once for all of them saves a third.
CLAIMS: dict[str, Callable[[Method, Classifier, Explanation], None]] = {
    claim.__name__: claim
    for claim in (scores_every_token, repeats, ignores_company, leaves_the_model_alone, survives_json, tells_its_source)
}


def conforms(method: Method, classifier: Classifier) -> bool:
    """Raise an AssertionError with the first claim that does not hold; False if the method does not support the model.

    A method that does not support a model raises Unsupported, and names the model.
    """
    torch.manual_seed(0)
    explanation = unless_unsupported(classifier, lambda: explain(classifier, PROBE_TEXTS[0], method, seed=SEED))
    if explanation is None:
        return False
    require(CLAIMS, classifier, method, classifier, explanation)
    return True


def unless_unsupported(classifier: Classifier, run: Callable[[], T]) -> T | None:
    """The result; None where the model is not supported, if the error names the model."""
    try:
        return run()
    except Unsupported as e:
        if classifier.name not in str(e):
            raise AssertionError(f"Unsupported does not name the model: {e}") from e
        return None


def require(claims: Mapping[str, Callable[..., None]], classifier: Classifier, subject: object, *more: Any) -> None:
    """Every claim about a method or a check; an AssertionError names the first that does not hold."""
    for name, claim in claims.items():
        try:
            claim(subject, *more)
        except AssertionError as e:
            raise AssertionError(f"{type(subject).__name__} on {classifier.name}: {name}: {e}") from e


def snapshot(classifier: Classifier) -> dict[str, Any]:
    """The state of a model and tokenizer that an explanation must not change."""
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


def changed_state(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The names of what differs between two snapshots."""
    return ", ".join(key for key in before if before[key] != after[key])


class _PlannedError(Exception):
    pass


@contextmanager
def _failing(classifier: Classifier) -> Iterator[None]:
    """Inside, the model raises in the middle of its forward pass; that error ends the block."""

    def fail(*_: Any) -> None:
        raise _PlannedError

    hook = [m for m in classifier.model.modules() if not list(m.children())][-1].register_forward_pre_hook(fail)
    try:
        with suppress(_PlannedError):
            yield
    finally:
        hook.remove()
