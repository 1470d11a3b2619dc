"""``input-idle``: a model that waits between forwards, for its inputs or its callers."""

from __future__ import annotations

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.totals import counted_rate
from tui_profiler.queries.time.modes import is_program, runs_backward
from tui_profiler.session import Session

APPLIES_ABOVE = 0.1
"""Of the time between one forward's begin and the next one's."""


@check("input-idle", holds_in="inference")
def input_idle(session: Session) -> Finding | None:
    """Find a program that leaves its model idle.

    Not where a backward pass of any model runs: then that is what happens between forwards.
    """
    if session.tree is None or not len(session.tree) or runs_backward(session):
        return None
    step = _step(session)
    if step is None:
        return None
    whole, busy = step
    idle = share_of(whole - busy, whole)
    if idle < APPLIES_ABOVE:
        return None
    return Finding(
        kind="input-idle",
        title="reduce idle time between forwards",
        why=(
            "From one forward's end to the next one's begin the model does nothing. Loading and"
            " preparing inputs in another thread or process, or more callers at once, fill it."
        ),
        nodes=(0,),
        evidence=(
            Evidence("from one forward's begin to the next one's", whole, "s", "measured"),
            Evidence("of it in the model", busy, "s", "measured"),
            *_gpu(session),
        ),
        gains=(
            Gain(
                "time",
                idle,
                f"{duration(whole - busy)} of {duration(whole)} pass between forwards; of a model"
                " that never waits they are gone",
                "derived",
                is_bound=True,
            ),
        ),
        why_no_trial="what the model waits for is in its program, which a trial does not run",
    )


def _step(session: Session) -> tuple[float, float] | None:
    """Return seconds of a step and of the model in it, None where nobody waits or it is unknown."""
    steps, tick = session.steps, session.tick
    if steps is not None:
        whole, host = known(steps.step), known(steps.host)
        # Waiting for other ranks is not idleness of this program's own.
        return (whole, whole - host) if whole and host is not None else None
    per_second = known(counted_rate(session))
    if tick is None or not is_program(session) or not per_second:
        return None
    batch = (session.model.batch if session.model is not None else None) or 1
    return batch / per_second, tick.latency_p50


def _gpu(session: Session) -> tuple[Evidence, ...]:
    sample, model = session.sample, session.model
    if sample is None or model is None or isinstance(sample.gpus, Unknown):
        return ()
    index = model.device.partition(":")[2] or "0"
    return tuple(
        Evidence("of the time a kernel ran on the GPU", gpu.utilisation, "share", "measured")
        for gpu in sample.gpus
        if model.device.startswith("cuda") and gpu.cuda_index == int(index)
    )
