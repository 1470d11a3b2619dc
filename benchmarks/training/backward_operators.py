"""Operators of the backward in one window: how much of it falls into modules.

``python benchmarks/training/backward_operators.py [--windows 5]``

Models with a loss of one operator: resnet18, a small GPT, ViT-tiny, 200 linear layers. Of the time
of autograd's nodes that have a number, the share that belongs to a call of a module; what the rows
of a message add up to against the time of the engine, which calls the profiler in between; rows;
milliseconds to open and close, and to read a window. Medians of the windows.

The exit code is 1 where less than 99 % falls into modules.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.training.models import MODELS
from benchmarks.training.recorded_steps import RecordedSteps
from tui_profiler.messages import BackwardOperators
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace
from tui_profiler.session.columns import called_operators

LEAST_SHARE = 0.99


def window_of(
    steps: RecordedSteps, step: Callable[[], None]
) -> tuple[BackwardOperators, int, float, float]:
    """Run a step in a window.

    Returns:
        Its operators, how many rows, seconds to open and close it, and to read it.
    """
    window = steps.open_window()
    step()
    window.after_step()
    began = perf_counter()
    found = steps.backward_operators(window)
    ended = perf_counter()
    return found, len(called_operators(found.operators)), window.window.seconds, ended - began


def main() -> int:
    """Print a row for each model; returns the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--windows", type=int, default=5)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    least = 1.0
    print(
        f"{'model':16}{'in modules':>11}{'rows/engine':>12}{'rows':>7}{'open ms':>9}{'read ms':>9}"
    )
    for name, build in MODELS.items():
        trained = build()
        model, step = trained.model, trained.step
        nodes = trace(model, (Inputs(args=(trained.x,)),)).nodes
        with RecordedSteps(model, nodes) as steps:
            for _ in range(2):
                step()
                steps.take()
            seen = [window_of(steps, step) for _ in range(asked.windows)]
        inside = median(1.0 - found.outside / found.numbered for found, *_ in seen)
        whole = median(
            sum(row.own for row in called_operators(found.operators)) / found.pass_seconds
            for found, *_ in seen
        )
        rows, opened, read = (median(each) for each in list(zip(*seen, strict=True))[1:])
        least = min(least, inside)
        print(
            f"{name:16}{inside:>11.2%}{whole:>12.3f}{rows:>7.0f}{opened * 1e3:>9.1f}"
            f"{read * 1e3:>9.1f}",
            flush=True,
        )
    return int(least < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
