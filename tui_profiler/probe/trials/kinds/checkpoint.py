"""Activation checkpointing of modules: less memory, and their forward once more in the backward."""

import torch

from tui_profiler.probe.trace.failure import TraceError
from tui_profiler.probe.trace.training.checkpointing import BLOCKS, chosen_modules
from tui_profiler.probe.trials.kinds import change
from tui_profiler.probe.trials.kinds.training_side import trained, training_side


def _step(subject: change.Subject) -> change.Change:
    model, train = subject.module, trained(subject)
    try:
        chosen = (
            [(path, model.get_submodule(path)) for path in subject.paths]
            if subject.paths
            else chosen_modules(model, BLOCKS)
        )
        before = chosen_modules(model, train.checkpoint) if train.checkpoint else []
    except TraceError as error:
        raise change.ImpossibleError(error.failed.what) from error
    except AttributeError as error:
        raise change.ImpossibleError("the model has no module of this name any more") from error
    is_before = {id(module) for _, module in before}
    added = [(path, module) for path, module in chosen if id(module) not in is_before]
    if not added:
        raise change.ImpossibleError("these modules are checkpointed already")
    changed = training_side(subject, more_checkpointed=tuple(module for _, module in added))
    return change.Change(training_side(subject), changed, f"checkpointed: {_named(added)}")


def _named(chosen: list[tuple[str, torch.nn.Module]]) -> str:
    first, last = chosen[0][0], chosen[-1][0]
    if len(chosen) == 1:
        return first
    return f"{change.counted(len(chosen), 'module')}, {first} to {last}"


KIND = change.Kind(None, step=_step)
