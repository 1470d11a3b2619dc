"""The compare screen on sessions made by hand: how it looks, and what its keys do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.settings.config import USUAL
from screens.settings.preferences import Preferences
from screens.views.compare.lines import CompareLook, compare_lines, status_line
from screens.views.compare.opened import Opened
from screens.views.compare.screen import CompareApp, CompareScreen
from screens.views.compare.sides import SideLook, loading_lines, side_lines
from screens.views.ranks.lines import look_of
from screens.widgets.line_widgets import LinesWidget
from screens.widgets.lines import line_width, text
from screens.widgets.rows import finished
from tests.fixtures.record import recorded
from tests.queries.compare.pairs import former, latter, pair
from tests.screens.explorer.test_explorer import check_golden
from tests.screens.screen_text import screen_text
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import Failed, Hello, LoadSpec, StageDone, StageStarted
from tui_profiler.queries.compare.comparison import FIGURES, comparison, node_of
from tui_profiler.queries.compare.rows import first_view, folded_to, visible
from tui_profiler.queries.compare.side import Side, side_of
from tui_profiler.queries.panel.state import State
from tui_profiler.session import EMPTY, Session, apply

HOSTILE = "\x1b]52;c;\x07[/nope]\u202e" * 9


@asynccontextmanager
async def on_screen(
    a: Session, b: Session, size: tuple[int, int] = (120, 40), glyphs: str = "unicode"
) -> AsyncIterator[tuple[CompareScreen, Pilot[int]]]:
    settings = replace(USUAL.settings, glyphs=glyphs)
    preferences = Preferences(replace(USUAL, settings=settings))
    sides = (
        Opened("resnet50", a, file="a recording"),
        Opened("'resnet50 --batch 8'", b, file="a recording"),
    )
    app = CompareApp(
        sides, measuring=True, seconds=None, preferences=preferences, clock=lambda: 100.0
    )
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        yield screen, pilot


def real() -> Session:
    session = EMPTY
    for message in recorded():
        session = apply(session, message)
    return session


def selected(screen: CompareScreen) -> str:
    return screen.selected_path()


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_the_comparison_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_screen(former(), latter(), size) as (screen, pilot):
        await pilot.press("down", "down")
        await pilot.pause()
        check_golden(f"compare-{size[0]}x{size[1]}", screen_text(screen.app))


async def test_keys_walk_fold_sort_and_filter() -> None:
    async with on_screen(former(), latter()) as (screen, pilot):
        assert selected(screen) == ""
        await pilot.press("j", "j")
        assert selected(screen) == "body"
        await pilot.press("left")
        assert "neck" not in screen_text(screen.app)
        await pilot.press("right", "right")
        assert selected(screen) == "body.neck"
        await pilot.press("h", "G")
        assert selected(screen) == "tail"
        await pilot.press("s", "g", "j")
        assert selected(screen) == "stem"
        await pilot.press("v")
        assert "by MAC" in screen_text(screen.app)
        await pilot.press("slash", *"moved", "enter")
        shown = screen_text(screen.app)
        assert "/moved" in shown
        assert "stem" not in shown.split("/moved")[1].rpartition("\n")[0].split("\n", 1)[1]
        await pilot.press("escape")
        assert "stem" in screen_text(screen.app)
        await pilot.press("z")
        assert selected(screen) == "body"
        await pilot.press("z")
        assert selected(screen) == "stem"
        await pilot.press("a", "left_curly_bracket", "right_curly_bracket")
        assert "aten::convolution" in screen_text(screen.app)


async def test_the_selected_node_says_in_full_what_became_of_it() -> None:
    async with on_screen(former(), latter()) as (screen, pilot):
        await pilot.press("slash", *"moved", "enter", "G")
        await pilot.pause()
        status = text(screen.query_one("#status", LinesWidget).lines[0])
        assert status.split() == ["tail", "(was", "extra)", "Linear", "moved"]


@pytest.mark.parametrize(("key", "asked"), [("y", "copy:  p path"), ("e", "export to no-model-")])
async def test_copy_and_export_ask_first(key: str, asked: str) -> None:
    async with on_screen(former(), latter()) as (screen, pilot):
        await pilot.press(key)
        await pilot.pause()
        assert asked in screen_text(screen.app).splitlines()[-1]


async def test_q_leaves_and_question_mark_lists_the_keys() -> None:
    async with on_screen(former(), latter()) as (screen, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        assert "go to the module" in screen_text(screen.app)
        await pilot.press("escape")
        await pilot.pause()
        await pilot.press("q")
        await pilot.pause()
        assert screen.app.return_value == 0


async def test_a_side_that_failed_says_so_and_the_other_stays() -> None:
    failed = apply(EMPTY, Failed("load model", "there is no model called x", fatal=True))
    async with on_screen(former(), failed) as (screen, _):
        shown = screen_text(screen.app)
        assert "load model: there is no model called x" in shown
        assert "B has no tree: not traced" in shown
        assert "latency p50" in shown


@pytest.mark.parametrize("cells", [20, 60, 80, 120, 200])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("is_hostile", [False, True])
def test_every_row_is_as_wide_as_the_screen_and_safe(
    cells: int, glyphs: Glyphs, is_hostile: bool
) -> None:
    compared = pair()
    if is_hostile:
        tree = compared.a.tree
        assert tree is not None
        odd = tuple(
            replace(node, name=HOSTILE, path=HOSTILE if node.path else "", type=HOSTILE)
            for node in tree.nodes
        )
        side = replace(compared.a, tree=replace(tree, nodes=odd), label=HOSTILE)
        compared = comparison(side, compared.b)
    looks = SideLook(HOSTILE, "Net", State("live", "running"), (HOSTILE,) if is_hostile else ())
    look = look_of(cells, glyphs)
    for figure in FIGURES:
        view = folded_to(replace(first_view(compared, figure), operators=True), compared, 9)
        rows = visible(compared, view)
        for index in (rows[0], rows[-1]):
            at = CompareLook(compared, replace(view, selected=index), rows, (looks, looks), "")
            lines = finished(compare_lines(at, look, 30), look, 30)
            drawn = [*lines, *finished((status_line(at, look),), look)]
            assert all(line_width(line) == cells for line in drawn)
            assert not any(c in text(line) for line in drawn for c in "\x1b\x07\u202e")
            if glyphs is ASCII:
                assert "".join(map(text, drawn)).isascii()


@pytest.mark.parametrize("cells", [60, 80, 120])
def test_a_state_that_says_much_leaves_room_for_whose_it_is(cells: int) -> None:
    finished_so = State("finished", "finished", "not run: parameters only: no forward pass")
    looks = SideLook("weights.pt", "", finished_so)
    drawn = [text(line) for line in side_lines((looks, looks), look_of(cells, ASCII))]
    assert [line[:14].strip() for line in drawn] == ["A  weights.pt", "B  weights.pt"]
    assert all("finished" in line for line in drawn)


def test_meaning_is_not_by_colour_alone() -> None:
    compared = pair()
    view = folded_to(first_view(compared, "macs"), compared, 9)
    looks = SideLook("x", "", State("live", "running"))
    rows = visible(compared, view)
    at = CompareLook(compared, view, rows, (looks, looks), "")
    drawn = [text(line) for line in compare_lines(at, look_of(120, ASCII), 40)]
    assert compared.alignment is not None
    said = {}
    for index, line in zip(rows, drawn[-len(rows) :], strict=True):
        one = compared.alignment.nodes[index]
        said[node_of(compared, one).path] = line[1]
    assert said["body"] == "+"
    assert said["tail"] == ">"
    assert said["stem"] == "~"
    assert said["head"] == " "


def loading(*records: StageDone | StageStarted) -> Session:
    session = apply(EMPTY, Hello(1, 4711, ("Start",)))
    for record in records:
        session = apply(session, record)
    return session


@pytest.mark.parametrize(("cells", "rows"), [(120, 38), (80, 22), (60, 13)])
def test_while_it_loads_it_shows_the_stages_of_both_sides_and_the_machine(
    cells: int, rows: int
) -> None:
    done = loading(
        StageDone("worker", 0.1, 0.1, "pid 1"), StageDone("trace", 5.0, 1.25, "151 nodes")
    )
    under_way = loading(StageDone("worker", 0.1, 0.1, "pid 2"), StageStarted("import torch", 0.2))
    spec = LoadSpec("resnet50")
    a = SideLook("resnet50", "", State("held", "waiting for its turn"), (), done, spec, 20.0)
    b = SideLook("resnet101", "", State("loading", "loading"), (), under_way, spec, 2.7)

    drawn = [text(line) for line in loading_lines((a, b), look_of(cells, UNICODE), rows)]

    assert len(drawn) <= rows
    shown = "\n".join(drawn)
    assert "2.50 s" in shown  # Of B's import, which goes on.
    assert "machine" in shown
    assert ("stages of A" in shown) is (rows > 13)
    if cells >= 100:  # Side by side.
        assert any("151 nodes" in line and "import torch" in line for line in drawn)


async def test_a_side_that_waits_is_told_apart_from_one_that_is_loaded() -> None:
    sides = (
        Opened("resnet50", loading(), spec=LoadSpec("resnet50"), began=90.0),
        Opened("resnet101", spec=LoadSpec("resnet101")),
    )
    app = CompareApp(sides, measuring=True, seconds=None, clock=lambda: 100.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        shown = screen_text(app)
    assert "stages of A" in shown
    assert "none: waiting for A" in shown
    assert "no tree" not in shown


def verdicts(cells: int, a: Side, b: Side) -> dict[str, tuple[str, set[str]]]:
    """Return the rows of totals: their text, and the roles of the differences."""
    compared = comparison(a, b)
    side = SideLook("x", "", State("live", "running"))
    view = first_view(compared, "seconds")
    at = CompareLook(compared, view, visible(compared, view), (side, side), "")
    lines = compare_lines(at, look_of(cells, UNICODE), 40)
    found = {}
    for line in lines:
        words = text(line).strip()
        roles = {one for _, role in line for one in role.split() if one in ("better", "worse")}
        found[words.split("  ")[0]] = (words, roles)
    return found


@pytest.mark.parametrize("cells", [80, 120])
def test_better_and_worse_are_words_and_only_where_there_is_a_better_beyond_noise(
    cells: int,
) -> None:
    small = {"latency.p50_s": 0.0001, "throughput.per_s": 0.001}
    a, b = side_of("a", former()), side_of("b", latter())
    a, b = replace(a, total_errors=small), replace(b, total_errors=small)
    b = replace(b, totals={**b.totals, "throughput.per_s": 20.0})

    rows = verdicts(cells, a, b)

    assert "worse" in rows["latency p50"][0]
    assert rows["latency p50"][1] == {"worse"}
    assert "worse" in rows["throughput"][0]  # Less of it, and its bar would go to the left.
    for words in ("parameters", "weights", "MAC", "FLOP", "bytes moved", "operators"):
        assert not rows[words][1], words
        assert "worse" not in rows[words][0], words
    # The other way round it is better; and of a figure whose uncertainty is not known, nothing.
    rows = verdicts(cells, b, a)
    assert "better" in rows["throughput"][0]
    assert rows["latency p95"][1] == set()
    # Within noise neither is said.
    loud = replace(b, total_errors={"latency.p50_s": 0.1})
    assert rows["latency p50"][1] == {"better"}
    assert verdicts(cells, loud, a)["latency p50"][1] == set()


async def test_a_large_model_is_walked_without_waiting() -> None:
    from time import process_time

    session = real()
    async with on_screen(session, session) as (screen, pilot):
        await pilot.press("right_curly_bracket", "a")
        began = process_time()
        for _ in range(20):
            await pilot.press("j")
        assert process_time() - began < 20 * 0.25
        assert selected(screen)


def test_a_side_of_a_report_needs_no_session() -> None:
    opened = Opened("a.json", side=side_of("a.json", former()))
    found = opened.at(EMPTY)

    assert isinstance(found, Side)
    assert found.tree is not None
