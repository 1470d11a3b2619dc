"""What becomes of a script that gets a signal: alone, under ``run``, and in the explorer."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Literal, NamedTuple

from tests.end_to_end.run.job import Job, state
from tests.end_to_end.terminal import COMMAND

SCRIPT = """
import os, signal, sys, time
folder, disposition = sys.argv[1], sys.argv[2]
events = os.open(folder + "/events", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(word):
    os.write(events, (word + "\\n").encode())

def handle(number, frame):
    note(signal.Signals(number).name)
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        print("checkpoint saved", flush=True)
        sys.exit(7)

for name in sys.argv[3].split(","):
    if disposition != "default":
        signal.signal(signal.Signals[name], handle if disposition == "handles" else signal.SIG_IGN)
note(f"pid {os.getpid()}")
while not os.path.exists(folder + "/end"):
    time.sleep(0.01)
sys.exit(9)
"""
How = Literal["alone", "headless", "explorer"]
Target = Literal["process", "group"]
Disposition = Literal["default", "handles", "ignores"]
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT", "TSTP", "WINCH")
SETTLE_SECONDS = 0.4


class Outcome(NamedTuple):
    """What was seen."""

    events: tuple[str, ...]
    """Signals that handlers of the script were called for."""
    stops: int
    """How often the job stopped, the explorer without its script not counted."""
    code: int
    """Exit code, or minus the signal."""


class Case:
    """One script in one folder."""

    def __init__(self, folder: Path, how: How, disposition: Disposition, names: str) -> None:
        self.folder, self.how = folder, how
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "script.py"
        path.write_text(SCRIPT, encoding="utf-8")
        arguments = [str(path), str(folder), disposition, names]
        before = {"alone": [sys.executable], "headless": [*COMMAND, "run", "--format", "table"]}
        command = before.get(how, [*COMMAND, "run"])
        home = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "STATE", "CONFIG")}
        usual = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.job = Job([*command, *arguments], {**os.environ, **home, **usual})
        self.job.wait(self.events, "script that runs")
        self.script = int(self.events()[0].split()[1])
        if how == "explorer":
            self.job.wait(lambda: b"\x1b[?1049h" in self.job.raw, "explorer")
            self.job.wait(lambda: b"torch not" in self.job.raw, "explorer that shows something")

    def events(self) -> list[str]:
        try:
            return (self.folder / "events").read_text().splitlines()
        except FileNotFoundError:
            return []

    def signal(self, number: signal.Signals, target: Target) -> None:
        (os.kill if target == "process" else os.killpg)(self.job.pid, number)

    def finish(self) -> int:
        """Let the script end by itself and return the exit code of the job."""
        (self.folder / "end").touch()
        if self.how == "explorer":
            job = self.job
            job.wait(lambda: state(self.script) == "" or job.exit_code is not None, "end")
            deadline = time.monotonic() + 120
            while job.exit_code is None and time.monotonic() < deadline:
                job.send("q")
                time.sleep(0.2)
        return self.job.wait_for_exit()


def outcome(folder: Path, how: How, disposition: Disposition, name: str, target: Target) -> Outcome:
    """Start a script, send it a signal in this way, and let it end where it has not."""
    number = signal.Signals["SIG" + name]
    case = Case(folder, how, disposition, number.name)
    job = case.job
    try:
        case.signal(number, target)
        end = time.monotonic() + SETTLE_SECONDS
        # ctrl+z gives the terminal back in the explorer, whatever the script does.
        stays = disposition != "default"
        is_stop = name == "TSTP" and (disposition == "default" or how == "explorer")
        if is_stop:
            job.wait(lambda: job.stops and (stays or state(case.script) == "T"), "stop")
        if disposition == "handles":
            job.wait(lambda: len(case.events()) > 1 or job.exit_code is not None, "event")
        while time.monotonic() < end and job.exit_code is None:
            time.sleep(0.01)
        if is_stop:
            assert state(job.pid) == "T"
            assert job.modes_are_restored()
            job.foreground()
            job.wait(lambda: "T" not in (state(case.script), state(job.pid)), "going on")
        code = case.finish() if job.exit_code is None and _lives(case) else job.wait_for_exit()
        assert state(case.script) in ("", "Z")
        assert job.modes_are_restored()
        stops = job.stops - (is_stop and stays)
        return Outcome(tuple(case.events()[1:]), stops, code)
    finally:
        job.close()


def _lives(case: Case) -> bool:
    """Whether the script goes on in spite of the signal."""
    return state(case.script) not in ("", "Z") and not any(
        event in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT") for event in case.events()
    )
