"""Numbers to text: three digits, fixed widths, each rule once.

Counts use decimal prefixes (K M G T = 10³…), bytes binary ones (KiB…), rates decimal ones.
Rounding carries: 999.5 is ``1.00K``, 9.995 is ``10.0``. A figure that is 0 or does not apply is
``·``, one that is unavailable is ``–``, one that is not known yet is ``…``.
"""

import math
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

ZERO = "·"
UNAVAILABLE = "–"
PENDING = "…"

_DECIMAL = ("", "K", "M", "G", "T", "P", "E")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_PER_UNIT = {"µs": 1e6, "ms": 1e3}
_DTYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "qint": "qi"}


def written(value: float | None, write: Callable[[float], str], missing: str = UNAVAILABLE) -> str:
    """Return a figure as ``write`` does, ``missing`` where there is none."""
    return missing if value is None else write(value)


def three_digits(value: float) -> str:
    """Return 0 <= value < 1000 with three digits: ``9.41``, ``25.6``, ``118``."""
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def count(value: float) -> str:
    """Return a count in at most five cells: ``25.6M``, ``9.41K``, ``128``, ``·`` for none."""
    if value == 0:
        return ZERO
    if value < 999.5:
        return f"{value:.0f}" if float(value).is_integer() else three_digits(value)
    scaled, prefix = _scaled(value, 1000.0, _DECIMAL)
    return three_digits(scaled) + prefix


def per_second(value: float) -> str:
    """Return a rate without its unit: ``9.41``, ``118``, ``9.41K``."""
    return three_digits(value) if value < 999.5 else count(value)


def quantity(value: float, unit: str) -> str:
    """Return a count with its unit: ``116 MMAC``, ``231 MFLOP``, ``259 GFLOP/s``."""
    scaled, prefix = _scaled(value, 1000.0, _DECIMAL)
    digits = f"{scaled:.0f}" if not prefix and float(scaled).is_integer() else three_digits(scaled)
    return f"{digits} {prefix}{unit}"


def size(value: float) -> str:
    """Return bytes: ``2.63 MiB``, ``196 KiB``, ``512 B``; at most eight cells."""
    scaled, unit = _scaled(value, 1024.0, _BINARY)
    return f"{scaled:.0f} B" if unit == "B" else f"{three_digits(scaled)} {unit}"


def _scaled(value: float, step: float, prefixes: tuple[str, ...]) -> tuple[float, str]:
    last = len(prefixes) - 1
    index = 0
    while index < last and value >= 999.5:
        value /= step
        index += 1
    return value, prefixes[index]


class TimeColumn(Struct, frozen=True):
    """How the times of a column are written: in one unit, from a second on with their own."""

    unit: Literal["µs", "ms"]
    decimals: int
    one_more_below: float = 0.0
    """Figures below it, in the unit, have one decimal more."""


_FITTED = (TimeColumn("µs", 0, 999.95), TimeColumn("ms", 2), TimeColumn("ms", 2, 0.0995))


def fitted_times(seconds: float, before: TimeColumn | None = None) -> TimeColumn:
    """Choose a column of six cells whose figures have the digits that each has room for.

    Args:
        seconds: the largest figure. Below 10 ms the unit is µs. From a second on it remains ms, for
            the sake of the small ones: those below 0.1 ms have three decimals.
        before: how it was written so far: kept until ``seconds`` is twice beyond its limits.
    """
    wanted = _magnitude(seconds)
    is_clear = wanted == _magnitude(seconds * 2) == _magnitude(seconds / 2)
    return _FITTED[wanted] if before is None or is_clear else before


def _magnitude(seconds: float) -> int:
    return 0 if seconds < 10e-3 else 1 if seconds < 1.0 else 2


def aligned_times(seconds: float) -> TimeColumn:
    """Choose a column of seven cells whose figures have as many decimals all the way down.

    Args:
        seconds: the largest figure.
    """
    if seconds < 1e-3:
        return TimeColumn("µs", 0, 99999.95)
    if seconds < 10e-3:
        return TimeColumn("µs", 0)
    return TimeColumn("ms", 2 if seconds < 1.0 else 3)


def in_column(seconds: float, column: TimeColumn) -> str:
    """Return a time in its column: ``36.50``, from a second on with its unit: ``12.3 s``.

    One that rounds to nothing is less than the least figure: ``<0.01``, never ``0.00``.
    """
    if seconds >= 0.999995:
        return _long_time(seconds)
    value = seconds * _PER_UNIT[column.unit]
    decimals = column.decimals + (value < column.one_more_below)
    text = f"{value:.{decimals}f}"
    if value > 0 and not text.strip("0."):
        return f"<{10**-decimals:.{decimals}f}"
    return text


def _long_time(seconds: float) -> str:
    """Return a second and more in at most six cells."""
    if seconds < 9999.5:
        return f"{three_digits(seconds) if seconds < 999.5 else round(seconds)} s"
    hours = seconds / 3600
    return f"{three_digits(hours)} h" if hours < 999.5 else ">999 h"


def duration(seconds: float) -> str:
    """Return a time with its own unit, three digits: ``0.92 ms``, ``36.5 ms``, ``1.20 s``."""
    if seconds < 99.95e-6:
        return f"{three_digits(seconds * 1e6)} µs"
    if seconds < 0.9995:
        return f"{three_digits(seconds * 1e3)} ms"
    return f"{three_digits(seconds)} s" if seconds < 999.5 else clock(seconds)


def clock(seconds: float) -> str:
    """Return a long time: ``16m 40s``, ``3h 05m``; a dash for what is not a number."""
    if not math.isfinite(seconds):
        return UNAVAILABLE
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_rest = divmod(minutes, 60)
    return f"{hours}h {minutes_rest:02d}m" if hours else f"{minutes}m {rest:02d}s"


def share_cell(share: float) -> str:
    """Return a share of 0 to 1 for a column, in percent without its sign: ``33``, ``<1``."""
    if share == 0:
        return ZERO
    percent = share * 100
    # At exactly one half, rounding goes to the even 0, which would say that there is nothing.
    return "<1" if percent < 0.5 else f"{max(percent, 1):.0f}"


def share(value: float) -> str:
    """Return a share of 0 to 1 in a panel: ``2.4 %``, ``64 %``, ``−6.0 %``."""
    percent = value * 100
    text = f"{percent:.1f} %" if abs(percent) < 9.95 else f"{percent:.0f} %"
    return text.replace("-", "−")


def rate(value: float, unit: str) -> str:
    """Return a rate with a decimal prefix: ``259 GFLOP/s``, ``3.10 GB/s``."""
    return quantity(value, unit)


def thousands(value: int) -> str:
    """Return a count in full: ``1,284``."""
    return f"{value:,}"


def intensity(flops_per_byte: float) -> str:
    """Return an arithmetic intensity: ``83.8``."""
    return three_digits(flops_per_byte) if flops_per_byte < 999.5 else count(flops_per_byte)


def shape(axes: tuple[int, ...]) -> str:
    """Return a shape: ``1×256×14×14``; a scalar has none: ``scalar``."""
    return "×".join(map(str, axes)) if axes else "scalar"


def shape_cell(axes: tuple[int, ...]) -> str:
    """Return a shape for a cell of a file: ``1x64x56x56``; that of a scalar is empty."""
    return "x".join(map(str, axes))


def dtype(name: str) -> str:
    """Shorten torch's name of a type: ``float32`` is ``f32``, ``bfloat16`` is ``bf16``."""
    letters = name.rstrip("0123456789")
    return _DTYPES.get(letters, letters) + name[len(letters) :]


def energy(joules: float) -> str:
    """Return an energy, three digits: ``312 mJ``, ``14.0 µJ``, ``3.21 kJ``; ``0 J`` below a pJ."""
    if joules < 1e-12:
        return "0 J"
    for factor, unit in ((1e-3, "kJ"), (1.0, "J"), (1e3, "mJ"), (1e6, "µJ")):
        if joules * factor >= 0.9995:
            return f"{three_digits(joules * factor)} {unit}"
    return f"{three_digits(joules * 1e9)} nJ"


def rough_energy(joules: float) -> str:
    """Return an energy that is an estimate, two digits: ``310 mJ``, ``14 µJ``, ``3.2 kJ``."""
    digits, _, unit = energy(float(f"{joules:.1e}")).partition(" ")
    whole, _, fraction = digits.partition(".")
    return f"{digits[:-1] if fraction else whole} {unit}".replace(". ", " ")


def degrees(celsius: float) -> str:
    """Return a temperature: ``71 °C``."""
    return f"{celsius:.0f} °C"


def frequency(hertz: float) -> str:
    """Return a clock: ``2.6 GHz``, ``800 MHz``."""
    return f"{hertz / 1e9:.1f} GHz" if hertz >= 999.5e6 else f"{hertz / 1e6:.0f} MHz"
