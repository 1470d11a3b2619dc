"""Backward passes of the program, observed where Python enters autograd's engine.

1. While someone listens, ``torch.autograd._engine_run_backward`` is replaced: every ``backward()``
   and ``autograd.grad()`` goes through it. No hook is put on a tensor, a node or an optimizer, so
   that nothing of the program is pickled, printed or compiled otherwise.
2. It is put back when the last listener leaves, if it is still ours; below another replacement
   ours passes through for ever.
3. Nothing here raises in the program or waits. Of each outermost pass four times are read, and the
   gradients of at most ``MOST_PARAMETERS`` parameters are told apart before and after it. Where the
   same one was the first to change in ``ALIKE`` passes in a row, it alone, until a pass leaves it
   as it is: that one is not said to reach the model, and all are looked at again.
4. Gradients are read only on threads that ran the model's forward: ``Tensor.grad`` has no lock, and
   a gradient that is read while another thread trains is freed twice.
5. What calls the engine otherwise (``Variable._execution_engine``, C++) is not observed.
6. Passes of a step of training that is not recorded are told to nobody: two times of each are kept
   (``Engine.brief``), and ``BackwardPasses`` takes them to be as the last one that it looked at.
"""

import functools
import math
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from threading import get_ident
from typing import Any, Protocol, TypeAlias

import torch
from torch.compiler import is_dynamo_compiling

from tui_profiler.probe.process.interpreter_lock import (
    RareLock,
    Variable,
    own_variable,
    threads_inherit,
)
from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.probe.torch_compat.threads import is_in_backward, without_torch_function
from tui_profiler.system.real_time import perf_counter

Call: TypeAlias = Callable[..., object]
_Parameters: TypeAlias = list[weakref.ref[torch.nn.Parameter]]

NAME = "_engine_run_backward"
MOST_PARAMETERS = 16
ALIKE = 8
MOST_LOOKED_AT = 2_000
"""Parameters looked at for those that gradients are computed of."""
MOST_SECONDS = 64
"""Of the last passes that are kept."""
CALIBRATED = 200
"""Passes or steps, of which the fastest is the cost of keeping their times."""
MOST_BRIEF = 20_000
"""Times of one kind that no listener was told of and that wait to be taken."""
LONGEST_TOLD = 100e-6
"""Seconds: what took longer was interrupted, or is told by whoever did it."""


_HERE: Variable[object] = own_variable("here", None, is_inherited=threads_inherit())
"""Object that identifies the current thread; None until ``present_thread`` was called on it."""
here = _HERE.get
"""Returns it. With cold caches, as at the end of a pass, comparing objects takes 1 us and comparing
two results of ``get_ident`` 2.3 us."""
NOBODY = object()
"""Identifies no thread."""


def present_thread() -> object:
    """Return the object that identifies this thread; ``here`` returns it from now on.

    A thread that runs in a copy of this one's context (``asyncio.to_thread``) has the same.
    """
    found = here()
    if found is None:
        found = object()
        _HERE.set(found)
    return found


_CHANGING = RareLock()
"""Guards the tuples of listeners: the program's threads install clocks as well."""


class Listener(Protocol):
    """Whom passes are told to, on the thread that runs them."""

    def before_pass(self) -> None:
        """Take note that an outermost pass begins."""
        ...

    def after_pass(self, began: float, ended: float) -> None:
        """Take note that it ended, or raised; seconds of ``time.perf_counter``."""
        ...


class RootsListener(Protocol):
    """Who is told what every pass begins with, of those inside of a pass as well."""

    def before_roots(self, roots: object) -> None:
        """Take note that a pass from these tensors begins on this thread; must not raise."""
        ...

    def after_roots(self) -> None:
        """Take note that the innermost pass on this thread ended, or raised; must not raise."""
        ...


class Engine:
    """The one replacement of the engine's entry in this process."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._need_all: tuple[Listener, ...] = ()
        """Those of them that are to be told of every pass."""
        self._of_roots: tuple[RootsListener, ...] = ()
        self._replaced: tuple[object, Call] | None = None
        """What was there, and what took its place."""
        self._under_way: set[int] = set()
        """Threads inside of a pass: checkpoints run others inside of it."""
        self.spent = 0.0
        """Seconds that telling of outermost passes took, without what listens to roots."""
        self._brief_thread: object = NOBODY
        """Whose passes are told to nobody (``present_thread``)."""
        self.brief: deque[tuple[float, float]] = deque(maxlen=MOST_BRIEF)
        """When those began and ended; one inside of another comes before it."""

    def listen(self, listener: Listener, *, needs_all: bool = True) -> str:
        """Begin to tell; returns why passes cannot be observed, or an empty string.

        Args:
            listener: whom to tell.
            needs_all: whether it is to be told of every pass, also in steps that are not recorded.
        """
        with _CHANGING:
            why = self._install() if self._replaced is None else ""
            self._listeners = (*self._listeners, listener)
            if needs_all:
                self._need_all = (*self._need_all, listener)
        self._brief_thread = NOBODY  # Whoever left may have been on the way to ask for it.
        return why

    def be_brief(self) -> None:
        """Tell nobody of passes of this thread until ``tell_all``, where that is enough for all."""
        if not self._need_all:
            self._brief_thread = present_thread()

    def tell_all(self) -> None:
        """Tell of every pass that begins from now on; on any thread."""
        self._brief_thread = NOBODY

    @property
    def is_under_way(self) -> bool:
        """Whether a pass has begun and not ended, in a step that is recorded."""
        return bool(self._under_way)

    def listen_to_roots(self, listener: RootsListener) -> None:
        """Tell of roots as well, as long as someone listens."""
        with _CHANGING:
            self._of_roots = (*self._of_roots, listener)

    def leave_roots(self, listener: RootsListener) -> None:
        """Tell no more of roots."""
        with _CHANGING:
            self._of_roots = tuple(one for one in self._of_roots if one is not listener)

    def leave(self, listener: Listener) -> None:
        """Tell no more; the last one to leave has the attribute put back."""
        with _CHANGING:
            self._listeners = tuple(one for one in self._listeners if one is not listener)
            self._need_all = tuple(one for one in self._need_all if one is not listener)
            if not self._listeners and self._replaced is not None:
                self._brief_thread = NOBODY
                self.brief.clear()
                (before, ours), self._replaced = self._replaced, None
                if vars(torch.autograd).get(NAME) is ours:
                    setattr(torch.autograd, NAME, before)

    def _install(self) -> str:
        before = vars(torch.autograd).get(NAME)
        if not callable(before):
            return f"this version of torch has no {NAME}"
        ours = functools.wraps(before)(self._observed(before))
        setattr(torch.autograd, NAME, ours)
        self._replaced = before, ours
        return ""

    def _observed(self, before: Call) -> Call:
        brief = self.brief

        def run(*args: object, **kwargs: object) -> object:
            of_roots = self._of_roots
            for one in of_roots:
                one.before_roots(args[0] if args else None)
            try:
                return before(*args, **kwargs)
            finally:
                for one in of_roots:
                    one.after_roots()

        def run_backward(*args: object, **kwargs: object) -> object:
            if is_dynamo_compiling():
                return before(*args, **kwargs)
            if here() is self._brief_thread:
                began = perf_counter()
                try:
                    return before(*args, **kwargs)
                finally:
                    brief.append((began, perf_counter()))
            if not self._listeners:
                return before(*args, **kwargs)
            thread = get_ident()
            if thread in self._under_way or is_in_backward():  # A device has threads of its own.
                return run(*args, **kwargs)
            asked = perf_counter()
            self._under_way.add(thread)
            listeners = self._listeners
            began = 0.0
            try:
                for one in listeners:
                    one.before_pass()
                began = perf_counter()
                return run(*args, **kwargs)
            finally:
                ended = perf_counter()
                self._under_way.discard(thread)
                if began:
                    for one in listeners:
                        one.after_pass(began, ended)
                    told = began - asked + perf_counter() - ended
                    self.spent += min(told, LONGEST_TOLD)

        return run_backward


ENGINE = Engine()
"""Of this process: what is replaced is replaced once, however many models are watched."""


class BackwardPasses:
    """Backward passes since ``listen``, and how many of them reached one model's parameters.

    Args:
        model: that forwards are recorded of; it is not kept alive.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = weakref.ref(model)
        self._parameters: _Parameters = []
        self._before: dict[int, tuple[_Parameters, list[tuple[int, int] | None]]] = {}
        """What gradients were when the pass began that a thread is in, and whose they are."""
        self._first_changed = 0
        """Place of the first parameter that the last pass changed the gradient of."""
        self._alike = 0
        """Passes in a row of which that was the first."""
        self.passes = 0
        self.reached = 0
        """Passes that changed a gradient of the model's parameters."""
        self.threads: set[int] = set()
        """That ran its forward with autograd: passes on others are not taken to reach it."""
        self.seconds: deque[float] = deque(maxlen=MOST_SECONDS)
        """Of the last passes."""
        self.trouble = ""
        """Why passes are not observed; empty while they are."""
        self._chosen_at = -1
        self._is_last_reached = False

    def listen(self) -> None:
        """Begin to observe."""
        self._choose(spread=False)
        self.trouble = ENGINE.listen(self, needs_all=False) or self.trouble

    def close(self) -> None:
        """Observe no more."""
        ENGINE.leave(self)

    def refresh(self) -> None:
        """Look at other parameters where a pass changed none of those looked at.

        The program may have frozen or replaced them. Not for the thread that runs the model.
        """
        if self.reached < self.passes and self._chosen_at != self.passes:
            self._chosen_at = self.passes
            self._choose(spread=True)

    def before_pass(self) -> None:
        """Keep what the gradients are now."""
        if get_ident() not in self.threads:
            return
        try:
            looked_at = self._parameters
            if self._alike >= ALIKE:
                looked_at = looked_at[self._first_changed : self._first_changed + 1]
            self._before[get_ident()] = looked_at, gradients_now(looked_at)
        except (
            Exception
        ) as error:  # In the midst of the program: what its classes raise stays here.
            self.trouble = f"{type(error).__name__}: {error}"

    def after_pass(self, began: float, ended: float) -> None:
        """Count a pass."""
        try:
            self.passes += 1
            self.seconds.append(ended - began)
            kept = self._before.pop(get_ident(), None)
            if kept is not None:
                self._note(*kept)
        except Exception as error:  # As above.
            self.trouble = f"{type(error).__name__}: {error}"

    def count_alike(self, seconds: Sequence[float]) -> None:
        """Count passes that were not told of: as the last one, they reached the model or not."""
        self.passes += len(seconds)
        self.reached += len(seconds) if self._is_last_reached else 0
        self.seconds.extend(seconds[-MOST_SECONDS:])

    def _note(self, looked_at: _Parameters, before: list[tuple[int, int] | None]) -> None:
        """Count a pass that changed gradients of those looked at."""
        found = gradients_now(looked_at)
        self._is_last_reached = found != before
        if not self._is_last_reached:
            self._alike = 0
            return
        self.reached += 1
        if len(looked_at) == len(self._parameters):
            first = next(at for at, one in enumerate(found) if one != before[at])
            self._alike = self._alike + 1 if first == self._first_changed else 1
            self._first_changed = first

    def _choose(self, *, spread: bool) -> None:
        model = self._model()
        if model is None:
            return
        with without_torch_function():
            trained = (one for one in each_parameter(model) if one.requires_grad and one.is_leaf)
            chosen = list(islice(trained, MOST_LOOKED_AT if spread else MOST_PARAMETERS))
        step = max(len(chosen) // MOST_PARAMETERS, 1)
        self._alike = 0
        self._parameters = [weakref.ref(one) for one in chosen[::step][:MOST_PARAMETERS]]


def gradients_now(
    parameters: Sequence[weakref.ref[torch.nn.Parameter]],
) -> list[tuple[int, int] | None]:
    """Return what tells each gradient of now from another, and from itself written to.

    None is kept alive.
    """
    found: list[tuple[int, int] | None] = []
    with without_torch_function():
        for reference in parameters:
            parameter = reference()
            gradient = parameter.grad if parameter is not None else None
            found.append(None if gradient is None else (id(gradient), gradient._version))
    return found


def brief_pass_seconds() -> float:
    """Measure what it takes to keep only times of one pass; less than 1 ms."""
    engine = Engine()
    listener: Any = engine  # Nobody is told.
    engine._listeners = (listener,)
    run = engine._observed(lambda: None)
    engine.be_brief()
    least = math.inf
    for _ in range(CALIBRATED):
        began = perf_counter()
        run()
        least = min(least, perf_counter() - began)
    return least
