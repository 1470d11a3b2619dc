"""Statistics of one tensor, from counts of bit patterns or from running sums.

Types of up to 16 bits: exact counts of each bit pattern. Types of 32 bits and more: sums in float64
per piece, and a table of magnitudes. The moments of a piece are about the mean of the earlier ones,
or about its own where that is far away: neither size nor a mean far from 0 costs precision.
"""

import math
import threading
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from tui_profiler.figures.moments import Sums, joined
from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import Moments
from tui_profiler.probe.parameters.distribution import (
    Counts,
    Distribution,
    Numbers,
    Step,
    distribution,
    of_values,
)
from tui_profiler.probe.parameters.values import Values

_NEAR_ZERO = 1e-3
"""Of the root mean square."""


def sums_of(values: Numbers, counts: Counts | None = None) -> Sums:
    """Return the sums of finite values in memory, each so many times."""
    if not values.size:
        return Sums()
    times = None if counts is None else counts.astype(np.float64)
    count = values.size if counts is None else int(counts.sum())
    mean = float(values.sum() if times is None else values @ times) / count
    away = values - mean
    # Correct the rounding error of the mean.
    mean += float(away.sum() if times is None else away @ times) / count
    away = values - mean
    square = away * away
    weighted = square if times is None else square * times
    sizes = np.abs(values)
    zeros = values.size - np.count_nonzero(values) if counts is None else counts[sizes == 0].sum()
    return Sums(
        count=count,
        mean=mean,
        second=float(weighted.sum()),
        third=float(weighted @ away),
        fourth=float(weighted @ square),
        magnitudes=float(sizes.sum() if times is None else sizes @ times),
        minimum=float(values.min()),
        maximum=float(values.max()),
        zeros=int(zeros),
    )


def moments(sums: Sums, table: Distribution) -> Moments:
    """Return the moments of sums; near zeros are counted in the table."""
    if not sums.count:
        nothing = Unknown("no value is finite")
        none = math.nan
        return Moments(
            *(0, sums.nans, sums.infinities, 0, 0, 0.0),
            *(none, none, none, none),
            *(nothing, nothing, 0.0, 0.0),
        )
    mean_square = sums.second / sums.count + sums.mean**2
    below = float(table.parted(np.array([_NEAR_ZERO * math.sqrt(mean_square)]))[0])
    near = int(table.counts[np.abs(table.near) < below].sum()) if below else sums.zeros
    return Moments(
        count=sums.count,
        nans=sums.nans,
        infinities=sums.infinities,
        zeros=sums.zeros,
        near_zeros=near,
        near_zero_below=below,
        mean=sums.mean,
        std=math.sqrt(sums.second / sums.count),
        minimum=sums.minimum,
        maximum=sums.maximum,
        skewness=_over(sums.third, sums, 1.5),
        kurtosis=_less(_over(sums.fourth, sums, 2.0), 3.0),
        l1=sums.magnitudes,
        l2=math.sqrt(mean_square * sums.count),
    )


def _over(sum_of_powers: float, sums: Sums, power: float) -> Figure:
    variance = sums.second / sums.count
    if sums.minimum == sums.maximum or not variance:
        return Unknown("all values are equal")
    scale = variance**power if variance < 1e150 else math.inf
    found = sum_of_powers / sums.count / scale if scale else math.inf
    if not math.isfinite(found) or not math.isfinite(sum_of_powers) or not math.isfinite(scale):
        return Unknown("powers of its values are beyond float64")
    return found


def _less(figure: Figure, much: float) -> Figure:
    return figure if isinstance(figure, Unknown) else figure - much


def is_narrow(dtype: torch.dtype) -> bool:
    """Return whether each value is a pattern of at most 16 bits."""
    return dtype.itemsize <= 2 and not dtype.is_complex


def count_bits(values: Values, read: Callable[[int], None]) -> tuple[Sums, Distribution]:
    """Go through all values once."""
    bits = 8 * values.dtype.itemsize
    counts = torch.zeros(1 << bits, dtype=torch.int64)
    for piece in values.pieces():
        counts += torch.bincount(_places(piece), minlength=1 << bits).cpu()
        read(piece.numel() * piece.element_size())
    table = _values(values.dtype)
    found = counts.numpy()
    finite = np.isfinite(table)
    sums = sums_of(table[finite & (found > 0)], found[finite & (found > 0)])
    apart = Sums(
        nans=int(found[np.isnan(table)].sum()), infinities=int(found[np.isinf(table)].sum())
    )
    # Bins of integers may be narrower than 1: then each value has its bin.
    known = np.unique(table[finite]) if values.dtype.is_floating_point else None
    return joined(sums, apart), distribution(table, table, found, representable=known)


def _places(piece: torch.Tensor) -> torch.Tensor:
    """Return the pattern of each value as a number from 0 on."""
    if piece.element_size() == 1:
        return piece.view(torch.uint8)
    return piece.view(torch.int16).to(torch.int32).add_(1 << 15)


def _values(dtype: torch.dtype) -> Numbers:
    """Return the value of each pattern, in the order of ``_places``."""
    if dtype == torch.bool:
        return np.minimum(np.arange(256), 1).astype(np.float64)
    if dtype.itemsize == 1:
        patterns = torch.arange(256, dtype=torch.uint8)
    else:
        patterns = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
    every = patterns.view(dtype)
    # float8 is only known to convert to float32.
    wide = every.to(torch.float32 if dtype.is_floating_point else torch.int64)
    found: Numbers = wide.double().numpy()
    return found


_FEW_VALUES = 1 << 14
"""Fewer are sorted: their histogram is exact for any edges."""
_SUMMED_AT_ONCE = 1 << 16
"""On the CPU: two arrays of 0.5 MiB in float64, which fit into L2."""
_FRACTION_BITS = 7
_FAR = 0.01
"""Of the variance: a mean whose squared distance is larger costs precision."""
_OF_THREAD = threading.local()


def sum_up(values: Values, read: Callable[[int], None]) -> tuple[Sums, Distribution]:
    """Go through all values once."""
    if values.rows * values.columns <= _FEW_VALUES:
        return _few(values, read)
    is_single = values.dtype in (torch.float32, torch.complex64)
    steps = _Steps(is_double=not is_single)
    sums = Sums()
    for piece in values.pieces():
        reals = _as_reals(piece)
        has_zeros, is_finite = steps.add(reals)
        size = _SUMMED_AT_ONCE if reals.device.type == "cpu" else max(reals.numel(), 1)
        for part in torch.split(reals, size):
            if is_finite:
                there = _of_part(part, sums.mean, has_zeros=has_zeros)
            else:
                there = _of_odd_part(part, sums.mean)
            sums = joined(sums, there)
        read(piece.numel() * piece.element_size())
    return sums, steps.table()


def _few(values: Values, read: Callable[[int], None]) -> tuple[Sums, Distribution]:
    parts = []
    for piece in values.pieces():
        parts.append(_as_reals(piece).double().cpu().numpy().copy())
        read(piece.numel() * piece.element_size())
    whole = np.concatenate(parts) if parts else np.empty(0)
    finite = np.isfinite(whole)
    if finite.all():
        return sums_of(whole), of_values(whole)
    nans = int(np.isnan(whole).sum())
    apart = Sums(nans=nans, infinities=int((~finite).sum()) - nans)
    return joined(sums_of(whole[finite]), apart), of_values(whole[finite])


def _as_reals(piece: torch.Tensor) -> torch.Tensor:
    """Return float32 or float64; a complex value is two."""
    if piece.is_complex():
        piece = torch.view_as_real(piece).reshape(-1)
    return piece if piece.dtype in (torch.float32, torch.float64) else piece.double()


def _of_odd_part(part: torch.Tensor, about: float) -> Sums:
    finite = part[part.isfinite()]
    nans = int(part.isnan().sum())
    apart = Sums(nans=nans, infinities=part.numel() - finite.numel() - nans)
    return joined(_of_part(finite, about, has_zeros=True) if finite.numel() else Sums(), apart)


def _of_part(part: torch.Tensor, about: float, *, has_zeros: bool, is_last: bool = False) -> Sums:
    """Return the sums of finite values, at least one.

    Args:
        part: (values,).
        about: near their mean; otherwise they are summed again, about their own.
        has_zeros: some may be 0.
        is_last: the second time.
    """
    count = part.numel()
    away = _room("wide", count, torch.float64, part.device).copy_(part)
    square = torch.abs(away, out=_room("square", count, torch.float64, part.device))
    magnitudes = square.sum()
    away.sub_(about)
    torch.mul(away, away, out=square)
    smallest, largest = torch.aminmax(part)
    figures = torch.stack(
        [
            *(away.sum(), square.sum(), torch.dot(square, away), torch.dot(square, square)),
            *(magnitudes, smallest.double(), largest.double()),
        ]
    )
    first, second, third, fourth, magnitude, minimum, maximum = figures.tolist()
    step = first / count
    if not is_last and step * step > _FAR * max(second / count - step * step, 0.0):
        return _of_part(part, about + step, has_zeros=has_zeros, is_last=True)
    return Sums(
        count=count,
        mean=about + step,
        second=second - count * step**2,
        third=third - 3 * step * second + 2 * count * step**3,
        fourth=fourth - 4 * step * third + 6 * step**2 * second - 3 * count * step**4,
        magnitudes=magnitude,
        minimum=minimum,
        maximum=maximum,
        zeros=count - int(torch.count_nonzero(part)) if has_zeros else 0,
    )


def _room(name: str, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return a buffer of this thread, valid until the next call.

    Memory that is freed after each piece is mapped again by the system, page by page.
    """
    rooms: dict[str, torch.Tensor] = _OF_THREAD.__dict__
    room = rooms.get(name)
    if room is None or room.numel() < count or room.dtype != dtype or room.device != device:
        room = rooms[name] = torch.empty(count, dtype=dtype, device=device)
    return room[:count]


class _Steps:
    """Counts of the leading bits of each value: sign, exponent, 7 bits of the fraction.

    Indices are the bits as integers: -0, growing negative magnitudes, then 0 in the middle, growing
    positive ones. Infinity and NaN end each half.
    """

    def __init__(self, *, is_double: bool) -> None:
        self._is_double = is_double
        self._shift = 45 if is_double else 16
        self._half = 1 << (18 if is_double else 15)
        self._counts = torch.zeros(2 * self._half, dtype=torch.int64)

    def add(self, piece: torch.Tensor) -> tuple[bool, bool]:
        """Count a piece; return whether it may have zeros, and whether all is finite."""
        bits = piece.view(torch.int64 if self._is_double else torch.int32)
        places = _room("places", bits.numel(), bits.dtype, bits.device)
        torch.bitwise_right_shift(bits, self._shift, out=places).add_(self._half)
        found = torch.bincount(places, minlength=2 * self._half).cpu()
        self._counts += found
        odd = 1 << _FRACTION_BITS
        is_odd = found[-odd:].any() or found[self._half - odd : self._half].any()
        return bool(found[0] or found[self._half]), not is_odd

    def table(self) -> Distribution:
        """Return the table of the counts."""
        near, far = _ends(is_double=self._is_double)
        step: Step = np.float64 if self._is_double else np.float32
        return distribution(near, far, self._counts.numpy(), step)


@lru_cache(maxsize=2)
def _ends(*, is_double: bool) -> tuple[Numbers, Numbers]:
    """Return the ends of each step, towards 0 and away from it, by index."""
    kind = np.float64 if is_double else np.float32
    half, shift = (1 << 18, 45) if is_double else (1 << 15, 16)
    starts = np.arange(-half, half + 1, dtype=np.int64)
    patterns = starts << shift if is_double else (starts << shift).astype(np.int32)
    with np.errstate(invalid="ignore"):  # Patterns of NaN, removed later.
        ends = patterns.view(kind).astype(np.float64)
    near, far = ends[:-1], ends[1:]
    return near, np.where(np.isfinite(far), far, np.copysign(float(np.finfo(kind).max), near))
