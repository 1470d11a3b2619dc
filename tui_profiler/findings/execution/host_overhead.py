"""``host-overhead``: a forward that Python and calling operators take more of than work does."""

from __future__ import annotations

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.host_time import host
from tui_profiler.messages import Unknown
from tui_profiler.queries.time.node_seconds import share as share_of_node
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.25
"""Of a forward: below it the work itself is where to look."""


@check("host-overhead", holds_in="both")
def host_overhead(session: Session) -> Finding | None:
    """Find out that work is not what a forward's time goes to."""
    tree, found = session.tree, host(session)
    if tree is None or isinstance(found, Unknown) or found.share < APPLIES_ABOVE:
        return None
    formula = (
        f"Python takes {duration(found.python)} and calling {found.operators:,} operators at least"
        f" {duration(found.calling)} of {duration(found.whole)}; with no host at all they take"
        " nothing"
    )
    return Finding(
        kind="host-overhead",
        title="host-bound: run fewer, larger operators",
        why=(
            "Most of the time is operator overhead, not computation. Larger batches, compiling,"
            " or CUDA graphs where there is a GPU do more per operator call."
        ),
        nodes=_hosts(session, tree),
        evidence=(
            Evidence("Python overhead (time outside operators)", found.python, "s", "measured"),
            Evidence("operator overhead, at least", found.calling, "s", "derived"),
            Evidence("operators per forward", found.operators, "count", "derived"),
        ),
        gains=(Gain("time", found.share, formula, "derived", is_bound=True),),
        why_no_trial="compiling and a larger batch are the ways out, and have trials of their own",
    )


def _hosts(session: Session, tree: Tree) -> tuple[int, ...]:
    """Return the root's parts with most host time first; the root itself where none was seen."""
    windows = session.windows
    assert windows is not None
    parts = [child for child in tree.children(0) if tree.nodes[child].kind == "module"]
    shares = {part: found.host for part in parts if (found := windows.shares(part)) is not None}
    slowest = sorted(shares, key=lambda part: (-shares[part], -(share_of_node(session, part) or 0)))
    return (0, *slowest)
