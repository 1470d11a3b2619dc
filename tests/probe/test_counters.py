"""Other counters on small models whose figures were worked out by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.probe.traced import inputs_of
from tests.worker import spec
from tui_profiler.messages import Counted, SecondOpinion
from tui_profiler.probe.counters.allocated import allocated
from tui_profiler.probe.counters.count import count
from tui_profiler.probe.counters.fvcore import by_fvcore
from tui_profiler.probe.counters.torch_counter import by_torch
from tui_profiler.probe.inputs import Inputs

IMAGE = torch.zeros(1, 3, 8, 8)
CONVOLUTION = 4 * 8 * 8 * 3 * 3 * 3


class Net(nn.Module):
    """Takes a mask by name, gives a dictionary, and has a part in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, *, mask=None, scale=1):
        y = self.norm(self.conv(x)) * scale
        return {"scores": [self.drop(y)], "masked": None if mask is None else y * mask}


def net() -> Net:
    model = Net().eval()
    model.drop.train()
    return model


def names(parts: tuple[Counted, ...]) -> dict[str, int]:
    return {part.name: part.amount for part in parts}


def test_torch_counts_two_flop_for_a_multiply_accumulate_and_names_the_rest() -> None:
    with torch.no_grad():
        found = by_torch(net(), inputs_of(IMAGE))
    assert (found.macs, found.flops) == (CONVOLUTION, 2 * CONVOLUTION)
    assert found.parameters == 4 * 27 + 4 + 4 + 4
    assert found.operators == (Counted("aten.convolution", 1, CONVOLUTION),)
    skipped = {part.name: part.calls for part in found.skipped}
    assert skipped["aten._native_batch_norm_legit_no_training"] == 1


def test_fvcore_counts_norms_as_well_which_are_left_out() -> None:
    model = net()
    inputs = Inputs((IMAGE,), {"mask": torch.ones(1, 4, 8, 8), "scale": 2})
    with torch.no_grad():
        found = by_fvcore(model, inputs)
    assert found.macs == CONVOLUTION
    assert names(found.operators) == {"conv": CONVOLUTION}
    assert names(found.others) == {"batch_norm": 2 * 256}  # a scale and a shift for each element
    assert "aten::mul" in names(found.skipped)
    assert found.parameters == 4 * 27 + 4 + 4 + 4


def test_a_mode_of_one_part_is_kept_for_fvcore() -> None:
    seen: list[bool] = []
    model = net()
    model.drop.register_forward_pre_hook(lambda module, _: seen.append(module.training))
    with torch.no_grad():
        by_fvcore(model, inputs_of(IMAGE))
    assert seen
    assert all(seen)


def test_the_measured_peak_holds_weights_input_and_output() -> None:
    layer = nn.Linear(256, 256, bias=False)
    found = allocated(layer.eval(), inputs_of(torch.zeros(1, 256)))
    assert found.peak_bytes == 4 * (256 * 256 + 256 + 256)


def test_nothing_is_measured_on_meta() -> None:
    layer = nn.Linear(2, 2, device="meta")
    assert "meta" in allocated(layer, inputs_of(torch.zeros(1, 2, device="meta"))).error


@pytest.mark.parametrize("counter", ["flop_counter", "fvcore", "measured"])
def test_what_a_counter_raises_is_its_result(counter, tmp_path: Path) -> None:
    (tmp_path / "shy.py").write_text(
        "import torch\n"
        "from torch._subclasses.fake_tensor import FakeTensor\n"
        "class Shy(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        if not isinstance(x, FakeTensor):\n"
        "            raise NotImplementedError('not for\\n\\x1b[31m you')\n"
        "        return super().forward(x)\n"
        "def build():\n"
        "    return Shy(4, 4)\n"
    )
    found = count(counter, spec("shy.py:build", tmp_path))
    assert isinstance(found, SecondOpinion)
    assert found.error == "NotImplementedError: not for"
    assert found.macs != 16


def test_an_absent_fvcore_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fvcore.nn", None)
    assert by_fvcore(net(), inputs_of(IMAGE)).error.endswith("pip install 'tui-profiler[fvcore]'")


def test_a_counter_may_not_take_more_memory_than_the_machine_has() -> None:
    code = (
        "import torch\n"
        "from tui_profiler.probe.counters.count import limit_memory\n"
        "from tui_profiler.probe.measure.machine import environment_cpu\n"
        "size = int(environment_cpu().memory_bytes * 0.95)\n"
        "torch.empty(8)\n"
        "limit_memory('cpu')\n"
        "try:\n"
        "    torch.empty(size, dtype=torch.uint8)\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert "allocate" in done.stdout
