"""Profiler overhead, compared with hooks and torch.profiler, in interleaved batches.

``python benchmarks/watching/overhead.py [--pairs 40] [--seconds 0.5] [--threads 1] [--alone]
[NAME...]``

Watching is all of it: the clock, adding up, and four ticks per second encoded into a socket whose
other end another process reads and throws away. ``watched`` is as the product does it, recording
a share of the forwards if all of them would cost more than its budget of 2 %; ``every forward`` is
without that, ``operator cycle`` is ``watched`` with operator windows as often as the product opens
them. What the windows themselves take is told apart: they are rare, and no median shows them.
Budget: the upper end of the 95 % interval of the median ratio, of CPU time of the process and of
wall time, at most 2 %, on 200 tiny layers 10 %. The exit code is 1 where ``watched`` exceeds it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import torch
import torchvision
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.watching.overhead_ways import Spent, Watching, Way, bare, hooks, profiler
from demo_models import decoder
from tui_profiler.probe.measure.clock.overhead_budget import interval_of_median
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

CALIBRATION_PAIRS = 10


class Case(NamedTuple):
    build: Callable[[], nn.Module]
    x: Callable[[], torch.Tensor]
    budget: float


class Pair(NamedTuple):
    watched: Spent
    plain: Spent


def image() -> torch.Tensor:
    return torch.rand(1, 3, 224, 224)


CASES = {
    "200 tiny layers": Case(
        lambda: nn.Sequential(*[nn.Linear(8, 8) for _ in range(200)]),
        lambda: torch.rand(1, 8),
        0.10,
    ),
    "mobilenet_v3_small": Case(torchvision.models.mobilenet_v3_small, image, 0.02),
    "resnet50": Case(torchvision.models.resnet50, image, 0.02),
    "vit_b_16": Case(torchvision.models.vit_b_16, image, 0.02),
    # One more token of one sequence, with up to 255 before it.
    "decoder step": Case(
        lambda: decoder.build(width=768, heads=12, layers=6),
        lambda: torch.randint(0, 2000, (1, 1)),
        0.02,
    ),
}


def batch(model: nn.Module, x: torch.Tensor, forwards: int, way: Way) -> Spent:
    with torch.no_grad(), way() as between:
        # Putting it on clears what the interpreter has learnt; it takes some forwards to learn it
        # again, which is not what a forward costs. What is done between forwards is done here too:
        # else all of these would be recorded, and the next tick would add up them as well.
        for _ in range(max(3, forwards // 3)):
            model(x)
            between()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(forwards):
            model(x)
            between()
        return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def calibrate(model: nn.Module, x: torch.Tensor, forwards: int, watching: Watching) -> None:
    """Let the governor decide as the product's loop does, from pairs of its own."""
    for _ in range(CALIBRATION_PAIRS):
        plain = batch(model, x, forwards, watching.off(bare))
        recorded = batch(model, x, forwards, watching.recording_only)
        watching.cost.add(recorded.wall, plain.wall)
        watching.clock.take()
        governed = batch(model, x, forwards, watching.governed_only)
        watching.cost.add_between(watching.send(), governed.wall)
        watching.times.govern()


def run(
    model: nn.Module, x: torch.Tensor, pairs: int, seconds: float, is_alone: bool
) -> dict[str, list[Pair]]:
    """Return the seconds of a batch of each way, each paired with an adjacent plain one."""
    watching = Watching(model, Inputs((x,)))
    plain = watching.off(bare)
    forwards = max(1, round(seconds / (batch(model, x, 5, plain).wall / 5)))
    calibrate(model, x, forwards, watching)
    ways: dict[str, Way] = {
        "watched": watching.within_budget,
        "every forward": watching.every_forward,
        "operator cycle": watching.operator_cycle,
        "hooks": watching.off(hooks),
        "torch.profiler": watching.off(profiler),
    }
    if is_alone:
        ways = {"watched": watching.within_budget}
    found: dict[str, list[Pair]] = {way: [] for way in ways}
    for turn in range(pairs):
        for name, way in ways.items():
            # Who goes first changes, so that a drift falls on both alike.
            order = (plain, way) if turn % 2 else (way, plain)
            watching.in_windows = Spent(0.0, 0.0)
            spent = {one: batch(model, x, forwards, one) for one in order}
            # What windows cost is told by itself: it is rare, and no median shows it.
            inside, whole = watching.in_windows, spent[way]
            spent[way] = Spent(whole.wall - inside.wall, whole.cpu - inside.cpu)
            found[name].append(Pair(spent[way], spent[plain]))
    watching.close()
    each = median(pair.plain.wall for pair in found["watched"]) / forwards
    costs, pauses = zip(*watching.window_costs, strict=True) if watching.window_costs else ((), ())
    windows = ""
    if costs:
        windows = f", {median(costs) * 1e3:.0f} ms each, one in {median(pauses):.0f} s"
        windows += f": {median(costs) / median(pauses):.2%} more"
    print(
        f"{each * 1e3:.2f} ms a forward, {pairs} pairs of {forwards}; "
        f"share of forwards recorded {watching.times.governor.share:.1%}; "
        f"{watching.opened} operator windows{windows}"
    )
    return found


def judge(found: dict[str, list[Pair]], budget: float) -> bool:
    """Print every way's ratio to bare, and say whether ours is within the budget."""
    highest = 0.0
    for way, pairs in found.items():
        for kind in Spent._fields:
            ratios = [getattr(one, kind) / getattr(plain, kind) for one, plain in pairs]
            low, high = interval_of_median(ratios) or (float("nan"), float("nan"))
            if way == "watched":
                highest = max(highest, high - 1)
            print(
                f"  {way:15}{kind:5}{median(ratios) - 1:+8.2%}  [{low - 1:+.2%}, {high - 1:+.2%}]"
            )
    print(f"  budget {budget:.0%}, upper bound {highest:.2%}")
    return highest <= budget


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one batch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="only what the product does")
    parser.add_argument("names", nargs="*", default=list(CASES))
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    is_within = True
    for name in chosen.names:
        case = CASES[name]
        print(f"{name}: ", end="", flush=True)
        found = run(case.build().eval(), case.x(), chosen.pairs, chosen.seconds, chosen.alone)
        is_within = judge(found, case.budget) and is_within
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
