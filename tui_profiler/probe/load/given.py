"""Which inputs are tried: what the user typed, else what the model says, else what is likely."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.inputs import Inputs
from tui_profiler.probe.load.examples import example_inputs, inputs_from
from tui_profiler.probe.load.guesses import guesses
from tui_profiler.probe.load.settings import Settings
from tui_profiler.probe.load.tensors import Candidates
from tui_profiler.probe.load.typed import typed_call


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
