"""Whether items stay apart: an axis of the inputs is followed through a forward on fake tensors.

The axis has a size that divides no other size of the forward, a prime. So every tensor shows by its
sizes where the axis is, merged with others or not: sizes that the prime divides.

1. Items stay apart where every operator treats each entry along the axis alike and by itself. Then
   the axis is a batch axis. Where entries are combined (attention over time, a recurrence, edges of
   a graph, a mean over nodes), what is computed of them is ``Mixed``, and so is what follows.
2. What is taken out at one place (``x[3]``) is of that item; of all, in order, the whole can be
   put together again. So a loop over items is one over items, and one over time steps is not.
3. What is selected by positions that depend on values (``x[rows]``) can be put back by the same
   positions alone (``y.index_add(0, rows, …)``), as mixtures of experts do.
4. A reduction over the axis is lost for the items; one number of it (a maximum of lengths, a scale)
   may be used further.
5. Operators of other libraries may do anything: their outputs are ``Mixed``.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch

from tui_profiler.probe.cost.call import Call, tensors_in
from tui_profiler.probe.torch_compat import internals
from tui_profiler.probe.trace.recorder import Recorder
from tui_profiler.system import real_time as time

_Positions: TypeAlias = tuple[object, ...]
"""What tells one tensor of positions from another."""


class Whole(NamedTuple):
    """All items along the axis; ``order`` tells by which positions they were selected."""

    order: _Positions | None = None


class Item(NamedTuple):
    """What was taken out at one place of the axis."""

    place: int


class Lost(NamedTuple):
    """Computed of the items, without the axis."""


class Mixed(NamedTuple):
    """Computed of several items."""

    operator: str
    """That combined them."""


State: TypeAlias = Whole | Item | Lost | Mixed | None
"""None: it does not depend on the items."""

_KNOWN_LIBRARIES = frozenset(
    {"aten", "prims", "prim", "higher_order", "torchvision", "quantized", "mkldnn", "onednn"}
)
_MAKES_NEW = ("_like", "new_")
_KEEPS_PLACES = frozenset(
    {
        "aten::cat",
        "aten::gather",
        "aten::index_select",
        "aten::select",
        "aten::slice",
        "aten::squeeze",
        "aten::stack",
        "aten::unsqueeze",
        "aten::index_add",
        "aten::index_copy",
        "aten::index_fill",
        "aten::scatter",
        "aten::scatter_add",
        "aten::scatter_reduce",
    }
)
"""Operators with an argument ``dim`` that compute nothing along it, or that have a rule here."""
_FIRST_AXIS = (
    "conv",
    "pool",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "upsample",
    "grid_sampl",
    "reflection_pad",
    "replication_pad",
    "im2col",
    "col2im",
    "pixel_",
    "channel_shuffle",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
)
"""In names of operators whose items lie along the first axis."""
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "_rnn")
_ATTENTION = ("scaled_dot_product", "flash_attention", "efficient_attention", "flex_attention")
_CONTRACTED = {
    "aten::mm": ("self", "mat2"),
    "aten::bmm": ("self", "mat2"),
    "aten::addmm": ("mat1", "mat2"),
    "aten::baddbmm": ("batch1", "batch2"),
    "aten::matmul": ("self", "other"),
    "aten::_int_mm": ("self", "mat2"),
    "aten::addbmm": ("batch1", "batch2"),
    "aten::mv": ("self", "vec"),
    "aten::dot": ("self", "tensor"),
}
_PUTS_BACK = ("index_add", "index_copy", "scatter", "index_put", "index_fill", "masked_scatter")


class TooLongError(Exception):
    """Following takes longer than it may."""


class ItemFlow(Recorder):  # type: ignore[no-untyped-call] # torch has no types here
    """Follows the items; ``size`` divides no size of the forward but those of their axis."""

    size = 1
    until = float("inf")
    """Of ``time.perf_counter``."""

    def follow(self, size: int, until: float, inputs: Sequence[torch.Tensor]) -> None:
        """Begin with these inputs: those with the axis are the items."""
        self.size, self.until = size, until
        self._states: dict[int, State] = {}
        self._written: dict[int, State] = {}
        """By storage, of what was written through a view."""
        self._filled: set[int] = set()
        """Storages into which items were written through views, one by one."""
        self._kept: list[torch.Tensor] = []
        """Or another tensor would have its ``id``, and its storage; fake ones take no memory."""
        for tensor in inputs:
            self._set(tensor, Whole() if self._axes(tensor) else None)

    def state_of(self, tensor: torch.Tensor) -> State:
        """Return what a tensor was computed of."""
        state = self._states.get(id(tensor))
        if isinstance(state, Mixed) or not (self._written or self._filled):
            return state
        key = internals.storage_key(tensor)
        if key is None:
            return state
        state = _worse(state, self._written.get(key))
        if state is None and key in self._filled:
            return Whole() if self._axes(tensor) else Lost()
        return state

    def has_axis(self, tensor: torch.Tensor) -> bool:
        """Tell whether the axis is there, once."""
        return len(self._axes(tensor)) == 1

    def _axes(self, tensor: torch.Tensor) -> tuple[int, ...]:
        return tuple(
            axis
            for axis, size in enumerate(tensor.shape)
            if isinstance(size, int) and size and size % self.size == 0
        )

    def _set(self, tensor: torch.Tensor, state: State) -> None:
        self._states[id(tensor)] = state
        self._kept.append(tensor)

    def _record(
        self,
        operator: internals.Operator,
        call: Call,
        written: list[torch.Tensor],
        result: object,
        key: object = None,
    ) -> None:
        if time.perf_counter() > self.until:
            raise TooLongError
        outputs = tensors_in(result)
        self.lifetimes.add(self._stack.places.root, tuple(outputs), None)
        states = self._computed(call, outputs)
        for output, state in zip(outputs, states, strict=True):
            self._set(output, state)
        for tensor in written:
            self._write(tensor, call, outputs, states)

    def _write(
        self, tensor: torch.Tensor, call: Call, outputs: list[torch.Tensor], states: list[State]
    ) -> None:
        """Take note of what an operator wrote into, where others see it through other views."""
        state = states[0] if states else self._state(call, tensor)
        key = internals.storage_key(tensor)
        if key is not None and isinstance(state, Item):
            self._filled.add(key)
        elif key is not None and state is not None:
            self._written[key] = _worse(self._written.get(key), state)
        self._set(tensor, state)

    def _computed(self, call: Call, outputs: list[torch.Tensor]) -> list[State]:
        name = call.signature.name
        base = name.removesuffix("_")
        reads = call.tensors()
        found = [self.state_of(tensor) for tensor in reads]
        if any(part in name for part in _MAKES_NEW) or all(state is None for state in found):
            # What is made of no item may have the size of the axis: positions, a mask.
            return [None] * len(outputs)
        mixed = next((state for state in found if isinstance(state, Mixed)), None)
        if mixed is not None:
            return [mixed] * len(outputs)
        if name.partition("::")[0] not in _KNOWN_LIBRARIES or self._combines(call, base, outputs):
            return [Mixed(name)] * len(outputs)
        if base in ("aten::select", "aten::slice"):
            return [self._taken_out(call, outputs[0], found[0])]
        if "split" in base or "chunk" in base or "unbind" in base:
            return self._taken_apart(call, outputs, found[0])
        if any(part in base for part in _PUTS_BACK):
            return [self._put_back(call, base, found)] * len(outputs)
        if base in ("aten::index", "aten::index_select", "aten::gather", "aten::masked_select"):
            return [self._selected(call, base, outputs[0])]
        return [self._together(name, reads, found, output) for output in outputs]

    def _state(self, call: Call, output: torch.Tensor) -> State:
        reads = call.tensors()
        found = [self.state_of(tensor) for tensor in reads]
        return self._together(call.signature.name, reads, found, output)

    def _together(
        self, name: str, reads: list[torch.Tensor], found: list[State], output: torch.Tensor
    ) -> State:
        """Return what an operator makes that treats all entries alike."""
        axes = self._axes(output)
        orders = {state.order for state in found if isinstance(state, Whole)}
        items = [state.place for state in found if isinstance(state, Item)]
        lost = any(
            isinstance(state, Lost) and tensor.numel() > 1
            for tensor, state in zip(reads, found, strict=True)
        )
        if len(axes) > 1:
            return Mixed(name)
        if lost and (axes or orders):
            return Mixed(name)
        if items and orders:
            # An item written over, or into, a whole: as ``x - x[0]``.
            return Mixed(name)
        if items:
            if len(set(items)) == 1:
                return Item(items[0]) if not axes else Mixed(name)
            is_whole = items == list(range(self.size)) and axes
            return Whole() if is_whole else Mixed(name) if axes else Lost()
        if not axes:
            return Lost()
        return Whole(next(iter(orders), None)) if len(orders) < 2 else Mixed(name)

    def _taken_out(self, call: Call, output: torch.Tensor, state: State) -> State:
        tensor = call.first()
        dim = _axis(call.get("dim"), tensor)
        if not isinstance(state, Whole) or dim not in self._axes(tensor) or state.order:
            return self._together(call.signature.name, [tensor], [state], output)
        is_one = call.signature.name == "aten::select"
        start = call.get("index" if is_one else "start")
        is_one = is_one or output.shape[dim] == 1
        if is_one and tensor.shape[dim] == self.size and isinstance(start, int | None):
            return Item((start or 0) % self.size)
        return state if self._axes(output) else Lost()

    def _taken_apart(self, call: Call, outputs: list[torch.Tensor], state: State) -> list[State]:
        tensor = call.first()
        dim = _axis(call.get("dim"), tensor)
        is_along = dim in self._axes(tensor) and isinstance(state, Whole) and state.order is None
        if is_along and len(outputs) == self.size:
            return [Item(place) for place in range(self.size)]
        return [
            self._together(call.signature.name, [tensor], [state], output) for output in outputs
        ]

    def _selected(self, call: Call, base: str, output: torch.Tensor) -> State:
        """Return what positions select: along the axis, the order is theirs from then on."""
        tensor = call.tensor("self")
        state, order = self.state_of(tensor), None
        is_of_several = isinstance(state, Lost) and tensor.numel() > 1
        if self._axes(output) and (is_of_several or isinstance(state, Item)):
            return Mixed(call.signature.name)
        for dim, index in self._indices(call, base, tensor):
            along = self.state_of(index)
            if isinstance(along, Whole):
                order = along.order
            if dim not in self._axes(tensor):
                continue
            if isinstance(along, Lost | Item) and index.numel() > 1:
                return Mixed(call.signature.name)
            if along is not None and isinstance(state, Whole):
                if state.order is not None or not self._axes(output):
                    return Mixed(call.signature.name) if self._axes(output) else Lost()
                return Whole(_positions(index))
        if len(self._axes(output)) > 1:
            return Mixed(call.signature.name)
        if not self._axes(output):
            return state if isinstance(state, Item) else Lost()
        return state if isinstance(state, Whole) else Whole(order)

    def _indices(
        self, call: Call, base: str, tensor: torch.Tensor
    ) -> list[tuple[int, torch.Tensor]]:
        if base in ("aten::index", "aten::index_put"):
            given = call.get("indices")
            found: list[tuple[int, torch.Tensor]] = []
            dim = 0
            for index in given if isinstance(given, list | tuple) else ():
                is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
                wide = index.dim() if is_mask else 1
                if index is not None:
                    found += [(dim + more, index) for more in range(wide)]
                dim += wide
            return found
        if base in ("aten::masked_select", "aten::masked_scatter"):
            mask = call.tensor("mask")
            return [(dim, mask) for dim in range(tensor.dim())]
        index = call.get("index")
        if not isinstance(index, torch.Tensor):
            return []
        return [(_axis(call.get("dim"), tensor), index)]

    def _put_back(self, call: Call, base: str, found: list[State]) -> State:
        """Return what is put together by positions: those that selected it, or fixed ones."""
        name, tensor = call.signature.name, call.tensor("self")
        source = next(
            (call.get(each) for each in ("source", "src", "values", "value") if call.has(each)),
            None,
        )
        of_source = self.state_of(source) if isinstance(source, torch.Tensor) else None
        many = isinstance(source, torch.Tensor) and source.numel() > 1
        order = of_source.order if isinstance(of_source, Whole) else None
        if isinstance(of_source, Lost | Item) and many and self._axes(tensor):
            return Mixed(name)
        for dim, index in self._indices(call, base, tensor):
            along = self.state_of(index)
            if dim not in self._axes(tensor):
                if along is not None and isinstance(along, Whole) and not self._axes(tensor):
                    return Lost()
                continue
            if along is None:
                # Places that are the same for any values, as ``arange``.
                if order is not None:
                    return Mixed(name)
                continue
            if of_source is not None and order != _positions(index):
                return Mixed(name)
            order = None
        if order is not None:
            return Mixed(name)
        return Whole() if self._axes(tensor) else Lost()

    def _combines(self, call: Call, base: str, outputs: list[torch.Tensor]) -> bool:
        """Tell whether an operator computes something along the axis, by its arguments."""
        name = base.rpartition("::")[2]
        if any(part in name for part in _RECURRENT):
            return self._is_recurrence_over_items(call, name)
        if any(part in name for part in _ATTENTION):
            given = [t for t in call.tensors()[:3] if t.dim() > 2]
            return any(axis >= t.dim() - 2 for t in given for axis in self._axes(t))
        if any(part in name for part in _FIRST_AXIS):
            return self._is_beside_first_axis(call)
        if base in _CONTRACTED:
            left, right = (call.tensor(each) for each in _CONTRACTED[base])
            along = right.dim() - 2 if right.dim() > 1 else 0
            return left.dim() - 1 in self._axes(left) or along in self._axes(right)
        if base in _KEEPS_PLACES:
            return False
        if call.has("normalized_shape"):
            normed = call.first()
            inner = normed.dim() - len(call.numbers("normalized_shape"))
            return any(axis >= inner for axis in self._axes(normed))
        return self._is_along_items(call, outputs)

    def _is_along_items(self, call: Call, outputs: list[torch.Tensor]) -> bool:
        """Tell whether an operator keeps the axis, and computes along it, as a softmax does."""
        dims = call.get("dim") if call.has("dim") else call.get("dims")
        given = call.first()
        if not isinstance(dims, int | list | tuple):
            return False
        if "sort" in call.signature.name and given.dim() == 1 and not given.is_floating_point():
            return False  # Lengths, to pack sequences by.
        along = {_axis(dim, given) for dim in ([dims] if isinstance(dims, int) else dims)}
        same = (
            any(output.shape == given.shape for output in outputs) or "fft" in call.signature.name
        )
        return same and not along.isdisjoint(self._axes(given))

    def _is_recurrence_over_items(self, call: Call, name: str) -> bool:
        given = call.first()
        if "cell" in name or given.dim() < 3:
            return False
        # oneDNN's is given time first, whatever the module is.
        is_batch_first = call.flag("batch_first") and not name.startswith("mkldnn")
        return any(axis != (0 if is_batch_first else 1) for axis in self._axes(given))

    def _is_beside_first_axis(self, call: Call) -> bool:
        given = call.first()
        if "batch_norm" in call.signature.name and self._axes(given) == (1,):
            return False  # Channels are normalised each by itself: instances, as torch has them.
        groups = call.get("groups")
        if isinstance(groups, int) and groups % self.size == 0:
            return any(axis != 1 for axis in self._axes(given))  # A kernel for each item.
        return any(axis != 0 for axis in self._axes(given))


def _axis(dim: object, tensor: torch.Tensor) -> int:
    number = dim if isinstance(dim, int) else 0
    return number % max(tensor.dim(), 1)


def _positions(index: torch.Tensor) -> _Positions:
    return (internals.storage_key(index), index.storage_offset(), *index.shape)


def _worse(one: State, other: State) -> State:
    for kind in (Mixed, Lost):
        for state in (one, other):
            if isinstance(state, kind):
                return state
    return one if one is not None else other
