"""A figure, or the reason why there is none."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Unknown(Struct, frozen=True, rename={"reason": "unavailable"}):
    """A figure that could not be had."""

    reason: str
    """A noun phrase that follows ``unavailable:``, such as ``RAPL counters need root``."""


Figure: TypeAlias = float | Unknown
"""A number in the unit that its field names, or ``Unknown``."""


def known(figure: Figure | None) -> float | None:
    """Give the number, or None where there is none."""
    return None if isinstance(figure, Unknown) else figure
