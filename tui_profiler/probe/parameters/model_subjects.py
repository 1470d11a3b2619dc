"""The parameters and buffers of a loaded model, as what is to be looked at."""

from __future__ import annotations

from functools import partial

import torch

from tui_profiler.probe.parameters.subject import Subject, alignment_of
from tui_profiler.probe.parameters.values import InMemory
from tui_profiler.probe.torch_internals import children_of, storage_key
from tui_profiler.probe.trace.places import joined
from tui_profiler.probe.trace.tensors import dtype_name
from tui_profiler.probe.trace.weights import Key, own_tensors, packed_tensors, weight_key
from tui_profiler.probe.writable import writable


def subjects_of_model(model: torch.nn.Module) -> list[Subject]:
    """Give every tensor that a model's modules own, in the order of its tree.

    A module in several places is taken at its first.
    """
    first: dict[Key, str] = {}
    found: list[Subject] = []
    seen: set[int] = set()
    pending: list[tuple[str, torch.nn.Module]] = [("", model)]
    while pending:
        path, module = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        for name, tensor, is_buffer in (*own_tensors(module), *packed_tensors(module)):
            full_name = joined(path, name)
            known = first.setdefault(weight_key(tensor), full_name)
            shared_with = "" if known == full_name else known
            found.append(_subject(path, full_name, tensor, is_buffer, shared_with))
        children = children_of(module) or {}
        pending.extend(
            (joined(path, name), child)
            for name, child in reversed(list(children.items()))
            if child is not None
        )
    return found


def _subject(
    owner: str, name: str, tensor: torch.Tensor, is_buffer: bool, shared_with: str
) -> Subject:
    why_none = _why_none(tensor)
    values = tensor.numel() * tensor.element_size()
    storage = values
    alignment = 0
    if not why_none and storage_key(tensor) is not None:
        storage = tensor.untyped_storage().nbytes()
        alignment = alignment_of(tensor.data_ptr())
    return Subject(
        owner=writable(owner),
        name=writable(name),
        shape=tuple(tensor.shape),
        dtype=dtype_name(tensor.dtype),
        bytes=min(values, storage),
        storage_bytes=storage,
        alignment=alignment,
        is_buffer=is_buffer,
        is_contiguous=not why_none and tensor.is_contiguous(),
        shared_with=writable(shared_with),
        values=None if why_none else partial(InMemory, tensor),
        why_none=why_none,
    )


def _why_none(tensor: torch.Tensor) -> str:
    """Give why a tensor has no plain values; empty where it has."""
    if torch.nn.parameter.is_lazy(tensor):
        return "it is not initialised before the first forward"
    if tensor.device.type == "meta":
        return "it is on meta, without values"
    if tensor.layout != torch.strided:
        return f"its layout is {str(tensor.layout).removeprefix('torch.')}"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"{type(tensor).__name__} does not tell how its values lie"
    return ""
