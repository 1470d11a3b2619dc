"""Context managers around a forward: autocast in 16 bits, and inference mode."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds.subject import Change, Kind, Subject, as_it_is, device_of

_NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}


def _autocast(dtype: torch.dtype, subject: Subject) -> Change:
    baseline, device = as_it_is(subject), subject.device.type

    def call(given: object) -> object:
        with torch.autocast(device, dtype):
            return baseline.call(given)

    return Change(baseline, replace(baseline, call=call), f"autocast to {_NAMES[dtype]}")


def _why_not(dtype: torch.dtype, module: nn.Module, inputs: Inputs) -> str:
    device = device_of(module).type
    if not torch.amp.is_autocast_available(device):
        return f"torch has no autocast on {device}"
    floats = [one for one in module.parameters() if one.is_floating_point()]
    if floats and all(one.dtype == dtype for one in floats):
        return f"its parameters are {_NAMES[dtype]} already"
    if floats and not any(one.dtype == torch.float32 for one in floats):
        return "autocast changes what is float32, and no parameter is"
    return ""


BF16 = Kind(partial(_autocast, torch.bfloat16), partial(_why_not, torch.bfloat16))
FP16 = Kind(partial(_autocast, torch.float16), partial(_why_not, torch.float16))


def _inference_mode(subject: Subject) -> Change:
    baseline = as_it_is(subject)
    module, inputs = subject.module, subject.inputs

    def call(keywords: object) -> object:
        with torch.inference_mode():
            return module(
                *inputs.args, **(keywords if isinstance(keywords, dict) else inputs.kwargs)
            )

    return Change(baseline, replace(baseline, call=call), "inference_mode instead of no_grad")


INFERENCE_MODE = Kind(_inference_mode)
