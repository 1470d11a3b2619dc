"""Two ranks of a run, module by module: where one spends more time than the other."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.session import Session


class ModuleDifference(Struct, frozen=True):
    """One module in two ranks; seconds of one forward, without modules called inside."""

    path: str
    type: str
    first: float | None
    """None where the rank has no such module, or it was not called."""
    second: float | None
    first_whole: float | None
    """With modules called inside."""
    second_whole: float | None

    @property
    def difference(self) -> float | None:
        """Seconds that the first rank spends more."""
        if self.first is None or self.second is None:
            return None
        return self.first - self.second


def module_differences(first: Session, second: Session) -> tuple[ModuleDifference, ...]:
    """Align the modules of two ranks by path, the largest difference first.

    Compared is a module's own time: else all that hold a slow one would be as far apart. A path
    that was called from several places is one line.
    """
    left, right = _modules(first), _modules(second)
    found = []
    for path in [*left, *(path for path in right if path not in left)]:
        mine, theirs = left.get(path), right.get(path)
        shown = mine or theirs
        assert shown is not None
        found.append(
            ModuleDifference(
                path=safe(path),
                type=safe(shown[0]),
                first=mine[1] if mine else None,
                second=theirs[1] if theirs else None,
                first_whole=mine[2] if mine else None,
                second_whole=theirs[2] if theirs else None,
            )
        )
    return tuple(sorted(found, key=_distance))


def _distance(one: ModuleDifference) -> tuple[bool, float]:
    difference = one.difference
    return (difference is None, -abs(difference or 0.0))


def _modules(session: Session) -> dict[str, tuple[str, float, float]]:
    """Give type, own and whole seconds of a forward, by path, of the modules with times."""
    found: dict[str, tuple[str, float, float]] = {}
    if session.tree is None or session.timings is None:
        return found
    for index, node in enumerate(session.tree.nodes):
        if node.kind != "module":
            continue
        own, whole = session.timings.own_per_forward(index), session.timings.per_forward(index)
        if own is not None and whole is not None:
            _, before, whole_before = found.get(node.path, ("", 0.0, 0.0))
            found[node.path] = (node.type, before + own, whole_before + whole)
    return found
