"""The memory screen: its drawing, its words, and the cursor that goes with the selected node."""

from __future__ import annotations

import re

import pytest

from screens.views.memory.lines import cursor_line, memory_lines
from screens.views.memory.screen import MemoryScreen
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.fixtures.record import recorded
from tests.fixtures.record_memory import recorded_with_memory
from tests.queries.forward.test_memory import SMALL, columns_of, session_with
from tests.recording.files import fold
from tests.screens.explorer.test_explorer import Stage, check_golden, on_stage
from tests.screens.screen_text import screen_text
from tests.small_model import CONV_OP, TRACED, folded
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.queries.forward.memory import first_step, peak_step, steps_of
from tui_profiler.session import Session
from tui_profiler.session.columns import Memory

RESNET = fold(recorded_with_memory())


def drawn(
    session: Session,
    step: int = 0,
    cells: int = 120,
    rows: int = 35,
    glyphs: Glyphs = UNICODE,
    *,
    narrow: bool = False,
) -> list[str]:
    look = Look(session, 0, 9.0, cells, glyphs)
    lines = memory_lines(look, step, rows, narrow=narrow)
    return [text(line) for line in finished(lines, look, rows)]


def memory_of(session: Session) -> Memory:
    memory = steps_of(session)
    assert isinstance(memory, Memory)
    return memory


def test_a_small_forward_is_laid_out_as_drawn():
    lines = drawn(session_with(SMALL), step=0, cells=60, rows=24, narrow=True)
    # 49 columns: 13 of the convolution, 12 of each other. Three of eight rows are 1 KiB: the
    # convolution's 2304 bytes are 54 eighths of a row, the next two's 1856 are 44, the last's 20.
    assert lines[:14] == [
        " memory over one forward  predicted, in execution order     ",
        "          ▼ peak 12.7 KiB  conv  step 1 of 4                ",
        "         │                                                  ",
        "         │▆▆▆▆▆▆▆▆▆▆▆▆▆                                     ",
        "   +2 KiB┤█████████████▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄             ",
        "         │█████████████████████████████████████             ",
        "         │█████████████████████████████████████             ",
        "   +1 KiB┤█████████████████████████████████████▄▄▄▄▄▄▄▄▄▄▄▄ ",
        "         │█████████████████████████████████████████████████ ",
        "         │█████████████████████████████████████████████████ ",
        " 10.5 KiB┤█████████████                            weights  ",
        "          ╵conv        ╵fc         ╵act                     ",
        " step 1 of 4  conv  1.75 KiB activations  512 B workspace   ",
        " alive at the peak ────────────────── 12.7 KiB in 5 tensors ",
    ]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [*range(60, 201, 7), 80, 100, 120, 160, 200])
@pytest.mark.parametrize("rows", [13, 22, 35])
def test_every_row_is_as_wide_as_the_screen(glyphs: Glyphs, cells: int, rows: int):
    narrow = cells < 100 or rows < 28
    for session in (RESNET, session_with(SMALL), fold(recorded())):
        for step in (0, 2):
            look = Look(session, 0, 9.0, cells, glyphs)
            lines = memory_lines(look, step, rows, narrow=narrow)
            assert len(lines) <= rows
            # Not by what cuts them on screen: nothing is to be cut.
            assert max(map(line_width, lines)) <= cells
            assert line_width(cursor_line(look, step)) == cells
            if glyphs is ASCII:
                assert all(text(line).isascii() for line in finished(lines, look, rows))
    shown = drawn(RESNET, 0, cells, rows, glyphs, narrow=narrow)
    assert {len(line) for line in shown} == {cells}


@pytest.mark.parametrize("cells", [3, 10, 20, 40])
@pytest.mark.parametrize("rows", [0, 1, 3, 8])
def test_a_terminal_that_is_too_small_breaks_nothing(cells: int, rows: int):
    for session in (RESNET, session_with(SMALL), folded(TRACED), folded(())):
        assert len(drawn(session, 0, cells, rows, narrow=True)) == rows


def test_the_mark_is_above_the_highest_column():
    lines = drawn(RESNET, step=0)
    at = lines[1].index("▼")
    heights = [
        sum(UNICODE.levels.index(line[column]) for line in lines[2:17]) for column in range(10, 119)
    ]
    assert heights[at - 10] == max(heights) > 14 * 8 - 8
    assert lines[1].endswith("peak 109 MiB  layer4.0.conv2  step 144 of 176 ▼" + " " * (119 - at))


def test_the_peak_is_told_left_of_its_mark_where_there_is_no_room_at_the_right():
    rising = columns_of([2**20 * step for step in range(1, 50)], [CONV_OP] * 49)
    peak = drawn(session_with(rising), cells=80, rows=22, narrow=True)[1]
    assert peak.rstrip().endswith("step 49 of 49 ▼")
    assert len(peak.rstrip()) == 79


def test_weights_scratch_and_cursor_are_told_apart_without_colours():
    look = Look(session_with(SMALL), 0, 9.0, 120, ASCII)
    lines = [text(line) for line in finished(memory_lines(look, 1, 35, narrow=False), look, 35)]
    assert any("wwwwwwwwww" in line for line in lines[2:17])
    band = next(line for line in lines if " weights, constant through the forward " in line)
    assert re.search(r"@{20,}", band)  # The second of four steps.
    assert band.index("@") < band.index("weights")


def test_only_greys_are_used():
    look = Look(RESNET, 0, 9.0, 120)
    roles = {role for line in memory_lines(look, 7, 35, narrow=False) for _, role in line}
    words = {word for role in roles for word in role.split()}
    assert words <= {"ink", "muted", "faint", "hairline", "accent", "strong", "panel"}


def test_what_is_alive_adds_up_to_its_title():
    lines = drawn(session_with(SMALL), step=0)
    at = next(i for i, line in enumerate(lines) if line.startswith(" alive at the peak "))
    # 10712 + 1792 + 512 bytes; three weights, the inputs as one, the convolution's output.
    assert " 12.7 KiB in 5 tensors " in lines[at]
    rows = [line[:69].split() for line in lines[at + 1 : at + 6]]
    assert [(row[0], " ".join(row[-2:])) for row in rows if row] == [
        ("weights", "10.5 KiB"),
        ("workspace", "512 B"),
        ("conv", "1.00 KiB"),
        ("inputs", "768 B"),
    ]


def test_beside_the_peak_it_is_said_which_step_is_listed():
    lines = drawn(session_with(SMALL), step=1)
    assert any(line.startswith(" alive at step 2 ") for line in lines)


def test_a_recording_without_steps_says_so_and_shows_what_it_has():
    lines = drawn(fold(recorded()))
    assert lines[1].startswith(" steps    –  the program is older than this figure")
    assert any(line.startswith(" alive at the peak ") for line in lines)
    assert any("predicted and measured" in line for line in lines)


def test_hostile_names_are_safe():
    from msgspec.structs import replace

    from tests.small_model import COSTS, DONE, FACTS, NODES
    from tui_profiler.messages import Nodes, TraceStarted

    names = tuple(
        replace(node, name="\x1b[31m[b]多" * 9, path=node.path and "\x1b]0;x\x07\u202e" * 30)
        for node in NODES
    )
    started = TraceStarted(len(NODES), "dispatch:fake")
    session = folded((FACTS, started, Nodes(names, COSTS), SMALL, DONE))
    for narrow in (False, True):
        look = Look(session, 0, 9.0, 100)
        lines = memory_lines(look, 1, 35, narrow=narrow)
        assert max(map(line_width, lines)) <= 100
        assert not set("".join(map(text, lines))) & {"\x1b", "\x07", "\u202e"}


def shown_step(stage: Stage) -> int:
    screen = stage.app.screen
    assert isinstance(screen, MemoryScreen)
    return screen.step


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_the_memory_screen_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded_with_memory(), size) as (stage, pilot):
        await pilot.press("m")
        await pilot.pause()
        await pilot.pause()
        check_golden(f"memory-{size[0]}x{size[1]}", screen_text(stage.app))


async def test_the_cursor_begins_at_the_selected_node_and_takes_the_selection_along() -> None:
    async with on_stage(recorded_with_memory()) as (stage, pilot):
        tree = stage.app._newest.tree
        assert tree is not None
        memory = memory_of(stage.app._newest)
        layer2 = tree.find("layer2")
        assert layer2 is not None
        stage.explorer.tree_widget.select(layer2)
        await pilot.press("m")
        await pilot.pause()
        assert shown_step(stage) == first_step(tree, memory, layer2)
        await pilot.press("right", "l", "l", "left")
        wanted = (first_step(tree, memory, layer2) or 0) + 2
        assert shown_step(stage) == wanted
        await pilot.press("escape")
        await pilot.pause()
        selected = stage.explorer.tree_widget.view.selected
        assert selected == tree.nodes[memory.nodes[wanted]].parent
        await pilot.press("m")
        await pilot.pause()
        assert shown_step(stage) == first_step(tree, memory, selected)


async def test_keys_go_to_the_ends_and_the_peak() -> None:
    async with on_stage(recorded_with_memory()) as (stage, pilot):
        memory = memory_of(stage.app._newest)
        await pilot.press("m")
        await pilot.pause()
        assert shown_step(stage) == peak_step(memory)  # The root is everything.
        await pilot.press("G")
        assert shown_step(stage) == len(memory) - 1
        await pilot.press("l")
        assert shown_step(stage) == len(memory) - 1
        await pilot.press("g")
        assert shown_step(stage) == 0
        await pilot.press("h")
        assert shown_step(stage) == 0
        await pilot.press("z")
        assert shown_step(stage) == peak_step(memory)
        await pilot.press("pagedown")
        assert shown_step(stage) == peak_step(memory) + len(memory) // 10
        for key in ("pageup", "ctrl+d", "ctrl+u"):
            await pilot.press(key)
        assert shown_step(stage) == peak_step(memory)


async def test_enter_opens_the_node_at_the_cursor() -> None:
    from screens.views.node.screen import NodeScreen

    async with on_stage(recorded_with_memory()) as (stage, pilot):
        tree = stage.app._newest.tree
        assert tree is not None
        memory = memory_of(stage.app._newest)
        await pilot.press("m", "enter")
        await pilot.pause()
        screen = stage.app.screen
        assert isinstance(screen, NodeScreen)
        assert screen.node == tree.nodes[memory.nodes[peak_step(memory)]].parent


async def test_a_recording_without_steps_opens() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("m", "l", "z", "G", "pagedown", "h")
        await pilot.pause()
        assert "older than this figure" in screen_text(stage.app)
        await pilot.press("escape")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
