"""What follows from the figures, in sentences."""

from __future__ import annotations

from tui_profiler.queries.breakdown import bound_shares
from tui_profiler.session import Session

_WANTS = {
    "compute": "wants compute: faster arithmetic helps most",
    "memory": "wants bandwidth: faster memory helps most",
    "overhead": "wants less calling: a larger batch or a compiled model helps most",
}


def wants(session: Session) -> str:
    """Say what the greatest share says about the hardware that the model wants; else nothing."""
    shares = bound_shares(session)
    timed = {kind: part.time_share for kind, part in shares.items() if part.time_share is not None}
    paper = {
        kind: part.flops_share for kind, part in shares.items() if part.flops_share is not None
    }
    decided = timed or paper
    if not decided:
        return ""
    largest = max(decided, key=lambda kind: decided[kind])
    return f"{'by its time' if timed else 'by its FLOPs'} it {_WANTS[largest]}"
