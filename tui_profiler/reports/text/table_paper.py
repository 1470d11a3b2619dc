"""Sections of a text report about what a model is made of."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE, count, size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import PeakMemory
from tui_profiler.queries.cost.distribution import intensity_bands, layer_types
from tui_profiler.reports.text_parts import field, heading, in_cells
from tui_profiler.session import Tree

_MOST_TYPES = 12
_MOST_ALIVE = 3


def layer_type_lines(tree: Tree, cells: int) -> list[str]:
    """Give layers by class, most FLOPs first."""
    types = layer_types(tree)
    lines = [
        "",
        heading("layers by class", "their own operators and parameters"),
        f"{'class':<20}{'count':>8}{'param':>9}{'FLOP':>9}{'%':>6}",
    ]
    for part in types[:_MOST_TYPES]:
        name = in_cells(safe(part.type), 19)
        lines.append(
            f"{name:<20}{thousands(part.count):>8}{count(part.parameters):>9}"
            f"{count(part.flops):>9}{_percent(part.share):>6}"
        )
    if len(types) > _MOST_TYPES:
        lines.append(f"and {len(types) - _MOST_TYPES} more")
    return [in_cells(line, cells) for line in lines]


def intensity_lines(tree: Tree, cells: int) -> list[str]:
    """Give operators by band of intensity."""
    lines = [
        "",
        heading("operators by intensity", "FLOP a byte, on paper"),
        f"{'band':<20}{'count':>8}{'FLOP':>9}{'%':>6}",
    ]
    lines += [
        f"{part.band:<20}{thousands(part.ops):>8}{count(part.flops):>9}"
        f"{_percent(part.flops_share):>6}"
        for part in intensity_bands(tree)
    ]
    return [in_cells(line, cells) for line in lines]


def alive_lines(tree: Tree, peak: PeakMemory) -> list[str]:
    """Give the largest tensors alive at the peak, and what the prediction covers."""
    named = [
        f"{size(taken)} {safe(tree.nodes[node].path) if node >= 0 else 'the inputs'}"
        for node, taken in peak.alive[:_MOST_ALIVE]
    ]
    aliases = peak.tensors - peak.sized - peak.skipped
    covered = (
        f"{thousands(peak.tensors)} tensors: {thousands(peak.sized)} allocated, "
        f"{thousands(aliases)} in memory that was there, {thousands(peak.skipped)} skipped"
    )
    alive = [field("alive then", ", ".join(named))] if named else []
    return [*alive, field("", covered)]


def _percent(value: float | None) -> str:
    return UNAVAILABLE if value is None else f"{value * 100:.1f}"
