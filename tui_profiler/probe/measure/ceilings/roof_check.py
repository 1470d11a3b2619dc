"""Roofs held against what the model reaches: measured work cannot exceed a roof.

1. Only where the work is known for sure. Of products: leaf modules whose FLOPs are matrix products
   alone; a convolution may need fewer than are counted (zeros of its padding, Winograd on a GPU;
   ``roofs.py`` times those of a processor itself). Of bytes: leaf modules with next
   to no weights, as it is not known which level weights come from. Nothing where sizes depend on
   the data (routing to experts, boxes that are kept): traced work is then an upper bound.
2. The third highest rate is held against a roof, so that no single module sets it whose work or
   time is wrong. ``ceilings.raised`` says what follows.
3. Looked at once there are medians of ``LEAST_FORWARDS`` forwards, then every ``EVERY_SECONDS``.
"""

from collections.abc import Sequence

from tui_profiler.messages import Ceilings, Cost, Node, Tick
from tui_profiler.probe.measure.ceilings.ceilings import MEMORY, cache_name, raised

LEAST_FORWARDS = 50
EVERY_SECONDS = 10.0
LEAST_SECONDS = 20e-6
"""Of a module: the clock's own cost is a small part of it."""
_AT_RANK = 3
_LEAST_ACTIVATIONS = 100
"""Times the bytes of the weights."""
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear")


class RoofCheck:
    """Knows which modules of a tree may be held against which roof."""

    def __init__(
        self, nodes: Sequence[Node], costs: Sequence[Cost], bounded: Sequence[str] = ()
    ) -> None:
        """Take a tree, with the operators whose outputs have sizes that depend on the data."""
        self._nodes = nodes
        self._costs = costs
        self._products = {} if bounded else _product_dtypes(nodes, costs)
        self._movers = frozenset() if bounded else _movers(nodes, costs)
        self._next_at = 0.0

    def check(self, found: Ceilings, tick: Tick) -> Ceilings:
        """Return the roofs, with those raised or doubted that were exceeded; the same where none.

        Args:
            found: the roofs so far.
            tick: the newest.
        """
        if tick.forwards < LEAST_FORWARDS or tick.cold or not tick.as_traced:
            return found
        if tick.at < self._next_at:
            return found
        self._next_at = tick.at + EVERY_SECONDS
        for name, rates in self._rates(found, tick).items():
            if len(rates) >= _AT_RANK:
                rate, node = sorted(rates, reverse=True)[_AT_RANK - 1]
                others = f" and {_AT_RANK - 1} more modules"
                found = raised(found, name, rate, self._nodes[node].path + others)
        return found

    def _rates(self, found: Ceilings, tick: Tick) -> dict[str, list[tuple[float, int]]]:
        """Return by roof what each module reaches, and which one it is."""
        rates: dict[str, list[tuple[float, int]]] = {}
        nodes = memoryview(tick.nodes).cast("I")
        seconds = memoryview(tick.per_forward).cast("f")
        for node, spent in zip(nodes, seconds, strict=True):
            if node >= len(self._nodes) or not spent >= LEAST_SECONDS * self._nodes[node].calls:
                continue
            cost = self._costs[node]
            if node in self._products:
                rates.setdefault(self._products[node], []).append((cost.flops / spent, node))
            if node in self._movers:
                moved = _moved(cost)
                name = _level(found, moved / max(self._nodes[node].calls, 1))
                rates.setdefault(name, []).append((moved / spent, node))
        return rates


def _level(found: Ceilings, working_set: float) -> str:
    fits = (one for one in found.caches if working_set <= one.bytes)
    level = next(fits, None)
    return MEMORY if level is None else cache_name(level.level)


def _movers(nodes: Sequence[Node], costs: Sequence[Cost]) -> frozenset[int]:
    parents = {node.parent for node in nodes if node.kind == "module"}
    return frozenset(
        index
        for index, (node, cost) in enumerate(zip(nodes, costs, strict=True))
        if node.kind == "module"
        and index not in parents
        and not cost.uncosted
        and cost.input_bytes + cost.output_bytes > _LEAST_ACTIVATIONS * cost.weight_bytes
    )


def _product_dtypes(nodes: Sequence[Node], costs: Sequence[Cost]) -> dict[int, str]:
    """Return the dtype of each leaf module whose FLOPs are those of matrix products alone."""
    products: dict[int, int] = {}
    for node, cost in zip(nodes, costs, strict=True):
        if node.kind == "op" and node.name in _PRODUCTS:
            products[node.parent] = products.get(node.parent, 0) + cost.flops
    found = {}
    for index, flops in products.items():
        weights = [one for one in nodes[index].weights if not one.is_buffer]
        # A bias is added in the product itself.
        if weights and costs[index].flops and flops >= 0.99 * costs[index].flops:
            found[index] = weights[0].dtype
    return found


def _moved(cost: Cost) -> int:
    return cost.input_bytes + cost.weight_bytes + cost.output_bytes
