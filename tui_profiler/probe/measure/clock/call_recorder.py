"""One replacement of ``nn.Module.__call__``, and what it records.

1. Each thread writes to its own list, without a lock: a context variable is faster than
   ``threading.local``, which replaces it if new threads inherit context variables
   (``process/interpreter_lock.py``). The list exists only while the root runs on that thread, so
   calls of other models leave nothing behind.
2. While no forward is recorded, on any thread, the gate is shut: a call costs nothing.
3. In a step of training that is not recorded, calls of the root may be counted up to the first
   with autograd (``RootCall``): that is what an evaluation or a rollout between two steps is known
   by. Behind that call the gate is shut again.
4. In one forward now and then each call reads what its thread uses (``call_readings.py``). Not
   where Dynamo holds a replacement: it would compile again for another code.

The replacement itself is in ``timed_call.py``.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from operator import is_
from struct import error as NoTimesError
from struct import pack
from threading import get_ident
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import nn

from tui_profiler.messages.program import Autograd
from tui_profiler.probe.measure.clock.call_readings import FIGURES, CallReader, CallReadings
from tui_profiler.probe.measure.clock.device_clock import DeviceClock, DeviceEvent
from tui_profiler.probe.measure.clock.forward import Forward, Setting, autograd_now
from tui_profiler.probe.measure.clock.graph_marks import (
    CallValues,
    GraphMarks,
    MarkedEvents,
    StepReader,
)
from tui_profiler.probe.measure.clock.thread_usage import (
    CollectorClock,
    Reading,
    ThreadUsageReader,
    usage_between,
)
from tui_profiler.probe.measure.clock.timed_call import Call, timed_call
from tui_profiler.probe.measure.clock.token_reader import GivenTokens, TokenReader
from tui_profiler.probe.process.interpreter_lock import Variable, own_variable, threads_inherit
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.forward_kind import Kind, kind_of
from tui_profiler.probe.torch_compat.forward_tokens import ForwardTokens
from tui_profiler.probe.torch_compat.internals import is_compiled, sequence_number
from tui_profiler.probe.torch_compat.threads import (
    is_graph_kept,
    is_in_backward,
    without_torch_function,
)
from tui_profiler.probe.torch_compat.versions import COMPILES_PARTS_ALONE
from tui_profiler.system.real_time import perf_counter

_T = TypeVar("_T")
Around: TypeAlias = Callable[[Callable[[], object]], object]
"""Runs what it is given, once, and returns what that returned."""

MOST_MET = 10_000
"""Modules called elsewhere: a program may make them by the million."""
MOST_OTHERS = 10_000
"""Calls of other models that wait to be taken."""
MOST_ROOT_CALLS = 20_000
"""Calls of the root in steps that are not recorded, that wait to be taken."""
MOST_OWN = 10_000
"""Times of the profiler's own work that wait to be taken."""
_FIELDS = 3
"""Items of one event while a forward runs: module, start, end."""


OwnTime: TypeAlias = tuple[int, float, float]
"""Thread in which the profiler itself worked, and when that began and ended; seconds of
``time.perf_counter``."""


class Watching:
    """What one watching period replaced, put in its place, and recorded."""

    def __init__(
        self,
        replaced: Call,
        pending_events: int,
        device: DeviceClock | None = None,
        traced: Kind | None = None,
        strangers: Callable[[nn.Module], bool] | None = None,
        tokens: TokenReader | None = None,
        *,
        is_context_inherited: bool = threads_inherit(),
    ) -> None:
        self.is_wanted = False
        """Whether forwards that begin now are recorded."""
        self._seconds_left = inf
        """Of forwards until no more are wanted."""
        self.watched: Callable[[], nn.Module | None] = _nobody
        """Returns the root while it is wanted. Nothing here keeps the model alive, but for what was
        recorded and not taken."""
        self.ended: float | None = None
        """Second at which the last forward ended; None where others may have run unseen since."""
        self.dropped = 0
        self.replaced = replaced
        self.untraced: Call = self._call_aside if COMPILES_PARTS_ALONE else replaced
        """The same, for calls that Dynamo does not trace."""
        self._in_place: list[None] = []
        """One for each call of a module compiled in place, where its parts must not meet us."""
        self.device = device
        """Sets marks on a GPU's stream around each recorded call."""
        self.longest = pending_events * _FIELDS
        """Items that the events of one forward may take."""
        self.events: Variable[list[object] | None] = own_variable(
            "events", None, is_inherited=is_context_inherited
        )
        self.around_next: deque[Around] = deque(maxlen=1)
        """What the next forward as traced runs in, whichever thread it is on: taken off when it
        begins."""
        self._asking_seconds = 0.0
        self.collector = CollectorClock()
        self._usage = ThreadUsageReader(collector=self.collector)
        self.met: set[int] = set()
        """As in ``Recorder``; nothing here keeps them alive."""
        self.timed: set[int] = set()
        """Of those, models: their calls are timed as a whole."""
        self.model_seconds: dict[int, float] = {}
        """In calls of the root and of other models, by id, of whole steps of the program alone."""
        self._between: dict[int, float] = {}
        self._in_other: set[int] = set()
        self._others, self._own = (
            deque[OtherCall](maxlen=MOST_OTHERS),
            deque[OwnTime](maxlen=MOST_OWN),
        )
        self._traced, self._strangers, self._tokens = traced, strangers, tokens or TokenReader()
        self._pending_events, self._pending, self._is_open = pending_events, 0, True
        self._finished: deque[_Finished] = deque()
        self._under_way: dict[int, list[object]] = {}
        self._modules_before: list[nn.Module] = []
        self.marks = GraphMarks(device)
        self.is_marked = False
        """Whether forwards that begin now are recorded with the numbers of their nodes."""
        self._pass: _Pass | None = None
        """The backward pass that is recorded at present."""
        self.threads: set[int] = set()
        """That ran the root with autograd."""
        self.reader = CallReader()
        self.peeked: Callable[[], nn.Module | None] = _nobody
        """As in ``Recorder``."""
        self._root_calls: deque[RootCall] = deque(maxlen=MOST_ROOT_CALLS)
        self.call, self._codes = timed_call(self)

    def watch(
        self, root: nn.Module | None, seconds: float = inf, *, is_marked: bool = False
    ) -> None:
        """Record forwards of ``root`` that begin from now on; None for none.

        Args:
            root: whose forwards.
            is_marked: record them with marks on autograd's graph.
            seconds: that they may take together before no more are recorded. One always is, and
                after a gap another: one alone does not tell what passes between two.
        """
        if not self.is_wanted:
            self.ended = None
        self._seconds_left = seconds
        self.is_marked = is_marked
        self.is_wanted = root is not None
        self.watched = _nobody if root is None else weakref.ref(root)
        self.peeked = _nobody
        self._move_gate()
        if not self._is_open:  # Closed meanwhile, by another thread.
            self.is_wanted, self.watched = False, _nobody

    def stop_after_request(self) -> None:
        """Record no more when the request that is under way has ended; at once where there is none.

        Half a request would tell neither its time to the first token nor its tokens.
        """
        if not self.is_wanted or not self._tokens.goes_on(self.ended, is_busy=self.is_busy):
            self.watch(None, 0.0)
        self._seconds_left = min(self._seconds_left, 0.0)

    def watch_step(self, root: nn.Module | None, values: StepReader | None = None) -> None:
        """Record the step of training that begins now, forward and backward, or none of it.

        Call it on the thread that trains, between two steps.

        Args:
            root: whose forwards; None: the step is not recorded.
            values: who reads its values; None: nobody does.
        """
        self.marks.values = values
        if root is None and self.watched is _nobody and not self.is_marked:
            return  # As the step before: most steps are not recorded, and short ones show it.
        self.watch(root, is_marked=root is not None)
        if root is not None:
            self.marks.begin_step()

    def peek(self, root: nn.Module) -> None:
        """Count calls of the root up to the first with autograd, while none is recorded."""
        if not self._in_place and not self._is_compiled():
            self.peeked = weakref.ref(root)
            self._move_gate()

    def peeking(self, root: nn.Module, note: Callable[[_T], object]) -> Callable[[_T], object]:
        """Return what notes something, and peeks again; called at the ends of short steps."""
        call, code, peeked = self.call, self._codes.peeking, weakref.ref(root)

        def note_and_peek(what: _T) -> None:
            note(what)
            if self._is_open and not self._in_place and not self.is_wanted:
                self.peeked = peeked
                call.__code__ = code

        return note if self._in_place or self._is_compiled() else note_and_peek

    def run_peeked(
        self,
        root: nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        run: Call | None = None,
    ) -> object:
        """Run one forward of the root that is not recorded, and keep when it ran."""
        # No other call is counted meanwhile: those inside of it cost nothing.
        peeked, self.peeked = self.peeked, _nobody
        self._move_gate()
        is_grad, thread, training = torch.is_grad_enabled(), get_ident(), root.training
        items = _first_axis(args)
        began = perf_counter()
        if is_grad:
            self._root_calls.append(RootCall(thread, began, began, training, is_grad, items))
            return (run or self.untraced)(root, *args, **kwargs)
        try:
            return (run or self.untraced)(root, *args, **kwargs)
        finally:
            ended = perf_counter()
            self._root_calls.append(RootCall(thread, began, ended, training, is_grad, items))
            if self._is_open:
                self.peeked = peeked
                self._move_gate()

    def take_root_calls(self) -> list[RootCall]:
        """Return calls of the root in steps that were not recorded."""
        return [self._root_calls.popleft() for _ in range(len(self._root_calls))]

    def begin_pass(self, roots: object) -> None:
        """Take note that a backward pass begins on this thread: what runs in it is computed again.

        On a GPU the engine runs it on a thread of its own.

        Args:
            roots: tensors that it begins with.
        """
        inside = self._pass
        if inside is None:
            if self.is_marked:
                self._pass = _Pass(get_ident())
                self.marks.begin_pass(roots)
                self._move_gate()
        elif self._is_in(inside):
            self.marks.begin_inner_pass(inside.events.get(get_ident()), roots)

    def end_pass(self) -> None:
        """Take note that the innermost pass on this thread has ended."""
        inside = self._pass
        if inside is None or not self._is_in(inside):
            return
        if is_in_backward():
            self.marks.end_inner_pass()
            return
        self._pass = None
        self.marks.end_pass(inside.events)
        self._move_gate()

    def recomputing(self) -> list[object] | None:
        """Return the events of the backward pass that this call is in; None outside of one."""
        inside = self._pass
        if inside is None or not self._is_in(inside):
            return None
        events = inside.events.get(get_ident())
        if events is None:
            events = inside.events[get_ident()] = self.marks.new_inner_events()
        return events

    def _is_in(self, inside: _Pass) -> bool:
        """Tell whether this thread is in a pass: a device has threads of its own for it."""
        is_here = inside.thread == get_ident()
        return is_here or (self.device is not None and is_in_backward())

    @property
    def is_busy(self) -> bool:
        """Whether a forward has begun and not ended."""
        return bool(self._under_way)

    @property
    def asking_seconds(self) -> float:
        """What it took so far to tell forwards as traced from others, and what threads use."""
        return self._asking_seconds + self._usage.spent + self._tokens.spent

    @property
    def noting_seconds(self) -> float:
        """What it took so far to note what a thread used at the ends of steps not recorded."""
        return self._usage.noted

    def close(self) -> None:
        """Record nothing any more, and forget what was recorded."""
        self._is_open = False
        self.collector.stop()
        self._usage.close()
        self.marks.close()
        # The gate stays as it is: what was compiled meanwhile may hold the replacement, and would
        # be compiled again for other code. Open, it passes through.
        self.is_wanted, self.watched, self.peeked = False, _nobody, _nobody
        self._finished.clear()
        self._modules_before = []
        if self.device is not None:
            self.device.close()

    def meet(self, module: nn.Module) -> None:
        """Tell of a module that is called while the root does not run; once, and of so many."""
        if len(self.met) < MOST_MET:
            self.met.add(id(module))
            is_encoder = self._tokens.meet(self.watched(), module)
            if is_encoder or (self._strangers is not None and self._strangers(module)):
                self.timed.add(id(module))

    def run_other(
        self, model: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run a call of a model other than the watched one, or of an encoder, and note its time."""
        thread = get_ident()
        if thread in self._in_other:  # Of a part of another one, which is timed with it.
            return self.untraced(model, *args, **kwargs)
        marked: MarkedEvents | None = None
        start, first, output = 0.0, 0, None
        try:  # A handler of a signal may raise after any call, also after this one.
            self._in_other.add(thread)
            if self.is_marked and is_graph_kept():
                marked = self.marks.other_events()
            if marked is not None:
                first = sequence_number()
                self.marks.enter(marked, first, args, kwargs)
            start = perf_counter()
            output = self.untraced(model, *args, **kwargs)
            return output
        finally:
            self._in_other.discard(thread)
            end = perf_counter()
            if start:
                numbers: list[int] = []
                if marked is not None:
                    self.marks.leave(marked, first, output)
                    numbers = marked.numbers
                if not self._tokens.note(model, start, end):
                    if self.is_marked:
                        self._others.append(OtherCall(thread, start, end, key_of(model), numbers))
                    spent = end - start
                    self._between[id(model)] = self._between.get(id(model), 0.0) + spent

    def _share_out(self, root: nn.Module, seconds: float, *, follows: bool) -> None:
        """Add what models took since the forward before, where nothing ran unseen since."""
        between, self._between = self._between, {}
        if follows:
            between[id(root)] = seconds
            # A copy: another thread may add an item meanwhile.
            for key, spent in list(between.items()):
                self.model_seconds[key] = self.model_seconds.get(key, 0.0) + spent

    def take(self) -> list[Forward]:
        """Return what finished since the last time."""
        # No lock: another thread could hold it when the process forks. Each step is atomic, with
        # the GIL and without.
        taken = [self._finished.popleft() for _ in range(len(self._finished))]
        self._pending = 0
        self._modules_before = []  # Or the model would be kept alive until its next forward.
        return [one.forward() for one in taken]

    def others(self) -> list[OtherCall]:
        """Return calls of other models that wait to be taken, and leave them there."""
        return [*self._others.copy()]

    def take_others(self) -> list[OtherCall]:
        """Return calls of other models in recorded steps."""
        return [self._others.popleft() for _ in range(len(self._others))]

    def take_own(self) -> list[OwnTime]:
        """Return when the profiler worked before and after forwards, in recorded steps."""
        return [self._own.popleft() for _ in range(len(self._own))]

    def run_entry(
        self, method: Call, model: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Run a method that stands for the forward of the root."""
        if self.peeked() is model:
            return self.run_peeked(model, args, kwargs, method)
        if self.events.get() is not None or self.watched() is not model:
            return method(model, *args, **kwargs)
        return self.run_root(model, args, kwargs, method)

    def run_root(
        self,
        root: nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        run: Call | None = None,
    ) -> object:
        """Run one forward of the root on this thread, and keep its events if there is room.

        Args:
            root: the model.
            args: what it is given.
            kwargs: likewise.
            run: the method that stands for its forward; None: what was replaced.
        """
        entered = perf_counter() if self.is_marked else 0.0
        # Before the call: what is given may change in it.
        kind = None if self._traced is None else self._kind(root, args, kwargs)
        as_traced = kind == self._traced
        tokens = self._tokens.before(root, args, kwargs)
        if self._seconds_left <= 0 and self._tokens.is_over_with(tokens):
            return self._run_unrecorded(root, args, kwargs, run or self.untraced)
        other = None if as_traced else kind
        call = _Call(root, args, kwargs, run or self.untraced, as_traced, tokens, other, entered)
        if as_traced and self.around_next and (around := self._taken_around()) is not None:
            try:
                return around(partial(self._run, call, reads=False, is_apart=True))
            finally:
                self.ended = perf_counter()  # What was around it is no time of the next one's.
        return self._run(call, reads=as_traced and self.reader.is_asked)

    def _run_unrecorded(
        self, root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], run: Call
    ) -> object:
        """Run the first forward of a request after the last one that is to be recorded."""
        self._tokens.is_generating = self.is_wanted = False
        self.ended = None
        self._move_gate()
        return run(root, *args, **kwargs)

    def _run(self, call: _Call, *, reads: bool, is_apart: bool = False) -> object:
        """Run a forward of the root.

        Args:
            call: of the root.
            reads: whether each call reads what its thread uses.
            is_apart: what is around it makes it longer: a device has it in no figure.
        """
        root, device, events = call.root, self.device, self._new_events()
        training, autograd = root.training, autograd_now()
        is_room = self._pending < self._pending_events
        number, start, first, output = id(events), 0.0, 0, None
        mark: DeviceEvent | None = None
        readings = self._begin_reading(events) if reads and is_room else None
        before = self._usage.read_undisturbed()
        begun = _Begun(
            events,
            is_room,
            call.as_traced,
            training,
            autograd,
            before,
            readings,
            is_apart,
            call.kind,
        )
        try:
            self._under_way[number] = events
            if not self.is_wanted or readings is not None:
                # Recording was stopped since the call began: what runs already is not cut.
                self._move_gate()
            self.events.set(events if is_room else _FULL)
            mark = None if device is None or not is_room else device.begin(events)
            if isinstance(events, MarkedEvents):
                first = sequence_number()
                self.marks.enter(events, first, call.args, call.kwargs)
                if events.values is not None:
                    events.values.given((*call.args, *call.kwargs.values()))
            clocks = None if readings is None else readings.begin()
            start = perf_counter()
            output = call.run(root, *call.args, **call.kwargs)
            return output
        finally:
            try:
                end = perf_counter()
                if start and readings is not None and clocks is not None:
                    readings.end(clocks)
                if isinstance(events, MarkedEvents):
                    self.marks.leave(events, first, output)
                if device is not None:
                    device.end(events, mark)
                if start:
                    tokens = self._tokens.after(call.tokens, call.kwargs, output)
                    self._note(root, begun, start, end, tokens)
            finally:
                # A handler of a signal may raise after any call: before these there is none.
                del self._under_way[number]
                self.events.set(None)
                if readings is not None:
                    self.reader.leave(events)
                if not self.is_wanted or readings is not None:
                    self._move_gate()
                if call.entered and start:
                    thread = get_ident()
                    self._own.append((thread, call.entered, start))
                    self._own.append((thread, end, perf_counter()))

    def _begin_reading(self, events: list[object]) -> CallReadings | None:
        """Have the calls of a forward that begins read; None where no other code may be put."""
        self.reader.is_asked = False
        if self._in_place or self._is_compiled():
            return None
        return self.reader.enter(events, self._usage.schedstat())

    def _new_events(self) -> list[object]:
        if self.is_marked and is_graph_kept():
            marked = self.marks.new_events()
            if marked is not None:
                return marked
        return [] if self.device is None else self.device.new_forward()

    def _note(
        self,
        root: nn.Module,
        begun: _Begun,
        start: float,
        end: float,
        tokens: ForwardTokens | None = None,
    ) -> None:
        """Keep what a forward of the root left, if there was room and nothing interrupted it."""
        if begun.autograd == "grad":
            self.threads.add(get_ident())
        is_kept = begun.is_room and len(begun.events) < self.longest
        self._seconds_left -= end - start
        is_held = self._tokens.holds(self._seconds_left)
        if self._seconds_left <= 0 and not is_held and not (is_kept and self.ended is None):
            self.is_wanted = False
        if is_kept:
            self._finish(root, begun, start, end, tokens)
        else:
            self._drop(begun.events)

    def read_usage(self) -> Reading:
        """Return what the calling thread has used since it began."""
        return self._usage.read()

    def noting_usage(
        self, note: Callable[[float | tuple[float, Reading]], object]
    ) -> Callable[[float], None]:
        """Return what notes a second with what this thread used until then."""
        return self._usage.noting(note)

    def _drop(self, events: list[object]) -> None:
        self.dropped += 1
        self.ended = None
        if self.device is not None:
            self.device.drop(events)

    def _taken_around(self) -> Around | None:
        try:
            return self.around_next.popleft()
        except IndexError:
            return None  # Another thread was sooner.

    def _kind(self, root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> Kind:
        began = perf_counter()
        found = kind_of(root, args, kwargs)
        self._asking_seconds += perf_counter() - began
        return found

    def _finish(
        self,
        root: nn.Module,
        begun: _Begun,
        start: float,
        end: float,
        tokens: ForwardTokens | None = None,
    ) -> None:
        after, threads = self._usage.read(), torch.get_num_threads()
        events, device = begun.events, self.device
        if not self._is_open:
            if device is not None:
                device.close()
            return
        # At once, and not when it is taken: the floats are still in the cache, the next forward
        # uses their memory again, and what waits is a quarter as large.
        modules: list[nn.Module] = [*events[::_FIELDS], root]  # type: ignore[list-item]  # by turns
        try:
            times = pack(
                f"{2 * len(modules)}d", *events[1::_FIELDS], start, *events[2::_FIELDS], end
            )
        except NoTimesError:  # A handler of a signal raised while a call was noted.
            self._drop(events)
            return
        events.clear()
        before = self._modules_before
        # By identity, because a user's module may define equality as it likes.
        if len(before) == len(modules) and all(map(is_, modules, before)):
            modules = before
        self._modules_before = modules
        since = self.ended
        self._share_out(root, end - start, follows=since is not None)
        self.ended = end if since is None else max(since, end)  # Another thread's may be later.
        self._pending += len(modules)
        self._finished.append(
            _Finished(modules, times, since, begun, after, threads, get_ident(), tokens)
        )
        if device is not None:
            is_in_step = isinstance(events, MarkedEvents)
            is_usual = begun.as_traced and begun.readings is None and not begun.is_apart
            device.finish(events, modules, times, as_traced=is_usual, is_in_step=is_in_step)

    def _move_gate(self) -> None:
        # Another thread may begin to watch between the question and the answer: it has said so
        # before it opens the gate, so asking once more after shutting it is enough.
        is_needed = self.is_wanted or bool(self._under_way) or self._pass is not None
        codes = self._codes
        if self._in_place or not (is_needed or self._is_compiled()):
            is_peeking = self.peeked is not _nobody and not self._in_place
            self.call.__code__ = codes.peeking if is_peeking else codes.shut
        if not self._in_place and (self.is_wanted or self._under_way or self._pass is not None):
            is_reading = self.reader.is_reading
            opened = codes.marked if self.is_marked else codes.opened
            self.call.__code__ = codes.reading if is_reading else opened

    def _is_compiled(self) -> bool:
        *recording, _ = self._codes
        return any(map(is_compiled, recording))

    def _call_aside(self, module: nn.Module, /, *args: object, **kwargs: object) -> object:
        """Call a module with the gate shut, where it was compiled in place."""
        if module._compiled_call_impl is None:
            return self.replaced(module, *args, **kwargs)
        self._in_place.append(None)
        self._move_gate()
        try:
            return self.replaced(module, *args, **kwargs)
        finally:
            self._in_place.pop()
            self._move_gate()


def _nobody() -> None:
    return None


def _first_axis(args: tuple[object, ...]) -> int:
    """Return the size of the first axis of the first argument; 0 where there is none."""
    first = args[0] if args else None
    if type(first) is not torch.Tensor or first.is_nested:
        return 0
    with without_torch_function():
        shape = first.shape
    return shape[0] if shape else 0


class _Call(NamedTuple):
    """A call of the root."""

    root: nn.Module
    args: tuple[object, ...]
    kwargs: dict[str, object]
    run: Call
    as_traced: bool
    tokens: GivenTokens | None
    kind: Kind | None
    """Its inputs and mode; None where they are as traced."""
    entered: float
    """Second at which the profiler's work for it began; 0 where its step is not recorded."""


class _Begun(NamedTuple):
    """A forward that runs, or waits to be taken."""

    events: list[object]
    is_room: bool
    as_traced: bool
    training: bool
    autograd: Autograd
    before: Reading
    readings: CallReadings | None
    is_apart: bool
    kind: Kind | None = None


class _Finished(NamedTuple):
    """A forward that waits to be taken: what needs no forward to wait is worked out then."""

    modules: list[nn.Module]
    times: bytes
    since: float | None
    begun: _Begun
    after: Reading
    threads: int
    thread: int
    tokens: ForwardTokens | None

    def forward(self) -> Forward:
        """Return it as it is told."""
        begun, calls = self.begun, len(self.modules)
        # A handler of a signal may have raised between the times of a call and what is beside them.
        numbers: list[int] = []
        values: CallValues | None = None
        if isinstance(begun.events, MarkedEvents):
            numbers, values = begun.events.numbers, begun.events.values
        used = begun.readings.used if begun.readings is not None else array("d")
        return Forward(
            self.modules,
            self.times,
            self.since,
            begun.as_traced,
            Setting(begun.training, begun.autograd, self.threads),
            usage_between(begun.before, self.after),
            array("q", numbers) if len(numbers) == 2 * calls else None,
            self.thread,
            used.tobytes() if len(used) == FIGURES * calls else b"",
            values,
            self.tokens,
            begun.kind,
        )


class ModelKey(NamedTuple):
    """A model that is told apart from others, and not kept alive."""

    id: int
    kind: str
    """Name of its class."""


def key_of(model: nn.Module) -> ModelKey:
    """Return what tells a model apart from others."""
    return ModelKey(id(model), writable(type(model).__name__))


class OtherCall(NamedTuple):
    """A call of a model other than the watched one."""

    thread: int
    began: float
    """Second of ``time.perf_counter``."""
    ended: float
    model: ModelKey
    numbers: Sequence[int] = ()
    """Of autograd's next node, at its entry and exit; none where the graph was not kept."""


class RootCall(NamedTuple):
    """Calls of the root that were not recorded: one, or several in a row added up."""

    thread: int
    began: float
    """Second of ``time.perf_counter``."""
    ended: float
    """That of its beginning where it ran with autograd."""
    training: bool
    """The root's flag, before it."""
    is_grad: bool
    items: int
    """Size of the first axis of its first argument; 0 where that is not a tensor with an axis."""
    calls: int = 1
    spent: float | None = None
    """Seconds in those calls; None: from ``began`` to ``ended``."""

    @property
    def seconds(self) -> float:
        """Seconds in those calls."""
        return self.ended - self.began if self.spent is None else self.spent


class _Pass:
    """A backward pass whose calls of modules are recorded."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.events: dict[int, MarkedEvents] = {}
        """Of modules called in it, by thread."""


class _Full(list[object]):
    """Takes nothing: the place of the events of a forward that is dropped."""

    def __len__(self) -> int:
        return sys.maxsize


_FULL = _Full()
