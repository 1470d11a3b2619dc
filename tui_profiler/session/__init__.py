"""What is known about one process, and the only function that changes it."""

from tui_profiler.session.apply import apply
from tui_profiler.session.columns import Operators, Timing, Timings
from tui_profiler.session.data_dependence import Bounded
from tui_profiler.session.state import EMPTY, History, Jump, Log, Remembered, Session, StageRecord
from tui_profiler.session.tree import Tree

__all__ = [
    "EMPTY",
    "Bounded",
    "History",
    "Jump",
    "Log",
    "Operators",
    "Remembered",
    "Session",
    "StageRecord",
    "Timing",
    "Timings",
    "Tree",
    "apply",
]
