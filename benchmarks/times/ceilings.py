"""This machine's roofs with 0, 2 and 6 busy processes, compared with an independent measurement.

    python -m benchmarks.times.ceilings [--busy 0,2,6] [--threads N] [--repeats N]

Each repeat begins with an empty cache folder and a new process, which measures the roofs as the
worker does at its first start, with the one function that it uses. Between any two of its rounds,
before the first and after the last one, ``independent_roofs`` measures a round of its own: so what
a machine's neighbours do changes both. Its roof is the second best of its rounds, as ours is.

A row passes where ours is within 20 % of the independent one, or where it is marked not good
enough. Where the independent one is not known (next to no piece of memory ran undisturbed) nothing
is compared. The last line counts the rows. Exit code 1 where one does not pass.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tui_profiler.messages import Ceilings, Unknown
from tui_profiler.probe.measure.devices.machine import caches
from tui_profiler.queries.cost.ceilings import Roof, roofs_of

WITHIN = 0.2
LEAST_ROUNDS = 3
_SETTLE_SECONDS = 2.0
_SPIN = "while True: pass"
_OURS = """
import sys, time
from pathlib import Path
import msgspec, torch
from tui_profiler.probe.measure.ceilings.ceilings import ceilings
threads = int(sys.argv[1])
torch.set_num_threads(threads)

waited = 0.0

def between():
    global waited
    began = time.perf_counter()
    print("between", flush=True)
    sys.stdin.readline()
    waited += time.perf_counter() - began

found = ceilings("cpu", threads, Path(sys.argv[2]), between=between)
found = msgspec.structs.replace(found, seconds=found.seconds - waited)
print(msgspec.json.encode(found).decode(), flush=True)
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many processes busy meanwhile."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", _SPIN], start_new_session=True)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for each in spinning:
            each.send_signal(signal.SIGKILL)
            each.wait()


class Independent:
    """The process that measures by another way, and what it measured."""

    def __init__(self, threads: int) -> None:
        # Half of what fits, as much for each process, half of it read and half written.
        sizes = {
            one.level: one.bytes // min(one.cores, threads)
            for one in caches(sorted(os.sched_getaffinity(0)))
        }
        l2_bytes, l3_bytes = sizes.get(2, 0) // 4, min(sizes.get(3, 0) // 4, 4 << 20)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.times.independent_roofs"),
                *map(str, (threads, l2_bytes, l3_bytes)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.rounds: list[dict[str, float | None]] = []

    def measure(self) -> None:
        """Measure a round."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.rounds.append(json.loads(self._process.stdout.readline()))

    def roof(self, name: str) -> tuple[float, float] | None:
        """Return the second best of the rounds, and the best three's spread; None: not known."""
        rates = sorted(rate for one in self.rounds if (rate := one.get(name)) is not None)
        if len(rates) < LEAST_ROUNDS:
            return None
        return rates[-2], rates[-1] / rates[-3]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def ours(threads: int, other: Independent) -> Ceilings:
    """Return the ceilings of an empty cache; the other one measures a round between any two."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", _OURS, str(threads), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        other.measure()
        while (line := process.stdout.readline()) == "between\n":
            other.measure()
            process.stdin.write("\n")
            process.stdin.flush()
        other.measure()
        process.stdin.close()
        if process.wait():
            raise SystemExit(f"measuring ended with {process.returncode}")
    return msgspec.json.decode(line, type=Ceilings)


def main() -> int:
    """Print the table, and tell whether every roof passes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--busy", default="0,2,6")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=1)
    typed = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, {typed.threads} threads")
    print(
        "| busy | load | took | roof | ours | independent | its spread | ours/independent | waited"
        " | quality |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    counted: Counter[str] = Counter()
    for _ in range(typed.repeats):
        for busy in map(int, typed.busy.split(",")):
            with busy_processes(busy):
                time.sleep(_SETTLE_SECONDS)  # The load that is printed has these processes in it.
                other = Independent(typed.threads)
                found = ours(typed.threads, other)
                load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
                row = f"{busy} | {load} | {found.seconds:.1f} s"
                for roof in roofs_of(found):
                    if roof.name in other.rounds[0]:
                        counted[shown(row, roof, other.roof(roof.name))] += 1
                other.close()
    print(", ".join(f"{count} {what}" for what, count in sorted(counted.items())))
    return 1 if counted["outside"] else 0


def shown(row: str, roof: Roof, other: tuple[float, float] | None) -> str:
    """Print one row, and return what it is: within, outside, marked, or not compared."""
    row, why, figure = f"{row} | {roof.name}", roof.why_not_good, roof.figure
    if isinstance(figure, Unknown) or roof.quality is None:
        print(f"| {row} | – | – | – | – | – | {figure} |", flush=True)
        return "without figure"
    if other is None:
        independent, ratio, verdict = "– | –", "–", "marked" if why else "not compared"
    else:
        independent = f"{other[0] / 1e9:.1f} G/s | {(other[1] - 1) * 100:.0f} %"
        is_within = abs(figure / other[0] - 1) <= WITHIN
        ratio = f"{figure / other[0]:.2f}"
        verdict = "marked" if why else "within" if is_within else "outside"
    said = f"not good enough: {why}" if why else "good"
    if verdict == "outside":
        said += ", **outside 20 %**"
    print(
        f"| {row} | {figure / 1e9:.1f} G/s | {independent} | {ratio}"
        f" | {roof.quality.busy * 100:.0f} % | {said} |",
        flush=True,
    )
    return verdict


if __name__ == "__main__":
    sys.exit(main())
