"""A session in short phrases: what the model is, what happened last, what watching costs."""

from tui_profiler.figures import units
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec, Overhead
from tui_profiler.messages.failure import SCRIPT
from tui_profiler.messages.live import WAITS
from tui_profiler.queries.cost.bound import known_macs
from tui_profiler.queries.cost.exactness import SIGNS, of_count
from tui_profiler.queries.panel.cached_tree import age, is_remembered, when_replaced
from tui_profiler.queries.panel.playback import damage, origin
from tui_profiler.queries.panel.state import (
    awaited_forward,
    ended_text,
    running_stage,
    seconds_text,
    stage_name,
)
from tui_profiler.queries.time.forward_kinds import inputs, notes, phase
from tui_profiler.queries.time.modes import is_training
from tui_profiler.session import Session


def model_name(session: Session, spec: LoadSpec | None = None) -> str:
    """Return the model's name; the one asked for until it is loaded."""
    if session.model is not None:
        return safe(session.model.name)
    return safe(spec.model) if spec is not None else "no model"


def parameters_text(session: Session) -> str:
    """Return the number of parameters: ``25.6M``; empty before the trace."""
    tree = session.tree
    return units.count(tree.costs[0].parameters) if tree is not None and len(tree) else ""


def macs_text(session: Session) -> str:
    """Return the multiply-accumulates of one forward: ``4.09 GMAC``; empty before the trace."""
    tree = session.tree
    if tree is None or not len(tree):
        return ""
    if not tree.has_forward:
        return "parameters only"
    macs = known_macs(tree.costs[0])
    if macs is None:
        return "MAC not counted"
    sign = SIGNS[of_count(tree.bounded.get(0))]
    mark = f"{sign} " if sign else ""
    return mark + units.quantity(macs, "MAC") if macs else "no MAC"


def input_text(session: Session) -> str:
    """Return the first input: ``1×3×224×224 f32``, and how many more there are.

    Where the model has two forwards, the one that is looked at comes first: ``decode 1×1 i64``.
    """
    given = inputs(session)
    if not given:
        return ""
    more = f" +{len(given) - 1}" if len(given) > 1 else ""
    named = f"{phase(session)} " if phase(session) else ""
    return f"{named}{units.shape(given[0].shape)} {units.dtype(safe(given[0].dtype))}{more}"


def device_text(session: Session, *, threads: bool = True) -> str:
    """Return where it runs and, where its program trains it, that: ``cpu, 2 threads, training``."""
    model, machine = session.model, session.environment
    if model is None:
        return ""
    device = safe(model.device)
    mode = ", training" if is_training(session) else ""
    if machine is None or device != "cpu" or not threads:
        return f"{device}{mode}"
    return f"{device}, {machine.threads} thread{'' if machine.threads == 1 else 's'}{mode}"


def last_events(session: Session) -> tuple[str, ...]:
    """Return the last thing that happened, in one sentence, the longest form first."""
    if session.playback is not None:
        words = (origin(session.playback), *damage(session.playback))
        return tuple("  ".join(words[:number]) for number in range(len(words), 0, -1))
    ended = session.ended
    if ended is not None and not ended.expected:
        long = ended_text(ended)
        if ended.is_script:
            failure = session.failure
            what = safe(failure.what) if failure is not None else long
            return (f"{what}  L shows the output of the script", what)
        if ended.attached:
            said = f": {safe(ended.last_line)}" if ended.last_line else ""
            return (f"{long}{said}  tui-profiler attach lists others", long)
        short = long.partition(",")[0]
        return (f"{long}  ctrl+r restarts it", f"{short}  ctrl+r restarts it", short)
    if is_remembered(session) and session.failure is None:
        return cached_events(age(session), when_replaced(session))
    has_failed_before = session.failure is not None
    awaited = awaited_forward(session)
    if awaited is not None and not has_failed_before:
        why = safe(awaited.detail.removeprefix(WAITS))
        return (f"{why}; figures are of the forwards before", why)
    # What figures leave out matters more than what happened last.
    return (() if has_failed_before else notes(session)) or (_last_event(session),)


def cached_events(since: str, until: str) -> tuple[str, ...]:
    """Return what is said of a cached tree, the longest form first.

    Args:
        since: how old it is.
        until: when the worker's own is to be expected.
    """
    return (f"cached {since}  {until}", f"cached {since}")


def _last_event(session: Session) -> str:
    failure = session.failure
    if failure is not None and not failure.fatal:
        return f"{safe(stage_name(failure.stage))} failed: {safe(failure.what)}"
    if failure is not None and failure.stage == SCRIPT:
        return f"{safe(failure.what)}  L shows the output of the script"
    if failure is not None:
        return f"{_worker(session)} is idle: fix the input and press ctrl+r"
    printed = session.log.total_lines
    if session.tree is None and printed:
        lines = "1 line" if printed == 1 else f"{units.thousands(printed)} lines"
        return f"the worker prints to the log  {lines} so far"
    return _last_stage(session)


def _worker(session: Session) -> str:
    hello = session.hello
    if hello is not None and hello.program is not None:
        return f"process {hello.pid}"
    return f"worker {hello.pid}" if hello is not None else "the worker"


def _last_stage(session: Session) -> str:
    loop = session.loop
    if loop is not None and loop.state == "finished":
        if loop.detail.startswith("not run"):
            return safe(loop.detail)
        return f"finished: {safe(loop.detail)}" if loop.detail else "finished"
    stage = running_stage(session)
    if stage is not None and not session.has_failed:
        detail = f"  {safe(stage.detail)}" if stage.detail else ""
        return f"{stage_name(stage.stage)}{detail}"
    if not session.stages:
        return "waiting for the worker"
    done = session.stages[-1]
    detail = f"  {safe(done.detail)}" if done.detail else ""
    # What was kept from before took no time worth its cells.
    seconds = f"  {seconds_text(done.seconds)}" if done.seconds and done.seconds > 0.005 else ""
    return f"{stage_name(done.stage)}{detail}{seconds}"


def overhead_text(session: Session) -> str:
    """Return the cost of profiling: ``0.8 % ± 0.3``; ``…`` until it is measured."""
    overhead = session.overhead
    if overhead is None:
        return units.PENDING
    if overhead.pairs == 0:
        return f"~{max(overhead.ratio, 0.0) * 100:.1f} %"
    if overhead.ratio <= 0:
        return no_cost(overhead)
    # Both ends are in it, of which one may be further away than the other.
    half = max(overhead.high - overhead.ratio, overhead.ratio - overhead.low) * 100
    return f"{overhead.ratio * 100:.1f} % ± {half:.1f}"


def overhead_words(overhead: Overhead | None) -> str:
    """Return the cost of profiling for a report: ``0.8 % (0.2 % to 1.4 %)``."""
    if overhead is None:
        return f"{units.UNAVAILABLE} (too short to tell)"
    if overhead.pairs == 0:
        return f"~{units.share(max(overhead.ratio, 0.0))} estimated"
    if overhead.ratio <= 0:
        return no_cost(overhead)
    low, high = max(overhead.low, 0.0), overhead.high
    return f"{units.share(overhead.ratio)} ({units.share(low)} to {units.share(high)})"


def no_cost(overhead: Overhead) -> str:
    """Return the cost where watched forwards took no longer than bare ones: noise hides it."""
    high = overhead.high * 100
    return f"at most {high:.1f} %" if high >= 0.05 else "too small to measure"
