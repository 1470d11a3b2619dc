"""A change to try: the module as it is, and the same module changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import nn

from tui_profiler.messages import TrainSpec
from tui_profiler.probe.measure.devices.machine import memory, memory_group
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.failure import one_line
from tui_profiler.probe.trace.tree.weights import packed_bytes, weight_storages
from tui_profiler.system import real_time as time

Prepare: TypeAlias = Callable[[], object]
Call: TypeAlias = Callable[[object], object]
_LEAST_OF_SECONDS = 0.3
_MEMORY_SHARE = 0.8
"""Of the free memory, that a trial may take."""


class ImpossibleError(Exception):
    """The change is impossible for this model or on this machine; its text says why."""


@dataclass(frozen=True)
class Subject:
    """A module, and the inputs of one call."""

    module: nn.Module
    """In the mode and with the values of the live one."""
    inputs: Inputs
    most_bytes: int | None = None
    """Memory limit; None where there is none."""
    first: Inputs | None = None
    """Inputs of the prefill, where ``inputs`` are those of a decode step."""
    train: TrainSpec | None = None
    """How the module is trained; None: a call is a forward."""
    paths: tuple[str, ...] = ()
    """Of the modules that are changed; empty: the kind chooses them."""

    @property
    def device(self) -> torch.device:
        """Device of the module."""
        return device_of(self.module)

    def baseline(self) -> Side:
        """Return the side that a change is compared with: the module as the live loop runs it."""
        return plain(self.module, self.inputs)

    def copied(self) -> nn.Module:
        """Return a copy of the module that shares no weights.

        Raises:
            ImpossibleError: it cannot be copied.
        """
        try:
            return copy.deepcopy(self.module)
        except MemoryError:
            raise
        except Exception as error:  # The user's module: its own __deepcopy__ may raise anything.
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise ImpossibleError(f"the module cannot be copied: {one_line(error)}") from error


@dataclass(frozen=True)
class Side:
    """One of the two modules that are timed in pairs."""

    module: nn.Module
    """Its state is restored before each batch of calls, and its weights are counted."""
    call: Call
    """Runs it once, with the result of ``prepare``."""
    prepare: Prepare | None = None
    """Makes what one call consumes; not timed."""
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    """Context manager around a batch of calls; not timed."""
    items: int = 1
    """Items per call, as a multiple of the batch size of the module as it is."""
    kept: Callable[[], Iterable[torch.Tensor]] = tuple
    """Returns what lives from call to call beside weights."""

    def run(self) -> object:
        """Run one call."""
        return self.call(self.prepare() if self.prepare else None)

    def least_seconds(self) -> float:
        """Return the seconds of the fastest call within 0.3 s, of two at least."""
        found, until = list[float](), time.perf_counter() + _LEAST_OF_SECONDS
        with self.around():
            while len(found) < 2 or time.perf_counter() < until:
                given = self.prepare() if self.prepare else None
                began = time.perf_counter()
                self.call(given)
                wait_for(device_of(self.module))
                found.append(time.perf_counter() - began)
        return min(found)


class Change(NamedTuple):
    """The two sides of a trial."""

    baseline: Side
    changed: Side
    detail: str
    """What was changed: ``53 batch norms folded``."""
    results: Callable[[], tuple[object, object]] | None = None
    """Returns what is compared of both; None: what their calls return."""


@dataclass(frozen=True)
class Kind:
    """One kind of change."""

    change: Callable[[Subject], Change] | None
    """Makes the change to a forward, on a copy of the module; None: there is no such change.
    Raises ``ImpossibleError``."""
    why_not: Callable[[nn.Module, Inputs], str] = field(default=lambda module, inputs: "")
    """Return why it is impossible, without running or changing the module; empty if possible."""
    step: Callable[[Subject], Change] | None = None
    """Makes the change to a training step, likewise."""

    def of(self, *, trains: bool) -> Callable[[Subject], Change]:
        """Return what makes the change to a training step, or to a forward.

        Raises:
            ImpossibleError: it changes only the other one.
        """
        made = self.step if trains else self.change
        if made is None and trains:
            raise ImpossibleError("it is tried on forwards in eval mode, and training steps run")
        if made is None:
            raise ImpossibleError("it changes training steps, which run with --train")
        return made


def plain(module: nn.Module, inputs: Inputs, items: int = 1) -> Side:
    """Return a side that calls ``module`` without gradients."""

    def call(keywords: object) -> object:
        assert isinstance(keywords, dict)
        with torch.no_grad():
            return module(*inputs.args, **keywords)

    if inputs.renewed is None:
        return Side(module, lambda _: call(inputs.kwargs), items=items)
    return Side(module, call, inputs.keywords, items=items)


def device_of(module: nn.Module) -> torch.device:
    """Return the device of the first parameter or buffer; the CPU where there is none."""
    first = next((one for held in (module.parameters(), module.buffers()) for one in held), None)
    return torch.device("cpu") if first is None else first.device


def wait_for(device: torch.device) -> None:
    """Wait for the queued work of a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def weight_bytes(module: nn.Module) -> int:
    """Return the bytes of all parameters and buffers, shared ones once, packed ones included."""
    return sum(sum(of.values()) for of in weight_storages(module)) + packed_bytes(module)


def spare_bytes() -> int:
    """Return the part of the free memory that a trial may take."""
    return int(_MEMORY_SHARE * memory(memory_group()).free_bytes)


def counted(number: int, noun: str) -> str:
    """Return ``1 pair`` or ``3 pairs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
