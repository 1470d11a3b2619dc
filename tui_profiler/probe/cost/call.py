"""One operator call as formulas see it, by the names of its schema; tables of formulas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias, TypeVar

import torch

from tui_profiler.probe.torch_compat.internals import Operator, OpOverload, shape_of

Shape = tuple[int, ...]

_QUANTISED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})


def is_real_valued(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's arithmetic is of real numbers: floating-point ones or quantised."""
    return tensor.is_floating_point() or tensor.dtype in _QUANTISED


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return the tensors in lists, tuples and dictionaries, in order."""
    found: list[torch.Tensor] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, list | tuple):
            pending.extend(reversed(item))
        elif isinstance(item, dict):
            pending.extend(reversed(item.values()))
    return found


@dataclass(frozen=True, slots=True)
class Signature:
    """What an operator's schema says, looked up once per operator."""

    name: str
    """``aten::convolution``."""
    type: str
    """``aten.convolution.default``."""
    arguments: tuple[str, ...]
    """Names in order, keyword-only ones last."""
    defaults: dict[str, object]
    is_view: bool
    """Its outputs are other shapes of its first input, or it only changes the shape in place."""
    written: tuple[str, ...]
    """Names of the arguments that it writes into."""


@lru_cache(maxsize=4096)
def signature_of(operator: Operator) -> Signature:
    """Read the schema of ``operator``; one that takes functions has none."""
    if not isinstance(operator, OpOverload):
        name = str(operator)
        return Signature(f"higher_order::{name}", f"higher_order.{name}", (), {}, False, ())
    schema = operator._schema
    changes_shape_only = torch.Tag.inplace_view in operator.tags
    writes = (a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write)
    return Signature(
        name=schema.name,
        type=str(operator),
        arguments=tuple(argument.name for argument in schema.arguments),
        defaults={a.name: a.default_value for a in schema.arguments if a.has_default_value()},
        is_view=operator.is_view or changes_shape_only,
        written=() if changes_shape_only else tuple(writes),
    )


class Call:
    """The arguments and outputs of one operator call; shapes are what formulas ask for."""

    __slots__ = ("_tensors", "args", "kwargs", "outputs", "signature")

    def __init__(
        self,
        signature: Signature,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        outputs: tuple[torch.Tensor, ...],
    ) -> None:
        self.signature = signature
        self.args = args
        self.kwargs = kwargs
        self.outputs = outputs
        self._tensors: list[torch.Tensor] | None = None

    def get(self, name: str) -> object:
        """Return an argument, or its default; None where the operator has no such argument."""
        if name in self.kwargs:
            return self.kwargs[name]
        names = self.signature.arguments
        position = names.index(name) if name in names else len(self.args)
        if position < len(self.args):
            return self.args[position]
        return self.signature.defaults.get(name)

    def has(self, name: str) -> bool:
        """Tell whether an optional argument was given."""
        return self.get(name) is not None

    def flag(self, name: str) -> bool:
        """Return a boolean argument."""
        return bool(self.get(name))

    def number(self, name: str) -> int:
        """Return an integer argument."""
        value = self.get(name)
        if not isinstance(value, int):
            raise TypeError(f"{self.signature.name}: {name} is not an integer")
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers; one integer is a list of one."""
        value = self.get(name)
        if isinstance(value, int):
            return (value,)
        return tuple(int(item) for item in self.items(name))

    def items(self, name: str) -> Sequence[Any]:
        """Return a list argument."""
        value = self.get(name)
        if not isinstance(value, list | tuple):
            raise TypeError(f"{self.signature.name}: {name} is not a list")
        return value

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor argument."""
        value = self.get(name)
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{self.signature.name}: {name} is not a tensor")
        return value

    def shape(self, name: str) -> Shape:
        """Return every axis of a tensor argument."""
        return shape_of(self.tensor(name))

    def elements(self, name: str) -> int:
        """Count the elements of a tensor argument, 0 where it was not given."""
        value = self.get(name)
        return value.numel() if isinstance(value, torch.Tensor) else 0

    def output(self, index: int = 0) -> Shape:
        """Return every axis of an output."""
        return shape_of(self.outputs[index])

    def output_elements(self, index: int = 0) -> int:
        """Count the elements of an output."""
        return prod(self.output(index))

    def first(self) -> torch.Tensor:
        """Return the first tensor among the arguments, lists of tensors included."""
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, torch.Tensor):
                return value
            if isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor):
                return value[0]
        raise TypeError(f"{self.signature.name} has no tensor argument")

    def is_floating(self) -> bool:
        """Tell whether real (also quantised) or complex numbers go in or come out."""
        values = (*self.outputs, *self.args, *self.kwargs.values())
        tensors = (value for value in values if isinstance(value, torch.Tensor))
        return any(is_real_valued(tensor) or tensor.is_complex() for tensor in tensors)

    def is_complex(self) -> bool:
        """Tell whether complex numbers come out."""
        return any(output.is_complex() for output in self.outputs)

    def tensors(self) -> list[torch.Tensor]:
        """Return every tensor that was passed, in order; one that was passed twice is twice."""
        if self._tensors is None:
            self._tensors = tensors_in((self.args, self.kwargs))
        return self._tensors


Formula: TypeAlias = Callable[[Call], int | None]
"""A count for one call; None where it depends on values that are not known."""
_F = TypeVar("_F", bound=Formula)


class FormulaTable:
    """Formulas by schema name (``aten::mm``); an in-place twin (``aten::add_``) needs no entry."""

    def __init__(self) -> None:
        self._formulas: dict[str, Formula] = {}

    def add(self, formula: Formula, *names: str) -> None:
        """Enter ``formula`` under each name.

        Raises:
            ValueError: a name has a formula already.
        """
        for name in names:
            if name in self._formulas:
                raise ValueError(f"{name} has two formulas")
            self._formulas[name] = formula

    def register(self, *names: str) -> Callable[[_F], _F]:
        """Enter the decorated function under each name."""

        def enter(formula: _F) -> _F:
            self.add(formula, *names)
            return formula

        return enter

    def find(self, name: str) -> Formula | None:
        """Return the formula of an operator, or of the one whose in-place form it is."""
        found = self._formulas.get(name)
        if found is None and name.endswith("_") and not name.endswith("__"):
            found = self._formulas.get(name[:-1])
        return found

    def names(self) -> frozenset[str]:
        """Return every name that was entered."""
        return frozenset(self._formulas)
