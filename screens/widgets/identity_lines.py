"""The first sections of a node's panel: which node it is, its tensors, and its work on paper."""

from tui_profiler.figures.units import (
    UNAVAILABLE,
    ZERO,
    count,
    dtype,
    quantity,
    shape,
    size,
    thousands,
)
from tui_profiler.figures.units import intensity as intensity_text
from tui_profiler.formatting.text import middle, safe, width
from tui_profiler.messages import NO_FORWARD, Cost, Node, Tensor, Unknown, Weight
from tui_profiler.queries.cost import bound, exactness
from tui_profiler.queries.cost.totals import frozen, trainable
from tui_profiler.queries.tree.names import fitted
from tui_profiler.session import Bounded, Tree

from .bound_lines import verdict
from .lines import EMPTY, Line, line_width
from .rows import LABEL, Look, absent, columns, pending, row

MOST_TENSORS = 3


def identity_lines(look: Look) -> tuple[Line, ...]:
    """Return path and class, then type and settings."""
    tree = look.tree
    if tree is None:
        return _unknown(look)
    node = tree.nodes[look.node]
    right = verdict(bound.bound(look.session, look.node), look)
    room = max(look.inner - line_width(right) - 1, 8)
    path = fitted(title_of(tree, look.node), room, look.glyphs.ellipsis)
    note = (row(((safe(node.note), "muted"),), EMPTY, look),) if node.note else ()
    return (
        row(((path, "strong ink"),), right, look),
        row(((detail_of(tree, look.node), "muted"),), EMPTY, look),
        *note,
    )


def title_of(tree: Tree, index: int) -> str:
    """Return what a node is called: its path, an operator's name, the root's own name."""
    node = tree.nodes[index]
    return safe(node.name) if node.kind == "op" or not node.path else safe(node.path)


def detail_of(tree: Tree, index: int) -> str:
    """Return a node's type and settings in a few words."""
    node = tree.nodes[index]
    words = f"{safe(node.type)} {safe(node.detail)}".strip()
    if node.kind == "op" and node.parent >= 0:
        return f"{words}, in {title_of(tree, node.parent)}"
    return words


def _unknown(look: Look) -> tuple[Line, ...]:
    arriving = look.session.arriving
    if arriving is not None:
        reason = f"{thousands(len(arriving.nodes))} of {thousands(arriving.expected)} nodes"
    else:
        reason = "after the trace"
    return pending("node", reason, look)


def tensor_lines(look: Look) -> tuple[Line, ...]:
    """Return what goes in and comes out, and the weights, one row each."""
    tree = look.tree
    if tree is None:
        return ()
    node, cost = tree.nodes[look.node], tree.costs[look.node]
    if not tree.has_forward:
        return _weights(node, cost, look)
    return (
        *_tensors("in", node.inputs, look),
        *_tensors("out", node.outputs, look),
        *_weights(node, cost, look),
    )


def _tensors(label: str, tensors: tuple[Tensor, ...], look: Look) -> tuple[Line, ...]:
    if not tensors:
        return (row(((label.ljust(LABEL), "muted"), ("no tensor", "faint")), EMPTY, look),)
    shown = [_tensor(label, t.shape, t.dtype, t.bytes, look) for t in tensors[:MOST_TENSORS]]
    return (*shown, *_more(len(tensors) - MOST_TENSORS, look))


def _weights(node: Node, cost: Cost, look: Look) -> tuple[Line, ...]:
    own = node.weights
    if own:
        shown = [_weight(weight, look) for weight in own[:MOST_TENSORS]]
        return (*shown, *_more(len(own) - MOST_TENSORS, look), *_frozen(cost, look))
    if not cost.parameters:
        return ()
    left: Line = (
        ("params".ljust(LABEL), "muted"),
        (count(cost.parameters), "ink"),
        (" read" if node.kind == "op" else " in its modules", "muted"),
    )
    return (row(left, ((size(cost.parameter_bytes), "ink"),), look), *_frozen(cost, look))


def _frozen(cost: Cost, look: Look) -> tuple[Line, ...]:
    """Return how many parameters are trainable and how many frozen, where some are frozen."""
    found, rest = trainable(cost), frozen(cost)
    if isinstance(found, Unknown) or isinstance(rest, Unknown) or not rest:
        return ()
    figures: Line = (
        (" " * LABEL, "muted"),
        (count(found), "ink"),
        (" trainable  ", "muted"),
        (count(rest), "ink"),
        (" frozen", "muted"),
    )
    return (row(figures, EMPTY, look),)


def _weight(weight: Weight, look: Look) -> Line:
    label = middle(safe(weight.name), LABEL - 1, look.glyphs.ellipsis)
    return _tensor(label, weight.shape, weight.dtype, weight.bytes, look)


def _tensor(label: str, axes: tuple[int, ...], kind: str, number: int, look: Look) -> Line:
    # Nearly every tensor is float32: only another type is worth its cells.
    type_name = "" if kind == "float32" else f" {dtype(safe(kind))}"
    label += " " * max(LABEL - width(label), 0)
    left: Line = ((label, "muted"), (shape(axes), "ink"), (type_name, "muted"))
    return row(left, ((size(number), "ink"),), look)


def _more(number: int, look: Look) -> tuple[Line, ...]:
    if number <= 0:
        return ()
    return (row(((" " * LABEL + f"{thousands(number)} more", "faint"),), EMPTY, look),)


def work_lines(look: Look) -> tuple[Line, ...]:
    """Return MACs, FLOPs and intensity; a lower bound says so."""
    tree = look.tree
    if tree is None:
        return ()
    if not tree.has_forward:
        return absent("work", NO_FORWARD, look)
    cost = tree.costs[look.node]
    bounded = tree.bounded.get(look.node)
    figures: list[Line] = [(("work".ljust(LABEL), "muted"), *macs(cost, bounded))]
    figures.append((("  ", "ink"), *flops(cost, bounded)))
    lines = (columns(figures, per_byte(cost, bounded), look), *_memory(look))
    if not cost.uncosted:
        return lines
    missing = f"{thousands(cost.uncosted)} of {thousands(cost.ops)} operators have no formula"
    return (*lines, row(((" " * LABEL + missing, "muted"),), EMPTY, look))


def _memory(look: Look) -> tuple[Line, ...]:
    """Return what a module's calls allocated, where that was measured."""
    window = look.session.memory_window
    allocated = window.allocated(look.node) if window is not None else None
    peak = window.peak(look.node) if window is not None else None
    if allocated is None or peak is None:
        return ()
    left: Line = (
        ("alloc".ljust(LABEL), "muted"),
        (size(allocated), "ink"),
        ("  peak ", "muted"),
        (size(peak), "ink"),
    )
    return (row(left, (("measured", "muted"),), look),)


def macs(cost: Cost, bounded: Bounded | None) -> Line:
    """Return multiply-accumulates with their unit; marked where they depend on the data."""
    return _figure(bound.known_macs(cost), "MAC", _before(exactness.of_count(bounded)))


def flops(cost: Cost, bounded: Bounded | None) -> Line:
    """Return FLOPs with their unit; marked if operators without formula make it a lower bound."""
    reading = exactness.of_flops(bounded, is_at_least=bound.is_at_least(cost))
    return _figure(bound.known_flops(cost), "FLOP", _before(reading))


def per_byte(cost: Cost, bounded: Bounded | None) -> Line:
    """Return the intensity with its unit, marked likewise; empty where nothing is moved."""
    ratio = bound.intensity(cost)
    if ratio is None:
        return EMPTY
    reading = exactness.of_intensity(bounded, is_at_least=bound.is_at_least(cost))
    return ((_before(reading) + intensity_text(ratio), "ink"), (" FLOP/B", "muted"))


def moved(cost: Cost, bounded: Bounded | None) -> str:
    """Return the bytes that its operators move, marked where they depend on the data."""
    return _before(exactness.of_count(bounded)) + size(bound.bytes_moved(cost))


def _before(reading: exactness.Reading) -> str:
    return f"{exactness.SIGNS[reading]} " if reading else ""


def _figure(value: int | None, unit: str, before: str) -> Line:
    if value is None:
        return ((UNAVAILABLE, "faint"), (f" {unit}", "muted"))
    if not value:
        return ((ZERO, "faint"), (f" {unit}", "muted"))
    figure, _, prefixed = quantity(value, unit).partition(" ")
    return ((before + figure, "ink"), (f" {prefixed}", "muted"))
