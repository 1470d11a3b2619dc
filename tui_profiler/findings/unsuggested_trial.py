"""A change that was tried though nothing speaks for it, or not any more: its row all the same."""

from __future__ import annotations

from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain
from tui_profiler.messages import TrialResult, Unknown
from tui_profiler.messages.trials import WHOLE_MODEL

NOTHING = Unknown("no evidence for this change in the session")


def of_result(result: TrialResult) -> Finding:
    """Return the finding that stands beside a trial without a prediction."""
    return Finding(
        kind=result.kind,
        title=f"{result.kind}, which nothing speaks for",
        why="Tried without evidence of a gain.",
        nodes=(max(result.node, 0) if result.node != WHOLE_MODEL else 0,),
        evidence=(
            Evidence("pairs of calls that were compared", result.pairs, "count", "measured"),
        ),
        gains=(Gain("time", NOTHING, "a share of a forward"),),
        trial=result.kind,
    )
