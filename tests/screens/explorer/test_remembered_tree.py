"""The tree of last time on screen: at once, marked, and replaced without losing the place."""

from __future__ import annotations

import pytest

from screens.actions.table import EXPLORER
from screens.app.explorer_app import ProfilerApp
from screens.explorer.loading import loading_body
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.fixtures.record import recorded
from tests.recorded_source import Recorded
from tests.screens.explorer.test_explorer import SPEC, check_golden, on_stage
from tests.screens.panel_session import LOADING, folded
from tests.screens.screen_text import screen_text
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.messages import LoadSpec, Message, StageDone, StageStarted, TraceDone
from tui_profiler.session import EMPTY, Remembered, apply


def last_time() -> Remembered:
    session = folded(tuple(recorded()))
    stages = tuple((one.stage, one.seconds) for one in session.stages if one.seconds is not None)
    return Remembered(7200.0, stages, session.tree, session.phases, session.model)


def importing() -> list[Message]:
    """What a worker has said while torch is imported."""
    messages = recorded()
    first = next(i for i, m in enumerate(messages) if isinstance(m, StageStarted))
    assert messages[first].stage == "import torch"
    return messages[: first + 1]


def opened(messages: list[Message]) -> list[Message]:
    return [last_time(), *messages]  # type: ignore[list-item]  # as its source tells it


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_the_tree_of_last_time_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(opened(importing()), size) as (stage, pilot):
        await pilot.press("3", "j")
        await pilot.pause()
        check_golden(f"remembered-{size[0]}x{size[1]}", screen_text(stage.app))


async def test_what_was_known_before_the_app_began_can_be_moved_in() -> None:
    begun = apply(EMPTY, last_time())
    source = Recorded((), ends=False)
    app = ProfilerApp(source, SPEC, lambda _: source, clock=lambda: 30.0, begun=begun)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j")
        assert "on paper, cached" in screen_text(app)
        assert " 2 of " in screen_text(app)


async def test_it_is_marked_and_can_be_moved_in() -> None:
    async with on_stage(opened(importing())) as (stage, pilot):
        shown = screen_text(stage.app)
        assert "cached 2 h ago" in shown.split("\n")[0]
        assert "import torch" in shown.split("\n")[0]
        assert "on paper, cached" in shown
        assert "layer1" in shown
        await pilot.press("i")
        await pilot.pause()
        assert "tree        cached 2 h ago" in screen_text(stage.app)


async def test_place_and_folds_survive_the_worker_s_own_tree() -> None:
    messages = recorded()
    end = next(i for i, m in enumerate(messages) if isinstance(m, TraceDone))
    async with on_stage(opened(importing())) as (stage, pilot):
        await pilot.press("3", *"jjjjjjjj")
        await pilot.pause()
        tree = stage.explorer.session.tree
        assert tree is not None
        before = stage.explorer.tree_widget.view
        path = tree.nodes[before.selected].path
        for message in messages[len(importing()) : end + 1]:
            stage.app._newest = apply(stage.app._newest, message)
        stage.app._show()
        await pilot.pause()
        own = stage.explorer.session.tree
        assert own is not None
        assert own is not tree
        after = stage.explorer.tree_widget.view
        assert own.nodes[after.selected].path == path
        assert after.unfolded == before.unfolded
        shown = screen_text(stage.app)
        assert "the tree equals the cached one" in shown
        assert "cached" not in shown.replace("the tree equals the cached one", "")


async def test_no_energy_is_asked_for_by_a_place_in_a_remembered_tree() -> None:
    assert any(key.action == "replay" for key in EXPLORER)
    async with on_stage(opened(importing())) as (stage, pilot):
        await pilot.press("E")
        await pilot.pause()
        assert stage.requests == []
        assert "this tree is cached" in screen_text(stage.app)


def body(now: float, cells: int, kept: Remembered | None = None) -> list[str]:
    known = Remembered(60.0, (("worker", 0.04), ("import torch", 2.71), ("load model", 0.94)))
    session = folded(LOADING, apply(EMPTY, kept or known))
    return [text(line) for line in loading_body(Look(session, 0, now, cells), 16, LoadSpec("m"))]


def test_last_time_stands_beside_each_stage() -> None:
    lines = body(3.42, 120)
    assert [line.partition("│")[0] for line in lines[:6]] == [
        f" {left}{right.rjust(69 - len(left))} "
        for left, right in (
            ("starting", "last time"),
            ("", ""),
            ("✓ worker        pid 48213", "0.04 s    0.04 s"),
            ("✓ import torch  2.13.0, cpu build", "2.65 s    2.71 s"),
            ("◓ load model    resnet50, random weights", "0.73 s    0.94 s"),
            ("· trace         build the tree and count costs", "–"),
        )
    ]
    assert " about 0.2 s more, as last time " in lines[11]


def test_it_says_when_it_takes_longer() -> None:
    assert any(" longer than last time " in line for line in body(99.0, 120))


def test_where_it_does_not_fit_last_time_is_left_out() -> None:
    assert not any("last time" in line for line in body(3.42, 60)[:9])


@pytest.mark.parametrize("cells", [40, 60, 68, 69, 80, 99, 100, 116, 117, 120, 200])
def test_every_row_is_exactly_as_wide_as_asked(cells: int) -> None:
    session = folded(LOADING, apply(EMPTY, Remembered(60.0, (("load model", 1e6),))))
    for glyphs in (Look(EMPTY, 0, 0, 0).glyphs, ASCII):
        for now in (0.0, 3.0, 1e7):
            lines = loading_body(Look(session, 0, now, cells, glyphs), 17, LoadSpec("m"))
            assert {line_width(line) for line in lines} == {cells}


def test_a_stage_that_is_over_is_not_waited_for_again() -> None:
    kept = Remembered(60.0, (("import torch", 5.0), ("load model", 0.5)))
    session = folded((*LOADING, StageDone("load model", 3.9, 1.0)), apply(EMPTY, kept))
    lines = loading_body(Look(session, 0, 4.0, 120), 16, LoadSpec("m"))
    assert any("longer than last time" in text(line) for line in lines)
