"""``--input``: what the user typed, bound to the parameters of ``forward``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch

from tui_profiler.probe.load.common.errors import LoadError, in_words, nearest, wrong_request
from tui_profiler.probe.load.common.input_tensors import Call, ForwardArgument
from tui_profiler.probe.load.common.layers import embeddings
from tui_profiler.probe.load.common.loaded_model import free_bytes
from tui_profiler.probe.load.common.settings import Settings, dtype_named
from tui_profiler.probe.load.common.signature import Parameters, forward_parameters
from tui_profiler.probe.load.inputs.guesses import guess_named

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
    """Read ``[name=]1,3,224,224[:float32]``.

    Raises:
        LoadError: It has another form, an empty axis, or names a dtype that torch has not.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise wrong_request(
            f'--input "{text}" is not of the form [name=]1,3,224,224[:float32]', _EXAMPLE
        )
    shape = tuple(int(axis) for axis in _BETWEEN_AXES.split(match["shape"]))
    if 0 in shape:
        raise wrong_request(f'--input "{text}" has an axis of size 0', _EXAMPLE)
    try:
        dtype = None if match["dtype"] is None else dtype_named(match["dtype"])
    except LoadError as error:
        shown = ",".join(str(axis) for axis in shape)
        raise wrong_request(
            f'--input "{text}": {error.failed.what}',
            (f"--input {shown}:float32", "floating numbers"),
            (f"--input {shown}:int64", "ids"),
        ) from error
    return Typed(match["name"] or "", shape, dtype)


def typed_call(texts: tuple[str, ...], model: torch.nn.Module, settings: Settings) -> Call:
    """Bind every ``--input`` to a parameter of ``forward``.

    Numbers are ids (int64) where the layers say so and no dtype was given, floating otherwise. The
    batch axis is the leading one of every input as long there as the first.

    Raises:
        LoadError: One of them cannot be read, bound, or held in memory.
    """
    parameters = forward_parameters(model)
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
            ForwardArgument(
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
    return Call(
        tuple((name, wish) for item, name, wish in bound if not item.name),
        tuple((name, wish) for item, name, wish in bound if item.name),
    )


def _bound_names(typed: list[Typed], parameters: Parameters) -> tuple[str, ...]:
    """Name the parameter of each input, in the order typed."""
    names: list[str] = []
    in_order = 0
    for item in typed:
        if item.name:
            if not parameters.takes(item.name):
                raise _unknown_name(item.name, parameters)
            names.append(item.name)
            continue
        if in_order >= len(parameters.positional) and not parameters.more_positional:
            raise wrong_request(
                f"--input was given {len(typed)} times, but {parameters} takes"
                f" {len(parameters.positional)}"
            )
        names.append(parameters.name_at(in_order))
        in_order += 1
    for name in names:
        if names.count(name) > 1:
            raise wrong_request(f'--input gives "{name}" of {parameters} twice')
    missing = [name for name in parameters.required if name not in names]
    if missing:
        raise wrong_request(
            f"{parameters} needs {in_words(missing)} as well",
            *((f"--input {name}=1,16", f"gives {name} too") for name in missing[:3]),
        )
    return tuple(names)


def _unknown_name(name: str, parameters: Parameters) -> LoadError:
    known = (*parameters.positional, *parameters.keyword_only)
    likely = nearest(name, known) or list(known[:1])
    return wrong_request(
        f'{parameters} has no parameter "{name}"',
        *((f"--input {near}=…", f'names the parameter "{near}"') for near in likely),
    )


def _check_memory(wishes: list[ForwardArgument], settings: Settings) -> None:
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
        raise wrong_request(
            f"the inputs need {wanted / gib:.3g} GiB; {free / gib:.3g} GiB of memory is free",
            ("--batch 1", "one item"),
            ("--device meta", "costs only, nothing is run"),
        )
