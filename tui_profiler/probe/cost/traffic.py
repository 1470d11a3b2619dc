"""Bytes that one operator call reads and writes.

1. Every tensor argument is read once and every output is written once, whatever the caches do; the
   same tensor passed twice is read once. It is what the operator must move if nothing is kept.
2. A view moves nothing, nor does an output that is its input under another shape.
3. A tensor has as many bytes as its elements, but not more than its storage: an expanded axis is
   read once.
4. In place: the tensor is read and written. What is only overwritten (``copy_``, ``fill_``,
   ``zero_``, random filling) is not read. An allocation without values (``empty``) moves nothing.
5. Looking up rows (``embedding``, ``index_select``, ``gather`` …) reads as much of the table as it
   gives out, not the whole table, and a bag of rows (``embedding_bag``) the rows in it; writing
   some elements (``index_put_``, ``scatter_``) writes as many bytes as the values have.
6. Parameters and buffers, and views of them, are weights; everything else read is an activation.
   Weights that a quantised operator is passed packed are read as large as they are unpacked.
7. A sparse tensor has the bytes of its indices and values; one that wraps others has theirs.
"""

from collections.abc import Container, Iterator

import torch

from tui_profiler.probe.cost.call import Call, Signature, tensors_in
from tui_profiler.probe.torch_compat.internals import storage_key, stored_bytes, stored_in


def _named(names: str, ending: str = "") -> frozenset[str]:
    return frozenset(f"aten::{name}{ending}" for name in names.split())


_OVERWRITES = _named(
    "copy fill zero random uniform normal bernoulli exponential log_normal geometric cauchy", "_"
)
_ALLOCATES = _named(
    """empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ set_
    lift_fresh _efficientzerotensor _empty_affine_quantized"""
)
_LOOKS_AT_SHAPE = _named(
    """zeros_like ones_like full_like new_zeros new_ones new_full rand_like randn_like
    randint_like"""
)
_LOOKS_UP = {
    "aten::embedding": "weight",
    "aten::index": "self",
    "aten::_unsafe_index": "self",
    "aten::index_select": "self",
    "aten::gather": "self",
    "aten::take": "self",
}
_ADDS_UP_ROWS = _named("_embedding_bag _embedding_bag_forward_only")
_WRITES_SOME = {
    "aten::index_put_": "values",
    "aten::_index_put_impl_": "values",
    "aten::scatter_": "src",
    "aten::scatter_add_": "src",
    "aten::index_copy_": "source",
    "aten::index_add_": "source",
}


def bytes_moved(call: Call, weights: Container[int]) -> tuple[int, int, int]:
    """Return (activation bytes read, weight bytes read, bytes written)."""
    signature = call.signature
    if signature.is_view or signature.name in _ALLOCATES:
        return 0, 0, 0
    inputs = {id(tensor): tensor for tensor in call.tensors()}
    storages = {key: storage_key(tensor) for key, tensor in inputs.items()}
    written = _written_bytes(call, {key for key in storages.values() if key is not None})
    if written == 0 and call.outputs and not signature.written:
        return 0, 0, 0
    activations, weight = 0, _packed_bytes(call)
    for tensor in _read(call, inputs):
        if any(storage_key(part) in weights for part in stored_in(tensor)):
            weight += _bytes_read(call, tensor)
        else:
            activations += _bytes_read(call, tensor)
    return activations, weight, written


def _packed_bytes(call: Call) -> int:
    """Count the weights that a quantised operator is passed packed."""
    found = 0
    for value in call.args:
        if isinstance(value, torch.ScriptObject) and hasattr(value, "unpack"):
            parts = tensors_in(value.unpack())
            size = sum(map(stored_bytes, parts))
            is_table = "embedding" in call.signature.name and parts[0].shape[0]
            found += call.elements("indices") * (size // parts[0].shape[0]) if is_table else size
    return found


def _read(call: Call, inputs: dict[int, torch.Tensor]) -> Iterator[torch.Tensor]:
    signature = call.signature
    if signature.name in _LOOKS_AT_SHAPE:
        return
    unread = _unread_arguments(signature)
    skipped = {id(call.get(name)) for name in unread}
    yield from (tensor for key, tensor in inputs.items() if key not in skipped)


def _unread_arguments(signature: Signature) -> tuple[str, ...]:
    if signature.name in _OVERWRITES or signature.name in _WRITES_SOME:
        return signature.written
    return ("out",) if "out" in signature.written else ()


def _bytes_read(call: Call, tensor: torch.Tensor) -> int:
    table = _LOOKS_UP.get(call.signature.name)
    if table is not None and tensor is call.get(table):
        return min(_bytes_at_most_of_storage(tensor), stored_bytes(call.outputs[0]))
    if call.signature.name in _ADDS_UP_ROWS and tensor is call.get("weight"):
        rows = call.elements("indices") * tensor.shape[-1] * tensor.element_size()
        return min(_bytes_at_most_of_storage(tensor), rows)
    return _bytes_at_most_of_storage(tensor)


def _bytes_at_most_of_storage(tensor: torch.Tensor) -> int:
    if storage_key(tensor) is None:
        return stored_bytes(tensor)
    return min(stored_bytes(tensor), tensor.untyped_storage().nbytes())


def _written_bytes(call: Call, input_storages: set[int | None]) -> int:
    """Outputs in storages of their own, and what the schema says is written."""
    values = _WRITES_SOME.get(call.signature.name)
    if values is not None:
        return sum(stored_bytes(tensor) for tensor in tensors_in(call.get(values)))
    written = {id(t): t for name in call.signature.written for t in tensors_in(call.get(name))}
    total = sum(stored_bytes(tensor) for tensor in written.values())
    for output in call.outputs:
        if id(output) not in written and storage_key(output) not in input_storages:
            total += stored_bytes(output)
    return total
