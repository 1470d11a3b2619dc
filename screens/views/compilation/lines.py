"""The compilation screen drawn: a line of totals, then each break and each recompilation."""

from collections.abc import Sequence

from tui_profiler.figures.units import duration, thousands, written
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.messages import Compilations, known
from tui_profiler.queries.tree import compiled
from tui_profiler.queries.tree.compiled import CompiledPlace

from ...widgets.lines import EMPTY, Line, exact, with_role
from ...widgets.rows import Look, row, section, words

NOTHING = "torch.compile compiled nothing in this process"
_COUNT = 8
_LEAST = 12
"""Cells of a module's name beside the line of code."""


def places(look: Look) -> tuple[CompiledPlace, ...]:
    """Return what the cursor goes through: the breaks, then the recompilations."""
    return (*compiled.graph_breaks(look.session), *compiled.recompilations(look.session))


def compilation_lines(look: Look, selected: int, room: int) -> Sequence[Line]:
    """Return the view.

    Args:
        look: session and width.
        selected: which of ``places`` is under the cursor.
        room: lines that there are.
    """
    found = look.session.compilations
    if found is None:
        return words(NOTHING, look)
    head = (_totals(found, look), EMPTY)
    lines: list[Line] = []
    ends = [0, 0]
    at = 0
    groups = (
        ("graph breaks", compiled.graph_breaks(look.session)),
        ("recompilations", compiled.recompilations(look.session)),
    )
    for title, shown in groups:
        lines.append(section(title, _many(sum(one.what.count for one in shown)), look))
        for one in shown:
            began = len(lines)
            lines += _place(one, look, is_selected=at == selected)
            if at == selected:
                ends = [began, len(lines)]
            at += 1
        lines.append(EMPTY)
    if found.left_out:
        lines += words(f"{thousands(found.left_out)} more are not listed", look)
    body = max(room - len(head), 1)
    # The selected one is in the middle where it can be.
    top = max(0, min((ends[0] + ends[1] - body) // 2, len(lines) - body))
    return (*head, *lines[top : top + body])


def _totals(found: Compilations, look: Look) -> Line:
    seconds = written(known(found.seconds), duration)
    graphs = f"{thousands(found.graphs)} graph{'s' * (found.graphs != 1)}"
    frames = f"  {thousands(found.frames)} frame{'s' * (found.frames != 1)}"
    left = ((graphs, "strong ink"), (f"{frames}  {seconds} compile time", "ink"))
    return row(left, (("this process, recorded by Dynamo", "muted"),), look)


def _many(count: int) -> str:
    return thousands(count) if count else "none"


def _place(one: CompiledPlace, look: Look, *, is_selected: bool) -> list[Line]:
    module = safe(compiled.module_words(look.session, one)) or compiled.NO_MODULE
    where = safe(f"{one.function}  {one.where}")
    room = look.inner - _COUNT - 1
    where = middle(where, max(room - min(width(module), room // 2) - 2, _LEAST), "…")
    name = fit(middle(module, max(room - width(where) - 2, _LEAST), look.glyphs.ellipsis), room)
    name = name[: max(len(name) - width(where), 0)]
    line: Line = (
        (look.glyphs.cursor if is_selected else " ", "accent"),
        (f"{thousands(one.what.count)}×".rjust(_COUNT - 2) + "  ", "ink"),
        (name, "ink" if one.nodes else "muted"),
        (where, "muted"),
    )
    first = exact(line, look.cells, look.glyphs.ellipsis)
    reason = words(safe(one.what.reason), look, "muted", indent=_COUNT)
    return [with_role(first, "cursor") if is_selected else first, *reason]
