"""``compile``: Python overhead, and pointwise operators that a compiler fuses.

``torch.compile`` removes the Python between operators, and fuses a pointwise operator with its
producer, so that their intermediate tensor is never written to memory. Source: Ansel et al.,
PyTorch 2, ASPLOS 2024, section 5.

It skips functions that call ``nn.RNN``, ``LSTM`` or ``GRU`` (``torch._dynamo.config.allow_rnn`` is
off): nothing is gained inside of these layers, nor in what their caller runs itself.
"""

from msgspec import Struct

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities, time_share
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
    saved = _saved(found, around, has_fused=bool(fused))
    if not isinstance(saved, _Saved):
        return saved
    return Finding(
        kind="compile",
        title="compile the model",
        why=(
            "torch.compile removes Python overhead and fuses pointwise operators. The first call"
            " with each shape compiles and is slow; rounding changes."
        ),
        nodes=(0, *fused[:_MOST_NODES]),
        evidence=_evidence(tree, fused, len(recurrent), found, around),
        gains=(_gain(saved),),
    )


class _Saved(Struct, frozen=True):
    """Seconds of a forward that a compiler takes off it, those that are known."""

    fused: float | None
    """Of fusible operators; None where unknown."""
    python: float | None
    """None where unknown, and of minimum times: they are not times of a forward."""
    whole: float
    is_measured: bool

    @property
    def share(self) -> float:
        """Of the forward."""
        return time_share.share_of((self.fused or 0.0) + (self.python or 0.0), self.whole)


def _saved(
    found: time_share.TimeSpent | Unknown, around: time_share.Host | Unknown, *, has_fused: bool
) -> _Saved | Unknown | None:
    """Return what is saved; None where it is too little, or why that is not known.

    It is at least what is known of it: that decides where it is enough.
    """
    unknown: Unknown | None = None
    if isinstance(around, Unknown) and around is not time_share.BUSY_GPU:
        unknown = around
    if isinstance(found, Unknown):
        if has_fused:
            unknown = found
        if isinstance(around, Unknown):
            return unknown
        saved = _Saved(None, around.python, around.whole, True)
    elif found.is_measured and not isinstance(around, Unknown):
        saved = _Saved(found.seconds, around.python, around.whole, True)
    else:
        saved = _Saved(found.seconds, None, found.whole, found.is_measured)
    return saved if saved.share >= APPLIES_ABOVE else unknown


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


def _gain(saved: _Saved) -> Gain:
    about = "" if saved.is_measured else "~"
    parts = []
    if saved.fused is not None:
        parts.append(f"fusible operators take {about}{duration(saved.fused)}")
    if saved.python is not None:
        parts.append(f"Python {'' if parts else 'takes '}{duration(saved.python)}")
    formula = (
        f"{', '.join(parts)} of {about}{duration(saved.whole)}; compiled, they take next to no time"
    )
    return Gain("time", saved.share, formula, "estimated")


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
