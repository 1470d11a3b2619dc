"""The modules of a forward that raised: how far it came, and where it raised."""

from __future__ import annotations

from tui_profiler.figures.units import count, shape, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import PartialModule, PartialTree

from ..widgets.lines import EMPTY, Line, exact, line_width, with_role
from ..widgets.rows import Look, finished, row, section

LEAST_ROWS = 4
"""The title, and the module that raised between two others."""
_PARAMETERS = 7
_NAME_SHARE = 0.55
"""Of the width, where shapes stand beside the names."""
_SHAPES_FROM = 60


def raised_at(tree: PartialTree) -> int:
    """Return the row of the module that raised; the first where none of those shown did."""
    modules = enumerate(tree.modules_shown)
    return next((index for index, one in modules if one.progress == "raised"), 0)


def partial_lines(look: Look, rows: int, cursor: int | None = None) -> tuple[Line, ...]:
    """Return exactly ``rows`` lines; blank where no module is known.

    Args:
        look: the session and the width.
        rows: how many lines.
        cursor: the row in sight, and marked; None: the module that raised, without a mark.
    """
    tree = look.session.partial
    if tree is None or rows < LEAST_ROWS:
        return finished((), look, rows)
    modules = tree.modules_shown
    at = raised_at(tree) if cursor is None else cursor
    room = rows - 1
    first = max(0, min(at - room // 2, len(modules) - room))
    shown = modules[first : first + room]
    title = section("modules, until forward raised", _told(tree, first, len(shown)), look)
    lines = [_module(one, look) for one in shown]
    if cursor is not None:
        lines[cursor - first] = with_role(lines[cursor - first], "cursor")
    return finished((title, *lines), look, rows)


def _told(tree: PartialTree, first: int, shown: int) -> str:
    if shown == tree.modules:
        return thousands(tree.modules)
    begin = tree.first + first
    return f"{thousands(begin + 1)}–{thousands(begin + shown)} of {thousands(tree.modules)}"


def _module(one: PartialModule, look: Look) -> Line:
    glyphs = look.glyphs
    signs: dict[str, tuple[str, str]] = {
        "finished": (glyphs.done, "accent"),
        "raised": (glyphs.failed, "error"),
        "entered": (" ", "ink"),
        "not called": ("·", "faint"),
    }
    role = {"raised": "strong error", "not called": "faint"}.get(one.progress, "ink")
    beside = "faint" if one.progress == "not called" else "muted"
    name: Line = (
        signs[one.progress],
        (" " + "  " * one.depth + safe(one.name), role),
        (f"  {safe(one.type)}", beside),
    )
    parameters: Line = ((count(one.parameters).rjust(_PARAMETERS), beside),)
    if look.inner < _SHAPES_FROM:
        return row(name, parameters, look)
    cells = int(look.inner * _NAME_SHARE) - _PARAMETERS
    shapes: Line = ((_shapes(one, look), beside),)
    room = look.inner - cells - _PARAMETERS - 2
    left = (
        *exact(name, cells, glyphs.ellipsis),
        *parameters,
        ("  ", "ink"),
        *exact(shapes, min(room, max(line_width(shapes), 0)), glyphs.ellipsis),
    )
    return row(left, EMPTY, look)


def _shapes(one: PartialModule, look: Look) -> str:
    """Return the shape of the first input and output, as far as they are known."""
    dash = look.glyphs.dash
    given = shape(one.inputs[0]) if one.inputs else dash
    returned = shape(one.outputs[0]) if one.outputs else dash
    return dash if given == returned == dash else f"{given} → {returned}"
