"""What a trial is made of: the module as it is, and the same with a change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.failure import one_line
from tui_profiler.probe.trace.tree.weights import packed_bytes, weight_storages

Prepare: TypeAlias = Callable[[], object]
Call: TypeAlias = Callable[[object], object]


class ImpossibleError(Exception):
    """A change that cannot be made to this model or on this machine; its text says why."""


@dataclass(frozen=True)
class Subject:
    """What is tried: a module, and one call of it."""

    module: nn.Module
    """In the mode and with the values that it runs with."""
    inputs: Inputs
    most_bytes: int | None = None
    """Of memory that may be held; None where nothing was said."""
    first: Inputs | None = None
    """Of a model that generates: the inputs of all tokens, where ``inputs`` are of the next one."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return device_of(self.module)


@dataclass(frozen=True)
class Side:
    """One of the two that are compared."""

    module: nn.Module
    """Whose state is put back before each batch of calls, and whose weights are counted."""
    call: Call
    """Runs it once, on what ``prepare`` gave."""
    prepare: Prepare | None = None
    """Makes what one call needs and uses up, outside of its time; None where there is nothing."""
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    """Entered around a batch of calls, outside of their time."""
    items: int = 1
    """In one call: how many times the batch of the module as it is."""


class Change(NamedTuple):
    """The two sides of a trial."""

    baseline: Side
    changed: Side
    detail: str
    """What was changed, as a clause: ``53 pairs folded``."""


@dataclass(frozen=True)
class Kind:
    """One kind of change."""

    change: Callable[[Subject], Change]
    """Makes it, on a copy where it changes a module. Raises ``ImpossibleError``."""
    why_not: Callable[[nn.Module, Inputs], str] = field(default=lambda module, inputs: "")
    """Why it is impossible, as far as a look at the module tells; runs and changes nothing."""


def as_it_is(subject: Subject) -> Side:
    """Return the side that every change is compared with: as the live loop runs it."""
    return plain(subject.module, subject.inputs)


def plain(module: nn.Module, inputs: Inputs, items: int = 1) -> Side:
    """Return a side that calls ``module`` without gradients."""

    def call(keywords: object) -> object:
        assert isinstance(keywords, dict)
        with torch.no_grad():
            return module(*inputs.args, **keywords)

    if inputs.renewed is None:
        return Side(module, lambda _: call(inputs.kwargs), items=items)
    return Side(module, call, inputs.keywords, items=items)


def copied(module: nn.Module) -> nn.Module:
    """Return a copy with weights of its own.

    Raises:
        ImpossibleError: it cannot be copied.
    """
    try:
        return copy.deepcopy(module)
    except MemoryError:
        raise
    except Exception as error:  # The user's module: its own __deepcopy__ may raise anything.
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise ImpossibleError(f"the module cannot be copied: {one_line(error)}") from error


def device_of(module: nn.Module) -> torch.device:
    """Return the device of the first parameter or buffer; the CPU where there is none."""
    first = next((one for held in (module.parameters(), module.buffers()) for one in held), None)
    return torch.device("cpu") if first is None else first.device


def weight_bytes(module: nn.Module) -> int:
    """Return the bytes of all parameters and buffers, shared ones once, packed ones too."""
    return sum(sum(of.values()) for of in weight_storages(module)) + packed_bytes(module)


def counted(number: int, one: str, several: str = "") -> str:
    """Return ``1 pair`` or ``3 pairs``."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
