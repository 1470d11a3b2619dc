"""The row above the keys: the last thing that happened, and what watching costs."""

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.text import safe, width
from tui_profiler.queries.panel.phrases import cached_events, last_events, overhead_text
from tui_profiler.session import Session

from .lines import EMPTY, Line, line_width
from .rows import Look, finished, row


def status_lines(look: Look, said: str = "", standing: tuple[str, ...] = ()) -> tuple[Line, ...]:
    """Return the row.

    Args:
        look: what is shown.
        said: what the user was told last; stands before the last event.
        standing: what stands instead of the last event, the longest form first.
    """
    session = look.session
    bad = session.failure is not None or (session.ended is not None and not session.ended.expected)
    if said:
        events: tuple[str, ...] = (safe(said),)
    else:
        events = standing if standing and not bad else last_events(session)
    role = "ink" if bad or said else "muted"
    return _fitting(events, role, costs(session), look)


def cached_status_lines(
    look: Look, since: str, until: str, costs: tuple[Line, ...]
) -> tuple[Line, ...]:
    """Return the row below a cached tree, before the tree itself is read.

    Args:
        look: the width; its session is still empty.
        since: how old the tree is.
        until: when the worker's own is to be expected.
        costs: the right end, the longest form first.
    """
    return _fitting(cached_events(since, until), "muted", costs, look)


def _fitting(
    events: tuple[str, ...], role: str, costs: tuple[Line, ...], look: Look
) -> tuple[Line, ...]:
    left = next((e for e in events if width(e) <= look.inner), events[-1])
    for right in costs:
        if width(left) + line_width(right) + 2 <= look.inner:
            return finished((row(((left, role),), right, look),), look)
    # The event matters more: it takes the whole row, and is cut only where that is too short.
    return finished((row(((left, role),), EMPTY, look),), look)


def costs(session: Session) -> tuple[Line, ...]:
    """Return what profiling costs, the longest form first."""
    if session.tree is None or not session.tree.has_forward:
        return ()
    cost: Line = (("profiler overhead ", "muted"), (overhead_text(session), "ink"))
    tick = session.tick
    dropped, without = (tick.dropped, tick.left_out) if tick is not None else (0, 0)
    lost: Line = ((f", {thousands(dropped)} events dropped", "muted"),)
    short: Line = (*cost, (f", {thousands(without)} nodes left out", "muted"))
    return ((*short, *lost), short, cost) if without else ((*cost, *lost), cost)
