"""Modules whose bottleneck follows from first principles, and what a report says of each.

    python benchmarks/times/conclusions.py [--cases PATH] [--beside N] [--measure S] [--only NAME …]

Each module is reported by a command of its own on one thread (``tui-profiler report FILE:NAME
--measure S --threads 1 --format json``), with ``--beside N`` next to N busy processes. Printed for
each: the right class, ours, its share of the time without waiting for a core, how much of a forward
waited, and the reason. *named* is the right class, *withheld* one that is only on paper or
unexplained, *wrong* any other. ``--cases`` adds the modules of a file: functions without arguments
that return a module with ``example_inputs``; their right classes are in ``OF_CASES`` below.

The exit code is 1 where a class is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

OF_CASES: dict[str, tuple[str, ...]] = {
    "matmul": ("compute",),
    "elementwise": ("faults",),
    "tiny": ("overhead",),
    "tinyops": ("overhead",),
    # Each of these two writes fresh memory: with an allocator that keeps it (MALLOC_MMAP_THRESHOLD_
    # and MALLOC_TRIM_THRESHOLD_ of glibc) embedding took 13 ms of CPU time instead of 38, depthwise
    # 19 instead of 98 (EPYC, 29 November 2026).
    "embedding": ("memory", "faults"),
    "lstm": ("memory",),
    "lstm_small": ("overhead",),
    "depthwise": ("memory", "faults"),
    "softmax": ("faults",),
    "sleep": ("blocked",),
    "item": ("overhead",),
    # From a disk it is asleep; from the page cache it copies, on a core, into fresh memory.
    "readfile": ("blocked", "faults"),
    "conv64": ("compute",),
    "conv32": ("compute",),
    "bf16": ("compute",),
    "f32lin": ("compute",),
    "gemv": ("memory",),
    "pyloop": ("python",),
}
"""Right classes of the modules that ``--cases`` names."""
OWN: dict[str, tuple[str, ...]] = {
    "products": ("compute",),
    "reuse": ("memory",),
    "fresh": ("faults",),
    "many_small": ("overhead",),
    "lock": ("blocked",),
    "child_process": ("blocked",),
    "numpy_sort": ("python",),
    "json_text": ("python",),
    # One fault maps up to 16 pages of a file (fault-around): the cost of one is not that measured.
    "mapped_file": ("faults", "python"),
    "gelu_small": ("overhead",),
    "bag": ("memory",),
    "attention": ("compute",),
    "pipe_read": ("blocked",),
}
"""Right classes of the modules below."""
_MODULES = '''
import json, mmap, os, subprocess, sys, tempfile, threading, time
import numpy as np
import torch
from torch import nn


def built(module, *inputs):
    module.example_inputs = inputs
    return module.eval()


class Products(nn.Module):
    """Three products of 768: 0.45 GFLOP for 7 MB."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(768, 768) / 28)

    def forward(self, x):
        return x @ self.weight @ self.weight @ self.weight


class Reuse(nn.Module):
    """Adds in place on 128 MiB: nothing is allocated."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(32 << 20))

    def forward(self, x):
        return self.kept.add_(x).sub_(x)


class Fresh(nn.Module):
    """A sum into 192 MiB of fresh memory."""

    def forward(self, x):
        return x + 1.0


class ManySmall(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.LayerNorm(8) for _ in range(400))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Lock(nn.Module):
    """Takes a lock that another thread holds for 8 ms at a time."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        taken, free = threading.Event(), threading.Lock()

        def hold():
            with free:
                taken.set()
                time.sleep(0.008)

        other = threading.Thread(target=hold)
        other.start()
        taken.wait()
        with free:
            x = self.linear(x)
        other.join()
        return x


class ChildProcess(nn.Module):
    """Waits for a process."""

    def forward(self, x):
        subprocess.run(["sleep", "0.02"], check=True)
        return x + 1


class NumpySort(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = np.random.default_rng(0).random(300_000)

    def forward(self, x):
        return x + float(np.sort(self.values)[7])


class JsonText(nn.Module):
    def forward(self, x):
        text = json.dumps([{"id": i, "name": "x" * 8, "at": i / 7} for i in range(4_000)])
        return x + len(text)


class MappedFile(nn.Module):
    """Reads one byte per page of 128 MiB of a mapped file that is in the page cache."""

    def __init__(self):
        super().__init__()
        self.file = tempfile.TemporaryFile()
        self.file.write(bytes(128 << 20))
        self.file.flush()

    def forward(self, x):
        with mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return x + int(np.frombuffer(mapped, np.uint8)[::4096].sum())


class Gelu(nn.Module):
    def forward(self, x):
        for _ in range(300):
            x = nn.functional.gelu(x)
        return x


class Bag(nn.Module):
    """Sums 64 rows of 1 KiB out of 1 GiB for each of 2,000 bags."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(1_000_000, 256, mode="sum")

    def forward(self, ids):
        return self.bag(ids)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)

    def forward(self, x):
        return self.layer(x)


class PipeRead(nn.Module):
    """Reads what another thread writes to a pipe after 5 ms."""

    def forward(self, x):
        reading, writing = os.pipe()
        late = threading.Timer(0.005, os.write, (writing, b"x"))
        late.start()
        os.read(reading, 1)
        late.join()
        os.close(reading)
        os.close(writing)
        return x + 1


def products():
    return built(Products(), torch.randn(768, 768))

def reuse():
    return built(Reuse(), torch.randn(32 << 20))

def fresh():
    return built(Fresh(), torch.randn(48 << 20))

def many_small():
    return built(ManySmall(), torch.randn(1, 8))

def lock():
    return built(Lock(), torch.randn(1, 16))

def child_process():
    return built(ChildProcess(), torch.randn(8))

def numpy_sort():
    return built(NumpySort(), torch.randn(8))

def json_text():
    return built(JsonText(), torch.randn(8))

def mapped_file():
    return built(MappedFile(), torch.randn(8))

def gelu_small():
    return built(Gelu(), torch.randn(8))

def bag():
    return built(Bag(), torch.randint(0, 1_000_000, (2_000, 64)))

def attention():
    return built(Attention(), torch.randn(2, 128, 512))

def pipe_read():
    return built(PipeRead(), torch.randn(8))
'''
_LONGEST = 600.0
"""Seconds of one report."""


class Said(NamedTuple):
    """What a report says of a whole module."""

    kind: str
    is_measured: bool
    share: float | None
    """Of the time without waiting for a core."""
    waiting: float | None
    reason: str


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Run busy processes."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def report(file: Path, name: str, seconds: float) -> Said:
    """Return what the report of one module says."""
    command = [sys.executable, "-m", "tui_profiler", "report", f"{file}:{name}"]
    options = ["--measure", f"{seconds:g}", "--threads", "1", "--format", "json"]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=_LONGEST, check=False
    )
    if done.returncode or not done.stdout:
        return Said("failed", False, None, None, done.stderr.strip().rpartition("\n")[2])
    found: dict[str, Any] = json.loads(done.stdout)
    root, classes = found["layers"][0], found["bottlenecks"]
    kind = root["bottleneck"] or "none"
    is_measured = root["bottleneck_measured"]
    share = classes[kind]["time_share"] if is_measured else None
    mix = ", ".join(
        f"{each} {part['time_share']:.0%}"
        for each, part in classes.items()
        if each != "waiting" and (part["time_share"] or 0.0) >= 0.005
    )
    why = root["bottleneck_on_paper"] or f"{root['bottleneck_reason']} ({mix})"
    return Said(kind, is_measured, share, classes["waiting"]["time_share"], why)


def verdict(said: Said, right: Sequence[str]) -> str:
    """Return *named*, *withheld* or *wrong*."""
    if said.kind == "failed":
        return "wrong"
    if not said.is_measured or said.kind == "unexplained":
        return "withheld"
    return "named" if said.kind in right else "wrong"


def judged(file: Path, right: dict[str, tuple[str, ...]], seconds: float) -> dict[str, int]:
    """Print a line for each module, and return how many there are of each verdict."""
    counts = dict.fromkeys(("named", "withheld", "wrong"), 0)
    for name, classes in right.items():
        said = report(file, name, seconds)
        found = verdict(said, classes)
        counts[found] += 1
        share = "" if said.share is None else f"{said.share:.0%}"
        waits = "–" if said.waiting is None else f"{said.waiting:.0%}"
        print(
            f"{name:14}{'/'.join(classes):12}{said.kind:13}{share:>5}  waits {waits:>4}"
            f"  {found:9}{textwrap.shorten(said.reason, 120)}",
            flush=True,
        )
    return counts


def main() -> int:
    """Report all modules, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=Path, help="a file of further modules")
    parser.add_argument("--beside", type=int, default=0, help="busy processes to start")
    parser.add_argument("--measure", type=float, default=20.0, help="seconds for each module")
    parser.add_argument("--only", nargs="+", default=(), help="names of modules")
    asked = parser.parse_args()

    def chosen(right: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {name: one for name, one in right.items() if not asked.only or name in asked.only}

    counts: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory() as folder, busy(asked.beside):
        own = Path(folder) / "known_bottlenecks.py"
        own.write_text(_MODULES)
        if asked.cases is not None and asked.cases.is_file():
            counts.append(judged(asked.cases, chosen(OF_CASES), asked.measure))
        elif asked.cases is not None:
            print(f"{asked.cases} is not there: its modules are skipped")
        counts.append(judged(own, chosen(OWN), asked.measure))
    for each in counts:
        print(", ".join(f"{count} {name}" for name, count in each.items()))
    return int(any(each["wrong"] for each in counts))


if __name__ == "__main__":
    sys.exit(main())
