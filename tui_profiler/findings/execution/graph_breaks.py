"""``graph-breaks``: lines at which ``torch.compile`` goes back to Python, by Dynamo's record."""

from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.messages import Unknown
from tui_profiler.queries.tree import compiled
from tui_profiler.session import Session

MOST_LINES = 8
NOT_TIMED = Unknown("the time between graphs is not measured")


@check("graph-breaks", holds_in="both")
def graph_breaks(session: Session) -> Finding | None:
    """Find the lines that break graphs."""
    found = session.compilations
    if found is None or not found.breaks or session.tree is None or not len(session.tree):
        return None
    broken = compiled.graph_breaks(session)
    places = {(one.file, one.line, one.reason) for one in found.breaks}
    return Finding(
        kind="graph-breaks",
        title=f"avoid {counted(len(places), 'graph break')} of torch.compile",
        why=(
            "Between two graphs the program's own Python runs, tensors are written to memory, and"
            " nothing is fused across."
        ),
        nodes=modules_of(broken),
        evidence=(
            Evidence("graphs compiled in this process", found.graphs, "count", "measured"),
            *(evidence(session, one) for one in broken[:MOST_LINES]),
        ),
        gains=(Gain("time", NOT_TIMED, "the Python between graphs"),),
        why_no_trial="only the model's code can avoid the break",
    )


def evidence(session: Session, one: compiled.CompiledPlace) -> Evidence:
    """Return how often, at which line of which module, for which reason."""
    modules = compiled.module_words(session, one)
    in_module = f", in {modules}" if modules else ""
    what = f"{one.function} at {one.where}{in_module}: {one.what.reason}"
    return Evidence(what, one.what.count, "count", "measured")


def modules_of(found: tuple[compiled.CompiledPlace, ...]) -> tuple[int, ...]:
    """Return the modules of all places; the whole model where none is known."""
    return tuple(dict.fromkeys(node for one in found for node in one.nodes)) or (0,)
