"""Who has the cores: our figures of a forward beside those of a reader that is not ours.

    python benchmarks/times/cpu_contention.py [--seconds S] [--busy 0 2 6]

A model whose forward spins for a known time of the CPU clock runs beside so many busy processes.
Printed for each: time on a core against the known time, waiting for a core against what another
process reads from ``schedstat`` of the same thread meanwhile, and the class of the whole model.
The last line runs with no busy process again: the class is to come back. The exit code is 1 where a
time on a core is off by more than 3 %, waiting by more than 5 % (or 1 % of the time), or the class
is another one beside busy processes than alone.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler.messages import Ceiling, Ceilings, Unknown
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import messages, trace
from tui_profiler.queries.cost.bound import bound
from tui_profiler.session import EMPTY, Session, apply

SPUN = 0.02
"""Seconds of the CPU clock that a forward takes."""
_ROOFS = Ceilings("cpu", 1, (Ceiling("float32", 1e9),), 1e9, 1e-6, 0.0, 0.0)
"""So low that the layer is compute-bound: the class without a wait is known."""


class Spinning(nn.Linear):
    """A layer that is on a core for ``SPUN`` in each forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output, no sooner than its thread has used so much."""
        until = time.thread_time() + SPUN
        out = super().forward(x)
        while time.thread_time() < until:
            pass
        return out


def read_schedstat(path: Path, asked: Connection) -> None:
    """Answer each question with the seconds that a thread waited so far; in a process apart."""
    while asked.recv():
        asked.send(int(path.read_text().split()[1]) / 1e9)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Run so many busy processes."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


class Measured(NamedTuple):
    """What was measured beside some busy processes."""

    session: Session
    waiting: float
    """Mean of all forwards, ours."""
    told: float
    """The same by the other reader, with what was waited between forwards."""
    forwards: int


def measured(seconds: float, count: int) -> Measured:
    """Run forwards for so long beside ``count`` busy processes."""
    model, x = Spinning(2000, 2000).eval(), torch.randn(8, 2000)
    traced = trace(model, [Inputs((x,), {})])
    clock, totals = ModuleClock(model), Aggregator(traced.nodes, model)
    file = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/schedstat")
    forked = multiprocessing.get_context("fork")
    ours, theirs = forked.Pipe()
    reader = forked.Process(target=read_schedstat, args=(file, theirs))
    reader.start()
    with busy(count), torch.inference_mode():
        clock.install()
        try:
            ours.send(True)
            before = ours.recv()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                model(x)
            ours.send(True)
            told = ours.recv() - before
            recorded = clock.take()
        finally:
            clock.uninstall()
            ours.send(False)
            reader.join()
    totals.add(recorded)
    session = EMPTY
    for message in (*messages(traced), _ROOFS, totals.tick(1.0)):
        session = apply(session, message)
    waited = sum(one.usage.waiting or 0.0 for one in recorded if one.usage is not None)
    return Measured(session, waited / len(recorded), told / len(recorded), len(recorded))


def main() -> int:
    """Print a line for each number of busy processes; return 1 where a figure is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--busy", type=int, nargs="*", default=[0, 2, 6, 0])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} cores; a forward spins {SPUN * 1e3:.0f} ms; seconds are of a forward")
    failed = False
    for count in options.busy:
        run = measured(options.seconds, count)
        assert run.session.tick is not None
        used, found = run.session.tick.thread, bound(run.session, 0)
        assert used is not None
        assert found is not None
        if isinstance(used.on_core, Unknown) or isinstance(used.waiting, Unknown):
            print(f"busy {count}: {used.waiting}")
            return 1
        off_core = used.on_core / SPUN - 1
        off_waiting = run.waiting - run.told
        share = used.waiting / used.seconds
        expected = "compute"
        is_right = (
            abs(off_core) <= 0.03
            and abs(off_waiting) <= max(0.05 * run.told, 0.01 * used.seconds)
            and found.kind == expected
        )
        failed |= not is_right
        print(
            f"busy {count}: {run.forwards:4} forwards of {used.seconds * 1e3:6.2f} ms; on a core"
            f" {used.on_core * 1e3:5.2f} ms ({off_core:+.1%}); waiting {run.waiting * 1e3:6.2f} ms,"
            f" by the other reader {run.told * 1e3:6.2f} ms ({share:.0%} of the time);"
            f" class {found.kind}{'' if is_right else '  WRONG'}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
