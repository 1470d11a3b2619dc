"""Backward passes of the program, observed where Python enters autograd's engine.

1. While someone listens, ``torch.autograd._engine_run_backward`` is replaced: every ``backward()``
   and ``autograd.grad()`` goes through it. No hook is put on a tensor, a node or an optimizer, so
   that nothing of the program is pickled, printed or compiled otherwise.
2. It is put back when the last listener leaves, if it is still ours; below another replacement
   ours passes through for ever.
3. Nothing here raises in the program or waits. Of each outermost pass two times are read, and the
   gradients of at most ``MOST_PARAMETERS`` parameters are told apart before and after it.
4. What calls the engine otherwise (``Variable._execution_engine``, C++) is not observed.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable
from itertools import islice
from threading import get_ident
from time import perf_counter
from typing import Protocol, TypeAlias

import torch
from torch.compiler import is_dynamo_compiling

from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.probe.torch_compat.threads import without_torch_function

Call: TypeAlias = Callable[..., object]

NAME = "_engine_run_backward"
MOST_PARAMETERS = 16
MOST_LOOKED_AT = 2_000
"""Parameters looked at for those that gradients are computed of."""
MOST_SECONDS = 64
"""Of the last passes that are kept."""


class Listener(Protocol):
    """Whom passes are told to, on the thread that runs them."""

    def before_pass(self) -> None:
        """Take note that an outermost pass begins."""
        ...

    def after_pass(self, began: float, ended: float) -> None:
        """Take note that it ended, or raised; seconds of ``time.perf_counter``."""
        ...


class Engine:
    """The one replacement of the engine's entry in this process."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._replaced: tuple[object, Call] | None = None
        """What was there, and what took its place."""
        self._under_way: set[int] = set()
        """Threads inside of a pass: checkpoints run others inside of it."""

    def listen(self, listener: Listener) -> str:
        """Begin to tell; returns why passes cannot be observed, or an empty string."""
        why = self._install() if self._replaced is None else ""
        self._listeners = (*self._listeners, listener)
        return why

    def leave(self, listener: Listener) -> None:
        """Tell no more; the last one to leave has the attribute put back."""
        self._listeners = tuple(one for one in self._listeners if one is not listener)
        if not self._listeners and self._replaced is not None:
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
        def run_backward(*args: object, **kwargs: object) -> object:
            thread = get_ident()
            if not self._listeners or is_dynamo_compiling() or thread in self._under_way:
                return before(*args, **kwargs)
            self._under_way.add(thread)
            listeners = self._listeners
            began = 0.0
            try:
                for one in listeners:
                    one.before_pass()
                began = perf_counter()
                return before(*args, **kwargs)
            finally:
                ended = perf_counter()
                self._under_way.discard(thread)
                if began:
                    for one in listeners:
                        one.after_pass(began, ended)

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
        self._parameters: list[weakref.ref[torch.nn.Parameter]] = []
        self._before: dict[int, list[object]] = {}
        """What gradients were when the pass began that a thread is in."""
        self.passes = 0
        self.reached = 0
        """Passes that changed a gradient of the model's parameters."""
        self.seconds: deque[float] = deque(maxlen=MOST_SECONDS)
        """Of the last passes."""
        self.trouble = ""
        """Why passes are not observed; empty while they are."""
        self._chosen_at = -1

    def listen(self) -> None:
        """Begin to observe."""
        self._choose(spread=False)
        self.trouble = ENGINE.listen(self) or self.trouble

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
        try:
            self._before[get_ident()] = self._gradients()
        except (
            Exception
        ) as error:  # In the midst of the program: what its classes raise stays here.
            self.trouble = f"{type(error).__name__}: {error}"

    def after_pass(self, began: float, ended: float) -> None:
        """Count a pass."""
        try:
            self.passes += 1
            self.seconds.append(ended - began)
            before = self._before.pop(get_ident(), None)
            if before and self._gradients() != before:
                self.reached += 1
        except Exception as error:  # As above.
            self.trouble = f"{type(error).__name__}: {error}"

    def _gradients(self) -> list[object]:
        """Return what tells the gradients of now from those of another time; none is kept alive."""
        found: list[object] = []
        with without_torch_function():
            for reference in self._parameters:
                parameter = reference()
                gradient = parameter.grad if parameter is not None else None
                found.append(None if gradient is None else (id(gradient), gradient._version))
        return found

    def _choose(self, *, spread: bool) -> None:
        model = self._model()
        if model is None:
            return
        with without_torch_function():
            trained = (one for one in each_parameter(model) if one.requires_grad and one.is_leaf)
            chosen = list(islice(trained, MOST_LOOKED_AT if spread else MOST_PARAMETERS))
        step = max(len(chosen) // MOST_PARAMETERS, 1)
        self._parameters = [weakref.ref(one) for one in chosen[::step][:MOST_PARAMETERS]]
