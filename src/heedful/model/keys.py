"""Keys: read and edit the key vectors of every attention layer, and undo it.

The scores of attention are q·kᵀ. Reshaped into heads, k is the output of a linear map of the model, or some columns of
one that makes queries and values too. This map is found in the model's own torch calls, by comparing values bit for
bit, so that no family's names are needed. Keys that something else has changed (a rotation by position, a norm, heads
that share keys) are not found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heedful.core.errors import BadInput, Unsupported
from heedful.model.edits import Site
from heedful.model.huggingface import batch_axis
from heedful.model.projection import MAPS, PRODUCTS, is_attention

KeyEdit = Callable[[Site, Tensor], Tensor]  # (site, keys[b,t,d]) -> keys of the same shape and dtype

_WITH_BIAS = {torch.baddbmm, torch.Tensor.baddbmm}  # bloom adds its biases in the product


@dataclass(frozen=True)
class KeyMap:
    """The linear map that makes the keys of one site: its weight, and which of the pass's calls with it.

    `axes` are the axes of its output as [b,t,…] (a flat output is first unfolded into texts); `columns` are those of
    its features that are keys, None for all in their order.
    """

    site: Site
    weight: Tensor
    call: int
    axes: tuple[int, ...]
    columns: Tensor | None

    def read(self, out: Tensor, texts: int) -> Float[Tensor, "b t d"]:
        """The keys in an output of the map."""
        keys = self._unfolded(out, texts).permute(self.axes).flatten(2)
        return keys if self.columns is None else keys[..., self.columns]

    def write(self, out: Tensor, keys: Float[Tensor, "b t d"], texts: int) -> Tensor:
        """The output with these keys in it."""
        ordered = self._unfolded(out, texts).permute(self.axes)
        flat = keys if self.columns is None else ordered.flatten(2).index_copy(2, self.columns, keys)
        inverse = [self.axes.index(i) for i in range(len(self.axes))]
        return flat.reshape(ordered.shape).permute(inverse).reshape(out.shape)

    @staticmethod
    def _unfolded(out: Tensor, texts: int) -> Tensor:
        return out.reshape(texts, -1, out.shape[-1]) if out.ndim == 2 else out


@dataclass(frozen=True)
class FoundKeys:
    """The maps of all sites, or why keys cannot be edited in this model."""

    maps: tuple[KeyMap, ...] = ()
    fault: str | None = None


@dataclass
class SeenKeys:
    """The keys that the model used: `seen[i]` maps each site of forward i to its keys [b,t,d], after the edit."""

    forwards: list[dict[Site, Tensor]] = field(default_factory=list)

    def __getitem__(self, i: int) -> dict[Site, Tensor]:
        return self.forwards[i]

    def __len__(self) -> int:
        return len(self.forwards)


# editing


class KeyEditing(TorchFunctionMode):
    """Receives every torch call of a forward pass, and edits the output of each map that makes keys."""

    def __init__(self, maps: Sequence[KeyMap], edit: KeyEdit | None) -> None:
        super().__init__()
        self.maps = {(id(m.weight), m.call): m for m in maps}
        self.weights = {id(m.weight) for m in maps}
        self.edit = edit
        self.seen = SeenKeys()
        self.calls: Counter[int] = Counter()
        self.texts = 0
        self.inside = False

    def start(self, texts: int) -> None:
        """A forward pass of this many texts begins."""
        self.seen.forwards.append({})
        self.calls.clear()
        self.texts, self.inside = texts, True

    def finish(self) -> None:
        """It ends."""
        if self.inside and len(self.seen.forwards[-1]) != len(self.maps):
            n = len(self.seen.forwards[-1])
            raise Unsupported(f"the keys of {n} of its {len(self.maps)} attention matrices were computed")
        self.inside = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.inside or func not in MAPS:
            return out
        weight = next((x for x in _tensors(args, kwargs or {}) if id(x) in self.weights), None)
        if weight is None:
            return out
        found = self.maps.get((id(weight), self.calls[id(weight)]))
        self.calls[id(weight)] += 1
        return out if found is None else self._edited(found, out)

    def _edited(self, found: KeyMap, out: Tensor) -> Tensor:
        keys = found.read(out, self.texts)
        new = keys if self.edit is None else self.edit(found.site, keys)
        self.seen.forwards[-1][found.site] = new
        if new is keys:
            return out
        if new.shape != keys.shape or new.dtype != keys.dtype:
            raise BadInput(
                f"the edit turned {found.site} keys of shape {tuple(keys.shape)} and {keys.dtype} into "
                f"{tuple(new.shape)} and {new.dtype}; return the same shape and dtype."
            )
        return found.write(out, new, self.texts)


# edits


def shifted(by: Float[Tensor, "d"]) -> KeyEdit:
    """The same vector added to every key: no softmax of q·kᵀ changes."""
    return lambda site, keys: keys + by.to(keys)


def reordered(order: Mapping[int, Int[Tensor, "b t"]]) -> KeyEdit:
    """The key of token j becomes that of token order[layer][j], in these layers."""

    def edit(site: Site, keys: Tensor) -> Tensor:
        if site.layer not in order:
            return keys
        return keys.gather(1, order[site.layer].to(keys.device)[..., None].expand_as(keys))

    return edit


def random_order(real: Bool[Tensor, "t"], rng: torch.Generator) -> Int[Tensor, "t"]:
    """A random permutation of the real positions; the others stay: [T, T, F] -> [1, 0, 2], say."""
    order = torch.arange(len(real))
    places = order[real.cpu()]
    order[places] = places[torch.randperm(len(places), generator=rng)]
    return order


def replaced_keys(keys: Mapping[int, Float[Tensor, "b t d"]]) -> KeyEdit:
    """These keys, by layer; other layers keep their own."""
    return lambda site, old: keys[site.layer].to(old.dtype) if site.layer in keys else old


# searching


@dataclass(frozen=True)
class _Call:
    """A call of a linear map: its weight, the number of calls with this weight before, and its output as [b,t,D]."""

    weight: Tensor
    number: int
    axes: tuple[int, ...]
    made: Tensor


class KeySearch(TorchFunctionMode):
    """Receives every torch call of one forward pass, and finds the maps that make its keys."""

    def __init__(self, model: nn.Module, order: Sequence[tuple[str, int]], texts: int) -> None:
        super().__init__()
        self.order, self.texts, self.axis = order, texts, batch_axis(model)
        self.parameters = {id(p) for p in model.parameters() if p.ndim > 1}
        self.counts: Counter[int] = Counter()
        self.calls: list[_Call] = []
        self.products: list[tuple[Any, Any, Any, Tensor]] = []  # since the last softmax
        self.maps: list[KeyMap] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if is_attention(func, args, kwargs, out):
            self.softmax(out)
        elif func in MAPS and (weight := self._parameter(args, kwargs)) is not None:
            self.call(func, args, weight, out)
        elif func in PRODUCTS | _WITH_BIAS:
            self.products.append((func, args, kwargs, out))
        return out

    def _parameter(self, args: Any, kwargs: Any) -> Tensor | None:
        return next((x for x in _tensors(args, kwargs) if id(x) in self.parameters), None)

    def call(self, func: Any, args: Any, weight: Tensor, out: Tensor) -> None:
        """Record a linear map."""
        number = self.counts[id(weight)]
        self.counts[id(weight)] += 1
        axes = self._axes(func, args, weight, out)
        if axes is not None:
            found = KeyMap(Site("", 0), weight, number, axes, None)
            self.calls.append(_Call(weight, number, axes, found.read(out.detach(), self.texts)))

    def _axes(self, func: Any, args: Any, weight: Tensor, out: Tensor) -> tuple[int, ...] | None:
        """The axes of the output as text, token, features."""
        if out.ndim == 2:
            return (0, 1, 2) if len(out) % self.texts == 0 else None
        if func is torch.einsum:
            first, second, result = args[0].replace(" ", "").replace("->", ",").split(",")
            factors = args[1:] if len(args) > 2 else tuple(args[1])
            ours, theirs = (second, first) if factors[0] is weight else (first, second)
            places = [letter for letter in ours if letter in result]
            features = [letter for letter in theirs if letter in result]
            if len(places) != 2 or len(places) + len(features) != len(result):
                return None
            return tuple(result.index(letter) for letter in (*_swapped(places, self.axis), *features))
        return tuple(_swapped([0, 1, 2], self.axis)) if out.ndim == 3 else None

    def softmax(self, weights: Tensor) -> None:
        """Find the keys of the scores that this softmax was given."""
        products, self.products = self.products, []
        site = Site(*self.order[len(self.maps)]) if len(self.maps) < len(self.order) else None
        if site is None:
            raise Unsupported(f"it has more attention matrices than the {len(self.order)} of its configuration")
        for func, args, kwargs, out in reversed(products):
            keys = _keys_of(func, args, kwargs, out, weights)
            found = None if keys is None else self._made(site, keys)
            if found is not None:
                self.maps.append(found)
                return
        raise Unsupported(f"the keys of its layer {site.layer} are not the output of a linear map")

    def _made(self, site: Site, keys: Tensor) -> KeyMap | None:
        """The last map whose output has these keys."""
        for call in reversed(self.calls):
            columns = _columns(call.made, keys)
            if columns is not None:
                whole = torch.equal(columns, torch.arange(call.made.shape[2]))
                chosen = None if whole else columns.to(call.made.device)
                return KeyMap(site, call.weight, call.number, call.axes, chosen)
        return None


def _swapped(axes: list[Any], axis: int) -> list[Any]:
    return [axes[1], axes[0], *axes[2:]] if axis else axes


def _tensors(args: Any, kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from (y for y in x if isinstance(y, Tensor))


def _keys_of(func: Any, args: Any, kwargs: Any, out: Tensor, weights: Tensor) -> Tensor | None:
    """The factor of a product that has an axis of keys, as [b,t,h·d]; None if the product has no shape of scores."""
    b, h, _, k = weights.shape
    if out.numel() != weights.numel() or out.shape[-1] != k:
        return None
    if func is torch.einsum:
        factors = args[1:] if len(args) > 2 else args[1]
        *letters, result = args[0].replace(" ", "").replace("->", ",").split(",")
        if len(letters) != 2 or len(result) != 4:
            return None
        which = int(result[3] in letters[1])
        keys, of = factors[which], letters[which]
        feature = [letter for letter in of if letter not in result]
        if not isinstance(keys, Tensor) or sorted(of) != sorted((*result[:2], result[3], *feature[:1])):
            return None
        return keys.detach().permute([of.index(x) for x in (result[0], result[3], result[1], feature[0])]).flatten(2)
    right = list(_tensors(args, kwargs))[-1].detach()
    if right.ndim not in (3, 4) or right.shape[-1] != k or right.shape[:-2].numel() != b * h:
        return None
    return right.reshape(b, h, -1, k).permute(0, 3, 1, 2).flatten(2)


def _columns(made: Float[Tensor, "b t D"], keys: Float[Tensor, "b t d"]) -> Int[Tensor, "d"] | None:
    """Which column of `made` each column of the keys is; None unless each is one, bit for bit."""
    if made.shape[:2] != keys.shape[:2] or made.shape[2] < keys.shape[2] or made.dtype != keys.dtype:
        return None
    if torch.equal(made, keys):
        return torch.arange(keys.shape[2])
    rows, wanted = made.flatten(0, 1), keys.flatten(0, 1)
    same = rows[0][:, None] == wanted[0]
    for row, want in zip(rows[1:], wanted[1:], strict=True):
        if not same.any(0).all():
            return None
        same &= row[:, None] == want
    used: set[int] = set()
    columns = []
    for column in same.T.cpu():
        free = [int(i) for i in column.nonzero() if int(i) not in used]
        if not free:
            return None
        used.add(free[0])
        columns.append(free[0])
    return torch.tensor(columns)
