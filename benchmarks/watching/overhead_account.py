"""Where the profiler's overhead goes: CPU time of forwards by what came before them.

    python -m benchmarks.watching.overhead_account [--blocks 60] [--threads 1] [--share S] [NAME...]

Blocks of plain forwards (the clock taken off) and of watched ones (the governor's share recorded,
ticks as the product sends them) run in turn. CPU times of the thread are compared: that other
programs take the core away is in none of them, and what they leave in the caches falls on
neighbouring blocks alike, so a watched forward is divided by the trimmed mean of the plain blocks
before and after its own. Printed as a share of a plain forward, with the 95 % interval over blocks:
what a recorded forward takes more, the one after it, the one after a tick, all others; and what is
done between forwards. Their sum by how often they occur is what watching costs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import thread_time
from typing import NamedTuple

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import numpy as np
import torch
from torch import nn

from benchmarks.watching.overhead import CASES, calibrate
from benchmarks.watching.overhead_ways import Watching
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

BLOCK_SECONDS = 0.4
LEARNING = 8
"""Forwards of a block that come first: the interpreter learns its short cuts again."""
TRIMMED = 0.05
"""Of either end."""


class Mean(NamedTuple):
    """A mean, and half of its 95 % interval."""

    value: float
    half: float


def trimmed(values: Sequence[float]) -> float:
    """Return the mean without the least and the most."""
    ordered = np.sort(np.array(values))
    cut = int(len(ordered) * TRIMMED)
    return float(ordered[cut : len(ordered) - cut].mean())


def over_blocks(blocks: Sequence[Sequence[float]]) -> Mean:
    """Return the mean of all values; forwards of one block are not independent, blocks are."""
    values = np.array([trimmed(block) for block in blocks if block])
    weights = np.array([len(block) for block in blocks if block])
    mean = float(np.average(values, weights=weights))
    spread = np.average((values - mean) ** 2, weights=weights)
    return Mean(mean, 1.96 * float(np.sqrt(spread / max(len(values) - 1, 1))))


class Account:
    """CPU seconds of forwards by block, and of what is done between them."""

    def __init__(self) -> None:
        self.plain: list[list[float]] = []
        self.watched: list[dict[str, list[float]]] = []
        """Each between the plain blocks of its own place and of the next one."""
        self.between: list[float] = []
        """Without ticks; of two readings of the CPU clock with nothing between them as well."""
        self.nothing: list[float] = []
        self.ticks: list[float] = []

    def print(self, name: str) -> None:
        """Print every part as a share of a plain forward."""
        means = [trimmed(block) for block in self.plain]
        plain = trimmed([seconds for block in self.plain for seconds in block])
        print(f"{name}: a plain forward is {plain * 1e3:.3f} ms of CPU time")
        more: dict[str, list[list[float]]] = defaultdict(list)
        for block, before, after in zip(self.watched, means, means[1:], strict=False):
            usual = (before + after) / 2
            for what, spent in block.items():
                more[what].append([seconds / usual - 1 for seconds in spent])
        forwards = sum(len(block) for blocks in more.values() for block in blocks)
        total = variance = 0.0
        for what, blocks in more.items():
            often, mean = sum(map(len, blocks)) / forwards, over_blocks(blocks)
            total += often * mean.value
            variance += (often * mean.half) ** 2
            shown = f"{mean.value:+7.2%} ± {mean.half:.2%}, {often * mean.value:+.2%}"
            print(f"  {what:22} {often:6.1%} of forwards {shown}")
        checks = max(trimmed(self.between) - trimmed(self.nothing), 0.0) / plain
        each, ticks = np.median(self.ticks or [0.0]), sum(self.ticks) / forwards / plain
        print(f"  checks between forwards {checks:+.2%}")
        print(f"  {len(self.ticks)} ticks of {each * 1e3:.2f} ms {ticks:+.2%}")
        print(f"  all of it {total + checks + ticks:+.2%} ± {np.sqrt(variance):.2%}")


def account(watching: Watching, forward: Callable[[], object], blocks: int, each: int) -> Account:
    """Run so many watched blocks, and a plain one before and after each."""
    found = Account()
    for block in range(2 * blocks + 1):
        if block % 2 == 0:
            found.plain.append([])
            with watching.clock.removed():
                for number in range(each):
                    began = thread_time()
                    forward()
                    ended = thread_time()
                    if number >= LEARNING:
                        found.plain[-1].append(ended - began)
                        found.nothing.append(thread_time() - ended)
            continue
        before = "other"
        found.watched.append(defaultdict(list))
        with watching.within_budget() as between:
            for number in range(each):
                is_recorded = watching.clock.waits
                began = thread_time()
                forward()
                ended = thread_time()
                due = watching.next_tick
                between()
                spent = thread_time() - ended
                is_tick = watching.next_tick != due
                if number >= LEARNING:
                    kind = "recorded" if is_recorded else before
                    found.watched[-1][kind].append(ended - began)
                    (found.ticks if is_tick else found.between).append(spent)
                before = "after a recorded one" if is_recorded else "other"
                before = "after a tick" if is_tick else before
    return found


def print_account(
    name: str, model: nn.Module, x: torch.Tensor, *, blocks: int, share: float | None
) -> None:
    """Run one model and print its account."""
    watching = Watching(model, Inputs((x,)))
    with torch.no_grad():
        began = thread_time()
        for _ in range(10):
            model(x)
        each = LEARNING + max(round(BLOCK_SECONDS * 10 / (thread_time() - began)), 4)
        calibrate(model, x, max(each // 4, 1), watching)
        if share is not None:
            watching.times.governor.share = share
        found = account(watching, lambda: model(x), blocks, each)
    print(f"share recorded {watching.times.governor.share:.1%}; ", end="")
    found.print(name)
    watching.close()


def main() -> int:
    """Print the account of every model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--share", type=float, help="of forwards recorded; else the governor's")
    parser.add_argument("names", nargs="*", default=["mobilenet_v3_small"])
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    for name in chosen.names:
        model, x = CASES[name].build().eval(), CASES[name].x()
        print_account(name, model, x, blocks=chosen.blocks, share=chosen.share)
    return 0


if __name__ == "__main__":
    sys.exit(main())
