"""Forwards per second of a user's program: its own count, and the reported rate.

``python benchmarks/times/rates.py [--only WORD]``

Each program notes when each of its forwards ended. Under ``run`` its own count is that of the whole
run after the warm-up, though not more than its last five seconds; under ``attach`` that of the five
seconds before the answer. What is told as counted has to be within 5 % of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

Told: TypeAlias = tuple[float, str]
SECONDS = 5.0
WARM_UP = 5
WITHIN = 0.05
COMMAND = str(Path(sys.executable).with_name("tui-profiler"))


class Case(NamedTuple):
    """One program."""

    words: str
    forwards: int
    """Under ``run``; attached to, it goes on until it is ended."""
    layers: int
    batch: int
    trains: bool = False
    between: float = 0.0
    """Seconds that it waits after each forward, for data say."""
    pause: float = 0.0
    """Seconds that it does something else after each 50th."""


SHORT = (
    Case("inference, short", 160, 8, 64),
    Case("inference, wait 5 ms, short", 160, 8, 64, between=0.005),
    Case("training, short", 160, 4, 64, trains=True),
    Case("training, wait 10 ms, short", 120, 4, 64, trains=True, between=0.01),
    Case("training, large batch, short", 40, 8, 512, trains=True),
)
LONG = (
    Case("inference", 1500, 8, 64),
    Case("inference, wait 20 ms", 250, 8, 64, between=0.02),
    Case("inference, 200 layers", 600, 200, 1),
    Case("training", 500, 4, 64, trains=True),
    Case("training, wait 30 ms", 150, 4, 64, trains=True, between=0.03),
    Case("training, large batch", 60, 8, 1024, trains=True),
    Case("training, pause 0.3 s each 50", 500, 4, 64, trains=True, pause=0.3),
)


def program(case: Case, ends_at: str, name: str) -> None:
    """Run as a user's program does; write when each forward ended."""
    import torch

    import tui_profiler

    width = 32 if case.layers > 100 else 512
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(case.layers)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x, ends = torch.randn(case.batch, width), []
    if name:
        tui_profiler.watch(model, name)
    while not (os.path.exists(ends_at + ".end") if name else len(ends) >= case.forwards):
        with torch.set_grad_enabled(case.trains):
            y = model(x)
        ends.append(time.time())
        if case.trains:
            optimizer.zero_grad()
            y.square().mean().backward()
            optimizer.step()
        time.sleep(case.between + (case.pause if len(ends) % 50 == 0 else 0.0))
    Path(ends_at).write_text(json.dumps(ends))


def own_rate(ends: Sequence[float], until: float) -> float:
    """Return the forwards per second that a program counted in the last seconds."""
    last = [end for end in ends[WARM_UP:] if until - SECONDS <= end <= until]
    return (len(last) - 1) / (last[-1] - last[0])


def told(folder: Path, *words: str) -> Told:
    """Run a command that writes a report and return its throughput."""
    report = folder / "report"
    what, *others = words
    subprocess.run(
        [COMMAND, what, "--format", "json", "--output", str(report), *others], check=True
    )
    found = json.loads(report.read_text())["throughput"]
    return found["per_s"], found["provenance"]


def run(case: Case, folder: Path) -> tuple[float, Told]:
    """Return both rates of a program under ``run``."""
    ends = folder / "ends"
    script = [__file__, "--program", json.dumps(case), str(ends), ""]
    found = told(folder, "run", "--", *script)
    counted = json.loads(ends.read_text())
    return own_rate(counted, counted[-1]), found


def attach(case: Case, folder: Path) -> tuple[float, Told]:
    """Return both rates of a program that is attached to."""
    ends = folder / "ends"
    name = f"rates-{os.getpid()}"
    script = [sys.executable, __file__, "--program", json.dumps(case), str(ends), name]
    with subprocess.Popen(script, env={**os.environ, "KINETO_LOG_LEVEL": "99"}) as theirs:
        time.sleep(6.0)
        found, at = told(folder, "report", "--attach", name, "--measure", "5"), time.time()
        Path(f"{ends}.end").touch()
        theirs.wait(30)
    return own_rate(json.loads(ends.read_text()), at), found


def rows(only: str) -> Iterator[bool]:
    """Print a row for each program and way; return whether it holds."""
    for way, cases in ((run, (*SHORT, *LONG)), (attach, LONG)):
        for case in cases:
            if only not in f"{way.__name__}: {case.words}":
                continue
            with tempfile.TemporaryDirectory() as folder:
                own, (per_second, how) = way(case, Path(folder))
            off = per_second / own - 1
            figures = f"{own:.1f} | {per_second:.1f} | {how} | {100 * off:+.1f} %"
            print(f"| {way.__name__}: {case.words} | {figures} |", flush=True)
            yield how != "counted" or abs(off) <= WITHIN


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    if asked.program:
        fields, *where = asked.program
        program(Case(*json.loads(fields)), *where)
    else:
        sys.exit(not all(list(rows(asked.only))))
