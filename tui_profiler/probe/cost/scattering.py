"""FLOP of operators that add or compare values at chosen places.

The places are integers and cost nothing; each value that is put together with another one is one
addition, comparison or multiplication. An overwriting ``scatter`` only moves: 0.
"""

from __future__ import annotations

import torch

from tui_profiler.probe.cost.arithmetic import ARITHMETIC
from tui_profiler.probe.cost.call import Call


@ARITHMETIC.register("aten::scatter_add", "aten::scatter_reduce", "aten::scatter")
def _scattered(call: Call) -> int:
    """``index`` tells how many elements of ``src`` are taken."""
    is_combined = call.signature.name != "aten::scatter" or call.has("reduce")
    return call.elements("index") if is_combined and call.is_floating() else 0


@ARITHMETIC.register("aten::index_add", "aten::index_reduce")
def _indexed(call: Call) -> int:
    return call.elements("source") if call.is_floating() else 0


@ARITHMETIC.register(
    "aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index_put", "aten::put"
)
def _put(call: Call) -> int:
    """Adds only when told to. A value for all places (no axes) is added at each of them."""
    if not call.flag("accumulate") or not call.is_floating():
        return 0
    values = call.get("values") if call.has("values") else call.get("source")
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"{call.signature.name}: its values are not a tensor")
    indices = call.get("indices")
    found = [i for i in indices if i is not None] if isinstance(indices, list | tuple) else []
    places = max((index.numel() for index in found), default=1)
    return max(values.numel(), places)


@ARITHMETIC.register("aten::segment_reduce")
def _segments(call: Call) -> int:
    return call.elements("data")


@ARITHMETIC.register("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def _bags(call: Call) -> int:
    """Rows added up (or compared); with a weight each, that is already a multiply-accumulate."""
    if call.has("per_sample_weights"):
        return 0
    return call.elements("indices") * call.shape("weight")[-1]


@ARITHMETIC.register("aten::embedding_renorm")
def _renormed_rows(call: Call) -> int:
    """Norm (2) and scale (1) of every row looked up; a bound, as rows repeat and few are scaled."""
    return 3 * call.elements("indices") * call.shape("self")[-1]
