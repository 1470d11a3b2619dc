"""What a forward in an operator window spends outside of operators, and inside opaque modules."""

from __future__ import annotations

from tui_profiler.messages.base import Moment, OnWire, Part

COMPILED_CODE = "compiled code"
"""Stands for what a compiled region runs itself, without operators: its fused kernels."""


class RegionPart(Part, frozen=True):
    """One kind of operator that an opaque module called, in the last window."""

    name: str
    """``aten::addmm``, or ``COMPILED_CODE``."""
    calls: int
    seconds: float


class Region(Part, frozen=True):
    """A module whose parts are not called on their own, opened by an operator window."""

    node: int
    why: str
    """Why it is opaque."""
    parts: tuple[RegionPart, ...]
    """With the most time first, at most 20; what they call is in them."""


class WindowTimes(OnWire, frozen=True):
    """Where the time of modules goes, in the last forward in an operator window.

    The columns are packed native arrays, one entry for each module that was called, in the order of
    ``nodes``. A module's ``seconds`` are the times of its operators and of those of all modules
    below it, ``other`` and ``host``.
    """

    at: Moment
    """Seconds since the command was started."""
    nodes: bytes
    """uint32: index of the module's node."""
    seconds: bytes
    """float32: in the module, all its calls together."""
    host: bytes
    """float32: of them, in which no operator ran: Python, and waiting."""
    other: bytes
    """float32: of them, in compiled code, in operators that no node stands for, and in calling
    those that one does: an operator may choose another, which is what was traced."""
    regions: tuple[Region, ...] = ()
