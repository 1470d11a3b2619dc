"""What the screens ask of every new tick, worked out beforehand in steps between which keys go."""

from __future__ import annotations

from collections.abc import Iterator

from tui_profiler.queries.cost.bound import floors, has_roofs, limits, mixes
from tui_profiler.queries.forward.strip import own_sums
from tui_profiler.session import Session


def prepared(session: Session) -> Iterator[None]:
    """Work out what takes long of a large tree, and yield between the steps.

    At 100,000 nodes it was most of the 75 to 101 ms that a new tick held the keys up for.
    """
    tree, timings, ceilings = session.tree, session.timings, session.ceilings
    if tree is None or timings is None:
        return
    yield from own_sums.steps(tree, timings)
    if ceilings is None:
        return
    yield from floors.steps(tree, ceilings)
    if has_roofs(ceilings):
        yield from limits.steps(tree, ceilings)
        yield from mixes.steps(tree, limits(tree, ceilings), timings)
