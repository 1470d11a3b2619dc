"""What follows from the figures, in sentences."""

from __future__ import annotations

from tui_profiler.figures.units import share
from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.ceilings import MEMORY
from tui_profiler.queries.panel.provenance import bounds_told
from tui_profiler.session import Session

_WANTS: dict[bound.BoundKind, str] = {
    "compute": "compute is the largest floor: faster arithmetic helps most",
    "memory": "of the roofs, {level} helps most",
    "overhead": "a larger batch or a compiled model helps most",
    "unexplained": "cause unknown",
    "waiting": "fewer programs beside it, or fewer threads, help most",
}
_WANTS_ON_PAPER: dict[bound.BoundKind, str] = {
    **_WANTS,
    "compute": "fewer FLOPs or faster arithmetic",
    "memory": "fewer bytes or faster memory",
}


def wants(session: Session) -> str:
    """Return what limits the whole model and what that asks of hardware; empty where unknown."""
    found = bound.bound(session, 0) if session.tree is not None and len(session.tree) else None
    if found is None:
        return ""
    if found.measured:
        part = share(found.mix[bound.KINDS.index(found.kind)])
        level = bound.memory_level(session)
        faster = "faster memory" if level == MEMORY else f"a faster {level} cache"
        asks = _WANTS[found.kind].format(level=faster)
        return f"{bound.phrase(found.kind)} overall, {part} of its time: {asks}"
    asks = _WANTS_ON_PAPER[found.kind]
    return f"{bound.phrase(found.kind)} on paper, {found.reason.partition(':')[0]}: {asks}"


def told_on_paper(session: Session) -> str:
    """Return how many modules' classes are on paper in spite of times, and why; empty for none."""
    return safe(bounds_told(session)) if bound.not_decided_modules(session)[0] else ""
