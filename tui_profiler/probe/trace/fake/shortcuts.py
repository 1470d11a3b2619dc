"""Operators on fake tensors, sooner: by C++ shape functions, by shapes known here, or looked up.

A fake tensor is one on meta that says that it is elsewhere. torch asks, for each operator, a cache,
Python decompositions and several tables before it runs the function for meta: 0.1 to 2 ms. For the
operators here that function alone gives the same answer, and takes a twentieth of the time.

1. Only operators whose output has the shape, strides and dtype that the function for meta gives,
   on the device of their arguments: views, matrix products, element-wise, reductions, ``cat``.
   Convolutions choose their memory format by device and are not among them.
2. Only where every tensor is fake or dense, with axes, and on one device: a tensor without axes is
   a number, with rules of its own. What is written into must be fake.

``native_batch_norm`` on fake tensors runs through a decomposition of some twenty operators. With
running statistics its output is shaped like its input, and it saves nothing: ResNet-50 then traces
in a third of the time. ``native_layer_norm`` is the same: Swin-T takes a quarter longer without.
``_grouped_mm`` on fake tensors knows what CUDA takes, bfloat16; the CPU multiplies float32 and
float16 as well, and mixtures of experts would have to run for real.

Equal blocks run the same operators on the same shapes: 126 layers of a Llama have the outputs of
one. ``ShapeCache`` answers a call that was answered before, by its key, which is all that an
output's shape, strides, dtype and device follow from: the operator, of each tensor its shape,
strides, dtype and device, and every other argument with its type (``1`` is not ``1.0``).

1. Only operators of torch's own whose outputs are new tensors or the tensor written into, and whose
   shape does not depend on values: the schema and its tags say which. Views are not among them.
2. Only where a tensor is fake, and all that are stand for no known number; the others are dense and
   floating-point. What is written into is fake.
3. An answer is kept after torch gave it, and only if an empty tensor of its shape and strides has a
   storage as large.

``tests/probe/trace/fake/test_shortcuts.py`` compares every answer with torch's own.
"""

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch

from tui_profiler.probe.torch_compat import internals
from tui_profiler.probe.torch_compat.internals import FakeTensor, FakeTensorMode, Operator, on_meta

_Arguments: TypeAlias = tuple[object, ...]

_aten = torch.ops.aten
_QUICK = frozenset(
    {
        # Views.
        _aten.view.default,
        _aten._unsafe_view.default,
        _aten.t.default,
        _aten.transpose.int,
        _aten.permute.default,
        _aten.expand.default,
        _aten.select.int,
        _aten.slice.Tensor,
        _aten.unsqueeze.default,
        _aten.squeeze.dim,
        # Matrix products.
        _aten.mm.default,
        _aten.addmm.default,
        _aten.bmm.default,
        _aten.baddbmm.default,
        # Element-wise, with structured functions that the CPU and CUDA share.
        _aten.add.Tensor,
        _aten.add_.Tensor,
        _aten.sub.Tensor,
        _aten.mul.Tensor,
        _aten.mul_.Tensor,
        _aten.div.Tensor,
        _aten.gelu.default,
        _aten.silu.default,
        _aten.silu_.default,
        _aten.sigmoid.default,
        _aten.tanh.default,
        _aten.pow.Tensor_Scalar,
        _aten.rsqrt.default,
        _aten.clamp_min.default,
        _aten.clone.default,
        # Reductions, and what joins.
        _aten.mean.dim,
        _aten.sum.dim_IntList,
        _aten._softmax.default,
        _aten.cat.default,
    }
)

_IN_PLACE = frozenset({_aten.add_.Tensor, _aten.mul_.Tensor, _aten.silu_.default})


def quick_fake(
    operator: Operator, args: _Arguments, kwargs: dict[str, object]
) -> torch.Tensor | None:
    """Return what a fake run of ``operator`` would; None where torch has to be asked."""
    if operator not in _QUICK or not args:
        return None
    first = args[0]
    tensors = first if isinstance(first, list) else [a for a in args if isinstance(a, torch.Tensor)]
    like = next((tensor for tensor in tensors if isinstance(tensor, FakeTensor)), None)
    if like is None or (operator in _IN_PLACE and first is not like):
        return None
    mode, device = like.fake_mode, like.fake_device
    if device.type == "meta" or not all(_is_plain(t, mode, device) for t in tensors):
        return None
    swapped = tuple(_without_values(argument) for argument in args)
    return on_meta(operator, mode, device, swapped, kwargs)


def _is_plain(tensor: object, mode: FakeTensorMode, device: torch.device) -> bool:
    """Tell whether a tensor is fake in this mode, or dense, and has axes and is on this device."""
    if isinstance(tensor, FakeTensor):
        is_same = tensor.fake_mode is mode and tensor.fake_device == device
        return is_same and tensor.constant is None and tensor.dim() > 0
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and isinstance(tensor, torch.Tensor)
        and tensor.layout is torch.strided
        and tensor.device == device
        and tensor.dim() > 0
    )


def _without_values(argument: object) -> object:
    """Return a tensor on meta for one that is not fake: what is made of it does not share it."""
    if isinstance(argument, list):
        return [_without_values(item) for item in argument]
    if not isinstance(argument, torch.Tensor) or isinstance(argument, FakeTensor):
        return argument
    return torch.empty_strided(
        argument.shape, argument.stride(), dtype=argument.dtype, device="meta"
    )


_EMPTY_LIKE = _aten.empty_like.default
_NEW_EMPTY = _aten.new_empty.default
_BATCH_NORM = _aten.native_batch_norm.default
_LAYER_NORM = _aten.native_layer_norm.default
_NEW_EMPTY_STRIDED = _aten.new_empty_strided.default
_GROUPED = getattr(_aten._grouped_mm, "default", None)
_LINE_BYTES = 16
"""Rows of grouped products begin at multiples of it."""


def shortcut(operator: Operator, args: tuple[object, ...]) -> object | None:
    """Return what a fake run of ``operator`` would, or None where there is no shorter way."""
    if operator is _BATCH_NORM:
        return _batch_norm(args)
    if operator is _GROUPED:
        return _grouped_product(args)
    return _layer_norm(args) if operator is _LAYER_NORM else None


def _batch_norm(args: tuple[object, ...]) -> tuple[torch.Tensor, ...] | None:
    given, _, _, running_mean, _, is_training = args[:6]
    if is_training or running_mean is None or not isinstance(given, FakeTensor):
        return None
    mode, device = given.fake_mode, given.fake_device
    nothing = (given, (0,))
    return (
        on_meta(_EMPTY_LIKE, mode, device, (given,), {}),
        on_meta(_NEW_EMPTY, mode, device, nothing, {}),
        on_meta(_NEW_EMPTY, mode, device, nothing, {}),
    )


def _layer_norm(args: tuple[object, ...]) -> tuple[torch.Tensor, ...] | None:
    """Answer like the input, and with one mean and deviation for each that is normalised."""
    given, axes = args[:2]
    if not isinstance(given, FakeTensor) or not isinstance(axes, list) or given.is_cuda:
        return None
    # In half precision the means have a type that depends on the weights'.
    if given.dtype is not torch.float32 or not given.is_contiguous():
        return None
    if tuple(given.shape[given.dim() - len(axes) :]) != tuple(axes):
        return None  # torch says what is wrong
    mode, device = given.fake_mode, given.fake_device
    saved = (given, (*given.shape[: given.dim() - len(axes)], *(1 for _ in axes)))
    return (
        on_meta(_EMPTY_LIKE, mode, device, (given,), {}),
        on_meta(_NEW_EMPTY, mode, device, saved, {}),
        on_meta(_NEW_EMPTY, mode, device, saved, {}),
    )


def _grouped_product(args: tuple[object, ...]) -> torch.Tensor | None:
    """Answer as the CPU does, in the dtypes that the fake run refuses.

    One: (rows, in) with the ends of its groups, or (groups, rows, in). Other: (groups, in, out).
    For the gradient of weights (in, rows) and (rows, out), with the ends of the groups.
    """
    if len(args) < 2 or any(argument is not None for argument in args[3:]):
        return None
    one, other, ends = args[0], args[1], args[2] if len(args) > 2 else None
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return None
    is_fake = isinstance(one, FakeTensor) or one.device.type == "meta"
    if not is_fake or one.device.type not in ("cpu", "meta") or other.device != one.device:
        return None
    if one.dtype not in (torch.float32, torch.float16) or other.dtype != one.dtype:
        return None
    if other.dim() not in (2, 3) or one.dim() != (3 if ends is None else 2):
        return None
    if one.shape[-1] != other.shape[-2] or (ends is None and one.shape[0] != other.shape[0]):
        return None
    step = _LINE_BYTES // one.dtype.itemsize
    if not _is_in_lines(one, step) or not _is_in_lines(other, step):
        return None  # The CPU refuses it, and its own sentence says why.
    groups = () if other.dim() == 3 or not isinstance(ends, torch.Tensor) else (ends.shape[0],)
    shape = (*groups, *one.shape[:-1], other.shape[-1])
    width = -(-shape[-1] // step) * step
    strides = (width, 1) if len(shape) == 2 else (shape[1] * width, width, 1)
    if not isinstance(one, FakeTensor):
        return torch.empty_strided(shape, strides, dtype=one.dtype, device=one.device)
    given = (one, shape, strides)
    return on_meta(_NEW_EMPTY_STRIDED, one.fake_mode, one.fake_device, given, {})


def _is_in_lines(tensor: torch.Tensor, step: int) -> bool:
    """Tell whether one of the last two axes is dense, and the other begins at whole lines."""
    rows, columns = tensor.stride()[-2:]
    return (columns == 1 and rows % step == 0) or (rows == 1 and columns % step == 0)


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
        made = [internals.fake_made(self._mode, one.storage(), one.device) for one in found.outputs]
        return made[0] if found.sequence is None else found.sequence(made)

    def keep(self, key: Key | None, args: tuple[object, ...], result: object) -> None:
        """Keep what torch answered, where it can be made again."""
        if key is None:
            return
        if isinstance(key[0], internals.OpOverload) and key[0]._schema.is_mutable:
            if result is args[0] and type(result) is FakeTensor:
                self._answers[key] = _Answer((), None)
            return
        sequence = type(result) if type(result) in (tuple, list) else None
        given = list(result) if isinstance(result, tuple | list) else [result]
        before = {internals.storage_key(tensor) for tensor in _tensors(args)}
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
    """Tell whether an operator returns new tensors, or the one it writes into, only."""
    if not isinstance(operator, internals.OpOverload) or operator.namespace != "aten":
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
    if value.requires_grad or value.storage_offset() or internals.storage_key(value) in before:
        return None
    made = _Output(tuple(value.shape), value.stride(), value.dtype, value.fake_device)
    before.add(internals.storage_key(value))
    is_as_large = made.storage().untyped_storage().nbytes() == value.untyped_storage().nbytes()
    return made if is_as_large else None
