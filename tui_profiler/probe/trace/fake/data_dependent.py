"""What a fake run answers where the truth depends on values: the most there could be.

Nothing is thrown out: every element is non-zero, every box is kept, every index that is a mask is
all true. Distinct values are one, and a number read out of a tensor is a constant. The figures that
follow are then bounds, and the names of these operators are listed with the trace.
"""

from collections.abc import Callable

import torch

from tui_profiler.probe.cost.call import Call
from tui_profiler.probe.torch_compat.internals import Operator, OpOverload

_MOST_NUMBERS = 2_000
"""Numbers answered in one run. A loop that ends when a tensor says so would never end."""


ANSWERED_BEFOREHAND = frozenset({"torchvision::nms"})
"""Operators whose own fake run warns on stderr before it says that it cannot tell."""


class EndlessLoopError(RuntimeError):
    """The model asked for so many values that its loop would not end on constants."""


class NoBoundError(RuntimeError):
    """An operator whose output depends on values has no rule here."""


class Bounds:
    """Answers in place of data-dependent operators, and which ones were answered."""

    def __init__(self, truth: bool) -> None:
        """Take ``truth`` as the value of every boolean that is read out of a tensor."""
        self._truth = truth
        self._numbers = 0
        self.names: dict[str, None] = {}
        """Operators answered, in order of first use."""
        self.read_a_truth = False
        """A boolean was read: the other value may succeed where this one fails."""

    def answer(self, operator: Operator, call: Call) -> object:
        """Return an upper bound of what the operator would return.

        Raises:
            EndlessLoopError: too many numbers were requested.
            NoBoundError: there is no rule for the operator.
        """
        name = call.signature.name
        self.names[name] = None
        if name == "aten::_local_scalar_dense":
            return self._number(call.first())
        rule = _RULES.get(name)
        if rule is None or not isinstance(operator, OpOverload):
            raise NoBoundError(f"the output of {name} depends on values")
        return rule(operator, call)

    def _number(self, tensor: torch.Tensor) -> bool | int | float:
        self._numbers += 1
        if self._numbers > _MOST_NUMBERS:
            raise EndlessLoopError(f"more than {_MOST_NUMBERS} values read out of tensors")
        if tensor.dtype == torch.bool:
            self.read_a_truth = True
            return self._truth
        return 1.0 if tensor.dtype.is_floating_point else 1


def _all_nonzero(operator: OpOverload, call: Call) -> object:
    tensor = call.first()
    return tensor.new_empty((tensor.numel(), max(1, tensor.dim())), dtype=torch.int64)


def _all_selected(operator: OpOverload, call: Call) -> object:
    mask = call.tensor("self").ne(0).logical_or(call.tensor("mask"))
    return call.tensor("self").new_empty((mask.numel(),))


def _indexed_by_all(operator: OpOverload, call: Call) -> object:
    """A mask over n axes selects all their elements: n lists of as many positions."""
    indices: list[torch.Tensor | None] = []
    given = call.get("indices")
    for index in given if isinstance(given, list | tuple) else ():
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            positions = index.new_zeros((index.numel(),), dtype=torch.int64)
            indices += [positions] * index.dim()
        else:
            indices.append(index)
    return operator(call.tensor("self"), indices)


def _all_boxes_kept(operator: OpOverload, call: Call) -> object:
    boxes = call.first()
    return boxes.new_empty((boxes.shape[0],), dtype=torch.int64)


def _one_unique_value(operator: OpOverload, call: Call) -> object:
    """All values are the same one; the further outputs are positions in it, and counts.

    What follows is mostly a loop over the values that picks the elements of each out by a mask. As
    a mask picks out all, one turn costs what all turns do; with n values it would be n times that.
    """
    tensor = call.first()
    axis = call.get("dim")
    if isinstance(axis, int):
        length, values = tensor.shape[axis], tensor.narrow(axis, 0, 1).clone()
    else:
        length, values = tensor.numel(), tensor.new_empty((1,))
    inverse = tensor.new_empty((length,), dtype=torch.int64)
    counts = tensor.new_empty((1,), dtype=torch.int64)
    return (values, inverse, counts)[: len(operator._schema.returns)]


def _each_repeated_once(operator: OpOverload, call: Call) -> object:
    tensor = call.first()
    return tensor.new_empty((tensor.numel(),), dtype=torch.int64)


def _fewest_bins(operator: OpOverload, call: Call) -> object:
    bins = max(call.number("minlength"), 1)
    return call.first().new_empty((bins,), dtype=torch.int64)


def _equal(operator: OpOverload, call: Call) -> object:
    return True


_RULES: dict[str, Callable[[OpOverload, Call], object]] = {
    "aten::nonzero": _all_nonzero,
    "aten::masked_select": _all_selected,
    "aten::index": _indexed_by_all,
    "torchvision::nms": _all_boxes_kept,
    "aten::_unique": _one_unique_value,
    "aten::_unique2": _one_unique_value,
    "aten::unique_dim": _one_unique_value,
    "aten::unique_consecutive": _one_unique_value,
    "aten::unique_dim_consecutive": _one_unique_value,
    "aten::repeat_interleave": _each_repeated_once,
    "aten::bincount": _fewest_bins,
    "aten::equal": _equal,
}
