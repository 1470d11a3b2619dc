"""What is under way where memory has run out: the part of a step, the module, what is alive.

Of frames that go on, only torch's own are asked for their variables: it may keep those alive.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer, optimizer
from torch.utils.data import dataloader

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.failure import MemoryPart
from tui_profiler.probe.process.memory_limit import chain_of
from tui_profiler.probe.process.source_line import is_users
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.torch_compat.threads import called_module
from tui_profiler.probe.trace.failure import wanted_memory
from tui_profiler.probe.trace.tree.weights import own_tensors

_PLAIN = (torch.Tensor, nn.Parameter)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_WANTED = re.compile(r"llocate ([\d.]+) (?:bytes|([KMG])i?B)")
_OF_FILE: dict[str, MemoryPart] = {
    str(Path(optimizer.__file__)): "optimizer",
    str(Path(nn.utils.clip_grad.__file__)): "clip",
    str(Path(dataloader.__file__)): "data",
}
_STEP = "wrapper"
"""Of ``Optimizer.profile_hook_step``: what every optimizer's ``step`` is called through."""
_ENGINE = "_engine_run_backward"


def memory_error(error: BaseException | None) -> BaseException | None:
    """Return the error of an allocator that an error is, or was raised because of; else None."""
    for one in chain_of(error):
        if isinstance(one, MemoryError | torch.OutOfMemoryError):
            return one
        if isinstance(one, RuntimeError) and wanted_memory(one):
            return one
    return None


def wanted_bytes(error: BaseException) -> Figure:
    """Return what an allocator was asked for in vain."""
    found = _WANTED.search(str(error))
    if found is None:
        return Unknown("the error message has no size")
    return float(found[1]) * _UNITS[found[2] or ""]


class Frame(NamedTuple):
    """A frame of a stack, and the line that it is at."""

    frame: FrameType
    line: int


def raising_frames(trace: TracebackType | None) -> list[Frame]:
    """Return the frames that an error came through, outermost first."""
    found = []
    while trace is not None:
        found.append(Frame(trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def running_frames(frame: FrameType | None) -> list[Frame]:
    """Return the frames of a thread whose innermost is given, outermost first."""
    found = []
    while frame is not None:
        found.append(Frame(frame, frame.f_lineno or 0))
        frame = frame.f_back
    return found[::-1]


class UnderWay(NamedTuple):
    """What a thread was doing."""

    part: MemoryPart
    modules: tuple[nn.Module, ...]
    """In whose calls it was, outermost first; in a backward, of what is run again in it."""
    optimizers: tuple[Optimizer, ...]
    """In whose step it was; where all is over, all that variables of the program name."""
    line: str
    """``file:line`` of the innermost frame of the program."""


def under_way(frames: Sequence[Frame], *, is_over: bool = False) -> UnderWay:
    """Return what a thread with these frames was doing.

    Args:
        frames: outermost first.
        is_over: whether none of them goes on: an error came through all of them.
    """
    part: MemoryPart = "other"
    modules: list[nn.Module] = []
    optimizers: list[Optimizer] = []
    line = ""
    for frame, number in frames:
        code = frame.f_code
        if is_users(code.co_filename):
            line = f"{code.co_filename}:{number}"
        if is_over:
            optimizers += _named_optimizers(frame)
        module = called_module(frame)
        if module is not None:
            modules.append(module)
            part = part if part == "backward" else "forward"
        elif code.co_name == _ENGINE:
            part, modules = "backward", []
        elif (entered := _OF_FILE.get(code.co_filename)) is not None:
            if entered == "optimizer":
                if code.co_name != _STEP or not isinstance(
                    one := frame.f_locals.get("self"), Optimizer
                ):
                    continue
                optimizers.append(one)
            part, modules = entered, []
    return UnderWay(part, tuple(modules), tuple(optimizers), line)


def _named_optimizers(frame: FrameType) -> Iterator[Optimizer]:
    """Yield the optimizers among the variables of a frame, and what an object keeps whose it is."""
    named = frame.f_locals
    kept = getattr(named.get("self"), "__dict__", None)
    for values in (named, kept if isinstance(kept, dict) else {}):
        for value in [*values.values()]:
            if isinstance(value, Optimizer):
                yield value
            elif type(value) is list:
                yield from (one for one in value if isinstance(one, Optimizer))


class Alive(NamedTuple):
    """Bytes of what lives between two steps, each storage once."""

    parameters: Figure
    buffers: Figure
    gradients: Figure
    optimizer_state: Figure


def alive(
    model: nn.Module, optimizers: Iterable[Optimizer], *, why_no_gradients: str = ""
) -> Alive:
    """Measure what is alive of a model and its optimizers.

    Args:
        model: whose parameters, buffers and gradients.
        optimizers: that are known.
        why_no_gradients: why gradients must not be read; empty where they may be.
    """
    seen: set[int] = set()
    held = [one for module in each_module(model) for one in own_tensors(module)]
    parameters = [tensor for _, tensor, is_buffer in held if not is_buffer]
    known = [*optimizers]
    state = (value for one in known for value in _values(one.state))
    return Alive(
        parameters=_bytes_of(parameters, seen),
        buffers=_bytes_of((tensor for _, tensor, is_buffer in held if is_buffer), seen),
        gradients=Unknown(why_no_gradients)
        if why_no_gradients
        else _bytes_of((one.grad for one in parameters if one.is_leaf), seen),
        optimizer_state=_bytes_of(state, seen) if known else Unknown("no optimizer step was seen"),
    )


def _values(state: object) -> Iterator[object]:
    """Yield what an optimizer keeps, out of the collections that it is in."""
    if isinstance(state, dict):
        for value in [*state.values()]:
            yield from _values(value)
    elif isinstance(state, list | tuple):
        for value in [*state]:
            yield from _values(value)
    else:
        yield state


def _bytes_of(values: Iterable[object], seen: set[int]) -> Figure:
    """Return the bytes of the tensors among some values, without storages that were seen."""
    total = 0
    for one in values:
        if not isinstance(one, torch.Tensor):
            continue
        if type(one) not in _PLAIN or one.layout is not torch.strided:
            return Unknown(f"not all are plain tensors: {type(one).__name__}, {one.layout}")
        storage = one.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return float(total)
