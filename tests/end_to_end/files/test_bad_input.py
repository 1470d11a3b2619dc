"""What users get wrong, and models that misbehave: one sentence, a remedy, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND, Terminal, alternate_screen_is_left

HUNG_UP = """
import asyncio, signal, sys
from screens.terminal.guard import end_on_hang_up

async def wait():
    ended = asyncio.get_running_loop().create_future()
    end_on_hang_up(0, ended.set_result, lambda code: None)
    print("ready", flush=True)
    code = await ended
    sys.stdout.write("read by nobody")
    return code

signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.exit(asyncio.run(wait()))
"""
MODELS = """
import ctypes, os, sys, time
import torch


class Turning(torch.nn.Module):
    def __init__(self, turn, after=5):
        super().__init__()
        self.layer, self.turn, self.after, self.calls = torch.nn.Linear(8, 8), turn, after, 0

    def forward(self, x):
        self.calls += 1
        if self.calls > self.after:
            self.turn()
        return self.layer(x)


def crashes(): return Turning(lambda: ctypes.string_at(0))
def leaves(): return Turning(lambda: os._exit(0))
def exits(): return Turning(lambda: sys.exit(0))
def hangs(): return Turning(lambda: time.sleep(10**6))
def swallows(): return Turning(lambda: torch.zeros(1 << 50, dtype=torch.uint8), after=0)
def number(): return 3
thing = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(MODELS)
    (tmp_path / "leaves.py").write_text("import os\nos._exit(0)\n")
    return str(tmp_path)


def ends_cleanly(terminal: Terminal) -> None:
    workers = terminal.workers()
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.modes_are_restored()
    assert alternate_screen_is_left(bytes(terminal.raw))
    assert not psutil.wait_procs(workers, timeout=240)[1]


SAID = (
    ("net.py:thing", True, "is of type int", "try tui-profiler net.py"),
    ("net.py:number", False, "returned an int, not a", "try a change at"),
    ("leaves.py:Net", False, "ended with exit code 0", "os._exit"),
    ("net.py:swallows", False, "out of memory: forward tried to allocate", "try --device meta"),
    ("net.py:crashes", False, "Segmentation fault at", "try it again"),
    ("net.py:exits", False, "run: SystemExit: 0", "try --debug"),
)
"""Model, whether the request was wrong, and what is said of it."""


def test_a_report_says_what_is_wrong_with_each_model(folder: str) -> None:
    models = [model for model, *_ in SAID]
    done = subprocess.run(
        [*COMMAND, "report", *models, "--input", "1,8", "--measure", "9", "--format", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 2  # The worst of them: a request that was wrong.
    reports = [json.loads(line)["failure"] for line in done.stdout.splitlines()]
    for (model, is_wrong, said, remedy), failure in zip(SAID, reports, strict=True):
        lines = [line for line in done.stderr.splitlines() if line.startswith(f"{model}: ")]
        assert said in " ".join(lines), model
        assert any(remedy in line for line in lines), model
        assert failure["bad_argument"] == is_wrong, model


def test_a_forward_that_hangs_is_named_and_can_be_left(start: Start, folder: str) -> None:
    terminal = start("net.py:hangs", "--input", "1,8", folder=folder)
    terminal.wait_for("in one forward")
    ends_cleanly(terminal)


def test_a_model_that_ends_its_process_is_a_failure(start: Start, folder: str) -> None:
    terminal = start("net.py:leaves", "--input", "1,8", folder=folder)
    terminal.wait_for("something in the model called exit")
    terminal.send("x")
    terminal.wait_for(lambda shown: "worker gone" not in shown)
    terminal.wait_for("worker gone")
    ends_cleanly(terminal)


def test_the_nearest_name_is_tried_with_a_key_and_wrong_batch_sizes_are_refused(
    start: Start,
) -> None:
    terminal = start("demo:cnnn")
    terminal.wait_for("load model failed")
    terminal.send("x")
    terminal.wait_for("● live")
    terminal.send("Brubbish\r")
    terminal.wait_for("not 'rubbish'")
    terminal.send("B99999999999999999999\r")
    terminal.wait_for("not '99999999999999999999'")
    terminal.send("B999999999\r")
    terminal.wait_for("load model failed")
    terminal.send("B2\r")
    terminal.wait_for(lambda shown: "2×3×32×32" in shown and "● live" in shown)
    ends_cleanly(terminal)


def test_names_cannot_reach_the_terminal(start: Start) -> None:
    terminal = start("demo:hostile", columns=200, rows=60)
    terminal.wait_for("● live")
    terminal.send("}G")
    terminal.send("o")
    terminal.wait_for("esc")
    terminal.send("q")
    terminal.wait_for("● live")
    ends_cleanly(terminal)
    ours = r"\x1b\[[?>=<]?[0-9;]*[ $]?[A-Za-z]|\x1b\]22;\w+\x07"
    rest = re.sub(ours, "", bytes(terminal.raw).decode())
    assert not re.findall(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)


def test_a_worker_dies_with_its_viewer(start: Start, folder: str) -> None:
    terminal = start("net.py:hangs", "--input", "1,8", folder=folder)
    terminal.wait_for("params    MAC")
    workers = terminal.workers()
    assert workers
    os.kill(terminal.pid, signal.SIGKILL)
    assert not psutil.wait_procs(workers, timeout=240)[1]


def test_a_lost_terminal_ends_it_where_hang_ups_are_ignored() -> None:
    ignore = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
    program = [sys.executable, "-c", f"{ignore} os.execv(sys.argv[1], sys.argv[1:])"]
    terminal = Terminal([*program, *COMMAND, "demo:cnn", "--no-remembered"])
    try:
        terminal.wait_for("worker")
        workers = terminal.workers()
        terminal.hang_up()
        assert terminal.wait_for_exit() == 128 + signal.SIGHUP
        assert not psutil.wait_procs(workers, timeout=240)[1]
    finally:
        terminal.close()


def test_what_a_lost_terminal_did_not_take_does_not_change_the_exit_code() -> None:
    terminal = Terminal([sys.executable, "-c", HUNG_UP])
    try:
        terminal.wait_for("ready")
        terminal.hang_up()
        assert terminal.wait_for_exit() == 128 + signal.SIGHUP
    finally:
        terminal.close()


def test_a_terminal_that_cannot_draw_is_refused(start: Start) -> None:
    terminal = start("demo:cnn", environment={"TERM": "dumb"})
    assert terminal.wait_for_exit() == 2
    assert b'try "tui-profiler report MODEL"' in bytes(terminal.raw)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["report", "--help"]])
def test_help_that_cannot_be_written_is_one_sentence(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Standard output was not written completely: No space")
    assert done.stderr.count("\n") == 1
