"""No-op modules removed: Dropout and Identity in eval mode.

They are removed from a ``Sequential``; elsewhere a plain function replaces them, because
``forward`` calls them by name: calling a function costs a tenth of calling a module.
"""

from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import children_of
from tui_profiler.probe.trials.kinds import change

_DROPOUTS = (
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)
_BY_NAME = ("DropPath", "StochasticDepth")
"""Dropouts of whole branches, of timm and torchvision."""


def does_nothing(module: nn.Module) -> bool:
    """Return whether a module returns its input."""
    if type(module) is nn.Identity:
        return True
    is_dropout = isinstance(module, _DROPOUTS) or type(module).__name__ in _BY_NAME
    return is_dropout and not module.training


def remove(module: nn.Module) -> int:
    """Remove them from ``module``, in place; return how many."""
    count = 0
    for parent in list(module.modules()):
        if isinstance(parent, nn.ModuleList | nn.ModuleDict):
            continue  # Its parent calls them by index.
        for name, child in list(children_of(parent).items()):
            if child is None or not does_nothing(child):
                continue
            count += 1
            delattr(parent, name)
            if not _is_in_order(parent):
                setattr(parent, name, _same)
    return count


def _is_in_order(parent: nn.Module) -> bool:
    """Return whether a parent calls its children in turn, whatever their names."""
    return type(parent).forward is nn.Sequential.forward


def _same(value: object, *_others: object) -> object:
    return value


def _change(subject: change.Subject) -> change.Change:
    module = subject.copied()
    count = remove(module)
    if not count:
        raise change.ImpossibleError("it has no no-op dropout or identity modules")
    side = change.plain(module, subject.inputs)
    return change.Change(subject.baseline(), side, f"{change.counted(count, 'module')} removed")


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    inner = [part for part in module.modules() if part is not module]
    if any(map(does_nothing, inner)):
        return ""
    return "it has no no-op dropout or identity modules"


KIND = change.Kind(_change, _why_not)
