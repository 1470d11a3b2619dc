"""A training step as one side of a trial.

1. Both sides train the same model on the same inputs, each with its own optimizer, whose learning
   rate is 0: weights keep their values, as in the worker's own loop. Gradients that are not finite
   in the first step are set to 0 in each.
2. A call returns the gradients of its step: they are what is compared.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from tui_profiler.messages import TrainSpec
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.training.checkpointing import checkpointed, chosen_modules
from tui_profiler.probe.trace.training.optimizers import Choice, make_optimizer, state_tensors
from tui_profiler.probe.trace.training.step import TrainingStep, are_finite, clear_infinite
from tui_profiler.probe.trials.kinds import change


def trained(subject: change.Subject) -> TrainSpec:
    """Return how a module is trained."""
    assert subject.train is not None
    return subject.train


def training_side(
    subject: change.Subject,
    choice: Choice = "",
    more_checkpointed: tuple[torch.nn.Module, ...] = (),
) -> change.Side:
    """Return a side that runs training steps, after its first one.

    Args:
        subject: the model.
        choice: of the optimizer; empty: as it is trained.
        more_checkpointed: modules that are checkpointed beside those that are.

    Raises:
        TraceError: there is no such optimizer.
    """
    train, model = trained(subject), subject.module
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = make_optimizer(choice or train.optimizer, {id(one): one for one in parameters})
    step = TrainingStep(model, subject.inputs, train)
    chosen = chosen_modules(model, train.checkpoint) if train.checkpoint else []
    modules = [*(module for _, module in chosen), *more_checkpointed]

    def around() -> AbstractContextManager[None]:
        return checkpointed(modules)

    is_finite = True

    def look(parameters: Sequence[torch.nn.Parameter]) -> None:
        nonlocal is_finite
        is_finite = are_finite(parameters)
        if not is_finite:
            clear_infinite(parameters)

    def call(_: object) -> object:
        step.run(optimizer, None if is_finite else clear_infinite)
        return [one.grad for one in parameters if one.grad is not None]

    snapshot = Snapshot(model)
    with around():
        step.run(optimizer, look)
    snapshot.restore()
    inputs = tensors_in((subject.inputs.args, subject.inputs.kwargs))
    return change.Side(
        model, call, around=around, kept=lambda: [*inputs, *state_tensors(optimizer)]
    )
