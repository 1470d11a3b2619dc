"""The first row and the status row: what is left out at a width, and the words of each state."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.widgets.header import header_lines
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from screens.widgets.status import status_lines
from tests.generation_session import GENERATION
from tests.queries.training import trained
from tests.screens.panel_session import LOADING, TRACED, folded, live, tick
from tui_profiler.messages import (
    Ended,
    Failed,
    Heartbeat,
    LoadSpec,
    LoopState,
    Message,
    Overhead,
    Printed,
    StageStarted,
    ThreadTime,
)
from tui_profiler.session import EMPTY, Session, apply

SPEC = LoadSpec("resnet50")


def header(session: Session, now: float, cells: int = 120, paused_at: float | None = None) -> str:
    (line,) = header_lines(Look(session, 0, now, cells), spec=SPEC, paused_at=paused_at)
    return text(line)


def status(session: Session, cells: int = 120, said: str = "") -> str:
    (line,) = status_lines(Look(session, 0, 7.0, cells), said)
    return text(line)


def test_a_live_model_at_120_columns():
    assert header(live(), 7.0) == (
        " resnet50  torchvision  25.6M params  4.09 GMAC  1×3×224×224 f32  cpu, 2 threads"
        "    ● live   27.4 items/s   36.5 ms p50 "
    )


def test_a_live_model_at_80_columns():
    assert header(live(), 7.0, 80) == (
        " resnet50  25.6M  4.09 GMAC  1×3×224×224 f32     ● live   27.4 items/s  36.5 ms "
    )


@pytest.mark.parametrize(
    ("share", "cells", "end"),
    [
        (0.24, 120, " ● live   27.4 items/s   36.5 ms p50 "),
        (0.26, 120, " ● live   27.4 items/s   36.5 ms p50   host contended "),
        (0.26, 80, " ● live   27.4 items/s  36.5 ms   host contended "),
    ],
)
def test_a_host_on_which_forwards_wait_for_a_core_is_contended(
    share: float, cells: int, end: str
) -> None:
    session = live()
    assert session.tick is not None
    used = ThreadTime(1.0, 1.0 - share, share, 0.0, 0.0, 1.0, 1.0)
    waited = apply(session, replace(session.tick, thread=used))
    assert header(waited, 7.0, cells).endswith(end)


@pytest.mark.parametrize(
    ("now", "paused_at", "end"),
    [
        (14.2, None, " ○ no data 7 s "),
        (19.0, 7.0, " ‖ paused 12 s "),
        (7.5, None, " ● live   27.4 items/s   36.5 ms p50 "),
    ],
)
def test_silence_and_pause_say_how_long(now, paused_at, end):
    assert header(live(), now, paused_at=paused_at).endswith(end)


def test_a_held_model_says_how_to_let_it_run():
    held = folded((LoopState("paused", 7.0),), live())
    assert header(held, 9.0).endswith(" ‖ model paused 2 s · P resumes ")


def test_a_forward_that_does_not_end_is_named():
    hanging = folded((Heartbeat(30.0, 12.4),), live())
    assert header(hanging, 31.0).endswith(" ● in one forward 12 s ")


@pytest.mark.parametrize(
    ("runs", "unit"), [(trained.cost(), "step"), (GENERATION, "request")], ids=["step", "request"]
)
def test_a_worker_s_step_or_request_that_does_not_end_is_named(runs: Message, unit: str) -> None:
    hanging = folded((runs, Heartbeat(30.0, 12.4)), live())
    assert header(hanging, 31.0).endswith(f" ● in one {unit} 12 s ")


def test_loading_counts_and_then_names_the_stage():
    assert header(folded(LOADING), 3.42).startswith(" resnet50 ")
    assert header(folded(LOADING), 3.42).endswith("   3.42 s ")
    first_run = folded((*LOADING, *TRACED, StageStarted("first run", 3.9)))
    assert header(first_run, 4.3).endswith(" first run   0.40 s ")


def test_a_failure_names_its_stage():
    failed = folded((*LOADING, *TRACED, Failed("first run", "boom")))
    assert header(failed, 9.0).endswith(" ✗ first run failed   no times ")
    assert status(failed).startswith(" worker 48213 is idle: fix the input and press ctrl+r ")


def test_a_request_that_failed_does_not_stop_the_rest():
    refused = folded((Failed("batch", "batch 0 is no batch", fatal=False),), live())
    assert header(refused, 7.0).endswith(" ● live   27.4 items/s   36.5 ms p50 ")
    assert status(refused).startswith(" batch failed: batch 0 is no batch ")


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (
            Ended(-9, False, "", 48213, 12.4),
            " worker 48213 was killed by SIGKILL after 12.4 s, sender not known"
            "  ctrl+r restarts it ",
        ),
        (
            Ended(-9, False, "", 48213, 12.4, out_of_memory=False),
            " worker 48213 was killed by SIGKILL after 12.4 s, not by the kernel's out-of-memory"
            " killer  ctrl+r restarts it ",
        ),
        (
            Ended(-11, False, "", 48213, 12.4),
            " worker 48213 crashed in native code (SIGSEGV, a segmentation fault) after 12.4 s"
            "  ctrl+r restarts it ",
        ),
        (
            Ended(3, False, "", 48213, 0.5),
            " worker 48213 ended with exit code 3 after 0.50 s  ctrl+r restarts it ",
        ),
        (
            Ended(-200, False, "", 0, 0.0),
            " the worker was ended by signal 200  ctrl+r restarts it ",
        ),
    ],
)
def test_a_worker_that_is_gone_says_how(ended, words):
    gone = folded((ended,), live())
    assert header(gone, 9.0).endswith(" ✗ worker gone ")
    assert status(gone).startswith(words)


def test_what_has_no_room_goes_before_the_way_to_restart():
    gone = folded((Ended(-9, False, "", 48213, 12.4),), live())
    assert status(gone, 80).rstrip() == (
        " worker 48213 was killed by SIGKILL after 12.4 s  ctrl+r restarts it"
    )


def test_the_status_row_tells_what_watching_costs():
    session = folded((tick(9.0),), live())
    assert status(session).endswith("  profiler overhead 0.8 % ± 0.3, 0 events dropped ")
    assert "profiler overhead …, 0 events dropped " in status(folded((*LOADING, *TRACED)))
    faster = folded((Overhead(-0.004, -0.009, 0.001, 30),), session)
    assert "profiler overhead at most 0.1 %, " in status(faster)
    slower = folded((Overhead(-0.02, -0.03, -0.01, 12),), live())
    assert "profiler overhead too small to measure, " in status(slower)


def test_the_status_row_counts_the_nodes_that_did_not_fit_in_a_tick():
    session = folded((replace(tick(9.0), left_out=9_001),), live())
    assert status(session).endswith(", 9,001 nodes left out, 0 events dropped ")
    assert status(session, 90).endswith(", 9,001 nodes left out ")
    assert "left out" not in status(folded((tick(9.0),), live()))


def test_what_the_worker_prints_is_counted_while_it_loads():
    printed = folded((*LOADING, Printed("one\ntwo\n")))
    assert status(printed).startswith(" the worker prints to the log  2 lines so far ")


def test_what_the_user_was_told_comes_first():
    assert status(live(), said="copied layer3").startswith(" copied layer3 ")


@pytest.mark.parametrize("cells", range(20, 131))
def test_every_row_is_exactly_as_wide_as_asked_and_no_word_is_cut_short(cells):
    sessions = (EMPTY, folded(LOADING), folded((*LOADING, *TRACED)), live())
    for session in (*sessions, folded((Ended(-9, False, "", 48213, 12.4),), live())):
        look = Look(session, 0, 7.0, cells)
        for (line,) in (header_lines(look, spec=SPEC), status_lines(look)):
            assert line_width(line) == cells
            full = Look(session, 0, 7.0, 300)
            rows = (*header_lines(full, spec=SPEC), *status_lines(full))
            words = {word.strip(",") for row in rows for word in text(row).split()}
            cut_short = [w for w in text(line).split() if w.strip(",") not in words]
            assert all("…" in word for word in cut_short)
