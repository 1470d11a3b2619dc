"""``torch.utils.flop_counter``: two FLOP for a multiply-accumulate, nothing for anything else."""

from __future__ import annotations

import torch

from tui_profiler.messages import Counted, SecondOpinion
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.versions import FlopCounter


def by_torch(model: torch.nn.Module, inputs: Inputs) -> SecondOpinion:
    """Count a real forward with ``FlopCounterMode``, and the parameters that the model names."""
    with FlopCounter() as counter:
        model(*inputs.args, **inputs.kwargs)
    counted = counter.get_flop_counts().get("Global", {})
    total = counter.get_total_flops()
    return SecondOpinion(
        counter="flop_counter",
        version=f"torch {torch.__version__}",
        seconds=0.0,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        macs=total // 2,
        flops=total,
        operators=tuple(
            Counted(str(op), counter.calls[op] or None, flops // 2) for op, flops in counted.items()
        ),
        skipped=tuple(Counted(name, calls) for name, calls in sorted(counter.skipped().items())),
    )
