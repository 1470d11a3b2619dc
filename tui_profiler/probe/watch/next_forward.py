"""Which of a program's forwards a tree is made of: the next one, or one of another model."""

import weakref
from collections.abc import Callable
from typing import TypeAlias

import torch

from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat.entry_method import holds
from tui_profiler.probe.torch_compat.forward_kind import Kind
from tui_profiler.probe.trace.record_program_forward import LOOP_SECONDS
from tui_profiler.probe.trace.tree.growing_tree import class_name
from tui_profiler.probe.watch.listener import Listener, MakesClock, Methods
from tui_profiler.probe.watch.model_choice import SETTLED_SECONDS, ModelChoice
from tui_profiler.system import real_time as time

Wanted: TypeAlias = Callable[[torch.nn.Module], bool]
Mode: TypeAlias = tuple[bool, bool]
"""Whether a module is in training mode, and autograd is on."""
MODE_SECONDS = 60.0
"""How long a forward in another mode is waited for: each call of a module is slower meanwhile."""


class Search:
    """Waits for one forward at a time.

    Args:
        wanted: tells whether a call of a module is the beginning of a forward to record.
        name: of the root node; empty for its class.
        wake: called when a forward was recorded, from any thread.
        elsewhere: what tells that another model is run, or that one is none; None: there is one
            alone.
        loop_seconds: how long a forward that runs one model again and again is recorded.
        makes_clock: of forwards after the recorded one, where no clock is on another model; None:
            none is put on here.
        watched: the one model that is waited for; None where it is any.
    """

    def __init__(
        self,
        wanted: Wanted,
        name: str,
        wake: Callable[[], None],
        elsewhere: ModelChoice | None,
        *,
        loop_seconds: float = LOOP_SECONDS,
        makes_clock: MakesClock | None = None,
        watched: weakref.ref[torch.nn.Module] | None = None,
    ) -> None:
        self._watched = watched
        self._makes_clock = makes_clock
        self._clock: ModuleClock | None = None
        """On the model that was heard last."""
        self._wanted = wanted
        self._name = name
        self._wake = wake
        self._elsewhere = elsewhere
        self._loop_seconds = loop_seconds
        self._listener: Listener | None = None
        self._is_for_mode = False
        """Whether that waits for another forward of the model that is looked at."""
        self._until = 0.0
        """``time.monotonic()`` until which it does."""

    @property
    def goes_on(self) -> bool:
        """Whether another model is looked at when the first is gone."""
        return self._elsewhere is not None

    @property
    def inside(self) -> str:
        """Of what a model that was heard now is a part, in words; empty where of nothing."""
        loop = self._elsewhere.innermost_loop if self._elsewhere is not None else None
        return f", inside of {class_name(loop)}, whose forward goes on" if loop is not None else ""

    @property
    def is_on(self) -> bool:
        """Whether a forward is waited for."""
        return self._listener is not None

    @property
    def is_for_mode(self) -> bool:
        """Whether another forward of the model that is looked at is waited for."""
        return self._is_for_mode

    @property
    def is_recording(self) -> bool:
        """Whether one is being recorded."""
        return self._listener is not None and self._listener.is_recording

    @property
    def waits_because(self) -> str:
        """Why the last forward was let alone; empty where none was."""
        return self._listener.waits_because if self._listener is not None else ""

    def begin(
        self,
        but: weakref.ref[torch.nn.Module] | None = None,
        *,
        is_run_by_method: bool = False,
        trains: bool = False,
        only_trained: bool = False,
    ) -> None:
        """Wait for a forward.

        Args:
            but: not one of this model.
            is_run_by_method: nor one of its parts, which its program calls.
            trains: but of a method that runs it in training mode, where there is one.
            only_trained: of one that may be trained by it: in training mode, with autograd.
        """

        def is_wanted(module: torch.nn.Module) -> bool:
            if only_trained and not (module.training and torch.is_grad_enabled()):
                return False
            former = but() if but is not None else None
            is_part = former is not None and is_run_by_method and holds(former, module)
            if former is module or is_part:
                return False
            return self._wanted(module)

        patience = self._elsewhere.patience if self._elsewhere is not None else 1
        seconds = patience * self._loop_seconds
        self._listener = Listener(
            is_wanted,
            self._name,
            self._wake,
            seconds,
            methods=Methods(
                are_found=self._elsewhere is not None,
                watched=self._watched,
                trained=but if trains else None,
            ),
            is_chosen=self._elsewhere.is_chosen if self._elsewhere is not None else _any,
            makes_clock=self._makes_clock if but is None else None,
        )
        self._listener.install()

    def end(self) -> None:
        """Wait no longer; a clock that nobody has taken is taken off."""
        clock = self.take_clock()
        if clock is not None:
            clock.uninstall()
        self._is_for_mode = False
        if self._listener is not None:
            self._listener.uninstall()
            self._listener = None

    def heard(self) -> Listener | None:
        """Return who has heard a forward, or why none could be; None while there is neither."""
        listener = self._listener
        if listener is None or not listener.is_over:
            return None
        self._listener = None
        self._clock = listener.take_clock()
        return None if self._passes_over(listener) else listener

    def take_clock(self) -> ModuleClock | None:
        """Return the clock that is on the model that was heard last, None where there is none."""
        clock, self._clock = self._clock, None
        return clock

    def heard_elsewhere(
        self,
        root: weakref.ref[torch.nn.Module] | None,
        idle_seconds: float,
        *,
        is_run_by_method: bool = False,
        only_evaluates: bool = False,
        has_trained: bool = False,
    ) -> Listener | None:
        """Return the listener that recorded a forward of another model; polled now and then.

        Args:
            root: what is looked at.
            idle_seconds: since its last forward ended.
            is_run_by_method: whether its program calls its parts from one of its methods.
            only_evaluates: whether that method runs it in evaluation mode, as Lightning does before
                it trains: then another one that trains it is heard as another model is.
            has_trained: whether training steps of what is looked at were told: then a model that
                rests is left for one that is trained only. Else the copy that a script tests at its
                end would take the place of all that was measured of its training.
        """
        listener, elsewhere = self._listener, self._elsewhere
        model = root() if root is not None else None
        trains = is_run_by_method and only_evaluates
        if model is None or (elsewhere is None and not trains):
            return None
        if elsewhere is None or (elsewhere.chosen and trains):
            return self._heard_training(root, is_idle=idle_seconds >= SETTLED_SECONDS)
        if listener is None:
            if elsewhere.is_elsewhere(model, idle_seconds):
                self.begin(
                    but=root,
                    is_run_by_method=is_run_by_method,
                    trains=trains,
                    only_trained=has_trained and elsewhere.is_rested,
                )
        elif listener.hearing is not None:
            self.end()
            return listener
        elif not listener.is_recording and (listener.gave_up or elsewhere.is_in_vain(idle_seconds)):
            self.end()
            if not self._passes_over(listener):
                elsewhere.give_up()
        return None

    def begin_in_mode(self, root: weakref.ref[torch.nn.Module], mode: Mode) -> None:
        """Wait for a forward of the model that is looked at, in another mode."""

        def is_wanted(module: torch.nn.Module) -> bool:
            return root() is module and (module.training, torch.is_grad_enabled()) == mode

        self._begin_of_root(is_wanted, None)

    def begin_of_kind(self, root: weakref.ref[torch.nn.Module], kind: Kind) -> None:
        """Wait for a forward of the model that is looked at, of another kind."""
        self._begin_of_root(lambda module: root() is module, kind)

    def _begin_of_root(self, wanted: Wanted, kind: Kind | None) -> None:
        self._is_for_mode, self._until = True, time.monotonic() + MODE_SECONDS
        self._listener = Listener(wanted, self._name, self._wake, self._loop_seconds, kind=kind)
        self._listener.install()

    def heard_in_mode(self) -> Listener | None:
        """Return the listener that recorded it; polled after either method before."""
        listener = self._listener
        if listener is not None and listener.hearing is not None:
            self.end()
            return listener
        is_recording = listener is not None and listener.is_recording
        is_vain = listener is None or listener.gave_up or time.monotonic() >= self._until
        if not is_recording and is_vain:
            self.end()
        return None

    def _heard_training(
        self, root: weakref.ref[torch.nn.Module] | None, *, is_idle: bool
    ) -> Listener | None:
        """Return the listener that recorded a method which trains the one model there is."""
        listener = self._listener
        if listener is None:
            if is_idle:
                self.begin(but=root, is_run_by_method=True, trains=True)
        elif listener.hearing is not None:
            self.end()
            return listener
        elif not listener.is_recording and (listener.gave_up or not is_idle):
            self.end()
        return None

    def _passes_over(self, listener: Listener) -> bool:
        """Tell whether what was heard is a loop of the program's: the model is inside of it."""
        if listener.loop is None or self._elsewhere is None:
            return False
        self._elsewhere.pass_over(listener.loop)
        return True


def _any(model: torch.nn.Module) -> bool:
    return True
