"""The findings screen in the app: the cursor, and what trying asks of the probe."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.views.findings.screen import FindingsScreen
from screens.widgets.rows import Look
from tests.recording.files import fold
from tests.screens.explorer.test_explorer import Stage, check_golden, on_stage
from tests.screens.screen_text import screen_text
from tests.screens.views.test_findings import ACCEPTING, FOUND, RESNET, SHOWN, TRIED, result_of
from tui_profiler.findings import findings
from tui_profiler.findings.trial_verdict import advice
from tui_profiler.messages import (
    Edges,
    Hello,
    Message,
    ModelFacts,
    Nodes,
    ProlongTrial,
    StopTrial,
    TraceDone,
    TraceStarted,
    Try,
    Wish,
    known,
)
from tui_profiler.session import apply


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_the_findings_screen_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage([*ACCEPTING, *TRIED], size) as (stage, pilot):
        await pilot.press("f")
        await pilot.pause()
        check_golden(f"findings-{size[0]}x{size[1]}", screen_text(stage.app))


def screen_of(stage: Stage) -> FindingsScreen:
    screen = stage.app.screen
    assert isinstance(screen, FindingsScreen)
    return screen


async def test_the_cursor_takes_the_selected_node_along() -> None:
    async with on_stage(ACCEPTING) as (stage, pilot):
        await pilot.press("f", "down")
        screen = screen_of(stage)
        second = screen.found[1]
        assert screen.selected == 1
        assert screen.node == second.nodes[0]
        await pilot.press("right")
        assert screen.node == second.nodes[min(1, len(second.nodes) - 1)]
        await pilot.press("escape")
        assert stage.explorer.tree_widget.view.selected == screen.node


async def test_keys_go_through_findings_and_their_nodes_both_ways() -> None:
    async with on_stage(ACCEPTING) as (stage, pilot):
        await pilot.press("f", "g")
        screen = screen_of(stage)
        several = next(at for at, one in enumerate(screen.found) if len(one.nodes) > 2)
        await pilot.press("j", "down", "k", "up", *"j" * several)
        assert screen.selected == several
        nodes = screen.found[several].nodes
        for key, place in (("l", 1), ("right", 2), ("h", 1), ("left", 0)):
            await pilot.press(key)
            assert screen.node == nodes[place]


async def test_x_asks_for_a_trial_and_stops_the_one_that_runs() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f")
        screen = screen_of(stage)
        kinds = [one.kind for one in screen.found]
        await pilot.press("g", *["down"] * kinds.index("fold-conv-bn"), "x")
        assert stage.requests[-1] == Try(Wish("fold-conv-bn"))
        await pilot.press("g", *["down"] * kinds.index("bf16-autocast"), "x")
        assert stage.requests[-1] == StopTrial()
        asked = len(stage.requests)
        screen.found = (replace(FOUND[0], why_no_trial="its author decides"),)
        await pilot.press("x")
        assert len(stage.requests) == asked
        assert "no trial: " in screen_text(stage.app)


async def test_plus_prolongs_the_trial_that_runs() -> None:
    messages = [
        replace(one, accepts=(*one.accepts, "ProlongTrial")) if isinstance(one, Hello) else one
        for one in ACCEPTING
    ]
    async with on_stage([*messages, *TRIED]) as (stage, pilot):
        await pilot.press("f", "plus")
        assert stage.requests == [ProlongTrial()]
        assert "the bf16-autocast trial measures 30 s longer" in screen_text(stage.app)
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("f", "plus")
        assert stage.requests == []
        assert "no trial is running" in screen_text(stage.app)
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):  # Of an older worker.
        await pilot.press("f", "plus")
        assert stage.requests == []


async def test_what_waits_is_not_asked_for_twice() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f")
        screen = screen_of(stage)
        screen.found = (replace(FOUND[0], kind="compile"),)
        await pilot.press("x")
        assert stage.requests == []
        assert "compile waits for the running trial" in screen_text(stage.app)


async def test_a_recording_says_why_nothing_is_tried() -> None:
    messages = [
        replace(one, accepts=("Play",), refusal="this is a recording: no model runs here")
        if isinstance(one, Hello)
        else one
        for one in RESNET
    ]
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("f")
        assert "no trial here: this is a recording" in screen_text(stage.app)
        assert "– not here" in screen_text(stage.app)
        asked = len(stage.requests)
        await pilot.press("x")
        assert len(stage.requests) == asked


async def test_rows_keep_their_places_while_one_reads() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f", "down")
        screen = screen_of(stage)
        before = [one.kind for one in screen.found]
        faster = apply(SHOWN, replace(result_of("fold-conv-bn"), speedup=2.0))
        screen._asked = (None, faster.tree, 0.0)
        screen._ask(faster)
        assert [one.kind for one in screen.found] == before


def many(times: int) -> list[Message]:
    """The recorded model so many times below one root, each with its edges."""
    parts = [part for one in RESNET if isinstance(one, Nodes) for part in one.nodes]
    costs = [part for one in RESNET if isinstance(one, Nodes) for part in one.costs]
    edges = [pair for one in RESNET if isinstance(one, Edges) for pair in one.pairs]
    started = next(one for one in RESNET if isinstance(one, TraceStarted))
    done = next(one for one in RESNET if isinstance(one, TraceDone))
    nodes, prices, pairs = [parts[0]], [costs[0]], []
    for _ in range(times):
        first = len(nodes)
        nodes += [replace(part, parent=max(part.parent + first, 0)) for part in parts]
        nodes[first] = replace(parts[0], parent=0)
        prices += costs
        pairs += [(writer + first, reader + first) for writer, reader in edges]
    chunks = range(0, len(nodes), 2000)
    return [
        next(one for one in ACCEPTING if isinstance(one, Hello)),
        next(one for one in RESNET if isinstance(one, ModelFacts)),
        replace(started, nodes=len(nodes)),
        *(Nodes(tuple(nodes[at : at + 2000]), tuple(prices[at : at + 2000])) for at in chunks),
        Edges(tuple(pairs)),
        done,
    ]


async def test_findings_are_grouped_by_what_is_known_of_their_gain() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f")
        screen = screen_of(stage)
        shown = advice(screen.session_shown, screen.found)
        groups = [one.group for one in shown]
        assert groups == ["measured"] * 2 + ["predicted", "at most"]
        saved = [one.measured for one in shown]
        gains = [one.share for one in saved if one is not None]
        gains += [known(one.finding.gain.share) or 0.0 for one in shown[2:]]
        assert gains[:2] == sorted(gains[:2], reverse=True)
        assert gains[2:] == sorted(gains[2:], reverse=True)
        lines = [line.split(" ─")[0].strip() for line in screen_text(stage.app).splitlines()]
        titles = [one for one in lines if one in ("measured", "predicted", "at most")]
        assert titles == ["measured", "predicted", "at most"]
        # Ordered by a column they are one list.
        await pilot.press("4")
        lines = [line.split(" ─")[0].strip() for line in screen_text(stage.app).splitlines()]
        assert "measured" not in lines


async def test_a_large_tree_is_asked_beside_the_drawing() -> None:
    messages = many(16)
    expected = findings(fold(messages))
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("f")
        screen = screen_of(stage)
        await stage.app.workers.wait_for_complete()
        await pilot.pause()
        assert screen.session.tree is not None
        assert len(screen.session.tree) > 4000
        assert [one.kind for one in screen.found] == [one.kind for one in expected]
        assert f"fold {16 * 53} batch norms" in screen_text(stage.app)


async def test_a_number_or_a_click_orders_the_findings_and_the_cursor_stays_on_its_own() -> None:
    async with on_stage([*ACCEPTING, *TRIED]) as (stage, pilot):
        await pilot.press("f", "j")
        await pilot.pause()
        screen = screen_of(stage)
        ranked, here = screen.found, screen.found[screen.selected]
        heading = screen.heading(Look(screen.session_shown, 0, 0.0, 120))
        assert heading is not None
        columns = ("title", "saves", "predicted", "measured", "verdict", "error")
        assert heading.columns == columns
        await pilot.press("4")
        saved = [one.measured for one in advice(screen.session_shown, screen.found)]
        shares = [one.share for one in saved if one is not None]
        assert len(shares) > 1
        assert shares == sorted(shares, reverse=True)
        assert all(one is None for one in saved[len(shares) :])
        assert "↓measured" in screen_text(stage.app)
        assert screen.found[screen.selected] == here
        assert f"best: {ranked[0].title}"[:30] in screen_text(stage.app)
        await pilot.press("4")
        again = [one.measured for one in advice(screen.session_shown, screen.found)]
        assert [one.share for one in again if one is not None] == shares[::-1]
        assert all(one is None for one in again[len(shares) :])
        lines = screen_text(stage.app).splitlines()
        y = next(at for at, line in enumerate(lines) if "↑measured" in line)
        await pilot.click(offset=(lines[y].index("verdict"), y))
        words = [one.word for one in advice(screen.session_shown, screen.found)]
        assert words == sorted(words)
        for _ in range(3):
            await pilot.press("1")
        assert screen.found == ranked
        assert "findings, by gain" in screen_text(stage.app)
