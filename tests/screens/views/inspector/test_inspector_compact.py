"""The panel below the tree: four lines, one section in full, or one line."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from screens.views.inspector.compact_pane import compact_lines, one_line
from screens.views.inspector.pane import inspector_lines
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.screens.panel_session import (
    BN2,
    CONV2,
    CONV_OP,
    H200,
    LOADING,
    NODES,
    TRACED,
    folded,
    live,
)
from tests.screens.panel_session import sample as sampled
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.messages import Ceiling, Ceilings, Cost, MemoryWindow, Nodes
from tui_profiler.session import EMPTY, Session, apply

CALLS = [0.9e-3] * 34 + [0.92e-3]


def panel(
    session: Session, node: int, rows: int = 5, section: str | None = None, cells: int = 80
) -> list[str]:
    look = Look(session, node, 39.0, cells)
    return [text(line) for line in compact_lines(look, rows, section)]


def test_four_lines_say_all_at_once():
    assert panel(live(CALLS), CONV2) == [
        "─ layer3.2.conv2  Conv2d 256→256, 3×3, pad 1, no bias ──────── ▲ compute-bound ─",
        " work     1×256×14×14 in   1×256×14×14 out    116 MMAC   83.8 FLOP/B   2.63 MiB ",
        " timing   ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇  0.89 ms  p95  1.12      n  1,284 ",
        " bound    compute ━━━━━━━━━─────  64 %   memory ━━────────────  15 %    of roof ",
        " machine  cpu ██████████████  97 %   812 MiB   gpu –   power –            i why ",
    ]


def test_times_of_warm_up_forwards_are_cold():
    session = live(CALLS)
    cold = apply(session, replace(session.tick, cold=True, forwards=2))
    lines = panel(cold, CONV2)
    assert lines[2].rstrip().endswith(" cold  n  1,284")
    assert "times are cold" in lines[3]
    assert all(len(line) == 80 for line in lines)
    assert any("cold  n  1,284" in line for line in panel(cold, CONV2, 6, "timing"))


@pytest.mark.parametrize(
    ("section", "second"),
    [
        ("work", " work     116 MMAC  231 MFLOP"),
        ("timing", " "),
        ("bound", " compute  ━━━━━━"),
        ("machine", " cpu     "),
    ],
)
def test_one_section_in_full_takes_the_same_rows(section, second):
    lines = panel(live(), CONV2, 6, section)
    assert len(lines) == 6
    assert f" {section}  ▲ compute-bound ─" in lines[0]
    assert lines[1].startswith(second)


def test_the_rule_of_what_has_no_class_has_no_gap():
    nothing = Cost(*[0] * len(Cost.__struct_fields__))
    idle = Nodes(tuple(node for node, _ in NODES), (nothing,) * len(NODES))
    never = folded((*LOADING, *(idle if isinstance(m, Nodes) else m for m in TRACED)))
    assert panel(never, BN2)[0] == "─ layer3.2.bn2  BatchNorm2d " + "─" * 52
    assert panel(never, BN2, 6, "work")[0].endswith("── work ─")


def test_what_is_still_to_come_says_what_it_waits_for():
    lines = panel(folded((*LOADING, *TRACED)), CONV2)
    assert lines[2].rstrip() == " timing   …  after the first run"
    assert lines[3].rstrip() == " bound    compute, on paper  …  needs times"


def test_operators_say_why_they_have_no_times():
    lines = panel(live(), CONV_OP)
    assert lines[2].rstrip() == " timing   …  after the first operator window"


def test_where_calling_decides_it_is_one_of_the_two_meters():
    slow_calls = Ceilings("cpu", 2, (Ceiling("float32", 4e11),), 21e9, 20e-6, 0.0, 2.0)
    line = panel(folded((slow_calls,), live()), BN2)[3]
    assert line.startswith(" bound    overhead ━━━━━━━━━")
    assert "  67 %   memory ━━━━━━━━━" in line


def test_the_busiest_gpu_stands_for_all():
    session = folded((sampled(8.0, gpus=(H200, H200), package_watts=12.5),), live())
    assert "gpu 97 % 12.1 GiB   power 12.5 W" in panel(session, CONV2)[4]


def test_a_tiny_terminal_has_one_line():
    assert text(one_line(Look(live(), CONV2, 8.0, 50))) == (
        " layer3.2.conv2                 0.89 ms  2.4 %  C "
    )


@pytest.mark.parametrize("cells", range(40, 131))
def test_every_row_is_exactly_as_wide_as_asked(cells):
    for session in (EMPTY, folded(LOADING), folded((*LOADING, *TRACED)), live()):
        for node in (0, CONV2, CONV_OP, 99):
            for section in (None, "work", "timing", "bound", "machine"):
                for glyphs in (Look(EMPTY, 0, 0, 0).glyphs, ASCII):
                    look = Look(session, node, 6.0, cells, glyphs)
                    lines = (*compact_lines(look, 6, section), one_line(look))
                    assert {line_width(line) for line in lines} == {cells}


def test_what_a_module_allocated_is_a_row_of_its_work_where_it_was_measured():
    nodes, bytes_ = array("I", [CONV2]).tobytes(), array("Q", [200_704]).tobytes()
    window = MemoryWindow(
        1.0, 10**8, 602_112, 9_000_000, 90, nodes, bytes_, array("Q", [9_000_000]).tobytes()
    )
    said = " alloc    196 KiB  peak 8.58 MiB                                       measured "
    assert said in panel(folded((window,), live()), CONV2, 8, "work")
    whole = inspector_lines(Look(folded((window,), live()), CONV2, 8.0, 48), 38)
    assert any(text(line).startswith(" alloc    196 KiB  peak 8.58 MiB") for line in whole)
    for session, node in ((live(), CONV2), (folded((window,), live()), BN2)):
        assert not any(line.startswith(" alloc") for line in panel(session, node, 8, "work"))
