"""A program that stopped answering: no live figure keeps its colour, and its age is shown."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.views.inspector.pane import inspector_lines
from screens.views.machine.screen import hardware_lines
from screens.widgets.lines import Line, text
from screens.widgets.machine_lines import machine_lines
from screens.widgets.rows import Look
from tests.machine_session import FULL, GPU, measured
from tests.screens.panel_session import live
from tui_profiler.messages import Heartbeat
from tui_profiler.session import Session, apply

OLD = {"muted", "faint", "hairline", ""}


def heard(session: Session, at: float) -> Session:
    return apply(session, Heartbeat(at, 0.0))


def figures(lines: tuple[Line, ...]) -> set[str]:
    """Return the roles of all lines but the titles of sections."""
    return {role for line in lines if "──" not in text(line) for part, role in line if part.strip()}


@pytest.mark.parametrize("session", [measured(FULL, replace(FULL, gpus=(GPU,)))])
def test_the_machine_of_a_stopped_program_is_as_old_as_its_last_message(session: Session) -> None:
    session = heard(session, 100.0)
    for draw in (machine_lines, hardware_lines):
        now, later = (draw(Look(session, 0, at, 60)) for at in (101.0, 114.0))

        assert "every 1 s" in text(now[0])
        assert "14 s ago" in text(later[0])
        assert "every 1 s" not in "".join(map(text, later))
        assert not figures(now) <= OLD
        assert figures(later) <= OLD


def test_no_section_of_the_inspector_but_the_identity_keeps_its_colour() -> None:
    session = heard(live(), 100.0)

    def of(at: float) -> list[Line]:
        lines = list(inspector_lines(Look(session, 0, at, 60), 40))
        first = next(place for place, line in enumerate(lines) if "timing" in text(line))
        return lines[first:]

    assert not figures(tuple(of(101.0))) <= OLD
    assert figures(tuple(of(114.0))) <= OLD
