"""The memory screen's view of a training step: what is alive over it, for what, and what helps."""

from itertools import islice

from msgspec.structs import replace

from tui_profiler.figures.units import duration, quantity, size, thousands
from tui_profiler.formatting.text import fit, middle, safe
from tui_profiler.messages import TensorUse, known
from tui_profiler.queries.forward.memory import place
from tui_profiler.queries.training import memory, step_costs
from tui_profiler.session import Tree
from tui_profiler.session.training import MemoryColumns

from ...widgets.identity_lines import title_of
from ...widgets.lines import EMPTY, Line, line_width
from ...widgets.rows import Look, beside, row, section, words
from .lines import RIGHT_CELLS, owner
from .plot import MARGIN, band, column_lines, marked, names_line

_USES: dict[TensorUse, str] = {
    "gradient": "gradients",
    "saved": "saved for backward",
    "recomputed": "recomputed",
    "temporary": "temporaries",
}
_LEAST_PLOT = 2
_MOST = 100
_MOST_SAVED = 5
_CONSTANT = (
    "parameters, optimizer state, buffers, inputs: constant through the step",
    "parameters, optimizer state, buffers, inputs",
    "constant",
)


def step_lines(
    look: Look, columns: MemoryColumns, point: int, rows: int, *, narrow: bool
) -> tuple[Line, ...]:
    """Return the view.

    Args:
        look: what is looked at, with a tree.
        columns: of the step.
        point: under the cursor.
        rows: lines that there are.
        narrow: what stands beside each other below the plot stands below each other, in few rows.
    """
    tree = look.session.tree
    assert tree is not None
    cells = max(look.cells - MARGIN - 1, 1)
    plot_rows = max(rows // 3 if narrow else rows * 3 // 7, _LEAST_PLOT)
    cursor = place(columns, point, cells)
    peak = memory.peak_point(columns)
    at = MARGIN + place(columns, peak, cells)[0]
    label: Line = (
        (f"peak {_total(columns, peak)}", "strong ink"),
        (f"  {_where(tree, columns, peak)}", "ink"),
        (f"  {_count(columns, peak)}", "muted"),
    )
    starts = [(place(columns, first, cells)[0], phase) for phase, first in memory.phases(columns)]
    above = (
        _title(look),
        marked(at, label, look),
        *column_lines(memory.drawn(columns, cells), plot_rows, cursor, look),
        band(_CONSTANT, columns.constant_bytes, cursor, look),
        names_line(starts, look),
        step_cursor_line(look, columns, point) if narrow else EMPTY,
    )
    return (*above, *_below(look, tree, columns, point, rows - len(above), narrow=narrow))


def step_cursor_line(look: Look, columns: MemoryColumns, point: int, right: Line = EMPTY) -> Line:
    """Return the point under the cursor in words and figures, as much as there is room for."""
    tree = look.session.tree
    if tree is None:
        return row(EMPTY, right, look)
    where, phase = _where(tree, columns, point), memory.phase_at(columns, point)
    parts: tuple[Line, ...] = (
        ((_count(columns, point), "ink"),),
        ((f"  {where}", "ink"),),
        (("  " + _total(columns, point), "strong ink"), (" alive", "muted")),
        ((f"  {phase}" * (phase != where), "muted"),),
    )
    room = look.inner - (line_width(right) + 2 if right else 0)
    for count in range(len(parts), 0, -1):
        line = tuple(span for part in parts[:count] for span in part)
        if line_width(line) <= room:
            return row(line, right, look)
    return row(parts[0], right, look)


def _title(look: Look) -> Line:
    title: Line = (("memory over one training step", "strong ink"), ("  predicted", "faint"))
    full = look.glyphs.levels[-1]
    mark = "w" if full.isascii() else full
    legend: Line = (
        *((full, "faint"), (" saved, gradients   ", "muted")),
        *((mark, "muted"), (" temporaries, workspace   ", "muted"), (" ", "panel")),
        (" constant", "muted"),
    )
    if line_width(title) + line_width(legend) + 2 > look.inner:
        legend = EMPTY
    return row(title, legend, look)


def _total(columns: MemoryColumns, point: int) -> str:
    least = "" if columns.scratch[point] >= 0 else "≥ "
    return least + size(memory.totals(columns)[point])


def _count(columns: MemoryColumns, point: int) -> str:
    ordinal, calls = columns.ordinals[point] + 1, columns.memory.calls
    return f"operator {thousands(ordinal)} of {thousands(calls)}"


def _where(tree: Tree, columns: MemoryColumns, point: int) -> str:
    """Return the module that runs, or the phase where none does."""
    node = columns.nodes[point]
    if not 0 <= node < len(tree):
        phase = memory.phase_at(columns, point)
        return "loss" if phase == "forward" else phase
    return middle(title_of(tree, memory.module_of(tree, node)), 40, "…")


def _below(
    look: Look, tree: Tree, columns: MemoryColumns, point: int, rows: int, *, narrow: bool
) -> tuple[Line, ...]:
    if narrow:
        best = _best_line(look, tree)
        return (*alive_lines(look, tree, columns, point, rows - len(best)), *best)[: max(rows, 0)]
    left = replace(look, cells=look.cells - RIGHT_CELLS - 1)
    alive = alive_lines(left, tree, columns, point, rows)
    helping = checkpointing_lines(replace(look, cells=RIGHT_CELLS), tree, rows)
    return beside(alive, helping, left.cells, rows, look)


def alive_lines(
    look: Look, tree: Tree, columns: MemoryColumns, point: int, rows: int
) -> tuple[Line, ...]:
    """Return what is alive after a point by category, which adds up, and its largest tensors."""
    is_peak = point == memory.peak_point(columns)
    when = "the peak" if is_peak else f"operator {thousands(columns.ordinals[point] + 1)}"
    found, told = memory.alive_at(columns, point, _MOST), columns.memory
    categories = (
        ("parameters", told.parameters),
        ("optimizer state", told.optimizer_state),
        *((_USES[use], taken) for use, taken in zip(_USES, found.uses, strict=True)),
        ("workspace", found.workspace or 0),
        ("buffers", told.buffers),
        ("inputs", told.inputs),
    )
    top = max(*(taken for _, taken in categories), 1)
    lines = [section(f"alive at {when}", _total(columns, point), look)]
    lines += [owner(name, "", taken, top, look) for name, taken in categories if taken]
    if found.workspace is None:
        lines += words("workspace: not modelled on this device", look, "faint")
    lines.append(section("largest tensors", "", look))
    lines += [
        owner(_made_by(tree, columns, one, point), one.use, one.bytes, top, look)
        for one in found.tensors
    ]
    return tuple(islice(lines, max(rows, 0)))


def _made_by(tree: Tree, columns: MemoryColumns, one: memory.AliveTensor, point: int) -> str:
    if 0 <= one.maker < len(tree):
        return title_of(tree, memory.module_of(tree, one.maker))
    is_optimizer = memory.phase_at(columns, point) == "optimizer" and one.use == "temporary"
    return "optimizer" if is_optimizer else "loss"


def checkpointing_lines(look: Look, tree: Tree, rows: int) -> tuple[Line, ...]:
    """Return what modules save for the backward, and what checkpointing blocks is to save."""
    saved = memory.saved_by_modules(look.session, _MOST_SAVED)
    best = step_costs.best_checkpointing(look.session)
    lines = [section("saved for backward, by module", "own operators", look)]
    lines += [
        row(
            ((middle(title_of(tree, node), look.inner - 12, look.glyphs.ellipsis), "ink"),),
            ((size(taken), "ink"),),
            look,
        )
        for node, taken in saved
    ]
    if not saved:
        lines += words("nothing is saved", look)
    lines += [EMPTY, section("checkpointing", "predicted", look), *_tried_lines(look)]
    if not best:
        return (*lines, *words("no block lowers the peak", look))[: max(rows, 0)]
    head = "saves".rjust(10) + "peak then".rjust(11) + "FLOP".rjust(8)
    lines.append(row(EMPTY, ((head, "muted"),), look))
    for one in best:
        figures = (
            size(one.saved_bytes).rjust(10)
            + size(one.peak).rjust(11)
            + quantity(one.flops, "").strip().replace(" ", "").rjust(8)
        )
        name = fit(_group(tree, one.nodes), look.inner - len(figures) - 1, look.glyphs.ellipsis)
        lines.append(row(((name, "ink"),), ((figures, "ink"),), look))
    return tuple(lines[: max(rows, 0)])


def _tried_lines(look: Look) -> tuple[Line, ...]:
    """Return the peak and the time that a trial measured; none without one."""
    tried = [one for one in look.session.trials if one.kind == "checkpoint"]
    before, after = (tried[-1].baseline, tried[-1].changed) if tried else (None, None)
    if before is None or after is None:
        return ()
    old, new = known(before.peak_bytes), known(after.peak_bytes)
    if old is None or new is None:
        return ()
    less = "less" if new <= old else "more"
    said = (
        f"measured, {safe(tried[-1].detail)}: {size(abs(old - new))} {less} at the peak, a step"
        f" {duration(after.seconds)} instead of {duration(before.seconds)}"
    )
    return words(said, look, "ink")


def _best_line(look: Look, tree: Tree) -> tuple[Line, ...]:
    """Return what lowers the peak most, in one line; none where nothing does."""
    best = next(iter(step_costs.best_checkpointing(look.session)), None)
    if best is None:
        return ()
    figures = f" to {size(best.peak)}, {quantity(best.flops, 'FLOP')} more"
    name = middle(_group(tree, best.nodes), look.inner - 32 - len(figures), look.glyphs.ellipsis)
    said: Line = ((f"checkpointing {name}", "ink"), (f" lowers the peak{figures}", "muted"))
    return (row(said, EMPTY, look),)


def _group(tree: Tree, nodes: tuple[int, ...]) -> str:
    first = title_of(tree, nodes[0])
    if len(nodes) == 1:
        return first
    return f"{first}–{safe(tree.nodes[nodes[-1]].name)}"
