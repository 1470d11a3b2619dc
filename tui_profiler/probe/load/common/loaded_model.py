"""A model that is ready to be traced and run, and whether it fits into the memory that is free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from tui_profiler.messages import Unknown
from tui_profiler.probe.load.common.layers import modules_in_order
from tui_profiler.probe.load.common.settings import Settings
from tui_profiler.probe.process.memory_limit import limit_bytes
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kv_cache import ReturnedCache

_GROUP = Path("/sys/fs/cgroup")


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device; on the CPU within the memory limit of this process."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    most = limit_bytes()
    free = free if most is None else min(free, most)
    limit, used = _number(_GROUP / "memory.max"), _number(_GROUP / "memory.current")
    return free if limit is None or used is None else min(free, max(limit - used, 0))


def _held_bytes(model: torch.nn.Module) -> int:
    """Return the bytes of a model's parameters and buffers, shared ones once."""
    sizes: dict[int, int] = {}
    for _, module in modules_in_order(model):
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            sizes[id(tensor)] = tensor.numel() * tensor.element_size()
    return sum(sizes.values())


def why_it_does_not_fit(sketch: torch.nn.Module, device: torch.device) -> str:
    """Say why a model cannot be held on a device; empty where it can.

    Args:
        sketch: The model on meta, which takes no memory.
        device: Where it would be.
    """
    if device.type == "meta":
        return ""
    needed, free = _held_bytes(sketch) / 2**30, free_bytes(device) / 2**30
    if needed <= free:
        return ""
    return f"its parameters take {needed:,.1f} GiB, and {free:,.1f} GiB of memory are free"


def _number(path: Path) -> int | None:
    """Read a number; None where there is no such file, or it says ``max``."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Loaded:
    """A model, and what may be passed to it."""

    model: torch.nn.Module
    """In eval mode, on its device and in its dtype.

    Where ``initialise`` is not None its parameters hold no values yet: trace it on fake tensors,
    call ``initialise`` before anything is computed.
    """
    facts_source: str
    """``torchvision``, ``demo``, or the file or module of the user's code, as typed."""
    weights: str
    """Goes before the word "weights": ``random``, ``its own`` (the user's factory made them), or
    the name of the published ones or of the file they came from."""
    candidates: Sequence[Inputs]
    """What to pass, likeliest first: the first that runs is right. Each is made when it is asked
    for. There is exactly one where the user, the model or its weights said what it takes."""
    remake: Callable[[torch.nn.Module, int], Sequence[Inputs]]
    """Returns the same candidates for another batch size."""
    initialise: Callable[[], torch.nn.Module] | None = None
    """Builds the same model with its proper random values, the same at each call."""
    published_gmacs: float | None = None
    """Billions of multiply-accumulates of one item, where ``candidates`` have the published
    size."""
    published_parameters: int | None = None
    cannot_run: str = ""
    """Why it can only be traced, as a clause after "not run: "; empty where it can be run."""
    decode: (
        Callable[[torch.nn.Module, Inputs, ReturnedCache | None], Inputs | Unknown | None] | None
    ) = None
    """Returns the next call, from the model, the call before it and the cache that it returned,
    if any: one more token. None where the model generates nothing, ``Unknown`` where it does and
    there is no such call."""


def loaded(
    model: torch.nn.Module,
    source: str,
    weights: str,
    candidates: Callable[[torch.nn.Module, Settings], Sequence[Inputs]],
    settings: Settings,
    *,
    initialise: Callable[[], torch.nn.Module] | None = None,
    cannot_run: str = "",
) -> Loaded:
    """Return a model of a library's, for which nothing is published.

    Args:
        model: As ``Loaded`` has it, like ``initialise`` and ``cannot_run``.
        source: Which library it comes from.
        weights: As ``Loaded`` has them.
        candidates: Gives what to pass, for the batch size of the settings.
        settings: Of this run.
        initialise: None where the parameters have their values.
        cannot_run: Empty where it can be run.
    """
    return Loaded(
        model=model,
        facts_source=source,
        weights=weights,
        candidates=candidates(model, settings),
        remake=lambda model, batch: candidates(model, replace(settings, batch=batch)),
        initialise=initialise,
        cannot_run=cannot_run,
    )
