"""TorchScript's operators on numbers, texts, lists and dictionaries, in Python.

They never reach the dispatcher, and lists must be changed in place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tui_profiler.probe.torch_compat.scripted import Node

Function = Callable[..., object]


def _raise(message: object = "", *_: object) -> object:
    raise RuntimeError(str(message))


def _set_item(holder: Any, key: Any, value: object) -> object:
    holder[key] = value
    return holder


def _insert(holder: list[object], index: int, value: object) -> None:
    holder.insert(index, value)


def _append(holder: list[object], value: object) -> list[object]:
    holder.append(value)
    return holder


def _delete(holder: Any, key: Any) -> None:
    del holder[key]


def _slice(
    holder: Sequence[object], start: int | None = None, end: int | None = None, step: int = 1
) -> Sequence[object]:
    return holder[start:end:step]


def _unchanged(value: object, *_: object) -> object:
    return value


def _smallest(*values: Any) -> object:
    return min(*values)


def _largest(*values: Any) -> object:
    return max(*values)


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


def _tensor(data: object, dtype: int | None, device: torch.device | None, *_: object) -> object:
    made = torch.tensor(data, device=device)
    return made if dtype is None else torch.ops.aten.to.dtype(made, dtype)


PLAIN: dict[str, Function] = {
    "Bool": bool,
    "Complex": complex,
    "Delete": _delete,
    "Float": float,
    "Int": int,
    "__and__": operator.and_,
    "__contains__": operator.contains,
    "__derive_index": lambda index, start, step: start + index * step,
    "__getitem__": lambda holder, key: holder[key],
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__lshift__": operator.lshift,
    "__not__": operator.not_,
    "__or__": operator.or_,
    "__range_length": _range_length,
    "__rshift__": operator.rshift,
    "__xor__": operator.xor,
    "_set_item": _set_item,
    "add": operator.add,
    "add_": lambda holder, more: holder.extend(more) or holder,
    "all": all,
    "any": any,
    "append": _append,
    "as_tensor": _tensor,
    "ceil": math.ceil,
    "clear": lambda holder: holder.clear(),
    "copy": lambda holder: holder.copy(),
    "count": lambda holder, value: holder.count(value),
    "device": torch.device,
    "dict": dict,
    "div": operator.truediv,
    "endswith": lambda text, end, *place: text.endswith(end, *place),
    "eq": operator.eq,
    "exp": math.exp,
    "extend": lambda holder, more: holder.extend(more),
    "fabs": math.fabs,
    "find": lambda text, part, *place: text.find(part, *place),
    "floor": math.floor,
    "floordiv": operator.floordiv,
    "format": lambda text, *values: text.format(*values),
    "ge": operator.ge,
    "get": lambda holder, key, default=None: holder.get(key, default),
    "gt": operator.gt,
    "index": lambda holder, value: holder.index(value),
    "insert": _insert,
    "is_autocast_cpu_enabled": lambda: False,
    "is_autocast_enabled": lambda: False,
    "is_grad_enabled": torch.is_grad_enabled,
    "is_scripting": lambda: True,
    "items": lambda holder: list(holder.items()),
    "join": lambda text, parts: text.join(parts),
    "keys": lambda holder: list(holder.keys()),
    "le": operator.le,
    "len": len,
    "list": list,
    "log": math.log,
    "log2": math.log2,
    "lower": lambda text: text.lower(),
    "lt": operator.lt,
    "mul": operator.mul,
    "ne": operator.ne,
    "neg": operator.neg,
    "pop": lambda holder, *key: holder.pop(*key),
    "pow": math.pow,
    "remainder": operator.mod,
    "replace": lambda text, old, new, *most: text.replace(old, new, *most),
    "reverse": lambda holder: holder.reverse(),
    "round": round,
    "setdefault": lambda holder, key, value: holder.setdefault(key, value),
    "slice": _slice,
    "sort": lambda holder, reverse=False: holder.sort(reverse=reverse),
    "sorted": sorted,
    "split": lambda text, *how: text.split(*how),
    "sqrt": math.sqrt,
    "startswith": lambda text, begin, *place: text.startswith(begin, *place),
    "str": str,
    "strip": lambda text, *what: text.strip(*what),
    "sub": operator.sub,
    "sum": sum,
    "tensor": _tensor,
    "update": lambda holder, more: holder.update(more),
    "upper": lambda text: text.upper(),
    "values": lambda holder: list(holder.values()),
}
"""``aten::`` operators none of whose arguments is a tensor, by name."""

READ: dict[str, Function] = {
    "aten::Bool.Tensor": bool,
    "aten::Float.Tensor": float,
    "aten::FloatImplicit": float,
    "aten::Int.Tensor": int,
    "aten::IntImplicit": int,
    "aten::ScalarImplicit": lambda tensor: tensor.item(),
    "aten::__contains__.list": operator.contains,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::item": lambda tensor: tensor.item(),
}
"""``aten::`` operators that read a number from a tensor, or compare objects."""

PRIM: dict[str, Function] = {
    "prim::RaiseException": _raise,
    "prim::Uninitialized": lambda: None,
    "prim::ListConstruct": lambda *values: list(values),
    "prim::ListUnpack": _unchanged,
    "prim::TupleConstruct": lambda *values: values,
    "prim::TupleIndex": lambda values, index: values[index],
    "prim::TupleUnpack": _unchanged,
    "prim::DictConstruct": lambda *flat: dict(zip(flat[::2], flat[1::2], strict=True)),
    "prim::abs": abs,
    "prim::data": lambda tensor: tensor.data,
    "prim::device": lambda tensor: tensor.device,
    "prim::dtype": torch.ops.prim.dtype.default,
    "prim::is_cuda": lambda tensor: tensor.is_cuda,
    "prim::is_nested": lambda tensor: tensor.is_nested,
    "prim::is_quantized": lambda tensor: tensor.is_quantized,
    "prim::layout": torch.ops.prim.layout.default,
    "prim::max": _largest,
    "prim::min": _smallest,
    "prim::NumToTensor": torch.ops.prim.NumToTensor.Scalar,
    "prim::requires_grad": lambda tensor: tensor.requires_grad,
    "prim::tolist": lambda tensor, *_: tensor.tolist(),
    "prim::type": lambda device: device.type,
    "prim::unchecked_cast": _unchanged,
    "prim::unchecked_unwrap_optional": _unchanged,
}


def function_on_values(node: Node, schema: torch.FunctionSchema | None) -> Function | None:
    """Return what carries out a node in Python; None where the dispatcher is to be called."""
    kind: str = node.kind()
    if kind.startswith("prim::"):
        return PRIM.get(kind)
    if schema is None:
        # ``aten::format`` and its like take any number of arguments.
        return PLAIN.get(kind.removeprefix("aten::")) if kind.startswith("aten::") else None
    known = READ.get(f"{kind}.{schema.overload_name}".rstrip("."))
    if known is not None:
        return known
    name = kind.removeprefix("aten::")
    if name not in PLAIN or not kind.startswith("aten::"):
        return None
    on_tensors = any("Tensor" in str(part.type) for part in schema.arguments)
    return None if on_tensors else PLAIN[name]
