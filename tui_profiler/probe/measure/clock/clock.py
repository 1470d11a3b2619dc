"""The module clock: when every module call of a watched model began and ended.

It replaces ``nn.Module.__call__`` while someone watches, because hooks cost five times more, switch
fused paths off and break compilation.

1. It is installed once per watching period. An assignment to ``nn.Module.__call__`` costs up to
   373 us, and CPython >= 3.13 stops caching a class after 1,000 of them: ``recording`` gates
   instead.
2. It is removed only if the attribute is still ours; otherwise it stays below the other
   replacement, passes through for ever, and is peeled off when it surfaces again.
3. At most ``pending_events`` events wait to be taken. When they are full, whole forwards are
   dropped and counted: half a forward would be a wrong figure.
4. It may be uninstalled on another thread while the program calls: what it records with is asked
   for once in each function.
5. No module is kept alive after the period, and none that was not called or is not the root.

What runs inside of each call is in ``timed_call.py``, what it records in ``call_recorder.py``.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import TypeVar

from torch import nn

from tui_profiler.probe.measure.clock.backward import BackwardPasses
from tui_profiler.probe.measure.clock.call_recorder import (
    Around,
    OtherCall,
    OwnTime,
    RootCall,
    Watching,
)
from tui_profiler.probe.measure.clock.device_clock import DeviceClock, DeviceMark
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.graph_marks import PassSeen, Reached, StepReader
from tui_profiler.probe.measure.clock.thread_usage import Reading
from tui_profiler.probe.measure.clock.token_reader import TokenReader
from tui_profiler.probe.torch_compat.entry_method import EntryMethod
from tui_profiler.probe.torch_compat.forward_kind import Kind
from tui_profiler.probe.torch_compat.module_call import (
    CHANGING,
    Call,
    alive,
    is_present,
    present_call,
    put_call,
    take_off,
)
from tui_profiler.system import real_time as time

__all__ = ["PENDING_EVENTS", "Forward", "ModuleClock"]

_T = TypeVar("_T")
PENDING_EVENTS = 400_000
"""At most 10 MB; half a second of a model that does nothing but call empty modules."""

SHORTEST_SECONDS = 1e-9
"""Less than any forward takes."""


class ModuleClock:
    """Times the calls of one model's modules, from install to uninstall.

    Args:
        root: the model.
        pending_events: how many wait to be taken, at most.
        device: sets marks on a GPU's stream around each call.
        traced: what forwards as traced have in common, None: all have.
        strangers: told of each module called while the model does not run, on its thread; tells
            whether it is another model, whose calls are timed.
        entry: the method that stands for the model's forward; None: the forward itself.
        passes: backward passes of the program, observed in the same period; None: they are not.
        reads_tokens: whether tokens and cache of each forward are read, and requests of a language
            model are recorded whole.
    """

    def __init__(
        self,
        root: nn.Module,
        pending_events: int = PENDING_EVENTS,
        device: DeviceClock | None = None,
        traced: Kind | None = None,
        strangers: Callable[[nn.Module], bool] | None = None,
        entry: EntryMethod | None = None,
        passes: BackwardPasses | None = None,
        *,
        reads_tokens: bool = False,
    ) -> None:
        self._reads_tokens = reads_tokens
        self._entry = entry
        self.passes = passes
        self._root = weakref.ref(root)
        self._pending_events = pending_events
        self.device = device
        self._traced = traced
        self._strangers = strangers
        self._watching: Watching | None = None
        self._seconds = inf
        """Of forwards that were asked to be recorded; 0: none."""
        self._dropped_before = 0
        self.counted_calls = 0
        """Calls of the model in steps that were not recorded that were taken so far."""
        self.search_seconds = 0.0
        """CPU seconds that searching compiled passes for reentrant checkpointing took so far."""

    @property
    def traced(self) -> Kind | None:
        """What forwards as traced have in common; None: all have it."""
        return self._traced

    @property
    def is_installed(self) -> bool:
        """Whether calls go through this clock."""
        return self._watching is not None

    @property
    def call(self) -> Call | None:
        """What calls of modules go through while it is installed."""
        return None if (watching := self._watching) is None else watching.call

    @property
    def recording(self) -> bool:
        """Whether forwards that begin now are recorded; those that run already are not cut."""
        return self._seconds > 0

    @recording.setter
    def recording(self, wanted: bool) -> None:
        seconds = inf if wanted else 0.0
        if seconds != self._seconds:
            self._record(seconds)

    def record_for(self, seconds: float, *, one_at_least: bool = False) -> None:
        """Record forwards until they have taken so long together: one at least, after a gap two.

        Nobody has to be there to stop it: what is recorded is bounded however seldom they come.
        """
        watching = self._watching
        if seconds <= 0 and not one_at_least and watching is not None:
            watching.stop_after_request()
            self._seconds = SHORTEST_SECONDS if watching.is_wanted else 0.0
        else:
            self._record(max(seconds, SHORTEST_SECONDS if one_at_least else 0.0))

    def record_step(self, *, is_recorded: bool, values: StepReader | None = None) -> None:
        """Record the step of training that begins now whole, with its backward, or none of it.

        Call it on the thread that trains, between two steps.

        Args:
            is_recorded: whether it is.
            values: who reads its values; None: nobody does.
        """
        self._seconds = inf if is_recorded else 0.0
        if (watching := self._watching) is not None:
            watching.watch_step(self._root() if is_recorded else None, values)

    def peek(self) -> None:
        """Count calls of the model in a step that is not recorded, up to the first with autograd.

        Callable on any thread.
        """
        watching, root = self._watching, self._root()
        if watching is not None and root is not None:
            watching.peek(root)

    def peeking(self, note: Callable[[_T], object]) -> Callable[[_T], object]:
        """Return what notes something at the end of a step, and peeks in the next one."""
        watching, root = self._watching, self._root()
        return note if watching is None or root is None else watching.peeking(root, note)

    def take_root_calls(self) -> list[RootCall]:
        """Return calls of the model in steps that were not recorded."""
        calls = [] if (watching := self._watching) is None else watching.take_root_calls()
        self.counted_calls += len(calls)
        return calls

    @property
    def is_step_recorded(self) -> bool:
        """Whether the present step of training is recorded, forward and backward."""
        return (watching := self._watching) is not None and watching.is_marked

    def begin_pass(self, roots: object) -> None:
        """Take note that a backward pass begins on this thread, with these tensors."""
        if (watching := self._watching) is not None:
            watching.begin_pass(roots)

    def end_pass(self) -> None:
        """Take note that the innermost pass on this thread has ended."""
        if (watching := self._watching) is not None:
            watching.end_pass()

    def mark_device(self) -> DeviceMark | None:
        """Return a mark on the device behind all that was launched so far; None without one."""
        return None if (device := self.device) is None else device.mark()

    def take_pass(self) -> PassSeen:
        """Return what was seen of the outermost pass that ended last."""
        if (watching := self._watching) is None:
            return PassSeen()
        began = time.thread_time()
        seen = watching.marks.take_pass()
        if seen.is_compiled:
            self.search_seconds += time.thread_time() - began
        return seen

    def take_marks(self) -> tuple[list[Reached], str]:
        """Return the marks that backward passes came to, and why some could not be set.

        Both since the last time.
        """
        return ([], "") if (watching := self._watching) is None else watching.marks.take()

    def others(self) -> list[OtherCall]:
        """Return calls of other models that wait to be taken, and leave them there."""
        return [] if (watching := self._watching) is None else watching.others()

    def take_others(self) -> list[OtherCall]:
        """Return calls of other models in recorded steps."""
        return [] if (watching := self._watching) is None else watching.take_others()

    def take_own(self) -> list[OwnTime]:
        """Return when the profiler worked before and after forwards, in recorded steps."""
        return [] if (watching := self._watching) is None else watching.take_own()

    def read_usage(self) -> Reading | None:
        """Return what the calling thread has used since it began; None outside of a period."""
        return None if (watching := self._watching) is None else watching.read_usage()

    def noting_usage(
        self, note: Callable[[float | tuple[float, Reading]], object]
    ) -> Callable[[float], None] | None:
        """Return what notes a second with what this thread used; None outside of a period."""
        return None if (watching := self._watching) is None else watching.noting_usage(note)

    @property
    def waits(self) -> bool:
        """Whether the next forward that begins is recorded."""
        return (watching := self._watching) is not None and watching.is_wanted

    @property
    def is_counting(self) -> bool:
        """Whether calls of the model are counted that are not recorded."""
        return (watching := self._watching) is not None and watching.peeked() is not None

    @property
    def is_busy(self) -> bool:
        """Whether a forward that is recorded has begun and not ended."""
        return (watching := self._watching) is not None and watching.is_busy

    def _record(self, seconds: float) -> None:
        self._seconds = seconds
        if (watching := self._watching) is not None:
            watching.watch(self._root() if seconds > 0 else None, seconds)

    @property
    def dropped(self) -> int:
        """Forwards that were not kept so far, because nothing took those before them."""
        return self._dropped_before + (watching.dropped if (watching := self._watching) else 0)

    @property
    def model_seconds(self) -> dict[int, float]:
        """Seconds in calls of this model and of others, by id; of this period."""
        return dict(watching.model_seconds) if (watching := self._watching) else {}

    @property
    def asking_seconds(self) -> float:
        """What it took in this period to tell forwards as traced from others."""
        return watching.asking_seconds if (watching := self._watching) else 0.0

    @property
    def noting_seconds(self) -> float:
        """What it took in this period to read usage at the ends of steps not recorded."""
        return watching.noting_seconds if (watching := self._watching) else 0.0

    def install(self, instead_of: tuple[Call, Call] | None = None) -> None:
        """Begin a watching period; nothing happens where one has begun.

        Args:
            instead_of: a replacement of ours and what it replaced, where the clock takes its place:
                nothing happens where it is no longer present. None: the clock replaces what is
                present.
        """
        if self._watching is None:
            with CHANGING:
                if instead_of is not None and not is_present(instead_of[0]):
                    return
                self._watching = Watching(
                    present_call() if instead_of is None else alive(instead_of[1]),
                    self._pending_events,
                    self.device,
                    self._traced,
                    self._strangers,
                    TokenReader(is_on=self._reads_tokens),
                )
                self._record(self._seconds)
                put_call(self._watching.call)
            self._watching.collector.start()
            if self._entry is not None:
                self._entry.put(self._watching.run_entry)
            if self.passes is not None:
                self.passes.threads = self._watching.threads
                self.passes.listen()

    def uninstall(self) -> None:
        """End the watching period; what was not taken is forgotten."""
        if self._watching is None:
            return
        self._dropped_before = self.dropped
        watching, self._watching = self._watching, None
        watching.close()
        if self._entry is not None:
            self._entry.take_off()
        if self.passes is not None:
            self.passes.close()
        take_off(watching.call, watching.replaced)

    @contextmanager
    def removed(self) -> Iterator[bool]:
        """Take the clock off for a while, for forwards that are as bare as without it.

        Costs two of the assignments of rule 1: not for ever, and not inside of what is timed. The
        first forward after each is slower: the interpreter has to learn its short cuts again.

        Yields:
            False where it could only be gated, because someone else replaced the attribute since.
        """
        watching, seconds_before = self._watching, self._seconds
        if watching is None:
            yield True
            return
        self.recording = False
        with CHANGING:
            is_ours = is_present(watching.call)
            if is_ours:
                put_call(watching.replaced)
        try:
            yield is_ours
        finally:
            with CHANGING:
                if is_ours and is_present(watching.replaced):
                    put_call(watching.call)
            self._record(seconds_before)

    def run_next_in(self, around: Around) -> None:
        """Have the next recorded forward as traced run inside of ``around``, on any thread.

        Nothing is assigned for it (rule 1).
        """
        if (watching := self._watching) is not None:
            watching.around_next.append(around)

    def call_before_next(self, begin: Callable[[], None]) -> None:
        """Have ``begin`` called before the next forward that is marked, on its thread."""
        if (watching := self._watching) is not None:
            watching.marks.before_next.append(begin)

    def read_calls_next(self) -> None:
        """Have each call of the next recorded forward as traced read what its thread uses."""
        if (watching := self._watching) is not None:
            watching.reader.is_asked = True

    def note_gap(self) -> None:
        """Say that the time until the next forward is not running: the model was held."""
        if (watching := self._watching) is not None:
            watching.ended = None

    def take(self) -> list[Forward]:
        """Return the forwards that finished since the last time, and forget them."""
        return watching.take() if (watching := self._watching) else []
