"""``recompiles``: functions that ``torch.compile`` compiled again, with the guards that failed."""

from collections import Counter

from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.execution.graph_breaks import MOST_LINES, evidence, modules_of
from tui_profiler.messages import Unknown
from tui_profiler.queries.tree import compiled
from tui_profiler.session import Session

LEAST = 2
"""Recompilations of one function: the first one makes a size dynamic, and is none too many.
``torch._dynamo.config.automatic_dynamic_shapes``."""
ONCE = Unknown("each costs its time once; at the limit the function runs uncompiled")


@check("recompiles", holds_in="both")
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
        nodes=modules_of(again),
        evidence=(
            Evidence("time spent compiling in this process", found.seconds, "s", "measured"),
            *(evidence(session, one) for one in again[:MOST_LINES]),
        ),
        gains=(Gain("time", ONCE, "the time of compiling"),),
        why_no_trial="the inputs are the program's own",
    )
