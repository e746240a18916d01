"""Estimators: objects with `predict_proba`, such as scikit-learn's pipelines, and SetFit models, as classifiers.

Neither scikit-learn nor sentence-transformers nor setfit is imported: an object is known by what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core.errors import BadInput, Unsupported
from heedful.core.tokens import Tokens
from heedful.model import bodies
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.model.locks import share_lock
from heedful.model.probes import PROBE

_SCALES = (0.03, 0.3, 1.0)  # of the vectors on which a head is compared with its `predict_proba`


class Estimator(Plain):
    """An object with `predict_proba(texts)` and `classes_`, or labels of its own, as a function of texts."""

    def __init__(self, estimator: Any, labels: Sequence[str] | None = None, name: str | None = None) -> None:
        self.estimator, self._digest = estimator, digest(estimator)
        classes = getattr(estimator, "classes_", None) if labels is None else labels
        if classes is not None and len(classes) == 1 and np.ndim(classes[0]) == 0:
            raise BadInput(
                f"{name or title(estimator)} has one class ('{classes[0]}'); fit it on texts of two or more."
            )
        super().__init__(
            self._chances, None if classes is None else [str(c) for c in classes], name or title(estimator)
        )

    def _chances(self, texts: list[Any]) -> Any:
        try:
            chances = self.estimator.predict_proba(texts)
        except Exception as e:
            if type(e).__name__ == "NotFittedError":
                raise BadInput(f"{title(self.estimator)} is not fitted; call its fit method first.") from e
            reason = (str(e).strip().splitlines() or [type(e).__name__])[0].rstrip(".:")
            raise BadInput(
                f"{title(self.estimator)} cannot read a list of texts ({reason}); give a pipeline that begins with the "
                "vectoriser of the texts."
            ) from e
        if (one := _one_label(chances)) is not None:
            raise BadInput(
                f"{self.name} gives a text several labels, of which a function can have one; give "
                f"heedful.Plain(lambda texts: {one}, labels=['no', 'yes']), with your pipeline as p, for the first."
            )
        return chances

    def tokens(self, text: str, pair: str | None = None) -> Tokens:
        """The text's own words. Most estimators read one text, which is found out by trying a pair."""
        if pair is not None:
            try:
                self.predict([(PROBE, PROBE)])
            except BadInput as e:
                raise BadInput(f"{self.name} reads one text, not a pair; give one text.") from e
        return super().tokens(text, pair)

    @property
    def fingerprint(self) -> str:
        """A hash of the fitted numbers, the labels and the outputs for a few texts."""
        return blake2b(f"{super().fingerprint} {self._digest}".encode(), digest_size=8).hexdigest()


def _one_label(chances: Any) -> str | None:
    """How to read the first of several labels, each of which may be right, in Python; None if one label is right."""
    if isinstance(chances, list) and chances and all(getattr(table, "ndim", 0) == 2 for table in chances):
        return "p.predict_proba(texts)[0]"  # one table of two columns for each label
    if not isinstance(chances, np.ndarray) or chances.ndim != 2 or chances.shape[1] < 2:
        return None
    several = 0 <= chances.min() <= chances.max() <= 1 and np.abs(chances.sum(1) - 1).max() > 1e-3
    return "[[1 - x, x] for x in p.predict_proba(texts)[:, 0]]" if several else None


def title(estimator: Any) -> str:
    """The names of a pipeline's steps, or of the estimator: TfidfVectorizer + LogisticRegression."""
    steps = getattr(estimator, "steps", None)
    return " + ".join(title(step) for _, step in steps) if steps else type(estimator).__name__


def digest(estimator: Any) -> str:
    """A hash of all numbers and names in an object and in what it holds; functions count by their name."""
    state, known = blake2b(digest_size=8), dict[int, Any]()
    for part in _parts(getattr(estimator, "best_estimator_", estimator), known):  # a search has its timings too
        state.update(part)
    return state.hexdigest()


def _parts(value: Any, known: dict[int, Any]) -> Iterator[bytes]:
    if value is None or isinstance(value, (str, bytes, bool, int, float, complex, np.generic, type)):
        yield repr(value).encode()
        return
    if id(value) in known:
        return
    known[id(value)] = value  # the reference keeps the id from being used again
    if isinstance(value, Tensor):
        value = value.detach().cpu().float().numpy()
    if isinstance(value, np.ndarray):
        yield f"{value.shape} {value.dtype}".encode()
        if value.dtype.names:  # between the fields there may be anything
            yield from (part for name in value.dtype.names for part in _parts(value[name], known))
        elif value.dtype == object:
            yield from (part for item in value.flat for part in _parts(item, known))
        else:
            yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, dict):
        for name in sorted(value, key=str):
            yield str(name).encode()
            yield from _parts(value[name], known)
    elif isinstance(value, (set, frozenset)):
        yield repr(sorted(map(str, value))).encode()
    elif isinstance(value, (list, tuple)):
        yield from (part for item in value for part in _parts(item, known))
    elif isinstance(value, nn.Module):
        yield from _parts(dict(value.state_dict()), known)
    else:
        yield getattr(value, "__qualname__", type(value).__qualname__).encode()
        # subtle: any other object may lead to loggers, modules and open files
        if hasattr(value, "get_params") or hasattr(value, "tocsr") or _defines_state(value):
            yield from _parts(value.__getstate__(), known)


def _defines_state(value: Any) -> bool:
    """Whether its class says what is saved of it, as those of fitted trees do."""
    usual: Any = object.__getstate__
    return not callable(value) and type(value).__getstate__ is not usual


# which objects are estimators


def classifier_of(model: Any) -> Classifier | None:
    """A classifier of a SetFit model, of a (sentence transformer, head) pair or of an estimator; None for others."""
    if hasattr(model, "model_body") and hasattr(model, "model_head"):
        return _with_head(
            model, model.model_body, model.model_head, getattr(model, "labels", None),
            bool(getattr(model, "normalize_embeddings", False)),
        )  # fmt: skip
    if isinstance(model, tuple) and len(model) == 2 and _embeds(model[0]) and hasattr(model[1], "predict_proba"):
        return _with_head(_Pair(*model), model[0], model[1], None, False)
    if _embeds(model):
        raise BadInput(
            f"a {type(model).__name__} embeds texts and has no labels; give a SetFit model, or the pair "
            "(sentence transformer, classifier of its vectors)."
        )
    if isinstance(model, (nn.Module, type)):
        return None
    if callable(getattr(model, "predict_proba", None)):
        return Estimator(model)
    if hasattr(model, "decision_function"):
        calibrate = "wrap its last step in sklearn.calibration.CalibratedClassifierCV and fit it"
        raise BadInput(f"{title(model)} has no probabilities (predict_proba); {calibrate}.")
    if hasattr(model, "predict") and hasattr(model, "fit"):
        raise BadInput(f"{title(model)} has no probabilities (predict_proba); give a classifier that has, and fit it.")
    return None


def _embeds(model: Any) -> bool:
    return isinstance(model, nn.Module) and callable(getattr(model, "encode", None)) and hasattr(model, "tokenizer")


@dataclass(frozen=True)
class _Pair:
    """A sentence transformer and a classifier of its vectors, with the one method of a SetFit model used here."""

    body: Any
    head: Any

    def predict_proba(self, texts: list[str]) -> Any:
        """The probabilities of each text's labels."""
        return self.head.predict_proba(self.body.encode(texts, show_progress_bar=False))


def _with_head(model: Any, body: Any, head: Any, labels: Sequence[Any] | None, unit: bool) -> Classifier:
    """With gradients and attention where the body and the head are of known kinds, otherwise as a function."""
    if not hasattr(head, "predict_proba"):
        raise BadInput(f"the head {type(head).__name__} has no probabilities (predict_proba); give one that has.")
    name = f"SetFit ({type(head).__name__})"
    try:
        found = linear_head(head)
        names = _labels(head, labels, found)
        if found is not None:
            return _open(body, found, names, unit, name)
    except Unsupported:  # a module of another kind
        pass
    return Estimator(_Function(model, body, head), names, name)


class _Function:
    """A SetFit model as an estimator."""

    def __init__(self, model: Any, body: Any, head: Any) -> None:
        self.model, self.body, self.head = model, body, head

    def __getstate__(self) -> dict[str, Any]:
        return {"body": self.body, "head": self.head}

    def predict_proba(self, texts: list[str]) -> Any:
        """As numbers of numpy."""
        return np.asarray(self.model.predict_proba(texts))


def _labels(head: Any, labels: Sequence[Any] | None, found: LinearHead | None) -> list[str] | None:
    """The names of the head's outputs, as SetFit takes them: the labels at the head's classes."""
    if isinstance(head, nn.Module) or (found is not None and found.output == "sigmoid"):
        known = None if found is None else [f"LABEL_{i}" for i in range(len(found.weight))]
        return known if labels is None else [str(label) for label in labels]
    classes = np.asarray(head.classes_)
    if classes.ndim != 1:
        raise BadInput(
            f"the head {type(head).__name__} has several labels for a text and is not linear; give a one-vs-rest or "
            "multi-output head of linear classifiers."
        )
    if labels is None or not np.issubdtype(classes.dtype, np.integer):
        return [str(c) for c in classes.tolist()]
    return [str(labels[int(c)]) for c in classes]


@dataclass(frozen=True)
class LinearHead:
    """Weights [c,d] and biases [c], and how the numbers become probabilities."""

    weight: Tensor
    bias: Tensor
    output: bodies.Output

    def chances(self, vectors: Tensor) -> Tensor:
        """The probabilities of vectors [n,d]."""
        z = vectors @ self.weight.T + self.bias
        return {
            "softmax": lambda: z.softmax(-1),
            "logsigmoid": lambda: z.sigmoid() / z.sigmoid().sum(-1, keepdim=True),
            "sigmoid": z.sigmoid,
        }[self.output]()


@torch.no_grad()
def linear_head(head: Any) -> LinearHead | None:
    """The head's weights, if some linear map gives its probabilities on random vectors; otherwise None.

    One logit becomes two. One-vs-rest heads with one label are "logsigmoid", those with several are "sigmoid".
    """
    weights = _weights(head)
    if weights is None:
        return None
    weight, bias = weights
    rng = torch.Generator().manual_seed(0)
    vectors = torch.cat([scale * torch.randn(4, weight.shape[1], generator=rng) for scale in _SCALES])
    device = next(head.parameters()).device if isinstance(head, nn.Module) else None
    given = head.predict_proba(vectors.numpy() if device is None else vectors.to(device))
    if isinstance(given, list):  # one table of two columns for each label
        given = np.stack([table[:, 1] for table in given if table.shape[1] == 2], 1)
    chances = torch.as_tensor(given).detach().cpu().double()
    pairs = [(weight, bias)] + ([bodies.two_sided(weight, bias)] if len(weight) == 1 else [])
    candidates = (LinearHead(w, b, output) for w, b in pairs for output in bodies.OUTPUTS)
    return next((c for c in candidates if _agrees(c.chances(vectors.double()), chances)), None)


def _agrees(ours: Tensor, given: Tensor) -> bool:
    return ours.shape == given.shape and torch.allclose(ours, given, rtol=0, atol=1e-5)


def _weights(head: Any) -> tuple[Tensor, Tensor] | None:
    """The rows of a linear head, of torch or of scikit-learn, in float64."""
    if isinstance(head, nn.Module):
        linear = getattr(head, "linear", None)
        if not isinstance(linear, nn.Linear):
            return None
        heat = float(getattr(head, "temperature", 1.0)) + float(getattr(head, "eps", 0.0))
        weight = linear.weight.detach().cpu().double()
        bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach().cpu().double()
        return weight / heat, bias / heat
    parts = getattr(head, "estimators_", [head])
    rows = [getattr(part, "coef_", None) for part in parts]
    tables = [row for row in rows if isinstance(row, np.ndarray) and row.ndim == 2]  # a sparse one is no array
    if len(tables) < len(rows) or any(not hasattr(part, "intercept_") for part in parts):
        return None
    widths = {table.shape[1] for table in tables}
    if len(widths) > 1 or (len(tables) > 1 and any(len(table) > 1 for table in tables)):
        return None
    weight = torch.from_numpy(np.concatenate(tables)).double()
    biases = [np.broadcast_to(np.atleast_1d(part.intercept_), len(part.coef_)) for part in parts]
    return weight, torch.as_tensor(np.concatenate(biases), dtype=torch.float64)


def _open(body: Any, head: LinearHead, labels: Sequence[str] | None, unit: bool, name: str) -> Classifier:
    """The modules of a sentence transformer with the head, as one network."""
    if getattr(body, "default_prompt_name", None) is not None:
        raise Unsupported("it puts a prompt before each text.")
    modules = list(body.children())
    kinds = [type(module).__name__ for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or not isinstance(getattr(modules[0], "auto_model", None), nn.Module):
        raise Unsupported(f"it begins with {' and '.join(kinds[:2])}.")
    transformer, pooling = modules[:2]
    maps = [layer for module in modules[2:] for layer in _layer(module)] + ([bodies.Normalize()] if unit else [])
    network = bodies.SentenceClassifier(
        transformer.auto_model, bodies.Pooling(bodies.pooling_modes(vars(pooling))), maps,
        bodies.linear_map(head.weight, head.bias), head.output, labels or (),
    )  # fmt: skip
    share_lock(network, transformer.auto_model)
    lowercase = bool(getattr(transformer, "do_lower_case", False))
    tokenizer = bodies.own_tokenizer(transformer.tokenizer, getattr(transformer, "max_seq_length", None), lowercase)
    return Classifier(network, tokenizer, name)


def _layer(module: Any) -> Iterator[nn.Module]:
    """The map that a module of sentence-transformers is, after the pooling."""
    kind = type(module).__name__
    names = {getattr(module, f"module_{end}_name", None) for end in ("input", "output")} - {None, "sentence_embedding"}
    if kind not in ("Dense", "Normalize", "Dropout") or names or getattr(module, "use_residual", False):
        raise Unsupported(f"it has a {kind} module that does more than map the pooled vector.")
    if kind == "Normalize":
        yield bodies.Normalize()
    elif kind == "Dense":
        yield bodies.Dense(module.linear, module.activation_function)
