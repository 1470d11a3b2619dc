"""A viewer can never stop the model: what bad viewers do to a program that is watched.

``python benchmarks/viewers.py [SECONDS] [MODEL]``

SECONDS of forwards for each kind of viewer (default 60): one that is stopped by SIGSTOP, one killed
by SIGKILL, one that reads a byte a second, one that sends rubbish, one that asks without end, and
viewers that come and go. Before and after each, a third as long, a viewer that reads: what a kind
is compared with, on the same machine a moment before and after. Bounds: the longest gap between
forwards is at most 50 ms more than the longer of those two, throughput at least 97 % of their mean,
memory at most 16 MB more; what was dropped is counted. A gap of the machine's own counts too: run
it alone. Where memray is installed, its live mode with a viewer that is stopped is run beside it.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

READS = "reads"
VIEWERS = {
    READS: "for _ in iter(lambda: s.recv(1 << 20), b''): pass",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "killed": "s.recv(1 << 16); os.kill(os.getpid(), signal.SIGKILL)",
    "a byte a second": "\nwhile True: s.recv(1); time.sleep(1)",
    "sends rubbish": "\nwhile True:\n  try: s.sendall(os.urandom(65536))\n  except OSError: call()",
    "asks without end": "\nfor _ in range(10**9): s.sendall(ask * 1000)",
    "comes and goes": "\nwhile True: s.close(); call()",
}
BAD = [kind for kind in VIEWERS if kind != READS]
CALL = """
import os, signal, socket, sys, time
from tui_profiler.messages import Observe, TraceAgain
from tui_profiler.wire import encode
ask = encode(TraceAgain())
def call():
    global s
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while s.connect_ex(sys.argv[1]): time.sleep(0.001)
    try: s.sendall(encode(Observe()))
    except OSError: pass
call()
print('called', flush=True)
"""


class Run(NamedTuple):
    """What one kind of viewer did to the program."""

    longest_gap: float
    """Seconds between the ends of two forwards."""
    per_second: float
    grown_bytes: int


def forwards(run: Callable[[], object], seconds: float) -> Run:
    """Run forwards for so long."""
    process = psutil.Process()
    before = process.memory_info().rss
    began = last = time.perf_counter()
    longest, count = 0.0, 0
    while last - began < seconds:
        run()
        now = time.perf_counter()
        longest, last, count = max(longest, now - last), now, count + 1
    return Run(longest, count / (last - began), process.memory_info().rss - before)


def with_viewer(kind: str, path: Path, run: Callable[[], object], seconds: float) -> Run:
    """Run forwards while a viewer of some kind is there, after it was seen for a while."""
    child = subprocess.Popen(
        [sys.executable, "-c", CALL + VIEWERS[kind], str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"called\n"
        forwards(run, min(3.0, seconds))  # The tree is recorded: one forward is slower.
        return forwards(run, seconds)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


class Beside(NamedTuple):
    """A viewer that reads, before and after a kind."""

    before: Run
    after: Run

    def is_kept(self, found: Run) -> bool:
        """Tell whether a kind stays within its bounds."""
        longest = max(self.before.longest_gap, self.after.longest_gap)
        is_smooth = found.longest_gap <= longest + 0.05
        return is_smooth and self.ratio(found) >= 0.97 and found.grown_bytes <= 16e6

    def ratio(self, found: Run) -> float:
        """Give the throughput as a share of what it was beside."""
        return found.per_second / ((self.before.per_second + self.after.per_second) / 2)


def show(kind: str, found: Run, beside: Beside | None = None, more: str = "") -> None:
    """Print a line."""
    line = f"  {kind:18} gap {found.longest_gap * 1e3:6.1f} ms {found.per_second:7.1f} /s"
    if beside is not None:
        verdict = "" if beside.is_kept(found) else "OVER"
        line += (
            f" {beside.ratio(found):7.1%}  {found.grown_bytes / 1e6:+6.1f} MB  {more}  {verdict}"
        )
    print(line.rstrip(), flush=True)


MEMRAY_PROGRAM = """
import sys, time, torch, torchvision
torch.set_num_threads(1)
model, x = torchvision.models.get_model(sys.argv[1]).eval(), torch.randn(1, 3, 224, 224)
with torch.no_grad():
    while True:
        model(x)
        print(time.time(), flush=True)
"""


def memray(name: str, seconds: float) -> None:
    """Run forwards under memray's live mode, with a viewer that reads nothing, for so long."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "program.py", Path(folder) / "out"
        script.write_text(MEMRAY_PROGRAM, encoding="utf-8")
        command = ["run", "--live-remote", "--live-port", str(port), str(script), name]
        with out.open("wb") as to:
            child = subprocess.Popen([sys.executable, "-m", "memray", *command], stdout=to)
            viewer = socket.socket()
            try:
                while viewer.connect_ex(("127.0.0.1", port)):
                    time.sleep(0.05)
                began = time.time()
                while time.time() - began < seconds:
                    time.sleep(0.1)
                ended = time.time()
            finally:
                viewer.close()
                child.kill()
                child.wait()
        lines = out.read_text(encoding="utf-8").splitlines()
        times = [float(one) for one in lines if one.replace(".", "").isdigit()]
        times = [one for one in times if one <= ended]
        gaps = [b - a for a, b in itertools.pairwise([began, *times, ended])]
        longest = max(gaps)
    print(f"  memray live, a viewer that does not read: {len(times)} forwards in {seconds:g} s,")
    print(f"  longest gap {longest:.1f} s")


def main() -> None:
    """Measure every kind."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    name = sys.argv[2] if len(sys.argv) > 2 else "mobilenet_v3_small"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUI_PROFILER_DIR"] = folder
        import torch
        import torchvision

        from tui_profiler import watch
        from tui_profiler.probe.watch import _server
        from tui_profiler.rendezvous import places

        torch.set_num_threads(1)
        model, x = torchvision.models.get_model(name).eval(), torch.randn(1, 3, 224, 224)

        def run() -> None:
            with torch.no_grad():
                model(x)

        handle = watch(model, "viewed")
        (place,) = places()
        forwards(run, 3.0)
        bare = forwards(run, min(seconds, 20.0))
        print(f"{name}, {seconds:g} s each, torch {torch.__version__}, {os.cpu_count()} cores")
        show("nobody looks", bare)
        before = with_viewer(READS, place.path, run, seconds / 3)
        show("reads", before)
        for kind in BAD:
            found = with_viewer(kind, place.path, run, seconds)
            after = with_viewer(READS, place.path, run, seconds / 3)
            dropped = sum(one._viewers.dropped for one in _server()._watched)
            show(kind, found, Beside(before, after), f"{dropped:5} dropped")
            show("reads", after)
            before = after
        handle.close()
    if importlib.util.find_spec("memray") is not None:
        memray(name, min(seconds, 20.0))


if __name__ == "__main__":
    main()
