"""``compile``: Python overhead, and pointwise operators that a compiler fuses.

``torch.compile`` removes the Python between operators, and fuses a pointwise operator with its
producer, so that their intermediate tensor is never written to memory. Source: Ansel et al.,
PyTorch 2, ASPLOS 2024, section 5.

1. At least: half of what fusible operators move, as a pair of them moves half of the bytes; and
   Python, less what remains per operator and module, and per entry into compiled code.
2. At most: all of both, half of the operators before, whose output is not written, and the overhead
   of the fused operators.

It skips functions that call ``nn.RNN``, ``LSTM`` or ``GRU`` (``torch._dynamo.config.allow_rnn`` is
off): nothing is gained inside of these layers, nor in what their caller runs itself.
"""

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.affected_operators import call_seconds, memory_roof
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.findings.execution.synchronise import READS_A_VALUE
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.bound import bytes_moved
from tui_profiler.queries.cost.breakdown import OpType, op_type
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.03
"""Of a forward."""
_MOST_NODES = 200
_KEPT_CALLS = 2
"""Operator overheads that remain per operator which is not fused: the call of a library, and the
buffer for its output."""
_ENTRY_CALLS = 50
"""Operator overheads per entry into compiled code, in guards and the code around the graph; a break
leaves it and enters it again, which is twice as much."""
_SKIPPED = "recurrent layers, which torch.compile skips with the function that calls them"
_RECURRENT = frozenset({"RNN", "LSTM", "GRU"})
_POINTWISE: frozenset[OpType] = frozenset({"activation", "elementwise", "norm", "reduction"})


@check(
    "compile",
    holds_in="both",
    reads=(quantities.TREE,),
    uses=(*quantities.TIME_OF_NODES, quantities.WINDOWS, quantities.REAL),
)
def compile_model(session: Session) -> Finding | Unknown | None:
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
    gain = _gain(session, tree, fused, found, around)
    if not isinstance(gain, Gain):
        return gain
    return Finding(
        kind="compile",
        title="compile the model",
        why=(
            "torch.compile removes Python overhead and fuses pointwise operators. The first call"
            " with each shape compiles and is slow; rounding changes."
        ),
        nodes=(0, *fused[:_MOST_NODES]),
        evidence=_evidence(tree, fused, len(recurrent), found, around),
        gains=(gain,),
    )


def _evidence(
    tree: Tree,
    fused: tuple[int, ...],
    recurrent: int,
    found: time_share.TimeSpent | Unknown,
    around: time_share.Host | Unknown,
) -> tuple[Evidence, ...]:
    python = around if isinstance(around, Unknown) else around.python
    breaks = len(operators(tree, READS_A_VALUE))
    return (
        Evidence("fusible operators", len(fused), "count", "derived"),
        *((_fused_evidence(found),) if fused else ()),
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


def _fused_evidence(found: time_share.TimeSpent | Unknown) -> Evidence:
    what = "their time per forward"
    if isinstance(found, Unknown):
        return Evidence(what, found, "s", "measured")
    return time_share.evidence(found, what)[0]


def _gain(
    session: Session,
    tree: Tree,
    fused: tuple[int, ...],
    found: time_share.TimeSpent | Unknown,
    around: time_share.Host | Unknown,
) -> Gain | Unknown | None:
    """Return what is saved; None where it is too little, or why that is not known.

    It is at least what is known of it: that decides where it is enough.
    """
    unknown: Unknown | None = None
    if isinstance(around, Unknown) and around is not time_share.BUSY_GPU:
        unknown = around
    if isinstance(found, Unknown) and fused:
        unknown = found
    is_timed = not isinstance(found, Unknown) and found.is_measured
    if not isinstance(around, Unknown) and (is_timed or not fused):
        gain = _of_both(session, tree, fused, found, around)
    elif isinstance(found, Unknown):
        return unknown
    else:  # Minimum times are not times of a forward: Python overhead is not added to them.
        text = f"fusible operators take {found.seconds_text} of {found.whole_text}; half to all"
        seconds = (found.seconds / 2, 0.75 * found.seconds, found.seconds)
        gain = time_share.ranged(found, seconds, text)
    if gain.most < APPLIES_ABOVE:
        return unknown
    return None if gain.may_lose or gain.likely < APPLIES_ABOVE else gain


def _of_both(
    session: Session,
    tree: Tree,
    fused: tuple[int, ...],
    found: time_share.TimeSpent | Unknown,
    around: time_share.Host,
) -> Gain:
    """Return what is saved of fusible operators and of Python."""
    call = call_seconds(session.ceilings) or 0.0
    seconds = 0.0 if isinstance(found, Unknown) else found.seconds
    calls = sum(tree.nodes[node].calls for node in fused)
    modules = sum(node.calls for node in tree.nodes if node.kind == "module")
    breaks = sum(tree.nodes[node].calls for node in operators(tree, READS_A_VALUE))
    left = _KEPT_CALLS * max(around.operators - calls, 0) + modules
    left += _ENTRY_CALLS * (1 + 2 * breaks)
    least = _moving_seconds(session, tree, fused, seconds) / 2 + around.least_python - left * call
    most = seconds + _producers_seconds(session, tree, fused) / 2 + around.most_python
    most += calls * call - _ENTRY_CALLS * 2 * breaks * call
    low, high = (min(one / around.whole, 1.0) for one in (least, most))
    text = (
        f"fusible operators take {duration(seconds)}, Python {duration(around.least_python)} to"
        f" {duration(around.most_python)} of {duration(around.whole)}; compiled, half of the bytes"
        f" of the former to all of them are saved, and of Python all but {duration(left * call)}"
    )
    return Gain("time", max((low + high) / 2, 0.0), text, "estimated", low=low, high=high)


def _moving_seconds(session: Session, tree: Tree, fused: tuple[int, ...], seconds: float) -> float:
    """Return the seconds of moving what fusible operators read and write: arithmetic stays."""
    if session.ceilings is None or memory_roof(session.ceilings) is None:
        return 0.0
    roofs, total = usable_roofs(session.ceilings), 0.0
    for node in fused:
        moved = bytes_moved(tree.costs[node])
        level = roofs.level(moved / max(tree.nodes[node].calls, 1))
        rate = level.bytes_per_second or level.at_least if level is not None else 0.0
        total += moved / rate if rate else 0.0
    return min(total, seconds)


def _producers_seconds(session: Session, tree: Tree, fused: tuple[int, ...]) -> float:
    """Return the seconds of the pointwise operators whose outputs are then not written."""
    edges, inside = graph(tree), set(fused)
    producers = {
        writer
        for node in fused
        for writer in edges.writers.get(node, ())
        if writer not in inside and op_type(tree.nodes[writer]) in _POINTWISE
    }
    found = time_share.spent(session, sorted(producers))
    return 0.0 if isinstance(found, Unknown) or not found.is_measured else found.seconds


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
