"""The failure panel against its drawing."""

from __future__ import annotations

import pytest

from screens.widgets.failure import failure_lines
from screens.widgets.lines import line_width, text
from screens.widgets.parts import Look
from tests.screens.panel_session import LOADING, TRACED, folded, live
from tui_profiler.canvas import ASCII
from tui_profiler.messages import Ended, Failed, Printed, Remedy, StageStarted
from tui_profiler.session import EMPTY, Session

HINT = "x tries the marked line"
OUT_OF_MEMORY = Failed(
    stage="first run",
    what="out of memory: wanted 3.06 GiB more",
    where="layer3.2.bn2",
    at="/usr/lib/python3.11/site-packages/torch/nn/functional.py:2822",
    why="batch 1024 needs 9.28 GiB at its peak (predicted); 6.10 of 7.75 GiB was free",
    remedies=(
        Remedy("--batch 512", "4.69 GiB at the peak, fits"),
        Remedy("--dtype bfloat16", "4.64 GiB at the peak, fits"),
        Remedy("--device meta", "costs only, nothing is run"),
    ),
)
PRINTED = Printed(
    "a line\n" * 29
    + "RuntimeError: [enforce fail at alloc_cpu.cpp:127]\n"
    + "DefaultCPUAllocator: can't allocate memory: you tried to allocate 3221225472 bytes\n"
)


def failed() -> Session:
    return folded((*LOADING, *TRACED, StageStarted("first run", 3.9), PRINTED, OUT_OF_MEMORY))


def panel(session: Session, rows: int, cells: int = 52, hint: str = HINT) -> list[str]:
    return [text(line) for line in failure_lines(Look(session, 0, 9.0, cells), rows, 0, hint)]


def test_a_failure_is_laid_out_as_drawn():
    assert panel(failed(), 24) == [
        " ✗ first run failed                                 ",
        "                                                    ",
        " what    out of memory: wanted 3.06 GiB more        ",
        " where   layer3.2.bn2  BatchNorm2d                  ",
        "         …site-packages/torch/nn/functional.py:2822 ",
        " why     batch 1024 needs 9.28 GiB at its peak      ",
        "         (predicted); 6.10 of 7.75 GiB was free     ",
        "                                                    ",
        " try ────────────────────── x tries the marked line ",
        "▌--batch 512        4.69 GiB at the peak, fits      ",
        " --dtype bfloat16   4.64 GiB at the peak, fits      ",
        " --device meta      costs only, nothing is run      ",
        "                                                    ",
        " still known ────────────────────────────────────── ",
        " ✓ tree      6 modules, 3 operators                 ",
        " ✓ costs     every operator counted                 ",
        " – times     unavailable: no forward finished       ",
        " – bound     unavailable: needs times               ",
        "                                                    ",
        " log ─────────────────────────── last 2 of 31 lines ",
        " RuntimeError: [enforce fail at alloc_cpu.cpp:127]  ",
        " DefaultCPUAllocator: can't allocate memory: you t… ",
        "                                                    ",
        "                                                    ",
    ]


def test_without_a_key_for_it_no_line_is_marked():
    lines = panel(failed(), 24, hint="")
    assert " --batch 512        4.69 GiB at the peak, fits      " in lines


def test_the_log_goes_first_and_then_what_is_still_known():
    assert not any(line.startswith(" log ") for line in panel(failed(), 20))
    assert any(line.startswith(" still known ") for line in panel(failed(), 20))
    short = panel(failed(), 14, 80)
    assert not any(line.startswith(" still known ") for line in short)
    assert any(line.startswith(" --device meta ") for line in short)


def test_a_guess_is_called_one_and_yields_to_a_cause():
    guessed = folded((*LOADING, Failed("load model", "boom", likely="a typing error")))
    assert " likely  a typing error                             " in panel(guessed, 20)
    known = Failed("load model", "boom", why="it is so", likely="a typing error")
    lines = panel(folded((*LOADING, known)), 20)
    assert " why     it is so                                   " in lines
    assert not any("likely" in line for line in lines)


def test_before_the_tree_nothing_is_known_and_it_says_so():
    lines = panel(folded((*LOADING, Failed("load model", "boom"))), 20)
    assert " – tree      unavailable: needs the trace           " in lines


def test_a_killed_worker_says_what_is_likely_and_how_to_go_on():
    gone = folded((Ended(-9, False, "", 48213, 12.4),), live())
    assert panel(gone, 18, hint="")[:15] == [
        " ✗ worker gone                         after 12.4 s ",
        "                                                    ",
        " what    worker 48213 was killed by SIGKILL after   ",
        "         12.4 s                                     ",
        " where   while the model ran                        ",
        " likely  out of memory, or killed by hand           ",
        "                                                    ",
        " try ────────────────────────────────────────────── ",
        " ctrl+r      restarts it                            ",
        " --no-run    costs only, nothing is run             ",
        " --batch 1   the least memory                       ",
        "                                                    ",
        " still known ────────────────────────────────────── ",
        " ✓ tree      6 modules, 3 operators                 ",
        " ✓ costs     every operator counted                 ",
    ]


def test_nothing_is_said_where_nothing_failed():
    assert {line.strip() for line in panel(live(), 10)} == {""}
    stopped = folded((Ended(0, True),), live())
    assert {line.strip() for line in panel(stopped, 10)} == {""}


@pytest.mark.parametrize("cells", range(40, 131))
def test_every_row_is_exactly_as_wide_as_asked(cells):
    bad = "\x1b[31m漢字\u202e" * 40
    hostile = Failed(bad, bad, bad, bad, bad, "", (Remedy(bad, bad), Remedy("a", bad)), bad)
    printed = Printed(bad + "\n")
    for session in (failed(), folded((*LOADING, printed, hostile)), EMPTY):
        for glyphs in (Look(EMPTY, 0, 0, 0).glyphs, ASCII):
            for rows in (3, 14, 40):
                look = Look(session, 0, 9.0, cells, glyphs)
                lines = failure_lines(look, rows, 1, HINT)
                assert len(lines) == rows
                assert {line_width(line) for line in lines} == {cells}
                assert not {c for line in lines for c in text(line)} & set("\x1b\u202e\n")
