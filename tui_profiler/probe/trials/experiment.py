"""One trial, from loading the model to the result.

Failures are results too: a change that is impossible, raises, or runs out of memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import msgspec
import torch

from tui_profiler import messages
from tui_profiler.messages.trials import TrialOutcome, TrialStep
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.load import load
from tui_profiler.probe.measure.energy.replay import captured
from tui_profiler.probe.process.memory_limit import limit_memory
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import storage_key
from tui_profiler.probe.trace.batch_axis import of_batch, with_batch
from tui_profiler.probe.trace.failure import one_line, wanted_memory
from tui_profiler.probe.trace.measured_peak import most_allocated
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.trace.training.record_step import trace_step
from tui_profiler.probe.trace.training.targets import WithTargets
from tui_profiler.probe.trials.kinds import change, optimizer_loop
from tui_profiler.probe.trials.kinds.table import KINDS
from tui_profiler.probe.trials.paired_timing import LEAST_PAIRS, Measured, TimedSide, measure, warm
from tui_profiler.system import real_time as time

_MOST_REASON = 300
_TELL_SECONDS = 0.25
PROFILED_SECONDS = 5.0
"""Longer calls are not run again under the profiler for their memory."""


class Progress:
    """Reports the progress of a trial, a few times per second, and how long it may measure.

    Args:
        wish: the trial.
        send: sends the progress.
        next_request: returns a request that came meanwhile.
    """

    def __init__(
        self,
        wish: messages.Wish,
        send: Callable[[messages.TrialProgress], None] = lambda _: None,
        next_request: Callable[[], messages.Request | None] = lambda: None,
    ) -> None:
        self._wish = wish
        self._send = send
        self._next_request = next_request
        self._began = time.perf_counter()
        self._allowed = wish.seconds
        self._last: TrialStep | None = None
        self._told_at = 0.0

    def tell(
        self,
        step: TrialStep,
        pairs: int = 0,
        speedup: float | None = None,
        left: float | None = None,
    ) -> None:
        """Report the step, the pairs so far, their speed-up, and the seconds left."""
        now = time.perf_counter()
        if step == self._last and now - self._told_at < _TELL_SECONDS:
            return
        self._last, self._told_at = step, now
        wish, seconds = self._wish, now - self._began
        self._send(
            messages.TrialProgress(
                wish.kind, wish.node, step, seconds, pairs, speedup, left_seconds=left
            )
        )

    def allowed(self) -> float:
        """Return the seconds that pairs may be measured, prolonged by requests."""
        while (request := self._next_request()) is not None:
            if isinstance(request, messages.ProlongTrial):
                self._allowed += request.seconds
        return self._allowed


def try_change(
    kind: change.Kind, wish: messages.Wish, subject: change.Subject, progress: Progress
) -> messages.TrialResult:
    """Try one change on one module, which stays unchanged."""
    began = time.perf_counter()

    def without(outcome: TrialOutcome, why: str) -> messages.TrialResult:
        seconds = time.perf_counter() - began
        return messages.TrialResult(wish.kind, wish.node, outcome, seconds, why[:_MOST_REASON])

    try:
        made = kind.of(trains=subject.train is not None)
        if why_not := kind.why_not(subject.module, subject.inputs):
            return without("impossible", why_not)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            progress.tell("change")
            return _tried(wish, subject, made(subject), progress, began)
    except change.ImpossibleError as error:
        return without("impossible", str(error))
    # The change runs foreign code on a foreign model: what it raises is the result.
    except (Exception, SystemExit) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or wanted_memory(error):
            wanted = wanted_memory(error)
            more = f"{wanted} more needed" if wanted else one_line(error)
            return without("memory", f"out of memory: {more}")
        return without("failed", f"the changed model raised {one_line(error)}")


def _tried(
    wish: messages.Wish,
    subject: change.Subject,
    made: change.Change,
    progress: Progress,
    began: float,
) -> messages.TrialResult:
    changed, baseline = TimedSide(made.changed), TimedSide(made.baseline)
    progress.tell("warm up")
    changed.output()
    # One-time work of the first call, such as compiling, is reported separately.
    first = time.perf_counter() - began
    usual = warm(changed)
    progress.tell("compare", left=progress.allowed())
    error, why_no_error = _error(baseline, changed, made.results)
    progress.tell("memory", left=progress.allowed())
    slowest = max(usual, warm(baseline))
    peaks = [_peak(bench, slowest) for bench in (baseline, changed)]
    progress.tell("measure", left=progress.allowed())
    measured = measure(baseline, changed, progress.allowed, partial(progress.tell, "measure"))
    for bench in (baseline, changed):
        bench.restore()
    interval = measured.interval
    return messages.TrialResult(
        kind=wish.kind,
        node=wish.node,
        outcome="measured",
        seconds=time.perf_counter() - began,
        why=_too_few(measured),
        detail=made.detail,
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
        is_step=subject.train is not None,
    )


def _too_few(measured: Measured) -> str:
    pairs = len(measured.ratios)
    if measured.interval is not None:
        return ""
    return f"no 95 % CI: {pairs} pairs within the time, {LEAST_PAIRS} are needed"


def _error(
    baseline: TimedSide,
    changed: TimedSide,
    results: Callable[[], tuple[object, object]] | None,
) -> tuple[messages.OutputError | None, str]:
    try:
        if results is not None:
            return output_error(*results()), ""
        before = baseline.output()
        return output_error(before, changed.output(), baseline.output()), ""
    except NotComparableError as error:
        return None, str(error)


def _peak(bench: TimedSide, seconds: float) -> messages.Figure:
    if seconds > PROFILED_SECONDS:
        return messages.Unknown("one call takes too long to run it again for this")
    bench.restore()
    side = bench.side
    with side.around():
        given = side.prepare() if side.prepare else None
        return float(most_allocated(lambda: side.call(given), bench.device))


def _side(bench: TimedSide, seconds: float, peak: messages.Figure) -> messages.TrialSide:
    side = bench.side
    kept = sum({storage_key(one): one.nbytes for one in side.kept()}.values())
    return messages.TrialSide(
        seconds, side.items, peak, float(change.weight_bytes(side.module)), float(kept)
    )


def try_alone(
    request: messages.TryAlone,
    send: Callable[[messages.TrialProgress], None],
    next_request: Callable[[], messages.Request | None],
) -> messages.TrialResult:
    """Load the model and try the change on it.

    Args:
        request: the model and the trial.
        send: sends the progress.
        next_request: returns a request that came meanwhile.

    Raises:
        LoadError, TraceError: the model cannot be loaded, or takes none of its inputs.
    """
    wish, began = request.wish, time.perf_counter()
    progress = Progress(wish, send, next_request)
    progress.tell("load")
    if wish.most_bytes is not None and not request.spec.device.startswith("cuda"):
        # CUDA maps far more than it uses: a limit would hit it at once.
        limit_memory(wish.most_bytes, wish.most_bytes, "the limit of one trial")
    try:
        subject = subject_of(request)
        found = try_change(KINDS[wish.kind], wish, subject, progress)
    except change.ImpossibleError as error:
        found = messages.TrialResult(wish.kind, wish.node, "impossible", 0.0, str(error))
    seconds = time.perf_counter() - began
    return msgspec.structs.replace(found, seconds=seconds, phase=request.phase)


def try_optimizer(
    request: messages.TryOptimizer,
    send: Callable[[messages.TrialProgress], None],
    next_request: Callable[[], messages.Request | None],
) -> messages.TrialResult:
    """Try an optimizer on tensors of a program's shapes.

    Args:
        request: the optimizer and the shapes.
        send: sends the progress.
        next_request: returns a request that came meanwhile.
    """
    wish, began = request.wish, time.perf_counter()
    progress = Progress(wish, send, next_request)
    progress.tell("load")
    if not request.spec.device.startswith("cuda"):
        most = change.spare_bytes() if wish.most_bytes is None else wish.most_bytes
        limit_memory(most, most, "the limit of one trial")
    kind = optimizer_loop.alone(request.name, request.tensors, request.spec.device)
    nothing = change.Subject(torch.nn.Module(), Inputs(()), wish.most_bytes)
    found = try_change(kind, wish, nothing, progress)
    seconds = time.perf_counter() - began
    return msgspec.structs.replace(found, seconds=seconds, of_step=request.of_step)


def subject_of(request: messages.TryAlone) -> change.Subject:
    """Load the module to try, with its weights, and the inputs of one call.

    Raises:
        ImpossibleError: the module is not called in a forward, or its inputs cannot be kept.
        LoadError, TraceError: the model cannot be loaded, or takes none of its inputs.
    """
    loaded, train = load(request.spec), request.spec.train
    if train is not None:
        return _of_step(loaded, train, request.wish)
    given = of_batch(loaded.model, loaded.candidates, loaded.batch)
    traced = trace(loaded.model, tuple(given), name=request.spec.model)
    first = traced.inputs
    if request.wish.kind == "larger-batch" and not (loaded.knows_batch or first.batch_axes):
        first = with_batch(loaded.model, traced)
    inputs = first
    if request.phase == "decode":
        decode = loaded.decode or (lambda *_: None)
        step = decode(loaded.model, first, traced.kept)
        if not isinstance(step, Inputs):
            why = "" if step is None else f": {step.reason}"
            raise change.ImpossibleError(f"it no longer has a decode step{why}")
        inputs = step
    model = loaded.model if loaded.initialise is None else loaded.initialise()
    subject = change.Subject(model, inputs, request.wish.most_bytes, first)
    return _of_module(subject, request.path) if request.path else subject


def _of_step(loaded: Loaded, train: messages.TrainSpec, wish: messages.Wish) -> change.Subject:
    """Return a model that is trained, with the inputs of its forwards."""
    candidates = of_batch(loaded.model, loaded.candidates, loaded.batch)
    given = WithTargets(loaded.model, candidates)
    traced = trace_step(loaded.model.train(), given, train, train.optimizer).trace
    model = loaded.model if loaded.initialise is None else loaded.initialise()
    return change.Subject(
        model.train(), traced.inputs, wish.most_bytes, train=train, paths=wish.paths
    )


def _of_module(whole: change.Subject, path: str) -> change.Subject:
    """Return one module of a model, with the inputs of its call in a forward."""
    inputs, snapshot = whole.inputs, Snapshot(whole.module)

    def forward() -> object:
        with torch.no_grad():
            return whole.module(*inputs.args, **inputs.keywords())

    found = captured(whole.module, path, forward)
    snapshot.restore()
    if isinstance(found, messages.Unknown):
        raise change.ImpossibleError(found.reason)
    given = Inputs(found.arguments, found.keywords, batch=inputs.batch)
    return replace(whole, module=found.module, inputs=given, first=None)


_VALUES_AT_ONCE = 1 << 20
_MOST_DEPTH = 50


class NotComparableError(Exception):
    """Two outputs cannot be compared; its text says why."""


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
    """Return the tensors in an output, in order; only containers are searched."""
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
    """Compare the output of a changed model with that of the original.

    Args:
        before: output of the original.
        after: output of the changed model. Where one axis is a multiple of the other's, as with a
            larger batch, its first items are compared.
        again: output of a second run of the original.

    Raises:
        NotComparableError: their shapes differ, or they have no tensors.
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
        raise NotComparableError("the output has no tensors")
    if len(ours) != len(theirs):
        raise NotComparableError(f"the outputs have {len(ours)} and {len(theirs)} tensors")
    sums = _Sums()
    for one, other in zip(ours, theirs, strict=True):
        sums = sums.plus(_of_tensors(one, _beginning(other, one)))
    if not sums.values and not any(tensor.numel() for tensor in ours):
        raise NotComparableError("the output has no values")
    return sums


def _beginning(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Cut a larger batch down to the size of the smaller one."""
    shape, wanted = tuple(tensor.shape), tuple(like.shape)
    if shape == wanted:
        return tensor
    differ = [at for at, sizes in enumerate(zip(shape, wanted, strict=False)) if len({*sizes}) > 1]
    axis = differ[0] if len(differ) == 1 else 0
    if (
        len(shape) != len(wanted)
        or not differ[:1] == differ
        or not wanted[axis]
        or shape[axis] % wanted[axis]
    ):
        raise NotComparableError(f"the outputs have the shapes {wanted} and {shape}")
    return tensor.narrow(axis, 0, wanted[axis])


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
        # The same infinity, or NaN on both sides, is not a difference.
        same = (one == two) | (one.isnan() & two.isnan())
        off = torch.where(same, 0.0, (one - two).abs()).nan_to_num(nan=math.inf)
        finite = one.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        squares, of_reference = float(off.square().sum()), float(finite.square().sum())
        sums = sums.plus(_Sums(float(off.max()), squares, of_reference, one.numel()))
    return sums
