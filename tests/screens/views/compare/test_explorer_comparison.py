"""``C`` in the explorer: its model paused against a second side, in turns where both can run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from screens.views.compare.explorer_comparison import CompareWithExplored, compare_here, other_side
from screens.views.compare.opened import Opened
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import SPEC, on_stage, until_traced
from tests.screens.screen_text import screen_text
from tests.screens.views.test_roofline import folded
from tests.verbs.test_compare import Held
from tui_profiler.formatting.canvas import UNICODE
from tui_profiler.messages import LoopState, Pause, Request, Resume
from tui_profiler.reports.json.report import json_report
from tui_profiler.session import Session, apply
from tui_profiler.session.session_group import SessionGroup
from tui_profiler.source.adapters import SharedSession
from tui_profiler.verbs.compare import compare

RUNNING = LoopState("running", 1.0)


def running() -> Session:
    return apply(folded(recorded()), RUNNING)


async def test_a_report_is_compared_with_the_running_model_and_left_again(tmp_path: Path) -> None:
    report = tmp_path / "before.json"
    report.write_text(json_report(folded(recorded())))
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("C", *str(report), "enter")
        await stage.app.workers.wait_for_complete()
        await pilot.pause()
        shown = screen_text(stage.app)
        assert isinstance(stage.app.screen, CompareWithExplored)
        assert shown.startswith(" A  resnet50")
        assert "a report" in shown
        assert "layer1" in shown
        await pilot.press("slash", *"conv1", "enter", "escape")
        assert isinstance(stage.app.screen, CompareWithExplored)
        await pilot.press("escape")
        assert stage.app.screen is stage.explorer
        assert Pause() not in stage.requests


@pytest.mark.parametrize(
    ("typed", "said"),
    [("resnet50 --batch x", "'x' is not a valid integer"), ("'resnet50", "No closing quotation")],
)
async def test_what_cannot_be_compared_is_told_and_the_explorer_stays(
    typed: str, said: str
) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("C")
        stage.explorer.compare_with(typed)
        await stage.app.workers.wait_for_complete()
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        assert said in screen_text(stage.app) + "".join(n.message for n in stage.app._notifications)


async def test_a_report_that_cannot_be_read_is_told_with_a_remedy(tmp_path: Path) -> None:
    report = tmp_path / "cut.json"
    report.write_text(json_report(folded(recorded()))[:-20])
    async with on_stage(recorded()) as (stage, pilot):
        stage.explorer.compare_with(str(report))
        await stage.app.workers.wait_for_complete()
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        told = [notification.message for notification in stage.app._notifications]
        assert "; try " in " ".join([screen_text(stage.app), *told])


async def test_without_a_tree_there_is_nothing_to_compare() -> None:
    async with on_stage(until_traced()[:3]) as (stage, pilot):
        await pilot.press("C")
        await pilot.pause()
        assert "compare needs the tree" in screen_text(stage.app)


def test_how_the_model_is_run_holds_for_the_other_and_what_it_is_does_not() -> None:
    spec = replace(SPEC, batch=4, device="cuda", weights="a.pt", trust=True, arguments="[1]")

    usual = other_side("resnet101", spec).chosen
    own = other_side("resnet101 --batch 8 --device cpu", spec).chosen

    assert (usual.batch, usual.device) == (4, "cuda")
    assert (usual.weights, usual.trust, usual.arguments) == ("", False, "")
    assert (own.batch, own.device) == (8, "cpu")


class Reader:
    """Reads the probe that is lent, which does what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.was_held = asyncio.Event()
        self.lent = SharedSession(running(), self.send)

    def send(self, request: Request) -> None:
        self.asked.append(request)
        is_held = isinstance(request, Pause)
        self.lent.learn(apply(running(), LoopState("paused", 2.0) if is_held else RUNNING))
        if is_held:
            self.was_held.set()


async def test_the_model_that_is_lent_takes_turns_and_is_given_back_running() -> None:
    reader, log = Reader(), list[str]()
    begins = (lambda: reader.lent, lambda: Held(log, "b"))

    await compare(begins, measuring=True, seconds=0.05, heard=lambda *told: None)

    assert reader.asked[:3] == [Pause(), Resume(), Pause()]
    assert reader.asked[-1] == Resume()
    assert log[:2] == ["b starts", "b"]


async def test_it_is_given_back_also_when_the_comparison_is_left_at_once() -> None:
    reader, log = Reader(), list[str]()
    begins = (lambda: reader.lent, lambda: Held(log, "b"))
    going_on = asyncio.create_task(
        compare(begins, measuring=True, seconds=None, heard=lambda *told: None)
    )
    await reader.was_held.wait()
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)

    assert reader.asked[-1] == Resume()


@pytest.mark.parametrize(
    ("session", "takes_turns"),
    [
        (running(), True),
        (apply(running(), LoopState("paused", 2.0)), False),
    ],
    ids=["running", "held by the user"],
)
def test_only_a_model_that_runs_is_held_in_turns(session: Session, takes_turns: bool) -> None:
    asked: list[Request] = []
    other = Opened("b", start=lambda now: Held([], "b"))

    screen = compare_here(UNICODE, Opened("a", session), other, asked.append, measuring=True)

    screen._two.newest = SessionGroup(compared=(session, session))
    assert (screen._two.turns() == "running in turns") is takes_turns
