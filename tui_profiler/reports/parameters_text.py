"""What the values of parameters are like, as words and cells: for the table and the full report."""

from __future__ import annotations

import math

from tui_profiler.figures import units
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Figure, TensorStatistics, Unknown
from tui_profiler.messages.parameters import Quantised
from tui_profiler.queries.parameters.rollup import PRUNING_LOSS, ParameterSums, prunable
from tui_profiler.queries.parameters.weights import is_exact
from tui_profiler.reports.text_parts import figure
from tui_profiler.session import Session
from tui_profiler.session.parameters import Parameters

HEADS = (
    *(("type", 9), ("values", 8), ("mean", 10), ("std", 10)),
    *(("%zero", 6), ("int8", 6), ("bits", 6), ("%prune", 7)),
)
"""Titles of a tensor's cells, and the columns that each takes where they are fixed."""
LEGEND = (
    "int8: SQNR in dB, one scale per channel. bits: the fewest with 30 dB.",
    f"%prune: could be 0 at a loss of {units.share(PRUNING_LOSS)} of the tensor's norm.",
)


def tensors_told(session: Session, found: Parameters, top: int | None) -> list[TensorStatistics]:
    """Return the tensors worth a row, in the order of the tree, or the ``top`` largest of them."""
    tensors = [one for one in in_order(session, found) if not one.is_buffer or not _is_plain(one)]
    if top is not None:
        return sorted(tensors, key=lambda one: (one.moments is None, -one.bytes))[:top]
    return tensors


def tensor_cells(one: TensorStatistics) -> tuple[str, ...] | None:
    """Return a tensor's cells, as ``HEADS``; None where nothing is known of its values."""
    moments = one.moments
    if moments is None:
        return None
    zeros = units.share_cell(moments.zeros / moments.count) if moments.count else units.UNAVAILABLE
    return (
        *(
            type_cell(one.dtype),
            units.count(moments.count),
            _signed(moments.mean),
            _signed(moments.std),
        ),
        *(zeros, _decibels(one), _bits(one), _prunable(one)),
    )


def why_no_cells(one: TensorStatistics) -> str:
    """Return what stands in their place."""
    return f"as {one.shared_with}" if one.shared_with else one.why_none


def _is_plain(one: TensorStatistics) -> bool:
    """Tell whether there is nothing to be said of a buffer beside its figures."""
    return not one.why_none and not (one.moments and (one.moments.nans or one.moments.infinities))


def in_order(session: Session, found: Parameters) -> list[TensorStatistics]:
    """Return all tensors in the order of the tree; they came in the order they were done."""
    if session.tree is None:
        return list(found.tensors)
    names = {
        (f"{node.path}.{weight.name}" if node.path else weight.name): None
        for node in session.tree.nodes
        for weight in node.weights
    }
    place = {name: number for number, name in enumerate(names)}
    return sorted(found.tensors, key=lambda one: (place.get(one.name, len(place)), one.name))


def says(found: Parameters) -> str:
    """Return where the values are from."""
    if found.started.is_random:
        return "randomly initialised weights: not representative of a trained model"
    return f"weights: {safe(found.started.weights)}"


def whole_rows(whole: ParameterSums) -> list[tuple[str, str]]:
    """Return (label, text) of what is known of all values together."""
    sums = whole.sums
    if not sums.count:
        return [("values", f"{units.UNAVAILABLE} (no value is known)")]
    narrow = whole.recommended_bytes
    return [
        (
            "values",
            f"{units.thousands(sums.count)}  {units.size(whole.bytes)}, buffers not among them",
        ),
        ("mean, std", f"{sums.mean:.4g}, {figure(whole.std, lambda one: f'{one:.4g}')}"),
        ("range", f"{sums.minimum:.4g} to {sums.maximum:.4g}"),
        (
            "shape",
            f"skewness {figure(whole.skewness, lambda one: f'{one:.3g}')}, "
            f"kurtosis {figure(whole.kurtosis, lambda one: f'{one:.3g}')} (normal: 0)",
        ),
        (
            "norms",
            f"L1 {sums.magnitudes:.4g}, L2 {whole.l2:.4g}, largest spectral {whole.norm:.4g}",
        ),
        (
            "zeros",
            f"{units.share(sums.zeros / sums.count)},"
            f" near 0 {units.share(whole.near_zeros / sums.count)}",
        ),
        (
            "no numbers",
            f"{units.thousands(sums.nans)} NaN, {units.thousands(sums.infinities)} infinite",
        ),
        (
            "could be 0",
            f"{units.share(whole.prunable / sums.count)}"
            f" at a loss of {units.share(PRUNING_LOSS)} of each norm",
        ),
        (
            "channels",
            f"{units.thousands(whole.dead)} dead, {units.thousands(whole.outliers)} with outliers, "
            f"{units.thousands(whole.near_duplicates)} near-duplicate",
        ),
        (
            "narrowest",
            f"{units.size(narrow)} at the recommended widths,"
            f" {units.share(narrow / whole.bytes)} of now",
        ),
        (
            "compressed",
            f"{units.share(whole.pressed_bytes / whole.bytes)} by zlib, the entropy of bytes "
            f"{units.share(whole.entropy_bytes / whole.bytes)}, both of samples",
        ),
    ]


def how_rows(found: Parameters) -> list[tuple[str, str]]:
    """Return (label, text) of how the values were looked at, and where that is not whole."""
    done, started = found.done, found.started
    lines: list[tuple[str, str]] = []
    if done is not None and done.seconds:
        read = f"{units.size(done.bytes)} of {units.thousands(done.tensors)} tensors"
        read += f" in {units.duration(done.seconds)}"
        lines.append(("looked at", f"{read}, {units.rate(done.bytes / done.seconds, 'B/s')}"))
    if done is None or done.was_stopped or done.why:
        why = (safe(done.why) or "it was stopped") if done is not None else "it was not finished"
        lines.append(("not whole", why))
    if started.left_out:
        lines.append(("left out", f"{units.thousands(started.left_out)} tensors, the smallest"))
    return lines


def type_cell(dtype: str) -> str:
    """Return a type in eight cells."""
    return safe(dtype).replace("float8_", "f8").replace("bfloat", "bf").replace("float", "f")[:8]


def _signed(value: float) -> str:
    if math.isnan(value):
        return units.UNAVAILABLE
    return f"{value:.2e}" if value and not 1e-3 <= abs(value) < 1e4 else f"{value:.4f}"[:9]


def _decibels(one: TensorStatistics) -> str:
    found = best(one.quantised, "int8")
    if found is not None and is_exact(found):
        return "exact"
    if found is None or isinstance(found, Unknown):
        return units.UNAVAILABLE
    return f"{found:.1f}"


def best(ways: tuple[Quantised, ...], form: str) -> Figure | None:
    """Return the noise of a format with a scale for each channel, else for the tensor."""
    for granularity in ("channel", "tensor"):
        for one in ways:
            if (one.format, one.granularity) == (form, granularity):
                return one.sqnr_db
    return None


def _bits(one: TensorStatistics) -> str:
    return units.UNAVAILABLE if one.width is None else f"{one.width.bits:.1f}"


def _prunable(one: TensorStatistics) -> str:
    found = prunable(one)
    return units.UNAVAILABLE if found is None else units.share_cell(found)
