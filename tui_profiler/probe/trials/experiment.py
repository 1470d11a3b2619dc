"""One trial, from the model as it is to the result; in whatever process this is called.

What goes wrong is a result too: a change that cannot be made, that raises, or that wants more
memory than there is.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch

from tui_profiler.messages import (
    Figure,
    OutputError,
    TrialResult,
    TrialSide,
    Unknown,
    Wish,
)
from tui_profiler.messages.trials import TrialOutcome, TrialStep
from tui_profiler.probe.trace.failure import one_line, wanted_memory
from tui_profiler.probe.trace.measured_peak import most_allocated
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    ImpossibleError,
    Kind,
    Subject,
    weight_bytes,
)
from tui_profiler.probe.trials.kinds.table import KINDS
from tui_profiler.probe.trials.output_error import NotComparableError, output_error
from tui_profiler.probe.trials.paired_timing import LEAST_PAIRS, Bench, Measured, measure, warm

Tell = Callable[[TrialStep, int, float | None], None]
"""Is told what is done now, the pairs so far and their speed-up."""
_MOST_REASON = 300
PROFILED_SECONDS = 5.0
"""A call that takes longer is not run again under the profiler for its memory."""


def try_change(wish: Wish, subject: Subject, tell: Tell) -> TrialResult:
    """Try one change on one module.

    Args:
        wish: which, and how long it may be measured.
        subject: the module, which is left as it is.
        tell: is told how far it is, as it goes.
    """
    return try_kind(KINDS[wish.kind], wish, subject, tell)


def try_kind(kind: Kind, wish: Wish, subject: Subject, tell: Tell) -> TrialResult:
    """Try a kind of change; else as above."""
    began = time.perf_counter()

    def without(outcome: TrialOutcome, why: str) -> TrialResult:
        seconds = time.perf_counter() - began
        return TrialResult(wish.kind, wish.node, outcome, seconds, why[:_MOST_REASON])

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


def _tried(wish: Wish, subject: Subject, change: Change, tell: Tell, began: float) -> TrialResult:
    changed, baseline = Bench(change.changed), Bench(change.baseline)
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
    return TrialResult(
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


def _error(baseline: Bench, changed: Bench) -> tuple[OutputError | None, str]:
    before = baseline.output()
    try:
        return output_error(before, changed.output(), baseline.output()), ""
    except NotComparableError as error:
        return None, str(error)


def _peak(bench: Bench, seconds: float) -> Figure:
    if seconds > PROFILED_SECONDS:
        return Unknown("a call takes too long to be run again for it")
    bench.restore()
    side = bench.side
    with side.around():
        given = side.prepare() if side.prepare else None
        return float(most_allocated(lambda: side.call(given), bench.device))


def _side(bench: Bench, seconds: float, peak: Figure) -> TrialSide:
    return TrialSide(seconds, bench.side.items, peak, float(weight_bytes(bench.side.module)))
