"""A trial in a process that is there for nothing else: the model is loaded for it, and tried."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import msgspec
import torch

from tui_profiler.messages import TrialProgress, TrialResult, TryAlone, Unknown, Wish
from tui_profiler.messages.trials import TrialStep
from tui_profiler.probe.load.load import load
from tui_profiler.probe.measure.energy.replay import captured
from tui_profiler.probe.process.memory_limit import limit_memory
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.trials.experiment import try_change
from tui_profiler.probe.trials.kinds.subject import ImpossibleError, Subject

TELL_SECONDS = 0.25


def try_alone(request: TryAlone, send: Callable[[TrialProgress], None]) -> TrialResult:
    """Load the model that is asked for, try the change, and give how it came out.

    Raises:
        LoadError, TraceError: the model could not be had, or takes none of its inputs.
    """
    wish, began = request.wish, time.perf_counter()
    told = _Told(wish, send)
    told("load", 0, None)
    if wish.most_bytes is not None and not request.spec.device.startswith("cuda"):
        # CUDA maps far more than it takes, so that a limit would hit it at once.
        limit_memory(wish.most_bytes, wish.most_bytes, "the limit of one trial")
    try:
        subject = subject_of(request)
        found = try_change(wish, subject, told)
    except ImpossibleError as error:
        found = TrialResult(wish.kind, wish.node, "impossible", 0.0, str(error))
    seconds = time.perf_counter() - began
    return msgspec.structs.replace(found, seconds=seconds, phase=request.phase)


def subject_of(request: TryAlone) -> Subject:
    """Load what is to be tried, with values, and the inputs of one call of it.

    Raises:
        ImpossibleError: the module is not called in a forward, or its inputs cannot be kept.
        LoadError, TraceError: the model could not be had, or takes none of its inputs.
    """
    loaded = load(request.spec)
    traced = trace(loaded.model, tuple(loaded.candidates), name=request.spec.model)
    first = traced.inputs
    inputs = first
    if request.phase == "decode":
        decode = loaded.decode or (lambda *_: None)
        step = decode(loaded.model, first, traced.kept)
        if not isinstance(step, Inputs):
            why = "" if step is None else f": {step.reason}"
            raise ImpossibleError(f"it has no step of one token any more{why}")
        inputs = step
    model = loaded.model if loaded.initialise is None else loaded.initialise()
    subject = Subject(model, inputs, request.wish.most_bytes, first)
    return _of_module(subject, request.path) if request.path else subject


def _of_module(whole: Subject, path: str) -> Subject:
    """Give one module of a model with what one forward passes to it."""
    inputs, snapshot = whole.inputs, Snapshot(whole.module)

    def forward() -> object:
        with torch.no_grad():
            return whole.module(*inputs.args, **inputs.keywords())

    found = captured(whole.module, path, forward)
    snapshot.restore()
    if isinstance(found, Unknown):
        raise ImpossibleError(found.reason)
    given = Inputs(found.arguments, found.keywords, batch=inputs.batch)
    return replace(whole, module=found.module, inputs=given, first=None)


class _Told:
    """Tells how far a trial is, at most a few times a second."""

    def __init__(self, wish: Wish, send: Callable[[TrialProgress], None]) -> None:
        self._wish = wish
        self._send = send
        self._began = time.perf_counter()
        self._last: TrialStep | None = None
        self._told_at = 0.0

    def __call__(self, step: TrialStep, pairs: int, speedup: float | None) -> None:
        now = time.perf_counter()
        if step == self._last and now - self._told_at < TELL_SECONDS:
            return
        self._last, self._told_at = step, now
        wish, seconds = self._wish, now - self._began
        self._send(TrialProgress(wish.kind, wish.node, step, seconds, pairs, speedup))
