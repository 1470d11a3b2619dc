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
3. A frame says its file and line, not its module: of several modules of a class it is not known
   which one broke. The rest of a function after a break is a function of its own, in its lines.
4. After a break Dynamo may meet our own call of a module and compile that: it is not listed.
"""

import inspect
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeAlias

from torch import nn

from tui_profiler.messages import Compilations, CompiledAgain, Unknown
from tui_profiler.probe.torch_compat.internals import COMPILER
from tui_profiler.probe.torch_compat.modules import each_module

_Stack: TypeAlias = "tuple[tuple[str, int], ...]"
"""File and line of each frame, outermost first."""
MOST_LISTED = 32
"""Breaks, and recompilations, with different reasons."""
_MOST_CHARACTERS = 300
_OURS = str(Path(__file__).parents[1]) + os.sep
_WHOLE = "_compile.compile_inner"
"""Seconds of a frame from its first line to its guards, backend included."""
_FAILED = re.compile(r"(?:(?P<graph>\d+/\d+): )?(?P<why>.*?)(?:\s{2,}# .*)?")
"""A graph whose guard failed, and the guard without the source line that a comment repeats."""


class _Place(NamedTuple):
    file: str
    line: int
    function: str
    reason: str


MOST_FORWARDS = 8
"""Classes that inherit one method and have a forward of their own."""


class Compiled:
    """What was compiled so far, told where it is new."""

    def __init__(self) -> None:
        self._said = (0, 0, 0)

    def new(self, at: float, model: nn.Module | None = None) -> Compilations | None:
        """Return the record where it has changed; None where it has not, or there is none.

        Args:
            at: seconds since the command was started.
            model: whose modules are looked for in the record.
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
            methods = Methods(() if model is None else each_module(model))
            breaks = _counted(map(_of_break, tuple(reasons)), methods)
            recompiles = _counted(_of_guards(getattr(dynamo, "guard_failures", {})), methods)
        except RuntimeError:  # Another thread compiles: what it changes is read next time.
            return None
        self._said = seen
        return Compilations(
            at,
            frames,
            graphs,
            _seconds(dynamo),
            breaks[:MOST_LISTED],
            recompiles[:MOST_LISTED],
            sum(max(len(one) - MOST_LISTED, 0) for one in (breaks, recompiles)),
        )


class Methods:
    """Which lines are in methods of which modules.

    Args:
        modules: of one model.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._of_file: dict[str, dict[tuple[int, int], dict[str, None]]] = {}
        for kind in dict.fromkeys(map(type, modules)):
            self._take(kind)

    def _take(self, kind: type[nn.Module]) -> None:
        forward = _code(inspect.getattr_static(kind, "forward", None))
        if forward is None:
            return
        place = _text(f"{forward.co_filename}:{forward.co_firstlineno}")
        for owner in kind.__mro__[: kind.__mro__.index(nn.Module)]:
            for one in tuple(vars(owner).values()):
                if (code := _code(one)) is not None:
                    lines = (code.co_firstlineno, _last_line(code))
                    of_file = self._of_file.setdefault(code.co_filename, {})
                    of_file.setdefault(lines, {})[place] = None

    def forwards(self, stack: _Stack) -> tuple[str, ...]:
        """Return the forwards of the classes that the innermost frame of a module belongs to."""
        for file, line in reversed(stack):
            around = [one for one in self._of_file.get(file, ()) if one[0] <= line <= one[1]]
            if around:
                innermost = max(around)
                return tuple(self._of_file[file][innermost])[:MOST_FORWARDS]
        return ()


def _code(function: object) -> CodeType | None:
    """Return the code of a method as it is written, below its decorators."""
    if not isinstance(function, FunctionType):
        return None
    try:
        written = inspect.unwrap(function)
    except ValueError:  # ``__wrapped__`` leads back to itself: what is called is what is known.
        written = function
    code = getattr(written, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _last_line(code: CodeType) -> int:
    """Return the last line of a function, with those that are defined in it."""
    inside = (_last_line(one) for one in code.co_consts if isinstance(one, CodeType))
    own = (line for *_, line in code.co_lines() if line is not None)
    return max((code.co_firstlineno, *own, *inside))


def _counted(found: Iterable[tuple[_Place, _Stack]], methods: Methods) -> tuple[CompiledAgain, ...]:
    """Return places with how often each was met, most frequent first.

    Dynamo tries the frames around a break again, each for itself: the longest stack says most.
    """
    counts: Counter[_Place] = Counter()
    stacks: dict[_Place, _Stack] = {}
    for place, stack in found:
        counts[place] += 1
        stacks[place] = max(stacks.get(place, ()), stack, key=len)
    return tuple(
        CompiledAgain(
            _text(place.file),
            place.line,
            _text(place.function),
            _text(place.reason),
            count,
            methods.forwards(stacks[place]) if at < MOST_LISTED else (),
        )
        for at, (place, count) in enumerate(counts.most_common())
    )


def _of_break(why: Any) -> tuple[_Place, _Stack]:
    reason, stack = _first_line(why.reason), tuple(why.user_stack or ())
    if not stack:
        return _Place("", 0, "", reason), ()
    innermost = stack[-1]
    place = _Place(innermost.filename, innermost.lineno or 0, innermost.name or "", reason)
    return place, tuple((one.filename, one.lineno or 0) for one in stack)


def _of_guards(failures: Any) -> list[tuple[_Place, _Stack]]:
    """Return a place for each recompilation, with the guard of the graph that was compiled last.

    A recompilation has a reason for every graph of the function so far: that of the last one is the
    first that names it.
    """
    found: list[tuple[_Place, _Stack]] = []
    for code, reasons in tuple(failures.items()):
        if code.co_filename.startswith(_OURS):
            continue
        named: set[str] = set()
        for reason in tuple(reasons):
            parts = _FAILED.fullmatch(_first_line(reason))
            graph, why = (parts["graph"], parts["why"]) if parts else (None, _first_line(reason))
            if graph not in named:
                file, line = code.co_filename, code.co_firstlineno
                found.append((_Place(file, line, code.co_name, why), ((file, line),)))
            if graph is not None:
                named.add(graph)
    return found


def _text(found: str) -> str:
    """Return text that is UTF-8 once encoded: a file's name may not be."""
    return found.encode("utf-8", "backslashreplace").decode("utf-8")


def _first_line(reason: object) -> str:
    return str(reason).strip().partition("\n")[0][:_MOST_CHARACTERS]


def _seconds(dynamo: Any) -> float | Unknown:
    told = getattr(dynamo, "compilation_time_metrics", {}).get(_WHOLE)
    if not told:
        return Unknown("this version of torch does not record it")
    return float(sum(tuple(told)))
