"""Energy from published coefficients, where no counter can be read: an interval, never a measure.

Source: M. Horowitz, "1.1 Computing's energy problem (and what we can do about it)", ISSCC 2014,
pages 10-14, figure 1.1.9: rough costs of operations in a 45 nm process at 0.9 V.

1. A multiply-add is one multiplication and one addition; every other FLOP counts as an addition.
2. The lower end takes each byte from a cache of 1 MB (100 pJ for 64 bits), the upper one from DRAM
   (2.6 nJ for 64 bits).
3. Instructions, leakage, power supply and cooling are not in it, and processors of today need less
   for an operation: it ranks layers, and is no measure of this machine.
"""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.messages import Cost, Unknown
from tui_profiler.queries.cost import bound
from tui_profiler.session import Session, Tree

SOURCE = "Horowitz, ISSCC 2014, 45 nm at 0.9 V"
_PICO = 1e-12
_MULTIPLY_ADD: dict[str, tuple[float, float]] = {
    "float32": (3.7, 0.9),
    "float16": (1.1, 0.4),
}
"""Picojoules of a multiplication and of an addition."""
CACHE_BYTE_PICOJOULES = 100 / 8
DRAM_BYTE_PICOJOULES = 2600 / 8


class PaperEnergy(Struct, frozen=True):
    """Joules of one forward in a node, estimated."""

    low: float
    high: float
    source: str = SOURCE


def energy_on_paper(session: Session, node: int) -> PaperEnergy | Unknown:
    """Return the joules of a node and of all modules inside it."""
    tree = session.tree
    if tree is None or not tree.has_forward:
        return Unknown("there is no forward to estimate")
    if not bound.is_counted(tree.costs[node]):
        return Unknown(bound.why_not_counted(tree))
    low = high = 0.0
    for inside in range(node, tree.ends[node]):
        is_own = tree.nodes[inside].kind == "module" or inside == node
        if not is_own:
            continue
        found = _own(tree, inside)
        if isinstance(found, Unknown):
            return found
        low, high = low + found[0], high + found[1]
    return PaperEnergy(low, high)


def _own(tree: Tree, node: int) -> tuple[float, float] | Unknown:
    cost = bound.own_cost(tree, node)
    if not cost.ops:
        return 0.0, 0.0
    name = bound.node_dtype(tree, node)
    coefficients = _MULTIPLY_ADD.get(name)
    if coefficients is None:
        return Unknown(f"no published coefficient for {name}")
    arithmetic = _arithmetic(cost, *coefficients)
    moved = bound.bytes_moved(cost)
    return (
        (arithmetic + moved * CACHE_BYTE_PICOJOULES) * _PICO,
        (arithmetic + moved * DRAM_BYTE_PICOJOULES) * _PICO,
    )


def _arithmetic(cost: Cost, multiply: float, add: float) -> float:
    others = max(cost.flops - 2 * cost.macs, 0)
    return cost.macs * (multiply + add) + others * add
