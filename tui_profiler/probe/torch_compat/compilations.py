"""What Dynamo compiled in this process: graphs, breaks with their lines, guards that failed.

It is read from what Dynamo keeps anyway: nothing is installed, and ``torch._dynamo`` is not
imported for it. What has changed is seen by three numbers; only then are the lists read.

| name | what for | when it is gone |
|---|---|---|
| ``torch._dynamo.utils.counters`` | frames and graphs | nothing is told |
| ``torch._dynamo.utils.graph_break_reasons`` | line and reason of each break | no breaks |
| ``torch._dynamo.utils.guard_failures`` | reasons of recompilations, by code | no recompilations |
| ``torch._dynamo.utils.compilation_time_metrics`` | seconds | they are unavailable |

1. The record is of the process, not of one model, and ``torch._dynamo.reset()`` empties it.
2. Our own tracer adds to it where a model is exported in vain (``torch._dynamo.explain``).
"""

import re
import sys
from collections import Counter
from typing import Any, NamedTuple

from tui_profiler.messages import Compilations, CompiledAgain, Unknown
from tui_profiler.probe.torch_compat.internals import COMPILER

MOST_LISTED = 32
"""Breaks, and recompilations, with different reasons."""
_MOST_CHARACTERS = 300
_WHOLE = "_compile.compile_inner"
"""Seconds of a frame from its first line to its guards, backend included."""
_FAILED = re.compile(r"(?:(?P<graph>\d+/\d+): )?(?P<why>.*?)(?:\s{2,}# .*)?")
"""A graph whose guard failed, and the guard without the source line that a comment repeats."""


class _Place(NamedTuple):
    file: str
    line: int
    function: str
    reason: str


class Compiled:
    """What was compiled so far, told where it is new."""

    def __init__(self) -> None:
        self._said = (0, 0, 0)

    def new(self, at: float) -> Compilations | None:
        """Return the record where it has changed; None where it has not, or there is none.

        Args:
            at: seconds since the command was started.
        """
        dynamo: Any = sys.modules.get(COMPILER)
        counters = getattr(dynamo, "counters", None)
        if not counters:
            return None
        frames = counters.get("frames", {}).get("total", 0)
        graphs = counters.get("stats", {}).get("unique_graphs", 0)
        reasons = getattr(dynamo, "graph_break_reasons", ())
        seen = (frames, graphs, len(reasons))
        if seen == self._said:
            return None
        try:
            breaks = Counter(map(_of_break, tuple(reasons)))
            recompiles = Counter(_of_guards(getattr(dynamo, "guard_failures", {})))
        except RuntimeError:  # Another thread compiles: what it changes is read next time.
            return None
        self._said = seen
        return Compilations(
            at,
            frames,
            graphs,
            _seconds(dynamo),
            _listed(breaks),
            _listed(recompiles),
            sum(max(len(one) - MOST_LISTED, 0) for one in (breaks, recompiles)),
        )


def _listed(places: Counter[_Place]) -> tuple[CompiledAgain, ...]:
    return tuple(CompiledAgain(*place, count) for place, count in places.most_common(MOST_LISTED))


def _of_break(why: Any) -> _Place:
    innermost = why.user_stack[-1] if why.user_stack else None
    if innermost is None:
        return _Place("", 0, "", _first_line(why.reason))
    function = innermost.name or ""
    return _Place(innermost.filename, innermost.lineno or 0, function, _first_line(why.reason))


def _of_guards(failures: Any) -> list[_Place]:
    """Return a place for each recompilation, with the guard of the graph that was compiled last.

    A recompilation has a reason for every graph of the function so far: that of the last one is the
    first that names it.
    """
    found = []
    for code, reasons in tuple(failures.items()):
        named: set[str] = set()
        for reason in tuple(reasons):
            parts = _FAILED.fullmatch(_first_line(reason))
            graph, why = (parts["graph"], parts["why"]) if parts else (None, _first_line(reason))
            if graph not in named:
                found.append(_Place(code.co_filename, code.co_firstlineno, code.co_name, why))
            if graph is not None:
                named.add(graph)
    return found


def _first_line(reason: object) -> str:
    return str(reason).strip().partition("\n")[0][:_MOST_CHARACTERS]


def _seconds(dynamo: Any) -> float | Unknown:
    told = getattr(dynamo, "compilation_time_metrics", {}).get(_WHOLE)
    if not told:
        return Unknown("this version of torch does not record it")
    return float(sum(tuple(told)))
