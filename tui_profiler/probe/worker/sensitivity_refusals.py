"""Why no sensitivity is measured; without torch, which a file of parameters does not need."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler.messages import (
    MeasureSensitivity,
    SensitivityDone,
    SensitivityStarted,
    Unknown,
)
from tui_profiler.probe.process.link import Link


def refuse(request: MeasureSensitivity, link: Link, now: Callable[[], float], reason: str) -> None:
    """Say why nothing is measured."""
    at, none = now(), Unknown("no forward was run")
    link.send(SensitivityStarted(at, request.scheme, 0, is_random=False, under=request.under))
    link.send(SensitivityDone(at, request.scheme, 0.0, 0, none, none, reason))
