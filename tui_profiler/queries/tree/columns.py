"""The columns that a tree can have: what each is called, says, and shows of a node."""

from math import prod
from typing import Literal, TypeAlias, get_args

from tui_profiler.figures.units import shape
from tui_profiler.messages import Node, Tensor, Unknown, known
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound_classes import KINDS, LEGEND
from tui_profiler.queries.cost.energy import node_energy
from tui_profiler.queries.time.base import base, share
from tui_profiler.queries.time.node_seconds import cpu_seconds, node_seconds
from tui_profiler.queries.time.operator_seconds import operator_seconds
from tui_profiler.queries.time.repeated_siblings import Steps, members
from tui_profiler.queries.time.step_seconds import step_forward, timed_backward
from tui_profiler.queries.training.backward_bound import backward_bound, backward_mixes
from tui_profiler.queries.training.step_costs import gradient_bytes
from tui_profiler.session import Session

ColumnName: TypeAlias = Literal[
    "params",
    "macs",
    "flops",
    "bytes",
    "intensity",
    "activations",
    "in",
    "out",
    "seconds",
    "self",
    "cpu",
    "mean",
    "p95",
    "calls",
    "share",
    "bar",
    "bound",
    "energy",
    "forward",
    "backward",
    "recompute",
    "step",
    "backward_bound",
    "gradients",
]
COLUMN_NAMES: tuple[ColumnName, ...] = get_args(ColumnName)
WITHOUT_FORWARD: tuple[ColumnName, ...] = ("params", "bytes", "share", "bar")
"""What parameters alone have."""
MEASURED: tuple[ColumnName, ...] = ("seconds", "self", "cpu", "mean", "p95")
"""What comes with the first times."""
OF_A_STEP: tuple[ColumnName, ...] = (
    *("forward", "backward", "recompute", "step", "backward_bound", "gradients"),
)
"""What only training has."""
SHAPES: tuple[ColumnName, ...] = ("in", "out")
"""Text; their figures are elements."""
_NOT_ADDED: tuple[ColumnName, ...] = (
    *("intensity", "in", "out", "mean", "p95", "bound", "backward_bound"),
)
DEFAULT: tuple[ColumnName, ...] = ("params", "macs", "seconds", "share", "bar", "bound")
"""At 120 columns; where none are chosen, the tree takes those that its width has room for."""
COLUMN_WORDS: dict[ColumnName, tuple[str, str]] = {
    "params": ("params", "parameters (shared ones counted once)"),
    "macs": ("MAC", "multiply-accumulates per forward"),
    "flops": ("FLOP", "2 × MAC and all other arithmetic"),
    "bytes": ("B", "bytes read and written"),
    "intensity": ("F/B", "FLOP per byte"),
    "activations": ("act", "bytes that its operators write"),
    "in": ("in", "shape of the first input, and how many more there are"),
    "out": ("out", "shape of the first output"),
    "seconds": ("ms", "mean time per forward"),
    "self": ("self", "mean self time per forward"),
    "cpu": ("cpu", "mean CPU time of the thread per forward"),
    "mean": ("call", "mean time of one call"),
    "p95": ("p95", "p95 of one call"),
    "calls": ("calls", "calls per forward"),
    "share": ("%", "share of the step or forward"),
    "bar": ("bar", "share, in the colours of the bound"),
    "bound": ("bound", LEGEND),
    "energy": ("energy", "energy of a forward (~ estimated)"),
    "forward": ("fwd", "forwards, mean time per training step"),
    "backward": ("bwd", "backward, mean time per training step"),
    "recompute": ("again", "recomputed by checkpointing, per training step"),
    "step": ("step%", "share of the training step"),
    "backward_bound": ("bbound", "bound of the backward: C, M, O, U, W"),
    "gradients": ("grad B", "bytes of the gradients of its parameters"),
}
"""Heading, and what the figures are."""


def figure(session: Session, node: int, column: ColumnName) -> float | None:
    """Return what a column says of a node, None where it says nothing.

    Seconds, bytes, joules; the share of 0 to 1; of the bound its place among ``KINDS``.
    """
    tree = session.tree
    assert tree is not None
    cost = tree.costs[node]
    if not tree.has_forward and column not in WITHOUT_FORWARD:
        return None
    match column:
        case "params":
            return cost.parameters
        case "macs":
            return bound.known_macs(cost)
        case "flops":
            return bound.known_flops(cost)
        case "bytes":
            return bound.known_bytes(cost) if tree.has_forward else cost.parameter_bytes
        case "intensity":
            return bound.intensity(cost)
        case "activations":
            return cost.output_bytes
        case "in" | "out":
            found_in = tensors(tree.nodes[node], column)
            return prod(found_in[0].shape) if found_in else None
        case "calls":
            return tree.nodes[node].calls
        case "share" | "bar":
            return share(session, node)
        case "energy":
            found = node_energy(session, node)
            return None if isinstance(found, Unknown) else found.joules
        case "step":
            return share(session, node) if base(session).name == "step" else None
        case "forward":
            return step_forward(session, node)
        case "backward" | "recompute":
            return _of_step(session, node, column)
        case "gradients":
            return gradient_bytes(session, node)
        case "backward_bound":
            of_backward = backward_bound(session, node)
            return None if of_backward is None else KINDS.index(of_backward.kind)
        case "bound":
            kind = bound.bound(session, node)
            return None if kind is None else KINDS.index(kind.kind)
        case _:
            return _time(session, node, column)


def tensors(node: Node, column: ColumnName) -> tuple[Tensor, ...]:
    """Return what went into the first call of a node, or came out."""
    return node.inputs if column == "in" else node.outputs


def shape_text(node: Node, column: ColumnName) -> str:
    """Return the shape of the first tensor that went in or came out: ``1×3×224×224``, ``8×10 +1``.

    Empty where there is none.
    """
    found = tensors(node, column)
    if not found:
        return ""
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    return f"{shape(found[0].shape)}{more}"


def summed_figure(session: Session, node: int, column: ColumnName, steps: Steps) -> float | None:
    """Return what a column says of all nodes that a row sums over, None where it says nothing.

    Args:
        session: whose figures are given.
        node: the first of them.
        column: its figures add up but for intensities, means, percentiles and bounds.
        steps: the runs that the node lies in; none for the node alone.
    """
    if not steps:
        return figure(session, node, column)
    if column in _NOT_ADDED:
        return None
    total = 0.0
    for each in members(node, steps):
        found = figure(session, each, column)
        if found is None:
            return None
        total += found
    return total


def step_columns(session: Session) -> frozenset[ColumnName]:
    """Return the columns of a training step that have figures."""
    if session.training is None or isinstance(session.training.step.seconds, Unknown):
        return frozenset()
    step = session.training.step
    found: set[ColumnName] = {"forward"}
    if base(session).name == "step":
        found.add("step")
    if timed_backward(session, 0) is not None:
        found.add("backward")
        if known(step.recompute):
            found.add("recompute")
    if gradient_bytes(session, 0) is not None:
        found.add("gradients")
    if backward_mixes(session) is not None:
        found.add("backward_bound")
    return frozenset(found)


def _of_step(session: Session, node: int, column: ColumnName) -> float | None:
    found = timed_backward(session, node)
    if found is None:
        return None
    return found.backward if column == "backward" else known(found.recomputed)


def _time(session: Session, node: int, column: ColumnName) -> float | None:
    if column == "seconds":
        return node_seconds(session, node)
    if column == "cpu":
        return cpu_seconds(session, node)
    timings, tree = session.timings, session.tree
    if tree is not None and tree.nodes[node].kind == "op":
        operators = operator_seconds(session) if column == "self" else None
        return operators.own(node) if operators is not None else None
    if timings is None:
        return None
    if column == "self":
        return timings.own_per_forward(node)
    timing = timings.of(node)
    if timing is None:
        return None
    return timing.mean if column == "mean" else timing.p95
