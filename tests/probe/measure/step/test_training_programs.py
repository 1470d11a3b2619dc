"""Programs that train end the same, bit by bit, whether every step of them is recorded or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.probe.measure.step.programs import graph, left_behind, libraries, loops, processes
from tests.probe.measure.step.programs.watched import Watched

STEPS = 6
PROGRAMS = {**graph.PROGRAMS, **loops.PROGRAMS, **libraries.PROGRAMS}
del PROGRAMS["torch.compile"]  # Inductor takes long: it is in ``benchmarks/training/zoo.py``.
NOT_MARKED = {"compiled autograd"}
"""Their backward is not looked into."""
NOT_READ = {"create_graph", "torch.func, vmap"}
"""No value of theirs is read: what runs is torch.func's, or no optimizer steps."""
MAY_BE_READ = {"two threads"}
"""Two threads train in turn: values are read in most runs, beside other programs not in all."""
WHY_NOT_READ = {
    "",
    "it runs under another dispatch mode",
    "it runs under a transform of torch.func",
    "the program runs torch.profiler",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_leaves_the_same_behind(name: str) -> None:
    program = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = left_behind(program, STEPS, lambda model: None)
        with Watched() as watched:
            looked_at = left_behind(program, STEPS, watched)
    assert looked_at == alone
    assert watched.trouble == ""
    assert (watched.seconds["backward"] > 0) == (name not in NOT_MARKED)
    assert watched.why_not_read <= WHY_NOT_READ
    if name not in MAY_BE_READ:
        assert bool(watched.values) == (name not in NOT_READ)


def test_steps_run_in_operator_windows_meanwhile() -> None:
    with Watched() as watched:
        left_behind(PROGRAMS["LSTM"], 60, watched)
    assert watched.windows > 1


def test_ranks_leave_the_same_behind() -> None:
    told = subprocess.run(
        [sys.executable, "-m", processes.__name__, "4", "DDP, 2 ranks", "DDP, 4 ranks", "FSDP"],
        env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"},
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found = told.stdout.splitlines()[-1]  # Gloo of torch 2.10 prints who is connected before it.
    for name, (alone, looked_at) in json.loads(found).items():
        for before, after in zip(alone, looked_at, strict=True):
            digest, *_ = before
            assert after[0] == digest, name
            assert after[1] > 0, f"{name}: no backward was found"
            assert after[2] == "", name
