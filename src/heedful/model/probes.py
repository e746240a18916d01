"""Probes: properties of a model that no configuration states, measured on a short text.

Each runs once for a classifier, under its lock (see `LockedProperty`); open edits are paused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.random import seeded
from heedful.model import huggingface, packed, seam
from heedful.model.batch import Batch, Side
from heedful.model.edits import Site, at, leaf
from heedful.model.keys import FoundKeys, KeySearch

if TYPE_CHECKING:
    from heedful.model.classifier import Classifier

PROBE = "A short probe, read twice."


def padding_side(classifier: Classifier) -> Side | None:
    """The side on which padding does not change the logits; None if there is none."""
    if packed.layers(classifier.model):  # padding would be rounded together with the text
        return None
    try:
        tokens = [classifier.probe_tokens().cut(classifier.limit and classifier.limit - 2)] * 2
    except BadInput:  # a prompt leaves no room for padding
        return None
    sides: tuple[Side, ...] = ("right", "left")
    with torch.no_grad(), seam.paused(classifier.model):
        unpadded = classifier.run(classifier.padding_with("right").batch(tokens, classifier.device))
        tolerance = _tolerance(classifier, unpadded) * max(1.0, float(unpadded.abs().max()))
        for side in sides:
            batch = classifier.padding_with(side).batch(tokens, classifier.device, width=len(tokens[0]) + 2)
            change = float((classifier.run(batch) - unpadded).abs().max())  # NaN if a row has no allowed key
            if change < tolerance:
                return side
    return None


def mask_hides_words(classifier: Classifier) -> bool:
    """Whether a word under the attention mask has no effect: the logits are the same for another word."""
    tokens = classifier.probe_tokens()
    batch = classifier.padding_with("right").batch([tokens] * 4, classifier.device)
    ids, hidden = batch.ids.clone(), torch.zeros_like(batch.ids, dtype=torch.bool)
    for row, position in enumerate((tokens.content[0], tokens.content[0], tokens.content[-1], tokens.content[-1])):
        hidden[row, position] = True
        ids[row, position] = tokens.ids[tokens.content[1]] if row % 2 else tokens.ids[position]
    with torch.no_grad(), seam.paused(classifier.model):
        logits = classifier.run(Batch(ids, batch.mask.masked_fill(hidden, 0), batch.segments, hidden))
    return bool(torch.allclose(logits[0::2], logits[1::2], rtol=1e-4, atol=1e-5))


def fused_attention_agrees(classifier: Classifier) -> bool:
    """Whether the model can run torch's fused attention with the same logits up to rounding."""
    if not getattr(classifier.model, "_supports_sdpa", False) or classifier.tokenizer is None:
        return False
    batch = classifier.batch([classifier.probe_tokens()])
    with torch.no_grad(), seam.paused(classifier.model):
        usual = classifier.run(batch)
        try:
            with seam.implementation(classifier.model, "sdpa"):
                fused = classifier.run(batch)
        except Exception:  # a family's own code
            return False
    return bool(torch.allclose(usual, fused, rtol=1e-4, atol=1e-5))


def prefix_agrees(classifier: Classifier) -> bool:
    """Whether a language model can run the common prefix of a batch once, with the same logits up to rounding."""
    if packed.layers(classifier.model) or huggingface.virtual_tokens(classifier.model):
        return False
    tokens, model = classifier.probe_tokens(), classifier.model
    last = tokens.content[-1]
    other = replace(tokens, ids=(*tokens.ids[:last], tokens.ids[tokens.content[0]], *tokens.ids[last + 1 :]))
    batch = classifier.padding_with("right").batch([tokens, other], classifier.device)
    with torch.no_grad(), seam.paused(model):
        former, model.min_shared_prefix = model.min_shared_prefix, 0
        try:
            usual = classifier.run(batch)
            model.min_shared_prefix = 1
            shared = classifier.run(batch)
        except Exception:  # a family's own code
            return False
        finally:
            model.min_shared_prefix = former
    return bool(torch.allclose(usual, shared, rtol=1e-4, atol=1e-5))


def can_branch(classifier: Classifier) -> bool:
    """Whether layers below a branching point can run once for all copies, with the same logits up to rounding."""
    layers = len(classifier.sites)
    if classifier.main_kind != "self" or not seam.blocks(classifier.model, layers):
        return False
    batch = classifier.batch([classifier.probe_tokens()])
    with torch.no_grad(), seam.paused(classifier.model), ExitStack() as stack:
        if classifier.attention_fault is None:
            stack.enter_context(seam.implementation(classifier.model, "eager"))
        branch = [(layer, 2) for layer in range(layers)]
        copies = classifier.logits(batch.repeat(1 + 2 * layers), counted=False)
        try:
            branched = classifier.to_logits(classifier.run_branched(batch, branch))
            return branched.shape == copies.shape and torch.allclose(branched, copies, rtol=1e-5, atol=1e-5)
        except Exception:  # a family that cannot branch runs copies
            return False


def attention_fault(classifier: Classifier) -> str | None:
    """Why the seam does not work for this model, or None."""
    if not classifier.sites:
        return getattr(classifier.model, "no_attention", "it has none")
    model = classifier.model
    if virtual := huggingface.virtual_tokens(model):
        return f"its adapter puts {virtual} learned vectors before the text, which attention is over too"
    try:
        with torch.inference_mode(False), torch.enable_grad(), seam.paused(model):
            batch = classifier.batch([classifier.probe_tokens()])
            with seam.evaluation_mode(model), seam.implementation(model, "eager"), seam.reporting(model):
                output = model(**classifier.inputs(batch, batch.ids), output_attentions=True)
            with seam.attention(model, classifier.sites, leaf) as seen:
                logits = classifier.logits(batch, counted=False)
            usual = classifier.logits(batch, counted=False)
            of, by = logits, seen
            if layers := packed.layers(model):
                with packed.dequantised(layers), seam.attention(model, classifier.sites, leaf) as by:
                    of = classifier.logits(batch, counted=False)
            gradients = torch.autograd.grad(of.sum(), list(by[0].values()), allow_unused=True)
    except HeedfulError as e:
        return e.reason if isinstance(e, Unsupported) else str(e)
    except Exception as e:  # a family's own code may raise anything
        return f"{type(e).__name__}: {e}"
    reported = huggingface.reported(output)
    width = batch.ids.shape[1]
    short = len(classifier.decoder_start)
    if any(
        w.shape[-1] < (short if short and site.kind == "decoder" else width) or max(1, short) < w.shape[-2] < width
        for site, w in seen[0].items()
    ):
        return "its attention is over pooled positions, not over tokens"
    if not torch.equal(classifier.to_logits(output.logits), logits):
        return "an edit that changes nothing moves its logits"
    tolerance = _tolerance(classifier, logits)
    if not torch.allclose(usual, logits, rtol=tolerance, atol=tolerance):
        return "its eager attention has other logits than its present one; load it with eager attention"
    if any(gradient is None for gradient in gradients):
        return "some attention weights that it computes do not reach its logits"
    if len(reported) != len(seen[0]):
        return f"it reports {len(reported)} attention matrices and {len(seen[0])} were seen"
    if not all(torch.equal(w.to(r.dtype), r) for w, r in zip(seen[0].values(), reported, strict=True)):
        return "the weights seen differ from those it reports"
    return None


def key_maps(classifier: Classifier) -> FoundKeys:
    """The linear maps that make the keys of each attention matrix, or why keys cannot be edited.

    Checked: keys that are replaced by themselves leave the logits bit-equal, and a constant added to all keys leaves
    attention unchanged. It does not where keys are used for relative positions too, and a distance between keys that
    ignores constants would not be what attention sees.
    """
    if classifier.attention_fault is not None:
        return FoundKeys(fault=f"its attention cannot be read ({classifier.attention_fault})")
    model, tokens = classifier.model, classifier.probe_tokens()
    places = iter(reversed(tokens.content))
    backwards = tokens.take([next(places) if i in tokens.content else i for i in range(len(tokens))])
    try:
        batch = classifier.batch([tokens, backwards])  # two texts tell the axis of texts from that of tokens
        with torch.no_grad(), seam.paused(model), seam.implementation(model, "eager"):
            with KeySearch(model, classifier.sites, len(batch)) as search:
                usual = classifier.run(batch)
            maps = tuple(search.maps)
            with seam.keys(model, maps, lambda site, keys: keys.clone()) as seen:
                same = classifier.run(batch)
            rng = seeded("a constant")
            shifts = {site: torch.randn(k.shape[-1], generator=rng) * k.std().cpu() for site, k in seen[0].items()}
            with seam.attention(model, classifier.sites) as before:
                classifier.run(batch)
            shift = seam.keys(model, maps, lambda site, keys: keys + shifts[site].to(keys))
            with shift, seam.attention(model, classifier.sites) as after:
                classifier.run(batch)
    except HeedfulError as e:
        return FoundKeys(fault=e.reason if isinstance(e, Unsupported) else str(e))
    except Exception as e:  # a family's own code may raise anything
        return FoundKeys(fault=f"{type(e).__name__}: {e}")
    if any(keys.shape[:2] != batch.ids.shape for keys in seen[0].values()):
        return FoundKeys(fault="its keys are not one for each token")
    if not torch.equal(usual, same):
        return FoundKeys(fault="keys replaced by themselves move its logits")
    apart = max(float((after[0][site] - weights).abs().max()) for site, weights in before[0].items())
    if not apart < _tolerance(classifier, usual):
        return FoundKeys(fault="a constant added to all keys changes its attention: they are used for more than q·kᵀ")
    return FoundKeys(maps)


def _tolerance(classifier: Classifier, logits: Tensor) -> float:
    """The tolerance between equal logits in the precision of the model, whose logits may be computed in a finer one."""
    first = next((p.dtype for p in classifier.model.parameters() if p.is_floating_point()), logits.dtype)
    return 1e-3 if max(torch.finfo(dtype).eps for dtype in (first, logits.dtype)) < 1e-6 else 5e-2


def pooled_shares(
    classifier: Classifier, batch: Batch, logits: Tensor, seen: dict[Site, Tensor], hidden: Tensor | None
) -> Float[Tensor, "b q"]:
    """The share of each position in the head's pooling, from one forward pass: its logits, attention, last states.

    With attention over sentences, these are its weights, each at the position of a sentence's last word. Otherwise all
    positions of the last states (or rows of the last attention) that affect the logits have equal shares.
    """
    sentence = next((site for site in seen if site.kind == "sentence"), None)
    if sentence is not None:
        return (seen[sentence] * sentence.allowed)[:, 0, 0].detach()
    last = next(w for site, w in reversed(seen.items()) if site.kind == classifier.main_kind)
    if last.shape[2] == 1:  # a network that pools with one query
        return logits.new_ones(len(logits), 1)
    candidates = [last] if hidden is None or hidden.shape[:2] != batch.ids.shape else [hidden, last]
    pooled = _with_gradient(logits, candidates)
    if pooled is None:
        pooled = torch.stack([_with_nan(classifier, batch.row(i)) for i in range(len(batch))])
    return pooled.to(logits.dtype) / pooled.sum(-1, keepdim=True)


def pooled_attention(
    seen: Mapping[Site, Tensor], pooled: Float[Tensor, "b q"], kind: str, layers: Literal["last", "all"] = "last"
) -> tuple[Float[Tensor, "b r k"], Bool[Tensor, "b r k"]]:
    """The attention of the pooled position in each head of the last layer, or of all layers; and the allowed keys.

    Where several positions are pooled, the mean of their rows, by their shares. Weights of other keys are 0.
    """
    sites = sorted((site for site in seen if site.kind == kind), key=lambda site: site.layer)
    if not sites or any(site.kind == "sentence" for site in seen):
        raise Unsupported("its attention is over words and over sentences; one attention over the text is needed.")
    rows, allowed = [], []
    for site in sites if layers == "all" else sites[-1:]:
        weights = seen[site]
        keys = torch.einsum("bq,bqk->bk", pooled.to(weights), site.allowed[:, 0].to(weights)) > 0
        rows.append(torch.einsum("bq,bhqk->bhk", pooled.to(weights), weights) * keys[:, None])
        allowed.append(keys[:, None].expand(-1, weights.shape[1], -1))
    return torch.cat(rows, 1), torch.cat(allowed, 1)


def _with_gradient(logits: Tensor, candidates: Sequence[Tensor]) -> Bool[Tensor, "b q"] | None:
    """Which positions have a gradient, in the first candidate that has one in every text."""
    # subtle: a sum over labels may be constant (two opposite logits), so their weights differ
    uneven = (logits * torch.arange(1, logits.shape[-1] + 1).to(logits).sqrt()).sum()
    for states in candidates:
        if not states.requires_grad:
            continue
        gradient: Any = torch.autograd.grad(uneven, states, allow_unused=True, retain_graph=True)[0]
        if gradient is None:
            continue
        size: Tensor = gradient.abs().amax(-1) if gradient.ndim == 3 else gradient.abs().amax(-1).amax(1)
        if bool((size > 0).any(-1).all()):
            return size > 0
    return None


def _with_nan(classifier: Classifier, batch: Batch) -> Bool[Tensor, "q"]:
    """Which rows of the last attention affect the logits of one text: those from which a NaN reaches them.

    Slow, but it works for a saturated head, whose gradients are all zero.
    """
    width = batch.ids.shape[1]
    last = max(layer for kind, layer in classifier.sites if kind == classifier.main_kind)

    def poison(site: Site, weights: Tensor) -> Tensor:
        row = torch.eye(width, dtype=torch.bool, device=weights.device)[:, None, :, None]
        return weights.masked_fill(row & site.allowed, torch.nan)

    with torch.no_grad(), classifier.attention(at(poison, [last], classifier.main_kind)):
        reached = classifier.run(batch.repeat(width)).isnan().any(-1)
    reached &= batch.mask[0].bool()  # a mean that multiplies padding by zero passes on its NaN
    if not reached.any():
        raise Unsupported("no position of its last layer affects its logits.", classifier.name)
    return reached
