"""A viewer can never stop the model: what bad viewers do to a program that is watched.

``python benchmarks/viewers.py [SECONDS] [MODEL]``

SECONDS of forwards for each kind of viewer (default 60). In turn: a viewer that reads, one that is
stopped by SIGSTOP, one killed by SIGKILL, one that reads a byte a second, one that sends rubbish,
one that asks without end, and viewers that come and go. Bounds: the longest gap between forwards
is at most 50 ms more than with a viewer that reads, throughput at least 97 % of it, memory at most
16 MB more; what was dropped is counted. A gap of the machine's own counts too: run it alone.
"""

from __future__ import annotations

import os
import signal
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

VIEWERS = {
    "reads": "for _ in iter(lambda: s.recv(1 << 20), b''): pass",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "killed": "s.recv(1 << 16); os.kill(os.getpid(), signal.SIGKILL)",
    "a byte a second": "\nwhile True: s.recv(1); time.sleep(1)",
    "sends rubbish": "\nwhile True:\n  try: s.sendall(os.urandom(65536))\n  except OSError: call()",
    "asks without end": "\nfor _ in range(10**9): s.sendall(ask * 1000)",
    "comes and goes": "\nwhile True: s.close(); call()",
}
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
        print(
            f"  {'nobody looks':18} gap {bare.longest_gap * 1e3:6.1f} ms {bare.per_second:7.1f} /s"
        )
        reads: Run | None = None
        for kind in VIEWERS:
            found = with_viewer(kind, place.path, run, seconds)
            reads = reads or found
            dropped = sum(one._viewers.dropped for one in _server()._watched)
            ratio = found.per_second / reads.per_second
            is_kept = (
                found.longest_gap <= reads.longest_gap + 0.05
                and ratio >= 0.97
                and found.grown_bytes <= 16e6
            )
            print(
                f"  {kind:18} gap {found.longest_gap * 1e3:6.1f} ms {found.per_second:7.1f} /s"
                f" {ratio:7.1%}  {found.grown_bytes / 1e6:+6.1f} MB  {dropped:5} dropped"
                f"  {'' if is_kept else 'OVER'}",
                flush=True,
            )
        handle.close()


if __name__ == "__main__":
    main()
