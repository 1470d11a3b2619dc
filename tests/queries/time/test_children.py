"""Children never take more than their parent, in any column of time of any view: real models."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

MODELS = """
import json, sys
import torch
import torch.utils.checkpoint
from torch import nn
import tui_profiler
from tui_profiler.messages import known
from tui_profiler.queries.compare.side import side_of
from tui_profiler.queries.cost.flat import flat_table
from tui_profiler.queries.time.base import base, base_seconds, own_share, share
from tui_profiler.queries.tree.columns import figure

class Twelve(nn.Module):
    '''Calls one cell twelve times, and shares a layer between two containers.'''
    def __init__(self):
        super().__init__()
        shared = nn.Linear(32, 32)
        self.cell = nn.GRUCell(32, 32)
        self.blocks = nn.ModuleList([nn.Sequential(shared, nn.GELU()), nn.Sequential(shared)])
    def forward(self, x):
        state = torch.zeros(x.shape[0], 32)
        for step in range(12):
            state = self.cell(x[:, step], state)
        for block in self.blocks:
            state = torch.utils.checkpoint.checkpoint(block, state, use_reentrant=False)
        return state

class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 10)
    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))

torch.set_num_threads(1)
inputs = {"Twelve": torch.randn(4, 12, 32), "Pictures": torch.randn(2, 3, 32, 32)}
model = {"Twelve": Twelve, "Pictures": Pictures}[sys.argv[1]]()
trains = sys.argv[2] == "train"
found = tui_profiler.profile(model, inputs[sys.argv[1]], seconds=4.0, train=trains)
session, side = found.session, side_of("a", found.session)
tree, layers = session.tree, found.to_dict()["layers"]
views = {
    name: [figure(session, node, name) for node in range(len(tree))]
    for name in ("seconds", "cpu", "forward", "backward", "recompute", "share", "step")
}
views["compare"] = [side.seconds(node) for node in range(len(tree))]
views["base"] = [base_seconds(session, node) for node in range(len(tree))]
for name in ("mean_per_forward_s", "share", "base_share"):
    views["json " + name] = [(layer["timing"] or {}).get(name) for layer in layers]
rows = [
    (known(row.total), known(row.own))
    for by in ("module", "class")
    for row in flat_table(session, by).rows
]
own = [own_share(session, node) or 0.0 for node in range(len(tree))]
print(json.dumps({
    "parents": [node.parent for node in tree.nodes],
    "kinds": [node.kind for node in tree.nodes],
    "views": views,
    "rows": rows,
    "base": base(session).name,
    "root": share(session, 0),
    "own": sum(own),
    "windows": session.operators.times.windows if session.operators is not None else 0,
}))
"""
ROUNDING = 1 + 1e-4
"""Columns on the wire are float32."""


@pytest.mark.parametrize("model", ["Twelve", "Pictures"])
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_children_never_take_more_than_their_parent(model: str, mode: str) -> None:
    environment = {**os.environ, "KINETO_LOG_LEVEL": "99", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MODELS, model, mode],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)

    compared = 0
    for name, figures in found["views"].items():
        for kinds in (("module",), ("op",), ("module", "op")):
            inside: dict[int, float] = {}
            for parent, kind, spent in zip(found["parents"], found["kinds"], figures, strict=True):
                if parent >= 0 and kind in kinds and spent is not None:
                    inside[parent] = inside.get(parent, 0.0) + spent
            for parent, spent in inside.items():
                if figures[parent] is not None:
                    compared += 1
                    assert spent <= figures[parent] * ROUNDING + 1e-9, (name, parent, kinds)
    assert compared > 20
    for total, own in found["rows"]:
        assert total is None or own is None or own <= total * ROUNDING + 1e-9
    assert found["base"] == ("step" if mode == "train" else "forward")
    assert found["own"] == pytest.approx(found["root"], rel=1e-3)
    if mode == "infer":
        assert found["windows"] > 0
