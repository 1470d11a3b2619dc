"""Subjects of an analysis: the tensors of a loaded model, or of a file of parameters."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.parameter import is_lazy

from tui_profiler.archive import Found, TensorEntry
from tui_profiler.messages.parameters import TensorStatistics
from tui_profiler.probe.load.files import parameters_tree
from tui_profiler.probe.parameters.values import MOST_WHOLE_BYTES, InFile, InMemory, Values, reach
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.internals import children_of, storage_key
from tui_profiler.probe.trace.tree.growing_tree import joined
from tui_profiler.probe.trace.tree.tensors import dtype_name
from tui_profiler.probe.trace.tree.weights import Key, own_tensors, packed_tensors, weight_key


@dataclass(frozen=True)
class Subject:
    """A tensor, and access to its values."""

    told: TensorStatistics
    """What is known without its values."""
    values: Callable[[], Values] | None
    """Returns access to the values; None where there are none."""
    heads: int = 0
    """Heads of its attention; 0 elsewhere or where not known."""
    why_none: str = ""
    """Why there are no values."""
    version: Callable[[], int] = lambda: 0
    """Counts writes by the program."""

    def open(self) -> Values:
        """Return access to the values, which exist."""
        assert self.values is not None
        return self.values()


_MOST_ALIGNMENT = 4096


def alignment_of(place: int) -> int:
    """Return the largest power of two, up to a page, that divides an address or an offset."""
    return min(place & -place, _MOST_ALIGNMENT) if place else _MOST_ALIGNMENT


def is_under(name: str, under: str) -> bool:
    """Return whether a full name is below a part of the model."""
    return not under or name == under or name.startswith(f"{under}.")


_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
"""Attributes for the number of heads in torch, timm and transformers."""
_MOST_HEADS = 4096
_TOGETHER = frozenset({"qkv", "wqkv"})
_APART = frozenset({"q", "k", "v", "query", "key", "value", "wq", "wk", "wv"})


def subjects_of_model(model: torch.nn.Module) -> list[Subject]:
    """Return every tensor of a model's modules, in the order of its tree.

    A module in several places counts at its first.
    """
    first: dict[Key, str] = {}
    found: list[Subject] = []
    seen: set[int] = set()
    pending: list[tuple[str, torch.nn.Module, int]] = [("", model, 0)]
    while pending:
        path, module, heads_above = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        heads = _heads_of(module)
        for name, tensor, is_buffer in (*own_tensors(module), *packed_tensors(module)):
            full_name = joined(path, name)
            key: Key = (id(tensor),) if is_lazy(tensor) else weight_key(tensor)
            known = first.setdefault(key, full_name)
            shared_with = "" if known == full_name else known
            in_rows = _heads_in_rows(full_name, tensor, heads or heads_above)
            found.append(_in_model(path, full_name, tensor, is_buffer, shared_with, in_rows))
        children = children_of(module) or {}
        pending.extend(
            (joined(path, name), child, heads)
            for name, child in reversed(list(children.items()))
            if child is not None
        )
    return found


def _heads_of(module: torch.nn.Module) -> int:
    """Return the heads of an attention; 0 for other modules."""
    named = (vars(module).get(name) for name in _HEADS)
    return next((one for one in named if type(one) is int and 1 < one <= _MOST_HEADS), 0)


def _heads_in_rows(name: str, tensor: torch.Tensor, heads: int) -> int:
    """Return the number of heads in the rows of a projection; 0 for other tensors."""
    if not heads or tensor.dim() != 2:
        return 0
    parts = set(re.split(r"[._]", name.lower()))
    together = bool(parts & _TOGETHER) or "in_proj" in name or "c_attn" in name
    if not together and not parts & _APART:
        return 0
    of_all = 3 * heads if together else heads
    return of_all if tensor.shape[0] % of_all == 0 else 0


def _in_model(
    owner: str, name: str, tensor: torch.Tensor, is_buffer: bool, shared_with: str, heads: int
) -> Subject:
    why_none = _why_none_in_memory(tensor)
    size = 0 if is_lazy(tensor) else tensor.numel() * tensor.element_size()
    storage = size
    alignment = 0
    if not why_none and storage_key(tensor) is not None:
        storage = tensor.untyped_storage().nbytes()
        alignment = alignment_of(tensor.data_ptr())
    told = TensorStatistics(
        owner=writable(owner),
        name=writable(name),
        shape=() if is_lazy(tensor) else tuple(tensor.shape),
        dtype=dtype_name(tensor.dtype),
        bytes=min(size, storage),
        storage_bytes=storage,
        alignment=alignment,
        is_buffer=is_buffer,
        is_contiguous=not why_none and tensor.is_contiguous(),
        shared_with=writable(shared_with),
    )
    return Subject(
        told,
        values=None if why_none else partial(_values_of, tensor),
        heads=heads,
        why_none=why_none,
        version=lambda: 0 if why_none or tensor.is_inference() else tensor._version,
    )


def _values_of(tensor: torch.Tensor) -> Values:
    """Return access to the values; a quantised tensor is dequantised into a copy."""
    return InMemory(tensor.dequantize() if tensor.is_quantized else tensor)


def _why_none_in_memory(tensor: torch.Tensor) -> str:
    """Return why the values cannot be read; empty where they can."""
    if is_lazy(tensor):
        return "not initialised before the first forward"
    if tensor.device.type == "meta":
        return "on meta, without values"
    if tensor.layout != torch.strided:
        return f"its layout is {str(tensor.layout).removeprefix('torch.')}"
    if tensor.is_quantized and 4 * tensor.numel() > MOST_WHOLE_BYTES:
        return "quantised, with too many values to dequantise"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"{type(tensor).__name__} does not expose the layout of its values"
    return ""


class FileSubjects:
    """Tensors of a file, which stays open until ``close``."""

    def __init__(self, found: Found) -> None:
        self._descriptors: dict[str, int] = {}
        self.subjects: list[Subject] = []
        """In the order of the file."""
        shared = _second_names(found)
        for entry in found.tensors:
            self.subjects.append(self._subject(entry, shared.get(entry.name, "")))

    def close(self) -> None:
        """Close the files; can be called twice."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _subject(self, entry: TensorEntry, shared_with: str) -> Subject:
        owner = entry.name.rpartition(".")[0]
        why_none = _why_none_in_file(entry)
        told = TensorStatistics(
            owner=writable(owner),
            name=writable(entry.name),
            shape=entry.shape,
            dtype=writable(entry.dtype),
            bytes=min(entry.bytes, entry.storage_bytes),
            storage_bytes=entry.storage_bytes,
            alignment=0 if entry.offset is None else alignment_of(entry.offset),
            is_buffer=parameters_tree.is_buffer(entry),
            is_contiguous=entry.is_contiguous,
            shared_with=writable(shared_with),
        )
        values = None if why_none else partial(self._values, entry)
        return Subject(told, values, why_none=why_none)

    def _values(self, entry: TensorEntry) -> Values:
        assert entry.offset is not None
        dtype = getattr(torch, entry.dtype)
        descriptor = self._descriptor(entry.file)
        if entry.is_contiguous:
            return InFile(descriptor, entry.offset, dtype, entry.shape)
        return _with_strides(descriptor, entry.offset, dtype, entry.shape, entry.strides)

    def _descriptor(self, file: str) -> int:
        # Two threads may open it: the second one is closed again.
        if file not in self._descriptors:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            if self._descriptors.setdefault(file, descriptor) != descriptor:
                os.close(descriptor)
        return self._descriptors[file]


def _with_strides(
    descriptor: int, offset: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
) -> InMemory:
    """Read a non-contiguous tensor, whole; its end was checked with the file's headers."""
    flat = InFile(descriptor, offset, dtype, (1, reach(shape, strides))).block(0, 1).view(-1)
    return InMemory(flat.as_strided(tuple(shape), tuple(strides)))


def _why_none_in_file(entry: TensorEntry) -> str:
    if entry.offset is None:
        return "its values are not stored plainly in the file"
    if not isinstance(getattr(torch, entry.dtype, None), torch.dtype):
        return f"torch has no dtype {writable(entry.dtype)}"
    if not entry.is_contiguous and entry.storage_bytes > MOST_WHOLE_BYTES:
        return "not contiguous, with too many values to read at once"
    return ""


def _second_names(found: Found) -> dict[str, str]:
    """Return the first name of each tensor that is stored under a second name."""
    return {
        (f"{part.path}.{weight.name}" if part.path else weight.name): weight.shared_with
        for part in parameters_tree.parts_of(found, "")
        for weight in part.weights
        if weight.shared_with
    }
