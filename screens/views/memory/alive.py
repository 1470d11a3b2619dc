"""Who is alive at one moment of a forward: the weights, the largest tensors, what is left."""

from __future__ import annotations

from tui_profiler.figures.units import shape, size, thousands
from tui_profiler.formatting.canvas import bar, half_cells
from tui_profiler.formatting.text import fit, middle, safe
from tui_profiler.queries.forward.memory import (
    CACHE,
    Alive,
    Living,
    alive_at,
    module_at,
    peak_step,
    shape_of,
    told_at_peak,
    weight_bytes,
    weight_tensors,
    workspace,
)
from tui_profiler.session import Tree
from tui_profiler.session.columns import Memory

from ...widgets.identity_lines import title_of
from ...widgets.lines import Line, line_width
from ...widgets.rows import Look, absent, row, section

_BAR, _BYTES, _SHAPE = 12, 8, 16
_NAME = 44
"""A wider name column would lose the row: what is left is the bar's."""
_MOST = 100
_OTHER_ROWS = 3
"""The title, the weights, the smaller ones."""


def alive_lines(
    look: Look, tree: Tree, memory: Memory | None, step: int, rows: int
) -> tuple[Line, ...]:
    """Return the section with its title in at most ``rows`` lines; its rows add up to its total.

    Args:
        look: what is looked at.
        tree: of the forward.
        memory: its steps; None where only who was alive at the peak is known.
        step: whose tensors are listed.
        rows: lines that there are.
    """
    room = min(max(rows - _OTHER_ROWS, 1), _MOST)
    when, inside = "the peak", ""
    if memory is None:
        found = told_at_peak(tree, room)
    else:
        found = alive_at(memory, step, max(room - bool(workspace(memory, step)), 1))
        inside = f" in {title_of(tree, module_at(tree, memory, step))}"
        if step != peak_step(memory):
            when = f"step {thousands(memory.ordinals[step] + 1)}"
    if found is None:
        return (section(f"alive at {when}", "", look), *absent("tensors", "not predicted", look))
    top = max(weight_bytes(tree), *(one.bytes for one in found.tensors), 1)
    lines = [section(f"alive at {when}", _total(tree, found), look)]
    if weights := weight_bytes(tree):
        count = f"{thousands(weight_tensors(tree))} tensors"
        lines.append(_owner("weights", count, weights, top, look))
    if found.workspace:
        lines.append(_owner(f"workspace{inside}", "", found.workspace, top, look))
    lines += [_tensor(tree, one, top, look) for one in found.tensors]
    if found.others_bytes:
        others = "smaller" if found.others is None else f"{thousands(found.others)} smaller"
        lines.append(_owner(others, "", found.others_bytes, top, look))
    return tuple(lines[: max(rows, 0)])


def _total(tree: Tree, found: Alive) -> str:
    total = size(weight_bytes(tree) + found.live + (found.workspace or 0))
    if found.others is None:
        return total
    count = weight_tensors(tree) + len(found.tensors) + found.others
    return f"{total} in {thousands(count)} tensors"


def _tensor(tree: Tree, one: Living, top: float, look: Look) -> Line:
    found = shape_of(tree, one)
    axes = shape(found.shape) if found is not None else look.glyphs.dash
    return _owner(_name(tree, one), axes, one.bytes, top, look)


def _name(tree: Tree, one: Living) -> str:
    """Return what made a tensor: the module, and its operator where it has anything else."""
    if one.maker < 0:
        return "a cache, passed in" if one.maker == CACHE else "the inputs"
    node = tree.nodes[one.maker]
    module = max(node.parent, 0)
    name = title_of(tree, module)
    is_all_of_it = tree.ends[module] - module == 2
    return name if is_all_of_it else f"{name} {safe(node.name).removeprefix('aten::')}"


def _owner(name: str, what: str, taken: float, top: float, look: Look) -> Line:
    """Return a row: who, its shape, a bar, its bytes; first the bar, then the shape yields."""
    shape_cells = _SHAPE if look.inner >= 44 else 0
    figures = shape_cells + _BYTES + 3
    bar_cells = max(_BAR, look.inner - figures - _NAME) if look.inner >= 60 else 0
    drawn = bar(max(half_cells(taken / top, 1.0, bar_cells), 1), look.glyphs) if bar_cells else ""
    right: Line = (
        (fit(what, shape_cells, look.glyphs.ellipsis), "muted"),
        (" " + fit(drawn, bar_cells), "ink"),
        (" " + size(taken).rjust(_BYTES), "ink"),
    )
    room = max(look.inner - line_width(right) - 1, 1)
    return row(((middle(name, room, look.glyphs.ellipsis), "ink"),), right, look)
