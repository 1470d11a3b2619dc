"""Points of the backward in the roofline of a training program."""

from __future__ import annotations

import pytest

from screens.views.roofline.lines import roofline_lines
from screens.views.roofline.screen import RooflineScreen
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.queries.training.test_backward_bound import session
from tests.screens.explorer.test_explorer import on_stage
from tests.screens.screen_text import screen_text
from tests.small_model import CONV, FC, MEASURED, folded
from tui_profiler.formatting.canvas import ASCII, BLOCK, UNICODE, Glyphs
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.training.backward_roofline import BACKWARD
from tui_profiler.session import Session


def views(found: Session) -> tuple[RooflineView, RooflineView]:
    forward, backward = RooflineView(), RooflineView(BACKWARD)
    backward.update(found, 5.0, (forward,))
    forward.update(found, 5.0, (backward,))
    return forward, backward


def test_figures_are_of_one_pass_of_the_backward() -> None:
    _, backward = views(session())
    at = backward.node(FC)
    assert at is not None
    # 10,240 FLOP and 7,500 B in 12 µs; 7.5 µs at 1 GB/s.
    assert at.achieved == pytest.approx(10_240 / 12e-6)
    assert at.intensity == pytest.approx(10_240 / 7500)
    assert at.share == pytest.approx(7.5 / 12)
    assert at.kind == "memory"
    assert at.gain == pytest.approx((12 - 7.5) * 1e-6 / 1.0)  # Of a step of one second.
    assert backward.parts is not None
    assert [backward.parts.nodes[place] for place in backward.order] == [CONV, FC]


def test_both_directions_have_the_same_axes_and_all_points_lie_in_them() -> None:
    forward, backward = views(session())
    assert (forward.x, forward.y) == (backward.x, backward.y)
    alone = RooflineView()
    alone.update(session(), 5.0)
    assert forward.y.low < alone.y.low or forward.y.high > alone.y.high or alone.y == forward.y
    assert [view.spots(60, 20).beyond for view in (forward, backward)] == [0, 0]


@pytest.mark.parametrize("glyphs", [UNICODE, BLOCK, ASCII])
def test_points_of_the_backward_are_told_apart_by_their_character(glyphs: Glyphs) -> None:
    forward, backward = views(session())
    look = Look(session(), FC, 5.0, 100, glyphs)
    drawn = roofline_lines(look, forward, 30, backward)
    assert {line_width(line) for line in drawn} == {100}
    plot = "".join(text(line)[8:58] for line in drawn[1:])
    assert sum(plot.count(point) for point in {*glyphs.back}) == 2  # Its own, and the other's.
    alone = "".join(text(line)[8:58] for line in roofline_lines(look, forward, 30)[1:])
    assert not set(glyphs.back) & set(alone)


async def test_v_shows_list_and_figures_of_the_backward_and_says_why_there_are_none() -> None:
    async with on_stage(list(MEASURED)) as (stage, pilot):
        await pilot.press("r", "v")
        await pilot.pause()
        assert "no backward: no training step was measured" in screen_text(stage.app)
        stage.app._newest = session()
        stage.app._show()
        await pilot.pause()
        screen = stage.app.screen
        assert isinstance(screen, RooflineScreen)
        shown = screen_text(stage.app)
        assert "v ◂◀ backward" in shown
        assert "roofline of the backward" not in shown
        await pilot.press("v")
        await pilot.pause()
        assert "roofline of the backward" in screen_text(stage.app)
        await pilot.press("G")
        await pilot.pause()
        assert "62 %" in screen_text(stage.app)
        await pilot.press("v")
        stage.app._newest = folded(MEASURED)
        stage.app._show()
        await pilot.pause()
        assert "backward" not in screen_text(stage.app).split("\n")[2]
