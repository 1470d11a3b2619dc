"""What each key of the explorer does, pressed; and by the name of which request it is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.actions.commands import commands
from screens.actions.footer import explorer_bar
from screens.actions.names import action_name, key_name
from screens.actions.table import DEPTHS, EXPLORER, footer, remapped, shown
from screens.actions.view_keys import TIMELINE
from screens.explorer.tree.widget import NodeTree
from screens.widgets.lines import text
from tests.fixtures.record import recorded
from tests.queries.panel.test_playback import WHOLE
from tests.screens.explorer.test_explorer import Stage, on_stage
from tests.small_model import MEASURED, folded
from tui_profiler.messages import (
    Ended,
    Failed,
    Hello,
    LoopState,
    Message,
    Nodes,
    Seek,
    SetSpeed,
    TraceDone,
    TraceStarted,
)
from tui_profiler.session import EMPTY

ALL = (
    *("Pause", "Resume", "Step", "SetBatch", "SetPhase", "ReplayNode", "ShowModel", "Start"),
    *("Seek", "SetSpeed", "Play", "Halt"),
)
BY_NAME = {"[": "left_square_bracket", "]": "right_square_bracket", "{": "left_curly_bracket"}
BY_NAME |= {"}": "right_curly_bracket", "<": "less_than_sign", ">": "greater_than_sign"}
BY_NAME |= {"=": "equals_sign", "+": "plus", "-": "minus"}


def tree(stage: Stage) -> NodeTree:
    return stage.explorer.tree_widget


def path(stage: Stage) -> str:
    found = stage.app._newest.tree
    assert found is not None
    return found.nodes[tree(stage).view.selected].path


def rows(stage: Stage) -> list[int]:
    """Depth of every row that could be scrolled to."""
    outline = tree(stage).outline
    assert outline is not None
    return [outline.depth(node) for node in outline.rows]


async def press(pilot: Pilot[int], keys: str) -> None:
    for key in keys.split():
        await pilot.press(BY_NAME.get(key, key))
    await pilot.pause()


MOVES = {
    "j": "conv1",
    "down down": "bn1",
    "j j k": "conv1",
    "j j up": "conv1",
    "G": "fc",
    "end": "fc",
    "G g": "",
    "G home": "",
    "j ]": "bn1",
    "j j [": "conv1",
    "G [ [": "layer4",
    "j j j j j l j": "layer1.0",
    "j j j j j right j left left": "layer1",
    "j j j j j l j h h": "layer1",
}
"""Keys, from the root with its children unfolded, and the path that they lead to."""


async def test_a_key_that_moves_goes_where_it_says() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        for keys, where in MOVES.items():
            await press(pilot, f"1 g {keys}")
            assert path(stage) == where, keys
        for down, up in (("ctrl+d", "ctrl+u"), ("pagedown", "pageup")):
            await press(pilot, f"3 g {down}")
            assert path(stage) != ""
            await press(pilot, up)
            assert path(stage) == ""


async def test_a_digit_unfolds_to_that_depth_and_braces_to_none_and_all() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        # layer1.0.downsample.0 lies four deep, and nothing of torchvision's ResNet lies deeper.
        for digit, deepest in (("1", 1), ("2", 2), ("3", 3), ("4", 4), ("2", 2), ("9", 4)):
            await press(pilot, digit)
            assert max(rows(stage)) == deepest
        await press(pilot, "{")
        assert max(rows(stage)) <= 1
        few = len(rows(stage))
        await press(pilot, "}")
        assert len(rows(stage)) > few
        assert max(rows(stage)) == 4


def played() -> list[Message]:
    return [Hello(1, 1, ALL), *recorded()[1:], replace(WHOLE, speed=4.0)]


async def test_the_keys_of_a_recording_ask_for_what_they_say() -> None:
    async with on_stage(played()) as (stage, pilot):
        await press(pilot, "< > shift+left shift+right")
        assert stage.requests == [Seek(stage.now + by) for by in (-5, 5, -60, 60)]
        # Each goes on from what was asked last: 4 times as fast at first.
        await press(pilot, "+ = - -")
        assert stage.requests[4:] == [SetSpeed(times) for times in (8.0, 16.0, 8.0, 4.0)]


def with_everything() -> list[Message]:
    """A model that is held, has two phases, and can be asked for all there is."""
    started = next(m for m in recorded() if isinstance(m, TraceStarted))
    parts = [m for m in recorded() if isinstance(m, Nodes | TraceDone)]
    phases: list[Message] = []
    for name in ("prefill", "decode"):
        phases += [TraceStarted(started.nodes, started.method, name), *parts]
    return [Hello(1, 1, ALL), *recorded()[1:], *phases, LoopState("paused", 1e9, 1)]


@pytest.mark.parametrize(
    ("action", "keys"),
    [
        ("step", "full_stop"),
        ("batch", "B 8 enter"),
        ("phase", "F"),
        ("replay", "E"),
    ],
)
async def test_a_key_is_refused_by_the_name_of_what_it_asks_for(action: str, keys: str) -> None:
    """As pressed: the one request that reaches the probe is the one that dims the key."""
    async with on_stage(with_everything()) as (stage, pilot):
        await press(pilot, keys)
        (request,) = stage.requests
    assert refused_without(type(request).__name__) == {action}


async def test_a_row_says_whether_its_key_asks() -> None:
    async with on_stage(with_everything()) as (stage, pilot):
        for key in EXPLORER:
            if key.action not in ("leave", "restart", "app.suspend_process"):
                await pilot.press(key.keys.split(",")[0])
                assert (stage.explorer.prompt.open_one is not None) == key.asks, key.action
                await pilot.press("escape", "escape")
                await pilot.pause()
                assert stage.app.screen is stage.explorer, key.action


def refused_without(request: str) -> set[str]:
    """Actions that a probe refuses that accepts everything but one request."""
    hello = Hello(1, 1, tuple(one for one in ALL if one != request))
    found = commands(replace(EMPTY, hello=hello), ())
    return {command.action for command in found if command.why_not}


def test_a_probe_that_holds_restarts_or_shows_no_other_model_dims_those_keys_alone() -> None:
    assert refused_without("Pause") == {"hold"}
    assert refused_without("ShowModel") == {"next_model"}
    assert refused_without("Start") == {"device", "try", "restart"}
    assert refused_without("nothing") == set()


def test_a_key_that_was_given_away_leaves_the_other_keys_of_its_action() -> None:
    keys = {key.action: key for key in remapped(EXPLORER, {"hottest": ("j",)})}
    assert keys["move(1)"].keys == "down"
    assert shown(keys["move(1)"]) == "down"
    assert keys["move(-1)"].keys == "up,k"
    # Both keys of an action may be given away: it has none then, and the footer does not name it.
    taken = remapped(EXPLORER, {"hottest": ("slash", "n")})
    assert next(key for key in taken if key.action == "filter").keys == ""
    for narrow in (False, True):
        assert not {"search", "next"} & {label for _, label in footer(taken, "left", narrow=narrow)}


def test_the_footer_of_80_columns_has_what_is_only_there() -> None:
    wide = {label for _, label in footer(EXPLORER, "left", narrow=False)}
    narrow = {label for _, label in footer(EXPLORER, "left", narrow=True)}
    assert "panels" in narrow - wide
    assert "hottest" in wide - narrow


def test_actions_are_called_as_the_list_of_keys_calls_them() -> None:
    assert [action_name(key.action) for key in DEPTHS[:3]] == ["depth-1", "depth-2", "depth-3"]
    assert action_name("side('memory')") == "memory"
    assert action_name(TIMELINE[0].action) == "beside-1"


def test_any_of_the_three_modifiers_makes_a_key() -> None:
    for modifier in ("ctrl", "shift", "alt"):
        assert key_name(f"{modifier}+x") == f"{modifier}+x"
    assert key_name("ctrl+alt+f5") == "ctrl+alt+f5"


def bar(*messages: Message, cells: int = 120) -> str:
    return text(explorer_bar(EXPLORER, folded(messages), cells))


def test_the_last_row_offers_to_restart_what_can_be_restarted() -> None:
    ours, not_ours = Hello(1, 1, ALL), Hello(1, 1, ("TraceAgain",), "attached read-only")
    failed, gone = Failed("run", "out of memory"), Ended(1, False, "", 42, 3.0)
    for ended, offers in (
        (gone, True),
        (replace(gone, is_script=True), False),
        (replace(gone, attached=True), False),
    ):
        shown_keys = bar(ours, failed, ended)
        assert ("restart" in shown_keys) == offers
        assert "traceback and log" in shown_keys
    # Before there is a tree.
    assert "restart" in bar(ours)
    assert "restart" not in bar(not_ours)


def test_in_a_recording_a_key_stands_once_in_the_last_row() -> None:
    shown_keys = bar(Hello(1, 1, ALL), *MEASURED, WHOLE, cells=200)  # Where all of them fit.
    assert "z hottest" in shown_keys
    assert shown_keys.count("p pause") == shown_keys.count("pause") == 1
