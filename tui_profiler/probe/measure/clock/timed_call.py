"""What takes the place of ``nn.Module.__call__`` while someone watches.

1. Its first line passes through while Dynamo traces: otherwise a ``fullgraph=True`` compilation
   would raise in the user's program.
2. It is nothing but code: behind an open gate it records, behind a shut one it is torch's own.
"""

import builtins
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import NamedTuple, Protocol, TypeAlias

from torch import nn
from torch.compiler import is_dynamo_compiling

from tui_profiler.probe.measure.clock.call_readings import CallReader
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.clock.graph_marks import GraphMarks, MarkedEvents
from tui_profiler.probe.process.interpreter_lock import Variable
from tui_profiler.probe.torch_compat import internals
from tui_profiler.system.real_time import perf_counter

Call: TypeAlias = Callable[..., object]


class Recorder(Protocol):
    """Whom a call is told to."""

    replaced: Call
    untraced: Call
    """The same, for calls that Dynamo does not trace."""
    device: DeviceClock | None
    longest: int
    """Items that the events of one forward may take."""
    events: Variable[list[object] | None]
    """Of the forward that runs on this thread: module, start and end of each call in turn."""
    watched: Callable[[], nn.Module | None]
    """Returns the root while it is wanted."""
    met: set[int]
    """Ids of modules that were called while no forward of the root ran on their thread."""

    timed: set[int]
    """Ids of other models among them."""

    def meet(self, module: nn.Module) -> None:
        """Take note of one that is not in ``met``."""
        ...

    def run_other(
        self, model: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run a call of another model, and note its time."""
        ...

    def run_root(
        self, root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run one forward of the root, and keep its events."""
        ...

    marks: GraphMarks
    """For steps of training whose backward is recorded as well."""
    reader: CallReader
    """For forwards in which each call reads what its thread uses."""

    peeked: Callable[[], nn.Module | None]
    """Returns the root while calls of it are counted that are not recorded."""

    def run_peeked(
        self, root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run one forward of the root that is not recorded, and keep when it ran."""
        ...

    def recomputing(self) -> list[object] | None:
        """Return the events of the backward pass that this call is in; None outside of one."""
        ...


def _torchs_own_call() -> Call | None:
    # Where what we replace is torch's own choice between a compiled and a plain call, we make that
    # choice ourselves: one Python frame less saves a third of what the clock costs.
    # Where torch does anything else there, it is called as it is.
    own: Call | None = getattr(nn.Module, "_wrapped_call_impl", None)
    code = getattr(own, "__code__", None)
    if code is None or code.co_names != ("_compiled_call_impl", "_call_impl"):
        return None
    return own


_TORCHS_CALL = _torchs_own_call()


# The seven below are only their code: a replacement is a function that carries one of five of them,
# with what it reads as its globals. So behind a shut gate runs torch's own code and none of ours:
# asking a flag there cost 0.7 to 1.3 % of mobilenet_v3_small, which it exists to save.
# Exchanging the code takes 0.1 us, leaves the cache of methods of every class alone, and each of
# the five keeps what the interpreter has learnt of it; a call that runs already is not touched.
# ``torch.compile`` keeps what it made by code: where it has met a replacement with an open gate,
# the gate is not shut any more, and what passes through asks for itself.
# ruff: noqa: F821 - a replacement has globals of its own, in which these are defined
watching: Recorder
running: Callable[[], list[object] | None]
replaced: Call
untraced: Call
longest: int
device: DeviceClock
met: set[int]
timed: set[int]
is_direct: bool
marks: GraphMarks
reader: CallReader
sequence_number: Callable[[], int]


def _direct_open(self: nn.Module, /, *args: object, **kwargs: object) -> object:
    """Take the place of torch's own call, and do its work.

    Measured on torch 2.15 and Python 3.11 with 200 linear layers of 5.3 us each, in us a layer more
    than bare: this 0.38; with ``threading.local`` 0.44, and 0.2 more by calling what was replaced;
    one list for all threads 0.38; the items as a tuple, by ``extend``, or the times in an ``array``
    0.37 to 0.5; int nanoseconds the same, and twice the cost of reading them. Two readings of the
    timer are 0.16 of it, ``is_dynamo_compiling`` 0.04, the bound 0.03, try/finally nothing. Between
    convolutions, which throw it out of the caches, it is 0.70: 0.34 of it the timer, 0.3 the list,
    and no other way of recording is under 0.65.
    """
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if (events := running()) is None:
        if self is watching.watched():
            return watching.run_root(self, args, kwargs)
        if id(self) not in met:
            watching.meet(self)
        if id(self) in timed:
            return watching.run_other(self, args, kwargs)
        if self._compiled_call_impl is None:
            return self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # torch
        return untraced(self, *args, **kwargs)
    start = perf_counter()
    try:
        if self._compiled_call_impl is None:
            return self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # torch
        return untraced(self, *args, **kwargs)
    finally:
        if len(events) < longest:
            events.append(self)
            events.append(start)
            events.append(perf_counter())


def _chained_open(self: nn.Module, /, *args: object, **kwargs: object) -> object:
    """Take the place of someone else's replacement, and call it."""
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if (events := running()) is None:
        if self is watching.watched():
            return watching.run_root(self, args, kwargs)
        if id(self) not in met:
            watching.meet(self)
        if id(self) in timed:
            return watching.run_other(self, args, kwargs)
        return untraced(self, *args, **kwargs)
    start = perf_counter()
    try:
        return untraced(self, *args, **kwargs)
    finally:
        if len(events) < longest:
            events.append(self)
            events.append(start)
            events.append(perf_counter())


def _device_open(self: nn.Module, /, *args: object, **kwargs: object) -> object:
    """Take the place of any call, and set a mark on a GPU's stream before and after."""
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if (events := running()) is None:
        if self is watching.watched():
            return watching.run_root(self, args, kwargs)
        if id(self) not in met:
            watching.meet(self)
        if id(self) in timed:
            return watching.run_other(self, args, kwargs)
        return untraced(self, *args, **kwargs)
    mark = device.begin(events)
    start = perf_counter()
    try:
        return untraced(self, *args, **kwargs)
    finally:
        if len(events) < longest:
            events.append(self)
            events.append(start)
            events.append(perf_counter())
        device.end(events, mark)


def _marked_open(self: nn.Module, /, *args: object, **kwargs: object) -> object:
    """Take the place of any call in a step of training whose backward is recorded.

    The time of marks is in the caller's own, not in that of the module.
    """
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if (events := running()) is None and (events := watching.recomputing()) is None:
        if self is watching.watched():
            return watching.run_root(self, args, kwargs)
        if id(self) not in met:
            watching.meet(self)
        if id(self) in timed:
            return watching.run_other(self, args, kwargs)
        return untraced(self, *args, **kwargs)
    # None where it began before marks were wanted.
    marked = events if isinstance(events, MarkedEvents) else None
    first = 0
    if marked is not None:
        first = sequence_number()
        marks.enter(marked, first, args, kwargs)
    mark = None if device is None else device.begin(events)
    output = None
    start = perf_counter()
    try:
        if is_direct and self._compiled_call_impl is None:
            output = self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # torch
        else:
            output = untraced(self, *args, **kwargs)
        return output
    finally:
        if len(events) < longest:
            events.append(self)
            events.append(start)
            events.append(perf_counter())
        if device is not None:
            device.end(events, mark)
        if marked is not None:
            marks.leave(marked, first, output)


def _reading_open(self: nn.Module, /, *args: object, **kwargs: object) -> object:
    """Take the place of any call in a forward in which each reads what its thread uses."""
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if (events := running()) is None and (events := watching.recomputing()) is None:
        if self is watching.watched():
            return watching.run_root(self, args, kwargs)
        if id(self) not in met:
            watching.meet(self)
        if id(self) in timed:
            return watching.run_other(self, args, kwargs)
        return untraced(self, *args, **kwargs)
    marked = events if isinstance(events, MarkedEvents) else None
    first = 0
    if marked is not None:
        first = sequence_number()
        marks.enter(marked, first, args, kwargs)
    mark = None if device is None else device.begin(events)
    output = None
    clocks = reader.begin(events)
    start = perf_counter()
    try:
        output = untraced(self, *args, **kwargs)
        return output
    finally:
        if len(events) < longest:
            events.append(self)
            events.append(start)
            events.append(perf_counter())
            reader.end(events, clocks)
        if device is not None:
            device.end(events, mark)
        if marked is not None:
            marks.leave(marked, first, output)


def _peeking(self: nn.Module, /, *args: object, **kwargs: object) -> object:
    """Take the place of any call in a step that is not recorded, until the model trains in it."""
    if is_dynamo_compiling():
        return replaced(self, *args, **kwargs)
    if self is watching.peeked():
        return watching.run_peeked(self, args, kwargs)
    if is_direct and self._compiled_call_impl is None:
        return self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # torch
    return untraced(self, *args, **kwargs)


def _chained_shut(self: nn.Module, /, *args: object, **kwargs: object) -> object:
    return replaced(self, *args, **kwargs)


class Codes(NamedTuple):
    """What one replacement runs."""

    opened: CodeType
    """Behind an open gate."""
    marked: CodeType
    """The same, where the backward is recorded as well."""
    reading: CodeType
    """The same, where each call reads what its thread uses."""
    peeking: CodeType
    """Where only calls of the root are counted."""
    shut: CodeType


def timed_call(owner: Recorder) -> tuple[FunctionType, Codes]:
    """Return what is put in place, with its gate open, and all of its codes."""
    is_torchs = _TORCHS_CALL is not None and owner.replaced is _TORCHS_CALL
    shut = owner.replaced if is_torchs else _chained_shut
    opened = _direct_open if is_torchs else _chained_open
    if owner.device is not None:
        opened = _device_open
    names = {
        "__builtins__": builtins,  # which Dynamo wants to find here
        # No __name__: Dynamo would look for these among what the module of that name holds.
        "watching": owner,
        "running": owner.events.get,
        "replaced": owner.replaced,
        "untraced": owner.untraced,
        "longest": owner.longest,
        "device": owner.device,
        "met": owner.met,
        "timed": owner.timed,
        "is_direct": is_torchs,
        "marks": owner.marks,
        "MarkedEvents": MarkedEvents,
        "reader": owner.reader,
        "sequence_number": internals.sequence_number,
        "is_dynamo_compiling": is_dynamo_compiling,
        "perf_counter": perf_counter,
    }
    # Copies, because Dynamo keeps what it compiled with them: torch's own stays free of ours.
    each = (opened, _marked_open, _reading_open, _peeking, shut)
    codes = Codes(*(one.__code__.replace() for one in each))
    return FunctionType(codes.opened, names, "timed_call"), codes
