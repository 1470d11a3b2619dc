"""Which inputs a model probably takes, from its signature and its layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch

from tui_profiler.probe.load.common.input_tensors import Call, ForwardArgument
from tui_profiler.probe.load.common.layers import (
    SEQUENCE_LENGTH,
    Entry,
    embeddings,
    entries,
    image_wishes,
    token_wishes,
)
from tui_profiler.probe.load.common.signature import Parameters, forward_parameters

_IMAGE_NAMES = ("image", "img", "pixel", "picture", "frame", "video")
_TOKEN_NAMES = ("ids", "token", "text", "idx", "src", "tgt")
_LIST_OF_TENSORS = re.compile(r"(?:\w+\.)*[lL]ist\[(?:\w+\.)*Tensor\]")
_STEP_NAMES = ("t", "time", "times", "timestep", "timesteps", "step", "sigma")


def guesses(model: torch.nn.Module) -> tuple[Call, ...]:
    """Return calls that may suit ``forward``, likeliest first, each for one item."""
    parameters = forward_parameters(model)
    names = parameters.required or parameters.positional[:1]
    if not names and not parameters.more_positional:
        return (Call(()),)
    found = with_stated_size(model, entries(model))
    calls: list[Call] = []
    for entry in found:
        by_name = _wishes_by_name(model, names or ("input",), entry, found)
        count = max(len(wishes) for wishes in by_name.values())
        calls += [_call(parameters, by_name, place) for place in range(count)]
    return tuple(calls)


def guess_named(model: torch.nn.Module, names: tuple[str, ...]) -> dict[str, ForwardArgument]:
    """Return the likeliest wish for each of these parameters."""
    found = entries(model)
    return {
        name: wishes[0] for name, wishes in _wishes_by_name(model, names, found[0], found).items()
    }


def with_stated_size(model: torch.nn.Module, found: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Put the image size that a model states about itself before the guessed ones."""
    stated = _stated_image(model)
    if stated is None:
        return found
    side, why = stated
    return tuple(
        replace(entry, wishes=image_wishes(entry.wishes[0].shape[1], why, (side,)) + entry.wishes)
        if entry.modality == "image" and len(entry.wishes[0].shape) == 4
        else entry
        for entry in found
    )


def _call(
    parameters: Parameters, by_name: Mapping[str, tuple[ForwardArgument, ...]], place: int
) -> Call:
    """Return the call with the wish of that place for each name, or its last."""
    chosen = [(name, wishes[min(place, len(wishes) - 1)]) for name, wishes in by_name.items()]
    positional = [item for item in chosen if item[0] not in parameters.keyword_only]
    named = [item for item in chosen if item[0] in parameters.keyword_only]
    return Call(tuple(positional), tuple(named))


def _wishes_by_name(
    model: torch.nn.Module, names: tuple[str, ...], entry: Entry, found: tuple[Entry, ...]
) -> dict[str, tuple[ForwardArgument, ...]]:
    """Return for each parameter what it may take if ``entry`` is the model's first layer."""
    tables = embeddings(model)
    lists = _list_parameters(model)
    used_tables = 0
    by_name: dict[str, tuple[ForwardArgument, ...]] = {}
    for name in names:
        wishes = _by_its_name(name, found) if len(names) > 1 else None
        if wishes is None:
            wishes = entry.wishes
        if wishes[0].dtype == torch.int64 and 0 < used_tables < len(tables):
            # Recommenders look up a different table for each argument.
            layer, count = tables[used_tables]
            wishes = token_wishes(count, f"embedding {layer}")
        used_tables += wishes[0].dtype == torch.int64
        by_name[name] = tuple(_as_lists(wishes) if name in lists else wishes)
    return by_name


def _list_parameters(model: torch.nn.Module) -> frozenset[str]:
    """Name the parameters of ``forward`` that are lists of tensors, by their annotations."""
    annotations = getattr(model.forward, "__annotations__", {})
    # ``list[Tensor]`` as a type or, where annotations are not evaluated, as its text.
    written = {name: str(annotation) for name, annotation in annotations.items()}
    return frozenset(name for name, text in written.items() if _LIST_OF_TENSORS.fullmatch(text))


def _as_lists(wishes: tuple[ForwardArgument, ...]) -> Iterator[ForwardArgument]:
    """Yield images one by one, as detectors take them; anything else as it is."""
    for wish in wishes:
        yield replace(wish, is_list=True) if len(wish.shape) == 4 else wish


def _by_its_name(name: str, found: tuple[Entry, ...]) -> tuple[ForwardArgument, ...] | None:
    """Return what a parameter of that name usually takes; None where its name says nothing."""
    folded = name.casefold()
    why = f'by its name "{name}"'
    if "mask" in folded:
        return (ForwardArgument((1, SEQUENCE_LENGTH), why, torch.bool),)
    if folded in _STEP_NAMES:
        return (ForwardArgument((1,), why, torch.int64),)
    for modality, parts in (("image", _IMAGE_NAMES), ("tokens", _TOKEN_NAMES)):
        if any(part in folded for part in parts):
            for entry in found:
                if entry.modality == modality:
                    return entry.wishes
    return None


def _stated_image(model: torch.nn.Module) -> tuple[int, str] | None:
    """Return the image side that a model states, and where; as the usual libraries do."""
    resize = _attribute(model, "transform")  # of torchvision's detectors
    for attribute in ("fixed_size", "min_size"):
        side = _side(_attribute(resize, attribute))
        if side is not None:
            return side, "the size that its transform makes of images"
    for attribute in ("image_size", "img_size"):
        side = _side(_attribute(model, attribute))
        if side is not None:
            return side, f"its {attribute}"
    side = _side(_attribute(_attribute(model, "config"), "image_size"))
    if side is not None:
        return side, "its config's image_size"
    arguments = _attribute(model, "args")  # of its training, as Ultralytics keeps them
    side = _side(arguments.get("imgsz")) if isinstance(arguments, Mapping) else None
    if side is not None:
        return side, "the imgsz of its training"
    defaults = _attribute(model, "default_cfg")
    size = defaults.get("input_size") if isinstance(defaults, Mapping) else None
    if isinstance(size, (tuple, list)) and len(size) == 3:
        side = _side(size[-1])
        if side is not None:
            return side, "its default_cfg"
    return None


def _attribute(owner: object, name: str) -> object:
    """Return an attribute; None where there is none, or where the user's code for it raises."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None  # a hint that cannot be had: the layers are asked instead


def _side(value: object) -> int | None:
    if isinstance(value, (tuple, list)) and value:
        value = value[-1]
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
