"""What ``forward`` takes by its signature; tensors for it: described first, made when needed.

The global random state is never touched: each tensor has a generator of its own, so that the same
wish gives the same values on every device.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, overload

import torch

from tui_profiler.messages import InputSpec
from tui_profiler.probe.load.common.loaded_model import Settings
from tui_profiler.probe.torch_compat.forward_inputs import Inputs


@dataclass(frozen=True)
class ForwardArgument:
    """One argument of ``forward``."""

    shape: tuple[int, ...]
    """Every axis, the batch axis included."""
    why: str
    """Where the shape came from."""
    dtype: torch.dtype | None = None
    """None: floating, in the dtype that was asked for."""
    batch_axis: int | None = 0
    """Which axis counts items; None where there is none."""
    below: int = 2
    """Whole numbers are drawn from 0 to this, without it."""
    is_list: bool = False
    """Passed as a list with one tensor for each item, as detectors take their images."""

    @property
    def batch(self) -> int | None:
        """Return the number of items."""
        return None if self.batch_axis is None else self.shape[self.batch_axis]

    def of_batch(self, batch: int) -> ForwardArgument:
        """Return the same wish for another number of items."""
        if self.batch_axis is None:
            return self
        shape = list(self.shape)
        shape[self.batch_axis] = batch
        return replace(self, shape=tuple(shape))


@dataclass(frozen=True)
class Call:
    """What is passed in one call of ``forward``."""

    positional: tuple[tuple[str, ForwardArgument], ...]
    """(parameter name, wish), in order."""
    named: tuple[tuple[str, ForwardArgument], ...] = ()
    """(parameter name, wish), passed by keyword."""

    def inputs(self, settings: Settings) -> Inputs:
        """Make the tensors, in the batch size, on the device and in the dtype that is set."""
        wishes = [
            (name, wish if settings.batch is None else wish.of_batch(settings.batch))
            for name, wish in (*self.positional, *self.named)
        ]
        values = [_value(wish, settings, seed) for seed, (_, wish) in enumerate(wishes)]
        count = len(self.positional)
        return Inputs(
            args=tuple(values[:count]),
            kwargs=dict(zip((name for name, _ in self.named), values[count:], strict=True)),
            specs=tuple(
                part
                for (name, wish), value in zip(wishes, values, strict=True)
                for part in specs_of(value, name, wish.why)
            ),
            batch=next((wish.batch for _, wish in wishes if wish.batch is not None), None),
        )


class MakesInputs(Protocol):
    """A call of ``forward`` whose tensors are not made yet."""

    def inputs(self, settings: Settings) -> Inputs:
        """Make the tensors, in the batch size, on the device and in the dtype that is set."""


class Candidates(Sequence[Inputs]):
    """Calls to try in order; the tensors of each are made when it is asked for."""

    def __init__(self, calls: Sequence[MakesInputs], settings: Settings) -> None:
        self._calls = tuple(calls)
        self._settings = settings

    def __len__(self) -> int:
        return len(self._calls)

    @overload
    def __getitem__(self, index: int) -> Inputs: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Inputs]: ...
    def __getitem__(self, index: int | slice) -> Inputs | Sequence[Inputs]:
        if isinstance(index, slice):
            return Candidates(self._calls[index], self._settings)
        return self._calls[index].inputs(self._settings)

    def of_batch(self, batch: int) -> Candidates:
        """Return the same of another batch size, on the axis that was guessed for each."""
        return Candidates(self._calls, replace(self._settings, batch=batch))


def specs_of(value: object, name: str, why: str) -> tuple[InputSpec, ...]:
    """Name every tensor inside an argument.

    Args:
        value: A tensor, a list, tuple or dictionary of such, or anything else, which has none.
        name: Of the parameter; what lies inside is ``name[0]`` or ``name.key``.
        why: Where the shapes came from.
    """
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return (InputSpec(name=name, shape=tuple(value.shape), dtype=dtype, why=why),)
    if isinstance(value, Mapping):
        inside = [(f"{name}.{key}", part) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{name}[{place}]", part) for place, part in enumerate(value)]
    else:
        return ()
    return tuple(spec for inner, part in inside for spec in specs_of(part, inner, why))


def _value(wish: ForwardArgument, settings: Settings, seed: int) -> object:
    if not wish.is_list:
        return _tensor(wish.shape, wish, settings, seed)
    items = wish.batch or 1
    return [_tensor(wish.shape[1:], wish, settings, seed + item) for item in range(items)]


def _tensor(
    shape: tuple[int, ...], wish: ForwardArgument, settings: Settings, seed: int
) -> torch.Tensor:
    dtype = wish.dtype or settings.dtype or torch.float32
    if settings.device.type == "meta":
        return torch.empty(shape, dtype=dtype, device="meta")
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        drawn = torch.complex64 if dtype.is_complex else torch.float32
        # Images of a detector are between 0 and 1, and normalised by the model itself.
        draw = torch.rand if wish.is_list else torch.randn
        return draw(shape, generator=generator, dtype=drawn).to(settings.device, dtype)
    below = 2 if dtype == torch.bool else max(1, wish.below)
    whole = torch.randint(0, below, shape, generator=generator, dtype=torch.int64)
    return whole.to(settings.device, dtype)


@dataclass(frozen=True)
class Parameters:
    """Parameters of a ``forward``."""

    positional: tuple[str, ...]
    """Names of what can be passed in order."""
    required: tuple[str, ...]
    """Names of what must be passed, in the order of the signature."""
    keyword_only: tuple[str, ...] = ()
    more_positional: bool = False
    """It takes any number, by ``*args``."""
    more_keywords: bool = False
    """It takes any name, by ``**kwargs``."""

    def takes(self, name: str) -> bool:
        """Say whether an argument may be passed under that name."""
        return self.more_keywords or name in self.positional or name in self.keyword_only

    def name_at(self, place: int) -> str:
        """Name the argument that is passed at that place."""
        if place < len(self.positional):
            return self.positional[place]
        return "input" if place == 0 else f"input_{place + 1}"

    def __str__(self) -> str:
        parts = list(self.positional)
        if self.more_positional:
            parts.append("*")
        parts += self.keyword_only
        if self.more_keywords:
            parts.append("**")
        return f"forward({', '.join(parts)})"


def forward_parameters(model: torch.nn.Module) -> Parameters:
    """Read the signature of ``forward``; one that cannot be read takes anything in order."""
    return parameters_of(model.forward)


def parameters_of(function: Callable[..., object]) -> Parameters:
    """Read the signature of a function or method; one that cannot be read takes anything."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # scripted and built-in code has none
        return Parameters(positional=(), required=(), more_positional=True)
    in_order = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    kinds = {parameter.kind for parameter in parameters}
    return Parameters(
        positional=tuple(p.name for p in parameters if p.kind in in_order),
        required=tuple(
            p.name for p in parameters if p.default is p.empty and p.kind not in variable
        ),
        keyword_only=tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
        more_positional=inspect.Parameter.VAR_POSITIONAL in kinds,
        more_keywords=inspect.Parameter.VAR_KEYWORD in kinds,
    )


def forward_with(parameters: Sequence[inspect.Parameter]) -> Callable[..., object]:
    """Return a ``forward`` that is asked for its signature, and never called."""

    def forward(*_args: object, **_kwargs: object) -> object:
        raise RuntimeError("only its signature is asked for")

    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # inspect reads it
    return forward
