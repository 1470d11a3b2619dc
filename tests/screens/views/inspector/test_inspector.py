"""The inspector against its drawing: layout by literal text, widths at every size."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from screens.views.inspector.pane import inspector_lines
from screens.views.inspector.request_lines import request_lines
from screens.widgets.lines import Line, line_width, text
from screens.widgets.machine_lines import machine_lines
from screens.widgets.rows import Look
from tests.screens.panel_session import (
    BN2,
    CONV2,
    CONV_OP,
    H200,
    LOADING,
    NODES,
    RELU,
    TRACED,
    folded,
    live,
    sample,
)
from tests.small_model import operator_times
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.messages import (
    Ceiling,
    Ceilings,
    Failed,
    LoadSpec,
    LoopState,
    Nodes,
    TraceDone,
    TraceStarted,
    Unknown,
)
from tui_profiler.session import EMPTY, Session

WIDE = 48
CALLS = [0.9e-3] * 34 + [0.92e-3]


def texts(lines: tuple[Line, ...]) -> list[str]:
    return [text(line) for line in lines]


def shown(session: Session, node: int, now: float = 39.0, cells: int = WIDE) -> list[str]:
    return texts(inspector_lines(Look(session, node, now, cells), 32))


def test_a_measured_leaf_is_laid_out_as_drawn():
    assert shown(live(CALLS), CONV2) == [
        " layer3.2.conv2                 ▲ compute-bound ",
        " Conv2d 256→256, 3×3, pad 1, no bias            ",
        "                                                ",
        " in       1×256×14×14                   196 KiB ",
        " out      1×256×14×14                   196 KiB ",
        " weight   256×256×3×3                  2.25 MiB ",
        " work     116 MMAC  231 MFLOP       83.8 FLOP/B ",
        "                                                ",
        " timing ────────────── measured, last 512 calls ",
        " ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆            ",
        " ███████████████████████████████████            ",
        " ███████████████████████████████████    0.92 ms ",
        " p50  0.89   p95  1.12   max  2.40     n  1,284 ",
        " self 0.89   share  2.4 %    1 call per forward ",
        "                                                ",
        " bound ─────────────────── against this machine ",
        " compute  ━━━━━━━━━━╸─────  64 %    260 GFLOP/s ",
        " memory   ━━╸─────────────  15 %   3.10 GB/s    ",
        " 83.8 FLOP/B is 4.3× the ridge at 19.3          ",
        "                                                ",
        " inside ─────────────────── operators, on paper ",
        " aten::convolution        116M MAC  2.63 MiB  C ",
        "                                                ",
        "                                                ",
        "                                                ",
        "                                                ",
        "                                                ",
        " machine ──────────────────────────── every 1 s ",
        " cpu     ████████████    97 % process 190/200 % ",
        " memory  ▁▁▁▁▁▁▁▁▁▁▁▁   812 MiB     of 7.75 GiB ",
        " gpu     –  no NVIDIA driver on this machine    ",
        " power   –  RAPL counters need root             ",
    ]


def test_figures_far_apart_do_not_run_into_each_other():
    session = live()
    assert session.tick is not None
    slow = array("f", [33.6e-3] * 6).tobytes()
    session = folded((replace(session.tick, p95=slow, maximum=slow, last=slow),), session)
    lines = shown(session, BN2)
    assert " p50  30.0   p95 33.6ms   max 33.6ms   n  1,284 " in lines
    assert any(line.endswith("    33.6 ms ") for line in lines)


def test_a_block_names_its_slowest_modules():
    lines = shown(live(), 2)
    at = lines.index(" inside ───── slowest modules, % of the forward ")
    assert lines[at + 1 : at + 4] == [
        " conv2                        0.89 ms    2 %  C ",
        " relu                         90.0 µs   <1 %  M ",
        " bn2                          30.0 µs   <1 %  M ",
    ]
    assert " params   1.12M in its modules         4.27 MiB " in lines


def test_operators_wait_for_a_window_and_then_say_how_many_there_were():
    lines = shown(live(), CONV_OP)
    assert " times    …  after the first operator window    " in lines
    assert " aten.convolution.default, in layer3.2.conv2    " in lines
    lines = shown(folded((operator_times({CONV_OP: 0.0005}, windows=3),), live()), CONV_OP)
    assert any("0.50 ms" in line for line in lines)
    assert any("median of 3 operator windows" in line for line in lines)


def test_before_the_first_run_the_class_is_on_paper_and_it_says_why():
    lines = shown(folded((*LOADING, *TRACED)), CONV2, 4.0)
    assert lines[0] == " layer3.2.conv2             ▲ compute, on paper "
    assert " times    …  after the first run                " in lines
    at = lines.index(" bound ─────────────────────────────── on paper ")
    assert lines[at + 1 : at + 3] == [
        " 83.8 FLOP/B, above 10: compute-bound           ",
        " measured …  needs times                        ",
    ]


def test_a_failure_leaves_no_figure_that_seems_to_come():
    session = folded((*LOADING, *TRACED, Failed("first run", "boom")))
    lines = shown(session, CONV2, 4.0)
    assert " times    –  no forward finished                " in lines
    assert " measured –  needs times                        " in lines


def test_what_was_not_run_as_asked_says_so():
    session = folded((*LOADING, *TRACED, LoopState("finished", 4.0, 1, "not run, as asked")))
    assert " times    –  not run, as asked                  " in shown(session, CONV2, 4.0)


def test_overhead_shows_what_calling_takes_where_it_decides():
    slow_calls = Ceilings("cpu", 2, (Ceiling("float32", 1e12),), 21e9, 20e-6, 0.0, 2.0)
    lines = shown(folded((slow_calls,), live()), BN2)
    assert lines[0].endswith(" ○ overhead-bound ")
    assert " compute  ──────────────── 0.3 %   3.35 GFLOP/s " in lines
    assert " overhead ━━━━━━━━━━╸─────  67 %    1 × 20.0 µs " in lines
    assert " operator overhead takes 67 % of the time       " in lines


def test_without_a_roof_of_its_dtype_the_bound_is_on_paper_and_says_so():
    no_products = Ceilings("cpu", 2, (), 21e9, 20e-6, 0.0, 2.0)
    lines = shown(folded((no_products,), live()), BN2)
    assert lines[0].endswith(" ■ memory, on paper ")
    assert " measured –  no float32 roof: not measured      " in lines


def test_uncounted_operators_make_a_lower_bound():
    costs = tuple(replace(c, uncosted=2) for _, c in NODES)
    part = Nodes(tuple(n for n, _ in NODES), costs)
    done = TRACED[-2]
    assert isinstance(done, TraceDone)
    session = folded((*LOADING, TraceStarted(len(NODES), "fx"), part, done))
    lines = shown(session, 2)
    assert " work     218 MMAC  ≥ 436 MFLOP   ≥ 89.3 FLOP/B " in lines
    assert "          2 of 3 operators have no formula      " in lines


def test_another_type_of_number_is_named():
    assert " num_…ked scalar i64                        8 B " in shown(live(), BN2)


@pytest.mark.parametrize("rows", range(1, 40))
def test_the_machine_never_goes(rows):
    lines = texts(inspector_lines(Look(live(), CONV2, 7.0, WIDE), rows))
    machine = texts(machine_lines(Look(live(), CONV2, 7.0, WIDE)))
    assert len(lines) == rows
    assert lines[-5:] == machine[: len(lines[-5:])]


def test_inside_goes_first_then_the_sparkline_then_the_tensors():
    def titles(rows: int) -> list[str]:
        lines = texts(inspector_lines(Look(live(), CONV2, 7.0, WIDE), rows))
        wanted = ("inside", "in  ", "work", "timing", "bound", "machine")
        return [w.strip() for w in wanted if any(line[1:].startswith(w) for line in lines)]

    assert titles(28) == ["inside", "in", "work", "timing", "bound", "machine"]
    assert titles(26) == ["in", "work", "timing", "bound", "machine"]
    assert titles(23) == ["in", "work", "timing", "bound", "machine"]
    assert titles(21) == ["work", "timing", "bound", "machine"]


def test_old_figures_lose_their_ink():
    def roles(now: float) -> set[str]:
        lines = inspector_lines(Look(live(), CONV2, now, WIDE), 32)
        at = next(i for i, line in enumerate(lines) if text(line).startswith(" p50"))
        return {role for part, role in lines[at] if part.strip()}

    assert roles(8.0) == {"muted", "ink"}
    assert roles(20.0) == {"muted"}


def test_each_gpu_has_a_row_with_its_figures():
    throttled = replace(H200, throttled_by="power cap", temperature_celsius=Unknown("no sensor"))
    lines = texts(machine_lines(Look(folded((sample(8.0, gpus=(H200, throttled)),)), 0, 8.0, 48)))
    assert lines[3:7] == [
        " gpu 0    97 %  12.1 of 140 GiB    61 °C  412 W ",
        " gpu 1    97 %  12.1 of 140 GiB        –  412 W ",
        "         ! throttled by power cap               ",
        "         –  no sensor                           ",
    ]


def test_before_the_tree_it_shows_what_was_asked_for():
    lines = texts(request_lines(Look(folded(LOADING), 0, 3.4, 48), 16, LoadSpec("resnet50")))
    assert lines[:8] == [
        " resnet50                                       ",
        " from the command line                          ",
        "                                                ",
        " source   torchvision.models.resnet50           ",
        " weights  random (--weights for trained)        ",
        " input    … inferred after loading              ",
        " device   cpu, 2 threads                        ",
        " tracer   auto                                  ",
    ]
    assert lines[-1] == " power   –  RAPL counters need root             "


HOSTILE = "\x1b[31m" + "漢" * 30 + "\u202e[bold]" + "x" * 300


def hostile() -> Session:
    nodes = tuple(
        replace(n, name=HOSTILE, path=HOSTILE + n.path, type=HOSTILE, detail=HOSTILE, note=HOSTILE)
        for n, _ in NODES
    )
    part = Nodes(nodes, tuple(c for _, c in NODES))
    traced = tuple(part if isinstance(m, Nodes) else m for m in TRACED)
    unknown = Unknown(HOSTILE)
    return folded((*LOADING, *traced, sample(5.0, gpus=unknown, package_watts=unknown)), EMPTY)


@pytest.mark.parametrize("cells", range(40, 131, 3))
def test_every_row_is_exactly_as_wide_as_asked(cells):
    for session in (EMPTY, folded(LOADING), folded((*LOADING, *TRACED)), live(), hostile()):
        for node in (0, 2, CONV2, CONV_OP, RELU, 99):
            for glyphs in (Look(EMPTY, 0, 0, 0).glyphs, ASCII):
                lines = inspector_lines(Look(session, node, 6.0, cells, glyphs), 32)
                assert {line_width(line) for line in lines} == {cells}
                assert not {c for t in texts(lines) for c in t} & set("\x1b\u202e\n")
                assert glyphs is not ASCII or all(t.isascii() for t in texts(lines))
