"""Findings of what ``torch.compile`` did in the process, by Dynamo's record.

``graph-breaks``, ``recompiles``.
"""

from collections import Counter

from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.messages import Unknown
from tui_profiler.queries.tree import compiled
from tui_profiler.session import Session

MOST_LINES = 8
NOT_TIMED = Unknown("the time between graphs is not measured")


@check(
    "graph-breaks",
    holds_in="both",
    reads=(quantities.TREE, quantities.COMPILATIONS),
)
def graph_breaks(session: Session) -> Finding | None:
    """Find the lines of code at which Dynamo breaks a graph."""
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
        nodes=_modules_of(broken),
        evidence=(
            Evidence("graphs compiled in this process", found.graphs, "count", "measured"),
            *(_evidence(session, one) for one in broken[:MOST_LINES]),
        ),
        gains=(Gain("time", NOT_TIMED, "the Python between graphs"),),
        why_no_trial="only the model's code can avoid the break",
    )


LEAST = 2
"""Recompilations of one function that are reported. One is expected: it makes a size dynamic
(``torch._dynamo.config.automatic_dynamic_shapes``)."""
ONCE = Unknown("each costs its time once; at the limit the function runs uncompiled")


@check(
    "recompiles",
    holds_in="both",
    reads=(quantities.TREE, quantities.COMPILATIONS),
)
def recompiles(session: Session) -> Finding | None:
    """Find functions that were compiled again more than once."""
    found = session.compilations
    if found is None or session.tree is None or not len(session.tree):
        return None
    counts: Counter[tuple[str, int, str]] = Counter()
    for one in found.recompiles:
        counts[one.file, one.line, one.function] += one.count
    again = tuple(
        one
        for one in compiled.recompilations(session)
        if counts[one.what.file, one.what.line, one.what.function] >= LEAST
    )
    if not again:
        return None
    total = sum(one.what.count for one in again)
    return Finding(
        kind="recompiles",
        title=f"avoid {counted(total, 'recompilation')} of torch.compile",
        why=(
            "A guard failed: a size, a dtype or a value differs from the first call. After 8"
            " recompilations (torch._dynamo.config.recompile_limit) the function runs uncompiled."
        ),
        nodes=_modules_of(again),
        evidence=(
            Evidence("time spent compiling in this process", found.seconds, "s", "measured"),
            *(_evidence(session, one) for one in again[:MOST_LINES]),
        ),
        gains=(Gain("time", ONCE, "the time of compiling"),),
        why_no_trial="the inputs are the program's own",
    )


def _evidence(session: Session, one: compiled.CompiledPlace) -> Evidence:
    """Return how often, at which line of which module, for which reason."""
    modules = compiled.module_words(session, one)
    in_module = f", in {modules}" if modules else ""
    what = f"{one.function} at {one.where}{in_module}: {one.what.reason}"
    return Evidence(what, one.what.count, "count", "measured")


def _modules_of(found: tuple[compiled.CompiledPlace, ...]) -> tuple[int, ...]:
    """Return the modules of all places; the whole model where none is known."""
    return tuple(dict.fromkeys(node for one in found for node in one.nodes)) or (0,)
