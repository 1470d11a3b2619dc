"""How long reading the stack or the machine's counters delays a training.

``python -m benchmarks.training.line_samples [--seconds 30] [--threads 1] [MODEL...]``

Steps during which a thread of the profiler reads are compared with the steps near them. The CPU
time of the reading thread is printed beside the delay of the training thread. The mean is trimmed
by 5 % at each end.
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from time import perf_counter, thread_time

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.training.models import MODELS, Trained
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.measure.step.source_lines import WAIT_SECONDS, LineSampler
from tui_profiler.probe.process.yielding import pause

WARM_UP = 50
NEAR = 3
"""Steps before and after one that it is compared with."""
COUNTERS_EVERY_SECONDS = 0.3

Reading = tuple[float, float]
"""From when to when something was read; seconds of ``time.perf_counter``."""


def steps(trained: Trained, seconds: float) -> list[Reading]:
    """Train for so many seconds; return the begin and end of each step."""
    found: list[Reading] = []
    began = perf_counter()
    end = began + seconds
    while began < end:
        trained.step()
        ended = perf_counter()
        found.append((began, ended))
        began = ended
    return found


def delays(taken: Sequence[Reading], readings: Sequence[Reading]) -> list[float]:
    """Return how much longer steps with a reading took than the steps near them."""
    begins = [began for began, _ in taken]
    places = [tuple(max(bisect_right(begins, at) - 1, 0) for at in reading) for reading in readings]
    read_in = {place for first, last in places for place in range(first, last + 1)}
    found = []
    for first, last in dict.fromkeys(places):
        near = (*range(max(first - NEAR, 0), first), *range(last + 1, last + 1 + NEAR))
        alike = [
            taken[one][1] - taken[one][0] for one in near if one < len(taken) and one not in read_in
        ]
        if len(alike) > 1:
            whole = taken[last][1] - taken[first][0]
            found.append(whole - (last - first + 1) * mean(alike))
    return found


def told(name: str, added: list[float], used: float) -> None:
    """Print what one reading takes, and what it adds to the step."""
    added = sorted(added)[len(added) // 20 : len(added) - len(added) // 20]
    if len(added) < 2:
        print(f"  {name:9}no step without a reading beside one with it")
        return
    error = 1.96 * stdev(added) / math.sqrt(len(added))
    print(
        f"  {name:9}{len(added):5} readings   {used * 1e6:6.0f} us of a core each   the step takes "
        f"{mean(added) * 1e6:6.0f} us longer (+-{error * 1e6:.0f})",
        flush=True,
    )


def lines(trained: Trained, seconds: float) -> None:
    """Read the stack as the product does."""
    sampler = LineSampler(budget=0.02)
    sampler.start(threading.get_ident(), type(trained.model).forward.__code__)
    taken = steps(trained, seconds)
    at = [sample.at for sample in sampler.take()]
    cost = sampler.cost_seconds / max(len(at), 1) - WAIT_SECONDS
    sampler.stop()
    told("stack", delays(taken, [(one, one) for one in at]), cost)


def counters(trained: Trained, seconds: float) -> None:
    """Read the machine's counters, more often than the product does."""
    readings: list[Reading] = []
    used: list[float] = []
    is_over = threading.Event()

    def read() -> None:
        sampler = Sampler(time.time())
        while not is_over.is_set():
            pause(COUNTERS_EVERY_SECONDS)
            began, cpu = perf_counter(), thread_time()
            sampler.sample()
            readings.append((began, perf_counter()))
            used.append(thread_time() - cpu)
        sampler.close()

    thread = threading.Thread(target=read)
    thread.start()
    taken = steps(trained, seconds)
    is_over.set()
    thread.join()
    whole = [one for one in readings if one[1] < taken[-1][1]]
    told("counters", delays(taken, whole), median(used))


def main() -> int:
    """Print both, of each model asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["small GPT", "ViT-tiny"])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each row")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    read: tuple[Callable[[Trained, float], None], ...] = (lines, counters)
    for name in asked.models:
        trained = MODELS[name]()
        for _ in range(WARM_UP):
            trained.step()
        each = median(ended - began for began, ended in steps(trained, 1.0))
        print(f"{name}: {each * 1e3:.2f} ms a step")
        for row in read:
            row(trained, asked.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
