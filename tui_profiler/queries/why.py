"""Where the figures of a node come from, or why one is missing: one sentence."""

from __future__ import annotations

from tui_profiler.messages import Unknown
from tui_profiler.queries.bound import bound
from tui_profiler.session import Session


def why(session: Session, node: int) -> str:
    """Say how a node's time, work and bound were had."""
    if session.tree is None:
        return "nothing is known yet: the model is not traced"
    parts = [_time(session, node), _work(session, node), _bound(session, node)]
    return " · ".join(part for part in parts if part)


def _time(session: Session, node: int) -> str:
    found = session.timings.of(node) if session.timings is not None else None
    if found is not None and session.tick is not None:
        calls = min(found.calls, session.tick.window)
        return f"ms: measured, median of a forward over the last {calls:,} calls"
    assert session.tree is not None
    if session.timings is None:
        return "ms: needs times, no forward has finished"
    if session.tree.nodes[node].kind == "op":
        return "ms: operators are not timed by the module clock"
    if session.tree.nodes[node].calls == 0:
        return "ms: not called itself; what is shown is the sum of what is inside"
    if session.tick is not None and session.tick.left_out:
        return f"ms: not called, or one of {session.tick.left_out:,} with the least time, left out"
    return "ms: not called since the model runs"


def _work(session: Session, node: int) -> str:
    assert session.tree is not None
    cost = session.tree.costs[node]
    if cost.uncosted:
        return f"work: a lower bound, {cost.uncosted} of {cost.ops} operators have no formula"
    done = session.tree.done
    if done is not None and done.bounded:
        return f"work: an upper bound, {len(done.bounded)} kinds of operators depend on the data"
    return f"work: counted on paper by {session.tree.method}"


def _bound(session: Session, node: int) -> str:
    found = bound(session, node)
    if found is None:
        return "bound: nothing is moved"
    if found.measured:
        return f"bound: {found.reason}"
    ceilings = session.ceilings
    if ceilings is not None and isinstance(ceilings.bytes_per_second, Unknown):
        return f"bound: on paper, {ceilings.bytes_per_second.reason}"
    return f"bound: {found.reason}; ceilings are not measured yet"
