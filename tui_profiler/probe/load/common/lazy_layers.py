"""Layers that take their shape from the first input: given it before anything is traced."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch.nn.parameter import UninitializedBuffer

from tui_profiler.probe.load.common.errors import model_failed, reason
from tui_profiler.probe.load.common.initialisation import seeded
from tui_profiler.probe.torch_compat.forward_inputs import Inputs


def give_shapes(model: torch.nn.Module, candidates: Sequence[Inputs]) -> Inputs:
    """Run the model once on the first candidate that it takes, and give that candidate.

    A trace on fake tensors would leave fake parameters behind. Where there are several candidates
    each is tried on a copy first, as a failed run leaves some layers with the wrong shape.

    Raises:
        LoadError: It takes none of them.
    """
    first_error: Exception | None = None
    for inputs in candidates:
        try:
            with seeded(), torch.no_grad():
                if len(candidates) > 1:
                    _copy(model)(*inputs.args, **inputs.kwargs)
                model(*inputs.args, **inputs.kwargs)
        except Exception as error:
            first_error = first_error or error
            continue
        return inputs
    if first_error is None:
        raise model_failed("its lazy layers got no shape: there is no input to try")
    count = len(candidates)
    tried = "its input did not run" if count == 1 else f"none of {count} likely inputs ran"
    raise model_failed(
        f"its lazy layers got no shape: {tried}: {reason(first_error)}",
        ("--input 1,3,224,224", "says what it takes"),
        error=first_error,
    ) from first_error


def _copy(model: torch.nn.Module) -> torch.nn.Module:
    # torch copies parameters that wait for their shape, but raises on such buffers.
    waiting = {
        # Its __new__ takes both, its stub does not.
        id(buffer): UninitializedBuffer(device=buffer.device, dtype=buffer.dtype)  # type: ignore[call-arg]
        for buffer in model.buffers()
        if isinstance(buffer, UninitializedBuffer)
    }
    return copy.deepcopy(model, dict(waiting))
