"""The roofline screen: golden screens, exact widths, and what its keys do."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from screens.views.node.screen import NodeScreen
from screens.views.roofline.lines import form_for, no_roofs, roofline_lines, status_row
from screens.views.roofline.screen import RooflineScreen, node_under
from screens.widgets.lines import Line, text
from screens.widgets.rows import Look, finished
from tests import small_model
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import Stage, check_golden, on_stage, until_traced
from tests.screens.screen_text import screen_text
from tui_profiler.formatting.canvas import ASCII, BLOCK, UNICODE, Glyphs
from tui_profiler.formatting.text import width
from tui_profiler.messages import CacheCeiling, Ceilings, Message, RoofQuality
from tui_profiler.queries.cost.bound_classes import KINDS, LETTERS
from tui_profiler.queries.cost.roofline import UNJUDGED
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.session import EMPTY, Session, apply

ON_GPU = replace(small_model.FACTS, device="cuda:0")
BLOCKS = replace(UNICODE, dots="blocks")
SETS = pytest.mark.parametrize("glyphs", [UNICODE, BLOCK, ASCII], ids=["unicode", "block", "ascii"])


@cache
def session() -> Session:
    return folded(recorded())


def folded(messages: list[Message]) -> Session:
    found = EMPTY
    for message in messages:
        found = apply(found, message)
    return found


@cache
def traced() -> Session:
    return folded(until_traced())


@cache
def without_ceilings() -> Session:
    return folded([message for message in recorded() if not isinstance(message, Ceilings)])


def view_of(found: Session) -> RooflineView:
    view = RooflineView()
    view.update(found, found.heard_at)
    return view


def drawn(
    found: Session, cells: int, rows: int, *, path: str = "layer3.2.conv2", glyphs: Glyphs = UNICODE
) -> list[Line]:
    view = view_of(found)
    assert found.tree is not None
    look = Look(found, found.tree.find(path) or 0, found.heard_at, cells, glyphs)
    return roofline_lines(look, view, rows)


def lines_of(found: Session, cells: int, rows: int, **others: object) -> list[str]:
    return list(map(text, drawn(found, cells, rows, **others)))  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_the_roofline_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("r", "down", "down", "down")
        await pilot.pause()
        check_golden(f"roofline-{size[0]}x{size[1]}", screen_text(stage.app))


@pytest.mark.parametrize("glyphs", [UNICODE, BLOCKS, ASCII], ids=["braille", "blocks", "ascii"])
@pytest.mark.parametrize("cells", [20, 34, 60, 80, 99, 100, 120, 200])
def test_every_row_is_as_wide_as_the_view(cells: int, glyphs: Glyphs) -> None:
    for found, path in (
        (session(), "layer3.2.conv2"),
        (session(), "maxpool"),
        (session(), ""),
        (without_ceilings(), "conv1"),
        (traced(), "conv1"),
    ):
        for rows in (1, 3, 7, 8, 9, 13, 15, 16, 22, 33, 35, 55):
            lines = drawn(found, cells, rows, path=path, glyphs=glyphs)
            look = Look(found, 0, 0.0, cells, glyphs)
            assert len(lines) == rows
            assert {width(text(line)) for line in lines} <= {cells, 0}
            assert {width(text(line)) for line in finished(lines, look)} == {cells}


@SETS
@pytest.mark.parametrize("cells", [34, 60, 120])
def test_what_holds_a_node_back_is_told_without_colours(cells: int, glyphs: Glyphs) -> None:
    form = form_for(cells, 15)
    lines = drawn(session(), cells, 15, path="conv1", glyphs=glyphs)
    legend = text(lines[0])
    of: dict[str, set[str]] = {}
    for line in lines[1 : form.plot_rows]:
        column = 0
        for part, role in line:
            if role in KINDS and column < form.plot_cells:
                of.setdefault(role, set()).update(part.replace(" ", ""))
            column += width(part)
    assert set(of) == {"compute", "memory", "unexplained"}
    assert sum(map(len, of.values())) == len(set().union(*of.values())), "a sign of two bounds"
    for kind, signs in of.items():
        named = kind if cells > 60 else LETTERS[kind]
        head = legend[: legend.index(f" {named}")].split()[-1]
        assert signs <= set(head), "a point that the legend does not explain"


def test_in_ascii_everything_is_ascii() -> None:
    look = Look(session(), 0, 0.0, 120, ASCII)
    shown = "".join(map(text, finished(drawn(session(), 120, 35, glyphs=ASCII), look)))
    assert shown.isascii()
    assert "?" not in shown


def test_block_glyphs_draw_no_braille() -> None:
    shown = "".join(lines_of(session(), 120, 35, glyphs=BLOCKS))
    assert not any("⠀" <= character <= "⣿" for character in shown)
    assert any(character in shown for character in "▞▚▛▟▘▝▀▄")


def test_the_selected_point_is_marked_and_named_once_in_the_plot() -> None:
    for cells in (60, 80, 120, 200):
        plot = "\n".join(
            line[: 79 if cells == 120 else cells] for line in lines_of(session(), cells, 35)
        )
        assert plot.count("◉") == 1


def test_a_block_is_told_as_its_parts_together() -> None:
    shown = "\n".join(lines_of(session(), 120, 35, path="layer3"))
    assert "achieved, children" in shown
    assert "attainable, children" in shown


def test_before_times_there_are_roofs_and_a_sentence() -> None:
    ceilings = next(message for message in recorded() if isinstance(message, Ceilings))
    shown = "\n".join(lines_of(folded([*until_traced(), ceilings]), 120, 35))
    assert "points appear with the first times" in " ".join(shown.split())
    assert "FLOP/B" in shown
    assert "ridge" in shown


def test_without_ceilings_points_remain_and_the_reason_is_told() -> None:
    found = without_ceilings()
    shown = "\n".join(lines_of(found, 120, 35))
    assert "no roofs yet" in shown
    assert "●" in shown
    assert no_roofs(found).startswith("no roofs yet")


def test_the_status_counts_what_is_below_half_of_its_roof() -> None:
    view = view_of(session())
    assert view.now is not None
    line = text(status_row(Look(session(), 0, 0.0, 120), view))
    assert f"{view.now.below} of {view.now.judged} nodes below 50 % of their roof" in line
    assert "roofs of cpu, " in line


def test_the_list_moves_no_more_than_the_cursor_asks_for() -> None:
    view = view_of(session())
    assert view.parts is not None
    nodes = [view.parts.nodes[place] for place in view.order]
    tops = [view.first_row(nodes[rank], 10) for rank in (0, 9, 10, 11, 2, 1, 30)]
    assert tops == [0, 0, 1, 2, 2, 1, 21]
    assert view.first_row(nodes[-1], 10) == len(nodes) - 10


def test_times_of_the_host_are_named_so_only_where_the_gpu_timed_nothing() -> None:
    enqueued = small_model.folded((*small_model.MEASURED, ON_GPU))
    on_gpu = apply(enqueued, small_model.device_times({small_model.ROOT: (0.004, 0.0002)}))

    for found, is_host in ((session(), False), (enqueued, True), (on_gpu, False)):
        assert ("times of the host" in "".join(lines_of(found, 150, 30, path=""))) is is_host


def test_a_click_selects_a_row_or_a_point() -> None:
    view = view_of(session())
    assert view.parts is not None
    nodes = [view.parts.nodes[place] for place in view.order]
    # The list begins right of the divider; its first row is the heading.
    assert node_under(view, nodes[0], (120, 35), (90, 3)) == nodes[2]
    assert node_under(view, nodes[0], (120, 35), (90, 0)) == nodes[0]
    lines = lines_of(session(), 120, 35, path="layer3.2.conv2")
    row = next(y for y, line in enumerate(lines) if "◉" in line)
    assert session().tree is not None
    found = node_under(view, nodes[0], (120, 35), (lines[row].index("◉"), row))
    line = next(
        other
        for other in lines_of(session(), 120, 35, path=session().tree.nodes[found].path)
        if "◉" in other
    )
    assert line.index("◉") == lines[row].index("◉")


def on_screen(stage: Stage) -> RooflineScreen:
    screen = stage.app.screen
    assert isinstance(screen, RooflineScreen)
    return screen


async def test_the_selection_comes_and_goes_with_the_reader() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        tree = stage.app._newest.tree
        assert tree is not None
        conv1 = tree.find("conv1")
        assert conv1 is not None
        stage.explorer.tree_widget.select(conv1)
        await pilot.press("r")
        await pilot.pause()
        assert on_screen(stage).node == conv1
        await pilot.press("g")
        slowest = on_screen(stage).node
        await pilot.press("j", "l", "h", "G", "ctrl+u", "ctrl+d", "k")
        chosen = on_screen(stage).node
        assert chosen != slowest
        await pilot.press("escape")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        assert stage.explorer.tree_widget.view.selected == chosen


async def test_keys_walk_by_time_and_cross_by_intensity_both_ways() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("r", "g")
        seen = [on_screen(stage).node]
        for key in ("j", "down", "k", "up"):
            await pilot.press(key)
            seen.append(on_screen(stage).node)
        assert len(set(seen[:3])) == 3
        assert seen[3:] == [seen[1], seen[0]]
        # From the middle of the list, so that there is a point on both sides.
        await pilot.press("ctrl+d")
        points = [on_screen(stage).node]
        for key in ("l", "right", "h", "left"):
            await pilot.press(key)
            points.append(on_screen(stage).node)
        assert len(set(points[:3])) == 3
        assert points[3:] == [points[1], points[0]]
        await pilot.press("G")
        least = on_screen(stage).node
        await pilot.press("j")
        assert on_screen(stage).node == least
        await pilot.press("home")
        assert on_screen(stage).node == seen[0]


async def test_enter_opens_the_node() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("r", "g")
        chosen = on_screen(stage).node
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(stage.app.screen, NodeScreen)
        assert stage.app.screen.node == chosen


async def test_r_leaves_as_it_came() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("r")
        await pilot.pause()
        assert "by time" in screen_text(stage.app)
        await pilot.press("r")
        await pilot.pause()
        assert stage.app.screen is stage.explorer


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (60, 15), (100, 20), (80, 50)])
async def test_small_terminals_show_what_fits(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("r", "down", "down")
        await pilot.pause()
        shown = screen_text(stage.app)
        assert max(map(width, shown.split("\n"))) <= size[0]
        assert "%" in shown
        assert shown.count("▌" if size[1] < 14 else "◉") == 1


def test_caches_have_slopes_above_that_of_memory() -> None:
    fast = apply(session(), cached(good=True))
    shown = "\n".join(lines_of(fast, 120, 35))
    assert "L3  185 GB/s" in shown
    without = "\n".join(lines_of(session(), 120, 35))
    assert dots(shown) > dots(without)
    assert "L3" not in without


def test_roofs_that_are_not_good_enough_are_named_and_judge_no_node_that_needs_them() -> None:
    doubted = apply(session(), cached(good=False))
    view, whole = view_of(doubted), view_of(apply(session(), cached(good=True)))
    assert view.now is not None
    assert whole.now is not None
    assert view.parts is not None
    assert whole.parts is not None
    # Weights of 100 MB come from memory: a layer is judged where its FLOPs take longer than those.
    open_ones = [
        place
        for place, (_, now, before) in enumerate(
            zip(view.parts.nodes, view.parts.least, whole.parts.least, strict=True)
        )
        if before and not now
    ]
    assert open_ones
    assert view.now.judged == whole.now.judged - len(open_ones) > 0
    assert all(view.parts.kinds[place] == UNJUDGED for place in open_ones)
    for place, kind in enumerate(view.parts.kinds):
        assert kind in (UNJUDGED, whole.parts.kinds[place])
    line = text(status_row(Look(doubted, 0, 0.0, 120), view))
    assert "not good enough: memory" in line
    shown = " ".join("\n".join(lines_of(doubted, 120, 35)).split())
    assert "memory  " not in shown


def dots(shown: str) -> int:
    return sum(0x2800 < ord(character) < 0x2900 for character in shown)


def cached(*, good: bool) -> Ceilings:
    quality = RoofQuality(1.7e9, 0.0, "" if good else "0 of 9 pieces ran without waiting")
    found = next(message for message in recorded() if isinstance(message, Ceilings))
    caches = (CacheCeiling(3, 2**25, 185e9, RoofQuality(1.7e9, 0.0)),)
    return replace(found, busy=0.0, memory_quality=quality, caches=caches)
