"""One model of a program that is not ours, and the viewers that look at it.

1. The model is never called by us. Its tree is recorded from one of its program's own forwards; its
   times come from the module clock.
2. While nobody looks, nothing is replaced in the program; some time after the last viewer has left,
   so that one that comes back finds its figures.
3. Everything here runs on one thread of the probe's own (``server.py``), but for ``post`` and
   ``memory_ran_out``. It never holds up a forward: what is recorded waits in bounded queues, and
   what did not fit is counted.
4. Messages are made once and go to every viewer; a viewer that does not read loses ticks, and holds
   up no one. One that has not taken a tree when the next is made is hung up on.
"""

import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence

import torch
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages.live import WAITS, WIRE_VERSION, State
from tui_profiler.probe.measure.clock.backward import BackwardPasses
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import device_clock_of
from tui_profiler.probe.measure.clock.overhead_budget import TICK_SECONDS
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.process.yielding import in_small_steps
from tui_profiler.probe.torch_compat.entry_method import EntryMethod
from tui_profiler.probe.torch_compat.forward_kind import Kind
from tui_profiler.probe.trace.out_of_memory import Frame
from tui_profiler.probe.trace.trace import Trace
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.watch import out_of_memory
from tui_profiler.probe.watch.listener import Listener
from tui_profiler.probe.watch.model_choice import ModelChoice
from tui_profiler.probe.watch.model_facts import device_name, facts_of, greeting, say_tree
from tui_profiler.probe.watch.next_forward import Mode, Search, Wanted
from tui_profiler.probe.watch.program_times import ProgramEnergy, ProgramTimes
from tui_profiler.probe.watch.rank import rank_of_run
from tui_profiler.probe.watch.viewers import Viewers
from tui_profiler.system import real_time as time

ACCEPTS = ("Observe", "TraceAgain", "ReadValues")
REFUSAL = "read-only: the model runs in your program"
GRACE_SECONDS = 10.0
"""How long after the last viewer the program stays as it is looked at."""
IDLE_SECONDS = 2.0
"""Without a forward for so long, the program is said to wait."""
TRACES_APART_SECONDS = 2.0
"""The least time between two recorded forwards, which are slower than others: viewers may ask for
as many as they like."""
FOLLOW_AFTER_SECONDS = 2.0
"""Between two trees that are recorded because other forwards run, at first."""
MOST_FOLLOW_SECONDS = 64.0
RARE_PAUSES = 16
"""Pauses without another such tree, after which the pause is as at first."""
_OF_NOW = (
    messages.Tick,
    messages.Overhead,
    messages.LoopState,
    messages.Sample,
    messages.StepTimes,
    messages.ModeSeen,
    messages.TrainingStep,
    messages.ModelValues,
    messages.Generation,
)
"""What tells of the present: a viewer that comes later must not take it for new."""


class Observer:
    """Looks at one model while someone wants to see it.

    Args:
        program: who it is, but for ``at``.
        name: of the model; empty for its class.
        wanted: tells whether a call of a module is the beginning of a forward of this model.
        budget: what watching may cost, as a share.
        wake: makes the thread that calls ``step`` call it soon; may be called from any thread.
        grace_seconds: how long after the last viewer the program stays as it is looked at.
        elsewhere: what tells that another model is run, or that one is none; None: there is one
            alone, and with it the looking ends.
        watched: the model that is alone; None where there may be several.
    """

    def __init__(
        self,
        program: messages.Program,
        name: str,
        wanted: Wanted,
        budget: float,
        wake: Callable[[], None],
        grace_seconds: float = GRACE_SECONDS,
        *,
        elsewhere: ModelChoice | None = None,
        watched: weakref.ref[torch.nn.Module] | None = None,
    ) -> None:
        self._name = name
        self._watched = watched
        self.program = program
        self._began = time.monotonic() - (time.time() - program.started_at)
        # A program that is watched runs on; a script may have ended before we could put one on.
        makes_clock = self._clock_on if elsewhere is not None else None
        self._search = Search(
            wanted, name, wake, elsewhere, makes_clock=makes_clock, watched=watched
        )
        self._elsewhere = elsewhere
        self._others: tuple[str, ...] = ()
        self._shares: tuple[float, ...] = ()
        """Of the time, of each of those."""
        self._models: tuple[messages.RunModel, ...] = ()
        self._budget = budget
        self._wake = wake
        self._grace_seconds = grace_seconds
        self._viewers = Viewers()
        self._posted: deque[messages.Sample | messages.Printed] = deque(maxlen=2)
        self._out_of_memory: deque[out_of_memory.Raised] = deque(maxlen=1)
        self._tree: Trace | None = None
        self._kind: Kind | None = None
        self._has_failed = False
        self._is_kept = False
        """Whether what was measured of a model that is gone stays until another one is trained."""
        self._is_again_wanted = False
        self._next_trace = 0.0
        self._values_wanted = 0
        """How many viewers want values to be read."""
        self._root: weakref.ref[torch.nn.Module] | None = None
        self._following = _Following()
        self._trained_otherwise: weakref.ref[torch.nn.Module] | None = None
        """The model whose tree was to be recorded again, in the mode that it is trained in."""
        self._entry: EntryMethod | None = None
        """The method that stands for the model's forward; None: the forward itself."""
        self._times: ProgramTimes | None = None
        self._state: State = "starting"
        self.energy = ProgramEnergy()

    def now(self) -> float:
        """Return seconds since the program is watched."""
        return time.monotonic() - self._began  # The system clock may be set meanwhile.

    @property
    def is_looked_at(self) -> bool:
        """Whether anyone wants to be told."""
        return bool(self._viewers)

    @property
    def connections(self) -> int:
        """How many have called, whether they look or not."""
        return self._viewers.connections

    @property
    def is_active(self) -> bool:
        """Whether anything of the program is replaced at present."""
        return self._search.is_on or self._times is not None

    def admit(self, link: Link, role: str) -> None:
        """Take a new connection; it is told who this is, and nothing else before it asks."""
        # In a forked child it is another process.
        model, who = self._model(), self.program
        if who.rank is None:
            rank, ranks, run = rank_of_run()
            who = replace(who, rank=rank, ranks=ranks, run=run)
        program = replace(
            who,
            at=self.now(),
            role=role,
            pid=os.getpid(),
            model=class_name(model) if model is not None and not self._name else "",
            device=device_name(model) if model is not None else "",
            per_second=self._per_second(),
        )
        accepts = ACCEPTS if self._elsewhere is None else (*ACCEPTS, "ShowModel")
        self._viewers.admit(
            link, messages.Hello(WIRE_VERSION, program.pid, accepts, REFUSAL, program)
        )

    def _model(self) -> torch.nn.Module | None:
        """Return the model that is looked at, or that is to be; None where none was seen yet."""
        for one in (self._root, self._watched):
            model = one() if one is not None else None
            if model is not None:
                return model
        return None

    def _per_second(self) -> messages.Figure:
        step = self._viewers.last(messages.TrainingStep)
        if isinstance(step, messages.TrainingStep) and isinstance(step.per_second, float):
            return step.per_second
        tick = self._viewers.last(messages.Tick)
        if isinstance(tick, messages.Tick) and math.isfinite(tick.per_second):
            return tick.per_second  # Of forwards: no batch is known.
        return self.program.per_second

    def make_room(self) -> bool:
        """Close the longest idle connection; False where every one has sent a request."""
        return self._viewers.hang_up_on_silent()

    def post(self, sample: messages.Sample | messages.Printed) -> None:
        """Have viewers told of a sample, or why there is none, at the next step; any thread.

        Does not wake the probe's thread: figures would be aggregated twice per second.
        """
        self._posted.append(sample)

    def add_sampling(self, seconds: float) -> None:
        """Count CPU time of reading the machine's counters; from the thread that does."""
        if (times := self._times) is not None:
            times.sampling_seconds += seconds

    def memory_ran_out(
        self, frames: Sequence[Frame], device: str, wanted: messages.Figure, *, is_uncaught: bool
    ) -> None:
        """Have viewers told of what the program was doing; on the thread that it happened on."""
        root = self._root() if self._root is not None else None
        threads = times.threads if (times := self._times) is not None else set()
        raised = out_of_memory.read_state(
            frames, root, threads, device=device, wanted=wanted, is_uncaught=is_uncaught
        )
        self._out_of_memory.append(raised)
        self._wake()

    def tell(self, message: messages.Message) -> None:
        """Send a message to every viewer, and to no later one."""
        self._viewers.tell(message)

    def step(self) -> float | None:
        """Look after viewers and figures; return the seconds until the next step, or None."""
        self._viewers.requests(self._carry_out)
        if not self._viewers:
            self._want_values(0)
            self._viewers.forget([messages.Printed])  # Nothing is read any more.
            return self._rest()
        # A script's errors are told by what runs it, whatever it has put for the hook.
        out_of_memory.ERRORS.listen(self, hooks=not out_of_memory.ERRORS.is_in_script)
        is_due = self._is_again_wanted and time.monotonic() >= self._next_trace
        if is_due and not self._search.is_recording:
            self._forget_tree()
        if self._root is not None and self._root() is None:
            self._look_for_another()
        elif self._times is not None:
            self._tick(self._times)
            listener = self._heard(self._times)
            if listener is not None:
                self._look_at(listener)
            elif self._has_less_time(self._times):
                self._forget_tree()
        elif not self._has_failed:
            self._find_tree()
        self._say_out_of_memory()
        while self._posted:
            posted = self._posted.popleft()
            match posted:
                case messages.Sample():
                    self._viewers.forget([messages.Printed])  # They can be read again.
                    self._viewers.say(self.energy.beside(posted))
                case messages.Printed():
                    self._viewers.say(posted)
        self._viewers.beat(self.now())
        if self._times is not None:
            self._times.record_next()
        return self._times.pause if self._times is not None else TICK_SECONDS

    def _heard(self, times: ProgramTimes) -> Listener | None:
        """Return who heard the model that is run instead, or the same one where it is trained."""
        if self._search.is_for_mode:
            return self._search.heard_in_mode()
        mode = self._mode_to_hear(times)
        if mode is not None and self._root is not None and not self._search.is_on:
            self._trained_otherwise = self._root
            self._search.begin_in_mode(self._root, mode)
            return None
        kind = None if self._entry is not None else times.kind_to_follow
        if kind is not None and self._root is not None and not self._search.is_on:
            if self._following.is_due():
                self._search.begin_of_kind(self._root, kind)
            return None
        return self._search.heard_elsewhere(
            self._root,
            times.idle_seconds,
            is_run_by_method=self._entry is not None,
            only_evaluates=self._kind is not None and self._kind[:1] == (False,),
            has_trained=times.has_trained,
        )

    def _has_less_time(self, times: ProgramTimes) -> bool:
        """Return whether another model is trained beside this one that takes far more time."""
        model = self._model()
        if self._elsewhere is None or model is None or self._search.is_on:
            return False
        if not times.has_trained or not (trained := times.trained_beside):
            return False
        return self._elsewhere.prefer_busiest(model, times.model_seconds, trained)

    def _mode_to_hear(self, times: ProgramTimes) -> Mode | None:
        """Return the mode that the model is trained in, where its tree is of another.

        Of a script that evaluates before it trains the tree is of an evaluation: its costs and the
        times of training would never be set against each other. It is recorded again, once.
        """
        mode = times.untraced_mode
        if mode is None or self._kind is None or self._kind[:2] == mode:
            return None
        was = self._trained_otherwise
        is_again = was is not None and was() is self._model()
        return None if is_again or self._entry is not None else mode

    def close(self, why: str = "") -> None:
        """Put everything back, and hang up; ``why`` is told to those who still look."""
        self._viewers.requests(self._carry_out)
        if self._viewers and self._root is None:
            if (heard := self._search.heard()) is not None:
                self._take_tree(heard)  # Of the program's only forward, it may be.
            else:
                self._say_why_none()
        if self._times is not None and self._viewers:
            self._tick(self._times, is_last=True)
        self._say_out_of_memory()
        out_of_memory.ERRORS.leave(self)
        self._let_go()
        if why:
            self._end(why)
        self._viewers.close()

    def forget(self) -> None:
        """Drop connections without a word: in a forked child they are the parent's."""
        out_of_memory.ERRORS.leave(self)
        self._let_go()
        self._viewers.abandon()

    def _carry_out(self, request: messages.Request) -> None:
        # Hello says what is carried out; the rest is for probes of the viewer's own.
        if isinstance(request, messages.ShowModel) and self._elsewhere is not None:
            self._elsewhere.chosen = request.pattern
            if not self._search.is_recording:
                self._forget_tree()
        elif isinstance(request, messages.ReadValues):
            self._want_values(self._values_wanted + (1 if request.wanted else -1))
        elif isinstance(request, messages.TraceAgain) and not self._search.is_on:
            self._is_again_wanted = True

    def _want_values(self, viewers: int) -> None:
        self._values_wanted = max(viewers, 0)
        if self._times is not None:
            self._times.read_values(wanted=self._values_wanted > 0)

    def _forget_tree(self) -> None:
        self._let_go()
        self._is_again_wanted = self._has_failed = False
        self._root = self._tree = None
        self._is_kept = False

    def _rest(self) -> float | None:
        """Wait for a viewer; put things back when none came for a while."""
        self._has_failed = False
        if not self.is_active:
            return self._viewers.seconds_to_silence()
        if self._search.is_recording:
            return TICK_SECONDS  # Or it would be recorded for as long as that forward takes.
        alone = time.monotonic() - self._viewers.left_at
        if not self._search.is_on and alone < self._grace_seconds:
            if self._times is not None:
                self._times.take()  # Its queues are bounded, but full ones would drop.
            return min(TICK_SECONDS, self._grace_seconds - alone)
        out_of_memory.ERRORS.leave(self)
        self._let_go()
        return self._viewers.seconds_to_silence()

    def _say_out_of_memory(self) -> None:
        """Tell of what memory ran out in; the figures of that step were taken before."""
        while self._out_of_memory:
            raised, times = self._out_of_memory.popleft(), self._times
            found: torch.nn.Module | str = "no step was recorded yet"
            if times is not None:
                is_inside = not raised.said.is_uncaught
                found = times.module_in_backward(raised.seconds, is_inside=is_inside)
            self._viewers.say(
                out_of_memory.message(
                    raised,
                    at=self.now() - max(time.monotonic() - raised.monotonic, 0.0),
                    steps=times.steps if times is not None else 0,
                    in_backward=found,
                    root=self._root() if self._root is not None else None,
                )
            )

    def _let_go(self) -> None:
        self.energy.rest()
        self._search.end()
        if self._times is not None:
            self._times.close()
            self._times = None
        if self._state != "finished":
            self._state = "starting"
        self._has_failed = False
        self._viewers.forget(_OF_NOW)

    def _find_tree(self) -> None:
        if self._root is not None:  # It was let go, and someone looks again: the tree stands.
            self._follow()
        elif not self._search.is_on:
            self._begin_anew()
            self._search.begin()
        elif (listener := self._search.heard()) is not None:
            self._take_tree(listener)
        else:
            self._say_why_none()

    def _say_why_none(self) -> None:
        """Tell why no forward was recorded so far; nothing where there was none."""
        not_chosen = self._elsewhere.waits_because if self._elsewhere is not None else ""
        why = self._search.waits_because or not_chosen
        stage = self._viewers.last(messages.StageStarted)
        because = f"{WAITS}{why}"
        if why and isinstance(stage, messages.StageStarted) and stage.detail != because:
            self._viewers.say(replace(stage, detail=because))

    def _look_for_another(self) -> None:
        """Look at the next model: this one was deleted.

        Where it was trained that is one that is trained too. What was measured stays until then:
        the copy that a script tests at its end must not take its place.
        """
        if not self._search.goes_on:
            self._end("the model was deleted")
        elif not self._search.is_recording:
            if self._times is not None:
                self._tick(self._times, is_last=True)
                self._is_kept = self._times.has_trained
                if self._is_kept:
                    self._search.end()
                    self._times.close()
                    self._times = None
                    self._become("waiting", 0.0)
            heard = self._search.heard()
            if heard is None and self._is_kept:
                if not self._search.is_on:
                    self._search.begin(only_trained=True)
                return
            self._look_at(heard)
            if self._root is None and not self._has_failed:
                self._find_tree()

    def _look_at(self, listener: Listener | None) -> None:
        self._forget_tree()
        if listener is not None and listener.hearing is not None:
            self._begin_anew()
            self._take_tree(listener)

    def _begin_anew(self) -> None:
        with in_small_steps():
            self._viewers.forget()
        for message in greeting(self.now()):
            self._viewers.say(message)

    def _take_tree(self, listener: Listener) -> None:
        hearing, root = listener.hearing, listener.root
        model = root() if root is not None else None  # Held by what was heard, until it is taken.
        self._next_trace = time.monotonic() + TRACES_APART_SECONDS
        with in_small_steps():
            trace = hearing.trace() if hearing is not None else None
        if hearing is None or model is None or trace is None:
            why = listener.gave_up or (hearing.trouble if hearing is not None else "")
            what = "no forward of the program could be recorded"
            self._viewers.say(messages.Failed("trace", what, why=why))
            self._has_failed = True
            self._search.end()
            return
        self._root, self._tree, self._kind = root, trace, hearing.kind
        self._entry = listener.entry if listener.entry_ran else None
        if self._elsewhere is not None:
            self._elsewhere.show(model)
        self._viewers.drop_who_is_behind()
        facts = facts_of(model, trace, self._name, self.program.command)
        took, inside = hearing.seconds, self._search.inside
        if self._entry is not None:
            inside = f", a call of {self._entry.name}{inside}"
        say_tree(
            self._viewers,
            facts,
            trace,
            at=self.now(),
            took=took,
            threads=hearing.threads,
            inside=inside,
        )
        self._follow()

    def _follow(self) -> None:
        """Put the clock on, where it is not."""
        model = self._root() if self._root is not None else None
        if model is not None and self._tree is not None:
            with in_small_steps():
                clock = self._search.take_clock()
                if clock is None:
                    clock = self._clock_on(model, self._kind, self._entry)
                self._times = ProgramTimes(model, self._tree.nodes, self._budget, clock)
                self._want_values(self._values_wanted)

    def _clock_on(
        self, model: torch.nn.Module, kind: Kind | None, entry: EntryMethod | None
    ) -> ModuleClock:
        """Return a clock on a model, for forwards like the one of the tree; it is not put on."""
        return ModuleClock(
            model,
            device=device_clock_of(model),
            traced=kind,
            strangers=self._elsewhere.meet if self._elsewhere is not None else None,
            entry=entry,
            passes=BackwardPasses(model),
            reads_tokens=True,
        )

    def _tick(self, times: ProgramTimes, *, is_last: bool = False) -> None:
        idle = times.take()
        or_cold = is_last or idle > IDLE_SECONDS
        self._become("waiting" if idle > IDLE_SECONDS else "running", idle)
        self.energy.follow(self._state, times)
        for message in times.messages(self.now(), self._viewers.dropped, or_cold=or_cold):
            self._viewers.say(message)

    def _become(self, state: State, idle: float) -> None:
        root = self._root() if self._root is not None else None
        before = self._state, self._others, self._shares, self._models
        if self._elsewhere is not None and root is not None:
            self._others = self._elsewhere.others(root)
            spent = self._times.model_seconds if self._times is not None and self._others else {}
            self._shares = self._elsewhere.shares(root, spent)
            self._models = self._elsewhere.models(root, spent)
        self._state = state
        if before != (state, self._others, self._shares, self._models):
            self._viewers.say(self._loop(self.now() - (idle if state == "waiting" else 0.0)))

    def _end(self, why: str) -> None:
        if self._state != "finished":
            self._let_go()
            self._state = "finished"
            self._viewers.say(self._loop(self.now(), why))

    def _loop(self, at: float, why: str = "") -> messages.LoopState:
        return messages.LoopState(
            self._state,
            at,
            detail=why,
            others=self._others,
            others_shares=self._shares,
            models=self._models,
        )


class _Following:
    """When the tree may be recorded again because other forwards run: ever more seldom.

    A program that alternates between two kinds, each for a while, is not followed for ever.
    """

    def __init__(self) -> None:
        self._pause = FOLLOW_AFTER_SECONDS
        self._last = -math.inf

    def is_due(self) -> bool:
        """Return whether it may be now, and count it if so."""
        now = time.monotonic()
        passed = now - self._last
        if passed < self._pause:
            return False
        is_rare = passed >= RARE_PAUSES * self._pause
        longer = min(2.0 * self._pause, MOST_FOLLOW_SECONDS)
        self._pause, self._last = FOLLOW_AFTER_SECONDS if is_rare else longer, now
        return True
