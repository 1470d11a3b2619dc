"""``compile``: Python overhead, and pointwise operators that a compiler fuses.

``torch.compile`` removes the Python between operators, and fuses a pointwise operator with its
producer, so that their intermediate tensor is never written to memory. Source: Ansel et al.,
PyTorch 2, ASPLOS 2024, section 5.

It skips functions that call ``nn.RNN``, ``LSTM`` or ``GRU`` (``torch._dynamo.config.allow_rnn`` is
off): nothing is gained inside of these layers, nor in what their caller runs itself.
"""

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import time_share
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.findings.execution.synchronise import READS_A_VALUE
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.breakdown import OpType, op_type
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.03
"""Of a forward."""
_MOST_NODES = 200
_SKIPPED = "recurrent layers, which torch.compile skips with the function that calls them"
_RECURRENT = frozenset({"RNN", "LSTM", "GRU"})
_POINTWISE: frozenset[OpType] = frozenset({"activation", "elementwise", "norm", "reduction"})


@check("compile", holds_in="both")
def compile_model(session: Session) -> Finding | None:
    """Find Python overhead and fusible operators."""
    tree = session.tree
    if tree is None or not tree.has_forward or any(node.is_opaque for node in tree.nodes):
        return None
    recurrent = tuple(
        at for at, node in enumerate(tree.nodes) if node.type in _RECURRENT and node.calls
    )
    fused = tuple(node for node in fusible(tree) if not _is_skipped(tree, node, recurrent))
    found = time_share.spent(session, fused)
    around = time_share.host(session, without=_callers(tree, recurrent))
    if isinstance(found, Unknown):
        found = time_share.TimeSpent(0.0, 0.0, False)
    python = 0.0 if isinstance(around, Unknown) else around.python
    whole = found.whole if isinstance(around, Unknown) else around.whole
    # Minimum times are not times of a forward: Python overhead is not added to them.
    total = found.seconds + python if found.is_measured or not found.whole else found.seconds
    share = time_share.share_of(total, whole if found.is_measured else found.whole)
    if share < APPLIES_ABOVE and whole:
        return None
    if not fused and not python:
        return None
    return Finding(
        kind="compile",
        title="compile the model",
        why=(
            "torch.compile removes Python overhead and fuses pointwise operators. The first call"
            " with each shape compiles and is slow; rounding changes."
        ),
        nodes=(0, *fused[:_MOST_NODES]),
        evidence=_evidence(tree, fused, len(recurrent), found, around),
        gains=(_gain(share, found, around, whole),),
    )


def _evidence(
    tree: Tree,
    fused: tuple[int, ...],
    recurrent: int,
    found: time_share.TimeSpent,
    around: time_share.Host | Unknown,
) -> tuple[Evidence, ...]:
    python = around if isinstance(around, Unknown) else around.python
    breaks = len(operators(tree, READS_A_VALUE))
    return (
        Evidence("fusible operators", len(fused), "count", "derived"),
        *(time_share.evidence(found) if found.whole else ()),
        Evidence("Python overhead (time outside operators)", python, "s", "measured"),
        *((Evidence("values read by Python (graph breaks)", breaks, "count", "derived"),)[:breaks]),
        *((Evidence(_SKIPPED, recurrent, "count", "derived"),)[:recurrent]),
    )


def _callers(tree: Tree, recurrent: tuple[int, ...]) -> tuple[int, ...]:
    """Return the modules that call recurrent layers, none of them inside another."""
    outermost: list[int] = []
    for caller in sorted({max(tree.nodes[node].parent, 0) for node in recurrent}):
        if not outermost or caller >= tree.ends[outermost[-1]]:
            outermost.append(caller)
    return tuple(outermost)


def _is_skipped(tree: Tree, node: int, recurrent: tuple[int, ...]) -> bool:
    """Return whether an operator is of a recurrent layer or of the module that calls one."""
    parent = tree.nodes[node].parent
    return any(
        layer <= node < tree.ends[layer] or parent == tree.nodes[layer].parent
        for layer in recurrent
    )


def _gain(
    share: float, found: time_share.TimeSpent, around: time_share.Host | Unknown, whole: float
) -> Gain:
    if not whole:
        return Gain("time", time_share.NO_TIMES, "the share of Python and of fusible operators")
    parts = f"fusible operators take {found.seconds_text}"
    if not isinstance(around, Unknown) and found.is_measured:
        parts += f", Python {duration(around.python)}"
    return Gain(
        "time",
        share,
        f"{parts} of {found.whole_text or duration(whole)}; compiled, they take next to no time",
        "estimated",
    )


def fusible(tree: Tree) -> tuple[int, ...]:
    """Return the pointwise operators with a pointwise producer, which a compiler fuses.

    Convolutions and matmuls are not: they stay library calls.
    """
    edges = graph(tree)
    pointwise = {
        i for i, node in enumerate(tree.nodes) if node.kind == "op" and op_type(node) in _POINTWISE
    }
    return tuple(
        node
        for node in sorted(pointwise)
        if any(writer in pointwise for writer in edges.writers.get(node, ()))
    )
