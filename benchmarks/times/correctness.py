"""Accuracy of live times: against modules' own timers, a user's loop, and torch.profiler.

``python benchmarks/times/correctness.py [--forwards 40] [--threads 1] [--seeds 5] [PART...]``

The parts: ``own`` - modules that time themselves, from 20 us to 5 ms, nested, shared, repeated,
recursive, in one thread and in eight; every time lies between the module's own timer and its
caller's, and is within 3 % or 5 us of its own, but for what a call of torch takes without a
clock. ``root`` - the forward's time inside of that of an independent timer in the loop around it
and within 2 % of it (median), their sum, and no negative own time. ``profiler`` - module times
within 5 % of torch.profiler's; operators, what no node stands for, and the host time between them
within 5 % of their module's. ``hottest`` - the five hottest modules by self time against those of
torch.profiler, of the same forwards: on this machine as it is, and beside four busy processes; at
least four are the same, and Spearman's rank correlation of all modules of half a hundredth of the
forward is at least 0.9.
The exit code is 1 where one of these does not hold.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import numpy as np
import torch
import torchvision
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.times.against_profiler import HOTTEST, TOLERANCE, Row, hottest, rows
from benchmarks.times.cpu_contention import busy
from benchmarks.times.self_timing import Compared, build, compared, watched
from demo_models import cnn, decoder, lstm, moe, shared, vit
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

ROOT_TOLERANCE = 0.02
MOST_ROWS = 12
BUSY = 4
LEAST_COMMON, LEAST_CORRELATION = 4, 0.9


class InLoop(NamedTuple):
    """One model in a loop that times itself."""

    ours: list[float]
    """Seconds of each forward in the steady state."""
    theirs: list[float]
    """The same forwards, by a timer around each."""
    total: float
    """The root's time, of which there is one."""
    least_own: float
    """The least of all nodes' own times, summed and per forward."""
    own_error: float
    """Of the root's time, that all own times together differ from it."""

    @property
    def difference(self) -> float:
        """Of half of the forwards it is less: where another program has the core between the two
        timers, that is in one of them."""
        return median(one / other - 1 for one, other in zip(self.ours, self.theirs, strict=True))

    @property
    def is_good(self) -> bool:
        is_sum = abs(self.total / sum(self.ours) - 1) < 1e-9
        is_inside = all(one < other for one, other in zip(self.ours, self.theirs, strict=True))
        is_near = abs(self.difference) <= ROOT_TOLERANCE
        return is_sum and is_inside and is_near and self.least_own >= 0 and self.own_error < 1e-9


def in_loop(model: nn.Module, inputs: Inputs, forwards: int) -> InLoop:
    """Run a loop as a user would write it, and compare the root's time with its own timer."""
    aggregator = Aggregator(trace(model, (inputs,)).nodes, model)
    spent: list[float] = []
    with watched(model) as clock, torch.no_grad():
        for _ in range(forwards):
            began = perf_counter()
            model(*inputs.args, **inputs.keywords())
            spent.append(perf_counter() - began)
        recorded = clock.take()
    aggregator.add(recorded)
    tick = aggregator.tick(0.0)
    own = np.frombuffer(tick.own, np.float64)
    total = np.frombuffer(tick.total, np.float64)
    root = float(total[np.frombuffer(tick.nodes, np.uint32) == 0][0])
    least = min(own.min(), np.frombuffer(tick.own_per_forward, np.float32).min())
    steady = slice(tick.warmup_forwards, None)
    ours = [one.seconds for one in recorded]
    assert len(ours) == forwards
    own_error = abs(float(own.sum()) / root - 1)
    return InLoop(ours[steady], spent[steady], root, float(least), own_error)


def image(model: Callable[[], nn.Module], size: int = 224) -> tuple[nn.Module, Inputs]:
    return model().eval(), Inputs((torch.rand(1, 3, size, size),))


def demo(module: object, **settings: int) -> tuple[nn.Module, Inputs]:
    example = module.example_inputs()  # type: ignore[attr-defined]
    given = example if isinstance(example, tuple) else (example,)
    return module.build(**settings).eval(), Inputs(given)  # type: ignore[attr-defined]


def language_model() -> tuple[nn.Module, Inputs]:
    """Return a decoder whose forward takes tens of milliseconds."""
    return demo(decoder, width=1024, heads=16, layers=6)


PROFILED: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "resnet50": lambda: image(torchvision.models.resnet50),
    "vit_b_16": lambda: image(torchvision.models.vit_b_16),
    "decoder 1024x6": language_model,
}
LOOPED: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "resnet18": lambda: image(torchvision.models.resnet18, 64),
    "demo:cnn": lambda: demo(cnn),
    "demo:decoder": lambda: demo(decoder),
    "demo:lstm": lambda: demo(lstm),
    "demo:moe": lambda: demo(moe),
    "demo:shared": lambda: demo(shared),
    "demo:vit": lambda: demo(vit),
}


def own_timers(forwards: int, seeds: int) -> bool:
    found: list[Compared] = []
    for seed in range(seeds):
        for threads in (1, 8):
            nodes, _ = compared(build(seed), forwards if threads == 1 else forwards // 2, threads)
            found += nodes
            within = sum(row.is_within for row in nodes)
            between = sum(row.is_between for row in nodes)
            gap = sorted(row.ours - row.inside for row in nodes)
            torchs = sorted(row.torchs for row in nodes)
            print(
                f"  tree {seed}, {threads} threads: {len(nodes)} nodes, {between} between, "
                f"{within} within max(3 %, 5 us); ours less inside: median "
                f"{gap[len(gap) // 2] * 1e6:.1f} us, most {gap[-1] * 1e6:.1f}; "
                f"torch's own: {torchs[len(torchs) // 2] * 1e6:.1f}, {torchs[-1] * 1e6:.1f}"
            )
    for row in found:
        if not (row.is_between and row.is_within):
            print(
                f"    {row.path or 'root'}: inside {row.inside * 1e6:.1f}, ours "
                f"{row.ours * 1e6:.1f}, outside {row.outside * 1e6:.1f} us; "
                f"a bare call of torch takes {row.torchs * 1e6:.1f}"
            )
    return all(
        row.is_between and row.is_within_but_for_torch and row.calls == row.their_calls
        for row in found
    )


def roots(forwards: int) -> bool:
    is_good = True
    for name, make in LOOPED.items():
        found = in_loop(*make(), forwards * 5)
        is_good = is_good and found.is_good
        print(
            f"  {name:14} {len(found.theirs)} forwards of {median(found.theirs) * 1e3:8.3f} ms, "
            f"ours {found.difference:+.2%}, least own time {found.least_own:.2g} s, "
            f"own times add up to {found.own_error:.0e} of the root's"
        )
    return is_good


def profiled(name: str, forwards: int) -> bool:
    found = rows(*PROFILED[name](), forwards)
    print(
        f"  {name}: {len(found)} modules above 1 %; ms of a forward, median of {forwards}\n"
        f"  {'module':38}{'ours':>9}{'theirs':>9}{'':>8}{'window':>9}"
        f"{'operators':>11}{'other':>8}{'host':>8}{'':>8}{'without':>9}{'':>8}"
    )
    for row in found[:MOST_ROWS]:
        print(_line(row))
    worst = {
        "ours to torch.profiler": max(abs(row.from_profiler) for row in found),
        "operators, others and host to module": max(abs(row.from_window) for row in found),
        "host to raw events": max(abs(row.host_error) for row in found),
    }
    for what, error in worst.items():
        print(f"    largest difference of {what}: {error:.2%}, at most {TOLERANCE:.0%}")
    slower = sorted(row.slower_in_window for row in found)
    print(f"    a module in a window takes {slower[len(slower) // 2]:+.1%} (median of modules)")
    return max(worst.values()) <= TOLERANCE


def ranked(name: str, forwards: int) -> bool:
    is_good = True
    for count in (0, BUSY):
        with busy(count):
            found = hottest(*PROFILED[name](), forwards)
        print(
            f"  {name}, {count} busy processes: {found.common} of the {HOTTEST} hottest are the "
            f"same; Spearman's of these {found.correlation:.2f}, of all {found.all_modules} "
            f"modules above half a hundredth {found.all_correlation:.3f}"
        )
        for path, ours, theirs in zip(found.paths, found.ours, found.theirs, strict=True):
            print(f"    {path or 'root':38}{ours * 1e3:9.3f}{theirs * 1e3:9.3f} ms")
        is_good &= found.common >= LEAST_COMMON and found.all_correlation >= LEAST_CORRELATION
    return is_good


def _line(row: Row) -> str:
    path = row.path or "root"
    return (
        f"  {path:38}{row.ours * 1e3:9.3f}{row.theirs * 1e3:9.3f}{row.from_profiler:+8.2%}"
        f"{row.in_window * 1e3:9.3f}{row.operators * 1e3:11.3f}{row.other * 1e3:8.3f}"
        f"{row.host * 1e3:8.3f}"
        f"{row.from_window:+8.2%}{row.alone * 1e3:9.3f}{row.slower_in_window:+8.2%}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forwards", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parts = ("own", "root", *PROFILED)
    parser.add_argument("parts", nargs="*", help=", ".join((*parts, "profiler", "hottest")))
    chosen = parser.parse_args()
    asked = chosen.parts or ["own", "root", "profiler", "hottest"]
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    is_good = True
    if "own" in asked:
        print("modules that time themselves")
        is_good = own_timers(chosen.forwards, chosen.seeds) and is_good
    if "root" in asked:
        print("the root in a user's loop")
        is_good = roots(chosen.forwards) and is_good
    for name in PROFILED:
        if name in asked or "profiler" in asked:
            is_good = profiled(name, chosen.forwards) and is_good
    for name in PROFILED if "hottest" in asked else ():
        is_good = ranked(name, chosen.forwards) and is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
