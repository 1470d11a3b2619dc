"""Which inputs are tried: what the user typed, else what the model says, else what is likely.

What the user types is ``--input``, bound to the parameters of ``forward``.

A model, or the file it comes from, says it as ``example_inputs``: a value or a function: a tensor,
a tuple or list of arguments, or a dictionary of keyword arguments. A function may take ``batch``:
the axes that follow it are the batch axis, whichever they are. Of other inputs it is not known here
which axis is the batch (``trace/batch_axis.py``).
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import errors
from tui_profiler.probe.load.common.initialisation import seeded
from tui_profiler.probe.load.common.loaded_model import Settings, dtype_named, free_bytes
from tui_profiler.probe.load.inputs import input_tensors
from tui_profiler.probe.load.inputs.guesses import embeddings, guess_named, guesses
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import tree_leaves

_NAME = "example_inputs"
_WHY = "its own example_inputs"


def candidates_for(
    model: torch.nn.Module, source: object, spec: LoadSpec, settings: Settings
) -> Sequence[Inputs]:
    """Return the inputs to try, likeliest first."""
    if spec.inputs:
        return input_tensors.Candidates((typed_call(spec.inputs, model, settings),), settings)
    examples = _example_inputs(model, source)
    if examples is not None:
        return (inputs_from(examples, model, settings),)
    return input_tensors.Candidates(guesses(model), settings)


def _example_inputs(model: torch.nn.Module, source: object) -> object | None:
    """Return what the model or its class holds as ``_example_inputs``, else its Python module."""
    try:
        found = getattr(model, _NAME, None)
    except Exception as error:
        raise errors.model_failed(
            f"its {_NAME} raised {errors.reason(error)}", error=error
        ) from error
    return getattr(source, _NAME, None) if found is None else found


def inputs_from(examples: object, model: torch.nn.Module, settings: Settings) -> Inputs:
    """Return one call's arguments in the dtype and on the device that are set.

    Random numbers that a function draws are the same each time, and the random state stays as it
    was. A function that takes ``batch`` is called with the size that is set, if one is.
    """
    value, axes = examples, None
    if callable(examples) and not isinstance(examples, torch.nn.Module):
        value, axes = _called(examples, settings.batch_of_examples)
    args, kwargs = _arguments(value, examples)
    fitted = [_fitted(part, settings) for part in (*args, *kwargs.values())]
    names = [input_tensors.forward_parameters(model).name_at(place) for place in range(len(args))]
    return Inputs(
        args=tuple(fitted[: len(args)]),
        kwargs=dict(zip(kwargs, fitted[len(args) :], strict=True)),
        specs=tuple(
            spec
            for name, part in zip((*names, *kwargs), fitted, strict=True)
            for spec in input_tensors.specs_of(part, name, _WHY)
        ),
        batch=_size_along(value, axes),
        batch_axes=axes,
    )


def _called(
    function: Callable[..., object], batch: int | None
) -> tuple[object, tuple[int | None, ...] | None]:
    """Call it; return what it made, and which axes follow ``batch`` where it takes that."""
    names = inspect.signature(function).parameters
    name = next((name for name in ("batch", "batch_size") if name in names), "")

    def made(keywords: dict[str, int]) -> object:
        with seeded():
            return function(**keywords)

    try:
        value = made({name: batch} if name and batch is not None else {})
    except Exception as error:
        raise errors.model_failed(
            f"its {_NAME}() raised {errors.reason(error)}", error=error
        ) from error
    if not name:
        return value, None
    default = names[name].default
    size = batch if batch is not None else default if type(default) is int else None
    if size is None:
        return value, None
    try:
        return value, _axes_between(value, made({name: size + 1}), size)
    except Exception:  # noqa: BLE001, RUF100 - it makes no other size: the axis is to be found
        return value, None


def _axes_between(one: object, next_one: object, size: int) -> tuple[int | None, ...] | None:
    """Return the axis of each tensor that is one longer in the next size; None where none is."""
    pairs = zip(_tensors(one), _tensors(next_one), strict=True)
    axes = [
        next(
            (
                axis
                for axis, (now, then) in enumerate(zip(before.shape, after.shape, strict=True))
                if now == size and then == size + 1
            ),
            None,
        )
        for before, after in pairs
    ]
    return None if all(axis is None for axis in axes) else tuple(axes)


def _tensors(value: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _size_along(value: object, axes: tuple[int | None, ...] | None) -> int | None:
    """Return the size of these axes, each of a tensor."""
    pairs = zip(_tensors(value), axes, strict=True) if axes is not None else ()
    return next((int(t.shape[axis]) for t, axis in pairs if axis is not None), None)


def _arguments(value: object, examples: object) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(value, torch.Tensor):
        return (value,), {}
    if isinstance(value, Mapping):
        return (), {str(name): part for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    code = getattr(examples, "__code__", None)
    raise errors.model_failed(
        f"its {_NAME} gives a {type(value).__name__}, not a tensor, a tuple of arguments or a"
        " dictionary of them",
        at=f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "",
    )


def _fitted(value: object, settings: Settings) -> object:
    """Move and cast every tensor inside; what is not a tensor stays."""
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        dtype = settings.dtype if tensor.is_floating_point() else None
        return tensor.to(device=settings.device, dtype=dtype or tensor.dtype)
    if isinstance(value, Mapping):
        return {key: _fitted(part, settings) for key, part in value.items()}
    if type(value) is tuple:
        return tuple(_fitted(part, settings) for part in value)
    if type(value) is list:
        return [_fitted(part, settings) for part in value]
    return value


# The screen writes shapes with ×, and people type what they see.
_FORM = re.compile(
    r"(?:(?P<name>[^\W\d]\w*)\s*=)?\s*"
    r"(?P<shape>\d+(?:\s*[,x×]\s*\d+)*)\s*"
    r"(?::\s*(?:torch\.)?(?P<dtype>\w+))?"
)
_BETWEEN_AXES = re.compile(r"[^\d]+")
_EXAMPLE = ("--input 1,3,224,224", "one image of 224×224")


@dataclass(frozen=True)
class Typed:
    """One ``--input``."""

    name: str
    """Parameter name, or empty: the next in order."""
    shape: tuple[int, ...]
    """Every axis, the batch axis included."""
    dtype: torch.dtype | None
    """None where it was not given."""


def parse_input(text: str) -> Typed:
    """Read ``[name=]1,3,224,224[:float32]``."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise errors.wrong_request(
            f'--input "{text}" is not of the form [name=]1,3,224,224[:float32]', _EXAMPLE
        )
    shape = tuple(int(axis) for axis in _BETWEEN_AXES.split(match["shape"]))
    if 0 in shape:
        raise errors.wrong_request(f'--input "{text}" has an axis of size 0', _EXAMPLE)
    try:
        dtype = None if match["dtype"] is None else dtype_named(match["dtype"])
    except errors.LoadError as error:
        shown = ",".join(str(axis) for axis in shape)
        raise errors.wrong_request(
            f'--input "{text}": {error.failed.what}',
            (f"--input {shown}:float32", "floating numbers"),
            (f"--input {shown}:int64", "ids"),
        ) from error
    return Typed(match["name"] or "", shape, dtype)


def typed_call(
    texts: tuple[str, ...], model: torch.nn.Module, settings: Settings
) -> input_tensors.Call:
    """Bind every ``--input`` to a parameter of ``forward``.

    Numbers are ids (int64) where the layers say so and no dtype was given, floating otherwise. The
    batch axis is the leading one of every input as long there as the first.
    """
    parameters = input_tensors.forward_parameters(model)
    typed = [parse_input(text) for text in texts]
    names = _bound_names(typed, parameters)
    likely = guess_named(model, names)
    tables = embeddings(model)
    batch = typed[0].shape[0]
    wishes = []
    for item, name in zip(typed, names, strict=True):
        guess = likely[name]
        below = guess.below if guess.dtype == torch.int64 or not tables else tables[0][1]
        axis = 0 if item.shape[0] == batch else None
        wishes.append(
            input_tensors.ForwardArgument(
                item.shape,
                "--input",
                item.dtype or guess.dtype,
                batch_axis=axis,
                below=below,
                is_list=guess.is_list and len(item.shape) == len(guess.shape),
            )
        )
    _check_memory(wishes, settings)
    bound = list(zip(typed, names, wishes, strict=True))
    return input_tensors.Call(
        tuple((name, wish) for item, name, wish in bound if not item.name),
        tuple((name, wish) for item, name, wish in bound if item.name),
    )


def _bound_names(typed: list[Typed], parameters: input_tensors.Parameters) -> tuple[str, ...]:
    names: list[str] = []
    in_order = 0
    for item in typed:
        if item.name:
            if not parameters.takes(item.name):
                raise _unknown_name(item.name, parameters)
            names.append(item.name)
            continue
        if in_order >= len(parameters.positional) and not parameters.more_positional:
            raise errors.wrong_request(
                f"--input was given {len(typed)} times, but {parameters} takes"
                f" {len(parameters.positional)}"
            )
        names.append(parameters.name_at(in_order))
        in_order += 1
    for name in names:
        if names.count(name) > 1:
            raise errors.wrong_request(f'--input gives "{name}" of {parameters} twice')
    missing = [name for name in parameters.required if name not in names]
    if missing:
        raise errors.wrong_request(
            f"{parameters} needs {errors.in_words(missing)} as well",
            *((f"--input {name}=1,16", f"gives {name} too") for name in missing[:3]),
        )
    return tuple(names)


def _unknown_name(name: str, parameters: input_tensors.Parameters) -> errors.LoadError:
    known = (*parameters.positional, *parameters.keyword_only)
    likely = errors.nearest(name, known) or list(known[:1])
    return errors.wrong_request(
        f'{parameters} has no parameter "{name}"',
        *((f"--input {near}=…", f'names the parameter "{near}"') for near in likely),
    )


def _check_memory(wishes: list[input_tensors.ForwardArgument], settings: Settings) -> None:
    """Refuse what cannot be held: asking the system would end the process, not raise."""
    if settings.device.type == "meta":
        return
    wanted = 0
    for wish in wishes:
        shape = wish.shape if settings.batch is None else wish.of_batch(settings.batch).shape
        wanted += math.prod(shape) * (wish.dtype or settings.dtype or torch.float32).itemsize
    free = free_bytes(settings.device)
    if wanted > free:
        gib = 2.0**30
        raise errors.wrong_request(
            f"the inputs need {wanted / gib:.3g} GiB; {free / gib:.3g} GiB of memory is free",
            ("--batch 1", "one item"),
            ("--device meta", "costs only, nothing is run"),
        )
