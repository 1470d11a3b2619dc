"""GPUs by their vendors' data sheets, from the table ``data_sheets.csv`` beside this file.

1. Peaks are dense: half of what a sheet says for 2:4 sparsity. Of GeForce cards those with float32
   accumulation, which is what torch asks for. In TFLOPS, 10^12 a second.
2. ``float32`` is the rate of TF32 where there is one: torch uses it for convolutions by default,
   and no least time may be above a measured one. ``vector`` is what the cores outside of the matrix
   units reach in float32: pointwise operators run there.
3. GB and MB are the sheets' own, of 10^9 and 10^6 bytes: drivers report a little more.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

_TABLE = Path(__file__).with_name("data_sheets.csv")
_DTYPES = ("float64", "float32", "float16", "bfloat16", "int8")
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


class DataSheet(Struct, frozen=True, eq=False):
    """One device, as its vendor describes it."""

    name: str
    """As ``--on`` takes it."""
    title: str
    memory_bytes: float
    bytes_per_second: float
    """Of its memory."""
    l2_bytes: float
    """Of its last cache. The sheets have no rate of it: what fits there may cost nothing."""
    flops_per_second: Mapping[str, float]
    """Of matrix products, by dtype as torch names it."""
    vector_flops_per_second: float
    """Of everything else, float32."""
    watts: float
    """Power limit of the board."""
    source: str


@cache
def data_sheets() -> tuple[DataSheet, ...]:
    """Return all devices, the oldest first."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(map(_sheet, csv.DictReader(file)))


def data_sheet(name: str) -> DataSheet | None:
    """Return the device of a name, however it is written (``h100_sxm``); None where none has it."""
    wanted = _plain(name)
    return next((one for one in data_sheets() if _plain(one.name) == wanted), None)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _sheet(row: dict[str, str]) -> DataSheet:
    rates = {dtype: float(row[dtype]) * 1e12 for dtype in _DTYPES if row[dtype]}
    if row["float8"]:
        rates |= dict.fromkeys(_FLOAT8, float(row["float8"]) * 1e12)
    return DataSheet(
        name=row["name"],
        title=row["title"],
        memory_bytes=float(row["memory_GB"]) * 1e9,
        bytes_per_second=float(row["GB_per_s"]) * 1e9,
        l2_bytes=float(row["L2_MB"]) * 1e6,
        flops_per_second=rates,
        vector_flops_per_second=float(row["vector"]) * 1e12,
        watts=float(row["watts"]),
        source=row["source"],
    )
