"""One text, one attention: the classifiers of Jain & Wallace 2019, and the frozen attention of Wiegreffe & Pinter 2019.

h = encoder(word vectors), α = softmax over the text's words of their scores, logits = W Σ α_t h_t + b
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.core.errors import BadInput, Unsupported
from heedful.core.settings import Count, Fraction
from heedful.maths.activations import ACTIVATIONS, Activation
from heedful.nets.base import Ids, Mask, Net, Output, Shape, describe_shape, real_positions, weighted_sum, weights
from heedful.nets.encoders import ENCODERS, EncoderName

Attention = Literal["additive", "dot", "general", "none", "uniform", "log-odds", "given"]
LEARNED = ("additive", "dot", "general")
_LEAST = -1e4  # subtle: its softmax is exactly 0, yet the seam does not treat it as masked
_TINY = 1e-10  # the authors' log(x + 1e-10)


@dataclass
class AttendedShape(Shape):
    """What the configurations of Single and Pair share.

    `special` are tokens that are encoded but never attended to: the marks of a text's ends. `guide` describes the
    network (of the same kind) whose attention is used where `attention` is "given".
    """

    encoder: EncoderName = "bilstm"
    attention: Attention = "additive"
    embedding: Count = 300
    hidden: Count = 128
    activation: Activation = "softmax"
    special: tuple[int, ...] = ()
    dropout: Fraction = 0.0
    guide: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.attention == "given") != (self.guide is not None):
            guide = "no guide" if self.guide is None else "a guide"
            raise BadInput(f"attention '{self.attention}' has {guide}; give a guide with attention 'given' only.")
        if self.guide is not None and self.activation != "softmax":
            raise BadInput(f"activation '{self.activation}' would change the guide's weights; use softmax.")


@dataclass
class SingleShape(AttendedShape):
    """The configuration of Single.

    `attention`: scores "additive" v·tanh(W h_t + b), "dot" w·h_t / √m, "general" h_tᵀ W h_last; "none" (the decoder
    reads the last state); frozen: "uniform", "log-odds" (softmax of |log-odds| of the words), or "given" by a guide.
    The training loss adds `regularised` (the authors': 5) times the divergence from log-odds attention.
    """

    regularised: float = 0.0
    model_type: ClassVar[str] = "single"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regularised and self.attention not in LEARNED:
            learned = ", ".join(LEARNED)
            raise BadInput(f"regularised needs learned attention, not '{self.attention}'; choose one of {learned}.")


@dataclass(frozen=True)
class Penalised(Output):
    """An output with the penalty to add to the loss: in training with `regularised`, else None."""

    penalty: Float[Tensor, ""] | None = None


@dataclass(frozen=True)
class Encoded:
    """An encoded batch: states of the tokens and of the text, the query, and which tokens may be attended to.

    `possible` are the labels that can be predicted; None: all.
    """

    states: Float[Tensor, "b t m"]
    last: Float[Tensor, "b m"]
    query: Float[Tensor, "b m"]
    allowed: Bool[Tensor, "b t"]
    possible: Bool[Tensor, "b c"] | None = None


class Additive(nn.Module):
    """v·tanh(W h_t + b) (Bahdanau et al. 2015, without a query)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width // 2), nn.Linear(width // 2, 1, bias=False)

    def forward(self, text: Encoded) -> Float[Tensor, "b t"]:
        """Scores."""
        return self.outer(torch.tanh(self.inner(text.states)))[..., 0]  # type: ignore[no-any-return]


class Dot(nn.Module):
    """w·h_t / √m."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vector = nn.Linear(width, 1, bias=False)

    def forward(self, text: Encoded) -> Float[Tensor, "b t"]:
        """Scores."""
        return self.vector(text.states)[..., 0] / text.states.shape[-1] ** 0.5  # type: ignore[no-any-return]


class General(nn.Module):
    """h_tᵀ W q (Luong et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, width, bias=False)

    def forward(self, text: Encoded) -> Float[Tensor, "b t"]:
        """Scores."""
        return torch.einsum("btm,bm->bt", text.states, self.map(text.query))


_SCORES: dict[str, Callable[[int], nn.Module]] = {"additive": Additive, "dot": Dot, "general": General}


class Attended(Net):
    """What Single and Pair share: one attention [b,1,1,t], learned or frozen."""

    guide: Attended | None
    score: nn.Module
    log_odds: Tensor

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if config.attention == "none":
            self.attention_sites = ()
        self.guide = None if config.guide is None else _frozen(type(self), config)
        self.drop = nn.Dropout(config.dropout)

    @classmethod
    def guided(cls, config: Any, guide: Attended) -> Self:
        """A student with random weights and the attention of `guide`, of which it keeps a frozen copy.

        Both must have the same vocabulary. An edit of the student's word vectors does not affect the guide, which has
        its own.
        """
        if type(guide) is not cls:
            raise BadInput(f"the guide is a {type(guide).__name__} and the student a {cls.__name__}; use one kind.")
        student = cls(replace(config, attention="given", guide=describe_shape(guide.config)))
        assert student.guide is not None
        student.guide.load_state_dict(guide.state_dict())
        return student

    def train(self, mode: bool = True) -> Self:
        """The guide stays in evaluation mode."""
        super().train(mode)
        if self.guide is not None:
            self.guide.eval()
        return self

    @property
    def state_encoder(self) -> nn.Module:
        """The module that makes the states which attention weighs."""
        raise NotImplementedError

    def encoded(self, input_ids: Ids, attention_mask: Mask, token_type_ids: Mask) -> Encoded:
        """The text up to its attention."""
        raise NotImplementedError

    def decoded(self, context: Float[Tensor, "b m"], text: Encoded) -> Float[Tensor, "b c"]:
        """Logits from the attended state."""
        raise NotImplementedError

    def penalty(self, used: Float[Tensor, "b t"], text: Encoded, input_ids: Tensor) -> Tensor | None:
        """The term that training adds to the loss."""
        return None

    def forward(
        self,
        input_ids: Ids,
        attention_mask: Mask = None,
        token_type_ids: Mask = None,
        possible: Bool[Tensor, "b c"] | None = None,
        **_: Any,
    ) -> Output:
        """Logits, and the attention [b,1,1,t]. A text without an allowed token has the logits of a zero state.

        `possible` are the labels that can be predicted, if the tokens do not decide it: those of the text of which
        these are a part.
        """
        text = self.encoded(input_ids, attention_mask, token_type_ids)
        if possible is not None:
            text = replace(text, possible=possible)
        if self.config.attention == "none":
            return Output(self.decoded(text.last, text))
        allowed = text.allowed[:, None]
        scores = self._scores(text, input_ids, attention_mask, token_type_ids)
        attention = weights(scores[:, None, None], allowed, self.config.activation)
        context = weighted_sum(attention, text.states[:, None], allowed)[:, 0, 0]
        penalty = self.penalty(attention[:, 0, 0], text, input_ids) if self.training else None
        return Penalised(self.decoded(context, text), () if self.fast else (attention,), penalty)

    @torch.no_grad()
    def attend(self, input_ids: Ids, attention_mask: Mask = None, token_type_ids: Mask = None) -> Float[Tensor, "b t"]:
        """The attention of each text, without gradients and outside the seam; 0 where it is not allowed."""
        if self.config.attention == "none":
            raise Unsupported(f"this {self.config.model_type} network has no attention.")
        text = self.encoded(input_ids, attention_mask, token_type_ids)
        scores = self._scores(text, input_ids, attention_mask, token_type_ids)
        return _spread(scores, text.allowed, self.config.activation)

    def _scores(self, text: Encoded, *inputs: Any) -> Float[Tensor, "b t"]:
        if self.config.attention in LEARNED:
            return self.score(text)  # type: ignore[no-any-return]
        if self.config.attention == "log-odds":
            return self.log_odds[inputs[0]].abs()
        if self.guide is None:
            return torch.zeros_like(text.states[..., 0])
        # subtle: the softmax of its logarithm is the guide's attention again, computed where the seam can edit it
        return self.guide.attend(*inputs).log().clamp(min=_LEAST).to(text.states.dtype)


class Single(Attended):
    """The network. `log_odds`, if it has them, start at 0: copy the result of `vocabulary.log_odds` there."""

    shape: ClassVar[type[Shape]] = SingleShape

    def __init__(self, config: SingleShape) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocabulary, config.embedding, padding_idx=config.pad_token_id)
        self.encoder = ENCODERS[config.encoder](config.embedding, config.hidden)
        if config.attention in LEARNED:
            self.score = _SCORES[config.attention](self.encoder.width)
        if config.attention == "log-odds" or config.regularised:
            self.register_buffer("log_odds", torch.zeros(config.vocabulary))
        self.decoder = nn.Linear(self.encoder.width, config.num_labels)

    @property
    def state_encoder(self) -> nn.Module:
        """Of the text."""
        return self.encoder

    def encoded(self, input_ids: Ids, attention_mask: Mask, token_type_ids: Mask) -> Encoded:
        """The last state is the query."""
        mask = real_positions(input_ids, attention_mask)
        states, last = self.encoder(self.drop(self.words(input_ids)), mask)
        return Encoded(states, last, last, mask & ~is_special(input_ids, self.config.special))

    def decoded(self, context: Float[Tensor, "b m"], text: Encoded) -> Float[Tensor, "b c"]:
        """One linear layer."""
        return self.decoder(self.drop(context))  # type: ignore[no-any-return]

    def penalty(self, used: Float[Tensor, "b t"], text: Encoded, input_ids: Tensor) -> Tensor | None:
        """`regularised` · mean over texts of JSD(attention, log-odds attention)."""
        if not self.config.regularised:
            return None
        prior = _spread(self.log_odds[input_ids].abs(), text.allowed)
        mean: Tensor = smooth_jensen_shannon(used.float() * text.allowed, prior.float()).mean()
        return float(self.config.regularised) * mean


def is_special(input_ids: Int[Tensor, "b t"], special: Collection[int]) -> Bool[Tensor, "b t"]:
    """Which tokens are one of these."""
    return torch.isin(input_ids, input_ids.new_tensor(list(special)))


def smooth_jensen_shannon(p: Float[Tensor, "b t"], q: Float[Tensor, "b t"]) -> Float[Tensor, "b"]:
    """Jensen–Shannon divergence (natural logarithm) whose derivative is finite at 0, for training."""
    middle = ((p + q) / 2 + _TINY).log()
    return (p * ((p + _TINY).log() - middle) + q * ((q + _TINY).log() - middle)).sum(-1) / 2


def _spread(
    scores: Float[Tensor, "b t"], allowed: Bool[Tensor, "b t"], activation: Activation = "softmax"
) -> Float[Tensor, "b t"]:
    """As `weights`, in two dimensions, which the seam ignores; rows without an allowed key are 0."""
    masked = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return ACTIVATIONS[activation](masked, -1) * allowed.to(scores.dtype)


def _frozen(kind: type[Attended], config: AttendedShape) -> Attended:
    """The guide that a configuration describes."""
    try:
        shape: Any = kind.shape(**(config.guide or {}))
    except TypeError as e:
        raise BadInput(f"the guide does not describe a {config.model_type} network ({e}); use describe_shape.") from e
    if shape.vocabulary != config.vocabulary:
        words = f"{shape.vocabulary} words and its student {config.vocabulary}"
        raise BadInput(f"the guide has {words}; use the same vocabulary.")
    if shape.attention == "none":
        raise BadInput("the guide has no attention; choose a network that has.")
    return kind(shape).requires_grad_(False).eval()
