"""``torch.utils.flop_counter``: two FLOP for a multiply-accumulate, nothing for anything else."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from tui_profiler.messages import Counted, SecondOpinion
from tui_profiler.probe.inputs import Inputs


class _Noting(FlopCounterMode):
    """Counts as it does, and notes how often each operator came by."""

    def __init__(self) -> None:
        super().__init__(display=False, skip_unsupported=True)
        self.calls: Tally[object] = Tally()

    # Private, but what it sees is what is left after its own decompositions. Where the name is
    # gone the counts stay right, and the skipped operators are not told.
    def _count_flops(self, func_packet: object, out: Any, args: Any, kwargs: Any) -> Any:
        self.calls[func_packet] += 1
        return super()._count_flops(func_packet, out, args, kwargs)  # type: ignore[no-untyped-call] # torch has no types here


def by_torch(model: torch.nn.Module, inputs: Inputs) -> SecondOpinion:
    """Count a real forward with ``FlopCounterMode``, and the parameters that the model names."""
    with _Noting() as counter:
        model(*inputs.args, **inputs.kwargs)
    counted = counter.get_flop_counts().get("Global", {})
    known = counter.flop_registry
    skipped = {str(op): calls for op, calls in counter.calls.items() if op not in known}
    skipped |= counter.get_unsupported_ops()
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
        skipped=tuple(Counted(name, calls) for name, calls in sorted(skipped.items())),
    )
