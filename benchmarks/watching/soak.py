"""Memory of every process over hours of watching.

``python benchmarks/watching/soak.py [HOURS] [MODEL]`` (24 for a day; default: 2 hours, a model that
pauses)

Two explorers on ptys, live, at 120x40. One runs MODEL in its worker and is left alone. The other is
attached to a program that pauses between forwards, and is sent through its screens once a minute;
a second viewer of that program reads one byte per second. The default model sleeps between its
forwards too, so that hours of it take a fifth of a core.

Each minute prints one line: private memory (USS) of each process in MB, forwards of the program,
its longest forward and the bytes that the slow viewer has read. At the end each process's growth in
MB per hour over each third of the time: growth that ends is a buffer that filled up; growth that
stays is a leak. Exit code 1 where the last third grew by more than BUDGET_MB_PER_HOUR.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.terminal import COMMAND, Terminal  # noqa: E402

BUDGET_MB_PER_HOUR = 1.0
SCREENS = ("r", "t", "m", "w", "f", "L")
"""Keys of the screens that the attached explorer is sent through; escape leads back."""
PAUSED_MODEL = """
import time, torch
from torch import nn

class Paused(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            for _ in range(8)
        )
    def forward(self, x):
        time.sleep(0.1)
        for block in self.blocks:
            x = block(x)
        return x

def build():
    return Paused()

def example_inputs(batch=1):
    return (torch.randn(batch, 8, 32, 32),)
"""
PROGRAM = """
import json, sys, time
import torch
sys.path.insert(0, sys.argv[1])
from paused import build, example_inputs
import tui_profiler
from tui_profiler.probe.watch.watch import _server
torch.set_num_threads(1)
model, inputs = build().eval(), example_inputs()
handle = tui_profiler.watch(model, "soaked")
print("ready", flush=True)
count, longest, due = 0, 0.0, time.monotonic() + 60
with torch.no_grad():
    while True:
        began = time.perf_counter()
        model(*inputs)
        longest, count = max(longest, time.perf_counter() - began), count + 1
        if time.monotonic() >= due:
            due += 60
            dropped = sum(one._viewers.dropped for one in _server()._watched)
            print(json.dumps([count, longest - 0.1, dropped]), flush=True)
            count, longest = 0, 0.0
"""
SLOW_VIEWER = """
import os, socket, sys, time
from tui_profiler.messages import Observe
from tui_profiler.connection.wire import encode
os.nice(19)
calls = 0
while True:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as viewer:
        viewer.connect(sys.argv[1])
        viewer.sendall(encode(Observe()))
        calls += 1
        read = 0
        while viewer.recv(1):
            read += 1
            if read % 60 == 1:
                print(calls, read, flush=True)
            time.sleep(1)
"""


class Minute(NamedTuple):
    """What one minute was like."""

    hours: float
    private_mb: dict[str, float]
    """Private memory of each process."""
    program: list[float]
    """Forwards of the program, the longest of them in seconds, messages dropped."""
    slow_viewer: str
    """Calls of the slow viewer, and bytes that it has read in the last one."""


@contextmanager
def processes(model: str, folder: Path) -> Iterator[tuple[dict[str, Terminal], int, list[Path]]]:
    """Start everything.

    Yields:
        the two explorers, the program's process, the files that it and the slow viewer write.
    """
    (folder / "paused.py").write_text(PAUSED_MODEL, encoding="utf-8")
    sockets = folder / "sockets"
    sockets.mkdir(mode=0o700)
    os.environ["TUI_PROFILER_DIR"] = str(sockets)
    program_said, viewer_said = folder / "program", folder / "viewer"
    with contextlib.ExitStack() as ends:
        with program_said.open("wb") as to:
            program = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(folder)], stdout=to, cwd=ROOT
            )
        ends.callback(program.kill)
        while not program_said.read_text(encoding="utf-8").startswith("ready"):
            assert program.poll() is None
            time.sleep(0.1)
        (path,) = (one for one in sockets.rglob("*") if one.is_socket())
        with viewer_said.open("wb") as to:
            viewer = subprocess.Popen(
                [sys.executable, "-c", SLOW_VIEWER, str(path)], stdout=to, cwd=ROOT
            )
        ends.callback(viewer.kill)
        explored = model or f"{folder / 'paused.py'}:build"
        terminals = {
            "worker's": Terminal([*COMMAND, explored, "--threads", "1"]),
            "attached": Terminal([*COMMAND, "attach", str(program.pid)]),
        }
        for terminal in terminals.values():
            ends.callback(terminal.close)
            terminal.wait_for("● live", 300)
        yield terminals, program.pid, [program_said, viewer_said]


def minutes(
    terminals: dict[str, Terminal], program: int, said: list[Path], hours: float
) -> Iterator[Minute]:
    """Yield what each minute was like, for so many hours."""
    read = {
        "screens": psutil.Process(terminals["worker's"].pid),
        "worker": terminals["worker's"].workers()[0],
        "attached screens": psutil.Process(terminals["attached"].pid),
        "program": psutil.Process(program),
    }
    began = time.monotonic()
    while (at := time.monotonic() - began) < hours * 3600:
        for key in SCREENS:
            for typed in (key, "\x1b"):
                terminals["attached"].send(typed)
                terminals["attached"].pause(2)
        terminals["attached"].pause(max(60 - (time.monotonic() - began - at), 0))
        for terminal in terminals.values():
            assert terminal.is_alive(), terminal.text()
            terminal.forget_output()
        forwards, viewer = (one.read_text(encoding="utf-8").splitlines() for one in said)
        yield Minute(
            (time.monotonic() - began) / 3600,
            {name: one.memory_full_info().uss / 1e6 for name, one in read.items()},
            json.loads(forwards[-1]) if len(forwards) > 1 else [],
            viewer[-1] if viewer else "",
        )


def growth(kept: list[Minute], name: str) -> list[float]:
    """Return MB per hour of a process over each third of the time."""
    third = len(kept) // 3
    return [
        linear_regression([one.hours for one in part], [one.private_mb[name] for one in part]).slope
        for part in (kept[:third], kept[third : 2 * third], kept[-third:])
    ]


def main() -> None:
    """Watch, and say what grew."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    model = sys.argv[2] if len(sys.argv) > 2 else ""
    kept: list[Minute] = []
    with (
        tempfile.TemporaryDirectory(prefix="tp-") as made,
        processes(model, Path(made)) as (terminals, program, said),
    ):
        for one in minutes(terminals, program, said, hours):
            kept.append(one)
            memory = "  ".join(f"{name} {mb:.2f}" for name, mb in one.private_mb.items())
            print(
                f"{one.hours * 60:6.1f} min  {memory} MB"
                f"  program {one.program}  slow viewer {one.slow_viewer}",
                flush=True,
            )
    is_kept = True
    for name in kept[0].private_mb:
        slopes = growth(kept, name)
        is_kept &= slopes[-1] <= BUDGET_MB_PER_HOUR
        middle = median(one.private_mb[name] for one in kept)
        print(
            f"{name:17} {middle:7.1f} MB  by thirds "
            + "  ".join(f"{slope:+.2f}" for slope in slopes)
            + f" MB/h  budget {BUDGET_MB_PER_HOUR:g}"
        )
    raise SystemExit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
