"""Torch's formulas for FLOPs are at hand without triton, and those of the program come first."""

from __future__ import annotations

import subprocess
import sys

from torch.utils import flop_counter

from tui_profiler.probe.torch_compat.flop_formulas import flop_formula

PROGRAM = """
import sys
import torch
from tui_profiler.probe.cost import macs
from tui_profiler.probe.torch_compat.flop_formulas import flop_formula

left, right, product = torch.ones(2, 3), torch.ones(3, 5), torch.ones(2, 5)
assert not [name for name in sys.modules if name.partition(".")[0] == "triton"]
assert "torch.utils.flop_counter" not in sys.modules
assert flop_formula(torch.ops.aten.mm)(left, right, out_val=product) == 2 * 2 * 3 * 5

from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

@register_flop_formula(torch.ops.aten.sin)
def sines(shape, out_shape=None, **_):
    return 7

assert flop_formula(torch.ops.aten.sin)(left, out_val=left) == 7
with FlopCounterMode(display=False) as counter:
    left @ right
assert counter.get_total_flops() == 2 * 2 * 3 * 5
print("so it is")
"""


def test_the_formulas_are_those_of_torch() -> None:
    assert len(flop_counter.flop_registry) > 20
    for operator in flop_counter.flop_registry:
        assert flop_formula(operator) is not None


def test_triton_is_not_imported_and_what_the_program_registers_counts() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.stdout, done.stderr) == ("so it is\n", "")
