"""What a program was doing when memory ran out, told before its error goes on.

1. Nothing here raises in the program, waits, imports or opens anything but ``/proc``. What is alive
   is added up from sizes that tensors have anyway; ``RESERVE_BYTES`` of addresses are kept until
   then, so that there is room for the message.
2. On a GPU torch's allocator tells of it, on the thread that allocates, whether the program catches
   the error or not. On a CPU there is no such observer: it is told where nothing catches the error,
   by ``sys.excepthook`` of a program that is watched, and by what runs the script under ``run``.
3. ``sys.excepthook`` is replaced while someone looks, and put back if it is still ours; below
   another replacement ours passes through for ever. The allocator's observer cannot be taken off:
   it passes through too.
4. Which module a backward was in is found on the probe's thread, from what was recorded of it.
"""

import sys
from collections.abc import Callable, Sequence
from threading import get_ident
from types import TracebackType
from typing import NamedTuple, Protocol, TypeAlias

import psutil
import torch
from msgspec.structs import replace
from torch import nn

from tui_profiler.messages import Figure, OutOfMemory, Unknown
from tui_profiler.probe.measure.devices.allocator import started_cuda
from tui_profiler.probe.measure.step.marks import MARKS
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.internals import attach_memory_observer
from tui_profiler.probe.torch_compat.modules import modules_in_order
from tui_profiler.probe.torch_compat.threads import is_in_backward
from tui_profiler.probe.trace.out_of_memory import (
    Alive,
    Frame,
    UnderWay,
    alive,
    memory_error,
    raising_frames,
    running_frames,
    under_way,
    wanted_bytes,
)
from tui_profiler.system import real_time as time
from tui_profiler.system.real_time import perf_counter

RESERVE_BYTES = 4 << 20
"""Four arenas of Python's allocator; never touched, so no memory is used for it."""

Hook: TypeAlias = Callable[[type[BaseException], BaseException, TracebackType | None], object]
Attach: TypeAlias = Callable[[Callable[[int, int, int, int], None]], bool]

_NO_MODEL = Unknown("no model was running, and none was seen before")
_NO_TOTAL = Unknown("torch keeps no running total of its CPU allocator")
_OTHER_THREAD = "another thread may be computing them"


class Raised(NamedTuple):
    """What was read on the thread on which memory ran out."""

    seconds: float
    """Of ``time.perf_counter``."""
    monotonic: float
    said: OutOfMemory
    """What viewers are told, but for what the probe's thread knows: when, after how many steps, and
    which module a backward was in."""


class Listener(Protocol):
    """Who is told, on the thread on which memory ran out; must not raise."""

    def memory_ran_out(
        self, frames: Sequence[Frame], device: str, wanted: Figure, *, is_uncaught: bool
    ) -> None:
        """Take note of it."""
        ...


class MemoryErrors:
    """What is replaced and attached in one process, for all models that are looked at in it.

    Args:
        attach: has an observer called when a GPU's memory has run out.
    """

    def __init__(self, attach: Attach = attach_memory_observer) -> None:
        self._attach = attach
        self._is_attached = False
        self._listeners: tuple[Listener, ...] = ()
        self._replaced: tuple[Hook, Hook] | None = None
        """What was there, and what took its place."""
        self._told: tuple[int, str] | None = None
        """The last error that was told of: its ``id``, and how it is written."""
        self._reserve = bytearray()
        self.is_in_script = False
        """Whether what runs this process's script tells of what nothing catches."""

    def listen(self, listener: Listener, *, hooks: bool) -> None:
        """Begin to tell.

        Args:
            listener: whom.
            hooks: whether ``sys.excepthook`` is to be replaced.
        """
        if listener not in self._listeners:
            self._listeners = (*self._listeners, listener)
            self._reserve = bytearray(RESERVE_BYTES)
        if hooks and self._replaced is None:
            self._replace(sys.excepthook)
        if not self._is_attached and started_cuda() is not None:
            self.attach()

    def attach(self) -> None:
        """Have the allocator of GPUs tell, once in this process."""
        self._is_attached = True
        self._attach(self._on_device)

    def leave(self, listener: Listener) -> None:
        """Tell no more; the last one to leave has the hook put back."""
        self._listeners = tuple(one for one in self._listeners if one is not listener)
        if self._listeners:
            return
        self._reserve = bytearray()
        if self._replaced is not None and sys.excepthook is self._replaced[1]:
            sys.excepthook = self._replaced[0]
            self._replaced = None

    def _replace(self, before: Hook) -> None:
        def hook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> object:
            self.raised(error)
            return before(kind, error, trace)

        sys.excepthook = hook
        self._replaced = before, hook

    def raised(self, error: BaseException) -> None:
        """Tell of an error that nothing has caught, where memory had run out; never raises."""
        if not self._listeners:
            return
        try:
            found = memory_error(error)
            if found is None or self._told == (id(found), str(found)):
                return
            self._told = id(found), str(found)
            is_of_device = isinstance(found, torch.OutOfMemoryError)
            device = f"cuda:{torch.cuda.current_device()}" if is_of_device else "cpu"
            frames = raising_frames(found.__traceback__)
            self._tell(frames, device, wanted_bytes(found), is_uncaught=True)
        except Exception:  # noqa: BLE001, S110, RUF100 - rule 1; the error itself is shown as ever
            pass

    def _on_device(self, device: int, wanted: int, of: int, free: int) -> None:
        if not self._listeners:
            return
        try:
            frames = running_frames(sys._getframe(1))
            self._tell(frames, f"cuda:{device}", float(wanted), is_uncaught=False)
        except Exception:  # noqa: BLE001, S110, RUF100 - rule 1: it would take the error's place
            pass

    def _tell(
        self, frames: Sequence[Frame], device: str, wanted: Figure, *, is_uncaught: bool
    ) -> None:
        self._reserve = bytearray()
        for one in self._listeners:
            one.memory_ran_out(frames, device, wanted, is_uncaught=is_uncaught)


ERRORS = MemoryErrors()
"""Of this process."""


def read_state(
    frames: Sequence[Frame],
    root: nn.Module | None,
    threads: set[int],
    *,
    device: str,
    wanted: Figure,
    is_uncaught: bool,
) -> Raised:
    """Return what is to be read on the thread on which memory ran out.

    Args:
        frames: of that thread, or that its error came through; outermost first.
        root: the model that is looked at; None: the outermost of those under way.
        threads: that ran the model with autograd.
        device: that had no memory left.
        wanted: bytes that were asked for in vain.
        is_uncaught: whether nothing caught the error.
    """
    found = under_way(frames, is_over=is_uncaught)
    if is_in_backward():
        found = found._replace(part="backward")
    model = root if root is not None else next(iter(found.modules), None)
    path, why = _path(model, found)
    held = Alive(_NO_MODEL, _NO_MODEL, _NO_MODEL, _NO_MODEL)
    if model is not None:
        # Gradients have no lock: they are read by who computes them, or while nobody does.
        is_trainer = get_ident() in threads or found.part not in ("data", "other")
        is_alone = not is_in_backward() or torch.cuda.device_count() <= 1
        why_not = "" if is_trainer and is_alone else _OTHER_THREAD
        held = alive(model, [*MARKS.optimizers(), *found.optimizers], why_no_gradients=why_not)
    return Raised(
        perf_counter(),
        time.monotonic(),
        OutOfMemory(
            at=0.0,
            device=device,
            wanted=wanted,
            part=found.part,
            node=None if path is None else writable(path),
            why_no_node=why,
            steps=0,
            line=writable(found.line),
            **held._asdict(),
            allocated=_allocated(device),
            resident=_resident(),
            is_uncaught=is_uncaught,
        ),
    )


def _path(model: nn.Module | None, found: UnderWay) -> tuple[str | None, str]:
    """Return the path of the innermost module under way, or why there is none."""
    if not found.modules or model is None:
        return None, "no module was running"
    path = _path_of(model, found.modules[-1])
    if path is not None:
        return path, ""
    return None, f"another model was running: {writable(type(found.modules[0]).__name__)}"


def _path_of(model: nn.Module, part: nn.Module) -> str | None:
    return next((path for path, module in modules_in_order(model) if module is part), None)


def _allocated(device: str) -> Figure:
    cuda = started_cuda() if device != "cpu" else None
    return _NO_TOTAL if cuda is None else float(cuda.memory_allocated(device))


def _resident() -> Figure:
    try:
        return float(psutil.Process().memory_info().rss)
    except (psutil.Error, OSError) as error:
        return Unknown(f"{type(error).__name__}")


def message(
    raised: Raised,
    *,
    at: float,
    steps: int,
    in_backward: nn.Module | str,
    root: nn.Module | None,
) -> OutOfMemory:
    """Return what viewers are told, on the probe's thread.

    Args:
        raised: what was read.
        at: seconds since the command was started.
        steps: of training, that have ended.
        in_backward: the module whose backward was under way, or why that is not known.
        root: the model.
    """
    said = replace(raised.said, at=at, steps=steps)
    if said.node is not None or said.part != "backward":
        return said
    if isinstance(in_backward, str):
        return replace(said, why_no_node=in_backward)
    path = None if root is None else _path_of(root, in_backward)
    if path is None:
        return replace(said, why_no_node="it is not in the model")
    return replace(said, node=writable(path), why_no_node="")
