"""The timeline screen as text: blocks, names and plots, without an app."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from benchmarks.terminal.tree import messages as large_model
from screens.views.timeline.flame_lines import Drawn, flame_lines
from screens.views.timeline.lines import plot_columns, timeline_lines
from screens.views.timeline.screen import SteadyLayout, flame_blocks
from screens.widgets.lines import Line, line_width, text
from screens.widgets.rows import Look, finished
from tests.queries.sessions import RESNET_SECONDS, resnet, session_of, ticked
from tests.screens.panel_session import H200, LOADING, RUN, TRACED, folded, live, sample, tick
from tui_profiler.connection.wire import message_decoder
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.queries.forward.flame import spot
from tui_profiler.session import Session

SMALL = "m M 0 0\n  a A 0 0\n    x X 0 0\n    y Y 0 0\n  b B 0 0"
SECONDS = {"": 0.1, "a": 0.06, "a.x": 0.03, "a.y": 0.02, "b": 0.03}


def look(session: Session, node: int = 0, cells: int = 42, glyphs: Glyphs = UNICODE) -> Look:
    return Look(session, node, session.heard_at, cells, glyphs)


def lay(at: Look, root: int = 0) -> Drawn:
    return SteadyLayout(flame_blocks).of(at.session, root, at.inner)


def shown(at: Look, root: int = 0, rows: int = 19) -> list[str]:
    lines = flame_lines(at, lay(at, root), rows)
    return [text(line).rstrip() for line in finished(lines, at)]


def test_blocks_lie_below_their_parents_with_names_above_them() -> None:
    at = look(ticked(session_of(SMALL), SECONDS), node=2)
    assert shown(at)[2:] == [
        " 30.0 ms   30 %   self 30.0 ms",
        " m 100 %",
        " ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸",
        " a 60 %                  b 30 %",
        " ━━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━╸────",
        " x 30 % ▁▁▁▁ y 20 %",
        " ━━━━━━━━━━━╸━━━━━━━╸────",
    ]


def test_the_selected_name_and_what_is_below_it_are_the_accent() -> None:
    at = look(ticked(session_of(SMALL), SECONDS), node=2)
    names = flame_lines(at, lay(at), 19)[7]
    assert [part for part, role in names if "accent" in role] == ["x 30 %", " ▁▁▁▁"]


def test_a_container_has_the_colours_of_its_mix_and_a_leaf_its_own() -> None:
    session = resnet()
    at = look(session, cells=120)
    lines = flame_lines(at, lay(at), 19)
    roles = {role for part, role in lines[4] if "━" in part}
    assert roles == {"compute", "memory", "unexplained"}
    assert " C" in {part for part, role in lines[5] if role == "compute"}


def test_on_paper_everything_is_grey_and_says_so() -> None:
    at = look(resnet(measured=False), cells=120)
    drawn = lay(at)
    lines = flame_lines(at, drawn, 19)
    assert "one forward, on paper ─" in text(lines[0])
    assert text(lines[0]).rstrip().endswith("shares of MACs")
    assert {role for line in lines[4::2] for part, role in line if "━" in part} == {"faint"}
    assert {b.share for b in drawn.flame.levels[1].segments} >= {0.03, 0.16, 0.25}


def test_a_block_zoomed_into_fills_the_row_and_is_named_in_the_title() -> None:
    at = look(ticked(session_of(SMALL), SECONDS), node=1)
    assert shown(at, root=1)[0].startswith(" one forward › a ")
    assert shown(at, root=1)[3:] == [
        " a 60 % ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁",
        " ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸",
        " x 30 %              y 20 %       self",
        " ━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━╸───────",
    ]


def test_what_is_too_short_is_counted_and_drawn_as_half_cells() -> None:
    names = "".join(f"  n{i} N 0 0\n" for i in range(40))
    seconds = {"": 1.0, "big": 0.8, **{f"n{i}": 0.005 for i in range(40)}}
    at = look(ticked(session_of(f"m M 0 0\n  big B 0 0\n{names}"), seconds))
    assert shown(at)[2].endswith("+40 too short to show")
    assert shown(at)[6] == " " + "━" * 31 + "╸" * 9


def test_what_is_not_drawn_is_marked_where_it_lies_in_what_is() -> None:
    seconds = {"": 1.0, "a": 0.765, "b": 0.005, "c": 0.23}
    session = ticked(session_of("m M 0 0\n  a A 0 0\n  b B 0 0\n  c C 0 0"), seconds)
    lines = shown(look(session, node=2))
    assert lines[2].endswith("+1 too short to show")
    assert lines[3] == " m 100 %" + " " * 23 + "▁"
    assert lines[6] == " " + "━" * 30 + "╸" + "━" * 8 + "╸"


def test_levels_follow_the_selection_where_not_all_fit() -> None:
    deep = "\n".join("  " * depth + f"d{depth} M 0 0" for depth in range(20))
    path = ["", *(".".join(f"d{i}" for i in range(1, depth + 1)) for depth in range(1, 20))]
    session = ticked(session_of(deep), dict.fromkeys(path, 1.0))
    for node in range(20):
        lines = shown(look(session, node), rows=3 + 2 * 6)
        assert len(lines) == 15
        assert any(f"d{node} 100 %" in line for line in lines[3:])
    assert "8 more above  6 more below" in shown(look(session, 12, 60), rows=15)[2]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("cells", [20, 40, 60, 80, 99, 100, 120, 160, 200])
def test_every_row_is_exactly_as_wide_as_the_screen(cells: int, glyphs: Glyphs) -> None:
    hostile = session_of("m M 0 0\n  \x1b[31m A 0 0\n  漢字漢字漢字 B 0 0")
    sessions = [
        live(),
        resnet(),
        resnet(measured=False),
        folded([sample(9.0, gpus=(H200,), package_watts=41.5)], live()),
        ticked(hostile, {"": 1.0, "\x1b[31m": 0.5, "漢字漢字漢字": 0.5}),
    ]
    for session in sessions:
        assert session.tree is not None
        for node in range(len(session.tree)):
            at = look(session, node, cells, glyphs)
            lines: list[Line] = []
            for rows in (4, 12, 30):
                lines += [*flame_lines(at, lay(at), rows), *timeline_lines(at, rows)]
            assert {line_width(line) for line in finished(lines, at)} == {cells}
            # Nothing is cut: only where there is less room than for a word is a row too long.
            assert cells < 60 or {line_width(line) for line in lines if line} <= {cells}
            assert glyphs is UNICODE or "".join(map(text, finished(lines, at))).isascii()


@pytest.mark.parametrize("rows", range(4, 25))
@pytest.mark.parametrize("cells", [60, 80, 120])
def test_the_last_minutes_take_no_more_rows_than_given(rows: int, cells: int) -> None:
    session = folded([sample(9.0, gpus=(H200,), package_watts=41.5)], live())
    lines = [text(line) for line in timeline_lines(look(session, 0, cells), rows)]
    assert len(lines) <= rows
    assert "p50" in lines[1]
    assert lines[-1].rstrip().endswith("now")


def test_figures_stand_at_the_right_end_with_their_unit() -> None:
    session = folded([sample(9.0, gpus=(H200,), package_watts=41.5)], live())
    lines = [text(line) for line in timeline_lines(look(session, 0, 80), 8)]
    ends = [line[-13:].strip() for line in lines[1:-1]]
    assert ends == ["36.5 ms", "40.0 ms", "97 %", "97 %", "41.5 W"]
    assert [line.split("│")[0].split() for line in lines[1:-1]] == [
        ["p50", "50", "ms"],
        ["p95", "50", "ms"],
        ["cpu", "100", "%"],
        ["gpu", "100", "%"],
        ["power", "50", "W"],
    ]


def test_power_that_cannot_be_had_says_why() -> None:
    lines = [text(line) for line in timeline_lines(look(live(), 0, 120), 12)]
    assert any("power" in line and "–  RAPL counters need root" in line for line in lines)
    assert not any("gpu" in line for line in lines)


def test_each_column_is_its_own_second_and_gaps_are_blank() -> None:
    # One tick a second: at 5, 6 and 7 s; then the model was held until 9 s.
    told = [(5.0, 36.5e-3), (6.0, 36.5e-3), (7.0, 36.5e-3), (9.0, 9e-3)]
    ticks = [
        replace(tick(at, calls=n), latency_p50=p50, latency_p95=p50)
        for n, (at, p50) in enumerate(told, 1)
    ]
    at = look(folded([*LOADING, *TRACED, *RUN, *ticks]), 0, 80)
    plot = text(timeline_lines(at, 8, step=1)[1]).split("│")[1]
    assert plot[: plot_columns(80)].lstrip() == "▆▆▆ ▁"
    assert plot[plot_columns(80) :].strip() == "9.00 ms"


def test_a_large_model_is_drawn_in_time() -> None:
    session = folded([*message_decoder().feed(b"".join(large_model(100_000)))])
    layout, at = SteadyLayout(flame_blocks), look(session, 50_000, 120)
    layout.of(session, 0, at.inner)  # Once for a tree and its ceilings.
    spent = []
    for _ in range(5):
        begin = time.process_time()
        drawn = layout.of(session, 0, at.inner)
        flame_lines(at, drawn, 25)
        timeline_lines(at, 12)
        spent.append(time.process_time() - begin)
    assert min(spent) < 0.03
    assert drawn.flame.hidden > 70_000


def test_the_selected_node_is_always_inside_a_block() -> None:
    session = ticked(resnet(), RESNET_SECONDS)
    assert session.tree is not None
    drawn = lay(look(session, cells=120))
    assert all(
        spot(drawn.flame, node) is not None
        for node in range(len(session.tree))
        if session.tree.nodes[node].kind == "module"
    )
