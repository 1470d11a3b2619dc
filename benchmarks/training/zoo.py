"""Programs that train, alone and watched, from the same seed: what they leave behind, bit by bit.

``python benchmarks/training/zoo.py [--steps 200] [NAME...]``

The programs are those of ``tests/probe/measure/step/programs``: in-place operators, checkpointing,
double backward, hooks, custom functions, views, DDP, FSDP, ``torch.compile``, autocast, GAN, LBFGS
and others. While watched, every step is recorded, and one after the other runs in an operator
window. A digest is of losses, gradients, weights, buffers, states of optimizers and what the
program noted itself, with dtypes and strides.

The exit code is 1 where one is not the same, or no backward was found where one is to be.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import time
import warnings
from contextlib import redirect_stdout
from pathlib import Path

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.probe.measure.step.programs import graph, left_behind, libraries, loops, processes
from tests.probe.measure.step.programs.watched import Watched

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {**graph.PROGRAMS, **loops.PROGRAMS, **libraries.PROGRAMS}
NOT_MARKED = {"compiled autograd"}


def in_process(name: str, steps: int) -> bool:
    """Run a program of one process; print its row, and return whether it is as it has to be."""
    began = time.perf_counter()
    with redirect_stdout(io.StringIO()):  # Libraries print their losses.
        alone = left_behind(PROGRAMS[name], steps, lambda model: None)
        middle = time.perf_counter()
        with Watched() as watched:
            looked_at = left_behind(PROGRAMS[name], steps, watched)
    ended = time.perf_counter()
    backward = watched.seconds["backward"]
    spent = middle - began, ended - middle
    return _row(name, alone == looked_at, backward, watched.windows, watched.trouble, spent)


def in_ranks(name: str, steps: int) -> bool:
    """Do the same for a program of several processes."""
    told = subprocess.run(
        [sys.executable, "-m", processes.__name__, str(steps), name],
        env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    alone, looked_at = json.loads(told.stdout)[name]
    same = all(one and two and one[0] == two[0] for one, two in zip(alone, looked_at, strict=True))
    trouble = "; ".join(one[2] for one in looked_at if one and one[2])
    backward, windows = (min(one[place] for one in looked_at) for place in (1, 3))
    return _row(name, same, backward, windows, trouble)


def _row(
    name: str,
    same: bool,
    backward: float,
    windows: int,
    trouble: str,
    spent: tuple[float, float] | None = None,
) -> bool:
    told = "same" if same else "NOT THE SAME"
    took = f"{'–':>7} {'–':>8}" if spent is None else f"{spent[0]:7.2f} {spent[1]:8.2f}"
    print(f"{name:36}{told:14}{backward:10.4f}{windows:9d} {took}  {trouble}", flush=True)
    return same and (backward > 0) == (name not in NOT_MARKED) and not trouble


def main() -> int:
    """Run the programs asked for; returns the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME")
    arguments.add_argument("--steps", type=int, default=200)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    columns = f"{'backward s':>10}{'windows':>9} {'alone s':>7} {'watched':>8}"
    print(f"{'program':36}{'left behind':14}{columns}")
    names = asked.names or [*PROGRAMS, *processes.PROGRAMS]
    good = [(in_process if name in PROGRAMS else in_ranks)(name, asked.steps) for name in names]
    print(f"{sum(good)} of {len(good)} as they have to be, {asked.steps} steps each")
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
