from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.app import App, ComposeResult
from textual.events import MouseScrollDown
from textual.geometry import Region
from textual.pilot import Pilot

from screens.explorer.tree.widget import NodeTree
from screens.settings.theme import DARK, roles_for
from screens.widgets.lines import text
from screens.widgets.strip import ForwardStrip
from tests.queries.sessions import RESNET, RESNET_SECONDS, resnet, session_of, ticked
from tests.screens.screen_text import resize
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.session import EMPTY, Session


class Watched(NodeTree):
    """Notes which of its rows were asked to be painted again."""

    def __init__(self, session: Session, glyphs: Glyphs) -> None:
        self.repainted: list[int] = []
        super().__init__(session, glyphs=glyphs)

    def refresh(self, *regions: Region, **changes: bool) -> NodeTree:  # type: ignore[override]
        self.repainted += [row for region in regions for row in region.line_range]
        return super().refresh(*regions, **changes)


class Shown(App[None]):
    """The strip above the tree, and what the tree said."""

    CSS = "Screen { layout: vertical; } Watched { width: 1fr; height: 1fr; }"

    def __init__(self, session: Session, glyphs: Glyphs) -> None:
        super().__init__()
        self.first, self.glyphs = session, glyphs
        self.said: list[str] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return roles_for(DARK)

    def compose(self) -> ComposeResult:
        yield ForwardStrip(self.first)
        yield Watched(self.first, self.glyphs)

    def on_node_tree_opened(self, message: NodeTree.Opened) -> None:
        self.said.append(f"opened {message.node}")

    def on_node_tree_changed(self, message: NodeTree.Changed) -> None:
        self.said.append(f"at {message.view.selected}")


@asynccontextmanager
async def shown(
    session: Session, *, size: tuple[int, int] = (72, 13), glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[Pilot[None], Watched]]:
    """Show a session: eight rows of the tree at the usual size."""
    app = Shown(session, glyphs)
    async with app.run_test(size=size) as pilot:
        yield pilot, app.query_one(Watched)


def on_screen(tree: NodeTree) -> list[str]:
    return [text(line)[:28].strip(" ▌▸▾").split(" ")[0] for line in tree.lines[1:-1]]


def cursor_line(tree: NodeTree) -> int:
    return next(y for y, line in enumerate(tree.lines) if text(line).startswith("▌"))


def path(tree: NodeTree) -> str:
    assert tree.session.tree is not None
    return tree.session.tree.nodes[tree.view.selected].path


def node(session: Session, of: str) -> int:
    assert session.tree is not None
    found = session.tree.find(of)
    assert found is not None
    return found


async def test_the_cursor_scrolls_what_it_would_leave() -> None:
    async with shown(resnet()) as (_, tree):
        assert on_screen(tree)[0] == "resnet50"
        tree.last()
        assert (path(tree), cursor_line(tree)) == ("fc", 8)
        assert text(tree.lines[0]).startswith(" resnet50 ")
        tree.first()
        assert (path(tree), cursor_line(tree)) == ("", 1)
        tree.page(1)
        assert path(tree) == "maxpool"
        tree.move(100)
        assert path(tree) == "fc"
        tree.move(-1)
        assert path(tree) == "avgpool"


async def test_moving_the_cursor_repaints_two_rows_and_the_footer() -> None:
    async with shown(resnet()) as (pilot, tree):
        await pilot.pause()
        tree.repainted.clear()
        tree.move(1)
        assert sorted(tree.repainted) == [1, 2, 9]


async def test_a_tick_repaints_only_the_rows_that_changed() -> None:
    session = resnet()
    async with shown(session) as (pilot, tree):
        await pilot.pause()
        tree.repainted.clear()
        tree.session = ticked(session, {**RESNET_SECONDS, "bn1": 0.00025}, at=1.25)
        assert tree.repainted == [3]


async def test_a_tick_that_changes_nothing_repaints_nothing() -> None:
    session = resnet()
    async with shown(session) as (pilot, tree):
        await pilot.pause()
        tree.repainted.clear()
        tree.session = ticked(session, RESNET_SECONDS, at=1.25)
        assert tree.repainted == []


async def test_left_and_right_fold_unfold_and_walk() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.select(node(session, "layer1"))
        tree.unfold()
        tree.unfold()
        assert path(tree) == "layer1.0"
        tree.unfold()
        tree.unfold()
        assert path(tree) == "layer1.0.conv1"
        tree.unfold()
        assert path(tree) == "layer1.0.conv1"
        tree.fold()
        assert path(tree) == "layer1.0"
        tree.fold()
        tree.fold()
        assert path(tree) == "layer1"
        tree.toggle_fold()
        tree.first()
        tree.fold()
        tree.fold()
        assert on_screen(tree)[:2] == ["resnet50", ""]


async def test_selecting_a_hidden_node_unfolds_what_is_above_it() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.filter_by("layer2")
        tree.select(node(session, "layer1.2.conv1"))
        assert path(tree) == "layer1.2.conv1"
        assert tree.view.filter_text == ""
        assert cursor_line(tree) <= 8


async def test_the_hottest_module_gets_the_cursor() -> None:
    async with shown(resnet()) as (_, tree):
        tree.hottest()
        assert path(tree) == "layer2.0"


async def test_the_order_changes_only_when_asked() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.sort_by("seconds")
        before = on_screen(tree)
        tree.session = ticked(session, {**RESNET_SECONDS, "layer2": 0.030}, at=2.0)
        assert on_screen(tree) == before
        tree.sort_by("seconds")
        assert on_screen(tree)[1:3] == ["layer2", "layer1"]


async def test_live_rows_move_by_themselves_only_when_nobody_touched_the_tree_for_a_while() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.sort_by("seconds")
        before = on_screen(tree)
        tree.settle(100.0)
        tree.session = ticked(session, {**RESNET_SECONDS, "layer2": 0.030}, at=2.0)
        tree.settle(104.9)
        assert on_screen(tree) == before
        tree.move(1)
        tree.settle(105.1)
        tree.settle(110.0)
        assert on_screen(tree) == before
        line = cursor_line(tree)
        tree.settle(110.2)
        # The selected row stays on its line: what is above it scrolls away.
        assert on_screen(tree)[:2] == ["layer2", "layer1"]
        assert (path(tree), cursor_line(tree)) == ("layer1", line)


async def test_what_a_live_filter_finds_is_found_anew_when_idle() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.filter_by("time>15ms")
        assert on_screen(tree)[:3] == ["resnet50", "layer1", "layer2"]
        tree.settle(0.0)
        tree.session = ticked(session, {**RESNET_SECONDS, "layer2": 0.001}, at=2.0)
        assert on_screen(tree)[:3] == ["resnet50", "layer1", "layer2"]
        tree.settle(6.0)
        assert on_screen(tree)[:3] == ["resnet50", "layer1", ""]


async def test_resorting_keeps_the_selected_row_on_its_line() -> None:
    text_of_tree = "m M 0 0\n" + "".join(f"  c{i} C 0 {i * 37 % 60}\n" for i in range(60))
    session = session_of(text_of_tree)
    async with shown(session) as (_, tree):
        tree.last()
        tree.select(node(session, "c30"))
        tree.move(2)
        line = cursor_line(tree)
        tree.sort_by("macs")
        assert (path(tree), cursor_line(tree)) == ("c32", line)
        tree.reverse()
        assert (path(tree), cursor_line(tree)) == ("c32", line)


async def test_drilling_down_and_up() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.drill_up()
        assert tree.view.root == 0
        tree.select(node(session, "layer1"))
        assert tree.drill_down()
        assert on_screen(tree)[:4] == ["layer1", "0", "1", "2"]
        assert not tree.drill_down()
        tree.drill_up()
        assert (path(tree), tree.view.root) == ("layer1", 0)
        tree.select(node(session, "fc"))
        assert not tree.drill_down()


async def test_depth_and_fold_all() -> None:
    async with shown(resnet(), size=(72, 40)) as (_, tree):
        tree.depth(2)
        assert text(tree.lines[-1]).startswith(" 1 of 14 shown · 17 nodes")
        tree.unfold_all()
        assert text(tree.lines[-1]).startswith(" 1 of 17 shown")
        tree.fold_all()
        assert text(tree.lines[-1]).startswith(" 1 of 9 shown")
        tree.operators()
        assert text(tree.lines[-1]).startswith(" 1 of 9 shown · 18 nodes")


async def test_the_tree_says_what_was_selected() -> None:
    async with shown(resnet()) as (pilot, tree):
        app = pilot.app
        assert isinstance(app, Shown)
        await pilot.pause()
        app.said.clear()
        tree.move(1)
        await pilot.pause()
        assert app.said == ["at 1"]
        tree.first()
        tree.move(-1)
        await pilot.pause()
        assert app.said[1:] == ["at 0"]


async def test_a_click_selects_a_second_one_opens_and_one_on_the_glyph_folds() -> None:
    session = resnet()
    async with shown(session) as (pilot, tree):
        app = pilot.app
        assert isinstance(app, Shown)
        await pilot.click(Watched, offset=(20, 3))
        assert path(tree) == "bn1"
        await pilot.click(Watched, offset=(3, 6))
        assert path(tree) == "layer1"
        assert on_screen(tree)[6] == "0"
        await pilot.click(Watched, offset=(20, 2), times=2)
        assert f"opened {node(session, 'conv1')}" in app.said
        await pilot.click(Watched, offset=(20, 0))
        assert path(tree) == "conv1"


async def test_the_wheel_scrolls_and_leaves_the_cursor() -> None:
    async with shown(resnet()) as (pilot, tree):
        tree.unfold_all()
        await pilot.pause()
        tree.post_message(MouseScrollDown(tree, 5, 5, 0, 1, 0, False, False, False))
        await pilot.pause()
        assert (on_screen(tree)[0], path(tree)) == ("relu", "")


async def test_the_thumb_follows_the_rows() -> None:
    async with shown(resnet()) as (_, tree):
        tree.unfold_all()
        edge = "".join(text(line)[-1] for line in tree.lines)
        assert edge == "│┃┃┃││││││"
        tree.last()
        edge = "".join(text(line)[-1] for line in tree.lines)
        assert edge == "││││││┃┃┃│"


async def test_a_blurred_tree_keeps_its_cursor_in_another_colour() -> None:
    async with shown(resnet()) as (pilot, tree):
        tree.focus()
        await pilot.pause()
        assert tree.lines[1][0] == ("▌", "accent cursor")
        tree.blur()
        await pilot.pause()
        assert tree.lines[1][0] == ("▌", "faint blurred")


async def test_a_new_tree_keeps_what_was_looked_at() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.select(node(session, "layer1.1.conv1"))
        tree.session = session_of(RESNET.replace("  bn1 BatchNorm2d 128 0\n", ""), after=session)
        assert path(tree) == "layer1.1.conv1"
        assert "bn1" not in on_screen(tree)


async def test_before_there_is_a_tree_nothing_can_go_wrong() -> None:
    async with shown(EMPTY) as (pilot, tree):
        for act in (
            tree.first, tree.last, tree.toggle_fold, tree.fold, tree.unfold, tree.fold_all,
            tree.unfold_all, tree.hottest, tree.drill_down, tree.drill_up, tree.sort, tree.reverse,
        ):  # fmt: skip
            act()
        tree.move(3)
        tree.page(-1)
        tree.select(4)
        tree.filter_by("x")
        tree.depth(3)
        await pilot.pause()
        assert text(tree.lines[0]).startswith(" modules ")
        tree.session = resnet()
        assert on_screen(tree)[0] == "resnet50"


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (10, 4), (20, 5), (80, 24), (120, 40), (200, 50)])
async def test_every_line_on_screen_is_as_wide_as_the_screen(size: tuple[int, int]) -> None:
    async with shown(resnet(), size=size) as (_, tree):
        for form in ("wide", "narrow", "tiny"):
            tree.form = form  # type: ignore[assignment]  # a literal, each
            tree.unfold_all()
            assert len(tree.lines) == tree.size.height
            for y in range(tree.size.height):
                assert tree.render_line(y).cell_length == tree.size.width


async def test_a_resize_keeps_the_cursor_in_sight() -> None:
    async with shown(resnet(), size=(72, 30)) as (pilot, tree):
        tree.unfold_all()
        tree.last()
        await resize(pilot, 60, 9)
        await pilot.pause()
        assert path(tree) == "fc"
        assert cursor_line(tree) == 4


def parameters_of_rows(tree: NodeTree) -> list[int]:
    laid, known = tree.outline, tree.session.tree
    assert laid is not None
    assert known is not None
    return [known.costs[row].parameters for row in laid.rows[1:]]


async def test_a_click_on_a_title_sorts_by_it_again_reverses_and_the_arrow_says_which() -> None:
    async with shown(resnet(), size=(100, 13)) as (pilot, tree):

        async def click(title: str) -> str:
            await pilot.click(Watched, offset=(text(tree.lines[0]).rindex(title), 0))
            return text(tree.lines[0])

        in_order = on_screen(tree)
        assert "↓params" in await click("params")
        assert (tree.view.sort, tree.view.descending) == ("params", True)
        assert parameters_of_rows(tree) == sorted(parameters_of_rows(tree), reverse=True)
        assert "↑params" in await click("params")
        assert parameters_of_rows(tree) == sorted(parameters_of_rows(tree))
        assert "↑modules" in await click("modules")
        assert "↓modules" in await click("modules")
        assert "↓" not in await click("modules")
        assert on_screen(tree) == in_order
        assert tree.view.sort == "order"
        selected = tree.view.selected
        await pilot.click(Watched, offset=(90, 0), times=2)
        assert tree.view.selected == selected
