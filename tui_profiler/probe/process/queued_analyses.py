"""Looks at weights that wait for what is under way."""

from __future__ import annotations

from collections import deque

from tui_profiler.messages import AnalyseParameters, MeasureSensitivity, Request


def without_looks(asked: deque[Request]) -> None:
    """Forget the looks at weights among what was asked: they were stopped before they began."""
    kept = [one for one in asked if not isinstance(one, AnalyseParameters | MeasureSensitivity)]
    asked.clear()
    asked.extend(kept)
