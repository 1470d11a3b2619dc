"""Outputs of operators on fake tensors, looked up where the same call was answered before.

Equal blocks run the same operators on the same shapes: 126 layers of a Llama have the outputs of
one. torch computes each anew, for element-wise operators in Python: 0.1 to 0.4 ms. Here a call is
answered by its key, which is all that an output's shape, strides, dtype and device follow from: the
operator, of each tensor its shape, strides, dtype and device, and every other argument with its
type (``1`` is not ``1.0``).

1. Only operators of torch's own whose outputs are new tensors or the tensor written into, and whose
   shape does not depend on values: the schema and its tags say which. Views are not among them.
2. Only where a tensor is fake, and all that are stand for no known number; the others are dense and
   floating-point. What is written into is fake.
3. An answer is kept after torch gave it, and only if an empty tensor of its shape and strides has a
   storage as large. ``tests/probe/trace/fake/test_shape_cache.py`` holds the answers equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch

from tui_profiler.probe.torch_compat.internals import (
    FakeTensor,
    FakeTensorMode,
    Operator,
    OpOverload,
    fake_made,
    storage_key,
)

Key: TypeAlias = tuple[Hashable, ...]
"""What the shapes of a call's outputs follow from, and with them its arithmetic."""

_DENSE = frozenset({torch.Tensor, torch.nn.Parameter})
_PLAIN = frozenset(
    {
        *(type(None), bool, int, float, str),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    }
)
_DEPENDS_ON_MORE = frozenset(
    {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view}
)


class _Output(NamedTuple):
    """A new tensor to be."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def storage(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")


class _Answer(NamedTuple):
    """What a call returns: the tensor that it wrote into, or new ones."""

    outputs: tuple[_Output, ...]
    """Empty where it returns its first argument."""
    sequence: type[Any] | None
    """``list`` or ``tuple``; None where it returns one tensor."""


class ShapeCache:
    """The answers of one recording."""

    def __init__(self) -> None:
        self._mode: FakeTensorMode | None = None
        self._answers: dict[Key, _Answer] = {}

    @property
    def has_seen_fakes(self) -> bool:
        """Whether a fake tensor was among the arguments of any call."""
        return self._mode is not None

    def key(
        self, operator: Operator, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Key | None:
        """Return what the output of a call follows from; None where it has to be asked for."""
        if not _is_cacheable(operator):
            return None
        parts: list[Any] = [operator, torch.get_default_dtype(), len(args)]
        try:
            is_known = self._enter(args, parts)
            if kwargs:
                parts += kwargs
                is_known = self._enter(kwargs.values(), parts) and is_known
            return tuple(parts) if is_known and FakeTensor in parts else None
        except (RuntimeError, TypeError):
            return None  # a tensor without strides, or with a shape that is not of numbers

    def answer(self, key: Key | None, args: tuple[object, ...]) -> object | None:
        """Return the output of a call, new where the operator makes one; None: not known yet."""
        found = self._answers.get(key) if key is not None else None
        if found is None:
            return None
        if not found.outputs:
            return args[0]
        assert self._mode is not None
        made = [fake_made(self._mode, one.storage(), one.device) for one in found.outputs]
        return made[0] if found.sequence is None else found.sequence(made)

    def keep(self, key: Key | None, args: tuple[object, ...], result: object) -> None:
        """Keep what torch answered, where it can be made again."""
        if key is None:
            return
        if isinstance(key[0], OpOverload) and key[0]._schema.is_mutable:
            if result is args[0] and type(result) is FakeTensor:
                self._answers[key] = _Answer((), None)
            return
        sequence = type(result) if type(result) in (tuple, list) else None
        given = list(result) if isinstance(result, tuple | list) else [result]
        before = {storage_key(tensor) for tensor in _tensors(args)}
        outputs = [_output(one, self._mode, before) for one in given]
        known = tuple(one for one in outputs if one is not None)
        if known and len(known) == len(outputs):
            self._answers[key] = _Answer(known, sequence)

    def _enter(self, values: Iterable[Any], parts: list[Any]) -> bool:
        """Add to ``parts`` what an output follows from; False where that is not known."""
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if value.constant is not None or value.dispatch_keys is not None:
                    return False
                if value.fake_mode is not self._mode:
                    if self._mode is not None:
                        return False
                    self._mode = value.fake_mode
                parts += (kind, value.shape, value.stride(), value.dtype, value.fake_device)
            elif kind in _DENSE:
                if not value.is_floating_point() or value.layout is not torch.strided:
                    return False
                parts += (kind, value.shape, value.stride(), value.dtype, value.device)
            elif kind in _PLAIN:
                parts += (kind, value)
            elif kind is list or kind is tuple:
                parts += (kind, len(value))
                if not self._enter(value, parts):
                    return False
            else:
                return False
        return True


@lru_cache(maxsize=4096)
def _is_cacheable(operator: Operator) -> bool:
    """Tell whether an operator gives new tensors, or the one it writes into, and nothing else."""
    if not isinstance(operator, OpOverload) or operator.namespace != "aten":
        return False
    if _DEPENDS_ON_MORE.intersection(operator.tags):
        return False
    schema = operator._schema
    aliases = [argument.alias_info for argument in schema.arguments]
    if not schema.is_mutable:
        returned = [given.alias_info for given in schema.returns]
        return operator != torch.ops.aten._unsafe_view.default and not any((*aliases, *returned))
    first, *others = aliases
    is_in_place = first is not None and first.is_write and not any(others)
    return is_in_place and len(schema.returns) == 1 and schema.name.endswith("_")


def _tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _output(value: object, mode: FakeTensorMode | None, before: set[int | None]) -> _Output | None:
    """Return how to make a tensor again; None where it is more than its shape and strides."""
    if not isinstance(value, FakeTensor) or type(value) is not FakeTensor:
        return None
    if value.fake_mode is not mode or value.constant is not None or value.dtype.is_complex:
        return None
    if value.dispatch_keys is not None or value.layout is not torch.strided:
        return None
    if value.requires_grad or value.storage_offset() or storage_key(value) in before:
        return None
    made = _Output(tuple(value.shape), value.stride(), value.dtype, value.fake_device)
    before.add(storage_key(value))
    is_as_large = made.storage().untyped_storage().nbytes() == value.untyped_storage().nbytes()
    return made if is_as_large else None
