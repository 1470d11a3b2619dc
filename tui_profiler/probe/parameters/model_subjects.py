"""The parameters and buffers of a loaded model, as what is to be looked at."""

from __future__ import annotations

import re
from functools import partial

import torch
from torch.nn.parameter import is_lazy

from tui_profiler.probe.parameters.values import (
    MOST_WHOLE_BYTES,
    InMemory,
    Subject,
    Values,
    alignment_of,
)
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.internals import children_of, storage_key
from tui_profiler.probe.trace.tree.growing_tree import joined
from tui_profiler.probe.trace.tree.tensors import dtype_name
from tui_profiler.probe.trace.tree.weights import Key, own_tensors, packed_tensors, weight_key

_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
"""Attributes by which attentions of torch, timm and transformers name their heads."""
_MOST_HEADS = 4096
_TOGETHER = frozenset({"qkv", "wqkv"})
_APART = frozenset({"q", "k", "v", "query", "key", "value", "wq", "wk", "wv"})


def subjects_of_model(model: torch.nn.Module) -> list[Subject]:
    """Return every tensor that a model's modules own, in the order of its tree.

    A module in several places is taken at its first.
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
            found.append(_subject(path, full_name, tensor, is_buffer, shared_with, in_rows))
        children = children_of(module) or {}
        pending.extend(
            (joined(path, name), child, heads)
            for name, child in reversed(list(children.items()))
            if child is not None
        )
    return found


def _heads_of(module: torch.nn.Module) -> int:
    """Return the heads of an attention; 0 where a module names none."""
    named = (vars(module).get(name) for name in _HEADS)
    return next((one for one in named if type(one) is int and 1 < one <= _MOST_HEADS), 0)


def _heads_in_rows(name: str, tensor: torch.Tensor, heads: int) -> int:
    """Return how many heads the rows of a projection are divided into; 0 where they are not."""
    if not heads or tensor.dim() != 2:
        return 0
    parts = set(re.split(r"[._]", name.lower()))
    together = bool(parts & _TOGETHER) or "in_proj" in name or "c_attn" in name
    if not together and not parts & _APART:
        return 0
    of_all = 3 * heads if together else heads
    return of_all if tensor.shape[0] % of_all == 0 else 0


def _subject(
    owner: str, name: str, tensor: torch.Tensor, is_buffer: bool, shared_with: str, heads: int
) -> Subject:
    why_none = _why_none(tensor)
    values = 0 if is_lazy(tensor) else tensor.numel() * tensor.element_size()
    storage = values
    alignment = 0
    if not why_none and storage_key(tensor) is not None:
        storage = tensor.untyped_storage().nbytes()
        alignment = alignment_of(tensor.data_ptr())
    return Subject(
        owner=writable(owner),
        name=writable(name),
        shape=() if is_lazy(tensor) else tuple(tensor.shape),
        dtype=dtype_name(tensor.dtype),
        bytes=min(values, storage),
        storage_bytes=storage,
        alignment=alignment,
        is_buffer=is_buffer,
        is_contiguous=not why_none and tensor.is_contiguous(),
        shared_with=writable(shared_with),
        values=None if why_none else partial(_values, tensor),
        heads=heads,
        why_none=why_none,
    )


def _values(tensor: torch.Tensor) -> Values:
    """Return access to the values; to those that a quantised tensor stands for, as a copy."""
    return InMemory(tensor.dequantize() if tensor.is_quantized else tensor)


def _why_none(tensor: torch.Tensor) -> str:
    """Return why a tensor has no plain values; empty where it has."""
    if is_lazy(tensor):
        return "it is not initialised before the first forward"
    if tensor.device.type == "meta":
        return "it is on meta, without values"
    if tensor.layout != torch.strided:
        return f"its layout is {str(tensor.layout).removeprefix('torch.')}"
    if tensor.is_quantized and 4 * tensor.numel() > MOST_WHOLE_BYTES:
        return "it is quantised, and has too many values to be copied"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"{type(tensor).__name__} does not tell how its values lie"
    return ""
