"""The memory that a real forward takes at its worst moment."""

from __future__ import annotations

import torch

from tui_profiler.messages import SecondOpinion
from tui_profiler.probe.cost.traffic import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.measured_peak import measured_peak
from tui_profiler.probe.trace.tree.weights import weight_storages


def allocated(model: torch.nn.Module, inputs: Inputs) -> SecondOpinion:
    """Measure a forward's peak, and add the bytes of the model's own parameters and buffers.

    Raises:
        ForwardError: the model raised.
    """
    if any(tensor.is_meta for tensor in (*model.parameters(), *tensors_in(inputs.args))):
        return SecondOpinion("measured", "", 0.0, error="nothing is allocated on meta")
    measured = measured_peak(model, inputs)
    # After the forward: a model may make its layers in its first one.
    held = sum(sum(storages.values()) for storages in weight_storages(model))
    by = "allocator statistics" if torch.device(measured.device).type == "cuda" else "profiler"
    return SecondOpinion(
        counter="measured",
        version=f"torch {torch.__version__} {by}",
        seconds=0.0,
        peak_bytes=held + measured.peak_bytes,
    )
