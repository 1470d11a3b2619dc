"""Figures of many nodes in one message: packed columns, read by node without unpacking them."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import astuple, replace

from tui_profiler import messages
from tui_profiler.messages import known

_Number = TypeVar("_Number", int, float)
Columns: TypeAlias = (
    messages.Tick
    | messages.SlowForward
    | messages.OperatorTimes
    | messages.WindowTimes
    | messages.MemoryWindow
    | messages.DeviceTimes
)
LEAST_WAITING = 0.05
"""Share of a forward: what its thread waits for a core below it is no reason to think otherwise."""
CONTENDED_FROM = 0.25
"""Share of a forward that its thread waits for a core, from which the host is *contended*: wall
times say more of other programs than of the model."""

_OBJECTS_BYTES = 5_500
"""Memory of a tick besides its entries: 17 views of columns, headers and figures. Measured with
tracemalloc on 64-bit CPython 3.11: 5,420 to 5,550 bytes."""
_SMALL_INTS = 257
"""Integers from 0 on that CPython caches."""


def columns_agree(message: Columns) -> bool:
    """Check columns from outside: each must hold one entry for each node."""
    wide: tuple[bytes, ...] = ()
    """Entries of 8 bytes; the others, and indexes of nodes, have 4."""
    match message:
        case messages.Tick() as tick:
            wide = tick.calls, tick.total, tick.own
            means = (tick.mean_per_forward, tick.own_mean_per_forward)
            narrow = [tick.last, tick.p50, tick.p95, tick.maximum, *(means if any(means) else ())]
            narrow += [tick.per_forward, tick.own_per_forward]
            read = [tick.cpu_per_forward, tick.own_cpu_per_forward]
            read += [tick.unwaited_per_forward, tick.own_unwaited_per_forward]
            narrow += read if any(read) else []
            thread = [tick.asleep_per_forward, tick.own_asleep_per_forward]
            thread += [tick.faults_per_forward, tick.own_faults_per_forward]
            narrow += thread if any(thread) else []
        case messages.SlowForward(whole=whole, own=own):
            narrow = [whole, own]
        case messages.OperatorTimes() as times:
            narrow = [times.calls, times.per_forward, times.last]
            narrow += [one for one in (times.mean_per_forward, times.own_per_forward) if one]
            if times.called is not None and not called_agree(times.called):
                return False
        case messages.WindowTimes() as times:
            narrow = [times.seconds, times.host, times.other]
        case messages.MemoryWindow() as window:
            narrow, wide = [], (window.allocated, window.peak)
        case messages.DeviceTimes() as times:
            narrow, wide = [times.per_forward, times.own_per_forward], (times.calls, times.total)
            if times.mean_forwards or times.mean_per_forward or times.own:
                narrow += [times.last, times.p50, times.p95, times.maximum]
                narrow += [times.mean_per_forward, times.own_mean_per_forward]
                wide = (*wide, times.own)
    return agree(message.nodes, narrow, wide)


def agree(nodes: bytes, narrow: Iterable[bytes], wide: Iterable[bytes] = ()) -> bool:
    """Tell whether columns of 4 and of 8 bytes have one entry for each node."""
    count, rest = divmod(len(nodes), 4)
    lengths = [*((one, 4) for one in narrow), *((one, 8) for one in wide)]
    return not rest and all(len(column) == size * count for column, size in lengths)


def called_agree(called: messages.CalledOperators) -> bool:
    """Tell whether the columns are of one length, and their names are there."""
    narrow = (called.name_of, called.calls, called.per_forward, called.own_per_forward)
    if not agree(called.nodes, narrow):
        return False
    return max(memoryview(called.name_of).cast("I"), default=-1) < len(called.names)


def _positions(nodes: bytes) -> dict[int, int]:
    """Return the place of each node in columns that follow the order of ``nodes``."""
    return {node: position for position, node in enumerate(memoryview(nodes).cast("I"))}


def _at(column: Sequence[_Number], position: int | None) -> _Number | None:
    return None if position is None else column[position]


class Timing(Struct, frozen=True):
    """What was measured of one node; seconds."""

    calls: int
    total: float
    own_total: float
    last: float
    p50: float
    p95: float
    maximum: float
    per_forward: float
    """Time in all calls of one forward: mean over a set of forwards, or median (``is_mean``)."""
    own_per_forward: float
    """The same without modules called inside."""
    p50_per_forward: float
    """Median of the time in all calls of one forward."""
    own_p50_per_forward: float
    """The same without modules called inside."""
    is_mean: bool
    """Whether the times per forward are means, which add up; else medians, which do not."""
    cpu_per_forward: float | None
    """CPU time of the thread in all calls of one forward, a mean; None where it was not read."""
    own_cpu_per_forward: float | None
    """The same without modules called inside."""

    @property
    def mean(self) -> float:
        """Mean of one call."""
        return self.total / self.calls if self.calls else 0.0


LEAST_ASKED = 8
"""Forwards that an answer needs."""
WAITS_FOR_HOST_FROM = 0.5
"""Share of forwards: a GPU that had caught up with the host in most of them waits for it."""


class GpuForwards(NamedTuple):
    """Forwards that a GPU ran."""

    forwards: int
    """Of which the next is known."""
    caught_up: int
    """Of them: it had come to the last call inside when the host left the model."""

    @property
    def waiting_share(self) -> float:
        """Share of the forwards in which the GPU waited for the host."""
        return self.caught_up / self.forwards if self.forwards else 0.0

    @property
    def waits_for_host(self) -> bool | None:
        """Whether the host limits the GPU, and not the other way round; None where not known."""
        if self.forwards < LEAST_ASKED:
            return None
        return self.waiting_share >= WAITS_FOR_HOST_FROM


class OwnRead(NamedTuple):
    """What calls read of their thread outside of modules inside, by position in the tick.

    Means per forward; not a number of a node whose calls did not read.
    """

    cpu: Sequence[float]
    """Seconds on a core."""
    asleep: Sequence[float]
    """Seconds neither on a core nor waiting for one."""
    faults: Sequence[float]
    """Minor page faults."""


class Timings:
    """One tick's columns, with the position of each node in them."""

    def __init__(
        self, tick: messages.Tick, before: Timings | None = None, device: GpuForwards | None = None
    ) -> None:
        """Read a tick.

        Args:
            tick: the columns.
            before: of the tick before; what did not change is taken from it.
            device: where the times are those of a GPU: what is known of its forwards.
        """
        self.tick = tick
        self.device = device
        """Where the times are those of a GPU; None: of the thread that runs forwards."""
        self._position: dict[int, int]
        if before is not None and before.tick.nodes == tick.nodes:
            self._position = before._position
        else:
            self._position = _positions(tick.nodes)
        self._calls = memoryview(tick.calls).cast("Q")
        self._total = memoryview(tick.total).cast("d")
        self._own = memoryview(tick.own).cast("d")
        self._last = memoryview(tick.last).cast("f")
        self._p50 = memoryview(tick.p50).cast("f")
        self._p95 = memoryview(tick.p95).cast("f")
        self._maximum = memoryview(tick.maximum).cast("f")
        self._p50_per_forward = memoryview(tick.per_forward).cast("f")
        self._own_p50_per_forward = memoryview(tick.own_per_forward).cast("f")
        self.is_mean = bool(tick.mean_per_forward)
        """Whether times per forward are means over one set of forwards: they add up. Recordings of
        older versions have medians alone, which do not."""
        self.whole = self._p50_per_forward
        """Seconds per forward, in the order of the tick's nodes."""
        self.own = self._own_p50_per_forward
        """The same without the time of modules called inside."""
        if self.is_mean:
            self.whole = memoryview(tick.mean_per_forward).cast("f")
            self.own = memoryview(tick.own_mean_per_forward).cast("f")

        waiting = known(tick.thread.waiting) if tick.thread is not None else None
        if device is not None:
            waiting = None  # What the thread waited is not in the time of the GPU.
        share = waiting / tick.thread.seconds if tick.thread is not None and waiting else 0.0
        self.waiting = min(share, 1.0) if share >= LEAST_WAITING else 0.0
        """Share of a forward that its thread waited for a core; 0 below ``LEAST_WAITING``, and
        where it is not known."""
        self._cpu = memoryview(tick.cpu_per_forward).cast("f")
        self._own_cpu = memoryview(tick.own_cpu_per_forward).cast("f")
        self._unwaited = memoryview(tick.unwaited_per_forward).cast("f")
        self._own_unwaited = memoryview(tick.own_unwaited_per_forward).cast("f")
        self._asleep = memoryview(tick.asleep_per_forward).cast("f")
        self._faults = memoryview(tick.faults_per_forward).cast("f")
        self.own_read: OwnRead | None = None
        """What calls read of their own time; None where none did, and of a GPU."""
        if tick.own_asleep_per_forward and device is None:
            self.own_read = OwnRead(
                self._own_cpu,
                memoryview(tick.own_asleep_per_forward).cast("f"),
                memoryview(tick.own_faults_per_forward).cast("f"),
            )

    @property
    def is_contended(self) -> bool:
        """Whether the host is contended: other programs have the cores for much of a forward."""
        return self.waiting >= CONTENDED_FROM

    def own_ranked(self, node: int) -> float | None:
        """Return own seconds of a forward by which nodes are ranked, None where it has no times.

        On a contended host they are those without waiting for a core.
        """
        own = self.own_on_core if self.is_contended else self.own
        return _at(own, self._position.get(node))

    @property
    def waits_by_node(self) -> bool:
        """Whether what nodes waited for a core was read of each; else it is shared out evenly."""
        return any(not math.isnan(each) for each in self._own_unwaited)

    @cached_property
    def own_on_core(self) -> Sequence[float]:
        """``own`` without waiting for a core.

        What the thread waited in a forward is known of whole forwards. It is shared out by what
        nodes took longer than in forwards in which every call read it; where there are none, or of
        a node that they did not call, evenly.
        """
        if not self.waiting:
            return self.own
        unwaited = self._own_unwaited or [math.nan] * len(self.own)
        longer = [
            spent * self.waiting if math.isnan(least) else max(spent - least, 0.0)
            for spent, least in zip(self.own, unwaited, strict=True)
        ]
        if not any(longer):
            return array("d", (spent * (1.0 - self.waiting) for spent in self.own))
        part = self.waiting * sum(self.own) / sum(longer)
        both = zip(self.own, longer, strict=True)
        return array("d", (max(spent - part * more, 0.0) for spent, more in both))

    def bytes_beside(self, other: Timings | None) -> int:
        """Return the memory of this tick in bytes, ``own_on_core`` included.

        Args:
            other: another tick that is kept; an index of nodes that both share is not counted.
        """
        columns = (value for value in astuple(self.tick) if isinstance(value, bytes))
        derived = 8 * len(self.own) if self.waiting else 0
        index = 0
        if other is None or other._position is not self._position:
            # Each node and each position is a separate integer object.
            integers = 2 * max(len(self._position) - _SMALL_INTS, 0)
            index = sys.getsizeof(self._position) + integers * sys.getsizeof(_SMALL_INTS)
        return sum(map(len, columns)) + derived + index + _OBJECTS_BYTES

    def __contains__(self, node: int) -> bool:
        return node in self._position

    def __len__(self) -> int:
        return len(self._position)

    def position(self, node: int) -> int | None:
        """Return the position of a node in the columns, None where it is in none."""
        return self._position.get(node)

    def on_core(self, node: int, seconds: float) -> float:
        """Return what is left of a time in a module's own operators, without waiting for a core."""
        position = self._position.get(node)
        own = None if position is None else self.own[position]
        if position is None or not own:
            return seconds * (1.0 - self.waiting)
        return seconds * self.own_on_core[position] / own

    def own_unwaited(self, node: int) -> float:
        """Return own seconds of a forward without waiting; not a number where none were read."""
        found = _at(self._own_unwaited, self._position.get(node)) if self._own_unwaited else None
        return math.nan if found is None else found

    def unwaited_per_forward(self, node: int) -> float | None:
        """Return the mean wall time in a node without what its thread waited for a core."""
        return self._read(self._unwaited, node)

    def cpu_per_forward(self, node: int) -> float | None:
        """Return the mean CPU time of the thread in a node, None where no call of it was read."""
        return self._read(self._cpu, node)

    def own_cpu_per_forward(self, node: int) -> float | None:
        """Return the same without the time of modules called inside."""
        return self._read(self._own_cpu, node)

    def _read(self, column: Sequence[float], node: int) -> float | None:
        found = _at(column, self._position.get(node)) if column else None
        if found is None or math.isnan(found):
            return None
        # What readings took is taken off, by a hair too much of what takes next to nothing.
        return max(found, 0.0)

    def per_forward(self, node: int) -> float | None:
        """Return the seconds a forward spends in a node, None where it has no times.

        The mean over one set of forwards, so that children and self time make a node's exactly.
        """
        return _at(self.whole, self._position.get(node))

    def own_per_forward(self, node: int) -> float | None:
        """Return the same without the time of modules called inside."""
        return _at(self.own, self._position.get(node))

    def last(self, node: int) -> float | None:
        """Return the seconds of the last call."""
        return _at(self._last, self._position.get(node))

    def of(self, node: int) -> Timing | None:
        """Return everything measured of a node, None where it was never called or left out."""
        position = self._position.get(node)
        if position is None:
            return None
        return Timing(
            calls=self._calls[position],
            total=self._total[position],
            own_total=self._own[position],
            last=self._last[position],
            p50=self._p50[position],
            p95=self._p95[position],
            maximum=self._maximum[position],
            per_forward=self.whole[position],
            own_per_forward=self.own[position],
            p50_per_forward=self._p50_per_forward[position],
            own_p50_per_forward=self._own_p50_per_forward[position],
            is_mean=self.is_mean,
            cpu_per_forward=self.cpu_per_forward(node),
            own_cpu_per_forward=self.own_cpu_per_forward(node),
        )


class CalledOperator(NamedTuple):
    """An operator without a node, in one forward; seconds."""

    node: int
    """That called it: an operator, or the module around it."""
    name: str
    calls: int
    seconds: float
    """Total time: with what it calls, except operators of its own name."""
    own: float


def called_operators(found: messages.CalledOperators | None) -> tuple[CalledOperator, ...]:
    """Return rows of packed columns."""
    if found is None:
        return ()
    names = (found.names[at] for at in memoryview(found.name_of).cast("I"))
    counts = (memoryview(one).cast("I") for one in (found.nodes, found.calls))
    times = (memoryview(one).cast("f") for one in (found.per_forward, found.own_per_forward))
    (nodes, calls), (seconds, own) = counts, times
    return tuple(map(CalledOperator, nodes, names, calls, seconds, own))


class Operators:
    """What windows have said of operators so far."""

    def __init__(self, times: messages.OperatorTimes) -> None:
        self.times = times
        self._position = _positions(times.nodes)
        self._calls = memoryview(times.calls).cast("I")
        self._p50_per_forward = memoryview(times.per_forward).cast("f")
        self._last = memoryview(times.last).cast("f")
        self.has_means = bool(times.mean_per_forward)
        """Recordings of older versions have medians alone, which do not add up."""
        means = times.mean_per_forward if self.has_means else times.per_forward
        self._mean_per_forward = memoryview(means).cast("f")
        self.has_own = bool(times.own_per_forward)
        """Whether there are self times, and operators without a node: not in older recordings."""
        self._own_per_forward = memoryview(times.own_per_forward).cast("f")

    @cached_property
    def called(self) -> tuple[CalledOperator, ...]:
        """Operators without a node, by the node that called them."""
        return called_operators(self.times.called)

    def own_per_forward(self, node: int) -> float | None:
        """Return mean seconds of a forward in an operator, without the operators that it calls."""
        return _at(self._own_per_forward, self._position.get(node)) if self.has_own else None

    def __len__(self) -> int:
        return len(self._position)

    def mean_per_forward(self, node: int) -> float | None:
        """Return mean seconds of a window's forward in an operator, None where none met it.

        Medians where ``has_means`` is false.
        """
        return _at(self._mean_per_forward, self._position.get(node))

    def p50_per_forward(self, node: int) -> float | None:
        """Return median seconds of a window's forward in an operator, None where none met it."""
        return _at(self._p50_per_forward, self._position.get(node))

    def last(self, node: int) -> float | None:
        """Return the seconds of an operator in the last window that met it."""
        return _at(self._last, self._position.get(node))

    def calls(self, node: int) -> int:
        """Return the calls in the last window."""
        return _at(self._calls, self._position.get(node)) or 0


class Shares(NamedTuple):
    """Where a module's time went in the last operator window; seconds of one forward."""

    seconds: float
    host: float
    other: float

    @property
    def operators(self) -> float:
        """Seconds of operators with a node, in the module and below it."""
        return max(self.seconds - self.host - self.other, 0.0)


class Windows:
    """The last operator window, by module."""

    def __init__(self, times: messages.WindowTimes) -> None:
        self.times = times
        self._position = _positions(times.nodes)
        self._columns = [
            memoryview(column).cast("f") for column in (times.seconds, times.host, times.other)
        ]
        self._regions = {region.node: region for region in times.regions}

    def shares(self, node: int) -> Shares | None:
        """Return where a module's time went, None where it was not called."""
        position = self._position.get(node)
        if position is None:
            return None
        return Shares(*(column[position] for column in self._columns))

    def region(self, node: int) -> messages.Region | None:
        """Return what an opaque module ran inside, None for any other."""
        return self._regions.get(node)


class MeasuredMemory:
    """What a forward on the CPU allocated."""

    def __init__(self, window: messages.MemoryWindow) -> None:
        self.window = window
        self._position = _positions(window.nodes)
        self._allocated = memoryview(window.allocated).cast("Q")
        self._peak = memoryview(window.peak).cast("Q")

    @property
    def peak_bytes(self) -> int:
        """Peak: weights, inputs and allocations of the forward."""
        held = self.window.weights_bytes + self.window.inputs_bytes
        return held + self.window.allocated_bytes

    def allocated(self, node: int) -> int | None:
        """Return the bytes allocated in a node's calls, None where none was seen."""
        return _at(self._allocated, self._position.get(node))

    def peak(self, node: int) -> int | None:
        """Return the most the forward had allocated during a call, None where none was seen."""
        return _at(self._peak, self._position.get(node))


_OF_GPU = (
    *("forwards", "latency_p50", "latency_p95", "window", "nodes", "calls", "total", "own"),
    *("last", "p50", "p95", "maximum", "per_forward", "own_per_forward"),
    *("mean_per_forward", "own_mean_per_forward", "mean_forwards"),
)
"""What a tick has of the GPU, where its times are known."""


class DeviceTimings:
    """What modules take on the GPU."""

    def __init__(self, times: messages.DeviceTimes) -> None:
        self.times = times
        self._position = _positions(times.nodes)
        self.is_mean = bool(times.mean_per_forward)
        """Whether ``per_forward`` is a mean over one set of forwards, which adds up; else a
        median."""
        columns = times.mean_per_forward if self.is_mean else times.per_forward
        self._per_forward = memoryview(columns).cast("f")

    def per_forward(self, node: int) -> float | None:
        """Return the seconds of a forward, None where the node was never timed."""
        return _at(self._per_forward, self._position.get(node))

    def timings(self, host: messages.Tick, before: Timings | None) -> Timings | None:
        """Return the times of a tick as the GPU has them; None where it has none that add up.

        Args:
            host: of the thread that enqueues.
            before: what was returned of the tick before.
        """
        times = self.times
        if not times.mean_forwards or times.why_none or not host.as_traced or host.cold:
            return None
        one = replace(
            host,
            **{name: getattr(times, name) for name in _OF_GPU},
            outliers=0,
            left_out=0,
            unwaited_per_forward=b"",
            own_unwaited_per_forward=b"",
        )
        if times.nodes != host.nodes:
            none = {"cpu_per_forward": b"", "own_cpu_per_forward": b"", "cpu_forwards": 0}
            one = replace(one, **none)
        return Timings(one, before, GpuForwards(times.asked, times.caught_up))


class Memory:
    """Steps in the order in which they ran, and the tensors that lived meanwhile; bytes."""

    def __init__(self, steps: messages.MemorySteps) -> None:
        self.steps = steps
        self.nodes: Sequence[int] = memoryview(steps.nodes).cast("I")
        """Of each step: the operator node."""
        self.ordinals: Sequence[int] = memoryview(steps.ordinals).cast("I")
        """Of each step: which call it is, from 0."""
        self.live: Sequence[int] = memoryview(steps.live).cast("Q")
        """Of each step: in tensors after it."""
        whole: Sequence[int] = memoryview(steps.whole).cast("q")
        self.knows_workspace = bool(len(whole)) and min(whole) >= 0
        """What operators allocate inside is known of every step."""
        self.whole = whole if self.knows_workspace else self.live
        """Of each step: in tensors and, where it is known, in scratch memory inside operators."""
        self.makers: Sequence[int] = memoryview(steps.makers).cast("i")
        """Of each tensor: the operator node that made it, -1 for a cache that was passed in."""
        self.sizes: Sequence[int] = memoryview(steps.sizes).cast("Q")
        """Of each tensor."""
        self.first: Sequence[int] = memoryview(steps.first).cast("I")
        """Of each tensor: the first call after which it is alive."""
        self.last: Sequence[int] = memoryview(steps.last).cast("I")
        """Of each tensor: the last call after which it is alive."""

    def __len__(self) -> int:
        return len(self.nodes)


def memory_columns_agree(steps: messages.MemorySteps, nodes: int) -> bool:
    """Check steps from outside: columns have one length, and refer to ``nodes`` nodes."""
    count, tensors = len(steps.nodes) // 4, len(steps.makers) // 4
    lengths = (
        *((column, 4 * count) for column in (steps.nodes, steps.ordinals)),
        *((column, 8 * count) for column in (steps.live, steps.whole)),
        *((column, 4 * tensors) for column in (steps.makers, steps.first, steps.last)),
        (steps.sizes, 8 * tensors),
    )
    if any(len(column) != length for column, length in lengths):
        return False
    indexes = memoryview(steps.nodes).cast("I")
    makers = memoryview(steps.makers).cast("i")
    return max(indexes, default=-1) < nodes and -1 <= min(makers, default=0) <= max(
        makers, default=0
    ) < max(nodes, 1)
