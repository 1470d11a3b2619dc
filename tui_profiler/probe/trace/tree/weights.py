"""Parameters and buffers of the places: who owns them, who shares them."""

from collections.abc import Iterator, Mapping, Sequence

import torch

from tui_profiler.messages import Weight
from tui_profiler.probe.cost.rollup import ParameterOwners
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.process.yielding import rest
from tui_profiler.probe.torch_compat.internals import (
    buffers_of,
    parameters_of,
    storage_key,
    stored_bytes,
    stored_in,
)
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.tree.growing_tree import Place, joined
from tui_profiler.probe.trace.tree.tensors import dtype_name

Key = tuple[object, ...]
"""What tells one weight from another: the part of a storage that it covers."""


def own_tensors(module: torch.nn.Module) -> Sequence[tuple[str, torch.Tensor, bool]]:
    """Return (name, tensor, whether it is a buffer) of what a module owns itself."""
    parameters, buffers = parameters_of(module), buffers_of(module)
    if not parameters and not buffers:
        return ()  # most of 100,000 modules, asked several times
    held: tuple[tuple[Mapping[str, torch.Tensor | None], bool], ...] = (
        (parameters, False),
        (buffers, True),
    )
    return [
        (name, tensor, is_buffer)
        for tensors, is_buffer in held
        for name, tensor in tensors.items()
        if tensor is not None
    ]


def held_tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield every parameter and buffer; one that two modules share twice."""
    for module in each_module(model):
        yield from (tensor for _, tensor, _ in own_tensors(module))


def stored_tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield likewise the tensors that they are stored in."""
    yield from (part for tensor in held_tensors(model) for part in stored_in(tensor))


def packed_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """Yield likewise what a quantised module packed away for its operator, unpacked: copies."""
    packed = vars(module).get("_packed_params")
    if not isinstance(packed, torch.ScriptObject) or not hasattr(packed, "unpack"):
        return
    for name, tensor in zip(("weight", "bias"), packed.unpack(), strict=False):
        if isinstance(tensor, torch.Tensor):
            yield name, tensor, False


def packed_bytes(model: torch.nn.Module) -> int:
    """Count the bytes of what is packed away, as it is unpacked."""
    packed = (part for module in each_module(model) for part in packed_tensors(module))
    return sum(tensor.numel() * tensor.element_size() for _, tensor, _ in packed)


def weight_key(tensor: torch.Tensor) -> Key:
    """Identify what a weight covers; one without a storage is itself."""
    storage = storage_key(tensor)
    if storage is None:
        return (id(tensor),)
    return (storage, tensor.storage_offset(), *tensor.shape)


_REGISTERED = frozenset({"_parameters", "_buffers", "_modules"})
MOST_KEPT_LEVELS = 3
"""Of containers in each other in an attribute."""
MOST_KEPT_ITEMS = 10_000


class Weights:
    """The weights of a tree, with the nodes that hold each."""

    def __init__(self, places: list[Place]) -> None:
        """Take the places in preorder: the first owner of a weight names it."""
        self.of_place: list[tuple[Weight, ...]] = []
        self._first: dict[Key, str] = {}
        self._holders: dict[Key, list[int]] = {}
        self._parameters: dict[Key, torch.Tensor] = {}
        self._trained: set[Key] = set()
        """Two parameters may share a storage, and only one of them be frozen: it changes."""
        self._unpacked: dict[int, list[tuple[str, torch.Tensor, bool]]] = {}
        for index, place in enumerate(places):
            rest()
            module = place.module
            self.of_place.append(() if module is None else self._owned(place, module))
            if module is not None and place.is_registered:
                self._hold(index, place, module)

    def held(self) -> list[ParameterOwners]:
        """Return every parameter with the nodes that hold it."""
        return [
            ParameterOwners(
                self._parameters[key].numel(),
                stored_bytes(self._parameters[key]),
                tuple(nodes),
                key in self._trained,
            )
            for key, nodes in self._holders.items()
        ]

    def _owned(self, place: Place, module: torch.nn.Module) -> tuple[Weight, ...]:
        found = []
        for name, tensor, is_buffer in self._tensors(module):
            full_name = joined(place.path, name)
            first = self._first.setdefault(weight_key(tensor), full_name)
            found.append(
                Weight(
                    name=writable(name),
                    shape=tuple(tensor.shape),
                    dtype=dtype_name(_stored_dtype(tensor)),
                    bytes=stored_bytes(tensor),
                    is_buffer=is_buffer,
                    shared_with="" if first == full_name else writable(first),
                    requires_grad=tensor.requires_grad,
                )
            )
        return tuple(found)

    def _hold(self, index: int, place: Place, module: torch.nn.Module) -> None:
        """A place that was not expanded stands for everything below it."""
        for inner in (module,) if place.is_expanded else each_module(module):
            for _, tensor, is_buffer in self._tensors(inner):
                if not is_buffer:
                    key = weight_key(tensor)
                    self._parameters[key] = tensor
                    if tensor.requires_grad:
                        self._trained.add(key)
                    nodes = self._holders.setdefault(key, [])
                    if not nodes or nodes[-1] != index:
                        nodes.append(index)

    def _tensors(self, module: torch.nn.Module) -> list[tuple[str, torch.Tensor, bool]]:
        """Unpacked once: each time makes other copies, and a weight is told by where it is."""
        if id(module) not in self._unpacked:
            self._unpacked[id(module)] = list(packed_tensors(module))
        return [*own_tensors(module), *self._unpacked[id(module)]]


def weight_storages(model: torch.nn.Module) -> tuple[dict[int, int], dict[int, int]]:
    """Return the bytes of each storage of parameters, and of each that only buffers are in."""
    parameters: dict[int, int] = {}
    buffers: dict[int, int] = {}
    for module in each_module(model):
        for _, tensor, is_buffer in own_tensors(module):
            for part in stored_in(tensor):
                key = storage_key(part)
                if key is not None:
                    sizes = buffers if is_buffer else parameters
                    sizes[key] = part.untyped_storage().nbytes()
    return parameters, {key: size for key, size in buffers.items() if key not in parameters}


def kept_tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return the tensors that modules keep as plain attributes: caches that are not buffers."""
    found: list[torch.Tensor] = []
    for module in each_module(model):
        attributes = getattr(module, "__dict__", {})
        for name, value in list(attributes.items()):
            if name not in _REGISTERED:
                _collect(value, found, MOST_KEPT_LEVELS)
    return found


def held_bytes(model: torch.nn.Module) -> int:
    """Return the bytes of the storages that live between forwards, each once."""
    parameters, buffers = weight_storages(model)
    storages = {**parameters, **buffers}
    for tensor in kept_tensors(model):
        for part in stored_in(tensor):
            key = storage_key(part)
            if key is not None:
                storages.setdefault(key, part.untyped_storage().nbytes())
    return sum(storages.values())


def _stored_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Return the dtype of the values in memory: int8 of weights that pass for float32."""
    if tensor.layout is not torch.strided:
        return tensor.dtype
    parts = stored_in(tensor)
    return max(parts, key=stored_bytes).dtype if parts else tensor.dtype


def _collect(value: object, found: list[torch.Tensor], levels: int) -> None:
    """Add the tensors in a value; containers are looked into, objects are not."""
    if isinstance(value, torch.Tensor):
        if not torch.nn.parameter.is_lazy(value):
            found.append(value)
    elif levels and isinstance(value, dict | list | tuple):
        inside = list(dict.values(value)) if isinstance(value, dict) else list(value)
        for item in inside[:MOST_KEPT_ITEMS]:
            _collect(item, found, levels - 1)
