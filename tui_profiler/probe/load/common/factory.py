"""From an object of the user's to a model: an instance as it is, a class or factory called once."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping

import torch

from tui_profiler.probe.load.common import errors

_SAMPLES = {"int": 1, "float": 0.5, "str": "", "bool": True}


def parse_arguments(text: str) -> tuple[tuple[object, ...], dict[str, object]]:
    """Read ``--args``: an object is keywords, an array is positional, empty is none.

    Raises:
        LoadError: It is not JSON, or JSON of another kind.
    """
    if not text.strip():
        return (), {}
    try:
        value: object = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise errors.wrong_request(
            f"--args is not JSON: {error}",
            ("--args '{\"width\": 64}'", "passes width=64"),
            ("--args '[64]'", "passes 64 as the first argument"),
        ) from error
    if isinstance(value, dict):
        return (), value
    if isinstance(value, list):
        return tuple(value), {}
    raise errors.wrong_request(
        "--args must be an object (keywords) or an array (positional)",
        (f"--args '[{text.strip()}]'", "passes it as the first argument"),
    )


def model_from(made_by: object, arguments: str, shown: str) -> torch.nn.Module:
    """Return the model that an object is or makes; a class or factory is called exactly once.

    Args:
        made_by: A module, a module class, or a function that returns a module.
        arguments: JSON for the call.
        shown: The object as the user typed it.

    Raises:
        LoadError: It is none of these, cannot take the arguments, raised, or returned no module.
    """
    args, kwargs = parse_arguments(arguments)
    if isinstance(made_by, torch.nn.Module):
        if args or kwargs:
            raise errors.wrong_request(
                f"{shown} is a model already, and has no --args",
                (f"tui-profiler {shown}", "without --args"),
            )
        return made_by
    if not callable(made_by):
        raise errors.wrong_request(
            f"{shown} is of type {type(made_by).__name__}: not a module, a module class or a"
            " function that returns one",
            (f"tui-profiler {shown.rpartition(':')[0] or shown}", "lists what else is there"),
        )
    _check_arguments(made_by, args, kwargs, shown)
    try:
        model = made_by(*args, **kwargs)
    except (Exception, SystemExit) as error:
        raise errors.model_failed(f"{shown} raised {errors.reason(error)}", error=error) from error
    if not isinstance(model, torch.nn.Module):
        raise _no_module(made_by, model, shown)
    return model


def defined_at(value: object) -> str:
    """Return ``file:line`` of a function or class; empty where Python does not know it."""
    function = inspect.unwrap(value) if callable(value) else value
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    try:
        filename = inspect.getsourcefile(type(value) if not isinstance(value, type) else value)
        _, line = inspect.getsourcelines(type(value) if not isinstance(value, type) else value)
    except (OSError, TypeError):
        return ""
    return f"{filename}:{line}"


def _check_arguments(
    factory: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    shown: str,
) -> None:
    """Refuse arguments that do not fit, before the factory is called."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # built-in code without a signature: calling it tells
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        wanted = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        sample = json.dumps({parameter.name: _sample(parameter) for parameter in wanted})
        raise errors.wrong_request(
            f"{shown}{_brief(signature)} cannot be called with these arguments: {error}",
            (f"--args '{sample}'", "passes what it needs")
            if wanted
            else (f"tui-profiler {shown}", "without --args"),
            at=defined_at(factory),
        ) from error


def _brief(signature: inspect.Signature) -> str:
    return f"({errors.in_words(list(signature.parameters), 8)})"


def _sample(parameter: inspect.Parameter) -> object:
    """Return a value of the type that the parameter is annotated with; 1 where there is none."""
    annotation = parameter.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return _SAMPLES.get(name, 1)


def _no_module(made_by: object, returned: object, shown: str) -> errors.LoadError:
    name = type(returned).__name__
    article = "an" if name[:1].lower() in "aeiou" else "a"
    kind = "None" if returned is None else f"{article} {name}"
    likely = ""
    if returned is None:
        likely = "its return statement is missing"
    elif isinstance(returned, (tuple, list)) and any(
        isinstance(part, torch.nn.Module) for part in returned
    ):
        likely = "the model is inside; return it alone"
    return errors.model_failed(
        f"{shown} returned {kind}, not a torch.nn.Module", at=defined_at(made_by), likely=likely
    )
