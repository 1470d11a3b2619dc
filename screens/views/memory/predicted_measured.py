"""Predicted memory beside what was measured, and why a figure is missing."""

from __future__ import annotations

from tui_profiler.figures.units import ZERO, share, size, thousands
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.cost.memory_compared import Compared, Comparison
from tui_profiler.session import Tree

from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, absent, row, section, words

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
        lines.append(row((("off by".ljust(_LABEL), "muted"), (off, "ink")), EMPTY, look))
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
    resident = "" if isinstance(process, Unknown) else f"process {size(process)} at its most"
    if isinstance(peak.measured, Unknown):
        reason = f"peak {look.glyphs.dash} {safe(peak.measured.reason)}"
        measured = (f"{resident}, {reason}" if resident else reason, resident or reason)
    else:
        most = f"peak {size(peak.measured)}"
        measured = (f"{most}  {resident}", most)
    return (_said("predicted", (every, only), look), _said("measured", measured, look))


def _said(label: str, tried: tuple[str, str], look: Look) -> Line:
    text = next((one for one in tried if 11 + width(one) <= look.inner), tried[-1])
    return row(((label.ljust(11), "muted"), (text, "ink")), EMPTY, look)


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
        f"of {thousands(peak.tensors)} tensors {thousands(peak.sized)} allocate;"
        f" {thousands(aliases)} shared it"
    )
    unsized = f", {thousands(peak.skipped)} of unknown size" if peak.skipped else ""
    return words(text + unsized, look)
