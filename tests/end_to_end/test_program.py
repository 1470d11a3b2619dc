"""The real program with a real worker in a real terminal: a user's session, and its rough ends."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import Terminal, alternate_screen_is_left

LIVE = "● live"


def quit_cleanly(terminal: Terminal) -> None:
    workers = terminal.workers()
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.modes_are_restored()
    assert alternate_screen_is_left(bytes(terminal.raw))
    psutil.wait_procs(workers, timeout=240)
    assert not any(worker.is_running() for worker in workers)


def test_a_user_moves_through_a_running_model(start: Start) -> None:
    terminal = start("demo:cnn", columns=20, rows=5)
    terminal.wait_for(lambda shown: bool(shown.strip()))
    survives_a_resize_storm(terminal)
    terminal.wait_for("demo:cnn")
    terminal.wait_for(LIVE)
    terminal.wait_for("ms")
    is_stopped_and_goes_on(terminal)
    terminal.send("jj")
    terminal.send("/conv")
    terminal.wait_for(lambda shown: "/conv" in shown or "conv" in shown)
    terminal.send("\r")
    terminal.send("\x1b")
    terminal.send("z")
    terminal.send("p")
    terminal.wait_for("paused")
    terminal.send("p")
    terminal.wait_for(LIVE)
    terminal.send("?")
    terminal.wait_for("type to search")
    terminal.send("\x1b")
    terminal.wait_for(LIVE)
    quit_cleanly(terminal)
    assert terminal.raw.startswith(b"\x1b[?1049h"), "something is left on the normal screen"


def survives_a_resize_storm(terminal: Terminal) -> None:
    for columns, rows in [(20, 5), (200, 60), (1, 1), (80, 24), (37, 11), (120, 40)] * 20:
        terminal.resize(columns, rows)


def is_stopped_and_goes_on(terminal: Terminal) -> None:
    terminal.send("\x1a")
    process = psutil.Process(terminal.pid)
    terminal.wait_for(lambda _: process.status() == psutil.STATUS_STOPPED)
    assert terminal.modes_are_restored()
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.wait_for(LIVE)


def test_a_worker_that_is_killed_says_so_and_can_be_restarted(start: Start) -> None:
    terminal = start("demo:cnn")
    terminal.wait_for(LIVE)
    (worker,) = terminal.workers()
    worker.kill()
    terminal.wait_for("SIGKILL")
    terminal.send("\x12")
    terminal.wait_for(LIVE)
    quit_cleanly(terminal)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGQUIT, 131)],
)
def test_a_signal_ends_it_and_restores_the_terminal(
    start: Start, number: signal.Signals, code: int
) -> None:
    terminal = start("demo:cnn")
    terminal.wait_for("worker")
    workers = terminal.workers()
    os.kill(terminal.pid, number)
    assert terminal.wait_for_exit() == code
    assert terminal.modes_are_restored()
    assert alternate_screen_is_left(bytes(terminal.raw))
    psutil.wait_procs(workers, timeout=240)
    assert not any(worker.is_running() for worker in workers)


def test_a_lost_terminal_ends_it_and_its_worker(start: Start) -> None:
    terminal = start("demo:cnn")
    terminal.wait_for("modules")
    workers = terminal.workers()
    assert workers
    terminal.hang_up()
    terminal.wait_for_exit()
    psutil.wait_procs(workers, timeout=240)
    assert not any(worker.is_running() for worker in workers)


def test_a_forward_that_raises_leaves_its_modules(start: Start) -> None:
    terminal = start("demo:cnn", "--input", "1,4,32,32", "--ascii", columns=120, rows=40)
    terminal.wait_for("x     0  Conv2d")
    shown = terminal.wait_for(">--input image=1,3,224,224")
    assert "modules, until forward raised" in shown
    assert "1x4x32x32" in shown
    assert "0 of 74 modules ran" in shown
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
