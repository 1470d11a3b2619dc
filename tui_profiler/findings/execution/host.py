"""``host-overhead``, ``input-idle``: the model waits for the host, within forwards or between."""

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.memory import has_items
from tui_profiler.findings.evidence.time_share import BUSY_GPU, host, share_of
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.totals import counted_rate
from tui_profiler.queries.time.modes import is_program, runs_backward
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.training import step_quantities
from tui_profiler.session import Session, Tree
from tui_profiler.session.history import seen_as

HOST_SHARE = 0.25
"""Of a forward."""


@check(
    "host-overhead",
    holds_in="both",
    reads=(quantities.TREE, *quantities.PYTHON),
    uses=(quantities.REAL, quantities.BATCH, step_quantities.RECORDED, step_quantities.ITEMS),
)
def host_overhead(session: Session) -> Finding | Unknown | None:
    """Find a host-bound forward."""
    tree, found = session.tree, host(session)
    if isinstance(found, Unknown):
        return None if found is BUSY_GPU else found
    if tree is None or found.share < HOST_SHARE:
        return None
    grows = has_items(session)
    formula = (
        f"Python takes {duration(found.python)} and the overhead of {found.operators:,} operators"
        f" at least {duration(found.calling)} of {duration(found.whole)}; without the host, they"
        " take no time"
    )
    return Finding(
        kind="host-overhead",
        title="host-bound: run fewer, larger operators",
        why=(
            "Much of the time is Python and operator overhead, not computation."
            f" {'Larger batches, torch.compile,' if grows else 'torch.compile'} or CUDA graphs on a"
            " GPU do more work per operator call."
        ),
        nodes=_hosts(session, tree),
        evidence=(
            Evidence("Python overhead (time outside operators)", found.python, "s", "measured"),
            Evidence("operator overhead, at least", found.calling, "s", "derived"),
            Evidence("operators per forward", found.operators, "count", "derived"),
        ),
        gains=(Gain("time", found.share, formula, "derived", is_bound=True),),
        why_no_trial=(
            "try compile and larger-batch, which reduce it"
            if grows
            else "try compile: it reduces it"
        ),
    )


def _hosts(session: Session, tree: Tree) -> tuple[int, ...]:
    """Return the root, then its submodules by host time, most first."""
    windows = session.host_windows
    assert windows is not None
    parts = tree.modules_in(0)
    shares = {part: found.host for part in parts if (found := windows.shares(part)) is not None}
    slowest = sorted(shares, key=lambda part: (-shares[part], -(node_seconds(session, part) or 0)))
    return (0, *slowest)


IDLE_SHARE = 0.1
"""Idle share of the time from the start of one forward to the next."""


@check(
    "input-idle",
    holds_in="inference",
    reads=(quantities.TREE,),
    uses=(quantities.TIMES, quantities.RATE, quantities.RANK_STEPS, quantities.SAMPLE),
)
def input_idle(session: Session) -> Finding | Unknown | None:
    """Find a program that leaves its model idle.

    Not where any model runs a backward pass: it runs between forwards.
    """
    if session.tree is None or not len(session.tree) or runs_backward(session):
        return None
    step = _step(session)
    if step is None or isinstance(step, Unknown):
        return step
    whole, busy = step
    idle = share_of(whole - busy, whole)
    if idle < IDLE_SHARE:
        return None
    return Finding(
        kind="input-idle",
        title="reduce idle time between forwards",
        why=(
            "The model is idle between forwards. Load and preprocess inputs in other threads or"
            " processes, or serve more callers at once."
        ),
        nodes=(0,),
        evidence=(
            Evidence("time from one forward to the next", whole, "s", "measured"),
            Evidence("of it, in the model", busy, "s", "measured"),
            *_gpu(session),
        ),
        gains=(
            Gain(
                "time",
                idle,
                f"{duration(whole - busy)} of {duration(whole)} pass between forwards; a model"
                " that never waits saves all of it",
                "derived",
                is_bound=True,
            ),
        ),
        why_no_trial="the wait is in the program, which a trial does not run",
    )


def _step(session: Session) -> tuple[float, float] | Unknown | None:
    """Return the seconds of a step, and of the model in it; None of a worker, which has no pauses.

    Waiting for other ranks is not idle time of this program.
    """
    steps, tick = session.steps, session.tick
    if steps is not None:
        whole, host = steps.step, steps.host
        if isinstance(whole, Unknown):
            return whole
        return host if isinstance(host, Unknown) else (whole, whole - host)
    if not is_program(session):
        return None
    if tick is None:
        return Unknown(f"{quantities.TIMES.name}: {quantities.TIMES.missing(session)}")
    if session.overhead is None:
        return Unknown(f"{quantities.RATE.name}: {quantities.RATE.missing(session)}")
    per_second = counted_rate(session)
    if isinstance(per_second, Unknown) or not per_second:
        return per_second if isinstance(per_second, Unknown) else None
    batch = (session.model.batch if session.model is not None else None) or 1
    return batch / per_second, tick.latency_p50


def _gpu(session: Session) -> tuple[Evidence, ...]:
    sample, model = session.sample, session.model
    gpu = seen_as(sample.gpus, model.device) if sample is not None and model is not None else None
    if gpu is None:
        return ()
    return (Evidence("GPU utilisation", gpu.utilisation, "share", "measured"),)
