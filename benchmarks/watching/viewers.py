"""The effect of misbehaving viewers on a watched program.

``python benchmarks/watching/viewers.py [SECONDS] [MODEL] [KIND...]``

Two programs run the same model side by side, each on a core of its own: one with a viewer that
reads, one with a viewer of some kind: stopped by SIGSTOP, killed by SIGKILL, reading a byte a
second, sending rubbish, asking without end, coming and going (beside that one nobody looks: it
never looks itself, so that it costs no module clock). They change cores every 2.5 s of
SECONDS (default 60), so that a slower core counts for both; two such slices give one ratio of their
throughputs. All threads of a program are on one core, so on a machine that does nothing else its
throughput is one forward per processor time that the process takes for it, the probe's threads
included. That ratio is printed as "by CPU time". "probe" is the processor time of threads other
than the model's, as a share of the time that passed: what a program with a core to itself loses.

On a busy machine a program gets a part of a core, and answers as many calls per second as ever: by
CPU time it then loses more than it would, and "probe" still says what it would.

Bounds: the longest gap between forwards is at most 50 ms more than beside the viewer that reads;
throughput by CPU time at least 97 % of it (the median of the ratios; 95 % intervals stand beside
both, and the upper end counts), or the probe's share at most 3 % more than beside it; memory at
most 16 MB more; what was dropped is counted. Viewers have the lowest priority: what one takes of
two cores by itself is not what it does to a program. Two that read come first: how far apart two
equal programs are on this machine. Where memray is installed, its live mode with a viewer that
stops to read is run beside it.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import sqrt
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tui_profiler.probe.measure.clock.overhead_budget import interval_of_median  # noqa: E402

SLICE_SECONDS = 2.5
READS, NOBODY, COMES = "reads", "nobody", "comes and goes"
VIEWERS = {
    READS: "for _ in iter(lambda: s.recv(1 << 20), b''): pass",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "killed": "s.recv(1 << 16); os.kill(os.getpid(), signal.SIGKILL)",
    "a byte a second": "\nwhile True: s.recv(1); time.sleep(1)",
    "sends rubbish": "\nwhile True:\n  try: s.sendall(os.urandom(65536))\n  except OSError: call()",
    "asks without end": "\nfor _ in range(10**9): s.sendall(ask * 1000)",
    COMES: "\nwhile True: s.close(); call()",
}
BESIDE = {COMES: NOBODY, NOBODY: NOBODY}
"""Who looks at the other program; ``READS`` otherwise. What looks in vain costs no module clock."""
CALL = """
import os, signal, socket, sys, time
from tui_profiler.messages import Observe, TraceAgain
from tui_profiler.connection.wire import encode
os.nice(19)
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
PROGRAM = """
import json, os, sys, time
import psutil, torch, torchvision
from tui_profiler import watch
from tui_profiler.probe.watch.watch import _server
torch.set_num_threads(1)
model, x = torchvision.models.get_model(sys.argv[1]).eval(), torch.randn(1, 3, 224, 224)
handle, process = watch(model, 'viewed'), psutil.Process()
print('ready', flush=True)
for line in sys.stdin:
    core, seconds = line.split()
    for thread in process.threads():
        os.sched_setaffinity(thread.id, {int(core)})
    before, longest, count = process.memory_info().rss, 0.0, 0
    cpu, own, began = time.process_time(), time.thread_time(), time.perf_counter()
    last = began
    with torch.no_grad():
        while last - began < float(seconds):
            model(x)
            now = time.perf_counter()
            longest, last, count = max(longest, now - last), now, count + 1
    dropped = sum(one._viewers.dropped for one in _server()._watched)
    grown = process.memory_info().rss - before
    cpu, own, took = time.process_time() - cpu, time.thread_time() - own, last - began
    said = [longest, count / took, count / cpu, (cpu - own) / took, grown, dropped]
    print(json.dumps(said), flush=True)
"""
MEMRAY_PROGRAM = """
import sys, time, torch, torchvision
torch.set_num_threads(1)
model, x = torchvision.models.get_model(sys.argv[1]).eval(), torch.randn(1, 3, 224, 224)
with torch.no_grad():
    while True:
        model(x)
        print(time.time(), flush=True)
"""


class Run(NamedTuple):
    """What one kind of viewer did to the program."""

    longest_gap: float
    """Seconds between the ends of two forwards."""
    per_second: float
    per_cpu_second: float
    """Forwards per second of processor time of the process."""
    probe_share: float
    """Processor time of threads other than the model's, per second that passed."""
    grown_bytes: int
    dropped: int


class Program:
    """A program that is watched, with a folder of its own for its socket."""

    def __init__(self, model: str, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, model],
            cwd=ROOT,
            env={**os.environ, "TUI_PROFILER_DIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def begin(self, core: int, seconds: float) -> None:
        """Have it run forwards on one core for so long."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{core} {seconds}\n")
        self._process.stdin.flush()

    def end(self) -> Run:
        """Wait for what came of it."""
        assert self._process.stdout is not None
        return Run(*json.loads(self._process.stdout.readline()))

    @contextmanager
    def viewed(self, kind: str) -> Iterator[None]:
        """Have a viewer of some kind look at it."""
        if kind == NOBODY:
            yield
            return
        (path,) = (one for one in self._folder.rglob("*") if one.is_socket())
        child = subprocess.Popen(
            [sys.executable, "-c", CALL + VIEWERS[kind], str(path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"called\n"
            yield
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def side_by_side(
    bad: Program, good: Program, cores: tuple[int, int], seconds: float
) -> tuple[Run, Run]:
    """Run both for so long, each on its core."""
    bad.begin(cores[0], seconds)
    good.begin(cores[1], seconds)
    return bad.end(), good.end()


def compared(kind: str, bad: Program, good: Program, seconds: float) -> bool:
    """Run both with their viewers, change cores, print; return whether the bounds are kept."""
    with bad.viewed(kind), good.viewed(BESIDE.get(kind, READS)):
        side_by_side(bad, good, (0, 1), min(3.0, seconds))  # Trees are recorded: one is slower.
        runs = [
            side_by_side(bad, good, cores, SLICE_SECONDS)
            for _ in range(max(round(seconds / SLICE_SECONDS / 2), 1))
            for cores in ((0, 1), (1, 0))
        ]
    _, by_time = ratio_of_pairs([one.per_second / other.per_second for one, other in runs])
    most, by_cpu = ratio_of_pairs([a.per_cpu_second / b.per_cpu_second for a, b in runs])
    longest = max(one.longest_gap for one, _ in runs)
    beside = max(one.longest_gap for _, one in runs)
    grown = sum(one.grown_bytes for one, _ in runs)
    probe, probe_beside = (
        median(run.probe_share for run in side) for side in zip(*runs, strict=True)
    )
    is_cheap = most >= 0.97 or probe <= probe_beside + 0.03
    is_kept = longest <= beside + 0.05 and is_cheap and grown <= 16e6
    print(
        f"  {kind:16} gap {longest * 1e3:6.1f} ms, beside it {beside * 1e3:6.1f} ms"
        f"  throughput {by_time}, by CPU time {by_cpu}"
        f"  probe {probe:.1%}, beside it {probe_beside:.1%}"
        f"  {grown / 1e6:+6.1f} MB  {runs[-1][0].dropped:5} dropped"
        f"  {'' if is_kept else 'OVER'}".rstrip(),
        flush=True,
    )
    return is_kept


def ratio_of_pairs(ratios: list[float]) -> tuple[float, str]:
    """Return the most that the median of pairs of slices may be, and it with its interval in words.

    Args:
        ratios: of the slices, in turn on the one and on the other core.
    """
    pairs = [sqrt(first * second) for first, second in zip(ratios[::2], ratios[1::2], strict=True)]
    middle, interval = median(pairs), interval_of_median(pairs)
    if interval is None:
        return middle, f"{middle:.1%}"
    return interval[1], f"{middle:.1%} [{interval[0]:.1%}, {interval[1]:.1%}]"


def memray(name: str, seconds: float) -> None:
    """Run forwards under memray's live mode; after ten of them its viewer reads no more."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "program.py", Path(folder) / "out"
        script.write_text(MEMRAY_PROGRAM, encoding="utf-8")
        command = ["run", "-q", "--live-remote", "--live-port", str(port), str(script), name]
        with out.open("wb") as to:
            child = subprocess.Popen([sys.executable, "-m", "memray", *command], stdout=to)
        viewer = socket.socket()
        try:
            while viewer.connect_ex(("127.0.0.1", port)):
                time.sleep(0.05)
            while len(_times(out)) < 10:
                viewer.recv(1 << 20)
            stopped = time.time()
            time.sleep(seconds)
            ended = time.time()
        finally:
            child.kill()
            child.wait()
            viewer.close()
        times = [one for one in _times(out) if stopped <= one <= ended]
        longest = max(b - a for a, b in itertools.pairwise([stopped, *times, ended]))
    print(
        f"  memray live, its viewer stops to read: {len(times)} forwards in {seconds:g} s,"
        f" longest gap {longest:.1f} s"
    )


def _times(out: Path) -> list[float]:
    lines = out.read_text(encoding="utf-8", errors="replace").splitlines()
    return [float(one) for one in lines if one.replace(".", "").isdigit()]


def main() -> None:
    """Measure every kind."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    name = sys.argv[2] if len(sys.argv) > 2 else "mobilenet_v3_small"
    kinds = sys.argv[3:] or list(VIEWERS)
    with tempfile.TemporaryDirectory() as folder:
        bad, good = (Program(name, Path(folder) / which) for which in ("bad", "good"))
        print(f"{name}, {seconds:g} s each, {os.cpu_count()} cores", flush=True)
        try:
            kept = [compared(kind, bad, good, seconds) for kind in kinds]
        finally:
            bad.close()
            good.close()
    if kinds == list(VIEWERS) and importlib.util.find_spec("memray") is not None:
        memray(name, min(seconds, 20.0))
    raise SystemExit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
