"""``graph-breaks``: lines at which ``torch.compile`` goes back to Python, by Dynamo's record."""

from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.messages import CompiledAgain, Unknown
from tui_profiler.session import Session

MOST_LINES = 8
NOT_TIMED = Unknown("the time between graphs is not measured")


@check("graph-breaks", holds_in="both")
def graph_breaks(session: Session) -> Finding | None:
    """Find the lines that break graphs."""
    found = session.compilations
    if found is None or not found.breaks or session.tree is None or not len(session.tree):
        return None
    places = {(one.file, one.line, one.reason) for one in found.breaks}
    return Finding(
        kind="graph-breaks",
        title=f"avoid {counted(len(places), 'graph break')} of torch.compile",
        why=(
            "Between two graphs the program's own Python runs, tensors are written to memory, and"
            " nothing is fused across."
        ),
        nodes=(0,),
        evidence=(
            Evidence("graphs compiled in this process", found.graphs, "count", "measured"),
            *map(evidence, found.breaks[:MOST_LINES]),
        ),
        gains=(Gain("time", NOT_TIMED, "the Python between graphs"),),
        why_no_trial="only the model's code can avoid the break",
    )


def evidence(one: CompiledAgain) -> Evidence:
    """Return how often, at which line, for which reason."""
    place = f"{one.file}:{one.line}" if one.line else "an unknown line"
    return Evidence(f"{one.function} at {place}: {one.reason}", one.count, "count", "measured")
