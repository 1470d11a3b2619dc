"""A comparison as text for reading: totals, settings, what became of the modules, the worst.

1. No line is wider than ``columns`` cells, and none holds anything but safe text.
2. Names are cut, figures never.
"""

from tui_profiler.figures.units import UNAVAILABLE, TimeColumn, aligned_times, in_column, thousands
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.messages import known
from tui_profiler.queries.compare import comparison, figure_text
from tui_profiler.queries.compare.alignment import CHANGE_WORDS, AlignedNode
from tui_profiler.queries.compare.side import Side
from tui_profiler.queries.time.standard_error import NOT_RANKED
from tui_profiler.reports.text.table import LEAST_COLUMNS
from tui_profiler.reports.text.text import heading, in_cells

TOP = 12
NAME_CELLS = 18
WORDS = tuple(CHANGE_WORDS.items())
FIGURE_CELLS = 12
RATIO_CELLS = 8
_BY: dict[comparison.FigureName, str] = {
    "seconds": "time per forward",
    "flops": "FLOP",
    "macs": "MAC",
    "memory": "bytes moved",
    "parameters": "parameters",
}
IN_NOISE = "≈ within noise: equal figures would differ by more in 5 % of cases"
IN_TURNS = "measured in turns on the same machine"
APART = "measured at different times: the noise does not include drift of the machine"


def compare_table(
    compared: comparison.Comparison, *, columns: int, top: int | None = None, in_turns: bool = False
) -> tuple[str, ...]:
    """Return a comparison as lines.

    Args:
        compared: two sides.
        columns: cells of the widest line; at least 76 are taken.
        top: how many of the worst differences, 12 without it.
        in_turns: both were measured in turns.
    """
    cells = max(columns, LEAST_COLUMNS)
    lines = [
        *_sides(compared),
        *_settings(compared, cells),
        *_totals(compared, in_turns),
        *_modules(compared),
        *_worst(compared, cells, TOP if top is None else top),
    ]
    return tuple(in_cells(line, cells) for line in lines)


def _sides(compared: comparison.Comparison) -> list[str]:
    return [f"{which}  {_named(side)}" for which, side in (("A", compared.a), ("B", compared.b))]


def _named(side: Side) -> str:
    settings = dict(side.settings)
    said = [safe(settings[name]) for name in ("class", "inputs", "device") if settings.get(name)]
    return "  ".join([safe(side.label), *said])


def _settings(compared: comparison.Comparison, cells: int) -> list[str]:
    rows = comparison.different_settings(compared)
    if not rows:
        return []
    room = max((cells - 2 - NAME_CELLS - 3) // 2, 8)
    lines = ["", heading("settings that differ", "")]
    for name, a, b in rows:
        left, right = (middle(safe(text) or UNAVAILABLE, room) for text in (a, b))
        lines.append(f"  {name:<{NAME_CELLS}}{left} → {right}")
    return lines


def _totals(compared: comparison.Comparison, in_turns: bool) -> list[str]:
    rows = comparison.total_rows(compared)
    if not rows:
        return ["", compared.why_no_alignment]
    why = comparison.why_no_times(compared)
    signs = figure_text.reading_words(row.pair for row in rows)
    lines = ["", _head("one forward", "A", "B", "B − A", "B / A")]
    lines += [_total(row) for row in rows if row.is_measured]
    lines += [_total(row) for row in rows if not row.is_measured]
    lines += [f"  {signs}"] * bool(signs)
    if why:
        return [*lines, f"  {UNAVAILABLE} no times of {safe(why)}"]
    return [*lines, f"  {IN_TURNS if in_turns else APART}", f"  {IN_NOISE}"]


def _head(title: str, *names: str) -> str:
    return f"{title:<{NAME_CELLS + 2}}" + _figures(*names)


def _total(row: comparison.TotalRow) -> str:
    return f"  {row.words:<{NAME_CELLS}}" + _figures(*figure_text.total_texts(row))


def _figures(a: str, b: str, difference: str, ratio: str) -> str:
    texts = ((a, FIGURE_CELLS), (b, FIGURE_CELLS), (difference, FIGURE_CELLS + 1))
    found = "".join(" " * max(cells - width(text), 1) + text for text, cells in texts)
    return found + " " * max(RATIO_CELLS - width(ratio), 1) + ratio


def _modules(compared: comparison.Comparison) -> list[str]:
    if compared.alignment is None:
        return ["", compared.why_no_alignment]
    counted = comparison.change_counts(compared)
    said = [f"{thousands(counted[change])} {word}" for change, word in WORDS if counted[change]]
    return ["", heading("modules", ", ".join(said))]


def _worst(compared: comparison.Comparison, cells: int, top: int) -> list[str]:
    alignment = compared.alignment
    if alignment is None:
        return []
    name = comparison.default_figure(compared)
    found = comparison.worst(compared, name, top)
    if not found:
        return [f"  no module differs in {_BY[name]}"]
    room = cells - 2 - 2 * FIGURE_CELLS - FIGURE_CELLS - 1 - RATIO_CELLS - 2
    column = aligned_times(max(_most(one) for one in found)) if name == "seconds" else None
    unit = f" {column.unit}" if column is not None else ""
    says = figure_text.statistic_text(compared) if column is not None else ""
    title = f"largest self differences by {_BY[name]}"
    whole = heading(title, ", ".join(filter(None, ("without children", says))))
    lines = [
        "",
        *([whole] if len(whole) <= cells else [heading(title, "without children"), f"  {says}"]),
        f"  {'':<2}{'module':<{room}}" + _figures(f"A{unit}", f"B{unit}", "B − A", "B / A"),
    ]
    for one in found:
        row = alignment.nodes[one.index]
        path = fit(middle(_path(compared, row, one), room - 1), room)
        texts = figure_text.pair_texts(one.pair, one.difference, comparison.UNITS[name])
        if column is not None:
            texts = _times(one, column)
        lines.append(f"  {figure_text.MARKS[row.change]} {path}" + _figures(*texts))
    doubtful = [f"  {NOT_RANKED}"] * any(one.pair.doubt for one in found)
    return [*lines, "", "  " + _legend(), *doubtful]


def _most(one: comparison.Worst) -> float:
    return max(known(one.pair.a) or 0.0, known(one.pair.b) or 0.0)


def _times(one: comparison.Worst, column: TimeColumn) -> tuple[str, str, str, str]:
    """Return the same with times in one unit, with as many decimals all the way down."""
    a, b = (known(figure) for figure in (one.pair.a, one.pair.b))
    return (
        UNAVAILABLE if a is None else in_column(a, column),
        UNAVAILABLE if b is None else in_column(b, column),
        figure_text.written_time(one.difference, column, figure_text.mark_of(one.pair)),
        figure_text.ratio_text(one.pair),
    )


def _path(compared: comparison.Comparison, row: AlignedNode, one: comparison.Worst) -> str:
    whole = ", whole" if one.is_whole and _holds(compared, one.index) else ""
    said = figure_text.what_changed(compared, row)
    return figure_text.path_text(compared, row) + whole + (f"  {said}" if said else "")


def _holds(compared: comparison.Comparison, index: int) -> bool:
    """Tell whether there are modules inside."""
    alignment = compared.alignment
    assert alignment is not None
    below = (alignment.nodes[child] for child in alignment.children(index))
    return any(comparison.node_of(compared, child).kind == "module" for child in below)


def _legend() -> str:
    return "  ".join(
        f"{figure_text.MARKS[change]} {word}" for change, word in WORDS if change != "same"
    )
