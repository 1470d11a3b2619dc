"""The shape of a forward: which calls, nested how, belonging to which nodes.

Nearly every forward has the shape of one before it. So calls are resolved once, and what is
measured is arithmetic on whole matrices afterwards.

A call is inside another if it began later and ended sooner. Calls arrive in the order in which
they ended; with the order in which they began, that says everything: no two shapes share both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import is_

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tui_profiler.probe.measure.clock.tree_index import NOWHERE, TreeIndex

Integers = NDArray[np.intp]
Floats = NDArray[np.float64]

PATTERNS = 64
"""Kept at most; a model whose every forward is different is resolved every time."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """One shape. A *call* is one that has a node; calls are sorted by node, then by end."""

    modules: list[nn.Module]
    """Of every event, in the order of the ends."""
    began: Integers
    """Events in the order of their beginnings."""
    calls: Integers
    """Event of each call."""
    nested: Integers
    """Calls that are inside another, sorted by ``callers``."""
    callers: Integers
    """Calls that have others directly inside, ascending; what has no node is looked through."""
    nested_first: Integers
    """Where in ``nested`` each of ``callers`` begins."""
    inner: Integers
    """Calls inside another call of the same node."""
    nodes: Integers
    """Distinct nodes, ascending."""
    first: Integers
    """Where in ``calls`` each of ``nodes`` begins."""
    counts: Integers
    """Calls of each of ``nodes``."""
    groups: list[tuple[Integers, Integers]]
    """Nodes called equally often: (nodes,) places in ``nodes``, and (nodes, calls) places in
    ``calls``."""
    unseen: dict[str, int]
    """Events without a node, by path."""

    def matches(self, starts: Floats) -> NDArray[np.bool_]:
        """Say which forwards are nested like this one.

        Args:
            starts: (forwards, events) seconds.
        """
        in_order = starts[:, self.began]
        fits: NDArray[np.bool_] = np.all(in_order[:, 1:] >= in_order[:, :-1], axis=1)
        return fits


class Patterns:
    """The shapes met lately."""

    def __init__(self, index: TreeIndex) -> None:
        self._index = index
        self._by_length: dict[int, list[Pattern]] = {}
        self._used: set[int] = set()
        self._count = 0

    def like(self, modules: Sequence[nn.Module]) -> Iterator[Pattern]:
        """Yield the patterns with these calls; how they are nested is for the caller to ask."""
        for pattern in self._by_length.get(len(modules), ()):
            # The clock mostly gives one list again and again. By identity, because a user's module
            # may define equality as it likes.
            same = modules is pattern.modules
            if same or all(map(is_, modules, pattern.modules)):
                self._used.add(id(pattern))
                yield pattern

    def learn(self, modules: list[nn.Module], starts: Floats) -> Pattern:
        """Resolve a forward that is like none before.

        Args:
            modules: of each event, in the order of the ends.
            starts: (events,) seconds.
        """
        pattern = resolve(modules, starts, self._index)
        if self._count >= PATTERNS:
            self._by_length.clear()
            self._count = 0
        self._by_length.setdefault(len(modules), []).append(pattern)
        self._count += 1
        self._used.add(id(pattern))
        return pattern

    def forget(self) -> None:
        """Drop all of them."""
        self._by_length.clear()
        self._used.clear()
        self._count = 0

    def forget_unused(self) -> None:
        """Drop what was not met since the last time: a pattern keeps its modules alive."""
        for length, patterns in list(self._by_length.items()):
            kept = [pattern for pattern in patterns if id(pattern) in self._used]
            if kept:
                self._by_length[length] = kept
            else:
                del self._by_length[length]
        self._count = sum(map(len, self._by_length.values()))
        self._used.clear()


def resolve(modules: list[nn.Module], starts: Floats, index: TreeIndex) -> Pattern:
    """Find the node of every call of one forward.

    Args:
        modules: of each event, in the order of the ends.
        starts: (events,) seconds.
        index: of the traced tree.
    """
    # Of two that began at the same tick of the timer, the outer one ended later.
    began = np.lexsort((-np.arange(len(modules)), starts))
    event_nodes, event_callers, is_inner, unseen = _nest(modules, began.tolist(), index)
    nodes = np.array(event_nodes, np.intp)
    seen = np.flatnonzero(nodes != NOWHERE)
    calls = seen[np.argsort(nodes[seen], kind="stable")]
    # Position of each event among the calls, so that callers can be given as calls.
    position = np.full(len(modules) + 1, -1, np.intp)
    position[calls] = np.arange(len(calls))
    caller_of = position[np.array(event_callers, np.intp)[calls]]
    nested = np.argsort(caller_of, kind="stable")
    nested = nested[np.searchsorted(caller_of[nested], 0) :]
    nested_first, first = beginnings(caller_of[nested]), beginnings(nodes[calls])
    counts = np.diff(first, append=len(calls))
    return Pattern(
        modules=modules,
        began=began,
        calls=calls,
        nested=nested,
        callers=caller_of[nested][nested_first],
        nested_first=nested_first,
        inner=np.flatnonzero(np.array(is_inner, bool)[calls]),
        nodes=nodes[calls][first],
        first=first,
        counts=counts,
        groups=_groups(first, counts),
        unseen=unseen,
    )


def event_nodes(
    modules: list[nn.Module], starts: Floats, index: TreeIndex, *, is_whole: bool = True
) -> list[int]:
    """Return the node of every event of one forward, ``NOWHERE`` where it has none.

    Args:
        modules: of each event, in the order of the ends.
        starts: (events,) seconds.
        index: of the traced tree.
        is_whole: whether the outermost is the root; else they are parts that are run again.
    """
    began = np.lexsort((-np.arange(len(modules)), starts))
    return _nest(modules, began.tolist(), index, is_whole=is_whole)[0]


def beginnings(ordered: Integers) -> Integers:
    """Return where each run of equal values begins.

    Not by ``np.unique``: its first call imports ``numpy.ma``, in 13 to 17 ms.
    """
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(is_first)


def _groups(first: Integers, counts: Integers) -> list[tuple[Integers, Integers]]:
    groups = []
    for count in sorted(set(counts.tolist())):
        members = np.flatnonzero(counts == count)
        groups.append((members, first[members, None] + np.arange(count)))
    return groups


def _nest(
    modules: list[nn.Module], began: list[int], index: TreeIndex, *, is_whole: bool = True
) -> tuple[list[int], list[int], list[bool], dict[str, int]]:
    """Return each event's node, its nearest caller with a node (-1: none), whether it is inner."""
    nodes = [NOWHERE] * len(modules)
    callers = [-1] * len(modules)
    is_inner = [False] * len(modules)
    unseen: dict[str, int] = {}
    running: list[int] = []
    for event in began:
        # Events are numbered by their ends: who has a lower number has ended before this one did,
        # so this one is not inside.
        while running and running[-1] < event:
            running.pop()
        module = modules[event]
        above = nodes[running[-1]] if running else NOWHERE
        if running:
            node = index.node(above, module)
        else:
            node = index.root if is_whole else index.anywhere(module)
        if node == NOWHERE:
            again = (nodes[other] for other in reversed(running) if modules[other] is module)
            node = next(again, NOWHERE)
        if node == NOWHERE:
            name = index.name_unseen(module)
            unseen[name] = unseen.get(name, 0) + 1
            continue
        nodes[event] = node
        callers[event] = running[-1] if running else -1
        is_inner[event] = any(nodes[other] == node for other in running)
        running.append(event)
    return nodes, callers, is_inner, unseen
