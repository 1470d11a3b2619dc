"""Accuracy of the backward of modules, against waits of known length in it.

``python benchmarks/training/backward_truth.py [--steps 9] [CASE...]``

Each case is a model whose backward busy-waits at places that are known (``backward_cases.py``):
leaves, blocks, branches, operators between modules, shared and repeated modules, checkpointing. A
place's figure is the own time of its node less what that is in steps that do not wait, over what
was waited by its own clock; the median of the steps. Beside it, in the same run, what full backward
hooks give and what torch.profiler has of the one operator that waits: it knows no module.

The exit code is 1 where one of our figures is not within 5 %, a root that is the whole backward not
within 2 % of the engine's time, a child above its parent or an own time below zero.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from math import nan
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.training.backward_cases import CASES, WAITS, Case, inputs, operator_of
from benchmarks.training.recorded_steps import RecordedSteps, seconds
from tui_profiler.messages import Node
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

TOLERANCE, ROOT_TOLERANCE = 0.05, 0.02
WARM_UP = 2


class Truth(NamedTuple):
    """What was found of one case."""

    places: dict[str, float]
    """Found over waited, by place, median of the steps; what is outside of the model is not in
    it."""
    nearest: dict[str, float]
    """Likewise, of the step that is nearest: on a busy machine most steps are interrupted."""
    root: float
    """Of the engine's time in steps that wait."""
    outside: float
    """Of the engine's time that was waited outside of the model."""
    recomputed: float
    """Likewise, in which modules were run again."""
    least_own: float
    """Seconds: the least own time of any node."""
    beyond: float
    """Seconds that the children of a node had more than it, at most."""
    trouble: str

    @property
    def root_error(self) -> float:
        """How far the root and what is not its backward are from the engine's time."""
        return self.root + self.outside + self.recomputed - 1.0


def truth(case: Case, steps: int) -> Truth:
    """Run a case for so many steps that wait, and as many that do not."""
    torch.manual_seed(0)
    model = case.build()
    nodes = trace(model, (Inputs(args=(inputs(),)),)).nodes
    places = {node.path: index for index, node in reversed([*enumerate(nodes)])}
    ratios: dict[str, list[float]] = {}
    idle: dict[str, list[float]] = {}
    shares: list[tuple[float, float, float]] = []
    least_own, beyond = float("inf"), 0.0
    with RecordedSteps(model, nodes) as recorded:
        for step in range(WARM_UP + 2 * steps):
            WAITS.factor = float(step >= WARM_UP + steps)
            WAITS.clear()
            case.run(model, inputs())
            times = recorded.take()
            recorded.clock.record_step(is_recorded=True)
            for place in WAITS.seconds.keys() & places.keys():
                found = seconds(times, "backward", places[place])[1]
                if WAITS.factor:
                    usual = median(idle[place])
                    ratios.setdefault(place, []).append((found - usual) / WAITS.seconds[place])
                elif step >= WARM_UP:
                    idle.setdefault(place, []).append(found)
            if WAITS.factor:
                outside = sum(WAITS.seconds[place] for place in WAITS.seconds.keys() - places)
                whole = seconds(times, "backward", 0)[0]
                engine = recorded.pass_seconds
                shares.append((whole / engine, outside / engine, times.recompute / engine))
            for column in ("backward", "recomputed"):
                least_own = min(least_own, *(own for _, own in _each(times.columns[column])), 0.0)
            beyond = max(
                beyond, _beyond(nodes, lambda node, of=times: seconds(of, "backward", node))
            )
        trouble = recorded.trouble
    WAITS.factor = 1.0
    root, outside, recomputed = min(shares, key=lambda one: abs(sum(one) - 1.0))
    places_found = {place: median(each) for place, each in ratios.items()}
    nearest = {place: min(each, key=lambda one: abs(one - 1.0)) for place, each in ratios.items()}
    return Truth(places_found, nearest, root, outside, recomputed, least_own, beyond, trouble)


def _each(columns: list[dict[int, tuple[float, float]]]) -> Iterator[tuple[float, float]]:
    for column in columns:
        yield from column.values()


def _beyond(nodes: tuple[Node, ...], found: Callable[[int], tuple[float, float]]) -> float:
    """Return how much more than their parent children have, at most."""
    inside: Counter[int] = Counter()
    for index, node in enumerate(nodes):
        parent = node.parent
        while parent > 0 and not nodes[parent].calls:  # A list of modules is never called.
            parent = nodes[parent].parent
        if node.kind == "module" and parent >= 0:
            inside[parent] += found(index)[0]
    return max((total - found(parent)[0] for parent, total in inside.items()), default=0.0)


class _Hooks:
    """Full backward hooks on every module: when each began and ended."""

    def __init__(self, model: nn.Module) -> None:
        self._began: dict[str, float] = {}
        self.seconds: Counter[str] = Counter()
        self._handles = []
        for path, module in model.named_modules():
            self._handles += [
                module.register_full_backward_pre_hook(partial(self._before, path)),
                module.register_full_backward_hook(partial(self._after, path)),
            ]

    def _before(self, path: str, *_: object) -> None:
        self._began[path] = perf_counter()

    def _after(self, path: str, *_: object) -> None:
        if path in self._began:
            self.seconds[path] += perf_counter() - self._began.pop(path)

    def own(self, path: str, model: nn.Module) -> float:
        """Return the seconds of a module without those of modules inside."""
        inside = dict(model.named_modules()).get(path, nn.Module()).named_children()
        below = (f"{path}.{name}" if path else name for name, _ in inside)
        return self.seconds[path] - sum(self.seconds[one] for one in below)


def with_hooks(case: Case, steps: int) -> dict[str, float] | str:
    """Return found over waited by full backward hooks, or what they raised."""
    torch.manual_seed(0)
    model = case.build()
    hooks = _Hooks(model)
    idle: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    try:
        for step in range(WARM_UP + 2 * steps):
            WAITS.factor = float(step >= WARM_UP + steps)
            WAITS.clear()
            hooks.seconds.clear()
            case.run(model, inputs())
            for place, waited in WAITS.seconds.items():
                found = hooks.own(place, model)
                if WAITS.factor:
                    ratios.setdefault(place, []).append((found - median(idle[place])) / waited)
                elif step >= WARM_UP:
                    idle.setdefault(place, []).append(found)
    except RuntimeError as error:
        return str(error).partition(".")[0]
    finally:
        WAITS.factor = 1.0
    return {place: median(each) for place, each in ratios.items()}


def with_profiler(case: Case, steps: int) -> dict[str, float]:
    """Return what torch.profiler has of the operator that waits, over waited."""
    torch.manual_seed(0)
    model = case.build()
    WAITS.clear()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(steps):
            case.run(model, inputs())
    found = {one.key: one.cpu_time_total / 1e6 for one in profiler.key_averages()}
    return {
        place: found.get(f"{operator_of(place).__name__}Backward", 0.0) / waited
        for place, waited in WAITS.seconds.items()
    }


def main() -> int:
    """Run the cases and print what was found; returns the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("cases", nargs="*", metavar="CASE", help="part of a case's name")
    arguments.add_argument("--steps", type=int, default=9)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    worst = worst_root = 0.0
    is_nested = True
    print(f"{'case':32}{'waits in':18}{'ours':>8}{'hooks':>8}{'profiler':>10}")
    for name, case in CASES.items():
        if asked.cases and not any(one in name for one in asked.cases):
            continue
        ours = truth(case, asked.steps)
        hooks, operator = with_hooks(case, asked.steps), with_profiler(case, asked.steps)
        for row, (place, ratio) in enumerate(sorted(ours.places.items())):
            by_hooks = "raises" if isinstance(hooks, str) else f"{hooks.get(place, nan):.3f}"
            print(
                f"{'' if row else name:32}{place or 'the model':18}{ratio:8.3f}{by_hooks:>8}"
                f"{operator[place]:10.3f}"
            )
            worst = max(worst, abs(ratio - 1.0))
        if isinstance(hooks, str):
            print(f"{'':32}hooks: {hooks}")
        if ours.trouble:
            print(f"{'':32}{ours.trouble}")
        worst_root = max(worst_root, abs(ours.root_error))
        is_nested = is_nested and ours.least_own >= 0.0 and ours.beyond <= 1e-9
    print(f"largest error of a place {worst:.1%}, of a root {worst_root:.2%}")
    print("children are never above their parent" if is_nested else "a child is above its parent")
    print(
        "torch.profiler knows the operator that waits and no module: its column is no attribution"
    )
    return int(worst > TOLERANCE or worst_root > ROOT_TOLERANCE or not is_nested)


if __name__ == "__main__":
    sys.exit(main())
