"""Models whose parameters have shapes but no values: taken for what they would be on the CPU.

On meta itself a model dispatches other operators than where it will run (a ViT some 340 in place of
12 fused ones), and what it makes on the CPU meets what is on meta. So every tensor on meta stands
in for a fake one on the CPU while the forward runs: the tree is the one that a real model has.
"""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import torch

from tui_profiler.probe.torch_compat import internals
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.tree.weights import held_tensors


def is_on_meta(model: torch.nn.Module) -> bool:
    """Tell whether a parameter or buffer of ``model`` is on meta; a lazy one has no device yet."""
    return any(
        tensor.device.type == "meta" and not torch.nn.parameter.is_lazy(tensor)
        for tensor in held_tensors(model)
    )


def has_fakes(model: torch.nn.Module) -> bool:
    """Tell whether fake tensors stand in for those on meta now."""
    return any(isinstance(tensor, internals.FakeTensor) for tensor in held_tensors(model))


@contextmanager
def as_if_on_cpu(model: torch.nn.Module, mode: internals.FakeTensorMode) -> Iterator[None]:
    """Put fake tensors on the CPU in the place of those on meta, while the block runs.

    Parameters, buffers and plain attributes of every module; a tensor that is held twice is
    replaced by one.
    """
    fakes: dict[int, torch.Tensor] = {}
    replaced: list[tuple[MutableMapping[str, Any], str, torch.Tensor]] = []
    try:
        for module in each_module(model):
            for held in (
                internals.parameters_of(module),
                internals.buffers_of(module),
                vars(module),
            ):
                if not isinstance(held, dict):
                    continue  # a ScriptModule's: they cannot be replaced
                for name, value in list(held.items()):
                    if isinstance(value, torch.Tensor) and value.device.type == "meta":
                        if id(value) not in fakes:
                            fakes[id(value)] = internals.fake_on_cpu(mode, value)
                        replaced.append((held, name, value))
                        held[name] = fakes[id(value)]
        yield
    finally:
        for held, name, value in replaced:
            held[name] = value
