"""Explanation: the result of a method for one prediction, with its provenance. Needs no torch.

Attribution     a score per token
Interaction     a weight per layer, head, query token and key token
Counterfactual  words removed, and the prediction without them
Explanations    several of them
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.target import Target
from heedful.core.tokens import Splitter, Tokens

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from heedful.core.tree import LeaveOut, Tree, TreeSearch

JSON_FORMAT = 1
Reduction = Literal["sum", "mean", "max"]
_LABELS_SHOWN, _LINES_SHOWN = 3, 10  # by repr
_LINE_ENDS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}  # some readers split JSON lines there


@dataclass(frozen=True, repr=False)
class Prediction:
    """The output of the model: a number per label. A regression model has no probabilities."""

    labels: tuple[str, ...] = ()
    logits: tuple[float, ...] = ()
    probabilities: tuple[float, ...] | None = None

    @property
    def index(self) -> int:
        """The predicted label's index."""
        return int(np.argmax(self.logits))

    @property
    def label(self) -> str:
        """The predicted label: the one with the highest logit."""
        return self.labels[self.index]

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Prediction:
        """The inverse of `dataclasses.asdict`, also after JSON."""
        chances = d["probabilities"]
        return cls(tuple(d["labels"] or ()), tuple(d["logits"] or ()), None if chances is None else tuple(chances))

    def __repr__(self) -> str:
        order = sorted(range(len(self.logits)), key=lambda i: -self.logits[i])
        numbers = self.logits if self.probabilities is None else self.probabilities
        labels = [f"{self.labels[i]} {numbers[i]:.3f}" for i in order[:_LABELS_SHOWN]]
        return f"Prediction({', '.join([*labels, '…'] if len(order) > _LABELS_SHOWN else labels)})"


@dataclass(frozen=True)
class Source:
    """Where an explanation came from, enough to compute it again, and its cost.

    `forwards` and `backwards` count texts sent through the model, the prediction itself not included.
    """

    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    fingerprint: str = ""
    seed: int = 0
    forwards: int = 0
    backwards: int = 0
    windows: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Explanation:
    """The fields of every kind of explanation. A method sets its result; `explain` adds the rest.

    `notes` are warnings for the reader; `details` are further numbers (samples, R², …).
    """

    tokens: Tokens
    prediction: Prediction = Prediction()
    target: Target = field(default_factory=Target)
    source: Source = Source()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.source.method

    @property
    def truncation(self) -> str | None:
        """One sentence about a truncated text, or None."""
        return self.tokens.notice

    def to_json(self) -> str:
        """One line of JSON; `heedful.from_json` reads it back without loss."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, default=str)
        return text.translate(_LINE_ENDS)

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes."""
        return {
            "heedful": JSON_FORMAT,
            "kind": type(self).__name__.lower(),
            "tokens": self.tokens.to_dict(),
            "prediction": asdict(self.prediction),
            "target": asdict(self.target),
            "source": asdict(self.source),
            "notes": list(self.notes),
            "details": dict(self.details),
        }

    def __repr__(self) -> str:
        """One line: Attribution(lime of 'A slow start …', positive: wonderful +1.2, slow −0.4)."""
        label = f", {self.prediction.label}" if self.prediction.logits else ""
        text = f"{self.method or 'unnamed'} of {_short(self.tokens.text)!r}"
        return f"{type(self).__name__}({text}{label}: {self._gist()})"

    def _gist(self) -> str:
        """Its main result, in a few words."""
        return f"{len(self.tokens)} tokens"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Explanation) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.source.method, self.source.seed, self.tokens))

    def to_html(self) -> str:
        """A self-contained page."""
        from heedful.report.explanation_page import explanation_page

        return explanation_page([self])

    def plot(self) -> Figure:
        """A matplotlib figure, which a notebook displays; needs the extra heedful[figures]."""
        from heedful.report.figures import draw

        return draw(self)

    def _repr_html_(self) -> str:
        from heedful.report.explanation_page import explanation_fragment

        return explanation_fragment([self])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Attribution(Explanation):
    """A raw score per token: not normalised, not clipped. If `signed`, a positive score supports the target.

    `base` is the target's value at the method's baseline; `gap` is the completeness gap (value − base) − Σ scores. Both
    are None for a method without completeness. `errors` are the standard errors of estimated scores. `reduced` says how
    scores were combined in a coarser view.
    """

    scores: Floats
    signed: bool = True
    base: float | None = None
    gap: float | None = None
    errors: Floats | None = None
    reduced: Reduction | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", self._check(self.scores))
        if self.errors is not None:
            object.__setattr__(self, "errors", self._check(self.errors))

    def _check(self, values: Floats) -> Floats:
        scores = np.array(values, dtype=np.float64)
        if scores.shape != (len(self.tokens),):
            raise ValueError(f"{len(self.tokens)} tokens and scores of shape {scores.shape}; give one score per token")
        if not np.isfinite(scores).all():
            raise BadInput(f"{self.method or 'the method'} computed a score that is not finite: the model overflows.")
        scores.setflags(write=False)
        return scores

    @property
    def unit(self) -> str:
        """The unit in which reports show it: "sentence" where the features were sentences, else "word"."""
        if self.tokens.unit != "token":
            return self.tokens.unit
        return "sentence" if self.details.get("unit") == "sentence" else "word"

    def _gist(self) -> str:
        words = self.by(self.unit) if self.tokens.unit == "token" else self
        sign = "+" if self.signed else ""
        return ", ".join(f"{_short(word)} {score:{sign}.3g}".replace("-", "−") for word, score in words.top(3))

    def by(self, unit: str | Splitter, how: Reduction = "sum") -> Attribution:
        """The same scores per word, per sentence, or per unit of the caller's own splitter (text -> spans or strings).

        "sum" keeps the total; "mean" averages pieces; "max" takes the piece with the largest magnitude, sign kept.
        Standard errors add up as if fully correlated: exact for a word that was removed whole, else an upper bound.
        """
        tokens, groups = self.tokens.by(unit)
        if tokens is self.tokens:
            return self
        join = reduction(how)
        scores = np.array([join(self.scores[group]) for group in groups], dtype=np.float64)
        errors = None
        if self.errors is not None and how == "max":
            errors = np.array([self.errors[group][np.abs(self.scores[group]).argmax()] for group in groups])
        elif self.errors is not None:
            errors = np.array([join(self.errors[group]) for group in groups])
        return replace(self, tokens=tokens, scores=scores, errors=errors, reduced=how)

    def top(self, k: int = 5) -> list[tuple[str, float]]:
        """The k tokens of the text with the largest |score|, largest first; ties in reading order."""
        order = sorted(self.tokens.content, key=lambda i: -abs(self.scores[i]))
        return [(self.tokens.surface(i), float(self.scores[i])) for i in order[:k]]

    def as_list(self) -> list[tuple[str, float]]:
        """(token, score) for the tokens of the text, in reading order, special tokens left out."""
        return [(self.tokens.surface(i), float(self.scores[i])) for i in self.tokens.content]

    def strengths(self) -> Floats:
        """Scores divided by the largest magnitude among the tokens of the text, for display only, within ±1."""
        content = list(self.tokens.content)
        largest = float(np.abs(self.scores[content]).max(initial=0.0))
        return np.clip(self.scores / largest, -1, 1) if largest > 0 else np.zeros_like(self.scores)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per token."""
        try:
            import pandas as pd
        except ImportError as e:
            raise BadInput("to_dataframe needs pandas; install it with: pip install 'heedful[dataframe]'") from e
        spans = [span or (None, None) for span in self.tokens.spans]
        return pd.DataFrame(
            {
                "piece": self.tokens.pieces,
                "text": [self.tokens.surface(i) for i in range(len(self.tokens))],
                "start": pd.array([s[0] for s in spans], dtype="Int64"),
                "end": pd.array([s[1] for s in spans], dtype="Int64"),
                "word": pd.array(list(self.tokens.words), dtype="Int64"),
                "segment": pd.array(list(self.tokens.segments), dtype="Int64"),
                "special": self.tokens.special,
                "score": self.scores,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes."""
        plain = {name: getattr(self, name) for name in ("signed", "base", "gap", "reduced")}
        errors = None if self.errors is None else self.errors.tolist()
        return super().to_dict() | plain | {"scores": self.scores.tolist(), "errors": errors}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Interaction(Explanation):
    """A weight for every layer, head, query token and key token. A network that pools with one query has one row.

    `layers` are the numbers of the layers (by default all, from 0). `gaps` is each layer's completeness gap
    (value − value without this layer's attention) − Σ weights; None for a method without completeness.
    """

    weights: NDArray[np.float32]
    attention: str = "self"
    layers: tuple[int, ...] = ()
    gaps: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float32)
        n = len(self.tokens)
        if weights.ndim != 4 or weights.shape[3] != n or weights.shape[2] not in (1, n):
            raise ValueError(f"{n} tokens and weights of shape {weights.shape}; give [layer, head, {n} or 1, {n}]")
        if not np.isfinite(weights).all():
            raise BadInput(f"{self.method or 'the method'} computed a weight that is not finite: the model overflows.")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "layers", tuple(self.layers) or tuple(range(len(weights))))
        if len(self.layers) != len(weights) or (self.gaps is not None and len(self.gaps) != len(weights)):
            raise ValueError(f"{len(weights)} layers of weights, numbered {self.layers}, with gaps {self.gaps}")

    def _gist(self) -> str:
        layers, heads, queries, keys = self.weights.shape
        return f"{layers} layers × {heads} heads × {queries} queries × {keys} keys"

    def tree(
        self,
        how: TreeSearch = "greedy",
        *,
        threshold: float = 0.4,
        penalty: float = 0.0,
        root: int | None = None,
        leave_out: LeaveOut = "cls",
        seconds: float = 30.0,
    ) -> Tree:
        """The attribution tree of these weights; see `heedful.core.tree.grow`."""
        from heedful.core.tree import grow

        return grow(self, how, threshold=threshold, penalty=penalty, root=root, leave_out=leave_out, seconds=seconds)

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes: the weights as base64 of little-endian float32, which keeps them exact and small."""
        data = base64.b64encode(np.ascontiguousarray(self.weights, dtype="<f4").tobytes()).decode("ascii")
        plain = {"attention": self.attention, "layers": self.layers, "gaps": self.gaps}
        return super().to_dict() | plain | {"weights": {"shape": list(self.weights.shape), "base64": data}}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Counterfactual(Explanation):
    """Words removed, and the prediction without them.

    `removed` are the positions removed by `masking`; `outcome` is the prediction without them. `found` says whether the
    search succeeded (the label changed, say); `exact`, whether an exhaustive search proved that no smaller (or larger)
    set exists.
    """

    removed: tuple[int, ...]
    outcome: Prediction
    masking: str
    found: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        removed = tuple(sorted(int(i) for i in self.removed))
        if any(not 0 <= i < len(self.tokens) for i in removed):
            raise ValueError(f"positions {removed} of {len(self.tokens)} tokens")
        object.__setattr__(self, "removed", removed)

    @property
    def kept(self) -> tuple[int, ...]:
        """The positions that stay, special tokens included."""
        gone = set(self.removed)
        return tuple(i for i in range(len(self.tokens)) if i not in gone)

    def _gist(self) -> str:
        label = f" says {self.outcome.label}" if self.outcome.logits else ""
        return f"without {_short(' '.join(self.words())) or 'any word'!r}{label}"

    def words(self) -> list[str]:
        """The words removed, in reading order."""
        gone = set(self.removed)
        view, groups = self.tokens.by("word")
        return [view.surface(j) for j, group in enumerate(groups) if gone & set(group)]

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes."""
        plain = {name: getattr(self, name) for name in ("removed", "masking", "found", "exact")}
        return super().to_dict() | plain | {"outcome": asdict(self.outcome)}


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Explanations(Sequence[Explanation]):
    """Several explanations: by text, then in the order of the methods. A slice is also Explanations.

    `skipped` has the reason for each method that the model does not support. `attention` holds the attention weights
    that `explain(..., with_attention=True)` adds; only the page shows them.
    """

    items: tuple[Explanation, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    attention: tuple[Interaction, ...] = ()

    def __init__(
        self,
        items: Iterable[Explanation] = (),
        skipped: Mapping[str, str] | None = None,
        attention: Iterable[Interaction] = (),
    ) -> None:
        object.__setattr__(self, "items", tuple(items))
        object.__setattr__(self, "skipped", dict(skipped or {}))
        object.__setattr__(self, "attention", tuple(attention))

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> Explanations: ...
    def __getitem__(self, index: int | slice) -> Explanation | Explanations:
        return self._only(self.items[index]) if isinstance(index, slice) else self.items[index]

    def __repr__(self) -> str:
        texts = len({_text_key(why) for why in self})
        counts = ((texts, "text"), (len({why.method for why in self}), "method"))
        head = " by ".join(f"{n} {name}{'s' * (n != 1)}" for n, name in counts)
        lines = [f"  {why!r}" for why in self[:_LINES_SHOWN]]
        more = [f"  … and {len(self) - len(lines)} more"] if len(self) > len(lines) else []
        skipped = [f"  skipped: {', '.join(self.skipped)}"] if self.skipped else []
        return "\n".join([f"Explanations of {head}", *lines, *more, *skipped])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explanations) and self.items == other.items

    def __hash__(self) -> int:
        return hash(self.items)

    def _only(self, items: Iterable[Explanation]) -> Explanations:
        """Some of the explanations, with the attention weights of their texts."""
        selected = tuple(items)
        texts = {_text_key(why) for why in selected}
        return Explanations(selected, self.skipped, [why for why in self.attention if _text_key(why) in texts])

    def by(self, unit: str | Splitter, how: Reduction = "sum") -> Explanations:
        """The same with scores per word, per sentence or per unit of the caller's own splitter."""
        return self._only(why.by(unit, how) if isinstance(why, Attribution) else why for why in self)

    def by_method(self) -> dict[str, Explanations]:
        """The explanations of each method, by its name."""
        return {name: self._only(w for w in self if w.method == name) for name in dict.fromkeys(w.method for w in self)}

    def by_text(self) -> list[Explanations]:
        """The explanations of each text, in the order of the texts."""
        keys = dict.fromkeys(map(_text_key, self))
        return [self._only(why for why in self if _text_key(why) == key) for key in keys]

    def to_dicts(self) -> list[dict[str, Any]]:
        """What `to_json` writes."""
        return [why.to_dict() for why in self]

    def to_json(self) -> str:
        """A line of JSON for each explanation; `Explanations.from_json` reads them back without loss."""
        return "".join(f"{why.to_json()}\n" for why in self)

    @classmethod
    def from_json(cls, text: str) -> Explanations:
        """Read what `to_json` wrote."""
        # subtle: splitlines would also split at U+2028 and similar characters, which a text may contain
        return cls(from_json(line) for line in text.split("\n") if line.strip())

    def to_dataframe(self) -> pd.DataFrame:
        """One row per token of each attribution: the number of its text, its method, and `Attribution.to_dataframe`."""
        attributions = [(n, why) for n, row in enumerate(self.by_text()) for why in row if isinstance(why, Attribution)]
        if not attributions:
            raise BadInput("none of these explanations has a score per token; use to_dicts.")
        frames = []
        for number, why in attributions:
            frame = why.to_dataframe()
            frame.insert(0, "method", why.method)
            frame.insert(0, "text_number", number)
            frames.append(frame)
        import pandas as pd

        return pd.concat(frames, ignore_index=True)

    def to_html(self) -> str:
        """A self-contained page: a section for each text, with the methods side by side."""
        from heedful.report.explanation_page import explanation_page

        return explanation_page([*self, *self.attention])

    def plot(self) -> Figure:
        """A matplotlib figure of one text, which a notebook displays; needs the extra heedful[figures]."""
        from heedful.report.figures import draw

        return draw(self)

    def _repr_html_(self) -> str:
        from heedful.report.explanation_page import explanation_fragment

        return explanation_fragment(self, self.skipped) if self else "<div>no explanation</div>"


def _short(text: str, longest: int = 40) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def _text_key(why: Explanation) -> tuple[str, str | None]:
    """Explanations of one text have equal keys."""
    return why.tokens.text, why.tokens.pair


def reduction(how: Reduction) -> Callable[[Floats], float]:
    """The function that combines the scores of a unit's pieces: reduction("max")([1, -3]) -> -3."""
    known: dict[str, Callable[[Floats], float]] = {
        "sum": lambda x: float(x.sum()),
        "mean": lambda x: float(x.mean()),
        "max": lambda x: float(x[np.abs(x).argmax()]),
    }
    if how not in known:
        raise BadInput(f"'{how}' is not a way to combine scores; choose sum, mean or max.")
    return known[how]


def from_json(text: str) -> Attribution | Interaction | Counterfactual:
    """Read what `to_json` wrote."""
    try:
        return from_dict(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        reason = " ".join(str(e).partition(". ")[0].split())
        raise BadInput(f"this is not an explanation written by heedful ({type(e).__name__}: {reason}).") from e


def from_dict(d: Mapping[str, Any]) -> Attribution | Interaction | Counterfactual:
    """Read what `to_dict` wrote."""
    if d["heedful"] != JSON_FORMAT:
        raise BadInput(f"this explanation has format {d['heedful']}; this version of heedful reads {JSON_FORMAT}.")
    common: dict[str, Any] = {
        "tokens": Tokens.from_dict(d["tokens"]),
        "prediction": Prediction.from_dict(d["prediction"]),
        "target": Target(**d["target"]),
        "source": Source(**d["source"]),
        "notes": tuple(d["notes"]),
        "details": d["details"],
    }
    if d["kind"] == "attribution":
        return Attribution(**common, **{n: d[n] for n in ("signed", "base", "gap", "reduced", "scores", "errors")})
    if d["kind"] == "counterfactual":
        plain = {name: d[name] for name in ("removed", "masking", "found", "exact")}
        return Counterfactual(**common, **plain, outcome=Prediction.from_dict(d["outcome"]))
    flat = np.frombuffer(base64.b64decode(d["weights"]["base64"]), dtype="<f4")
    weights = flat.reshape(d["weights"]["shape"]).astype(np.float32)
    gaps = None if d["gaps"] is None else tuple(d["gaps"])
    return Interaction(**common, weights=weights, attention=d["attention"], layers=tuple(d["layers"]), gaps=gaps)
