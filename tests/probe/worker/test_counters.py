"""Other counters on small models whose figures were worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.probe.trace.traced import inputs_of
from tests.worker import spec
from tui_profiler.messages import Counted, SecondOpinion
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.worker.counters import allocated, by_fvcore, by_torch, count

IMAGE = torch.zeros(1, 3, 8, 8)
CONVOLUTION = 4 * 8 * 8 * 3 * 3 * 3


class Net(nn.Module):
    """Takes a mask by name, returns a dictionary, and has a part in training mode."""

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


class Functions(nn.Module):
    """Calls an operator that takes functions, and attention."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        def go_on(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return i < 2

        def once(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, y * 2

        _, doubled = while_loop(go_on, once, (torch.tensor(0), x))
        return torch.nn.functional.scaled_dot_product_attention(doubled, doubled, doubled)


def test_torch_counts_or_names_what_takes_functions_and_attention_in_every_release() -> None:
    with torch.no_grad():
        found = by_torch(Functions().eval(), inputs_of(torch.zeros(2, 2, 3, 4)))
    skipped = {part.name: part.calls for part in found.skipped}
    assert skipped["while_loop"] == 1
    attention = "aten._scaled_dot_product_flash_attention_for_cpu"
    # Since torch 2.15 it is counted: two products of 2 x 2 x 3 x 4 x 3.
    assert names(found.operators).get(attention, 2 * 144) == 2 * 144
    assert (attention in names(found.operators)) is (found.macs == 2 * 144)
    assert (attention in skipped) is (found.macs == 0)


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
