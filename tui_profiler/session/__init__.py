"""What is known about one process, and the only function that makes it grow."""

from __future__ import annotations

from tui_profiler.session.apply import apply
from tui_profiler.session.state import EMPTY, History, Log, Session, StageRecord
from tui_profiler.session.timing import Timing, Timings
from tui_profiler.session.tree import Tree

__all__ = [
    "EMPTY",
    "History",
    "Log",
    "Session",
    "StageRecord",
    "Timing",
    "Timings",
    "Tree",
    "apply",
]
