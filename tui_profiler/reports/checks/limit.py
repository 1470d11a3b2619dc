"""The right side of a check: a number with its prefix or unit, or a word."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.reports.json_values import Json

Quantity: TypeAlias = Literal["time", "bytes", "share", "number"]

_NUMBER = re.compile(r"([-+]?(?:\d[\d_]*)?\.?\d+(?:[eE][-+]?\d+)?|[-+]?\d+\.)\s*([A-Za-zµμ%]*)")
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGTPE", start=1)}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_SHARES = (
    *("share", "ratio", "interval[]", "utilisation", "core_utilisation[]", "closure"),
    *("fragmentation", "parallel_efficiency", "sparsity", "pruned[].loss", "prunable"),
)
_NAMES = {"time": "seconds", "bytes": "bytes", "share": "a share of 0 to 1", "number": "a number"}


class CheckError(ValueError):
    """A check that cannot be made: what is wrong with it, in a sentence without its point."""


class Limit(Struct, frozen=True):
    """What a figure is compared with."""

    operator: str
    text: str
    """As typed."""
    value: float | None
    """None for a word."""
    unit: str = ""
    """As typed, behind the number."""
    scale: float = 1.0
    """What the unit stands for."""


def parse_limit(operator: str, text: str, pattern: str) -> Limit:
    """Read a limit on the figure of that path.

    Raises:
        CheckError: it is no number, or its unit is not the figure's.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        if operator == "==" and text:
            return Limit(operator, text, None)
        raise CheckError(f'"{text}" is not a number such as 10, 0.5, 5G, 2GiB, 10ms or 50%')
    unit, quantity = found[2], quantity_of(pattern)
    scale = _scale(unit, quantity)
    if scale is None:
        raise CheckError(f'"{text}" is not a limit for {pattern}, which is {_NAMES[quantity]}')
    return Limit(operator, text, float(found[1].replace("_", "")) * scale, unit, scale)


def quantity_of(pattern: str) -> Quantity:
    """Tell what the figure of a path is counted in, by its name."""
    name = pattern.rpartition(".")[2]
    if (name.endswith("_s") and not name.endswith("per_s")) or name == "seconds":
        return "time"
    if pattern.endswith(_SHARES) or pattern == "parameters.tensors[].width.error":
        return "share"
    in_bytes = pattern.startswith("peak_memory.") or ".peak_memory." in pattern
    return (
        "bytes" if in_bytes or "bytes" in name or name in ("memory", "total_memory") else "number"
    )


def is_within(value: Json, limit: Limit, path: str) -> bool:
    """Tell whether a figure is within a limit.

    Raises:
        CheckError: one of them is a word and the other is none, or words are put in an order.
    """
    if isinstance(value, bool | str):
        if limit.operator != "==":
            raise CheckError(f"{path} is a word, which only == compares: it is {_word(value)}")
        return _word(value) == limit.text
    if limit.value is None:
        raise CheckError(f'{path} is a number, which "{limit.text}" is not')
    assert isinstance(value, int | float)
    match limit.operator:
        case "<=":
            return value <= limit.value
        case ">=":
            return value >= limit.value
        case "<":
            return value < limit.value
        case ">":
            return value > limit.value
        case _:
            return value == limit.value


def as_typed(value: Json, limit: Limit) -> str:
    """Return a figure in the unit of its limit, with as many digits as tell it from the limit."""
    if isinstance(value, bool | str):
        return _word(value)
    if not isinstance(value, int | float):
        return "–"
    scaled = value / limit.scale
    for digits in (6, 17):
        text = f"{scaled:.{digits}g}"
        if limit.value is None or value == limit.value or float(text) != limit.value / limit.scale:
            break
    return f"{text}{limit.unit}"


def _word(value: bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _scale(unit: str, quantity: Quantity) -> float | None:
    """Return what a unit stands for; None where it is none, or not one of such a figure."""
    if quantity == "time":
        return 1.0 if not unit else _SECONDS.get(unit)
    if unit == "%":
        return 0.01 if quantity == "share" else None
    if quantity == "bytes":
        unit = unit.removesuffix("B")
        return _BINARY.get(unit) or _PREFIXES.get(unit)
    return None if quantity == "share" and unit else _BINARY.get(unit) or _PREFIXES.get(unit)
