"""Where the figures of a node come from, or why one is missing: a sentence for each."""

from collections import Counter

from tui_profiler.figures.units import share, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import NO_FORWARD, Ceilings, Tick, Unknown, known
from tui_profiler.messages.live import OPERATOR_WINDOWS as WINDOWS
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.energy import node_energy
from tui_profiler.queries.cost.memory_compared import why_no_window
from tui_profiler.queries.panel.cached_tree import age, is_remembered
from tui_profiler.queries.time.forward_kinds import COLD_TIMES, why_times_do_not_fit
from tui_profiler.queries.time.node_seconds import ENQUEUED, UNEVEN, parts_share
from tui_profiler.queries.time.step_seconds import node_share, timed_backward
from tui_profiler.queries.tree.columns import ColumnName
from tui_profiler.session import Session, Tree

_NO_NODE = "operators that were not seen"


def why(
    session: Session, node: int, columns: tuple[ColumnName, ...] = ()
) -> tuple[tuple[str, str], ...]:
    """Return (figure, where it comes from) of a node's time, work, bound and memory.

    Operators without a formula are named. Energy is among the figures where a column shows it.
    """
    if session.tree is None:
        return (("node", "nothing is known yet: the model is not traced"),)
    if not session.tree.has_forward:
        return tuple((label, f"unavailable, {NO_FORWARD}") for label in ("time", "work", "bound"))
    told = (
        ("tree", f"cached {age(session)}" if is_remembered(session) else ""),
        ("time", _time(session, node)),
        ("work", _work(session, node)),
        ("no formula", _without_formula(session.tree, node)),
        ("bound", _bound(session, node)),
        ("memory", _memory(session, node)),
        ("step", _step(session, node)),
        ("energy", _energy(session, node) if "energy" in columns else ""),
    )
    return tuple((label, sentence) for label, sentence in told if sentence)


def _step(session: Session, node: int) -> str:
    if session.training is None or session.tree is None:
        return ""
    step = session.training.step
    if session.tree.nodes[node].kind == "op":
        return "unavailable, operators have no figures per step"
    if node_share(session, node) is None:
        return "unavailable, not called in recorded steps"
    left_out = f", {thousands(step.outliers)} outliers left out" if step.outliers else ""
    said = f"measured, mean of {thousands(step.recorded)} recorded steps{left_out}"
    if timed_backward(session, node) is None:
        return f"{said}; no backward: {safe(step.why_no_backward)}"
    return said


def _energy(session: Session, node: int) -> str:
    found = node_energy(session, node)
    if isinstance(found, Unknown):
        return f"unavailable, {safe(found.reason)}"
    if found.counts:
        return f"measured, {found.counts} replays"
    return "estimated by its share of the time"


def _time(session: Session, node: int) -> str:
    assert session.tree is not None
    if session.tree.nodes[node].kind == "op":
        return operator_time_words(session, node)
    found = session.timings.of(node) if session.timings is not None else None
    if found is not None and session.tick is not None:
        if found.is_mean:
            forwards = f"{session.tick.mean_forwards:,} forwards{outliers(session.tick)}"
            where = " on the GPU" if session.is_timed_on_gpu else ""
            return f"measured{where}, mean of {forwards}"
        calls = min(found.calls, session.tick.window)
        words = f"measured, median of a forward over the last {calls:,} calls"
        made = parts_share(session, node)
        if made is None or made >= UNEVEN:
            return words
        return f"{words}; its children's medians add up to {made * 100:.0f} % of it"
    if session.timings is None:
        return "needs times, no forward has finished"
    if session.tree.nodes[node].calls == 0:
        return "not called itself; the sum of its children"
    if session.tick is not None and session.tick.left_out:
        return f"not called, or one of {session.tick.left_out:,} with the least time, left out"
    return "not called so far"


def outliers(tick: Tick) -> str:
    """Return how many whole forwards the means leave out with their time, empty where none."""
    if not tick.outliers:
        return ""
    took = known(tick.outliers_share)
    time = "" if took is None else f" with {share(took)} of the time"
    return f", {tick.outliers:,} far longer{time} left out"


def left_out_words(tick: Tick) -> list[str]:
    """Return which forwards the means leave out; nothing where they leave out none."""
    if not tick.outliers:
        return []
    took = known(tick.outliers_share)
    time = "" if took is None else f", {share(took)} of the time"
    of = tick.mean_forwards + tick.outliers
    return [f"means are without {tick.outliers:,} of the last {of:,} forwards, far longer{time}"]


def operator_time_words(session: Session, node: int) -> str:
    """Say where the time of an operator comes from, or why there is none."""
    operators = session.operators
    if session.is_timed_on_gpu:
        return f"unavailable: {ENQUEUED}"
    why = why_times_do_not_fit(session)
    if why == COLD_TIMES:
        return f"unavailable: {why}"
    if why:
        return "unavailable: operators are timed in forwards with inputs as those that were traced"
    if operators is not None and operators.times.why_none and not operators.times.windows:
        return f"unavailable: {safe(operators.times.why_none)}"
    if operators is None or not operators.times.windows:
        return "after the first operator window"
    windows = operators.times.windows
    if operators.p50_per_forward(node) is None:
        return f"not seen in any of {windows} operator windows"
    of = "mean" if operators.has_means else "median"
    return f"derived from the {of} of {min(windows, WINDOWS)} operator windows"


def _work(session: Session, node: int) -> str:
    assert session.tree is not None
    cost = session.tree.costs[node]
    depends = session.tree.bounded.get(node)
    if cost.uncosted:
        lacks = f"{thousands(cost.uncosted)} of {thousands(cost.ops)} operators have no formula"
        if depends is None:
            return f"a lower bound, {lacks}"
        return f"estimated, {lacks}, and it depends on {_asked(session.tree)}"
    match depends:
        case "at most":
            said = (
                f"at most, it depends on {_asked(session.tree)}, whose output depends on the data"
            )
        case "about":
            said = f"estimated, {_asked(session.tree)} returned a constant instead of the data"
        case None:
            return f"counted on paper by {session.tree.method}"
    return f"{said}; one real forward cost the same" if session.tree.is_confirmed else said


def _without_formula(tree: Tree, node: int) -> str:
    """Name the operators in a node that have no formula, most calls first; empty without one."""
    calls = Counter[str]()
    waiting = [node]
    while waiting:
        at = waiting.pop()
        inside = [child for child in tree.children(at) if tree.costs[child].uncosted]
        own = tree.costs[at].uncosted - sum(tree.costs[child].uncosted for child in inside)
        found = tree.nodes[at]
        calls[found.name if found.kind == "op" else found.note or _NO_NODE] += max(own, 0)
        waiting += inside
    named = ((name, number) for name, number in calls.most_common() if number)
    return ", ".join(f"{safe(name)} ×{thousands(number)}" for name, number in named)


def _memory(session: Session, node: int) -> str:
    """Say where the memory of a node comes from, or why it was not measured."""
    if session.timings is None:
        return ""
    found = session.memory_window
    if found is None:
        return f"unavailable, {safe(why_no_window(session).reason)}"
    if found.peak(node) is None:
        return "unavailable, not seen in the operator window"
    return "measured in one operator window"


def _asked(tree: Tree) -> str:
    names = tree.done.bounded if tree.done is not None else ()
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return safe(names[0]) + more if names else "an operator"


def _bound(session: Session, node: int) -> str:
    found = bound.bound(session, node)
    why = bound.why_not_decided(session, node)
    if found is None:
        return no_class(session, node)
    if found.measured:
        return f"{found.reason}: {safe(why)}" if found.not_decided else found.reason
    if why:
        return f"{found.reason}; on paper, {safe(why)}"
    if why := why_times_do_not_fit(session):
        return f"{found.reason}; {why}"
    ceilings = session.ceilings
    if ceilings is not None and not bound.has_roofs(ceilings):
        return f"{found.reason}; {no_roof(ceilings)}"
    if ceilings is not None:
        return f"{found.reason}; no time to compare with the roofs"
    return f"{found.reason}; the roofline is not calibrated yet"


def no_class(session: Session, node: int) -> str:
    """Return why a node has no class at all, not even on paper."""
    assert session.tree is not None
    return bound.why_not_decided(session, node) or bound.why_no_class(session.tree, node)


def no_roof(ceilings: Ceilings) -> str:
    """Return why there is no roof to compare times with."""
    figures = (ceilings.bytes_per_second, ceilings.op_seconds)
    reasons = [figure.reason for figure in figures if isinstance(figure, Unknown)]
    return safe(reasons[0]) if reasons else "no roof was measured"


def bound_provenance(session: Session) -> str:
    """Return whether bounds are of this machine's roofs, and how many are on paper and why."""
    left, timed = bound.not_decided_modules(session)
    why = bound.why_not_decided(session, 0) if left else ""
    if not left:
        return "against this machine"
    if left == timed:
        return f"on paper: {why}"
    return f"against this machine; {left:,} of {timed:,} modules on paper: {why}"
