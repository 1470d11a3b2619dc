"""Viewers come and go while eight threads run forward: nothing differs, raises, or stays.

``python benchmarks/watching/viewer_cycles.py [--cycles 10000] [--threads 8] [--seed 0]``

A cycle is what a viewer does: recording on, some forwards taken, recording off. Now and then a
watching period ends and another begins. Every output is compared to the bit with one of before,
and ``nn.Module.__call__`` is looked at after each cycle: it is set once in a period, and put back
at its end. The exit code is 1 where one of these does not hold.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tui_profiler.probe.measure.clock.clock import ModuleClock

CYCLES_A_PERIOD = 100
INPUTS = 8


class Found(NamedTuple):
    """What a run of cycles did."""

    forwards: int
    recorded: int
    """Forwards that a viewer took."""
    differing: int
    """Outputs that are not bit for bit those of before."""
    raised: list[str]
    periods: int
    most_assignments: int
    """Of ``nn.Module.__call__`` to something of ours, within one watching period."""
    seconds: float


class Traffic:
    """Threads that run one model all the time, as a server does."""

    def __init__(self, threads: int) -> None:
        torch.manual_seed(0)
        block = nn.Sequential(nn.Linear(16, 16), nn.GELU())
        self.model = nn.Sequential(block, nn.LayerNorm(16), block, nn.Linear(16, 16)).eval()
        self._inputs = [torch.rand(4, 16) for _ in range(INPUTS)]
        with torch.no_grad():
            self._expected = [self.model(x) for x in self._inputs]
        self.forwards = 0
        self.differing = 0
        self.raised: list[str] = []
        self._stop = threading.Event()
        self._counting = threading.Lock()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        forwards = differing = 0
        with torch.no_grad():
            while not self._stop.is_set():
                which = forwards % INPUTS
                try:
                    output = self.model(self._inputs[which])
                    differing += not torch.equal(output, self._expected[which])
                except BaseException as error:
                    self.raised.append(repr(error))
                forwards += 1
        with self._counting:
            self.forwards += forwards
            self.differing += differing


def cycles(traffic: Traffic, number: int, seed: int) -> Found:
    """Let viewers come and go so many times while the traffic runs."""
    chance = random.Random(seed)
    before = nn.Module.__call__
    recorded = periods = most = 0
    began = time.perf_counter()
    clock = ModuleClock(traffic.model)
    with traffic:
        done = 0
        while done < number:
            clock.install()
            periods += 1
            ours = nn.Module.__call__
            changes = 1
            for _ in range(min(chance.randint(1, CYCLES_A_PERIOD), number - done)):
                clock.recording = True
                time.sleep(chance.choice((0.0, 0.0, 1e-4, 1e-3)))
                forwards = clock.take()
                clock.recording = False
                recorded += len(forwards)
                if any(forward.modules[-1] is not traffic.model for forward in forwards):
                    traffic.raised.append("a forward does not end with its root")
                changes += nn.Module.__call__ is not ours
                done += 1
            most = max(most, changes)
            clock.uninstall()
            if nn.Module.__call__ is not before:
                traffic.raised.append("something stayed after a period")
    return Found(
        traffic.forwards,
        recorded,
        traffic.differing,
        traffic.raised,
        periods,
        most,
        time.perf_counter() - began,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = cycles(Traffic(chosen.threads), chosen.cycles, chosen.seed)
    print(
        f"Python {sys.version.split()[0]}, torch {torch.__version__}: {chosen.cycles:,} cycles in "
        f"{found.periods} watching periods and {found.seconds:.0f} s, {chosen.threads} threads: "
        f"{found.forwards:,} forwards, {found.recorded:,} of them recorded, "
        f"{found.differing} differ, {len(found.raised)} raised, "
        f"__call__ was set {found.most_assignments} times in a period at most"
    )
    for error in found.raised[:10]:
        print(f"  {error}")
    is_good = not found.differing and not found.raised and found.most_assignments == 1
    return 0 if is_good and found.forwards and found.recorded else 1


if __name__ == "__main__":
    sys.exit(main())
