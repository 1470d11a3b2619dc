"""One tensor to be looked at, wherever its values lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tui_profiler.probe.parameters.values import Values


@dataclass(frozen=True)
class Subject:
    """A tensor, its names, and how to get at its values."""

    owner: str
    """Dotted path of the module that owns it."""
    name: str
    """Full name."""
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    """Of its values where they lie: those of an expanded tensor once."""
    storage_bytes: int
    alignment: int
    """0 where not known."""
    is_buffer: bool
    is_contiguous: bool
    shared_with: str
    """Full name under which the same values were seen first; empty elsewhere."""
    values: Callable[[], Values] | None
    """Gives access to them; None where there are none."""
    heads: int = 0
    """Of the attention that its rows belong to; 0 elsewhere or where not known."""
    why_none: str = ""
    """Why there are none."""


MOST_ALIGNMENT = 4096


def alignment_of(place: int) -> int:
    """Give the largest power of two, up to a page, that divides an address or an offset."""
    return min(place & -place, MOST_ALIGNMENT) if place else MOST_ALIGNMENT
