"""Recording a real worker, and opening the file: by hand, on a terminal, after an accident."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND, Terminal, alternate_screen_is_left
from tests.recording.files import messages_in
from tui_profiler.messages import Tick
from tui_profiler.recording.reader import open_recording
from tui_profiler.recording.scan import Scanned, scan

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def record(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "record", "demo:cnn", "-o", str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
    )


def begin(path: Path) -> subprocess.Popen[str]:
    """Start to record until stopped."""
    return subprocess.Popen(
        [*COMMAND, "record", "demo:cnn", "-o", str(path)],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def wait_for_bytes(path: Path, wanted: int, program: subprocess.Popen[str]) -> int:
    """Wait until the file has grown to so many bytes."""
    deadline = time.monotonic() + 240
    while (size := path.stat().st_size if path.exists() else 0) < wanted:
        assert program.poll() is None
        assert time.monotonic() < deadline
        select.select([], [], [], 0.002)
    return size


def test_a_recording_is_played_on_a_small_terminal(start: Start, recording: Path) -> None:
    terminal = start("open", str(recording), columns=80, rows=24)
    shown = terminal.wait_for("▸")
    assert "recorded 20" in shown.split("\n")[0]
    assert "demo:cnn" in shown.split("\n")[0]
    assert "p pause  < back  > forward  + faster  - slower" in shown
    terminal.send("p")
    terminal.wait_for("‖")
    terminal.send("@0\r")
    terminal.wait_for("0.0 of ")
    terminal.send(">")
    terminal.wait_for(lambda shown: "0.0 of" not in shown)
    terminal.send("@end\r")
    terminal.wait_for("p95")
    terminal.send("++")
    terminal.wait_for("×4")
    terminal.send("?")
    terminal.wait_for("type to search")
    terminal.send("pause the model")
    terminal.wait_for("this is a recording: no model runs here")
    terminal.send("\x1b\x1b")
    terminal.wait_for("recorded 20")
    assert terminal.workers() == []
    quit_cleanly(terminal)


def test_a_recording_is_opened_without_its_verb(start: Start, recording: Path) -> None:
    terminal = start(str(recording))
    terminal.wait_for("recorded 20")
    quit_cleanly(terminal)


def quit_cleanly(terminal: Terminal) -> None:
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.modes_are_restored()
    assert alternate_screen_is_left(bytes(terminal.raw))


def test_a_damaged_recording_says_so_on_screen(
    start: Start, recording: Path, tmp_path: Path
) -> None:
    data = bytearray(recording.read_bytes())
    tick = [entry for entry in open_recording(recording).entries if entry.frame.kind == 3][2]
    data[tick.offset + 40] ^= 1
    (tmp_path / "damaged.rec").write_bytes(data[:-1])
    terminal = start("open", str(tmp_path / "damaged.rec"), "--at", "9999")
    terminal.wait_for("✗ 2 skipped")
    terminal.wait_for("damaged: 2 frames skipped after")
    quit_cleanly(terminal)


def test_a_report_of_a_recording_has_its_times_and_needs_no_torch(recording: Path) -> None:
    code = (
        "import sys; from screens.cli.main import main;"
        f"code = main(['report', {str(recording)!r}, '--format', 'json']);"
        "print('torch' in sys.modules, 'textual' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    (last,) = [m for m in messages_in(open_recording(recording)) if isinstance(m, Tick)][-1:]
    assert report["model"] == "demo:cnn"
    assert report["latency"]["p50_s"] == last.latency_p50
    assert f"{recording}: recorded 20" in done.stderr
    assert done.stderr.endswith("False False\n")


def test_a_recording_is_not_measured_again(recording: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "report", str(recording), "--measure", "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be measured again" in done.stderr


def test_nothing_is_overwritten(recording: Path) -> None:
    before = recording.read_bytes()
    done = record(recording)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"{recording}: it exists already",
        f"{recording}: try --force: overwrites it",
    ]
    assert recording.read_bytes() == before


def test_a_model_that_there_is_not_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    done = subprocess.run(
        [*COMMAND, "record", "demo:nowhere", "-o", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "demo:nowhere" in done.stderr
    assert not path.exists()


@pytest.mark.usefixtures("interrupts_arrive")
def test_an_interrupt_ends_it_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    program = begin(path)
    try:
        wait_for_bytes(path, 600, program)
        workers = psutil.Process(program.pid).children()
        program.send_signal(signal.SIGINT)
        said = program.communicate(timeout=240)[1]
    finally:
        program.kill()
    recording = open_recording(path)
    assert program.returncode == 0, said
    assert f"{path}: wrote {len(recording.entries)} frames" in said
    assert recording.end is not None
    assert (recording.end.why, recording.holes) == ("stopped", ())
    assert not psutil.wait_procs(workers, timeout=240)[1]


@pytest.mark.parametrize("seed", range(2))
def test_the_recorder_may_be_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.rec"
    program = begin(path)
    size = wait_for_bytes(path, random.Random(seed).choice((1, 400, 600)), program)
    seen = path.read_bytes()[:size]
    workers = psutil.Process(program.pid).children()
    program.kill()
    program.communicate()
    recording = open_recording(path)
    before: Scanned | None = scan(lambda offset, size: seen[offset : offset + size], len(seen))
    assert before is not None
    assert recording.entries[: len(before.entries)] == before.entries
    assert len(recording.holes) <= 1
    assert not psutil.wait_procs(workers, timeout=240)[1]


def record_limited(path: Path, most_bytes: int) -> subprocess.CompletedProcess[str]:
    """Record the demo where no file may be larger than so many bytes."""
    code = (
        "import resource, os, sys;"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes}, {most_bytes}));"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *COMMAND, "record", "demo:cnn", "-o", str(path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        # Python replaces a .pyc file by one that was cut off at the limit.
        env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_no_room_at_all_is_one_sentence_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    done = record_limited(path, 20)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{path}: cannot be written: File too large",
        f"{path}: try a larger file size limit (ulimit -f), or another file system",
    ]
    assert not path.exists()


def test_a_full_disk_is_one_sentence_and_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    done = record_limited(path, 1500)
    recording = open_recording(path)
    assert done.returncode == 1
    assert f"{path}: recording ended: File too large; what is there is readable" in done.stderr
    assert (recording.holes, recording.end) == ((), None)
    assert len(recording.entries) > 2
