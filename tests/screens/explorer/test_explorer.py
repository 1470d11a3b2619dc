"""The whole explorer on a recorded session: golden screens, and what its keys do.

``UPDATE_GOLDEN=1 pytest tests/screens/explorer/test_explorer.py`` writes the goldens anew; read the
diff.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from textual import events
from textual.pilot import Pilot

from screens.app.explorer_app import ProfilerApp
from screens.explorer.screen import ExplorerScreen
from tests.fixtures.record import recorded
from tests.recorded_source import Recorded
from tests.screens.screen_text import GOLDEN, screen_text
from tests.training_session import step_parts, training_step
from tui_profiler.formatting.text import width
from tui_profiler.messages import (
    Ended,
    Failed,
    Hello,
    LoadSpec,
    LoopState,
    Message,
    Nodes,
    Pause,
    Remedy,
    Request,
    Resume,
    SetBatch,
    SetPhase,
    SourceLine,
    StageDone,
    TraceDone,
    TraceStarted,
)

SPEC = LoadSpec("resnet50", started_at=0.0)
SIZES = [(120, 40), (80, 24), (200, 50), (60, 15)]


class Stage:
    """An app on a recorded session, at a time that paused."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.source = Recorded(messages)
        self.then: Sequence[Message] = ()
        """What is told after a restart; nothing here is what is recorded."""
        self.restarts: Recorded | None = None
        self.restarted: list[LoadSpec] = []
        last = [m.at for m in messages if isinstance(m, LoopState | StageDone)]
        ticks = [m.at for m in messages if type(m).__name__ == "Tick"]
        self.now = max([*ticks, *last, 3.0])
        self.app = ProfilerApp(self.source, SPEC, self._restart, clock=lambda: self.now)

    def _restart(self, spec: LoadSpec) -> Recorded:
        self.restarted.append(spec)
        self.restarts = Recorded(self.then or recorded())
        return self.restarts

    @property
    def explorer(self) -> ExplorerScreen:
        screen = self.app.screen_stack[0]
        assert isinstance(screen, ExplorerScreen)
        return screen

    @property
    def requests(self) -> list[Request]:
        return self.source.requests


@asynccontextmanager
async def on_stage(
    messages: Sequence[Message], size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Stage, Pilot[int]]]:
    stage = Stage(messages)
    async with stage.app.run_test(size=size, notifications=True) as pilot:
        # A message a turn of the loop; the app shows the newest on its tick.
        while stage.app._newest.hello is None or stage.source.left:
            await pilot.pause(0.01)
        stage.app._show()
        await pilot.pause()
        yield stage, pilot


def check_golden(name: str, shown: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    if "UPDATE_GOLDEN" in os.environ:
        golden.write_text(shown)
    assert shown == golden.read_text()


def until_traced() -> list[Message]:
    messages = recorded()
    end = next(i for i, m in enumerate(messages) if isinstance(m, TraceDone))
    return messages[: end + 2]


@pytest.mark.parametrize("size", SIZES)
async def test_the_explorer_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("3", *"jjjjjjjj")
        await pilot.pause()
        check_golden(f"explorer-{size[0]}x{size[1]}", screen_text(stage.app))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_training_looks_as_agreed(size: tuple[int, int]) -> None:
    line = SourceLine("log_metrics", "/home/me/train.py", 54, 0.7)
    parts = step_parts(data=0.018, forward=0.02, backward=0.025, optimizer=0.031, other=0.046)
    halves = array("f", (0.0125, 0.005)).tobytes()
    told = replace(
        training_step(parts, seconds=0.14), lines=(line,), samples=99, backward=halves, at=60.0
    )
    told = replace(told, forward=halves, recomputed=bytes(8), own_recomputed=bytes(8))
    async with on_stage([*recorded(), told], size) as (stage, pilot):
        await pilot.press("1")
        await pilot.pause()
        check_golden(f"training-{size[0]}x{size[1]}", screen_text(stage.app))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_loading_looks_as_agreed(size: tuple[int, int]) -> None:
    messages = recorded()
    done = [i for i, m in enumerate(messages) if isinstance(m, StageDone)]
    async with on_stage(messages[: done[1] + 2], size) as (stage, _):
        check_golden(f"loading-{size[0]}x{size[1]}", screen_text(stage.app))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_failure_looks_as_agreed(size: tuple[int, int]) -> None:
    failed = Failed(
        "first run",
        "out of memory: tried to allocate 3.06 GiB",
        where="bn1",
        at="torch/nn/functional.py:2822",
        remedies=(Remedy("--batch 512", "half as much"), Remedy("--dtype bfloat16", "half")),
    )
    async with on_stage([*until_traced(), failed], size) as (stage, _):
        check_golden(f"failure-{size[0]}x{size[1]}", screen_text(stage.app))


@pytest.mark.parametrize("columns", [60, 80, 99, 100, 120, 160, 200])
@pytest.mark.parametrize("rows", [15, 24, 30, 40])
async def test_no_row_is_wider_than_the_terminal(columns: int, rows: int) -> None:
    async with on_stage(recorded(), (columns, rows)) as (stage, _):
        shown = screen_text(stage.app).split("\n")
        assert max(map(width, shown)) <= columns


async def test_enter_drills_down_and_escape_comes_back() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("j", "j", "j", "j", "j", "enter")
        tree = stage.app._newest.tree
        assert tree is not None
        assert tree.nodes[stage.explorer.tree_widget.view.root].path == "layer1"
        await pilot.press("escape")
        assert stage.explorer.tree_widget.view.root == 0


async def test_a_filter_sticks_until_escape() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("slash", *"downsample", "enter")
        await pilot.pause()
        assert stage.explorer.tree_widget.view.filter_text == "downsample"
        assert "layer1 " in screen_text(stage.app)
        assert "avgpool " not in screen_text(stage.app)
        await pilot.press("escape")
        await pilot.pause()
        assert "avgpool " in screen_text(stage.app)


async def test_a_wrong_term_is_said_while_it_is_typed_and_the_rest_holds() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("slash", *"type:conv", "space", *"params>1x")
        await pilot.pause()
        shown = screen_text(stage.app)
        assert "write params>1M" in shown.splitlines()[-1]
        assert stage.explorer.tree_widget.view.filter_text == "type:conv"
        # torchvision's ResNet-50 has 53 convolutions.
        await pilot.press("enter")
        await pilot.pause()
        shown = screen_text(stage.app)
        assert "left out: write params>1M" in shown
        assert "53 of 151 match" in shown


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_an_empty_filter_says_what_there_is_to_type(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("slash")
        await pilot.pause()
        last = screen_text(stage.app).splitlines()[-1]
        assert "type:conv kernel:7x7 bound:memory time>1ms share>5% params>1M depth<3 !relu" in last
        await pilot.press("enter")
        assert stage.explorer.tree_widget.view.filter_text == ""


async def test_n_goes_from_match_to_match() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("n")
        assert "no filter" in screen_text(stage.app)
        await pilot.press("slash", *"type:linear", "enter", "n")
        tree = stage.app._newest.tree
        assert tree is not None
        selected = stage.explorer.tree_widget.view.selected
        assert tree.nodes[selected].path == "fc"
        await pilot.press("backspace")
        assert stage.explorer.tree_widget.view.filter_text == ""
        await pilot.press("slash", *"name:downsample", "enter")
        seen = []
        for key in "nnnN":
            await pilot.press(key)
            seen.append(tree.nodes[stage.explorer.tree_widget.view.selected].path)
        assert [path.split(".")[0] for path in seen] == ["layer1", "layer2", "layer3", "layer2"]


async def test_s_and_shift_s_sort_and_turn_the_order_round() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        view = stage.explorer.tree_widget
        seen = []
        for key in ("s", "S", "S"):
            await pilot.press(key)
            seen.append((view.view.sort, view.view.descending))
        assert len({sort for sort, _ in seen}) == 1
        assert [descending for _, descending in seen] == [seen[0][1], not seen[0][1], seen[0][1]]


async def test_typing_a_filter_presses_no_other_key() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("slash", *"q?1zP")
        await pilot.pause()
        assert stage.explorer.tree_widget.view.filter_text == "q?1zP"
        assert stage.app.is_running
        await pilot.press("escape")


async def test_what_follows_the_slash_in_one_burst_is_text() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        for key in ["slash", *"conv"]:
            character = "/" if key == "slash" else key
            stage.app.post_message(events.Key(key, character))
        await pilot.pause()
        await pilot.pause()
        assert stage.explorer.tree_widget.view.filter_text == "conv"
        assert stage.app.screen is stage.explorer


async def test_the_view_pauses_and_goes_on() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("p")
        stage.now += 12
        stage.explorer.refresh_all()
        await pilot.pause()
        assert "paused 12 s" in screen_text(stage.app)
        await pilot.press("p")
        assert "paused" not in screen_text(stage.app)


async def test_holding_the_model_needs_the_key_twice() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("P")
        assert stage.requests == []
        await pilot.press("P")
        assert stage.requests == [Pause()]


async def test_a_held_model_is_let_go_at_once() -> None:
    messages = [*recorded(), LoopState("paused", 1e9, 1)]
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("P")
        assert stage.requests == [Resume()]


async def test_a_model_that_waits_for_a_trial_is_neither_held_nor_let_go() -> None:
    messages = [*recorded(), LoopState("paused", 1e9, 1, "a change is tried")]
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("P", "P", "full_stop")
        assert stage.requests == []
        assert "model paused: a change is tried" in screen_text(stage.app)


async def test_another_batch_size_is_asked_for() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("B", "8", "enter")
        assert stage.requests == [SetBatch(8)]


async def test_the_other_forward_is_asked_for_where_there_is_one() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("F")
        assert stage.requests == []
        assert "this model has one forward" in screen_text(stage.app)
    started = next(m for m in recorded() if isinstance(m, TraceStarted))
    tree = [m for m in recorded() if isinstance(m, Nodes | TraceDone)]
    phases: list[Message] = []
    for name in ("prefill", "decode"):
        phases += [TraceStarted(started.nodes, started.method, name), *tree]
    hello = Hello(1, 1, ("SetPhase",))
    async with on_stage([hello, *recorded()[1:], *phases]) as (stage, pilot):
        assert "F decode" in screen_text(stage.app)
        await pilot.press("F")
        assert stage.requests == [SetPhase("decode")]


async def test_a_remedy_restarts_the_worker_with_its_option() -> None:
    failed = Failed("first run", "out of memory", remedies=(Remedy("--batch 512", "half"),))
    async with on_stage([*until_traced(), failed]) as (stage, pilot):
        await pilot.press("x")
        await pilot.pause()
        await pilot.pause()
        assert [spec.batch for spec in stage.restarted] == [512]


async def test_the_remedy_that_is_marked_was_not_tried_yet() -> None:
    commands = ("--batch 4", "--batch 512", "--dtype bfloat16")
    remedies = tuple(Remedy(command, "less") for command in commands)
    messages = [*until_traced(), Failed("first run", "out of memory", remedies=remedies)]
    async with on_stage(messages) as (stage, pilot):
        stage.then = messages
        stage.explorer.requests.spec = replace(SPEC, batch=4)  # As typed.

        async def press(*keys: str) -> list[tuple[int | None, str]]:
            await pilot.press(*keys)
            await pilot.pause()
            while stage.restarts is None or stage.restarts.left:
                await pilot.pause(0.01)
            stage.app._show()
            await pilot.pause()
            return [(spec.batch, spec.dtype) for spec in stage.restarted]

        tried = [(512, ""), (512, "bfloat16")]
        assert await press("x") == tried[:1]
        assert "▌--dtype bfloat16" in screen_text(stage.app)
        assert await press("x") == tried
        assert "▌--batch 4" in screen_text(stage.app), "in bfloat16 it was not tried yet"
        tried.append((4, "bfloat16"))
        assert await press("x") == tried
        assert "x tries the marked line" not in screen_text(stage.app)
        assert await press("x") == tried
        assert "all of these were tried" in screen_text(stage.app)
        await pilot.press("tab")
        assert await press("x") == [*tried, (4, "bfloat16")]


async def test_a_dead_worker_says_how_it_died() -> None:
    gone = Ended(code=-9, expected=False, pid=48213, seconds=12.4)
    async with on_stage([*recorded(), gone]) as (stage, _):
        shown = screen_text(stage.app)
        assert "worker 48213 was killed by SIGKILL after 12.4 s" in " ".join(shown.split())


async def test_every_key_can_be_pressed_on_every_screen() -> None:
    keys = [*"jkgGlh{}19zsSaiTuunNbb'", "ctrl+o", *"y", "escape", "e", "escape", "D", "escape"]
    keys += [*"o[]", "escape", "L", "escape", "?", "escape", "tab", "space", *"pp"]
    names = {"{": "left_curly_bracket", "}": "right_curly_bracket", "?": "question_mark"}
    names |= {"[": "left_square_bracket", "]": "right_square_bracket"}
    for messages in (recorded(), until_traced(), []):
        async with on_stage([recorded()[0], *messages]) as (stage, pilot):
            for key in keys:
                await pilot.press(names.get(key, key))
            assert stage.app.is_running


async def test_q_quits() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("q")
        await pilot.pause()
        assert stage.app.return_code == 0


@pytest.mark.parametrize("opening", ["o", "L", "M", "m"])
async def test_a_user_s_own_keys_hold_on_every_screen(opening: str) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        stage.app.set_keymap({"back": "ctrl+b", "leave": "x"})
        for key in ("ctrl+b", "x"):
            await pilot.press(opening)
            await pilot.pause()
            assert stage.app.screen is not stage.explorer
            await pilot.press("escape", "q")
            assert stage.app.screen is not stage.explorer
            await pilot.press(key)
            await pilot.pause()
            assert stage.app.screen is stage.explorer
