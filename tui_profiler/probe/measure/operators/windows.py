"""When a forward is run in an operator window, and what is made of it.

A window costs milliseconds, most of them for reading it. So they are rare: as many as fit into a
part of the budget. The first one is for warming up: it sets up torch's profiler, once a process.
In each, a forward that is short runs once beforehand: the window is opened with cold caches.
"""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace
from torch import nn

from tui_profiler.messages import MemoryWindow, Node, OperatorTimes
from tui_profiler.messages.windows import WindowTimes
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.operators.memory_window import PermanentBytes
from tui_profiler.probe.measure.operators.operators import OperatorClock
from tui_profiler.probe.torch_compat.kineto import Window, WindowError
from tui_profiler.system import real_time as time

BUDGET, BUDGET_LATER = 0.15, 0.05
"""The parts of the budget of watching that windows may take, the second after ``FIRST_WINDOWS``: by
then another one changes little."""
FIRST_WINDOWS = 8
FIRST_SECONDS = 0.5
SHORT_SECONDS = 0.02
LEAST_SECONDS = 1.0
MOST_SECONDS = 600.0
MOST_WAITING = 0.05
"""Share of a window that its thread may wait for a core: in a longer wait it may be that of an
operator or of Python, which the window does not tell apart."""
_WINDOWS_KEPT = 16
_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_ROOT = 0


class OperatorWindows:
    """Opens windows on one model's forwards now and then."""

    def __init__(
        self,
        nodes: Sequence[Node],
        model: nn.Module,
        budget: float,
        now: Callable[[], float] = time.perf_counter,
        *,
        held: Callable[[], PermanentBytes] | None = None,
    ) -> None:
        """Open them as ``budget`` allows, in seconds of ``now``.

        Args:
            nodes: of the model's tree.
            model: whose forwards run in them.
            budget: what watching may cost, as a share.
            now: a clock.
            held: tells what lives all the time; None: allocations are not measured.
        """
        self._held = held
        self.memory: MemoryWindow | None = None
        """What the forward in the last window allocated, None where that was not measured."""
        self._operators = OperatorClock(nodes, model)
        self._budget = budget
        self._now = now
        self._next = now() + FIRST_SECONDS
        self._is_warm = False
        self._windows = 0
        self._host_shares: deque[float] = deque(maxlen=_WINDOWS_KEPT)
        self.why_none = ""
        """Why no more windows are opened; empty while they are."""
        self.times: WindowTimes | None = None
        """Where the time of modules went in the last window, None where it gave nothing."""
        self.pause_seconds = FIRST_SECONDS
        """From the last window to the next."""
        self.cost_seconds = 0.0
        """Of the last window: what its forward took longer than others, and all around it."""

    @property
    def share(self) -> float:
        """What windows cost, as a share of the time: the last one's, until the next is due."""
        return 0.0 if self.why_none else self.cost_seconds / self.pause_seconds

    @property
    def is_due(self) -> bool:
        """Whether the next forward is to be run in a window."""
        return not self.why_none and self._now() >= self._next

    def run(
        self, clock: ModuleClock, forward: Callable[[], float], usual_seconds: float, at: float
    ) -> OperatorTimes:
        """Run one forward in a window; it is in no other figure.

        Args:
            clock: of the model; nothing waits in it.
            forward: runs the model once and returns its seconds.
            usual_seconds: that another forward took.
            at: seconds since the command was started.
        """
        clock.recording = True
        began = time.perf_counter()
        seconds = spent = 0.0
        self.times = self.memory = None
        # The first one is in no times: it has memory events, which take their time.
        with_memory = self._held is not None and not self._is_warm
        try:
            with Window(with_memory=with_memory) as window:
                if usual_seconds < SHORT_SECONDS:
                    spent = forward()
                waited = waited_seconds()
                seconds = forward()
                waited = waited_seconds() - waited
            recorded = clock.take()
            if recorded and self._is_warm:
                self._operators.add(recorded[-1], window.seen)
                times = self._operators.window_times(at)
                share = _host_share(times)
                if share is not None and waited <= MOST_WAITING * seconds:
                    self._host_shares.append(share)
                self.times = replace(times, host_shares=tuple(self._host_shares))
            if recorded and with_memory and self._held is not None:
                self.memory = self._operators.memory_window(at, recorded[-1], window, self._held())
        except WindowError as error:
            self.why_none = str(error)
        except Exception as error:
            # The model may use a profiler itself. Should it raise without a window as well, the
            # next forward says so.
            self.why_none = f"the model raised {type(error).__name__} in an operator window"
        finally:
            clock.take()
            clock.note_gap()
        message = self._operators.message(at, seconds, self.why_none)
        ended = time.perf_counter()
        if not self._is_warm:
            self._is_warm = True
            return message
        usual = min(usual_seconds, seconds)
        self.cost_seconds = max(ended - began - (usual if spent == 0.0 else 2 * usual), 0.0)
        self._windows += 1
        self.pause_seconds = pause_seconds(self.cost_seconds, self._budget, self._windows)
        self._next = self._now() + self.pause_seconds
        return message


def waited_seconds() -> float:
    """Return how long this thread waited for a core so far; 0 where the kernel does not count."""
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _host_share(times: WindowTimes) -> float | None:
    """Return the share of the root's time in which no operator ran."""
    nodes = memoryview(times.nodes).cast("I").tolist()
    if _ROOT not in nodes:
        return None
    at = nodes.index(_ROOT)
    seconds, host = (memoryview(one).cast("f")[at] for one in (times.seconds, times.host))
    return min(max(host / seconds, 0.0), 1.0) if seconds > 0 else None


def pause_seconds(cost_seconds: float, budget: float, windows: int) -> float:
    """Return how long after a window the next one is due.

    Args:
        cost_seconds: that the last one took.
        budget: what watching may cost, as a share of the time without it.
        windows: so far.
    """
    part = BUDGET if windows < FIRST_WINDOWS else BUDGET_LATER
    affordable = cost_seconds / (part * budget) if budget > 0 else MOST_SECONDS
    return min(max(affordable, LEAST_SECONDS), MOST_SECONDS)
