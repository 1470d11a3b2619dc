"""Parameters: how many, of which types, where they are, and what their values are like."""

from __future__ import annotations

from heapq import nlargest
from math import prod

from tui_profiler.figures.units import dtype, shape, size, thousands
from tui_profiler.messages import Weight
from tui_profiler.queries.parameters.rollup import rolled_up
from tui_profiler.reports.document import Grid, Note, Part, Section, figures, names
from tui_profiler.reports.parameters_text import (
    HEADS,
    LEGEND,
    how_rows,
    says,
    tensor_cells,
    tensors_told,
    whole_rows,
)
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree


def parameters_section(session: Session, tree: Tree) -> Section:
    """Return totals, the types, the largest tensors, and the statistics where they were asked."""
    owned = [
        (f"{node.path}.{weight.name}".lstrip("."), weight)
        for node in tree.nodes
        for weight in node.weights
    ]
    own = [(path, weight) for path, weight in owned if not weight.shared_with]
    parameters = [(path, weight) for path, weight in own if not weight.is_buffer]
    parts: list[Part] = [
        figure_text.facts(
            ("parameters", figure_text.parameters(tree)),
            ("trainable", figure_text.trained(tree)),
            ("tensors", f"{thousands(len(parameters))}, the largest are below"),
            ("types", _types([weight for _, weight in parameters])),
            ("buffers", _buffers([weight for _, weight in own if weight.is_buffer])),
            *figure_text.labelled(
                "shared", [f"{p} is {w.shared_with}" for p, w in owned if w.shared_with]
            ),
        )
    ]
    if parameters:
        parts.append(_largest(parameters))
    return Section("parameters", "as loaded", (*parts, *statistics(session)))


def statistics(session: Session) -> tuple[Part, ...]:
    """Return what the values are like: nothing, where they were not looked at."""
    found = session.parameters
    if found is None:
        return ()
    whole = rolled_up(session).get(0)
    rows = [*(whole_rows(whole) if whole is not None else ()), *how_rows(found)]
    tensors = nlargest(
        figure_text.MOST_ROWS, tensors_told(session, found, None), key=lambda one: one.bytes
    )
    told = [(one.name, cells) for one in tensors if (cells := tensor_cells(one)) is not None]
    grid = Grid(
        (names("values of the largest"), *figures(*(head for head, _ in HEADS))),
        tuple((name, *cells) for name, cells in told),
        left_out=len(found.tensors) - len(told),
    )
    return Note(says(found)), figure_text.facts(*rows), grid, *map(Note, LEGEND)


def _types(weights: list[Weight]) -> str:
    bytes_by_type: dict[str, int] = {}
    for weight in weights:
        name = dtype(weight.dtype)
        bytes_by_type[name] = bytes_by_type.get(name, 0) + weight.bytes
    found = sorted(bytes_by_type.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{size(taken)} {name}" for name, taken in found)


def _buffers(weights: list[Weight]) -> str:
    taken = sum(weight.bytes for weight in weights)
    return f"{thousands(len(weights))}, {size(taken)}" if weights else "none"


def _largest(parameters: list[tuple[str, Weight]]) -> Grid:
    whole = sum(weight.bytes for _, weight in parameters)
    rows = tuple(
        (
            path,
            shape(weight.shape),
            dtype(weight.dtype),
            thousands(prod(weight.shape)),
            size(weight.bytes),
            figure_text.percent(weight.bytes / whole if whole else None),
        )
        for path, weight in nlargest(
            figure_text.MOST_ROWS, parameters, key=lambda one: one[1].bytes
        )
    )
    columns = (
        names("largest parameters"),
        *(names("shape"), names("type")),
        *figures("elements", "bytes", "% bytes"),
    )
    return Grid(columns, rows, left_out=max(len(parameters) - figure_text.MOST_ROWS, 0))
