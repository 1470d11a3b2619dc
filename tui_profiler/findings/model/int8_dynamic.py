"""``int8-dynamic``: linear and recurrent layers with int8 weights, dynamic activations.

What a layer saves follows from figures of this machine: weights are a quarter of the bytes, from
the level of memory that holds them then, and products are as many times as fast as they were
measured to be. What it costs is measured as well: each call quantises its input, and a recurrent
layer, whose steps are one operator in float32, runs its operators one by one. Where the costs may
exceed what is saved, the change is not advised.

1. At least: what the roofs do not explain of a layer's time stays; and the layer is no faster than
   large products are, or than a quarter of its time.
2. At most: the layer reaches its roof in int8, and weights that are twice as large as a cache are
   half kept there.
"""

from math import prod

from msgspec import Struct

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.affected_operators import (
    ROOF_DOUBT,
    Part,
    call_seconds,
    compute_roof,
    matrix_parts,
    memory_roof,
)
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.evidence.memory import memory_gain
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.bound import own_dependence
from tui_profiler.queries.cost.breakdown import OpType, op_type
from tui_profiler.queries.cost.ceilings import MEMORY, OPERATOR, Level, UsableRoofs, usable_roofs
from tui_profiler.session import Session, Tree

_LAYERS: frozenset[OpType] = frozenset({"Linear", "recurrent"})
_KEPT = 0.25
"""Of the bytes of weights: 8 bits of 32."""
_INPUT_READS = 2.25
"""Times that the bytes of an input are moved: read for its range, read to quantise it, and a
quarter of them written."""
_CELL_OPERATORS = 10
"""Pointwise operators of one step of a quantised LSTM (``aten/src/ATen/native/RNN.cpp``)."""


class _Machine(Struct, frozen=True):
    """Figures of this machine that the prediction needs."""

    roofs: UsableRoofs
    compute: float
    call: float
    """Least seconds of one operator."""
    more: float
    """Seconds that a quantised linear operator takes longer, on next to no data."""
    speedup: float
    """Of large products."""


class _Layer(Struct, frozen=True):
    """Seconds of a layer, in one forward."""

    now: float
    most: float
    """With int8, at most."""
    least: float
    """With int8, at least."""
    costs: float
    """Of the additional operators, in both."""


@check(
    "int8-dynamic",
    holds_in="inference",
    reads=(
        quantities.TREE,
        quantities.KERNELS,
        quantities.COMPUTE_ROOF,
        quantities.MEMORY_ROOF,
        quantities.OPERATOR_ROOF,
    ),
    uses=(quantities.TIMES, quantities.OPERATORS, quantities.PEAK),
)
def int8_dynamic(session: Session) -> Finding | Unknown | None:
    """Find linear and recurrent layers in float32 on a CPU that are faster in int8."""
    tree = session.tree
    if tree is None or session.model is None or session.model.device != "cpu":
        return None
    parts = tuple(
        part
        for part in matrix_parts(session, tree, _LAYERS)
        if tree.nodes[part.node].kind == "module" and _weight_bytes(tree, part.node)
    )
    nodes = tuple(part.node for part in parts)
    machine, spent = _machine(session), time_share.spent(session, nodes)
    if not nodes:
        return None
    if isinstance(machine, Unknown):
        return machine
    if isinstance(spent, Unknown):
        return spent
    layers = [_layer(tree, part, machine) for part in parts]
    if sum(one.now - one.most for one in layers) <= 0:
        return None
    gain = _time(layers, spent)
    weights = sum(_weight_bytes(tree, node) for node in nodes)
    formula = f"three quarters of {size(weights)} of weights"
    if any(own_dependence(tree, node) == "at most" for node in nodes):
        gain = Gain("time", gain.most, gain.formula, "estimated", is_bound=True)
    return Finding(
        kind="int8-dynamic",
        title=f"quantise {counted(len(nodes), _layers(tree, nodes))} to int8",
        why=(
            "int8 weights are a quarter of the bytes that every forward reads. Activations are"
            " quantised on the fly, which costs time, and outputs lose precision."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("linear and recurrent layers in float32", len(nodes), "count", "derived"),
            Evidence("bytes of their weights", weights, "B", "derived"),
            *time_share.evidence(spent),
            Evidence("int8 vs float32, large products", machine.speedup, "times", "measured"),
            Evidence("quantising, per call at least", machine.more, "s", "measured"),
        ),
        gains=(gain, memory_gain(tree, weights * (1 - _KEPT), formula, "estimated")),
    )


def _layers(tree: Tree, nodes: tuple[int, ...]) -> str:
    kinds = [tree.nodes[node].type.endswith(("RNN", "LSTM", "GRU", "Cell")) for node in nodes]
    return "recurrent layer" if all(kinds) else "layer" if any(kinds) else "linear layer"


def _weight_bytes(tree: Tree, node: int) -> int:
    weights = tree.nodes[node].weights
    wide = (one for one in weights if not one.is_buffer and one.dtype == "float32")
    return sum(one.bytes for one in wide if len(one.shape) > 1)


def _machine(session: Session) -> _Machine | Unknown:
    """Return the figures of the machine, or why one is not known."""
    ceilings = session.ceilings
    kernels = ceilings.kernels if ceilings is not None else None
    if ceilings is None or kernels is None:
        return Unknown("the cost of int8 kernels was not measured")
    compute, call = compute_roof(ceilings, "float32"), call_seconds(ceilings)
    more, speedup = kernels.int8_call_seconds, kernels.int8_speedup
    if isinstance(more, Unknown) or isinstance(speedup, Unknown):
        return more if isinstance(more, Unknown) else Unknown("int8 products were not measured")
    if compute is None or call is None or memory_roof(ceilings) is None:
        roofs = usable_roofs(ceilings)
        name = "float32" if compute is None else OPERATOR if call is None else MEMORY
        return Unknown(roofs.sentence(name))
    return _Machine(usable_roofs(ceilings), compute, call, more, speedup)


def _layer(tree: Tree, part: Part, machine: _Machine) -> _Layer:
    cost = tree.costs[part.node]
    calls, reads, quantised, pointwise = _calls(tree, part)
    weights, every = _weight_bytes(tree, part.node), tree.costs[0].parameter_bytes
    others = max(every - weights, 0)
    products = cost.flops / machine.compute

    def moving(activations: float, read: float, kept: float) -> float:
        """Return the seconds of reading weights of which a level keeps ``kept`` bytes."""
        level = machine.roofs.level(activations / calls)
        weight_level = machine.roofs.level(kept)
        return activations / _rate(level) + read / _rate(weight_level)

    activations = cost.input_bytes + cost.output_bytes
    work = max(products, moving(activations, weights * reads, weights + others))
    work += calls * machine.call
    now = work if part.seconds is None else part.seconds
    rest = max(now - work, 0.0)
    activations = cost.output_bytes + int(_INPUT_READS * cost.input_bytes)
    narrow, costs = weights * _KEPT, quantised * machine.more + pointwise * machine.call

    def then(kept: float) -> float:
        read = moving(activations, narrow * reads, kept)
        return max(products / machine.speedup, read) + calls * machine.call

    strict, partly = then(narrow + others), then((narrow + others) / 2)
    # No more than products or bytes shrink, however near to its roof the layer is.
    slowest = max(rest + strict, now * max(_KEPT, 1 / machine.speedup))
    return _Layer(now, slowest + costs, partly / ROOF_DOUBT + costs, costs)


def _rate(level: Level | None) -> float:
    """Return what a level surely moves, in bytes per second."""
    assert level is not None
    return level.bytes_per_second or level.at_least


def _calls(tree: Tree, part: Part) -> tuple[int, int, int, int]:
    """Return calls of a layer, readings of its weights, and quantised and pointwise operators."""
    operators = [tree.nodes[node] for node in part.operators]
    calls = max(sum(node.calls for node in operators), 1)
    recurrent = [node for node in operators if op_type(node) == "recurrent"]
    if not recurrent:
        return calls, calls, calls, 0
    weights = [one for one in tree.nodes[part.node].weights if len(one.shape) > 1]
    values = sum(prod(one.shape) for one in weights)
    rows = tree.costs[part.node].macs / values if values else 0.0
    states = [one.shape for node in recurrent for one in node.inputs[1:] if len(one.shape) == 3]
    batch = next((shape[1] for shape in states), 1)
    steps = max(round(rows / max(batch, 1)), 1)
    # Of the two matrices of a layer and direction one is applied to all steps at once.
    cells = steps * max(len(weights) // 2, 1)
    return calls, steps, cells, cells * _CELL_OPERATORS


def _time(layers: list[_Layer], spent: time_share.TimeSpent) -> Gain:
    now = sum(one.now for one in layers)
    low, high = now - sum(one.most for one in layers), now - sum(one.least for one in layers)
    costs = sum(one.costs for one in layers)
    formula = (
        f"int8 saves {duration(max(low, 0.0))} to {duration(max(high, 0.0))} of {spent.whole_text},"
        f" quantising activations ({duration(costs)}) taken off"
    )
    return time_share.ranged(spent, (low, (low + high) / 2, high), formula)
