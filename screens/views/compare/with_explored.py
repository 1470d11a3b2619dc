"""The model that the explorer shows, held against a second one, a recording or a report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import click
from msgspec.structs import replace

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.messages import LoadSpec, Request
from tui_profiler.queries.panel.accepted_requests import refusal
from tui_profiler.recording.kind import RecordingError
from tui_profiler.reports.json.report_file import ReportError
from tui_profiler.session import Session
from tui_profiler.source.adapters import SharedSession

from ...common.base_app import unix_clock
from ...options.grid_intensity import Typed
from ...options.model import Chosen
from ...options.side import TypedSide, typed_side
from .opened import Opened, opened
from .screen import CompareScreen
from .turns import TwoSides


class CompareWithExplored(CompareScreen):
    """Compares what the explorer shows, whose session it is bound to, until it is left.

    Args:
        glyphs: the characters to draw with.
        two: the sides; A is that session.
        lent: what lets A's model take turns, None where it does not.
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
    """Return the screen of two sides, of which the explorer reads the first.

    They run in turns where B is a model, and A one that runs and can be held.

    Args:
        glyphs: the characters to draw with.
        this: A, as far as it is known.
        other: B.
        send: asks A's probe.
        measuring: let B run.
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
    """Take apart what was typed as B; how A is run holds for it too, what A is does not.

    Raises:
        UsageError: it is not written as a command line, or has options that there are not.
    """
    grams = spec.grid_grams_per_kwh
    grid = None if grams is None else Typed(grams, spec.grid_named)
    usual = Chosen(
        arguments="",
        inputs=spec.inputs,
        batch=spec.batch,
        weights="",
        device=spec.device,
        dtype=spec.dtype,
        threads=spec.threads,
        tracer=spec.tracer,
        trust=False,
        run=spec.run,
        budget=spec.budget,
        grid_intensity=grid,
        debug=False,
        memory_limit=spec.memory_limit_bytes,
    )
    return typed_side(text, usual)


class OtherError(Exception):
    """What was typed as B cannot be compared with; its text says why, and what to try."""


async def opened_other(text: str, spec: LoadSpec) -> tuple[TypedSide, Opened, list[str]]:
    """Read what was typed as B, and look at what it is; reading a long file takes a while.

    Returns:
        What was typed, what it is, and what is to be said of a file.

    Raises:
        OtherError: it is not written as a command line, or it is a file that cannot be read.
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
