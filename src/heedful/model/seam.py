"""The seam: read, edit and differentiate attention, keys and the word embeddings of a model, and undo it all.

It runs the model's own eager attention and intercepts the softmax, so each family keeps its own mask, soft-cap,
relative positions and scaling. Every forward pass of heedful runs in `evaluation_mode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heedful.core.errors import BadInput, Unsupported
from heedful.model import packed
from heedful.model.edits import Edit, Site
from heedful.model.huggingface import batch_axis
from heedful.model.keys import KeyEdit, KeyEditing, KeyMap, SeenKeys
from heedful.model.projection import MAPS, PRODUCTS, Context, Projection, is_attention

# subtle: masks are -inf, the dtype's lowest number, -1e30 or (half) -65500; real scores are far above
_MASKED_BELOW = -3e4


@dataclass
class Seen:
    """What passed through the seam: `seen[i]` maps each site of forward i to the weights that the model used.

    With `values=True`, `values[i]` maps a site to its value vectors [b,h,k,d], and `projections[i]` to the linear map
    that followed, if there was one.
    """

    forwards: list[dict[Site, Tensor]] = field(default_factory=list)
    values: list[dict[Site, Tensor]] = field(default_factory=list)
    projections: list[dict[Site, Projection]] = field(default_factory=list)

    def __getitem__(self, i: int) -> dict[Site, Tensor]:
        return self.forwards[i]

    def __len__(self) -> int:
        return len(self.forwards)


@dataclass
class _Door:
    """One open context on a model."""

    attention: bool = False
    keys: bool = False
    paused: bool = False


_OPEN: WeakKeyDictionary[nn.Module, list[_Door]] = WeakKeyDictionary()
_EVALUATED: WeakSet[nn.Module] = WeakSet()  # the models that are in evaluation mode now


@contextmanager
def _door(model: nn.Module, attention: bool = False, keys: bool = False) -> Iterator[_Door]:
    door = _Door(attention, keys)
    _OPEN.setdefault(model, []).append(door)
    try:
        yield door
    finally:
        _OPEN[model] = [other for other in _OPEN[model] if other is not door]


class _Interception(TorchFunctionMode):
    """Receives every torch call of a forward pass and intercepts each softmax that returns a [b,h,q,k] matrix."""

    def __init__(self, order: Sequence[tuple[str, int]], edit: Edit | None, want_values: bool, door: _Door) -> None:
        super().__init__()
        self.order, self.edit, self.want_values, self.door = order, edit, want_values, door
        self.seen = Seen()
        self.inside = False
        self.last: Site | None = None
        self.context: Context | None = None

    def start(self) -> None:
        self.seen.forwards.append({})
        self.seen.values.append({})
        self.seen.projections.append({})
        self.last = self.context = None
        self.inside = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.inside or self.door.paused:
            return out
        kwargs = kwargs or {}
        if is_attention(func, args, kwargs, out):
            return self.softmax(args[0] if args else kwargs["input"], out)
        if self.want_values and self.last is not None and func in PRODUCTS:
            self.product(args, out)
        elif self.context is not None and func in MAPS:
            self.linear(func, args, kwargs, out)
        return out

    def softmax(self, scores: Tensor, weights: Tensor) -> Tensor:
        forward = self.seen.forwards[-1]
        if len(forward) == len(self.order):
            raise Unsupported(f"it has more attention matrices than the {len(self.order)} of its configuration")
        site = Site(*self.order[len(forward)], allowed=(scores > _MASKED_BELOW).any(1, keepdim=True))
        forward[site], used = (weights, weights) if self.edit is None else apply(self.edit, site, weights)
        self.last, self.context = site, None
        return used

    def product(self, args: Any, out: Tensor) -> None:
        """The first product of the weights with another tensor: that tensor holds the values."""
        assert self.last is not None
        weights = self.seen.forwards[-1][self.last]
        values = _other_factor(weights, args)
        if values is not None:
            self.seen.values[-1][self.last] = values
            self.context = Context.of(self.last, weights, args, out)
            self.last = None

    def linear(self, func: Any, args: Any, kwargs: Any, out: Tensor) -> None:
        """The first linear map of the heads' outputs is the model's output projection."""
        assert self.context is not None
        projection = self.context.projection(func, args, kwargs, out)
        if projection is not None:
            self.seen.projections[-1][self.context.site] = projection
            self.context = None


def _other_factor(weights: Tensor, args: Any) -> Tensor | None:
    """Values [b,h,k,d] from matmul(weights, values), bmm of their flattened forms, or einsum(equation, …)."""
    b, h, _, k = weights.shape
    equation = args[0] if isinstance(args[0], str) else None
    factors = args[1:] if equation is not None else args
    if len(factors) == 1 and isinstance(factors[0], (list, tuple)):
        factors = factors[0]
    if len(factors) != 2 or not all(isinstance(f, Tensor) for f in factors):
        return None
    left: Tensor = factors[0]
    right: Tensor = factors[1]
    if left.numel() != weights.numel():
        return None
    if not torch.equal(left.detach().reshape(weights.shape), weights.detach().to(left.dtype)):
        return None
    if equation is not None:
        first, second = equation.split("->")[0].replace(" ", "").split(",")
        feature = next(letter for letter in second if letter not in first)
        return right.permute([second.index(letter) for letter in (*first[:2], first[3], feature)])
    if right.ndim == 4:
        return right.expand(b, h, k, right.shape[-1])  # falcon has one value head for all
    return right.reshape(b, h, k, right.shape[-1])


def apply(edit: Edit, site: Site, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The edited weights, checked: as edited, and as passed to the model, with rows without an allowed key restored."""
    new = edit(site, weights)
    if new is weights:
        return weights, weights
    if new.shape != weights.shape or new.dtype != weights.dtype:
        raise BadInput(
            f"the edit turned {site} weights of shape {tuple(weights.shape)} and {weights.dtype} into "
            f"{tuple(new.shape)} and {new.dtype}; return the same shape and dtype."
        )
    if site.allowed.all():
        return new, new.contiguous()
    readable = site.allowed.any(-1, keepdim=True)
    outside = (new.detach() != 0) & ~site.allowed & readable
    if outside.any():
        raise BadInput(f"the edit gave weight to masked keys at {site}; leave zeros wherever site.allowed is False.")
    # subtle: bloom calls .view on its weights, which an expanded tensor refuses
    return new, new.contiguous() if readable.all() else torch.where(readable, new, weights)


@contextmanager
def attention(
    model: nn.Module, order: Sequence[tuple[str, int]], edit: Edit | None = None, values: bool = False
) -> Iterator[Seen]:
    """Every attention matrix of every forward pass inside: read, and changed by `edit`."""
    if any(door.attention and not door.paused for door in _OPEN.get(model, ())):
        raise RuntimeError("attention() is already open on this model; combine edits with heedful.edits.then")

    def start(*_: Any) -> None:
        if not door.paused:
            interception.start()

    def count(*_: Any) -> None:
        if not interception.inside:
            return
        interception.inside = False
        if (n := len(interception.seen.forwards[-1])) != len(order):
            raise Unsupported(f"it computed {n} attention matrices and its configuration has {len(order)}")

    with ExitStack() as undo:
        door = undo.enter_context(_door(model, attention=True))
        interception = _Interception(order, edit, values, door)
        undo.enter_context(implementation(model, "eager"))
        undo.callback(model.register_forward_pre_hook(start).remove)
        undo.callback(model.register_forward_hook(count).remove)
        undo.enter_context(interception)
        yield interception.seen


def is_open(model: nn.Module) -> bool:
    """Whether an edit of this model is open and not paused."""
    return any(not door.paused for door in _OPEN.get(model, ()))


@contextmanager
def paused(model: nn.Module) -> Iterator[None]:
    """Inside, edits that are open now have no effect: for a probe in the middle of a job, or a part of a pass."""
    doors = [door for door in _OPEN.get(model, ()) if not door.paused]
    try:
        for door in doors:
            door.paused = True
        yield
    finally:
        for door in doors:
            door.paused = False


@contextmanager
def implementation(model: nn.Module, name: str) -> Iterator[None]:
    """One of transformers' implementations of attention ("eager" computes the weights); restored on exit."""
    # subtle: set_attn_implementation only logs if a family ignores it, so set it directly and count the matrices later
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    former = [
        (c, c._attn_implementation_internal) for c in configs.values() if hasattr(c, "_attn_implementation_internal")
    ]
    try:
        for config, _ in former:
            config._attn_implementation_internal = name
        yield
    finally:
        for config, former_name in former:
            config._attn_implementation_internal = former_name


@contextmanager
def embeddings(model: nn.Module, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Word vectors [b,t,d] of the text, changed by `edit` once per forward pass.

    Encoder-decoders embed the text twice, the second time shifted by one: both copies get the same edited vectors, so
    that a gradient with respect to them is the sum over both.
    """
    word = model.get_input_embeddings()  # type: ignore[operator]
    # subtle: where accelerate offloads a table that two parts share, each part has an empty weight of its own
    tables = [
        m
        for m in model.modules()
        if isinstance(m, nn.Embedding)
        and (m.weight is word.weight or (m.weight.is_meta and m.weight.shape == word.weight.shape))
    ]
    axis = batch_axis(model)
    state: dict[str, Tensor] = {}
    start: tuple[int, ...] = getattr(model, "decoder_start", ())  # which a decoder reads instead of the text

    def begin(_: nn.Module, args: Any, kwargs: Any) -> None:
        state.clear()
        state["ids"] = kwargs["input_ids"] if "input_ids" in kwargs else args[0]

    def hook(_: nn.Module, args: Any, out: Tensor) -> Tensor:
        if door.paused:
            return out
        ids, looked_up = state["ids"], args[0].transpose(0, axis)
        if looked_up.shape == ids.shape and torch.equal(looked_up, ids):
            if "edited" not in state:
                vectors = out.transpose(0, axis)
                state["edited"] = new = edit(vectors)
                if new.shape != vectors.shape:
                    change = f"{tuple(vectors.shape)} into {tuple(new.shape)}"
                    raise BadInput(f"the edit turned word vectors of shape {change}; return the same shape.")
            # subtle: ctrl scales word vectors in place, which a leaf does not allow
            return state["edited"].clone().transpose(0, axis)
        if "edited" in state and looked_up.shape == ids.shape and torch.equal(looked_up[:, 1:], ids[:, :-1]):
            return torch.cat([out[:, :1], state["edited"][:, :-1]], dim=1)
        if start and looked_up.shape[1] == len(start) and bool((looked_up == looked_up.new_tensor(start)).all()):
            return out
        raise Unsupported("its word embeddings are used for something other than the text")

    with ExitStack() as undo:
        door = undo.enter_context(_door(model))
        undo.callback(model.register_forward_pre_hook(begin, with_kwargs=True).remove)
        for table in tables:
            undo.callback(table.register_forward_hook(hook).remove)
        yield


@contextmanager
def states(model: nn.Module, encoder: nn.Module, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The states [b,t,m] that a network's encoder returns first, changed by `edit`; what else it returns stays."""

    def hook(_: nn.Module, args: Any, out: Any) -> Any:
        return out if door.paused else (edit(out[0]), *out[1:])

    with ExitStack() as undo:
        door = undo.enter_context(_door(model))
        undo.callback(encoder.register_forward_hook(hook).remove)
        yield


@contextmanager
def keys(model: nn.Module, maps: Sequence[KeyMap], edit: KeyEdit | None = None) -> Iterator[SeenKeys]:
    """The keys of every forward pass inside: read, and changed by `edit`; `maps` make them. Not re-entrant."""
    if any(door.keys and not door.paused for door in _OPEN.get(model, ())):
        raise RuntimeError("keys() is already open on this model; make one edit of two")
    editing = KeyEditing(maps, edit)

    def start(_: nn.Module, args: Any, kwargs: Any) -> None:
        if not door.paused:
            editing.start(len(kwargs["input_ids"] if "input_ids" in kwargs else args[0]))

    with ExitStack() as undo:
        door = undo.enter_context(_door(model, keys=True))
        undo.enter_context(implementation(model, "eager"))
        undo.callback(model.register_forward_pre_hook(start, with_kwargs=True).remove)
        undo.callback(model.register_forward_hook(lambda *_: editing.finish()).remove)
        undo.enter_context(editing)
        yield editing.seen


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, parameters frozen, no gradient checkpointing (its gradients would be wrong); all restored.

    Packed layers round each text by itself. Inside itself it does nothing: a job sets the mode once for its passes.
    """
    if model in _EVALUATED:
        yield
        return
    modules, names = list(model.modules()), ("training", "gradient_checkpointing")
    # subtle: asking a module for what it lacks raises an error; and this is done at every pass
    switches: list[tuple[Any, str]] = [
        (m, n) for m in modules for n in names if (n in vars(m) or hasattr(type(m), n)) and getattr(m, n)
    ]
    own = (p for m in modules for p in m._parameters.values() if p is not None)
    switches += [(p, "requires_grad") for p in own if p.requires_grad]
    try:
        _EVALUATED.add(model)
        for owner, name in switches:
            setattr(owner, name, False)
        with packed.apart(packed.layers(model), batch_axis(model)):
            yield
    finally:
        _EVALUATED.discard(model)
        for owner, name in switches:
            setattr(owner, name, True)


@contextmanager
def reporting(model: nn.Module) -> Iterator[None]:
    """Inside, the model may output hidden states; the hooks that transformers adds for it are removed at the end."""
    mark = "_output_capturing_hooks_installed"
    former = [(m, set(m._forward_hooks), mark in vars(m)) for m in model.modules()]
    try:
        yield
    finally:
        for module, hooks, marked in former:
            for key in set(module._forward_hooks) - hooks:
                del module._forward_hooks[key]
            if mark in vars(module) and not marked:
                delattr(module, mark)


@contextmanager
def branched(plan: Sequence[tuple[nn.Module, int]], axis: int) -> Iterator[None]:
    """One forward pass of one text: at each of these blocks, this many copies of the text join the batch.

    The blocks below run once for all. A copy is detached: gradients stop at its block. `axis` is that of the texts.
    """

    def add_copies(hidden: Tensor, copies: int) -> Tensor:
        return torch.cat([hidden, *[hidden.narrow(axis, 0, 1).detach()] * copies], dim=axis)

    def hook(copies: int) -> Callable[[nn.Module, Any, Any], Any]:
        def expand(_: nn.Module, args: Any, kwargs: Any) -> Any:
            if args:
                return (add_copies(args[0], copies), *args[1:]), kwargs
            return args, kwargs | {"hidden_states": add_copies(kwargs["hidden_states"], copies)}

        return expand

    with ExitStack() as undo:
        for block, copies in plan:
            undo.callback(block.register_forward_pre_hook(hook(copies), with_kwargs=True).remove)
        yield


def blocks(model: nn.Module, layers: int) -> list[nn.Module]:
    """The model's Transformer blocks, first to last; empty if no list of modules has this length."""
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == layers]
    alike = [m for m in lists if len({type(block) for block in m}) == 1]
    return list(alike[0]) if alike else []
