"""Where the time of modules goes in one operator window, and what opaque modules run inside."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from tui_profiler.messages import Node
from tui_profiler.messages.windows import COMPILED_CODE, Region, RegionPart, WindowTimes
from tui_profiler.probe.measure.clock.forward_pattern import beginnings
from tui_profiler.probe.torch_compat.internals import children_of
from tui_profiler.probe.torch_compat.kineto import KinetoOperator
from tui_profiler.probe.torch_compat.modules import why_opaque

MOST_MODULES = 200_000
"""In one message: 16 bytes each."""
MOST_REGIONS, MOST_PARTS = 200, 20
_COMPILED_REGION = "Torch-Compiled Region"
"""Source: torch/_dynamo/eval_frame.py and convert_frame.py, the range around compiled code."""


class Span(NamedTuple):
    """One call of a module that has a node."""

    start: float
    end: float
    node: int


def opaque_nodes(nodes: Sequence[Node], model: nn.Module) -> dict[int, str]:
    """Return the outermost nodes whose parts are not called on their own, each with the reason."""
    found: dict[int, str] = {}
    modules: dict[int, nn.Module] = {}
    inside: set[int] = set()
    for index, node in enumerate(nodes):
        if node.kind != "module":
            continue
        if node.parent in inside:
            inside.add(index)
            continue
        above = modules.get(node.parent)
        # Never asked whether it is true: a user's module may answer that as it likes.
        inside_of = children_of(above) if above is not None else {}
        module = model if node.parent < 0 else inside_of.get(node.name)
        if module is None:
            continue
        modules[index] = module
        if why := why_opaque(module):
            found[index] = why
            inside.add(index)
    return found


def window_times(
    at: float,
    spans: Sequence[Span],
    seen: Sequence[KinetoOperator],
    met: Sequence[Span],
    opaque: Mapping[int, str],
) -> WindowTimes:
    """Share out the time of every module that was called.

    Args:
        at: seconds since the command was started.
        spans: calls of modules, in the order in which they began.
        seen: operators, in the order in which they began.
        met: operators with a node.
        opaque: nodes of opaque modules, with the reason.
    """
    outer = list(_outermost(spans))
    starts = np.array([span.start for span in outer])
    ends = np.array([span.end for span in outer])
    works = [one for one in seen if is_operator(one.name) or _is_compiled(one.name)]
    ran = _covered(list(_not_nested(works)), starts, ends)
    laid = _covered(met, starts, ends)
    columns = np.stack([ends - starts, ends - starts - ran, ran - laid])
    nodes = np.array([span.node for span in outer], np.intp)
    order = np.argsort(nodes, kind="stable")
    begins = beginnings(nodes[order])
    distinct = nodes[order][begins]
    sums = np.add.reduceat(columns[:, order], begins, axis=1) if len(distinct) else columns
    kept = slice(0, MOST_MODULES)
    seconds, host, other = (row[kept].astype(np.float32).tobytes() for row in sums)
    return WindowTimes(
        at=at,
        nodes=array("I", distinct[kept].tolist()).tobytes(),
        seconds=seconds,
        host=host,
        other=other,
        regions=_regions(outer, seen, opaque),
    )


def _outermost(spans: Sequence[Span]) -> Iterator[Span]:
    """Leave out calls inside another call of the same node."""
    until: dict[int, float] = {}
    for span in spans:
        if span.start >= until.get(span.node, -np.inf):
            until[span.node] = span.end
            yield span


def is_operator(name: str) -> bool:
    """Tell whether an event is of an operator."""
    # The others are ranges that the user or torch marked.
    return "::" in name and not _is_compiled(name)


def _is_compiled(name: str) -> bool:
    return name.startswith(_COMPILED_REGION)


def _not_nested(seen: Sequence[KinetoOperator]) -> Iterator[KinetoOperator]:
    until = -np.inf
    for one in seen:
        if one.start >= until:
            until = one.end
            yield one


def _covered(
    intervals: Sequence[Span] | Sequence[KinetoOperator],
    starts: NDArray[np.float64],
    ends: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return how much of each span lies in intervals, which are in order and do not overlap."""
    if not intervals:
        return np.zeros(len(starts))
    edges = np.array([(one.start, one.end) for one in intervals], np.float64)
    lengths = edges[:, 1] - edges[:, 0]
    after = np.cumsum(lengths)
    so_far = np.stack([after - lengths, after], axis=1).ravel()
    at = edges.ravel()
    covered: NDArray[np.float64] = np.interp(ends, at, so_far) - np.interp(starts, at, so_far)
    return covered


def _regions(
    spans: Sequence[Span], seen: Sequence[KinetoOperator], opaque: Mapping[int, str]
) -> tuple[Region, ...]:
    parts: dict[int, dict[str, tuple[int, float]]] = {}
    starts = [one.start for one in seen]
    for span in spans:
        if span.node in opaque and (span.node in parts or len(parts) < MOST_REGIONS):
            first, last = np.searchsorted(starts, (span.start, span.end)).tolist()
            _add_parts(parts.setdefault(span.node, {}), seen[first:last])
    return tuple(
        Region(node, opaque[node], _largest(found)) for node, found in sorted(parts.items())
    )


def _add_parts(parts: dict[str, tuple[int, float]], seen: Sequence[KinetoOperator]) -> None:
    def add(name: str, calls: int, seconds: float) -> None:
        calls_before, before = parts.get(name, (0, 0.0))
        parts[name] = calls_before + calls, before + seconds

    operators = list(_not_nested([one for one in seen if is_operator(one.name)]))
    for one in operators:
        add(one.name, 1, one.end - one.start)
    for region in _not_nested([one for one in seen if _is_compiled(one.name)]):
        inside = sum(
            one.end - one.start for one in operators if region.start <= one.start < region.end
        )
        add(COMPILED_CODE, 1, max(region.end - region.start - inside, 0.0))


def _largest(parts: Mapping[str, tuple[int, float]]) -> tuple[RegionPart, ...]:
    by_time = sorted(parts.items(), key=lambda item: -item[1][1])
    return tuple(
        RegionPart(name, calls, seconds) for name, (calls, seconds) in by_time[:MOST_PARTS]
    )
