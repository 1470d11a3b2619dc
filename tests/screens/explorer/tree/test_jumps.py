"""Marks, jumps back, siblings and rows of equal blocks in the tree widget."""

from __future__ import annotations

from screens.widgets.lines import text
from tests.queries.sessions import RESNET, RESNET_SECONDS, resnet, session_of, ticked
from tests.screens.explorer.tree.test_tree import cursor_line, node, on_screen, path, shown
from tui_profiler.formatting.canvas import ASCII

EQUAL = "m M 0 0\n  body Sequential 0 0\n" + "".join(
    f"    {i} Block 10 {i}\n      conv Conv2d 10 {i}\n" for i in range(4)
)


async def test_a_mark_is_a_glyph_in_its_row_and_moves_nothing() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.select(node(session, "layer1"))
        before = [text(line) for line in tree.lines]
        assert tree.mark().startswith("marked")
        row = cursor_line(tree)
        after = [text(line) for line in tree.lines]
        assert [y for y, line in enumerate(after) if line != before[y]] == [row]
        assert after[row].startswith("▌  ▸◆layer1 3× Bottleneck")
        assert tree.mark() == "mark removed"
        assert [text(line) for line in tree.lines] == before
    async with shown(session, glyphs=ASCII) as (_, tree):
        tree.mark()
        assert text(tree.lines[1]).startswith(">-*resnet50")


async def test_marks_are_gone_through_in_order_and_round() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        assert "no mark" in tree.next_mark()
        for marked in ("fc", "layer1.1.conv1", "conv1"):
            tree.select(node(session, marked))
            tree.mark()
        seen = []
        for _ in range(4):
            assert tree.next_mark() == ""
            seen.append(path(tree))
        assert seen == ["layer1.1.conv1", "fc", "conv1", "layer1.1.conv1"]


async def test_marks_stay_at_their_paths_in_a_new_tree() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.select(node(session, "layer2"))
        tree.mark()
        tree.select(node(session, "bn1"))
        tree.mark()
        shorter = session_of(RESNET.replace("  bn1 BatchNorm2d 128 0\n", ""), after=session)
        tree.session = shorter
        assert tree.view.marked == {node(shorter, "layer2")}


async def test_jumps_are_come_back_from_one_by_one() -> None:
    session = ticked(session_of(RESNET), RESNET_SECONDS)
    async with shown(session) as (_, tree):
        assert "no jump yet" in tree.jump_back()
        tree.move(1)
        tree.hottest()
        tree.select(node(session, "layer1.2.conv1"))
        tree.move(-1)
        # Moving is no jump; folding does not lose the place.
        tree.fold_all()
        for expected in ("layer2.0", "conv1"):
            assert tree.jump_back() == ""
            assert path(tree) == expected
        assert "no jump yet" in tree.jump_back()


async def test_the_hottest_stays_in_the_root_of_the_view() -> None:
    async with shown(resnet()) as (_, tree):
        tree.hottest()
        assert path(tree) == "layer2.0"
        tree.select(node(tree.session, "layer1"))
        assert tree.drill_down()
        tree.hottest()
        assert path(tree) == "layer1.1.conv1"


async def test_a_search_is_a_jump() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.select(node(session, "relu"))
        tree.filter()
        tree.filter_by("type:linear")
        assert path(tree) == "fc"
        tree.filter_by("")
        assert tree.jump_back() == ""
        assert path(tree) == "relu"


async def test_siblings_are_those_on_screen_whatever_is_unfolded_between() -> None:
    session = resnet()
    async with shown(session) as (_, tree):
        tree.select(node(session, "layer1"))
        tree.unfold()
        assert tree.sibling(1) == ""
        assert path(tree) == "layer2"
        assert tree.sibling(-1) == ""
        assert path(tree) == "layer1"
        tree.sort_by("seconds")
        assert tree.sibling(-1) == "no further sibling"
        assert tree.sibling(1) == ""
        assert path(tree) == "layer2"
        tree.first()
        assert tree.sibling(1) == "no further sibling"
        tree.select(node(session, "layer1.2"))
        assert tree.sibling(-1) == ""
        assert path(tree) == "layer1.1"


async def test_equal_blocks_are_one_row_until_one_of_them_is_gone_to() -> None:
    session = session_of(EQUAL)
    async with shown(session) as (_, tree):
        tree.unfold_all()
        tree.select(node(session, "body.2.conv"))
        tree.group()
        assert on_screen(tree)[:5] == ["m", "body", "0-3", "conv", ""]
        assert path(tree) == "body.0.conv"
        # 0 + 1 + 2 + 3 MACs, 4 x 10 parameters.
        assert text(tree.lines[3]).split()[2:6] == ["4×", "Block", "40", "6"]
        tree.select(node(session, "body.3"))
        assert path(tree) == "body.3"
        assert tree.outline is not None
        assert len(tree.outline) == 10
        tree.group()
        tree.group()
        assert len(tree.outline) == 4
        assert path(tree) == "body.0"
