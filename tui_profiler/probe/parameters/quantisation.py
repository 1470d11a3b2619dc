"""Signal over noise of a tensor stored in a narrower type, and the narrowest that is good enough.

Whole numbers: the largest magnitude is 127 (7 for four bits), values are rounded to the nearest, a
half to the even one. float8: the largest magnitude is the type's largest. Symmetric, no zero point.
Source: the definitions of torch.ao's symmetric observers; OCP 8-bit floating point, revision 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import (
    ALL_ZERO,
    NOTHING_LOST,
    Format,
    Granularity,
    Quantised,
    Sampled,
    Width,
)
from tui_profiler.probe.parameters.rows import evenly, picked
from tui_profiler.probe.parameters.values import Values

GROUP = 128
SCALE_BITS = 32
"""Of a scale: float32."""
ENOUGH_DB = 30.0
"""3.2 % of the norm: a limit of ours. What that does to the model's output is another question."""
MOST_VALUES = 1 << 18
"""That are stored and read back; of a larger tensor whole rows, evenly picked."""

_LARGEST: dict[Format, float] = {
    "int8": 127.0,
    "int4": 7.0,
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
}
_BITS: dict[Format, int] = {"int8": 8, "int4": 4, "float8_e4m3fn": 8, "float8_e5m2": 8}
_FLOAT8: dict[Format, torch.dtype] = {
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}


@dataclass
class _Tally:
    signal: float = 0.0
    noise: dict[tuple[Format, Granularity], float] = field(default_factory=dict)
    values: int = 0


def quantised(
    values: Values, largest: float, check: Callable[[], None]
) -> tuple[tuple[Quantised, ...], Sampled]:
    """Store and read back, in every format with every granularity.

    Args:
        values: the tensor.
        largest: its largest magnitude, for the one scale of a whole tensor.
        check: raises where nobody waits any more.
    """
    tally = _Tally()
    of = values.rows * values.columns
    rows = evenly(max(1, MOST_VALUES // max(values.columns, 1)), values.rows)
    for whole in picked(values, rows):
        check()
        for block in torch.split(whole, MOST_VALUES, dim=1):
            _add(tally, block.float(), largest, _granularities(values))
    found = tuple(
        Quantised(
            format=form,
            granularity=granularity,
            sqnr_db=_decibels(tally.signal, tally.noise.get((form, granularity), 0.0)),
            bits=_BITS[form] + _scale_bits(granularity, values),
            group=GROUP if granularity == "group" else 0,
        )
        for form in _LARGEST
        for granularity in _granularities(values)
    )
    return found, Sampled(tally.values, of)


def _granularities(values: Values) -> tuple[Granularity, ...]:
    """Return those that differ: one row is the tensor, one group is its row."""
    rows: tuple[Granularity, ...] = ("channel",) if values.rows > 1 else ()
    groups: tuple[Granularity, ...] = ("group",) if values.columns > GROUP else ()
    return ("tensor", *rows, *groups)


def _scale_bits(granularity: Granularity, values: Values) -> float:
    groups = math.ceil(values.columns / GROUP)
    scales = {"tensor": 1, "channel": values.rows, "group": values.rows * groups}[granularity]
    return SCALE_BITS * scales / (values.rows * values.columns)


def _add(
    tally: _Tally, block: torch.Tensor, largest: float, granularities: tuple[Granularity, ...]
) -> None:
    """Add rows, with what each way of storing them loses."""
    tally.values += block.numel()
    tally.signal += float(block.square().sum(dtype=torch.float64))
    room, back = torch.empty_like(block), torch.empty_like(block)
    of_row = block.abs().amax(1, keepdim=True)
    for granularity in granularities:
        magnitudes = torch.full_like(of_row, largest) if granularity == "tensor" else of_row
        if granularity == "group":
            magnitudes = _of_groups(block)
        for form, most in _LARGEST.items():
            scale = (magnitudes / most).clamp_min_(torch.finfo(torch.float32).tiny)
            torch.div(block, scale, out=room)
            stored = _stored(room, form, most)
            torch.mul(stored, scale, out=back)
            back.sub_(block)
            noise = float(back.square_().sum(dtype=torch.float64))
            tally.noise[form, granularity] = tally.noise.get((form, granularity), 0.0) + noise


def _of_groups(block: torch.Tensor) -> torch.Tensor:
    """Give the largest magnitude of each value's group, as (rows, columns)."""
    rows, columns = block.shape
    padded = torch.nn.functional.pad(block.abs(), (0, -columns % GROUP))
    of_group = padded.view(rows, -1, GROUP).amax(2, keepdim=True)
    return of_group.expand(-1, -1, GROUP).reshape(rows, -1)[:, :columns]


def _stored(scaled: torch.Tensor, form: Format, most: float) -> torch.Tensor:
    kind = _FLOAT8.get(form)
    if kind is None:
        return scaled.round_().clamp_(-most, most)
    return scaled.clamp_(-most, most).to(kind).to(scaled.dtype)


def _decibels(signal: float, noise: float) -> Figure:
    if not signal:
        return Unknown(ALL_ZERO)
    if not noise:
        return Unknown(NOTHING_LOST)
    return 10 * math.log10(signal / noise)


def width(found: tuple[Quantised, ...], dtype: str, size: int, count: int) -> Width:
    """Give the narrowest storage that is good enough; the dtype itself where none is.

    Args:
        found: what each way of storing loses.
        dtype: of the tensor now.
        size: bytes of its values now.
        count: values.
    """
    now = 8 * size / count
    best: Quantised | None = None
    for one in sorted(found, key=lambda one: (one.bits, -_number(one.sqnr_db))):
        if _number(one.sqnr_db) >= ENOUGH_DB and one.bits < now:
            best = one
            break
    if best is None:
        most = max((_number(one.sqnr_db) for one in found if one.bits < now), default=-math.inf)
        why = f"the best has {most:.1f} dB" if math.isfinite(most) else "nothing is narrower"
        return Width(dtype, "", now, 0.0, 0, f"{why}: it stays as it is")
    decibels = _number(best.sqnr_db)
    is_exact = math.isinf(decibels)
    return Width(
        format=best.format,
        granularity=best.granularity,
        bits=best.bits,
        error=0.0 if is_exact else 10 ** (-decibels / 20),
        saved_bytes=max(0, size - math.ceil(best.bits * count / 8)),
        why=NOTHING_LOST if is_exact else f"{decibels:.1f} dB",
    )


def _number(figure: Figure) -> float:
    return math.inf if isinstance(figure, Unknown) else figure
