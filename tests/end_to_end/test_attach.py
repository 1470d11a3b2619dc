"""``attach`` on a real terminal, to a real program; and what needs no terminal."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND, alternate_screen_is_left
from tests.probe.watch.watched_program import WatchedProgram, sockets_folder

PROGRAM = """
torch.manual_seed(0)
model, x = Net().eval(), torch.randn(3, 8)
handle = tui_profiler.watch(model, "served \\x1b[31m")
say("ready")
threading.Thread(target=lambda: (sys.stdin.readline(), os._exit(3)), daemon=True).start()
while True:
    with torch.no_grad():
        model(x)
    time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with sockets_folder() as made:
        yield made


@pytest.fixture
def program(folder: Path) -> Iterator[WatchedProgram]:
    with WatchedProgram(PROGRAM, folder) as running:
        running.said()
        yield running


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TUI_PROFILER_DIR": str(folder)},
    )


def test_a_program_is_looked_into_until_it_ends(
    start: Start, program: WatchedProgram, folder: Path
) -> None:
    # Wide: a fast model's figures push names out of a narrower first row.
    terminal = start("attach", columns=180, environment={"TUI_PROFILER_DIR": str(folder)})
    terminal.wait_for("● live")
    shown = terminal.wait_for("second Linear")
    assert "served \\x1b[31m" in shown
    assert f"pid {program.child.pid}" in shown
    terminal.send("P")
    terminal.wait_for("read-only: the model runs in your program")
    program.hears("end")
    assert program.child.wait(240) == 3
    terminal.wait_for("program gone")
    terminal.send("\x12")
    terminal.wait_for("program gone")
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.modes_are_restored()
    assert alternate_screen_is_left(bytes(terminal.raw))


def test_without_a_screen_it_is_listed_reported_and_recorded(
    program: WatchedProgram, folder: Path, tmp_path: Path
) -> None:
    pid = str(program.child.pid)
    listed = command(folder, "attach", "--list")
    assert listed.returncode == 0
    assert listed.stdout.startswith(f"served \\x1b[31m  pid {pid}  -c")
    done = command(folder, "report", "--attach", pid, "--measure", "1", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["total_macs"] == 3 * (8 * 16 + 16 * 4)
    assert report["latency"]["p50_s"] > 0
    file = tmp_path / "a.rec"
    kept = command(folder, "record", "--attach", pid, "-o", str(file), "--seconds", "1")
    assert kept.returncode == 0, kept.stderr
    played = command(folder, "report", str(file), "--format", "json")
    assert json.loads(played.stdout)["total_macs"] == report["total_macs"]
    assert program.child.poll() is None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("attach", "--list"), 1, "no watched process found"),
        (("report", "--attach", "nobody"), 1, "no program named 'nobody'"),
        (("record", "--attach", "nobody", "-o", "x.rec"), 1, "no program named 'nobody'"),
        (("relay", "--stdio", "nobody"), 1, "no program named 'nobody'"),
        (("report", "--attach", "ssh://-oX/n"), 1, "is not an address"),
        (("report", "resnet18", "--attach", "x"), 2, "not both"),
        (("report",), 2, "is needed"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    with sockets_folder() as nothing:
        done = command(nothing, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("x.rec").exists()
