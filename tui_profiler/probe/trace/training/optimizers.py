"""Optimizers by name, as ``--optimizer`` and ``profile(optimizer=…)`` take them.

An optimizer holds weights still at a learning rate of 0: its state and its arithmetic are real, and
every update is multiplied by 0. Weight decay stays, as it is multiplied by the learning rate too.
``Rprop`` has step sizes in its place.
"""

import ast
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.optim import Optimizer

from tui_profiler.messages import Remedy
from tui_profiler.probe.trace.failure import refused

Choice: TypeAlias = str | type[Optimizer] | Optimizer
"""A name with settings (``sgd,momentum=0.9``), a class, or an optimizer to take after."""

_COMMA = re.compile(r",(?![^(\[]*[)\]])")
"""Between settings, not inside of brackets."""

DEFAULT = "adamw"
"""Most public recipes and Hugging Face's ``Trainer`` use it; its state is the usual worst case."""


def make_optimizer(
    choice: Choice, parameters: Mapping[int, torch.Tensor], *, updates: bool = False
) -> Optimizer:
    """Return an optimizer of a model's parameters.

    Args:
        choice: which; of an optimizer its class and settings, group by group, are taken over, and
            it is returned itself where it is to move the weights.
        parameters: those that are trained, or what stands for them, by ``id`` of the model's own.
        updates: it moves the weights; else it holds them still.

    Raises:
        TraceError: there is no such optimizer, or it does not take these settings.
    """
    if isinstance(choice, Optimizer) and updates:
        return choice
    if isinstance(choice, Optimizer):
        made = _like(choice, parameters)
        _hold(made)
        return made
    kind, settings = _parsed(choice) if isinstance(choice, str) else (choice, {})
    made = _made(kind, list(parameters.values()), settings)
    if not updates:
        _hold(made)
    return made


def described(choice: Choice) -> str:
    """Return the name of an optimizer with its settings."""
    if isinstance(choice, str):
        kind, settings = _parsed(choice)
        return ",".join([kind.__name__, *(f"{key}={value}" for key, value in settings.items())])
    return (type(choice) if isinstance(choice, Optimizer) else choice).__name__


def state_tensors(optimizer: Optimizer) -> list[torch.Tensor]:
    """Return what an optimizer keeps from step to step."""
    return [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]


def use_lists(optimizer: Optimizer) -> None:
    """Have a step run over lists of parameters, as it does on a GPU where nothing was chosen.

    torch does so by itself only for tensors of its own, and fake ones are not.
    """
    for group in optimizer.param_groups:
        if group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True


def _made(kind: type[Optimizer], parameters: Sequence[Any], settings: dict[str, Any]) -> Optimizer:
    build: Any = kind
    closure = inspect.signature(kind.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        what = f"{kind.__name__} evaluates the model several times per step, by a closure"
        raise refused(what, Remedy("--optimizer adamw", "runs one forward and backward per step"))
    try:
        made: Optimizer = build(parameters, **settings)
    except (TypeError, ValueError) as error:
        what = f"{kind.__name__} does not take these settings: {error}"
        raise refused(what, Remedy("--optimizer adamw", "takes its defaults")) from error
    return made


def _like(optimizer: Optimizer, parameters: Mapping[int, torch.Tensor]) -> Optimizer:
    """Return an optimizer of the same class and settings, group by group, for these parameters."""
    groups = [
        {
            **group,
            "params": [parameters[id(one)] for one in group["params"] if id(one) in parameters],
        }
        for group in optimizer.param_groups
    ]
    takes = inspect.signature(type(optimizer)).parameters
    settings = {key: value for key, value in optimizer.defaults.items() if key in takes}
    return _made(type(optimizer), [group for group in groups if group["params"]], settings)


def _hold(optimizer: Optimizer) -> None:
    """Have its steps move nothing."""
    held: dict[str, Any] = {"lr": 0.0, "step_sizes": (0.0, 0.0)}
    for group in optimizer.param_groups:
        group.update((name, value) for name, value in held.items() if name in group)


def _parsed(text: str) -> tuple[type[Optimizer], dict[str, Any]]:
    name, *written = (one.strip() for one in _COMMA.split(text))
    kinds = {
        found: kind
        for found, kind in vars(torch.optim).items()
        if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer
    }
    kind = next((kinds[one] for one in kinds if one.casefold() == name.casefold()), None)
    if kind is None:
        what = f"torch.optim has no optimizer named {name!r}"
        raise refused(what, Remedy("--optimizer adamw", f"or {', '.join(sorted(kinds))}"))
    _, *takes = inspect.signature(kind).parameters.values()
    usual = {one.name: one.default for one in takes}
    settings = {}
    for one in written:
        key, separator, value = (part.strip() for part in one.partition("="))
        if not separator or key not in usual:
            what = f"{one!r} is not a setting of {kind.__name__}"
            raise refused(what, Remedy(f"--optimizer {name},KEY=VALUE", f"of {', '.join(usual)}"))
        settings[key] = _value(value)
        if not _is_like(settings[key], usual[key]):
            what = f"{one!r}: {value} is not a value that {kind.__name__} takes"
            raise refused(what, Remedy(f"--optimizer {name},{key}={usual[key]}", "is its default"))
    return kind, settings


def _value(text: str) -> object:
    """Return a number, a boolean, None or several of them as written in Python; else the text."""
    try:
        found: object = ast.literal_eval(
            text.strip().replace("true", "True").replace("false", "False")
        )
    except (ValueError, SyntaxError):
        return text
    return tuple(found) if isinstance(found, list) else found


def _is_like(value: object, usual: object) -> bool:
    """Return whether a value is of the kind of a default; torch checks ranges, not kinds."""
    if isinstance(usual, bool):
        return isinstance(value, bool)
    if isinstance(usual, int | float):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and math.isfinite(value)  # type: ignore[arg-type] # is a number
    if isinstance(usual, tuple):
        return isinstance(value, tuple) and len(value) == len(usual)
    return True
