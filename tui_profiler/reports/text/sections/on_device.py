"""A forward on another device, by its data sheet: minimum time of the model and each module."""

from heapq import nlargest

from tui_profiler.figures.units import UNAVAILABLE, duration, energy, quantity, rate, size
from tui_profiler.formatting.text import safe
from tui_profiler.queries.hardware.data_sheets import DataSheet
from tui_profiler.queries.hardware.on_device import (
    LEAST_SECONDS,
    NOT_TRACED,
    LeastTime,
    least_time,
    phases,
)
from tui_profiler.reports.document import Grid, Part, Section, names, short
from tui_profiler.reports.document import figures as columns_of
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree

_MOST_ROWS = 12


def on_device_section(session: Session, sheet: DataSheet, top: int | None = None) -> Section:
    """Return the section; with the ``top`` modules that take longest by themselves."""
    title, provenance = f"on {sheet.name}", "minimum times, from the data sheet"
    found = [(tree, least_time(tree, 0, sheet)) for tree in phases(session)]
    whole = [(tree, least) for tree, least in found if isinstance(least, LeastTime)]
    if not whole:
        return Section(title, provenance, figure_text.nothing(NOT_TRACED.reason))
    facts: list[tuple[str, str]] = [
        (f"minimum time{f', {tree.phase}' if tree.phase else ''}", _said(least, sheet))
        for tree, least in whole
    ]
    peaks = (f"{dtype} {quantity(peak, 'FLOP/s')}" for dtype, peak in _used(whole[0][0], sheet))
    facts += [
        ("peak", ", ".join(peaks)),
        ("memory", f"{size(sheet.memory_bytes)}, {rate(sheet.bytes_per_second, 'B/s')}"),
        ("source", sheet.source),
    ]
    missing = sorted({dtype for _, least in whole for dtype in least.no_peak})
    if missing:
        facts.append(("not counted", f"FLOPs in {', '.join(missing)}: no peak in the data sheet"))
    if uncosted := whole[0][1].uncosted:
        facts.append(("not counted", f"FLOPs of {uncosted:,} operators without a formula"))
    if by_data := whole[0][1].by_data:
        facts.append(("not counted", f"{by_data:,} operators whose sizes depend on the data"))
    grids: list[Part] = [figure_text.facts(*facts)]
    grids += [_modules(tree, least, sheet, top or _MOST_ROWS) for tree, least in whole[:1]]
    return Section(title, provenance, tuple(grids))


def _said(least: LeastTime, sheet: DataSheet) -> str:
    if least.seconds < LEAST_SECONDS:
        return f"{UNAVAILABLE} (below 0.01 µs, no bound)"
    limit = f", {least.limit}-bound" if least.limit else ""
    watts = f"{energy(least.joules(sheet))} at {sheet.watts:g} W"
    fused = f"; {duration(least.fused_seconds)} with fused kernels" if least.fused_seconds else ""
    return f"{duration(least.seconds)}{limit}; {watts}{fused}"


def _used(tree: Tree, sheet: DataSheet) -> list[tuple[str, float]]:
    dtypes = {
        weight.dtype for node in tree.nodes for weight in node.weights if not weight.is_buffer
    }
    return [(dtype, peak) for dtype, peak in sheet.flops_per_second.items() if dtype in dtypes]


def _modules(tree: Tree, whole: LeastTime, sheet: DataSheet, most: int) -> Grid:
    own: list[tuple[float, int]] = []
    for node, found in enumerate(tree.nodes):
        if found.kind == "module" and node:
            own.append((_seconds(tree, node, sheet) - _inside(tree, node, sheet), node))
    rows = []
    for seconds, node in nlargest(most, own):
        least = least_time(tree, node, sheet)
        if seconds <= 0 or not isinstance(least, LeastTime):
            continue
        part = figure_text.percent(seconds / whole.seconds)
        watts = energy(seconds * sheet.watts)
        cells = (duration(seconds), part, least.limit or UNAVAILABLE, watts)
        rows.append((safe(tree.nodes[node].path), *cells))
    columns = (
        short(names("module, by own minimum time"), "module, by own minimum time", 0),
        *(
            short(column, column.title, cells)
            for column, cells in zip(
                columns_of("min time", "% min", "limit", "energy"), (10, 9, 9, 10), strict=True
            )
        ),
    )
    return Grid(columns, tuple(rows), left_out=0)


def _seconds(tree: Tree, node: int, sheet: DataSheet) -> float:
    found = least_time(tree, node, sheet)
    return found.seconds if isinstance(found, LeastTime) else 0.0


def _inside(tree: Tree, node: int, sheet: DataSheet) -> float:
    return sum(_seconds(tree, child, sheet) for child in tree.modules_in(node))
