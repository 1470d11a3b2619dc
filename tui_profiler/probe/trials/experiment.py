"""One trial, from the model as it is to the result.

What goes wrong is a result too: a change that cannot be made, that raises, or that wants more
memory than there is.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec
import torch

from tui_profiler import messages
from tui_profiler.messages.trials import TrialOutcome, TrialStep
from tui_profiler.probe.load.load import load
from tui_profiler.probe.measure.energy.replay import captured
from tui_profiler.probe.process.memory_limit import limit_memory
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.failure import one_line, wanted_memory
from tui_profiler.probe.trace.measured_peak import most_allocated
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    ImpossibleError,
    Kind,
    Subject,
    weight_bytes,
)
from tui_profiler.probe.trials.kinds.table import KINDS
from tui_profiler.probe.trials.paired_timing import LEAST_PAIRS, Measured, TimedSide, measure, warm

Tell = Callable[[TrialStep, int, float | None], None]
"""Is told what is done now, the pairs so far and their speed-up."""
_MOST_REASON = 300
PROFILED_SECONDS = 5.0
"""A call that takes longer is not run again under the profiler for its memory."""


def try_change(wish: messages.Wish, subject: Subject, tell: Tell) -> messages.TrialResult:
    """Try one change on one module.

    Args:
        wish: which, and how long it may be measured.
        subject: the module, which is left as it is.
        tell: is told how far it is, as it goes.
    """
    return try_kind(KINDS[wish.kind], wish, subject, tell)


def try_kind(kind: Kind, wish: messages.Wish, subject: Subject, tell: Tell) -> messages.TrialResult:
    """Try a kind of change; else as above."""
    began = time.perf_counter()

    def without(outcome: TrialOutcome, why: str) -> messages.TrialResult:
        seconds = time.perf_counter() - began
        return messages.TrialResult(wish.kind, wish.node, outcome, seconds, why[:_MOST_REASON])

    why_not = kind.why_not(subject.module, subject.inputs)
    if why_not:
        return without("impossible", why_not)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tell("change", 0, None)
            change = kind.change(subject)
            return _tried(wish, subject, change, tell, began)
    except ImpossibleError as error:
        return without("impossible", str(error))
    # The change ran code that is not ours, on a model that is not: what it raised is the result.
    except (Exception, SystemExit) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or wanted_memory(error):
            wanted = wanted_memory(error)
            more = f"it wanted {wanted} more" if wanted else one_line(error)
            return without("memory", f"out of memory: {more}")
        return without("failed", f"the changed model raised {one_line(error)}")


def _tried(
    wish: messages.Wish, subject: Subject, change: Change, tell: Tell, began: float
) -> messages.TrialResult:
    changed, baseline = TimedSide(change.changed), TimedSide(change.baseline)
    tell("warm up", 0, None)
    changed.output()
    # What the first call did besides running, such as compiling, is told apart.
    first = time.perf_counter() - began
    usual = warm(changed)
    tell("compare", 0, None)
    error, why_no_error = _error(baseline, changed)
    tell("memory", 0, None)
    slowest = max(usual, warm(baseline))
    peaks = [_peak(bench, slowest) for bench in (baseline, changed)]
    tell("measure", 0, None)
    measured = measure(
        change,
        wish.seconds,
        lambda pairs, so_far: tell("measure", pairs, so_far),
        (baseline, changed),
    )
    for bench in (baseline, changed):
        bench.restore()
    interval = measured.interval
    return messages.TrialResult(
        kind=wish.kind,
        node=wish.node,
        outcome="measured",
        seconds=time.perf_counter() - began,
        why=_too_few(measured),
        detail=change.detail,
        baseline=_side(baseline, measured.baseline_seconds, peaks[0]),
        changed=_side(changed, measured.changed_seconds, peaks[1]),
        speedup=measured.speedup,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        pairs=len(measured.ratios),
        error=error,
        why_no_error=why_no_error,
        change_seconds=max(first - usual, 0.0) + measured.settling_seconds,
        batch=subject.inputs.batch,
    )


def _too_few(measured: Measured) -> str:
    pairs = len(measured.ratios)
    if measured.interval is not None:
        return ""
    return f"no interval: {pairs} pairs in the time, and it needs {LEAST_PAIRS}"


def _error(baseline: TimedSide, changed: TimedSide) -> tuple[messages.OutputError | None, str]:
    before = baseline.output()
    try:
        return output_error(before, changed.output(), baseline.output()), ""
    except NotComparableError as error:
        return None, str(error)


def _peak(bench: TimedSide, seconds: float) -> messages.Figure:
    if seconds > PROFILED_SECONDS:
        return messages.Unknown("a call takes too long to be run again for it")
    bench.restore()
    side = bench.side
    with side.around():
        given = side.prepare() if side.prepare else None
        return float(most_allocated(lambda: side.call(given), bench.device))


def _side(bench: TimedSide, seconds: float, peak: messages.Figure) -> messages.TrialSide:
    return messages.TrialSide(
        seconds, bench.side.items, peak, float(weight_bytes(bench.side.module))
    )


_TELL_SECONDS = 0.25


def try_alone(
    request: messages.TryAlone, send: Callable[[messages.TrialProgress], None]
) -> messages.TrialResult:
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
        found = messages.TrialResult(wish.kind, wish.node, "impossible", 0.0, str(error))
    seconds = time.perf_counter() - began
    return msgspec.structs.replace(found, seconds=seconds, phase=request.phase)


def subject_of(request: messages.TryAlone) -> Subject:
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
    """Return one module of a model with what one forward passes to it."""
    inputs, snapshot = whole.inputs, Snapshot(whole.module)

    def forward() -> object:
        with torch.no_grad():
            return whole.module(*inputs.args, **inputs.keywords())

    found = captured(whole.module, path, forward)
    snapshot.restore()
    if isinstance(found, messages.Unknown):
        raise ImpossibleError(found.reason)
    given = Inputs(found.arguments, found.keywords, batch=inputs.batch)
    return replace(whole, module=found.module, inputs=given, first=None)


class _Told:
    """Tells how far a trial is, at most a few times a second."""

    def __init__(self, wish: messages.Wish, send: Callable[[messages.TrialProgress], None]) -> None:
        self._wish = wish
        self._send = send
        self._began = time.perf_counter()
        self._last: TrialStep | None = None
        self._told_at = 0.0

    def __call__(self, step: TrialStep, pairs: int, speedup: float | None) -> None:
        now = time.perf_counter()
        if step == self._last and now - self._told_at < _TELL_SECONDS:
            return
        self._last, self._told_at = step, now
        wish, seconds = self._wish, now - self._began
        self._send(messages.TrialProgress(wish.kind, wish.node, step, seconds, pairs, speedup))


_VALUES_AT_ONCE = 1 << 20
_MOST_DEPTH = 50


class NotComparableError(Exception):
    """Two outputs that have no values in common places; its text says why."""


class _Sums(NamedTuple):
    largest: float = 0.0
    squares: float = 0.0
    reference_squares: float = 0.0
    values: int = 0
    others_differ: int = 0

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(
            max(self.largest, other.largest),
            self.squares + other.squares,
            self.reference_squares + other.reference_squares,
            self.values + other.values,
            self.others_differ + other.others_differ,
        )


def tensors_of(output: object, depth: int = 0) -> list[torch.Tensor]:
    """Return tensors of an output in order; those of objects that are no containers are left."""
    if isinstance(output, torch.Tensor):
        return [output]
    if depth > _MOST_DEPTH:
        return []
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list | tuple):
        return [tensor for part in output for tensor in tensors_of(part, depth + 1)]
    return []


def output_error(before: object, after: object, again: object = None) -> messages.OutputError:
    """Hold the output of a changed model against that of the model as it is.

    Args:
        before: of the model as it is.
        after: of the changed one. Where its first axis is a multiple of the other's, as with a
            larger batch, its beginning is compared.
        again: of the model as it is, once more.

    Raises:
        NotComparableError: they have other shapes, or hold no tensors.
    """
    sums = _compared(before, after)
    noise = _relative(_compared(before, again)) if again is not None else 0.0
    return messages.OutputError(
        sums.largest, _relative(sums), sums.values, sums.others_differ, noise
    )


def _relative(sums: _Sums) -> float:
    if sums.reference_squares > 0:
        return math.sqrt(sums.squares / sums.reference_squares)
    return 0.0 if sums.squares == 0 else math.inf


def _compared(before: object, after: object) -> _Sums:
    ours, theirs = tensors_of(before), tensors_of(after)
    if not ours:
        raise NotComparableError("the output holds no tensors")
    if len(ours) != len(theirs):
        raise NotComparableError(f"the outputs hold {len(ours)} and {len(theirs)} tensors")
    sums = _Sums()
    for one, other in zip(ours, theirs, strict=True):
        sums = sums.plus(_of_tensors(one, _beginning(other, one)))
    if not sums.values and not any(tensor.numel() for tensor in ours):
        raise NotComparableError("the output holds no values")
    return sums


def _beginning(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Cut a larger batch down to the size of the smaller one."""
    shape, wanted = tuple(tensor.shape), tuple(like.shape)
    if shape == wanted:
        return tensor
    if shape[1:] != wanted[1:] or not shape or not wanted[0] or shape[0] % wanted[0]:
        raise NotComparableError(f"the outputs have the shapes {wanted} and {shape}")
    return tensor[: wanted[0]]


def _of_tensors(before: torch.Tensor, after: torch.Tensor) -> _Sums:
    if before.is_quantized or after.is_quantized:
        before, after = before.dequantize(), after.dequantize()
    if before.is_complex() and after.is_complex():
        before, after = torch.view_as_real(before), torch.view_as_real(after)
    if not before.is_floating_point() or not after.is_floating_point():
        differ = int((before.cpu() != after.cpu()).sum())
        return _Sums(others_differ=differ)
    sums = _Sums()
    flat, other = before.detach().reshape(-1), after.detach().reshape(-1)
    for start in range(0, flat.numel(), _VALUES_AT_ONCE):
        one = flat[start : start + _VALUES_AT_ONCE].double()
        two = other[start : start + _VALUES_AT_ONCE].double()
        # The same infinity or no number on both sides is no difference.
        same = (one == two) | (one.isnan() & two.isnan())
        off = torch.where(same, 0.0, (one - two).abs()).nan_to_num(nan=math.inf)
        finite = one.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        squares, of_reference = float(off.square().sum()), float(finite.square().sum())
        sums = sums.plus(_Sums(float(off.max()), squares, of_reference, one.numel()))
    return sums
