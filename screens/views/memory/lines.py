"""The memory screen's view: what is alive over one forward, who, and predicted beside measured."""

from __future__ import annotations

from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.memory_compared import comparison
from tui_profiler.queries.forward.memory import most_tensors, peak_step, steps_of, weight_bytes
from tui_profiler.queries.time.forward_kinds import phase
from tui_profiler.session import Tree
from tui_profiler.session.columns import Memory

from ...widgets.lines import EMPTY, Line, exact, line_width
from ...widgets.rows import Look, absent, pending, row
from .alive import alive_lines
from .plot import Plot, peak_line, place_text, plot_lines, step_text, total_text
from .predicted_measured import compared_lines, compared_short

RIGHT_CELLS = 50
"""Of the pane with predicted and measured, in the roomy form."""
_LEAST_PLOT = 2
_PHASES = {"prefill": "one prefill", "decode": "one decode step"}


def memory_lines(look: Look, step: int, rows: int, *, narrow: bool) -> tuple[Line, ...]:
    """Return the view.

    Args:
        look: what is looked at.
        step: under the cursor.
        rows: lines that there are.
        narrow: what stands beside each other below the plot stands below each other, in few rows.
    """
    memory, tree = steps_of(look.session), look.session.tree
    if tree is None:
        return (_title(look, None), *pending("steps", "after the trace", look))
    if isinstance(memory, Unknown):
        above = (_title(look, None), *absent("steps", memory.reason, look), EMPTY)
        return (*above, *_below(look, tree, None, step, rows - len(above), narrow=narrow))
    plot = Plot(look, tree, memory, step, weight_bytes(tree))
    plot_rows = max(rows // 3 if narrow else rows * 3 // 7, _LEAST_PLOT)
    above = (
        _title(look, plot),
        peak_line(plot),
        *plot_lines(plot, plot_rows),
        cursor_line(look, step) if narrow else EMPTY,
    )
    return (*above, *_below(look, tree, memory, step, rows - len(above), narrow=narrow))


def cursor_line(look: Look, step: int, right: Line = EMPTY) -> Line:
    """Return the step under the cursor in words and figures, as much as there is room for."""
    memory, tree = steps_of(look.session), look.session.tree
    if isinstance(memory, Unknown) or tree is None:
        return row(EMPTY, right, look)
    plot = Plot(look, tree, memory, step, weight_bytes(tree))
    operator = safe(tree.nodes[memory.nodes[step]].name).removeprefix("aten::")
    where: list[Line] = [
        ((step_text(memory, step), "ink"),),
        ((place_text(plot, step), "ink"),),
    ]
    figures: list[Line] = [
        ((total_text(plot, step), "strong ink"), (" alive", "muted")),
        ((size(memory.live[step]), "ink"), (" activations", "muted")),
    ]
    scratch = memory.whole[step] - memory.live[step]
    if scratch:
        figures.append(((size(scratch), "ink"), (" workspace", "muted")))
    named: Line = ((operator, "muted"),)
    room = look.inner - (line_width(right) + 2 if right else 0)
    every = (*where, named, *figures), (*where, *figures)
    for tried in (*every, (*where, *figures[1:]), (*where, figures[0]), where):
        line = tuple(span for part in tried for span in (("  ", "ink"), *part))[1:]
        if line_width(line) <= room:
            return row(line, right, look)
    return row(where[0], right, look)


def _title(look: Look, plot: Plot | None) -> Line:
    """Return the view's title, how it is to be read, and what its greys mean."""
    title: Line = (
        (f"memory over {_PHASES.get(phase(look.session), 'one forward')}", "strong ink"),
    )
    if plot is None:
        return row(title, EMPTY, look)
    full = look.glyphs.levels[-1]
    legend: Line = ((full, "faint"), (" activations   ", "muted"))
    if plot.memory.knows_workspace:
        mark = "w" if full.isascii() else full
        legend = (*legend, (mark, "muted"), (" workspace   ", "muted"))
    legend = (*legend, (" ", "panel"), (" weights", "muted"))
    if line_width(title) + line_width(legend) + 2 > look.inner:
        legend = EMPTY
    room = look.inner - line_width(title) - line_width(legend) - 4
    how = next((text for text in (_how(plot), "predicted") if width(text) <= room), "")
    return row((*title, (f"  {how}", "faint")), legend, look)


def _how(plot: Plot) -> str:
    """Say what a column stands for."""
    most = -(-len(plot.memory) // plot.cells) * plot.memory.steps.each
    if most > 1:
        return f"predicted, maximum of {thousands(most)} operators per column"
    return "predicted, operators in order"


def _below(
    look: Look, tree: Tree, memory: Memory | None, step: int, rows: int, *, narrow: bool
) -> tuple[Line, ...]:
    """Return who is alive, and predicted beside measured, in ``rows`` lines."""
    found = comparison(look.session)
    if narrow:
        short = compared_short(look, found)
        return (*alive_lines(look, tree, memory, step, rows - len(short)), *short)
    left = Look(look.session, look.node, look.now, look.cells - RIGHT_CELLS - 1, look.glyphs)
    right = Look(look.session, look.node, look.now, RIGHT_CELLS, look.glyphs)
    one = alive_lines(left, tree, memory, step, rows)
    other = compared_lines(right, found, tree, _note(memory))
    lines: list[Line] = []
    for at in range(max(rows, 0)):
        first = exact(one[at] if at < len(one) else EMPTY, left.cells)
        second = other[at] if at < len(other) else EMPTY
        lines.append((*first, (look.glyphs.divider, "hairline"), *second))
    return tuple(lines)


def _note(memory: Memory | None) -> str:
    """Say why the parts of the peak are not those that are alive at it, where they are not."""
    if memory is None:
        return ""
    most = most_tensors(memory)
    if memory.live[peak_step(memory)] == memory.live[most]:
        return ""
    at = thousands(memory.ordinals[most] + 1)
    return f"activations peak at step {at}; workspace is added on top"
