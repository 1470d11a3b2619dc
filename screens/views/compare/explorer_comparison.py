"""Comparison of the explorer's model with a second one, a recording or a report."""

import asyncio
import time
from collections.abc import Callable

import click
from msgspec.structs import replace

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.messages import LoadSpec, Request
from tui_profiler.recording.kind import RecordingError
from tui_profiler.reports.json.report_file import ReportError
from tui_profiler.session import Session
from tui_profiler.source.adapters import SharedSession

from ...actions.table import refusal
from ...common.base_app import unix_clock
from ...options.grid_intensity import Typed
from ...options.model import OF_REQUEST, Chosen
from ...options.side import TypedSide, typed_side
from .opened import Opened, opened
from .screen import CompareScreen
from .turns import TwoSides


class CompareWithExplored(CompareScreen):
    """Compares the explorer's session, side A, with another side.

    Args:
        glyphs: the characters to draw with.
        two: the sides.
        lent: A's probe, if its model runs in turns.
    """

    def __init__(self, glyphs: Glyphs, two: TwoSides, lent: SharedSession | None) -> None:
        super().__init__(glyphs, two)
        self._lent = lent

    def watch_session(self, session: Session) -> None:
        """Follow A."""
        self._two.learn(0, session)
        if self._lent is not None:
            self._lent.learn(session)

    def action_back(self) -> None:
        """Drop the filter; without one, go back."""
        if self.view.filter:
            super().action_back()
        else:
            self.dismiss()

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss()


def compare_here(
    glyphs: Glyphs,
    this: Opened,
    other: Opened,
    send: Callable[[Request], None],
    *,
    measuring: bool,
) -> CompareWithExplored:
    """Return the screen of the explorer's model and another side.

    They run in turns if B is a model, and A runs and can be paused.

    Args:
        glyphs: the characters to draw with.
        this: A.
        other: B.
        send: sends a request to A's probe.
        measuring: run B.
    """
    loop = this.session.loop
    runs = loop is not None and loop.state == "running"
    if not measuring or other.start is None or not runs or refusal(this.session, "Pause"):
        return CompareWithExplored(
            glyphs, TwoSides((this, other), unix_clock(), measuring=measuring), None
        )
    lent = SharedSession(this.session, send)
    lending = replace(this, start=lambda began: lent)
    return CompareWithExplored(
        glyphs, TwoSides((lending, other), unix_clock(), measuring=True), lent
    )


def other_side(text: str, spec: LoadSpec) -> TypedSide:
    """Parse what was typed as B; A's options of running are its defaults.

    Raises:
        UsageError: it is not a valid command line.
    """
    grams = spec.grid_grams_per_kwh
    grid = None if grams is None else Typed(grams, spec.grid_named)
    usual = Chosen(
        **{name: getattr(spec, name) for name in OF_REQUEST},
        grid_intensity=grid,
        debug=False,
        memory_limit=spec.memory_limit_bytes,
    )
    # What is of A's model alone, or was trusted of its file, does not go for B.
    return typed_side(text, replace(usual, arguments="", weights="", trust=False))


class OtherError(Exception):
    """B cannot be opened; its text has the reason and a remedy."""


async def opened_other(text: str, spec: LoadSpec) -> tuple[TypedSide, Opened, list[str]]:
    """Open what was typed as B, in a thread.

    Returns:
        The parsed text, the side, and messages about a file.

    Raises:
        OtherError: it is not a valid command line, or a file that cannot be read.
    """
    said: list[str] = []
    try:
        typed = other_side(text, spec)
        asked = typed.chosen.spec(typed.model, started_at=time.time())
        other = await asyncio.to_thread(opened, typed, said.append, spec=asked)
    except click.UsageError as error:
        raise OtherError(error.format_message()) from error
    except (ReportError, RecordingError) as error:
        raise OtherError(f"{error}; try {error.remedy}") from error
    return typed, other, said
