"""Value zeroing: the change of a block's output when one token's value vectors are set to zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from heedful.core.errors import Unsupported
from heedful.core.explanation import Attribution
from heedful.core.settings import Checked
from heedful.core.target import Target
from heedful.core.tokens import Tokens
from heedful.maths.formulas import chain, cosine_distance, cross_chain
from heedful.methods.attention import check_square, sites_of
from heedful.methods.base import Passes, array
from heedful.model.batch import BUDGET, Batch
from heedful.model.classifier import Classifier, Reading
from heedful.model.edits import Site, at
from heedful.model.huggingface import batch_axis


@dataclass(frozen=True)
class ValueZeroing(Checked):
    """C[i,j]: the cosine distance of a block's output at position i when j's value vectors are zero, rows normalised.

    layer="rollout" multiplies the layers' matrices, without adding residuals because C includes them; a number is one
    layer, and "all" the mean over layers. The pooled row is the score. In encoder-decoders a decoder block reads its
    own positions and the encoder's tokens: both are zeroed one by one, a row adds up to one over both, and the part
    that ends in the decoder's own input is left out. A row that never changes is that of the residual: 1 at its own
    position.
    """

    layer: int | Literal["rollout", "all"] = "rollout"

    summary: ClassVar[str] = "change of each block's output when a token's values are zeroed"
    paper: ClassVar[str] = "Mohebbi et al. 2023"
    needs: ClassVar[tuple[str, ...]] = ("attention",)
    standard: ClassVar[Mapping[str, Any] | None] = {}

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """One run of one block for each layer and token."""
        batch = classifier.batch([tokens])
        reading = classifier.read(batch)
        check_square(classifier, reading.weights)
        if any(site.kind == "self" and w.shape[-1] != len(tokens) for site, w in reading.weights.items()):
            raise Unsupported(
                f"{classifier.name} pads texts and attends to the padding, which value-zeroing does not support."
            )
        pooled = reading.pooled[0].detach().cpu().double()
        joined = self._rollout if self.layer == "rollout" else self._layer_mean
        return Attribution(tokens=tokens, scores=array(pooled @ joined(classifier, batch, reading)), signed=False)

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """One reading, then every token once at each layer and kind of attention, beside an unchanged copy."""
        kinds = ("self",) if classifier.main_kind == "self" else ("decoder", "cross")
        layers = sum(kind == classifier.main_kind for kind, _ in classifier.sites)
        sites = [*kinds] * (layers if self.layer == "all" else 1)
        if self.layer == "rollout":
            sites = [kind for kind, _ in classifier.sites]
        widths = {"decoder": len(classifier.decoder_start) or len(tokens)}
        keys = (widths.get(kind, len(tokens)) for kind in sites)
        return Passes(1 + sum(1 + len(part) for width in keys for part in _parts(width)))

    def _rollout(self, classifier: Classifier, batch: Batch, reading: Reading) -> Tensor:
        encoder = torch.stack([_mixing_matrices(classifier, batch, [site])[0] for site in reading.layers("self")])
        if classifier.main_kind == "self":
            return chain(encoder)
        pairs = zip(reading.layers("decoder"), reading.layers("cross"), strict=True)
        decoder, cross = zip(*(_mixing_matrices(classifier, batch, pair) for pair in pairs), strict=True)
        return cross_chain(encoder, torch.stack(decoder), torch.stack(cross))

    def _layer_mean(self, classifier: Classifier, batch: Batch, reading: Reading) -> Tensor:
        """[q,k], the mean over the chosen layers; of a decoder block, the part over the encoder's tokens."""
        assert self.layer != "rollout"
        decoder = {site.layer: [site] for site in reading.layers("decoder")}
        sites = sites_of(reading.layers(classifier.main_kind), self.layer)
        return torch.stack(
            [_mixing_matrices(classifier, batch, [*decoder.get(site.layer, []), site])[-1] for site in sites]
        ).mean(0)


def _mixing_matrices(classifier: Classifier, batch: Batch, sites: Sequence[Site]) -> Sequence[Tensor]:
    """C[q,k] of each site of one block, a row adding up to one over all of them."""
    distances, precision = zip(*(_distances(classifier, batch, site) for site in sites), strict=True)
    whole = torch.cat([m * site.allowed[0, 0].to(m) for m, site in zip(distances, sites, strict=True)], dim=1)
    total = whole.sum(1, keepdim=True)
    constant = whole.amax(1, keepdim=True) <= precision[0] ** 2  # not more than rounding changes a vector
    identity = torch.eye(*whole.shape, dtype=whole.dtype, device=whole.device)
    shares = torch.where(constant, identity, whole / torch.where(constant, 1, total))
    return torch.split(shares, [m.shape[1] for m in distances], dim=1)


def _distances(classifier: Classifier, batch: Batch, site: Site) -> tuple[Tensor, float]:
    """[q,k]: the cosine distance of the block's output at q when k is zeroed; and the precision of that output."""
    distances: list[Tensor] = []
    eps = 0.0
    for part in _parts(site.allowed.shape[-1]):
        out = _zeroed(classifier, batch, site, part)
        eps = torch.finfo(out.dtype).eps
        distances.append(cosine_distance(out[1:].cpu().double(), out[:1].cpu().double().expand(len(part), -1, -1)))
    return torch.cat(distances).T, eps


def _parts(width: int) -> list[range]:
    """Which tokens to zero together, each in its own copy, with one more copy to compare them to."""
    rows = min(width + 1, max(2, BUDGET // width))
    return [range(start, min(start + rows - 1, width)) for start in range(0, width, rows - 1)]


def _zeroed(classifier: Classifier, batch: Batch, site: Site, part: range) -> Tensor:
    """[1+n,t,d]: the output of the block around a site, unchanged, then with each token of `part` zeroed."""
    copies = 1 + len(part)
    keep = torch.ones(copies, site.allowed.shape[-1], device=batch.ids.device)
    keep[range(1, copies), part] = 0  # subtle: a weight of zero, the rest not rescaled, is a value of zero
    watch = _Watch()

    def zero(_: Site, weights: Tensor) -> Tensor:
        if not watch.running:
            raise Unsupported(f"its {site.kind} layer {site.layer} is not part of a list of blocks.", classifier.name)
        watch.block = watch.running[0]
        return weights * keep[:, None, None, :].to(weights)

    here = classifier.attention(at(zero, [site.layer], site.kind))
    with torch.no_grad(), suppress(_Done), here, watch.over(classifier.model):
        classifier.logits(batch, branch=((site.layer, len(part)),))
    out = watch.output
    assert out is not None
    return out.transpose(0, batch_axis(classifier.model))


class _Done(Exception):  # noqa: N818
    """The block has run: the layers above are not needed."""


@dataclass
class _Watch:
    """Which items of lists of modules are running; ends the forward pass when `block` has run, and keeps its output.

    The outermost such item around an attention layer is its Transformer block, in every family, also where one block
    serves as all layers.
    """

    running: list[nn.Module] = field(default_factory=list)
    block: nn.Module | None = None
    output: Tensor | None = None

    @contextmanager
    def over(self, model: nn.Module) -> Iterator[None]:
        """Watch a model."""
        items = {item for m in model.modules() if isinstance(m, nn.ModuleList) for item in m}
        with ExitStack() as undo:
            for item in items:
                undo.callback(item.register_forward_pre_hook(self._enter).remove)
                undo.callback(item.register_forward_hook(self._leave).remove)
            yield

    def _enter(self, module: nn.Module, _: Any) -> None:
        self.running.append(module)

    def _leave(self, module: nn.Module, _: Any, out: Any) -> None:
        self.running.pop()
        if module is self.block:
            self.output = out if isinstance(out, Tensor) else out[0]
            raise _Done
