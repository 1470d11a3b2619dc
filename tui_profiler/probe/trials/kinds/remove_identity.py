"""Modules that do nothing in eval mode taken out: dropouts and identities.

In a ``Sequential`` they are left out; elsewhere a plain function stands in their place, because
``forward`` calls them by name: a call of a function costs a tenth of one of a module.
"""

from __future__ import annotations

from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import children_of
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    ImpossibleError,
    Kind,
    Subject,
    as_it_is,
    copied,
    counted,
    plain,
)

_DROPOUTS = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)
_BY_NAME = ("DropPath", "StochasticDepth")
"""Of timm and torchvision: dropouts of whole branches."""


def does_nothing(module: nn.Module) -> bool:
    """Say whether a module gives back what it is given."""
    if type(module) is nn.Identity:
        return True
    is_dropout = isinstance(module, _DROPOUTS) or type(module).__name__ in _BY_NAME
    return is_dropout and not module.training


def remove(module: nn.Module) -> int:
    """Take them out of ``module``, in place; gives how many places they were in."""
    count = 0
    for parent in list(module.modules()):
        if isinstance(parent, nn.ModuleList | nn.ModuleDict):
            continue  # Its own parent calls them by their place.
        for name, child in list(children_of(parent).items()):
            if child is None or not does_nothing(child):
                continue
            count += 1
            delattr(parent, name)
            if not _is_in_order(parent):
                setattr(parent, name, _same)
    return count


def _is_in_order(parent: nn.Module) -> bool:
    """Say whether a parent calls its children in turn, whatever their names."""
    return type(parent).forward is nn.Sequential.forward


def _same(value: object, *_others: object) -> object:
    return value


def _change(subject: Subject) -> Change:
    module = copied(subject.module)
    count = remove(module)
    if not count:
        raise ImpossibleError("it has no no-op dropout or identity modules")
    side = plain(module, subject.inputs)
    return Change(as_it_is(subject), side, f"{counted(count, 'module')} removed")


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    inner = [part for part in module.modules() if part is not module]
    if any(map(does_nothing, inner)):
        return ""
    return "it has no no-op dropout or identity modules"


KIND = Kind(_change, _why_not)
