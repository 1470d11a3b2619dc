"""Batch norms folded into the preceding convolutions.

One forward shows which batch norm is the only consumer of which convolution; both are called once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.overrides import TorchFunctionMode

from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trials.kinds import change

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_CALLS: Mapping[Callable[..., object], str] = {
    **dict.fromkeys((torch.conv1d, torch.conv2d, torch.conv3d), "convolution"),
    **dict.fromkeys(
        (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d), "convolution"
    ),
    torch.nn.functional.batch_norm: "norm",
}


class Pair(NamedTuple):
    """A convolution, and the batch norm that is its only consumer."""

    convolution: nn.Module
    norm: nn.Module


@dataclass
class _Output:
    """Output of a convolution, kept so that no other tensor gets its ``id``."""

    tensor: torch.Tensor
    convolution: nn.Module
    readers: list[nn.Module | None] = field(default_factory=list)


class _Watch(TorchFunctionMode):
    """Records the consumers of the outputs of convolutions."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.outputs: dict[int, _Output] = {}
        self.calls: dict[int, int] = {}
        self._owner = {
            id(tensor): module
            for module in model.modules()
            if type(module) in (*_CONVOLUTIONS, *_TRANSPOSED) or _is_foldable(module)
            for tensor in (getattr(module, "weight", None), getattr(module, "running_mean", None))
            if isinstance(tensor, torch.Tensor)
        }

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        keywords = kwargs or {}
        made = func(*args, **keywords)
        given = tensors_in((args, list(keywords.values())))
        role = _CALLS.get(func, "")
        owner = self._owned(given) if role else None
        if owner is not None:
            self.calls[id(owner)] = self.calls.get(id(owner), 0) + 1
        if role or tensors_in(made):  # Asking for a shape reads no values.
            for tensor in given:
                if id(tensor) in self.outputs:
                    reader = owner if role == "norm" else None
                    self.outputs[id(tensor)].readers.append(reader)
        if role == "convolution" and owner is not None and isinstance(made, torch.Tensor):
            self.outputs[id(made)] = _Output(made, owner)
        return made

    def _owned(self, given: Sequence[torch.Tensor]) -> nn.Module | None:
        return next((self._owner[id(one)] for one in given if id(one) in self._owner), None)

    def pairs(self) -> list[Pair]:
        """Return the foldable pairs."""
        return [
            Pair(one.convolution, norm)
            for one in self.outputs.values()
            if len(one.readers) == 1
            and (norm := one.readers[0]) is not None
            and self.calls[id(one.convolution)] == self.calls[id(norm)] == 1
        ]


def pairs_of(model: nn.Module, forward: Callable[[], object]) -> list[Pair]:
    """Run one forward of ``model``, restore its state, and return the foldable pairs."""
    snapshot = Snapshot(model)
    watch = _Watch(model)
    try:
        with watch:
            forward()
    finally:
        snapshot.restore()
    return watch.pairs()


def fold(model: nn.Module, pairs: Sequence[Pair]) -> None:
    """Fold every pair, in place."""
    replaced: dict[int, nn.Module] = {}
    for convolution, norm in pairs:
        assert isinstance(convolution, (*_CONVOLUTIONS, *_TRANSPOSED))
        assert isinstance(norm, _NORMS)
        is_transposed = isinstance(convolution, _TRANSPOSED)
        replaced[id(convolution)] = fuse_conv_bn_eval(convolution, norm, transpose=is_transposed)
        replaced[id(norm)] = _after(norm)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if id(child) in replaced:
                setattr(module, name, replaced[id(child)])


def _after(norm: nn.Module) -> nn.Module:
    """Return what remains of a norm: timm's have an activation inside."""
    parts = [getattr(norm, name, None) for name in ("drop", "act")]
    left = [one for one in parts if isinstance(one, nn.Module) and type(one) is not nn.Identity]
    return nn.Sequential(*left) if len(left) > 1 else left[0] if left else nn.Identity()


def _is_foldable(module: nn.Module) -> bool:
    is_known = type(module) in _NORMS or type(module).__name__ == "BatchNormAct2d"
    if not is_known or not isinstance(module, _NORMS):
        return False
    return not module.training and module.running_mean is not None


def _change(subject: change.Subject) -> change.Change:
    module = subject.copied()
    side = change.plain(module, subject.inputs)
    pairs = pairs_of(module, side.run)
    if not pairs:
        raise change.ImpossibleError("no batch norm is the only consumer of a convolution")
    fold(module, pairs)
    detail = f"{change.counted(len(pairs), 'batch norm')} folded into convolutions"
    return change.Change(subject.baseline(), side, detail)


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    parts = list(module.modules())
    norms = [part for part in parts if isinstance(part, _NORMS)]
    if not any(type(part) in (*_CONVOLUTIONS, *_TRANSPOSED) for part in parts) or not norms:
        return "it has no batch norms after convolutions"
    if not any(map(_is_foldable, norms)):
        return "its batch norms are in training mode, or have no running statistics"
    return ""


KIND = change.Kind(_change, _why_not)
