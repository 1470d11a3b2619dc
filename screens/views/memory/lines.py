"""The memory screen's view: what is alive over one forward, who, and predicted beside measured."""

from msgspec.structs import replace

from tui_profiler.figures.units import ZERO, shape, share, size, thousands
from tui_profiler.formatting.canvas import bar, half_cells
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.cost.memory_compared import Compared, Comparison, comparison
from tui_profiler.queries.forward.memory import (
    CACHE,
    Alive,
    AliveTensor,
    alive_at,
    module_at,
    most_tensors,
    peak_step,
    recorded_peak,
    shape_of,
    steps_of,
    weight_bytes,
    weight_tensors,
    workspace,
)
from tui_profiler.queries.time.forward_kinds import phase
from tui_profiler.session import Tree
from tui_profiler.session.columns import Memory

from ...widgets.identity_lines import title_of
from ...widgets.lines import EMPTY, Line, line_width
from ...widgets.rows import Look, absent, beside, fact, pending, row, section, words
from .plot import Plot, peak_line, place_text, plot_lines, step_text, total_text

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
    return "predicted, in execution order"


def _below(
    look: Look, tree: Tree, memory: Memory | None, step: int, rows: int, *, narrow: bool
) -> tuple[Line, ...]:
    """Return who is alive, and predicted beside measured, in ``rows`` lines."""
    found = comparison(look.session)
    if narrow:
        short = compared_short(look, found)
        return (*alive_lines(look, tree, memory, step, rows - len(short)), *short)
    left = replace(look, cells=look.cells - RIGHT_CELLS - 1)
    alive = alive_lines(left, tree, memory, step, rows)
    compared = compared_lines(replace(look, cells=RIGHT_CELLS), found, tree, _note(memory))
    return beside(alive, compared, left.cells, rows, look)


def _note(memory: Memory | None) -> str:
    """Say why the parts of the peak are not those that are alive at it, where they are not."""
    if memory is None:
        return ""
    most = most_tensors(memory)
    if memory.live[peak_step(memory)] == memory.live[most]:
        return ""
    at = thousands(memory.ordinals[most] + 1)
    return f"activations peak at step {at}, before workspace"


_LABEL, _FIGURE = 13, 14
_PROCESS = "process: peak RSS"


def compared_lines(
    look: Look, found: Comparison | None, tree: Tree, note: str = ""
) -> tuple[Line, ...]:
    """Return table with its title, ``note`` and reasons below, and what the prediction covers."""
    title = section("predicted and measured", "", look)
    if found is None:
        return (title, *absent("peak", "not predicted", look))
    head = "".ljust(_LABEL) + "predicted".rjust(_FIGURE) + "measured".rjust(_FIGURE)
    lines = [
        title,
        row(((head, "muted"),), EMPTY, look),
        *(_part(part, look) for part in found.parts),
        _part(found.peak, look, "strong ink", "≥ " if found.is_least else ""),
    ]
    if found.off_by is not None:
        off = share(found.off_by).rjust(2 * _FIGURE)
        lines.append(fact("off by", off, look, _LABEL))
    if found.reserved is not None:
        lines.append(_part(found.reserved, look))
    lines += [_part(found.process, look), EMPTY]
    lines += words(note, look)
    for reason in _reasons(found):
        lines += words(reason, look, "faint")
    return (*lines, *_covered(tree, look))


def compared_short(look: Look, found: Comparison | None) -> tuple[Line, ...]:
    """Return predicted and measured in two lines."""
    if found is None:
        return ()
    peak = found.peak
    only = f"peak {'≥ ' if found.is_least else ''}{_text(peak.predicted, look)}"
    every = "  ".join((*(f"{p.label} {_text(p.predicted, look)}" for p in found.parts), only))
    process = found.process.measured
    resident = "" if isinstance(process, Unknown) else f"peak RSS {size(process)}"
    if isinstance(peak.measured, Unknown):
        reason = f"peak {look.glyphs.dash} {safe(peak.measured.reason)}"
        measured = (f"{resident}, {reason}" if resident else reason, resident or reason)
    else:
        most = f"peak {size(peak.measured)}"
        measured = (f"{most}  {resident}", most)
    return (_said("predicted", (every, only), look), _said("measured", measured, look))


def _said(label: str, tried: tuple[str, str], look: Look) -> Line:
    text = next((one for one in tried if 11 + width(one) <= look.inner), tried[-1])
    return fact(label, text, look, 11)


def _part(part: Compared, look: Look, role: str = "ink", mark: str = "") -> Line:
    label = (part.label.ljust(_LABEL), "muted" if role == "ink" else role)
    figures = (_cell(part.predicted, look, role, mark), _cell(part.measured, look, role))
    return row((label, *figures), EMPTY, look)


def _cell(value: Figure, look: Look, role: str, mark: str = "") -> tuple[str, str]:
    is_figure = not isinstance(value, Unknown) and value
    return ((mark + _text(value, look)).rjust(_FIGURE), role if is_figure else "faint")


def _text(value: Figure, look: Look) -> str:
    if isinstance(value, Unknown):
        return look.glyphs.dash
    return size(value) if value else ZERO


def _reasons(found: Comparison) -> tuple[str, ...]:
    """Return why figures are missing, each reason once."""
    every = (*found.parts, found.peak)
    predicted, measured = [p.predicted for p in every], [p.measured for p in every]
    reasons = [
        *(f"not predicted: {one.reason}" for one in predicted if isinstance(one, Unknown)),
        *(f"not measured: {one.reason}" for one in measured if isinstance(one, Unknown)),
        _PROCESS,
    ]
    return tuple(safe(reason) for reason in dict.fromkeys(reasons))


def _covered(tree: Tree, look: Look) -> tuple[Line, ...]:
    if tree.done is None or not tree.has_forward:
        return ()
    peak = tree.done.peak_memory
    aliases = peak.tensors - peak.sized - peak.skipped
    text = (
        f"{thousands(peak.sized)} of {thousands(peak.tensors)} tensors allocate;"
        f" {thousands(aliases)} are views or in-place"
    )
    unsized = f", {thousands(peak.skipped)} of unknown size" if peak.skipped else ""
    return words(text + unsized, look)


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
        found = recorded_peak(tree, room)
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
        lines.append(owner("weights", count, weights, top, look))
    if found.workspace:
        lines.append(owner(f"workspace{inside}", "", found.workspace, top, look))
    lines += [_tensor(tree, one, top, look) for one in found.tensors]
    if found.others_bytes:
        others = "smaller" if found.others is None else f"{thousands(found.others)} smaller"
        lines.append(owner(others, "", found.others_bytes, top, look))
    return tuple(lines[: max(rows, 0)])


def _total(tree: Tree, found: Alive) -> str:
    total = size(weight_bytes(tree) + found.live + (found.workspace or 0))
    if found.others is None:
        return total
    count = weight_tensors(tree) + len(found.tensors) + found.others
    return f"{total} in {thousands(count)} tensors"


def _tensor(tree: Tree, one: AliveTensor, top: float, look: Look) -> Line:
    found = shape_of(tree, one)
    axes = shape(found.shape) if found is not None else look.glyphs.dash
    return owner(_name(tree, one), axes, one.bytes, top, look)


def _name(tree: Tree, one: AliveTensor) -> str:
    """Return what made a tensor: the module, and its operator where it has anything else."""
    if one.maker < 0:
        return "cache, passed in" if one.maker == CACHE else "inputs"
    node = tree.nodes[one.maker]
    module = max(node.parent, 0)
    name = title_of(tree, module)
    is_all_of_it = tree.ends[module] - module == 2
    return name if is_all_of_it else f"{name} {safe(node.name).removeprefix('aten::')}"


def owner(name: str, what: str, taken: float, top: float, look: Look) -> Line:
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
