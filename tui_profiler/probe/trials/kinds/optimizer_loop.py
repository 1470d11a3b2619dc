"""The optimizer's update of all tensors in one kernel, or over lists of them, not one by one.

In a whole training step; or alone, on tensors of the shapes that a program has.
"""

import inspect
from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal, TypeAlias

import torch

from tui_profiler.probe.trace.training.optimizers import described, make_optimizer, state_tensors
from tui_profiler.probe.trials.kinds import change
from tui_profiler.probe.trials.kinds.training_side import trained, training_side

_Way: TypeAlias = Literal["fused", "foreach"]


def _step(subject: change.Subject) -> change.Change:
    choice = trained(subject).optimizer
    parameters = {id(one): one for one in subject.module.parameters() if one.requires_grad}
    made = make_optimizer(choice, parameters)
    way = _better_way(type(made), made.defaults)
    other = f"{choice},{way}=True"
    sides = training_side(subject), training_side(subject, other)
    tensors = change.counted(len(parameters), "tensor")
    detail = f"{described(choice)} with {way}=True, over {tensors}"

    def updates() -> tuple[object, object]:
        return _update(choice, parameters), _update(other, parameters)

    return change.Change(*sides, detail, updates)


def _update(choice: str, parameters: Mapping[int, torch.nn.Parameter]) -> list[torch.Tensor]:
    """Return what the first update adds to copies of the parameters, by their gradients."""
    copies: dict[int, torch.Tensor] = {}
    for key, one in parameters.items():
        if one.grad is not None:
            copies[key] = copy = one.detach().clone().requires_grad_()
            copy.grad = one.grad
    make_optimizer(choice, copies, updates=True).step()
    return [copy.detach() - parameters[key].detach() for key, copy in copies.items()]


def _better_way(kind: type, settings: dict[str, object]) -> _Way:
    """Return how it could step; ``fused`` is the fastest.

    Raises:
        ImpossibleError: it does so already, or has no such way.
    """
    takes = inspect.signature(kind).parameters
    ways: tuple[_Way, ...] = ("fused", "foreach")
    for way in ways:
        if settings.get(way):
            raise change.ImpossibleError(f"{kind.__name__} steps with {way}=True already")
        if way in takes:
            return way
    raise change.ImpossibleError(f"{kind.__name__} has neither fused nor foreach")


KIND = change.Kind(None, step=_step)


def alone(name: str, shapes: Sequence[tuple[tuple[int, ...], str]], device: str) -> change.Kind:
    """Return a kind that measures the update alone.

    Args:
        name: a class of ``torch.optim``.
        shapes: shape and dtype of each parameter.
        device: of all.
    """

    def changed(_: change.Subject) -> change.Change:
        wanted = sum(prod(shape) * _dtype(dtype).itemsize for shape, dtype in shapes)
        if not shapes:
            raise change.ImpossibleError("no parameter of the program is known")
        if device == "cpu" and _COPIES * wanted > change.spare_bytes():
            raise change.ImpossibleError("its tensors take more memory than is free")
        module = _made(shapes, device)
        parameters = {id(one): one for one in module.parameters()}
        made = make_optimizer(name, parameters)
        way = _better_way(type(made), made.defaults)
        other = f"{name},{way}=True"
        tensors = change.counted(len(parameters), "tensor")
        return change.Change(
            _update_side(module, name),
            _update_side(module, other),
            f"the update of {tensors} by {described(name)} with its default settings, {way}=True",
            lambda: (_update(name, parameters), _update(other, parameters)),
        )

    return change.Kind(changed)


_COPIES = 10
"""Of the parameters: they, gradients, the state of two optimizers, and what is compared."""


def _made(shapes: Sequence[tuple[tuple[int, ...], str]], device: str) -> torch.nn.Module:
    """Return a module with parameters of these shapes and their gradients, normally distributed."""
    module = torch.nn.ParameterList()
    generator = torch.Generator(device).manual_seed(0)
    for shape, name in shapes:
        values, gradient = (
            torch.randn(shape, generator=generator, device=device).to(_dtype(name))
            for _ in range(2)
        )
        one = torch.nn.Parameter(values)
        one.grad = gradient
        module.append(one)
    return module


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise change.ImpossibleError(f"parameters of {name} are not tried")
    return found


def _update_side(module: torch.nn.Module, choice: str) -> change.Side:
    optimizer = make_optimizer(choice, {id(one): one for one in module.parameters()})
    optimizer.step()  # It makes its state.

    def call(_: object) -> None:
        optimizer.step()

    return change.Side(module, call, kept=lambda: state_tensors(optimizer))
