"""The flat screen: its rows, its keys, and the way back into the tree."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.views.flat.lines import flat_heading, flat_lines, shown_columns, status_line
from screens.views.flat.screen import FlatScreen
from screens.views.flat.view import FlatView
from screens.widgets.heading import Order
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import Stage, check_golden, on_stage
from tests.screens.screen_text import screen_text
from tests.small_model import (
    CONV,
    CONV_OP,
    FC,
    FC_OP,
    MEASURED,
    NODES,
    ROOT,
    TICK,
    TRACED,
    WITH_OWN,
    folded,
    operator_times,
    tick,
    with_cpu_times,
)
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.flat import BYS, By, flat_table
from tui_profiler.session import Session, apply

SMALL = apply(folded(MEASURED), operator_times({CONV_OP: 0.0004, FC_OP: 0.0002}))


def view_of(session: Session, by: By = "module", typed: str = "") -> FlatView:
    view = FlatView()
    view.by, view.text = by, typed
    view.take(session, flat_table(session, by), keeps_order=False)
    return view


def drawn(session: Session, view: FlatView, cells: int = 120, rows: int = 20) -> list[str]:
    look = Look(session, 0, 9.0, cells)
    return [text(line).rstrip() for line in finished(flat_lines(look, view, rows), look, rows)]


def test_modules_are_listed_by_self_time() -> None:
    lines = drawn(SMALL, view_of(SMALL))

    assert lines[0].split() == ["modules,", "flat", "4", "by", "self", "time", "1.00", "ms"]
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["▌conv", "Conv2d"],
        ["fc", "Linear"],
        ["act", "ReLU"],
        ["net", "Net"],
    ]
    assert lines[2].split()[2:8] == ["1", "500", "500", "50.0", "108", "6.91K"]


def test_cpu_time_has_a_column_where_it_was_read() -> None:
    cpu = {ROOT: (8e-4, 5e-5), CONV: (4e-4, 4e-4)}
    session = apply(SMALL, with_cpu_times(TICK, cpu))
    lines = drawn(session, view_of(session))
    assert "cpu µs" in lines[1]
    assert lines[2].split()[3:6] == ["500", "500", "400"]
    assert lines[4].split()[3:6] == ["150", "150", "–"]
    assert "cpu" not in drawn(session, view_of(session, "operator"))[1]


def test_operators_are_listed_with_those_that_they_call() -> None:
    session = apply(folded(MEASURED), WITH_OWN)
    lines = drawn(session, view_of(session, "operator"))

    assert lines[1].split()[:7] == ["operator", "calls", "total", "µs", "↓self", "µs", "%"]
    assert lines[2].split()[:5] == ["▌aten::mkldnn_convolution", "1", "250.0", "250.0", "33.3"]
    assert [line.split()[0] for line in lines[3:5]] == ["aten::addmm", "aten::relu_"]
    view = view_of(session, "operator", "mkldnn")
    said = text(status_line(Look(session, 0, 9.0, 120), view)).strip()
    assert said == "aten::mkldnn_convolution  called by aten::convolution, 0.25 ms total"
    # A word finds names of all operators, other terms those of the tree.
    assert [row.name for row in view_of(session, "operator", "!conv").rows] == [
        *("aten::addmm", "aten::relu_", "mine::strange"),
    ]
    [only] = view_of(session, "operator", "depth>1 conv").rows
    assert only.name == "aten::convolution"


def test_operators_of_older_recordings_have_totals_and_what_was_not_seen_a_dash() -> None:
    lines = drawn(SMALL, view_of(SMALL, "operator"))

    assert lines[2].split()[:5] == ["▌aten::convolution", "1", "400.0", "–", "66.7"]
    assert lines[4].split()[:5] == ["aten::relu_", "1", "–", "–", "–"]


def test_a_filter_is_that_of_the_tree() -> None:
    assert [row.name for row in view_of(SMALL, typed="type:linear").rows] == ["fc"]
    assert [row.name for row in view_of(SMALL, "class", "!conv").rows] == ["Linear", "ReLU", "Net"]
    assert [row.name for row in view_of(SMALL, "operator", "addmm").rows] == ["aten::addmm"]
    assert "nothing matches" in drawn(SMALL, view_of(SMALL, typed="nowhere"))[2]


def test_rows_stay_where_they_are_while_keys_are_pressed() -> None:
    view = view_of(SMALL)
    later = apply(
        SMALL, tick({ROOT: (0.001, 0.0001), CONV: (0.0002, 0.0002), FC: (0.0007, 0.0007)})
    )

    view.take(later, flat_table(later, "module"), keeps_order=True)
    assert [row.name for row in view.rows] == ["conv", "fc", "act", ""]

    view.take(later, flat_table(later, "module"), keeps_order=False)
    assert [row.name for row in view.rows] == ["fc", "conv", "", "act"]


def test_the_orders_of_a_table_are_the_columns_that_are_shown() -> None:
    wide = Look(SMALL, 0, 9.0, 160)
    modules = flat_heading(wide, view_of(SMALL))
    operators = flat_heading(wide, view_of(SMALL, "operator"))
    narrow = flat_heading(Look(SMALL, 0, 9.0, 60), view_of(SMALL))

    assert modules is not None
    assert operators is not None
    assert narrow is not None
    names = ("name", "class", "calls", "total", "own", "parameters", "macs", "flops", "bytes")
    assert modules.columns == (*names, "input", "output")
    figures = ("name", "calls", "total", "own", "macs", "flops", "bytes")
    assert operators.columns == (*figures, "input", "output")
    assert narrow.columns == ("name", "total", "own", "flops")
    assert modules.following() == Order("parameters", descending=True)
    assert flat_heading(wide, FlatView()) is None


def test_what_is_not_known_is_last_either_way() -> None:
    view = view_of(SMALL, "operator")
    for descending in (True, False):
        view.sort_by(SMALL, "total", descending=descending)
        assert [isinstance(row.total, Unknown) for row in view.rows] == [False] * 2 + [True] * 2
    assert [row.name for row in view.rows][:2] == ["aten::addmm", "aten::convolution"]


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [20, 40, 60, 80, 100, 120, 160, 200])
def test_every_row_is_as_wide_as_the_screen(by: By, glyphs: Glyphs, cells: int) -> None:
    for session in (SMALL, folded(TRACED), _hostile()):
        look = Look(session, 0, 9.0, cells, glyphs)
        for rows in (1, 3, 5, 30):
            lines = finished(flat_lines(look, view_of(session, by), rows), look, rows)
            assert len(lines) <= rows
            assert {line_width(line) for line in lines} == {cells}
            assert all(text(line).isprintable() for line in lines)


def _hostile() -> Session:
    assert SMALL.tree is not None
    evil = "\x1b[31mevil\u202e\x07"
    nodes = tuple(replace(n, path=evil, type=evil, name=evil) for n in NODES)
    return replace(SMALL, tree=replace(SMALL.tree, nodes=nodes))


def test_chosen_columns_stand_in_their_order_and_the_last_ones_yield() -> None:
    view = view_of(SMALL)
    view.chosen_columns = {"module": ("output", "cpu", "own", "calls")}
    lines = drawn(SMALL, view)
    assert lines[1].split() == ["module", "shape", "cpu", "µs", "↓self", "µs", "calls"]
    assert lines[2].split() == ["▌conv", "1×4×8×8", "–", "500", "1"]
    assert shown_columns(Look(SMALL, 0, 9.0, 64), view) == ("output", "cpu", "own")
    assert shown_columns(Look(SMALL, 0, 9.0, 44), view) == ("own",)


async def _open(pilot: Pilot[int], stage: Stage) -> FlatScreen:
    await pilot.press("A")
    await pilot.pause()
    await pilot.pause()
    screen = stage.app.screen
    assert isinstance(screen, FlatScreen)
    return screen


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_flat_screen_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await _open(pilot, stage)
        check_golden(f"flat-{size[0]}x{size[1]}", screen_text(stage.app))


async def test_a_key_goes_from_modules_to_classes_to_operators() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        screen = await _open(pilot, stage)
        seen = [screen.view.by]
        for _ in range(3):
            await pilot.press("v")
            await pilot.pause()
            seen.append(screen.view.by)
        assert seen == ["module", "class", "operator", "module"]
        assert "layer1.0.conv1" in {row.name for row in screen.view.rows}


async def test_enter_goes_to_the_node_in_the_tree() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        screen = await _open(pilot, stage)
        await pilot.press("j", "j")
        row = screen.view.row
        assert row is not None
        await pilot.press("enter")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        assert (stage.explorer.tree_widget.view.selected,) == row.nodes


async def test_the_root_of_the_tree_is_listed_alone() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        tree = stage.app._newest.tree
        assert tree is not None
        layer = tree.find("layer2")
        assert layer is not None
        stage.explorer.tree_widget.select(layer)
        await pilot.press("enter")
        await pilot.pause()
        screen = await _open(pilot, stage)
        assert {row.name.partition(".")[0] for row in screen.view.rows} == {"layer2"}
        assert " in layer2" in screen_text(stage.app)


async def test_a_filter_is_typed_and_dropped() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        screen = await _open(pilot, stage)
        every = len(screen.view.rows)
        await pilot.press("slash", *"conv", "enter")
        await pilot.pause()
        assert 0 < len(screen.view.rows) < every
        await pilot.press("escape")
        await pilot.pause()
        assert len(screen.view.rows) == every
        assert stage.app.screen is screen
        await pilot.press("escape")
        await pilot.pause()
        assert stage.app.screen is stage.explorer


async def test_rows_are_copied_as_tsv_and_as_markdown() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        screen = await _open(pilot, stage)
        await pilot.press("y")
        await pilot.pause()
        assert "t TSV  m Markdown" in screen_text(stage.app)
        await pilot.press("escape")
        tsv, markdown = screen.rows_as_tsv(), screen.rows_as_markdown()
        assert tsv is not None
        assert markdown is not None
        lines = tsv.splitlines()
        assert len(lines) == 1 + len(screen.view.rows)
        assert {line.count("\t") for line in lines} == {17}
        assert markdown.splitlines()[0].startswith("| module | class | calls |")
        assert len(markdown.splitlines()) == 2 + len(screen.view.rows)
        row = screen.row_text()
        assert row == lines[1]


async def test_on_paper_rows_are_in_the_order_of_their_flops() -> None:
    async with on_stage(TRACED) as (stage, pilot):
        screen = await _open(pilot, stage)
        assert next(row.nodes[0] for row in screen.view.rows) == CONV
        assert "on paper" in screen_text(stage.app)


HEADING = 3
"""Row of the titles, below the header."""


def _heading(stage: Stage) -> str:
    return screen_text(stage.app).splitlines()[HEADING]


async def test_a_number_orders_by_that_column_and_again_the_other_way_round() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        screen = await _open(pilot, stage)
        assert _heading(stage).split()[4:6] == ["ms", "↓self"]
        await pilot.press("6")
        parameters = [row.parameters for row in screen.view.rows]
        assert parameters == sorted(parameters, reverse=True)
        assert "↓params" in _heading(stage)
        await pilot.press("6")
        assert [row.parameters for row in screen.view.rows] == sorted(parameters)
        assert "↑params" in _heading(stage)
        await pilot.press("1")
        names = [row.name for row in screen.view.rows]
        assert names == sorted(names)
        assert "↑module" in _heading(stage)
        before = _heading(stage)
        await pilot.press("9")
        assert "FLOP" in before
        assert _heading(stage).split()[-1] == "↓bytes"


async def test_a_click_on_a_title_orders_by_its_column() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        screen = await _open(pilot, stage)
        x = _heading(stage).index("calls")
        await pilot.click(offset=(x, HEADING))
        assert "↓calls" in _heading(stage)
        await pilot.click(offset=(x, HEADING), times=2)
        assert stage.app.screen is screen
        before = screen.view.row
        await pilot.click(offset=(5, HEADING + 2))
        assert screen.view.row is not before
        assert screen.view.rows[1] is screen.view.row


async def test_columns_are_chosen_and_kept_for_the_next_time() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        screen = await _open(pilot, stage)
        assert "class" in _heading(stage)
        await pilot.press("c", "space", "enter")
        await pilot.pause()
        assert stage.app.screen is screen
        assert "class" not in _heading(stage)
        await pilot.press("v")
        await pilot.pause()
        assert "modules" in _heading(stage)  # Of classes nothing was chosen.
        await pilot.press("escape")
        await _open(pilot, stage)
        assert "class" not in _heading(stage)
        await pilot.press("c", "0", "enter")
        await pilot.pause()
        assert "class" in _heading(stage)
