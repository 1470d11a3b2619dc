"""A training that comes to the limit of its address space: what is told; it ends as alone."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.end_to_end.run.test_run import SCHEMA, plain, run, script
from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.viewer import Viewer, place_of
from tui_profiler.messages import Ended
from tui_profiler.queries.panel.failure import trouble
from tui_profiler.session import apply

TRAINS = """
import resource, sys, torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.is_greedy = nn.Linear(64, 64, bias=False), False
    def forward(self, x):
        if self.is_greedy:
            torch.empty(1 << 30)
        return self.linear(x).relu()

torch.manual_seed(0)
net = nn.Sequential(*(Block() for _ in range(3)))
optimizer = torch.optim.Adam(net.parameters())

def step():
    optimizer.zero_grad()
    loss = net(torch.randn(16, 64)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())

def run_out():
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    net[1].is_greedy = True
    step()
"""
SCRIPT = f"{TRAINS}\nfor _ in range(400): step()\nrun_out()\n"
WEIGHTS = 3 * 64 * 64 * 4
STATE = 2 * WEIGHTS + 3 * 4
"""Adam's two moments of each weight, and a count of steps."""


def test_a_script_that_runs_out_of_memory_says_what_it_was_doing(tmp_path: Path) -> None:
    path, report = script(tmp_path, SCRIPT), tmp_path / "report.json"
    alone = plain(path)
    watched = run("--format", "json", "--output", report, path)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    last = alone.stderr.splitlines()[-1]
    assert "DefaultCPUAllocator: can't allocate memory" in last
    assert last in watched.stderr.splitlines()
    assert "tui_profiler" not in alone.stderr

    told = json.loads(report.read_text())
    jsonschema.validate(told, SCHEMA)
    found = told["out_of_memory"]
    alive = {one["use"]: one["bytes"] for one in found["alive"] if one["source"] == "measured"}
    assert (found["part"], found["path"], found["caught"]) == ("forward", "1", False)
    assert found["wanted_bytes"] == 4 << 30
    assert alive == {
        "parameters": WEIGHTS,
        "buffers": 0,
        "gradients": 0,
        "optimizer state": STATE,
    }
    activations = next(one for one in found["alive"] if one["source"] == "estimated")
    # What the first block has returned, and its ReLU keeps; the linear's output is gone.
    assert activations["bytes"] >= 16 * 64 * 4
    assert found["resident_bytes"] > STATE
    assert 0 < found["steps"] <= 400
    assert found["line"].startswith(str(path))
    assert told["failure"]["stage"] == "script"


WATCHED = f"""{TRAINS}
import select
watched = tui_profiler.watch(net, "net")
while not select.select([sys.stdin], [], [], 0)[0]:
    step()
own = sys.excepthook is not sys.__excepthook__
say("own hook", own)
run_out()
"""


def test_a_program_that_is_attached_to_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with sockets_folder() as folder, WatchedProgram(WATCHED, folder) as program:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(folder))
        with Viewer(place_of("net")) as viewer:
            viewer.until(lambda session: session.training is not None)
            program.hears("run out")
            printed, errors = program.child.communicate(timeout=240)
            session = viewer.until(lambda session: session.out_of_memory is not None)
    assert '["own hook", true]' in printed
    assert program.child.returncode == 1
    *_, last = errors.splitlines()
    assert "DefaultCPUAllocator: can't allocate memory" in last
    assert errors.count("Traceback") == 1, "the error is shown once, as ever"
    found = session.out_of_memory
    assert found is not None
    assert (found.part, found.node, found.is_uncaught) == ("forward", "1", True)
    assert (found.parameters, found.optimizer_state) == (WEIGHTS, STATE)
    ended = Ended(0, False, "", 42, 3.0, attached=True)
    panel = trouble(apply(session, ended))
    assert panel is not None
    assert (panel.title, panel.where, panel.type) == ("program gone", "1", "Block")
    assert panel.what.startswith("out of memory: tried to allocate 4.00 GiB in the forward of step")
    assert "optimizer state 96.0 KiB (measured)" in panel.why
