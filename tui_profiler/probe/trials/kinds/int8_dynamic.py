"""Linear and recurrent layers with int8 weights; their inputs are quantised in each call."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds import change

_LAYERS = (nn.Linear, nn.LSTM, nn.GRU)


def _change(subject: change.Subject) -> change.Change:
    # Half a second to import.
    from torch.ao.nn.quantized import dynamic  # noqa: PLC0415
    from torch.ao.quantization import quantize_dynamic  # noqa: PLC0415

    # A layer is replaced in its parent, which a module tried alone lacks.
    around = nn.ModuleList([subject.copied()])
    changed = quantize_dynamic(around, set(_LAYERS), dtype=torch.qint8, inplace=True)[0]  # type: ignore[no-untyped-call] # torch has no types here
    kinds = (dynamic.Linear, dynamic.LSTM, dynamic.GRU)
    count = sum(isinstance(part, kinds) for part in changed.modules())
    if not count:
        raise change.ImpossibleError("none of its layers can be quantised")
    before = sum(isinstance(part, _LAYERS) for part in subject.module.modules())
    detail = f"{change.counted(count, 'layer')} of {before} quantised"
    side = change.plain(changed, subject.inputs)
    if any(isinstance(part, nn.TransformerEncoderLayer) for part in changed.modules()):
        # Its fused operator takes no quantised weights, which torch does not check.
        side = replace(side, around=_without_fused_encoders)
        detail += ", encoder layers not fused"
    return change.Change(subject.baseline(), side, detail)


@contextmanager
def _without_fused_encoders() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    device = change.device_of(module).type
    if device != "cpu":
        return f"dynamic quantisation runs on the CPU only; the model is on {device}"
    if torch.backends.quantized.engine in ("", "none"):
        return "this build of torch has no engine for quantised operators"
    layers = [part for part in module.modules() if type(part) in _LAYERS]
    if not layers:
        return "it has no nn.Linear, nn.LSTM or nn.GRU"
    if not any(one.dtype == torch.float32 for part in layers for one in part.parameters()):
        return "dynamic quantisation needs float32; its layers have another dtype"
    return ""


KIND = change.Kind(_change, _why_not)
