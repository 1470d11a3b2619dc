"""Tensors to pass to ``forward``: described first, made when they are needed.

The global random state is never touched: each tensor has a generator of its own, so that the same
wish gives the same values on every device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import torch

from tui_profiler.messages import InputSpec
from tui_profiler.probe.load.common.settings import Settings
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


class Candidates(Sequence[Inputs]):
    """Calls to try in order; the tensors of each are made when it is asked for."""

    def __init__(self, calls: Sequence[Call], settings: Settings) -> None:
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
