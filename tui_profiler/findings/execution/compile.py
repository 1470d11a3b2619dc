"""``compile``: Python between operators, and element-wise operators that a compiler joins.

``torch.compile`` runs the forward without its Python, and joins an element-wise operator with the
one that it reads, so that what lies between is never written to memory. Source: Ansel et al.,
PyTorch 2, ASPLOS 2024, section 5.
"""

from __future__ import annotations

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.findings.evidence.host_time import Host, host
from tui_profiler.findings.evidence.time_share import NO_TIMES, TimeSpent, share_of, spent
from tui_profiler.findings.execution.synchronise import READS_A_VALUE
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.breakdown import OpType, op_type
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.03
"""Of a forward."""
_MOST_NODES = 200
_JOINED: frozenset[OpType] = frozenset({"activation", "elementwise", "norm", "reduction"})


@check("compile", holds_in="both")
def compile_model(session: Session) -> Finding | None:
    """Find out what Python and operators that could be joined take."""
    tree = session.tree
    if tree is None or not tree.has_forward or any(node.is_opaque for node in tree.nodes):
        return None
    joined = joinable(tree)
    found, around = spent(session, joined), host(session)
    if isinstance(found, Unknown):
        found = TimeSpent(0.0, 0.0, False)
    python = 0.0 if isinstance(around, Unknown) else around.python
    whole = found.whole if isinstance(around, Unknown) else around.whole
    # Times on paper are no times of a forward: Python is not added to them.
    total = found.seconds + python if found.is_measured or not found.whole else found.seconds
    share = share_of(total, whole if found.is_measured else found.whole)
    if share < APPLIES_ABOVE and whole:
        return None
    if not joined and not python:
        return None
    return Finding(
        kind="compile",
        title="compile the model",
        why=(
            "torch.compile removes Python overhead and fuses pointwise operators. The first call"
            " with each shape compiles and is slow; rounding changes."
        ),
        nodes=(0, *joined[:_MOST_NODES]),
        evidence=_evidence(tree, joined, found, around),
        gains=(_gain(share, found, around, whole),),
        trial="compile",
    )


def _evidence(
    tree: Tree, joined: tuple[int, ...], found: TimeSpent, around: Host | Unknown
) -> tuple[Evidence, ...]:
    python = around if isinstance(around, Unknown) else around.python
    breaks = len(operators(tree, READS_A_VALUE))
    return (
        Evidence(
            "operators that can be fused with the previous one", len(joined), "count", "derived"
        ),
        *((found.evidence("their time per forward"),) if found.whole else ()),
        Evidence("Python overhead (time outside operators)", python, "s", "measured"),
        *((Evidence("values read by Python: graphs break", breaks, "count", "derived"),)[:breaks]),
    )


def _gain(share: float, found: TimeSpent, around: Host | Unknown, whole: float) -> Gain:
    if not whole:
        return Gain("time", NO_TIMES, "the share of Python and of operators that could be joined")
    parts = f"operators that could be joined take {found.seconds_text}"
    if not isinstance(around, Unknown) and found.is_measured:
        parts += f", Python {duration(around.python)}"
    return Gain(
        "time",
        share,
        f"{parts} of {found.whole_text or duration(whole)}; compiled they take next to nothing",
        "estimated",
    )


def joinable(tree: Tree) -> tuple[int, ...]:
    """Return element-wise operators that read an operator which a compiler can join them with.

    That is another of their kind: convolutions and products stay with the library.
    """
    edges = graph(tree)
    joins = {
        i for i, node in enumerate(tree.nodes) if node.kind == "op" and op_type(node) in _JOINED
    }
    return tuple(
        node
        for node in sorted(joins)
        if any(writer in joins for writer in edges.writers.get(node, ()))
    )
