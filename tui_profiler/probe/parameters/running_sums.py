"""Types of 32 bits and more: sums in float64, piece by piece, and a table of magnitudes.

Each piece is taken about its own mean and joined to those before, so that neither the size of a
tensor nor a mean far from 0 costs digits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from tui_profiler.probe.parameters.distribution import Distribution, distribution, of_values
from tui_profiler.probe.parameters.moments import Sums, joined, sums_of
from tui_profiler.probe.parameters.values import Values

FEW_VALUES = 1 << 14
"""So few are sorted: their histogram is exact wherever its edges are."""
SUMMED_AT_ONCE = 1 << 16
"""On the CPU: as float64 twice half a MiB, which its second cache holds."""
_FRACTION_BITS = 7


def sum_up(values: Values, read: Callable[[int], None]) -> tuple[Sums, Distribution]:
    """Go through all values once."""
    if values.rows * values.columns <= FEW_VALUES:
        return _few(values, read)
    is_single = values.dtype in (torch.float32, torch.complex64)
    steps = _Steps(is_double=not is_single)
    sums = Sums()
    for piece in values.pieces():
        reals = _as_reals(piece)
        is_finite = steps.add(reals)
        for part in reals.split(SUMMED_AT_ONCE) if reals.device.type == "cpu" else (reals,):
            sums = joined(sums, _of_part(part) if is_finite else _of_odd_part(part))
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
    """Give float32 or float64: complex values as the two that they are made of."""
    if piece.is_complex():
        piece = torch.view_as_real(piece).reshape(-1)
    return piece if piece.dtype in (torch.float32, torch.float64) else piece.double()


def _of_odd_part(part: torch.Tensor) -> Sums:
    finite = part[part.isfinite()]
    nans = int(part.isnan().sum())
    apart = Sums(nans=nans, infinities=part.numel() - finite.numel() - nans)
    return joined(_of_part(finite) if finite.numel() else Sums(), apart)


def _of_part(part: torch.Tensor) -> Sums:
    """Give the sums of finite values, at least one."""
    wide = part.double() if part.dtype == torch.float32 else part.clone()
    count = wide.numel()
    mean = wide.mean()
    square = wide.abs()
    magnitudes = square.sum()
    away = wide.sub_(mean)
    torch.mul(away, away, out=square)
    smallest, largest = torch.aminmax(part)
    figures = torch.stack(
        [
            *(mean, away.sum(), square.sum(), torch.dot(square, away), torch.dot(square, square)),
            *(magnitudes, smallest.double(), largest.double()),
        ]
    )
    middle, left, second, third, fourth, magnitude, minimum, maximum = figures.tolist()
    left /= count
    zeros = 0
    if minimum <= 0 <= maximum:
        zeros = count - int(torch.count_nonzero(part))
    return Sums(
        count=count,
        # What rounding left in the mean is taken out of it and of the sums about it.
        mean=middle + left,
        second=second - count * left**2,
        third=third - 3 * left * second,
        fourth=fourth - 4 * left * third,
        magnitudes=magnitude,
        minimum=minimum,
        maximum=maximum,
        zeros=zeros,
    )


class _Steps:
    """Counts of the first bits of each value: sign, exponent, 7 bits of the fraction.

    Places in the order of the bits taken as whole numbers: -0, growing negative magnitudes, then 0
    in the middle, growing positive ones. What is no number ends each half.
    """

    def __init__(self, *, is_double: bool) -> None:
        self._is_double = is_double
        self._shift = 45 if is_double else 16
        self._half = 1 << (18 if is_double else 15)
        self._counts = torch.zeros(2 * self._half, dtype=torch.int64)

    def add(self, piece: torch.Tensor) -> bool:
        """Count a piece; gives whether all of it is finite."""
        bits = piece.view(torch.int64 if self._is_double else torch.int32)
        places = torch.bitwise_right_shift(bits, self._shift).add_(self._half)
        found = torch.bincount(places, minlength=2 * self._half).cpu()
        self._counts += found
        odd = 1 << _FRACTION_BITS
        return not (found[-odd:].any() or found[self._half - odd : self._half].any())

    def table(self) -> Distribution:
        """Give what was counted."""
        kind, whole = (np.float64, np.int64) if self._is_double else (np.float32, np.int32)
        starts = np.arange(-self._half, self._half, dtype=whole) << self._shift
        with np.errstate(invalid="ignore"):  # Patterns of NaN, which are left out below.
            near = starts.view(kind).astype(np.float64)
            far = (starts + (whole(1) << whole(self._shift))).view(kind).astype(np.float64)
        most = float(np.finfo(kind).max)
        far = np.where(np.isfinite(far), far, np.copysign(most, near))
        return distribution(near, far, self._counts.numpy(), step=np.dtype(kind))
