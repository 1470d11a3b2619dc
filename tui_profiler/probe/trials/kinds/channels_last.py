"""Convolutions with the channels as the innermost axis of what they read and write.

Inputs are converted in every call, and the time of that counts: who calls has them as they are.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kv_cache import remade
from tui_profiler.probe.trials.kinds.subject import Change, Kind, Subject, as_it_is, copied, counted

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
_OF_THREE = (nn.Conv3d, nn.ConvTranspose3d)
_OF_TWO = (nn.Conv2d, nn.ConvTranspose2d)


def _change(subject: Subject) -> Change:
    module = copied(subject.module)
    flat = any(isinstance(part, _OF_TWO) for part in module.modules())
    # A module's ``to`` takes one format: weights of the other number of axes stay as they are.
    axes = 4 if flat else 5
    module.to(memory_format=_FORMATS[axes])
    args, kwargs = subject.inputs.args, subject.inputs.kwargs

    def converted(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() != axes or not tensor.is_floating_point():
            return tensor
        return tensor.contiguous(memory_format=_FORMATS[axes])

    def call(given: object) -> object:
        keywords = remade(given if isinstance(given, dict) else kwargs, converted)
        arguments = remade(args, converted)
        assert isinstance(arguments, tuple)
        assert isinstance(keywords, dict)
        with torch.no_grad():
            return module(*arguments, **keywords)

    convolutions = sum(
        isinstance(part, _OF_TWO if flat else _OF_THREE) for part in module.modules()
    )
    baseline = as_it_is(subject)
    detail = f"{counted(convolutions, 'convolution')}, and the inputs of each call"
    return Change(baseline, replace(baseline, module=module, call=call), detail)


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    if any(isinstance(part, (*_OF_TWO, *_OF_THREE)) for part in module.modules()):
        return ""
    return "it has no convolutions of two or three dimensions"


KIND = Kind(_change, _why_not)
