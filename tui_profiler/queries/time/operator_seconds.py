"""Seconds of operators in a usual forward, derived from operator windows.

1. A forward in an operator window is slower than others: of a window only shares are used. The
   operators of a module take the part of its mean self time that they took in the last window.
2. Among them that part is divided by their means over all windows. So the operators of a module
   never take more than the module.
3. Without times of modules inside of windows (older recordings) the means are used as they are, up
   to the self time.
4. An operator counts to the nearest module around it that is timed: of what is inside of an opaque
   module, that is the opaque one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Operators, Timings, Windows

NO_MODULE = -1
"""In place of a module, where none around an operator is timed."""


class OperatorSeconds:
    """Seconds per forward of every operator of one tick."""

    def __init__(
        self, tree: Tree, timings: Timings | None, operators: Operators, windows: Windows | None
    ) -> None:
        self._tree, self._timings, self._operators = tree, timings, operators
        self._windows = windows
        packed = timings.tick.nodes if timings is not None else b""
        self._modules = modules_around(tree, packed, operators.times.nodes)
        self._means, self._last = _sums(operators, tree, packed)
        self._scales: dict[int, float] = {}

    def of(self, node: int) -> float | None:
        """Return the mean seconds of a forward in an operator; None where no window met it."""
        mean = self._operators.mean_per_forward(node)
        return None if mean is None else mean * self._scale(node)

    def own(self, node: int) -> float | None:
        """Return the mean self time of an operator, without the operators that it calls."""
        mean = self._operators.own_per_forward(node)
        return None if mean is None else mean * self._scale(node)

    def module(self, node: int) -> int:
        """Return the module whose self time an operator is a part of, or ``NO_MODULE``."""
        return self._modules.get(node, NO_MODULE)

    def _scale(self, node: int) -> float:
        module = self.module(node)
        if module not in self._scales:
            self._scales[module] = self._scale_in(module)
        return self._scales[module]

    def _scale_in(self, module: int) -> float:
        """Return the time of operators in a usual forward over their mean in windows. Rule 1."""
        own = self._timings.own_per_forward(module) if self._timings is not None else None
        means = self._means.get(module, 0.0)
        if own is None or means <= 0.0:
            return 1.0
        in_window = self._own_in_window(module)
        if in_window > 0.0:
            return min(self._last.get(module, 0.0) / in_window, 1.0) * own / means
        return min(own / means, 1.0)

    def _own_in_window(self, module: int) -> float:
        """Return a module's self time in the last window; 0 where it is not known."""
        windows = self._windows
        shares = windows.shares(module) if windows is not None else None
        if windows is None or shares is None:
            return 0.0
        called = modules_called_in(self._tree, windows, module)
        inside = (windows.shares(child) for child in called)
        return shares.seconds - sum(each.seconds for each in inside if each is not None)


def operator_seconds(session: Session) -> OperatorSeconds | None:
    """Return the seconds of operators; None where there are none of forwards as traced."""
    tree, operators = session.tree, session.operators
    if tree is None or operators is None or not times_fit_costs(session):
        return None
    return _cached(tree, session.timings, operators, session.windows)


@lru_cache(maxsize=2)
def _cached(
    tree: Tree, timings: Timings | None, operators: Operators, windows: Windows | None
) -> OperatorSeconds:
    return OperatorSeconds(tree, timings, operators, windows)


@lru_cache(maxsize=2)
def modules_around(tree: Tree, timed: bytes, operators: bytes) -> Mapping[int, int]:
    """Return the nearest timed module around every operator, by operator.

    Args:
        tree: that both are nodes of.
        timed: packed indexes of the timed modules.
        operators: packed indexes of the operators.
    """
    modules = frozenset(memoryview(timed).cast("I"))
    around: dict[int, int] = {}
    for operator in memoryview(operators).cast("I"):
        if operator < len(tree):
            inside = (above for above in tree.ancestors(operator) if above in modules)
            around[operator] = next(inside, NO_MODULE)
    return around


@lru_cache(maxsize=2)
def _sums(
    operators: Operators, tree: Tree, timed: bytes
) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """Return the seconds of all operators in each module: their means, and in the last window."""
    means: dict[int, float] = {}
    last: dict[int, float] = {}
    for operator, module in modules_around(tree, timed, operators.times.nodes).items():
        means[module] = means.get(module, 0.0) + (operators.mean_per_forward(operator) or 0.0)
        if operators.calls(operator):
            last[module] = last.get(module, 0.0) + (operators.last(operator) or 0.0)
    return means, last


def modules_called_in(tree: Tree, windows: Windows, node: int) -> list[int]:
    """Return the nearest modules below that the window saw: a ModuleList is never called."""
    called: list[int] = []
    pending = tree.modules_in(node)
    while pending:
        child = pending.pop()
        if windows.shares(child) is not None:
            called.append(child)
        else:
            pending += tree.modules_in(child)
    return called
