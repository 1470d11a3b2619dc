"""Programs that train, each as one would write it: run alone and watched, they end the same.

A program is a function of how many steps it makes and of what it calls once with the model that it
trains. It returns what a training leaves behind: losses, gradients, weights, buffers, states of
optimizers, and what it noted itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch
from torch import nn

Watch: TypeAlias = Callable[[nn.Module], object]
Program: TypeAlias = Callable[[int, Watch], Iterable[object]]


def left_behind(program: Program, steps: int, watch: Watch) -> str:
    """Run a program from the same seed as ever; return a digest of what it leaves behind."""
    torch.manual_seed(0)
    digest = hashlib.sha256()
    for value in program(steps, watch):
        _add(digest, value)
    return digest.hexdigest()


def state_of(model: nn.Module, *optimizers: torch.optim.Optimizer) -> list[object]:
    """Return what a training leaves in a model and its optimizers."""
    found: list[object] = []
    for name, parameter in model.named_parameters():
        found += [name, parameter, parameter.grad]
    for name, buffer in model.named_buffers():
        found += [name, buffer]
    found += [optimizer.state_dict()["state"] for optimizer in optimizers]
    return found


def _add(digest: hashlib._Hash, value: object) -> None:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_sparse:
            value = value.coalesce()
            _add(digest, [value.indices(), value.values()])
            return
        # With its strides: an optimizer may go through them in their order.
        digest.update(repr((value.dtype, tuple(value.shape), value.stride())).encode())
        digest.update(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for key in value:
            _add(digest, key)
            _add(digest, value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            _add(digest, part)
    else:
        digest.update(repr(value).encode())
