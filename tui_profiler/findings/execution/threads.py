"""``threads``: as many intra-op threads as the work can use.

By Amdahl's law (1967) a forward on n threads takes (1 - p) + p / n of its time on one, where p is
the parallel part. On several threads, p follows from how many cores are busy. On one it is unknown:
the compute- and bandwidth-bound time is its upper bound.
"""

from statistics import median

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, share_of
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.bound import mixes_of, node_parts
from tui_profiler.queries.time.modes import is_program
from tui_profiler.queries.time.node_seconds import unwaited_seconds
from tui_profiler.session import Session

_SAMPLES = 10
BUSY_BELOW = 0.6
"""Of the threads: where fewer cores are busy, some threads wait."""


@check(
    "threads",
    holds_in="inference",
    reads=(quantities.TREE, quantities.MACHINE, quantities.TIMES),
    uses=(
        quantities.COMPUTE_ROOF,
        quantities.MEMORY_ROOF,
        quantities.OPERATOR_ROOF,
        quantities.BUSY,
    ),
)
def threads(session: Session) -> Finding | Unknown | None:
    """Find cores without a thread, threads without a core, or threads that wait."""
    environment, model = session.environment, session.model
    if environment is None or model is None or model.device != "cpu" or session.tree is None:
        return None
    now, cores = environment.threads, environment.cores
    whole = unwaited_seconds(session, 0)
    if not session.tree.has_forward or whole is None:
        return None
    # Between forwards, a program keeps other cores busy, or none.
    busy = None if is_program(session) else _busy_cores(session)
    # Where forwards wait for a core, other programs keep these threads from running.
    is_contended = session.timings is not None and session.timings.waiting > 0
    on_core = _share_on_core(session)
    waits = busy is not None and now > 1 and busy < BUSY_BELOW * now * on_core and not is_contended
    if now == cores and not waits:
        is_open = busy is None and now > 1 and not is_program(session) and not is_contended
        return Unknown(f"busy cores: {quantities.BUSY.missing(session)}") if is_open else None
    compute, memory, *_, not_decided = node_parts(session, 0)
    work = compute + memory
    if share_of(work, whole) < LEAST_SHARE:
        # Threads share the work of operators: sleep, Python and overhead stay.
        is_undecided = bool(not_decided) or mixes_of(session) is None
        return _why_open(session) if is_undecided else None
    gain = _gain(session, whole, busy, work)
    wanted = cores if now != cores else 1
    evidence = [
        Evidence("intra-op threads", now, "count", "measured"),
        Evidence("cores available to this process", cores, "count", "measured"),
    ]
    if busy is not None:
        evidence.append(Evidence("busy cores", busy, "count", "measured"))
    return Finding(
        kind="threads",
        title=f"run on {wanted} thread{'s' * (wanted != 1)} instead of {now}",
        why=(
            "Threads share the work of an operator: too few leave cores idle, too many contend."
            " A different order of summation changes rounding."
        ),
        nodes=(0,),
        evidence=tuple(evidence),
        gains=(gain,),
    )


def _busy_cores(session: Session) -> float | None:
    busy = [known(sample.process_cpu) for sample in session.history.samples[-_SAMPLES:]]
    found = [cores for cores in busy if cores is not None]
    return median(found) if found else None


def _why_open(session: Session) -> Unknown:
    """Return why compute- and bandwidth-bound time is not known."""
    for roof in (quantities.COMPUTE_ROOF, quantities.MEMORY_ROOF, quantities.OPERATOR_ROOF):
        if why := roof.missing(session):
            return Unknown(f"{roof.name}: {why}")
    return Unknown("the roofs do not decide what limits the forward")


def _share_on_core(session: Session) -> float:
    """Return the share of a forward that its thread is on a core; 1 where it is not known."""
    thread = session.tick.thread if session.tick is not None else None
    on_core = known(thread.on_core) if thread is not None else None
    return 1.0 if thread is None or on_core is None else share_of(on_core, thread.seconds)


def _gain(session: Session, whole: float, busy: float | None, work: float) -> Gain:
    assert session.environment is not None
    now, cores = session.environment.threads, session.environment.cores
    if now >= cores:
        return Gain(
            "time",
            Unknown("the cost of contention between threads is not measured"),
            "the time that threads wait",
        )
    if now == 1:
        share = share_of(work * (1 - 1 / cores), whole)
        formula = (
            f"{duration(work)} of {duration(whole)} are compute- or bandwidth-bound; on {cores}"
            f" cores {1 / cores:.0%} of it remains"
        )
        return Gain("time", share, formula, "derived", is_bound=True)
    if busy is None:
        return Gain("time", Unknown("the number of busy cores is not known"), "Amdahl's law")
    parallel = share_of(1 - 1 / max(busy, 1.0), 1 - 1 / now)
    ratio = (1 - parallel + parallel / cores) / (1 - parallel + parallel / now)
    formula = (
        f"{busy:.1f} busy cores on {now} threads: {parallel:.0%} is parallel (Amdahl's law); on"
        f" {cores} threads a forward takes {ratio:.0%} of the time"
    )
    return Gain("time", 1 - ratio, formula, "estimated")
