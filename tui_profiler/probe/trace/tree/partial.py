"""What a forward that raised left of the tree: modules, and how far it came."""

from __future__ import annotations

from tui_profiler.messages import PartialModule, PartialTree
from tui_profiler.messages.model import Progress
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.trace.tree.growing_tree import Place, Places
from tui_profiler.probe.trace.tree.messages import Frozen

MOST_MODULES = 1_000
"""Those around the one that raised: a frame of the wire holds 4 MiB."""
_MOST_CHARACTERS = 200
_MOST_TENSORS = 2


def partial_tree(places: Places, raised_in: Place | None) -> PartialTree:
    """Return the modules of a forward that raised.

    Args:
        places: as the forward left them.
        raised_in: the innermost module that the exception came out of; None: not known.
    """
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
