"""Signals to ``run``: the script gets each once, and ``run`` ends as it does.

All signals, targets and dispositions are in ``benchmarks/watching/signals.py``; these are a sample.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.run.job import state
from tests.end_to_end.run.signalled import Case, Disposition, How, Outcome, Target, outcome
from tests.end_to_end.terminal import COMMAND

TRAINS = """
import signal, sys, torch
net = torch.nn.Linear(8, 8)
def save(number, frame):
    print("checkpoint saved", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, save)
net(torch.zeros(1, 8))
print("begun", flush=True)
while True:
    net(torch.zeros(1, 8))
"""


@pytest.mark.parametrize(
    ("how", "disposition", "name", "target", "expected"),
    [
        ("headless", "default", "TERM", "process", Outcome((), 0, -15)),
        ("headless", "handles", "TERM", "group", Outcome(("SIGTERM",), 0, 7)),
        ("headless", "handles", "USR1", "process", Outcome(("SIGUSR1",), 0, 9)),
        ("headless", "default", "INT", "group", Outcome((), 0, -2)),
        ("headless", "default", "TSTP", "process", Outcome((), 1, 9)),
        ("explorer", "handles", "TERM", "process", Outcome(("SIGTERM",), 0, 7)),
        ("explorer", "default", "USR1", "group", Outcome((), 0, -10)),
        ("explorer", "default", "TSTP", "process", Outcome((), 1, 9)),
    ],
)
def test_a_signal_does_to_a_script_what_it_does_to_it_alone(
    tmp_path: Path,
    how: How,
    disposition: Disposition,
    name: str,
    target: Target,
    expected: Outcome,
) -> None:
    assert outcome(tmp_path, how, disposition, name, target) == expected


def test_a_second_signal_arrives_and_the_last_output_stays_in_the_terminal(tmp_path: Path) -> None:
    case = Case(tmp_path, "explorer", "handles", "SIGUSR1,SIGTERM")
    try:
        case.signal(signal.SIGUSR1, "process")
        case.job.wait(lambda: "SIGUSR1" in case.events(), "first signal")
        case.signal(signal.SIGUSR1, "process")
        case.job.wait(lambda: case.events().count("SIGUSR1") == 2, "second signal")
        case.signal(signal.SIGTERM, "process")
        assert case.job.wait_for_exit() == 7
        case.job.wait(lambda: b"checkpoint saved" in left(case), "last words of the script")
        assert next(tmp_path.glob("STATE/**/run-*.log")).read_text() == "checkpoint saved\n"
        case.job.wait(lambda: b"output kept in" in left(case), "name of the log file")
    finally:
        case.job.close()


def left(case: Case) -> bytes:
    """What was written after the explorer had left the terminal."""
    return bytes(case.job.raw).rpartition(b"\x1b[?1049l")[2]


def test_a_report_follows_when_the_script_has_saved_its_checkpoint(tmp_path: Path) -> None:
    path, report = tmp_path / "script.py", tmp_path / "report.json"
    path.write_text(TRAINS, encoding="utf-8")
    command = [*COMMAND, "run", "--format", "json", "--output", str(report), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        running.terminate()
        assert running.stdout.read() == "checkpoint saved\n"
    assert running.returncode == 7
    assert json.loads(report.read_text(encoding="utf-8"))["total_macs"] == 64


@pytest.mark.parametrize("disposition", ["default", "handles", "ignores"])
def test_a_script_ends_with_the_profiler_that_is_killed(
    tmp_path: Path, disposition: Disposition
) -> None:
    case = Case(tmp_path, "headless", disposition, "SIGTERM,SIGHUP")
    script = psutil.Process(case.script)
    witnesses = [one for one in psutil.Process(case.job.pid).children() if one != script]
    try:
        os.kill(case.job.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs([script, *witnesses], timeout=240)
        assert not alive
        assert case.events()[1:] == (["SIGTERM"] if disposition == "handles" else [])
    finally:
        case.job.close()


def test_the_script_has_the_group_and_the_mask_that_it_has_alone(tmp_path: Path) -> None:
    text = """
    import os, signal
    status = open("/proc/self/status").read().splitlines()
    print([line for line in status if line[:6] in ("SigBlk", "SigIgn")])
    print(os.getsid(0), os.getpgrp() == os.getpgid(os.getppid()))
    """
    path = tmp_path / "script.py"
    path.write_text("\n".join(line.strip() for line in text.splitlines()), encoding="utf-8")

    def printed(*command: str) -> str:
        ignored = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
        return subprocess.run(
            [*command, str(path)], stdout=subprocess.PIPE, text=True, check=True, preexec_fn=ignored
        ).stdout

    assert printed(*COMMAND, "run", "--format", "table") == printed(sys.executable)


def test_a_witness_that_is_killed_stops_no_signal(tmp_path: Path) -> None:
    case = Case(tmp_path, "headless", "handles", "SIGTERM")
    try:
        for child in psutil.Process(case.job.pid).children():
            if child.pid != case.script:
                child.kill()
        case.signal(signal.SIGTERM, "process")
        assert case.job.wait_for_exit() == 7
        assert case.events()[1:] == ["SIGTERM"]
        assert state(case.script) == ""
    finally:
        case.job.close()


ORPHANS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
reads, writes = os.pipe()
if os.fork() == 0:
    if (orphan := os.fork()) == 0:
        while os.getppid() != 1:
            time.sleep(0.01)
        os._exit(0)
    os.write(writes, str(orphan).encode())
    os._exit(0)
os.wait()
orphan = os.read(reads, 32).decode()
while os.path.exists("/proc/" + orphan):
    time.sleep(0.01)
print("reaped", flush=True)
while True:
    time.sleep(0.01)
"""


def test_as_the_first_process_of_a_container_it_reaps_orphans_and_passes_signals_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "script.py"
    path.write_text(ORPHANS, encoding="utf-8")
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    tried = subprocess.run([*alone, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no process namespace can be made here: {tried.stderr.strip()}")
    command = [*alone, *COMMAND, "run", "--format", "table", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "reaped\n"
            (first,) = psutil.Process(running.pid).children()
            first.terminate()
            assert running.wait(240) == 7
        finally:
            for one in psutil.Process(running.pid).children() if running.poll() is None else ():
                one.kill()
