"""``run``: reports and a recording while the script runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest

from screens.cli.main import main
from tests.end_to_end.run.test_run import ENVIRONMENT, SCHEMA
from tests.end_to_end.terminal import COMMAND
from tests.viewer import wait_until
from tui_profiler.source.recorded import last_session

RUNS = """
import os, signal, sys, time, torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
if "handles" in sys.argv:
    signal.signal(signal.SIGUSR2, lambda *_: open(sys.argv[1], "w").write("got it"))
open("begun", "w").close()
while not os.path.exists(sys.argv[1]):
    net(torch.zeros(1, 8))
    time.sleep(0.002)
sys.exit(5)
"""


def calls(report: Path) -> int:
    """Return how many forwards the newest report has; 0 where there is none yet."""
    if not report.exists():
        return 0
    found = json.loads(report.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found["latency"]["forwards"] if found["latency"] else 0


def begin(folder: Path, *options: str, argument: str = "") -> subprocess.Popen[bytes]:
    (folder / "script.py").write_text(RUNS)
    typed = [*COMMAND, "run", "--format", "json", "--output", str(folder / "report.json"), *options]
    typed += ["script.py", str(folder / "stop"), *filter(None, [argument])]
    program = subprocess.Popen(typed, cwd=folder, env=ENVIRONMENT)
    wait_until((folder / "begun").exists)
    return program


def test_a_report_now_and_then_and_a_recording_of_all(tmp_path: Path) -> None:
    kept, report = tmp_path / "kept.rec", tmp_path / "report.json"
    program = begin(tmp_path, "--every", "0.3", "--record", str(kept))
    try:
        wait_until(lambda: calls(report) > 0)
        first = calls(report)
        wait_until(lambda: calls(report) > first)
        (tmp_path / "stop").touch()
        assert program.wait(240) == 5
    finally:
        program.kill()
        program.wait()
    session, _ = last_session(str(kept))
    assert session.tree is not None
    assert session.tree.nodes[0].type == "Sequential"
    assert session.tick is not None
    assert session.tick.forwards > first


def test_a_report_at_a_signal_that_the_script_does_not_handle(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    program = begin(tmp_path)
    try:
        seen = 0
        for _ in range(2):

            def asked_again(seen: int = seen) -> bool:
                os.kill(program.pid, signal.SIGUSR2)
                return calls(report) > seen

            wait_until(asked_again)
            seen = calls(report)
        (tmp_path / "stop").touch()
        assert program.wait(240) == 5
    finally:
        program.kill()
        program.wait()


def test_a_script_that_handles_the_signal_gets_it(tmp_path: Path) -> None:
    program = begin(tmp_path, argument="handles")
    report, stop = tmp_path / "report.json", tmp_path / "stop"
    try:
        os.kill(program.pid, signal.SIGUSR2)
        assert program.wait(240) == 5
        assert stop.read_text() == "got it"
    finally:
        program.kill()
        program.wait()
    assert report.exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--every", "3", "script.py"], "--every needs --format"),
        (
            ["--format", "table", "--record", "one", "--output", "./one", "script.py"],
            "need a file each",
        ),
        (["--format", "json", "--record", "there.rec", "script.py"], "it exists already"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_script_starts(
    typed: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.rec").write_text("mine")
    Path("script.py").write_text("open('ran', 'w')")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert main(["run", *typed]) == 2
    assert said in capsys.readouterr().err
    assert not Path("ran").exists()
    assert Path("there.rec").read_text() == "mine"
