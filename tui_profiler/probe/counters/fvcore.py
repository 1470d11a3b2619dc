"""fvcore's ``FlopCountAnalysis``: multiply-accumulates under the name of FLOPs, on a jit trace.

It also counts norms, pooling and resizing, which are no multiply-accumulates, into the same total.
Source: fvcore/nn/flop_count.py, ``_DEFAULT_SUPPORTED_OPS``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tui_profiler.messages import Counted, SecondOpinion, Unknown
from tui_profiler.probe.cost.traffic import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

MISSING = "fvcore is not installed: pip install 'tui-profiler[fvcore]'"

_PRODUCTS = frozenset({"conv", "linear", "addmm", "bmm", "einsum", "matmul", "mm"})
"""Its names of operators that are multiply-accumulates."""


def by_fvcore(model: torch.nn.Module, inputs: Inputs) -> SecondOpinion:
    """Count a jit trace of ``model`` with fvcore."""
    try:
        fvcore = importlib.import_module("fvcore.nn")
    except ModuleNotFoundError:
        return SecondOpinion("fvcore", "", 0.0, error=MISSING)
    flat = _Flat(model, inputs)
    analysis = fvcore.FlopCountAnalysis(flat, flat.leaves)
    analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    analysis.tracer_warnings("none")
    amounts = {str(name): int(amount) for name, amount in analysis.by_operator().items()}
    skipped = sorted((str(name), int(calls)) for name, calls in analysis.unsupported_ops().items())
    return SecondOpinion(
        counter="fvcore",
        version=f"fvcore {importlib.metadata.version('fvcore')}",
        seconds=0.0,
        parameters=int(fvcore.parameter_count(model)[""]),
        macs=sum(amount for name, amount in amounts.items() if name in _PRODUCTS),
        flops=Unknown("what it calls FLOPs are multiply-accumulates"),
        operators=tuple(Counted(n, None, a) for n, a in amounts.items() if n in _PRODUCTS),
        others=tuple(Counted(n, None, a) for n, a in amounts.items() if n not in _PRODUCTS),
        skipped=tuple(Counted(name, calls) for name, calls in skipped),
    )


class _Flat(torch.nn.Module):
    """The model with tensors alone as arguments and outputs: a jit trace takes nothing else."""

    def __init__(self, model: torch.nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model = model
        values, self._layout = pytree.tree_flatten((inputs.args, inputs.kwargs))
        self._is_tensor = [isinstance(value, torch.Tensor) for value in values]
        self._others = [value for value in values if not isinstance(value, torch.Tensor)]
        self.leaves = tuple(value for value in values if isinstance(value, torch.Tensor))
        self.training = (
            model.training
        )  # Not train(): it would set the flags of the model's modules.

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model with ``tensors`` in the places where its inputs have tensors."""
        given, others = iter(tensors), iter(self._others)
        values: list[Any] = [next(given if is_one else others) for is_one in self._is_tensor]
        args, kwargs = pytree.tree_unflatten(values, self._layout)
        return tuple(tensors_in(self.model(*args, **kwargs)))
