"""What the values of parameters are like, as lines: the whole, then tensor by tensor."""

from __future__ import annotations

import math

from tui_profiler.messages import Figure, TensorStatistics, Unknown, known
from tui_profiler.messages.parameters import Quantised
from tui_profiler.queries.parameters import PRUNING_LOSS, ParameterSums, prunable, rolled_up
from tui_profiler.reports.text_parts import field, figure, heading, in_cells
from tui_profiler.session import Session
from tui_profiler.session.parameters import Parameters
from tui_profiler.text import fit, middle, safe
from tui_profiler.units import (
    UNAVAILABLE,
    count,
    duration,
    rate,
    share,
    share_cell,
    size,
    thousands,
)

_HEADS = (("type", 9), ("values", 8), ("mean", 10), ("std", 10))
_MORE_HEADS = (("%zero", 6), ("int8", 6), ("bits", 6), ("%prune", 7))
_COLUMNS = "".join(f"{head:>{cells}}" for head, cells in (*_HEADS, *_MORE_HEADS))
_LEAST_NAME = 14


def parameter_lines(session: Session, cells: int, top: int | None) -> list[str]:
    """Give the section; nothing where the values were not looked at.

    Args:
        session: as it was left.
        cells: of the widest line.
        top: only so many tensors, the largest.
    """
    found = session.parameters
    if found is None:
        return []
    whole = rolled_up(session).get(0)
    tensors = [one for one in found.tensors if not one.is_buffer or not _is_plain(one)]
    order = {one.name: place for place, one in enumerate(_in_order(session, found))}
    tensors.sort(key=lambda one: order.get(one.name, len(order)))
    says = "every value looked at"
    if top is not None:
        tensors = sorted(tensors, key=lambda one: (one.moments is None, -one.bytes))[:top]
        says = f"the {len(tensors)} largest of {thousands(len(found.tensors))} tensors"
    room = max(cells - len(_COLUMNS), _LEAST_NAME)
    return [
        "",
        heading("values of parameters", _says(found)),
        *(_whole(whole) if whole is not None else []),
        *_how(found),
        "",
        heading("tensors", says),
        fit("", room) + _COLUMNS,
        *(_tensor(one, room) for one in tensors),
        "int8: dB over the noise, one scale a channel. bits: the fewest with 30 dB.",
        f"%prune: could be 0 at a loss of {PRUNING_LOSS:.0%} of the tensor's norm.",
        *_odd(tensors, cells),
    ]


def _is_plain(one: TensorStatistics) -> bool:
    """Tell whether there is nothing to be said of a buffer beside its figures."""
    return not one.why_none and not (one.moments and (one.moments.nans or one.moments.infinities))


def _in_order(session: Session, found: Parameters) -> list[TensorStatistics]:
    """Give the tensors in the order of the tree; they came in the order in which they were done."""
    if session.tree is None:
        return list(found.tensors)
    names = {
        (f"{node.path}.{weight.name}" if node.path else weight.name): None
        for node in session.tree.nodes
        for weight in node.weights
    }
    by_name = {one.name: one for one in found.tensors}
    return [by_name[name] for name in names if name in by_name]


def _says(found: Parameters) -> str:
    if found.started.is_random:
        return "random weights: they say nothing of a trained model"
    return f"weights: {safe(found.started.weights)}"


def _whole(whole: ParameterSums) -> list[str]:
    sums = whole.sums
    if not sums.count:
        return [field("values", f"{UNAVAILABLE} (no value is known)")]
    narrow = whole.recommended_bytes
    return [
        field("values", f"{thousands(sums.count)}  {size(whole.bytes)}, buffers not among them"),
        field("mean, std", f"{sums.mean:.4g}, {figure(whole.std, lambda one: f'{one:.4g}')}"),
        field("range", f"{sums.minimum:.4g} to {sums.maximum:.4g}"),
        field(
            "shape",
            f"skewness {figure(whole.skewness, lambda one: f'{one:.3g}')}, "
            f"kurtosis {figure(whole.kurtosis, lambda one: f'{one:.3g}')} (normal: 0)",
        ),
        field(
            "norms",
            f"L1 {sums.magnitudes:.4g}, L2 {whole.l2:.4g}, largest spectral {whole.norm:.4g}",
        ),
        field(
            "zeros",
            f"{share(sums.zeros / sums.count)}, near 0 {share(whole.near_zeros / sums.count)}",
        ),
        field("no numbers", f"{thousands(sums.nans)} NaN, {thousands(sums.infinities)} infinite"),
        field(
            "could be 0",
            f"{share(whole.prunable / sums.count)} at a loss of {PRUNING_LOSS:.0%} of each norm",
        ),
        field(
            "channels",
            f"{thousands(whole.dead)} dead, {thousands(whole.outliers)} with outliers, "
            f"{thousands(whole.near_duplicates)} like another",
        ),
        field(
            "narrowest",
            f"{size(narrow)} at the recommended widths, {share(narrow / whole.bytes)} of now",
        ),
        field(
            "compressed",
            f"{share(whole.pressed_bytes / whole.bytes)} by zlib, the entropy of bytes "
            f"{share(whole.entropy_bytes / whole.bytes)}, both of samples",
        ),
    ]


def _how(found: Parameters) -> list[str]:
    done, started = found.done, found.started
    lines = []
    if done is not None and done.seconds:
        read = (
            f"{size(done.bytes)} of {thousands(done.tensors)} tensors in {duration(done.seconds)}"
        )
        lines.append(field("looked at", f"{read}, {rate(done.bytes / done.seconds, 'B/s')}"))
    if done is None or done.was_stopped or done.why:
        why = (safe(done.why) or "it was stopped") if done is not None else "it was not finished"
        lines.append(field("not whole", why))
    if started.left_out:
        lines.append(field("left out", f"{thousands(started.left_out)} tensors, the smallest"))
    return lines


def _tensor(one: TensorStatistics, room: int) -> str:
    name = fit(middle(safe(one.name), room - 1), room)
    moments = one.moments
    if moments is None:
        why = f"as {safe(one.shared_with)}" if one.shared_with else safe(one.why_none)
        return f"{name}{_type(one.dtype):>9}  {UNAVAILABLE} {why}".rstrip()
    zeros = share_cell(moments.zeros / moments.count) if moments.count else UNAVAILABLE
    return (
        f"{name}{_type(one.dtype):>9}{count(moments.count):>8}"
        f"{_signed(moments.mean):>10}{_signed(moments.std):>10}{zeros:>6}"
        f"{_decibels(one):>6}{_bits(one):>6}{_prunable(one):>7}"
    )


def _type(dtype: str) -> str:
    """Give a type in eight cells."""
    return safe(dtype).replace("float8_", "f8").replace("bfloat", "bf").replace("float", "f")[:8]


def _signed(value: float) -> str:
    if math.isnan(value):
        return UNAVAILABLE
    return f"{value:.2e}" if value and not 1e-3 <= abs(value) < 1e4 else f"{value:.4f}"[:9]


def _decibels(one: TensorStatistics) -> str:
    found = best(one.quantised, "int8")
    if found is None or isinstance(found, Unknown):
        return UNAVAILABLE
    return f"{found:.1f}"


def best(ways: tuple[Quantised, ...], form: str) -> Figure | None:
    """Give the noise of a format with a scale for each channel, else for the tensor."""
    for granularity in ("channel", "tensor"):
        for one in ways:
            if (one.format, one.granularity) == (form, granularity):
                return one.sqnr_db
    return None


def _bits(one: TensorStatistics) -> str:
    return UNAVAILABLE if one.width is None else f"{one.width.bits:.1f}"


def _prunable(one: TensorStatistics) -> str:
    found = prunable(one)
    return UNAVAILABLE if found is None else share_cell(found)


def _odd(tensors: list[TensorStatistics], cells: int) -> list[str]:
    """Give what should be looked at: values that are no numbers, dead and doubled channels."""
    lines = []
    for one in tensors:
        said = []
        if one.moments is not None and one.moments.nans:
            said.append(f"{thousands(one.moments.nans)} NaN")
        if one.moments is not None and one.moments.infinities:
            said.append(f"{thousands(one.moments.infinities)} infinite")
        if one.channels is not None:
            rows = one.channels
            alike = known(rows.near_duplicates)
            said += [f"{thousands(rows.dead)} of {thousands(rows.count)} channels dead"] * (
                rows.dead > 0
            )
            said += [f"{thousands(rows.outliers)} outlier channels"] * (rows.outliers > 0)
            if alike:
                said.append(f"{thousands(int(alike))} rows like another")
        if said:
            lines.append(in_cells(f"{safe(one.name)}: {', '.join(said)}", cells))
    return ["", heading("worth a look", ""), *lines] if lines else []
