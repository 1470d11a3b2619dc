"""Convolutions in channels-last layout.

Inputs are converted in every call, which is timed: callers pass them in their own layout.
"""

from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kv_cache import remade
from tui_profiler.probe.trials.kinds import change

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
_OF_THREE = (nn.Conv3d, nn.ConvTranspose3d)
_OF_TWO = (nn.Conv2d, nn.ConvTranspose2d)


def _change(subject: change.Subject) -> change.Change:
    module = subject.copied()
    flat = any(isinstance(part, _OF_TWO) for part in module.modules())
    # ``Module.to`` takes one format: weights with another number of axes keep theirs.
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
    baseline = subject.baseline()
    detail = f"{change.counted(convolutions, 'convolution')}; inputs converted in each call"
    return change.Change(baseline, replace(baseline, module=module, call=call), detail)


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    if any(isinstance(part, (*_OF_TWO, *_OF_THREE)) for part in module.modules()):
        return ""
    return "it has no 2-D or 3-D convolutions"


KIND = change.Kind(_change, _why_not)
