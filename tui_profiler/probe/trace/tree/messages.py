"""The grown tree as messages: nodes in preorder, their costs, the edges between operators.

Of a forward that raised, its modules, and how far it came.
"""

import inspect
from collections.abc import Iterable
from types import CodeType

import torch

from tui_profiler.messages import Cost, Node, PartialModule, PartialTree, Progress, Weight
from tui_profiler.probe.cost.rollup import rolled_up
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.process.yielding import rest
from tui_profiler.probe.torch_compat.modules import part_of, why_opaque
from tui_profiler.probe.trace.tree.growing_tree import Place, Places
from tui_profiler.probe.trace.tree.module_settings import detail
from tui_profiler.probe.trace.tree.weights import Weights

_MOST_ALIASES = 3
_NOT_CALLED = "not called in this trace"
_WITHOUT_NODES = "nothing of it is in the graph"


class Frozen:
    """Places with their indices; an index names a node in every message."""

    def __init__(self, places: Places, *, is_of_graph: bool = False) -> None:
        """Take ``places`` as a forward left them, or a graph that was made of it."""
        self._unseen = _WITHOUT_NODES if is_of_graph else _NOT_CALLED
        self._places = places
        self._order = list(places.in_preorder())
        self._index = {id(place): index for index, place in enumerate(self._order)}
        self._opaque, self._notes = (set(), {}) if is_of_graph else _opaque(self._order)
        self._weights = Weights(self._order)

    def index_of(self, place: Place | None) -> int:
        """Return a place's node, -1 for none."""
        return -1 if place is None else self._index[id(place)]

    def costs(self) -> tuple[Cost, ...]:
        """Return every node's cost with all below it."""
        parents = [self.index_of(place.parent) for place in self._order]
        return rolled_up(parents, [place.own for place in self._order], self._weights.held())

    def nodes(self) -> tuple[Node, ...]:
        """Return every node."""
        self._number_operators()
        busy = self._busy()
        rows = zip(self._order, self._weights.of_place, strict=True)
        nodes = []
        for place, weights in rows:
            rest()
            nodes.append(self._node(place, weights, id(place) in busy))
        return tuple(nodes)

    def edges(self, pairs: Iterable[tuple[Place, Place]]) -> tuple[tuple[int, int], ...]:
        """Return pairs of places as pairs of nodes."""
        return tuple((self.index_of(one), self.index_of(other)) for one, other in pairs)

    def _number_operators(self) -> None:
        """An operator's path is its position among its module's: two branches never share one."""
        for place in self._order:
            for ordinal, op in enumerate(place.ops.values()):
                op.path = f"{place.path}/{ordinal}"

    def _busy(self) -> set[int]:
        busy: set[int] = set()
        for place in reversed(self._order):
            if place.calls or id(place) in busy:
                busy.add(id(place))
                busy.add(id(place.parent))
        return busy

    def _node(self, place: Place, weights: tuple[Weight, ...], is_busy: bool) -> Node:
        module = place.module
        return Node(
            parent=self.index_of(place.parent),
            kind=place.kind,
            name=writable(place.name),
            path=writable(place.path),
            type=writable(place.type),
            calls=place.calls,
            inputs=place.inputs,
            outputs=place.outputs,
            weights=weights,
            detail="" if module is None else writable(detail(module)),
            source=writable(place.source if module is None else forward_line(module)),
            called_from=writable(place.called_from),
            note=writable(self._note(place, is_busy)),
            is_opaque=id(place) in self._opaque,
            callers=place.callers,
        )

    def _note(self, place: Place, is_busy: bool) -> str:
        first = place.note or self._notes.get(id(place), "")
        notes = [first] if first else []
        if place.module is not None:
            if not is_busy:
                notes.append(self._unseen)
            others = self._places.elsewhere(place)
            notes += [f"also at {path}" for path in others[:_MOST_ALIASES]]
            if len(others) > _MOST_ALIASES:
                notes.append(f"and at {len(others) - _MOST_ALIASES} more")
        return "; ".join(notes)


def _opaque(order: list[Place]) -> tuple[set[int], dict[int, str]]:
    """Return the places that are timed as a whole, and the notes of those and of what is inside."""
    opaque: set[int] = set()
    notes: dict[int, str] = {}
    inside: dict[int, str] = {}
    for place in order:
        if place.module is None:
            continue
        around = inside.get(id(place.parent))
        if around is not None:
            notes[id(place)], inside[id(place)] = part_of(around), around
        elif why := why_opaque(place.module):
            notes[id(place)], inside[id(place)] = why, writable(place.path)
            opaque.add(id(place))
    return opaque, notes


def forward_line(module: torch.nn.Module) -> str:
    """Return ``file:line`` of a module's ``forward``; empty where it is not Python."""
    code = code_of_forward(module)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def code_of_forward(module: torch.nn.Module) -> CodeType | None:
    """Return a module's ``forward``; None where it is not Python."""
    own = vars(module).get("forward")
    code = getattr(own, "__code__", None) if own is not None else _code_of(type(module))
    return code if isinstance(code, CodeType) else None


def _code_of(type_: type[torch.nn.Module]) -> CodeType | None:
    """A scripted module's ``forward`` is a descriptor that raises when it is asked for."""
    forward = inspect.getattr_static(type_, "forward", None)
    code = getattr(inspect.unwrap(forward), "__code__", None) if callable(forward) else None
    return code if isinstance(code, CodeType) else None


MOST_MODULES = 1_000
"""Those around the one that raised: a frame of the wire holds 4 MiB."""
_MOST_CHARACTERS = 200
_MOST_TENSORS = 2


def partial_tree(places: Places, raised_in: Place | None) -> PartialTree:
    """Return the modules of a forward that raised."""
    costs = Frozen(places).costs()
    rows = [
        (place, cost.parameters)
        for place, cost in zip(places.in_preorder(), costs, strict=True)
        if place.kind == "module"
    ]
    at = next((index for index, (place, _) in enumerate(rows) if place is raised_in), -1)
    first = max(0, min(at - MOST_MODULES // 2, len(rows) - MOST_MODULES))
    # What a list holds is called without the list.
    called = (one for place, _ in rows if place.calls for one in _around(place))
    entered = {id(one) for one in called if not one.calls} | set(map(id, _around(raised_in)))
    shown = rows[first : first + MOST_MODULES]
    return PartialTree(
        tuple(
            PartialModule(
                depth=len(_around(place)),
                name=writable(place.name)[:_MOST_CHARACTERS],
                type=writable(place.type)[:_MOST_CHARACTERS],
                parameters=parameters,
                progress=_progress(place, raised_in, entered),
                inputs=tuple(one.shape for one in place.inputs[:_MOST_TENSORS]),
                outputs=tuple(one.shape for one in place.outputs[:_MOST_TENSORS]),
            )
            for place, parameters in shown
        ),
        first=first,
        modules=len(rows),
        finished=sum(_progress(place, raised_in, entered) == "finished" for place, _ in rows),
    )


def _progress(place: Place, raised_in: Place | None, entered: set[int]) -> Progress:
    if place is raised_in:
        return "raised"
    if id(place) in entered or place.parent is None:
        return "entered"
    return "finished" if place.calls else "not called"


def _around(place: Place | None) -> list[Place]:
    found: list[Place] = []
    while place is not None and place.parent is not None:
        place = place.parent
        found.append(place)
    return found
