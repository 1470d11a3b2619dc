"""Figures of weights as text: statistics, SQNR, shares, and the cells of the table."""

import math
from collections.abc import Callable

from tui_profiler.figures.units import PENDING, ZERO, count, dtype, share_cell
from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import TensorStatistics
from tui_profiler.queries.parameters import weights

from ...widgets.rows import Look
from .analysis_state import why_not_measured, why_not_read

_SHORT = {"float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int8": "int8", "int4": "int4"}
_LONG = {**_SHORT, "float8_e4m3fn": "fp8 e4m3", "float8_e5m2": "fp8 e5m2"}


EXACT = "exact"
"""Text of an infinite SQNR."""


def statistic(value: float) -> str:
    """Return a number in three digits: ``−0.000400``, ``0.0213``, ``39.2K``, ``3.1e−06``."""
    if value == 0:
        return ZERO
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "−inf")
    size = abs(value)
    if 999.5 <= size < 1e18:
        text = ("-" if value < 0 else "") + count(size)
    elif 1e-4 <= size < 999.5:
        digits = max(2 - math.floor(math.log10(size)), 0)
        text = f"{value:.{min(digits, 6)}f}"
    else:
        text = f"{value:.1e}"
    return text.replace("-", "−")


def percent(value: float) -> str:
    """Return a share in percent, without the sign, in five cells: ``0.39``, ``12.3``, ``.0042``."""
    scaled = value * 100
    if scaled == 0:
        return ZERO
    if scaled < 0.00005:
        return "<1e−4"
    if scaled < 0.09995:
        return f"{scaled:.4f}".removeprefix("0")
    if scaled < 9.995:
        return f"{scaled:.2f}"
    if scaled < 99.95:
        return f"{scaled:.1f}"
    return f"{scaled:.0f}" if scaled < 9999.5 else ">9999"


def rough_percent(value: float) -> str:
    """Return an estimate in percent, two digits at most: ``~0.38``, ``~12``."""
    scaled = value * 100
    if scaled == 0:
        return ZERO
    if scaled < 0.00005:
        return "~<1e−4"
    rounded = float(f"{scaled:.1e}")
    if rounded < 0.1:
        return f"~{rounded:.2g}".replace("~0.", "~.")
    if rounded < 1:
        return f"~{rounded:.2f}"
    return f"~{rounded:.1f}" if rounded < 10 else f"~{rounded:.0f}"


def decibels(value: float) -> str:
    """Return dB: ``38.2``."""
    return f"{value:.1f}".replace("-", "−")


def sqnr(found: Figure, look: Look) -> str:
    """Return an SQNR; ``exact`` where it is infinite."""
    return EXACT if weights.is_exact(found) else text(found, decibels, look)


def cell(row: weights.WeightRow, column: weights.Column, look: Look) -> tuple[str, str]:
    """Return the text and the role of a row in a column."""
    if column in ("width", "predicted", "error") and not weights.is_measurable(row):
        return (ZERO, "faint")
    found = weights.figure(row, column)
    if column == "int8" and found is not None and weights.is_exact(found):
        return (EXACT, "ink")
    if isinstance(found, Unknown) or (found is None and _never_comes(column, look)):
        return (look.glyphs.dash, "faint")
    if found is None:
        return (PENDING, "faint")
    write = _WRITTEN.get(column, percent)
    text = _width(row.statistics) if column == "width" else write(found)
    return (text, "faint" if text == ZERO else "ink")


_WRITTEN: dict[weights.Column, Callable[[float], str]] = {
    "values": count,
    "std": statistic,
    "zeros": share_cell,
    "prune": share_cell,
    "int8": decibels,
    "predicted": rough_percent,
}
"""How figures are written; all others in percent."""


def _never_comes(column: weights.Column, look: Look) -> bool:
    """Return whether a column without figures stays empty."""
    is_measured = column in ("predicted", "error")
    return bool((why_not_measured if is_measured else why_not_read)(look.session))


def _width(found: TensorStatistics | None) -> str:
    width = found.width if found is not None else None
    return short_format(width.format) if width is not None else ZERO


def short_format(name: str) -> str:
    """Return the short name of a format: ``int8``, ``fp8``, ``f32``."""
    return _SHORT.get(name) or dtype(name)


def long_format(name: str) -> str:
    """Return the full name of a format: ``fp8 e4m3``."""
    return _LONG.get(name) or dtype(name)


def text(found: Figure | None, write: Callable[[float], str], look: Look) -> str:
    """Return a figure as ``write`` does; a dash where unavailable, dots where pending."""
    if found is None:
        return PENDING
    if isinstance(found, Unknown):
        return look.glyphs.dash
    return write(found)
