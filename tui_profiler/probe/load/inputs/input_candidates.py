"""Which inputs are tried: what the user typed, else what the model says, else what is likely."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.input_tensors import Candidates
from tui_profiler.probe.load.common.settings import Settings
from tui_profiler.probe.load.inputs.examples import example_inputs, inputs_from
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.typed_inputs import typed_call
from tui_profiler.probe.torch_compat.forward_inputs import Inputs


def candidates_for(
    model: torch.nn.Module, source: object, spec: LoadSpec, settings: Settings
) -> Sequence[Inputs]:
    """Give the inputs to try, likeliest first.

    Args:
        model: The model.
        source: The Python module that it came from, which may hold ``example_inputs``.
        spec: May hold inputs that the user typed.
        settings: Device, dtype and batch size.

    Raises:
        LoadError: What the user typed, or the model's own example, cannot be passed.
    """
    if spec.inputs:
        return Candidates((typed_call(spec.inputs, model, settings),), settings)
    examples = example_inputs(model, source)
    if examples is not None:
        return (inputs_from(examples, model, settings),)
    return Candidates(guesses(model), settings)
