"""Linear and recurrent layers with weights of 8 bits; what they read is quantised in each call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    ImpossibleError,
    Kind,
    Subject,
    as_it_is,
    copied,
    counted,
    device_of,
    plain,
)

_LAYERS = (nn.Linear, nn.LSTM, nn.GRU)


def _change(subject: Subject) -> Change:
    # Half a second to import, and wanted only here.
    from torch.ao.nn.quantized import dynamic  # noqa: PLC0415
    from torch.ao.quantization import quantize_dynamic  # noqa: PLC0415

    # A layer is replaced in its parent, which one that is tried by itself lacks.
    around = nn.ModuleList([copied(subject.module)])
    changed = quantize_dynamic(around, set(_LAYERS), dtype=torch.qint8, inplace=True)[0]  # type: ignore[no-untyped-call] # torch has no types here
    kinds = (dynamic.Linear, dynamic.LSTM, dynamic.GRU)
    count = sum(isinstance(part, kinds) for part in changed.modules())
    if not count:
        raise ImpossibleError("none of its layers could be quantised")
    detail = f"{counted(count, 'layer')} of {_counted_before(subject.module)} quantised"
    side = plain(changed, subject.inputs)
    if any(isinstance(part, nn.TransformerEncoderLayer) for part in changed.modules()):
        # Its fused operator takes no quantised weights, and torch does not look before it tries.
        side = replace(side, around=_without_fused_encoders)
        detail += ", encoder layers not fused"
    return Change(as_it_is(subject), side, detail)


@contextmanager
def _without_fused_encoders() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _counted_before(module: nn.Module) -> int:
    return sum(isinstance(part, _LAYERS) for part in module.modules())


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    device = device_of(module).type
    if device != "cpu":
        return f"torch quantises dynamically on the CPU only, and it is on {device}"
    if torch.backends.quantized.engine in ("", "none"):
        return "this build of torch has no engine for quantised operators"
    layers = [part for part in module.modules() if type(part) in _LAYERS]
    if not layers:
        return "it has no linear and no recurrent layer of torch's own"
    if not any(one.dtype == torch.float32 for part in layers for one in part.parameters()):
        return "torch quantises float32 dynamically, and its layers are in another dtype"
    return ""


KIND = Kind(_change, _why_not)
