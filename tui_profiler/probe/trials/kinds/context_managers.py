"""Context managers around a forward: autocast to 16 bits, and inference mode."""

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from msgspec import structs
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds import change
from tui_profiler.probe.trials.kinds.training_side import trained, training_side

_NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}


def _autocast(dtype: torch.dtype, subject: change.Subject) -> change.Change:
    baseline, device = subject.baseline(), subject.device.type

    def call(given: object) -> object:
        with torch.autocast(device, dtype):
            return baseline.call(given)

    return change.Change(baseline, replace(baseline, call=call), f"autocast to {_NAMES[dtype]}")


def _why_not(dtype: torch.dtype, module: nn.Module, inputs: Inputs) -> str:
    device = change.device_of(module).type
    if not torch.amp.is_autocast_available(device):
        return f"torch has no autocast on {device}"
    floats = [one for one in module.parameters() if one.is_floating_point()]
    if floats and all(one.dtype == dtype for one in floats):
        return f"its parameters are {_NAMES[dtype]} already"
    if floats and not any(one.dtype == torch.float32 for one in floats):
        return "autocast casts float32, and no parameter is float32"
    return ""


def _of_step(
    dtype: torch.dtype, name: Literal["bf16", "fp16"], subject: change.Subject
) -> change.Change:
    baseline, train = training_side(subject), trained(subject)
    if train.autocast:
        raise change.ImpossibleError(f"steps run under autocast to {train.autocast} already")
    changed = training_side(replace(subject, train=structs.replace(train, autocast=name)))
    unscaled = ", loss not scaled" if dtype == torch.float16 else ""
    return change.Change(baseline, changed, f"autocast to {_NAMES[dtype]}{unscaled}")


BF16 = change.Kind(
    partial(_autocast, torch.bfloat16),
    partial(_why_not, torch.bfloat16),
    partial(_of_step, torch.bfloat16, "bf16"),
)
FP16 = change.Kind(
    partial(_autocast, torch.float16),
    partial(_why_not, torch.float16),
    partial(_of_step, torch.float16, "fp16"),
)


def _inference_mode(subject: change.Subject) -> change.Change:
    baseline = subject.baseline()
    module, inputs = subject.module, subject.inputs

    def call(keywords: object) -> object:
        with torch.inference_mode():
            return module(
                *inputs.args, **(keywords if isinstance(keywords, dict) else inputs.kwargs)
            )

    return change.Change(
        baseline, replace(baseline, call=call), "inference_mode instead of no_grad"
    )


INFERENCE_MODE = change.Kind(_inference_mode)
