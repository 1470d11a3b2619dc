"""The modules and parameters of a model, without asking the model.

Its own ``modules()`` and ``parameters()`` may want arguments, raise, or recurse too deep.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tui_profiler.probe.torch_compat.internals import children_of, parameters_of


def each_module(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Give every module once, without recursion: 3,000 may be nested."""
    seen: set[int] = set()
    pending = [model]
    while pending:
        module = pending.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            children = children_of(module)
            if children:
                pending.extend(child for child in children.values() if child is not None)


def each_parameter(model: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Give every parameter; one that two modules share twice."""
    for module in each_module(model):
        yield from (one for one in parameters_of(module).values() if one is not None)


def has_parameters(model: torch.nn.Module) -> bool:
    """Tell whether there is any."""
    return next(each_parameter(model), None) is not None
