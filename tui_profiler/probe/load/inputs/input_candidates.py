"""Which inputs are tried: what the user typed, else what the model says, else what is likely.

A model, or the file it comes from, says it as ``example_inputs``: a value or a function: a tensor,
a tuple or list of arguments, or a dictionary of keyword arguments. A function may take ``batch``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import model_failed, reason
from tui_profiler.probe.load.common.initialisation import seeded
from tui_profiler.probe.load.common.input_tensors import Candidates, specs_of
from tui_profiler.probe.load.common.settings import Settings
from tui_profiler.probe.load.common.signature import forward_parameters
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.typed_inputs import typed_call
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

NAME = "example_inputs"
_WHY = "its own example_inputs"


def _example_inputs(model: torch.nn.Module, source: object) -> object | None:
    """Return what the model or its class holds as ``_example_inputs``, else its Python module.

    Raises:
        LoadError: Looking it up runs code of the model's that raised.
    """
    try:
        found = getattr(model, NAME, None)
    except Exception as error:
        raise model_failed(f"its {NAME} raised {reason(error)}", error=error) from error
    return getattr(source, NAME, None) if found is None else found


def inputs_from(examples: object, model: torch.nn.Module, settings: Settings) -> Inputs:
    """Return one call's arguments in the batch size, dtype and on the device that are set.

    Random numbers that a function draws are the same each time, and the random state stays as it
    was. Another batch size than the example's repeats its items, unless the function takes
    ``batch``.

    Raises:
        LoadError: The function raised, or gave something else than arguments.
    """
    value = examples
    batch = settings.batch
    if callable(examples) and not isinstance(examples, torch.nn.Module):
        value, has_taken_batch = _called(examples, batch)
        batch = None if has_taken_batch else batch
    args, kwargs = _arguments(value, examples)
    length = _leading_axis((*args, *kwargs.values()))
    fitted = [_fitted(part, settings, length, batch) for part in (*args, *kwargs.values())]
    names = [forward_parameters(model).name_at(place) for place in range(len(args))]
    return Inputs(
        args=tuple(fitted[: len(args)]),
        kwargs=dict(zip(kwargs, fitted[len(args) :], strict=True)),
        specs=tuple(
            spec
            for name, part in zip((*names, *kwargs), fitted, strict=True)
            for spec in specs_of(part, name, _WHY)
        ),
        batch=_leading_axis(fitted),
    )


def _called(function: Callable[..., object], batch: int | None) -> tuple[object, bool]:
    """Call it, with the batch size where it takes one; say whether it did."""
    keywords = {}
    if batch is not None:
        names = inspect.signature(function).parameters
        keywords = {name: batch for name in ("batch", "batch_size") if name in names}
    try:
        with seeded():
            return function(**keywords), bool(keywords)
    except Exception as error:
        raise model_failed(f"its {NAME}() raised {reason(error)}", error=error) from error


def _arguments(value: object, examples: object) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(value, torch.Tensor):
        return (value,), {}
    if isinstance(value, Mapping):
        return (), {str(name): part for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    code = getattr(examples, "__code__", None)
    raise model_failed(
        f"its {NAME} gives a {type(value).__name__}, not a tensor, a tuple of arguments or a"
        " dictionary of them",
        at=f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "",
    )


def _leading_axis(value: object) -> int | None:
    """Return the length of the first axis of the first tensor inside; None where there is none."""
    if isinstance(value, torch.Tensor):
        return value.shape[0] if value.dim() else None
    if isinstance(value, Mapping):
        return _leading_axis(list(value.values()))
    if isinstance(value, (tuple, list)):
        lengths = (_leading_axis(part) for part in value)
        return next((length for length in lengths if length is not None), None)
    return None


def _fitted(value: object, settings: Settings, length: int | None, batch: int | None) -> object:
    """Move, cast and repeat every tensor inside; what is not a tensor stays."""
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        if batch is not None and tensor.dim() and tensor.shape[0] == length:
            tensor = tensor[torch.arange(batch, device=tensor.device) % tensor.shape[0]]
        dtype = settings.dtype if tensor.is_floating_point() else None
        return tensor.to(device=settings.device, dtype=dtype or tensor.dtype)
    if isinstance(value, Mapping):
        return {key: _fitted(part, settings, length, batch) for key, part in value.items()}
    if type(value) is tuple:
        return tuple(_fitted(part, settings, length, batch) for part in value)
    if type(value) is list:
        return [_fitted(part, settings, length, batch) for part in value]
    return value


def candidates_for(
    model: torch.nn.Module, source: object, spec: LoadSpec, settings: Settings
) -> Sequence[Inputs]:
    """Return the inputs to try, likeliest first.

    Args:
        model: The model.
        source: The Python module that it came from, which may hold ``_example_inputs``.
        spec: May hold inputs that the user typed.
        settings: Device, dtype and batch size.

    Raises:
        LoadError: What the user typed, or the model's own example, cannot be passed.
    """
    if spec.inputs:
        return Candidates((typed_call(spec.inputs, model, settings),), settings)
    examples = _example_inputs(model, source)
    if examples is not None:
        return (inputs_from(examples, model, settings),)
    return Candidates(guesses(model), settings)
