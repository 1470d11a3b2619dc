"""``zero-grad``: gradients that are set to zero in each step, not let go of.

Setting them to zero writes them once; the backward then reads them and what it adds, and writes the
sum, where it would have kept what it made (``Optimizer.zero_grad``, documentation of torch).
"""

import re

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence.affected_operators import memory_roof
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.memory import NO_PEAK
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, share_of
from tui_profiler.findings.evidence.training_step import (
    of_step,
    recorded_step,
    seconds_of,
    share_of_step,
)
from tui_profiler.messages import KeptGradients, TrainingStep, Unknown, known
from tui_profiler.queries.training.paper import peak_bytes
from tui_profiler.queries.training.step import LEAST_SET
from tui_profiler.session import Session

OF_STEPS = 0.9
"""Of the steps looked at, in which gradients were set to zero."""
_MOVED = 4
"""Times the bytes of the gradients: written; read twice and written."""
_SETS_TO_ZERO = re.compile(r"\bzero_grad\(|\.zero_\(")


@check("zero-grad", holds_in="training")
def zero_grad(session: Session) -> Finding | None:
    """Find gradients that are the same tensors, set to zero, when the next backward begins."""
    step = recorded_step(session)
    seen = None if step is None else step.kept_gradients
    if step is None or seen is None or seen.steps < LEAST_SET:
        return None
    if seen.zeroed < OF_STEPS * seen.steps:
        return None
    time = _time(session, step, seen)
    if isinstance(time.share, float) and time.share < LEAST_SHARE:
        return None
    return Finding(
        kind="zero-grad",
        title="set gradients to None: zero_grad(set_to_none=True)",
        why=(
            "They are set to zero in place, as set_to_none=False does: the backward adds to them,"
            " and they take memory in the forward. Code that reads .grad finds None instead of"
            " zeros."
        ),
        nodes=(0,),
        evidence=(
            Evidence(
                "steps in which gradients were compared", float(seen.steps), "count", "measured"
            ),
            Evidence(
                "in which gradients were overwritten", float(seen.zeroed), "count", "measured"
            ),
            Evidence("in which one was read: all zero", float(seen.read), "count", "measured"),
            Evidence("gradients", float(seen.bytes), "B", "derived"),
            *_lines(step),
            *of_step(step, seconds_of(step, "other"), "outside the named parts"),
        ),
        gains=(time, _memory(session, seen)),
        why_no_trial="zero_grad is called by the program, which a trial does not run",
        is_of_step=True,
    )


def _time(session: Session, step: TrainingStep, seen: KeptGradients) -> Gain:
    formula = f"{size(_MOVED * seen.bytes)} less memory traffic, at the memory roof"
    bandwidth = memory_roof(session.ceilings)
    if bandwidth is None:
        return Gain("time", Unknown("the memory roof is missing, or not good enough"), formula)
    seconds = _MOVED * seen.bytes / bandwidth
    whole = duration(known(step.seconds) or 0.0)
    formula = f"{formula}: {duration(seconds)} of {whole} per step"
    return Gain("time", share_of_step(step, seconds), formula, "estimated")


def _memory(session: Session, seen: KeptGradients) -> Gain:
    formula = f"{size(seen.bytes)} of gradients, where the peak is in the forward"
    whole = known(peak_bytes(session))
    if not whole:
        return Gain("memory", NO_PEAK, formula)
    return Gain("memory", share_of(seen.bytes, whole), formula, "derived", is_bound=True)


def _lines(step: TrainingStep) -> tuple[Evidence, ...]:
    """Return the time of the lines that say so, by samples of the stack."""
    share = sum(line.share for line in step.lines if _SETS_TO_ZERO.search(line.text))
    if not share:
        return ()
    seconds = share * seconds_of(step, "other")
    return (Evidence("in lines that set them to zero, by samples", seconds, "s", "measured"),)
