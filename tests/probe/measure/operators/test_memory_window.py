"""What a forward allocates by module, against sizes by hand and torch.profiler's own export."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.probe.watch.watched_program import ROOT, WatchedProgram, sockets_folder
from tests.viewer import Viewer, place_of

FLOAT = 4
WIDE, NARROW = 64 * 1024 * FLOAT, 64 * 256 * FLOAT
PROFILED = """
import json, tempfile
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
import tui_profiler

class Wide(nn.Module):
    '''Makes 64 rows wide, drops what it no longer needs, and makes them narrow again, twice.'''
    def __init__(self):
        super().__init__()
        self.widen = nn.Linear(256, 1024, bias=False)
        self.narrow = nn.Linear(1024, 256, bias=False)
        self.register_buffer("scale", torch.ones(256))
    def forward(self, x):
        for _ in range(2):
            wide = self.widen(x)
            act = wide.relu()
            del wide
            x = self.narrow(act) * self.scale
            del act
        return x

net, x = Wide().eval(), torch.zeros(64, 256)
with torch.no_grad():
    net(x)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as events:
        out = net(x)
with tempfile.TemporaryDirectory() as folder:
    events.export_chrome_trace(folder + "/trace.json")
    exported = json.load(open(folder + "/trace.json"))["traceEvents"]
memory = [one for one in exported if one.get("name") == "[memory]"]
memory = [one["args"]["Bytes"] for one in sorted(memory, key=lambda one: one["ts"])]
found = tui_profiler.profile(net, x, seconds=1.0)
print(json.dumps((memory, found.to_dict())))
"""


@pytest.fixture(scope="module", name="said")
def _said():
    """What torch.profiler exports of a forward, and the report of the same model."""
    environment = {**os.environ, "KINETO_LOG_LEVEL": "99", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROFILED],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    memory, report = json.loads(done.stdout.splitlines()[-1])
    return memory, report


def test_every_module_allocates_the_tensors_that_it_makes(said) -> None:
    _, report = said
    layers = {one["path"]: one["measured_memory"] for one in report["layers"]}
    sizes = {path: layers[path] for path in ("", "widen", "narrow")}
    assert sizes == {
        # Twice: two wide ones and two narrow ones. The second time the first result is alive.
        "": told(2 * (2 * WIDE + 2 * NARROW), 2 * WIDE + NARROW),
        "widen": told(2 * WIDE, WIDE + NARROW),
        "narrow": told(2 * NARROW, WIDE + 2 * NARROW),
    }
    weights = (2 * 256 * 1024 + 256) * FLOAT
    assert report["measured_memory"] == {
        "peak_bytes": weights + NARROW + 2 * WIDE + NARROW,
        "weights_bytes": weights,
        "inputs_bytes": NARROW,
        "allocated_bytes": 2 * WIDE + NARROW,
        "allocations": 8,
    }
    assert report["measured_memory"]["peak_bytes"] == report["peak_memory"]["total"]


def test_operators_allocate_what_they_write(said) -> None:
    _, report = said
    operators = [(one["name"], one["measured_memory"]) for one in report["layers"]]
    assert [found for name, found in operators if name == "aten::relu"] == [
        told(WIDE, 2 * WIDE),
        told(WIDE, 2 * WIDE + NARROW),
    ]
    # That of widen and that of narrow, both called twice.
    products = [found["allocated_bytes"] for name, found in operators if name == "aten::mm"]
    assert products == [2 * WIDE, 2 * NARROW]


def told(allocated: int, peak: int) -> dict[str, int]:
    return {"allocated_bytes": allocated, "peak_bytes": peak}


def test_torchs_own_export_says_the_same(said) -> None:
    memory, report = said
    live = peak = 0
    for size in memory:
        live += size
        peak = max(peak, live)
    assert report["measured_memory"]["allocated_bytes"] == peak
    assert report["measured_memory"]["allocations"] == sum(size > 0 for size in memory)


def test_times_add_up(said) -> None:
    _, report = said
    times = {one["path"]: one["timing"] for one in report["layers"] if one["kind"] == "module"}
    root = times[""]
    inside = times["widen"]["total_mean_s"] + times["narrow"]["total_mean_s"]
    assert root["total_mean_s"] == pytest.approx(root["self_mean_s"] + inside, rel=1e-6)
    assert all(one["mean_per_forward_s"] == one["total_mean_s"] for one in times.values())
    assert times["widen"]["self_mean_s"] == times["widen"]["total_mean_s"]


SERVES = """
from tui_profiler.probe.watch import windows
windows.warm_up()  # As ``tui-profiler run`` does.
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).eval()
x = torch.zeros(64, 256)
with tui_profiler.watch(net, "net", budget=1.0):
    say("ready")
    while True:
        with torch.no_grad():
            net(x)
"""


def test_a_program_is_measured_in_one_of_its_own_forwards() -> None:
    with sockets_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUI_PROFILER_DIR", str(folder))
        with WatchedProgram(SERVES, folder, KINETO_LOG_LEVEL="99") as child:
            assert child.said() == ["ready"]
            with Viewer(place_of("net")) as viewer:
                session = viewer.until(lambda session: session.memory_window is not None)
    found = session.memory_window
    assert found is not None
    assert (found.window.inputs_bytes, found.window.allocated_bytes) == (NARROW, 2 * WIDE)
    assert found.allocated(0) == 2 * WIDE + NARROW
    assert session.operators is not None, "times come before"
