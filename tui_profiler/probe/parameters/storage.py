"""Storage of a tensor in fewer bits: quantised, and compressed.

Quantisation is symmetric, without a zero point: the largest magnitude becomes 127 (int8), 7 (int4)
or the largest value of a float8 type; values are rounded to nearest, ties to even. Source:
torch.ao's symmetric observers; OCP 8-bit floating point, revision 1.0.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import (
    ALL_ZERO,
    NOTHING_LOST,
    Compression,
    Format,
    Granularity,
    Quantised,
    Sampled,
    Width,
)
from tui_profiler.probe.parameters.values import Values, evenly, picked

_GROUP = 128
_SCALE_BITS = 32
"""Of a scale: float32."""
ENOUGH_DB = 30.0
"""SQNR, 3.2 % of the norm: a convention here. Its effect on the output is another question."""
MOST_VALUES = 1 << 18
"""Quantised values; of a larger tensor, whole rows evenly picked."""

LARGEST: dict[Format, float] = {
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
    """Quantise and dequantise in every format with every granularity.

    Args:
        values: the tensor.
        largest: its largest magnitude, for the scale of a whole tensor.
        check: raises if the work was stopped.
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
            group=_GROUP if granularity == "group" else 0,
        )
        for form in LARGEST
        for granularity in _granularities(values)
    )
    return found, Sampled(tally.values, of)


def _granularities(values: Values) -> tuple[Granularity, ...]:
    """Return the granularities that differ for this shape."""
    rows: tuple[Granularity, ...] = ("channel",) if values.rows > 1 else ()
    groups: tuple[Granularity, ...] = ("group",) if values.columns > _GROUP else ()
    return ("tensor", *rows, *groups)


def _scale_bits(granularity: Granularity, values: Values) -> float:
    groups = math.ceil(values.columns / _GROUP)
    scales = {"tensor": 1, "channel": values.rows, "group": values.rows * groups}[granularity]
    return _SCALE_BITS * scales / (values.rows * values.columns)


def _add(
    tally: _Tally, block: torch.Tensor, largest: float, granularities: tuple[Granularity, ...]
) -> None:
    """Add rows, with the error of each format and granularity."""
    tally.values += block.numel()
    tally.signal += float(block.square().sum(dtype=torch.float64))
    room, back = torch.empty_like(block), torch.empty_like(block)
    of_row = block.abs().amax(1, keepdim=True)
    for granularity in granularities:
        magnitudes = torch.full_like(of_row, largest) if granularity == "tensor" else of_row
        if granularity == "group":
            magnitudes = _of_groups(block)
        for form, most in LARGEST.items():
            scale = (magnitudes / most).clamp_min_(torch.finfo(torch.float32).tiny)
            torch.div(block, scale, out=room)
            torch.mul(stored(room, form, most), scale, out=back)
            back.sub_(block)
            noise = float(back.square_().sum(dtype=torch.float64))
            tally.noise[form, granularity] = tally.noise.get((form, granularity), 0.0) + noise


def _of_groups(block: torch.Tensor) -> torch.Tensor:
    """Return the largest magnitude of each value's group: (rows, columns)."""
    rows, columns = block.shape
    padded = torch.nn.functional.pad(block.abs(), (0, -columns % _GROUP))
    of_group = padded.view(rows, -1, _GROUP).amax(2, keepdim=True)
    return of_group.expand(-1, -1, _GROUP).reshape(rows, -1)[:, :columns]


def stored(scaled: torch.Tensor, form: Format, most: float) -> torch.Tensor:
    """Return scaled values as they are stored; ``most`` is the format's largest."""
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
    """Return the narrowest format with enough SQNR; the dtype itself where there is none.

    Args:
        found: SQNR of every format and granularity.
        dtype: of the tensor.
        size: bytes of its values.
        count: number of values.
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
        return Width(dtype, "", now, 0.0, 0, f"{why}: no change")
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


_SAMPLE_BYTES = 1 << 17
_PLACES = 4
"""Places of a sample: the codec's window is 32 KiB."""
_LEVEL = 6


def compression(values: Values) -> Compression | None:
    """Compress a sample; None where there are no values."""
    sample = _sample(values)
    size = values.dtype.itemsize
    count = sample.size // size
    if not count:
        return None
    planes = np.ascontiguousarray(sample.reshape(count, size).T)
    entropy = sum(_entropy_bits(plane) for plane in planes)
    return Compression(
        entropy_bits=entropy,
        bound=entropy / (8 * size),
        codec=f"zlib {_LEVEL}",
        ratio=len(zlib.compress(sample.data, _LEVEL)) / sample.size,
        planes_ratio=len(zlib.compress(planes.data, _LEVEL)) / sample.size,
        sampled=Sampled(count, values.rows * values.columns),
    )


def _sample(values: Values) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return bytes of whole values, from evenly spaced places."""
    row_bytes = values.columns * values.dtype.itemsize
    total = values.rows * row_bytes
    if total <= _SAMPLE_BYTES:
        return _bytes(values.block(0, values.rows))
    each = _SAMPLE_BYTES // _PLACES
    if row_bytes >= each:
        most = each // values.dtype.itemsize
        return np.concatenate(
            [_bytes(values.block(row, row + 1)[:, :most]) for row in evenly(_PLACES, values.rows)]
        )
    rows = max(1, each // row_bytes)
    starts = evenly(_PLACES, values.rows - rows + 1)
    return np.concatenate([_bytes(values.block(start, start + rows)) for start in starts])


def _bytes(block: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    flat = block.contiguous().view(-1).view(torch.uint8).cpu().numpy()
    return flat.copy()


def _entropy_bits(plane: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> float:
    counts = np.bincount(plane, minlength=256)
    shares = counts[counts > 0] / plane.size
    return float(-(shares * np.log2(shares)).sum()) + 0.0
