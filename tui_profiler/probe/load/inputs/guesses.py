"""Which inputs a model probably takes, from its signature and its layers.

The first convolution in registration order takes the image, the first embedding the token ids, the
first linear layer the features. Registration order is not call order, so these are guesses: every
one is tried by running the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from tui_profiler.probe.load.inputs.input_tensors import (
    Call,
    ForwardArgument,
    Parameters,
    forward_parameters,
)
from tui_profiler.probe.torch_compat.modules import modules_in_order

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
    of_training = _attribute(model, "args")  # as Ultralytics keeps them
    defaults = _attribute(model, "default_cfg")
    of_defaults = defaults.get("input_size") if isinstance(defaults, Mapping) else None
    stated = (
        (_attribute(resize, "fixed_size"), "the size that its transform makes of images"),
        (_attribute(resize, "min_size"), "the size that its transform makes of images"),
        (_attribute(model, "image_size"), "its image_size"),
        (_attribute(model, "img_size"), "its img_size"),
        (_attribute(_attribute(model, "config"), "image_size"), "its config's image_size"),
        (
            of_training.get("imgsz") if isinstance(of_training, Mapping) else None,
            "the imgsz of its training",
        ),
        (
            of_defaults if isinstance(of_defaults, (tuple, list)) and len(of_defaults) == 3 else 0,
            "its default_cfg",
        ),
    )
    sides = ((_side(value), why) for value, why in stated)
    return next(((side, why) for side, why in sides if side is not None), None)


def _attribute(owner: object, name: str) -> object:
    """Return an attribute; None where there is none, or where the user's code for it raises."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None  # no size from this hint: the layers are asked instead


def _side(value: object) -> int | None:
    if isinstance(value, (tuple, list)) and value:
        value = value[-1]
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


Modality: TypeAlias = Literal["image", "tokens", "features"]
_Forward: TypeAlias = nn.Conv1d | nn.Conv2d | nn.Conv3d
_Transposed: TypeAlias = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d

# The usual training sizes first; 28 and 32 for what flattens small images, 96 and 48 for small data
# sets, 512 and 384 for segmentation and fine-tuned transformers.
IMAGE_SIDES = (224, 256, 128, 64, 32, 28, 299, 384, 512, 96, 48)
_INNER_SIDES = (56, 28, 14, 7, 32, 64, 16, 8, 4, 1)
_VOLUME_SIDES = (32, 64, 16, 128)
_CLIPS = ((16, 112, 112), (16, 224, 224), (8, 56, 56))
_SIGNAL_LENGTHS = (1024, 16000, 256, 128, 64, 32, 16, 4096)
_LATENT_SIDES = (1, 4, 7, 8, 16, 32)
# 77 is what CLIP's text half insists on.
TOKEN_COUNTS = (16, 8, 4, 77, 64, 128, 256, 512, 1024, 1)
SEQUENCE_LENGTH = 16

_LAZY_CHANNELS = 3
_LAZY_FEATURES = 64
_INNER_CHANNELS = 16
"""A convolution with more input channels than this sits inside a network, on a small grid."""


@dataclass(frozen=True)
class Entry:
    """One layer that could be the first, and the inputs that would suit it."""

    modality: Modality
    wishes: tuple[ForwardArgument, ...]
    """Likeliest first; each for one item."""


def entries(model: nn.Module) -> tuple[Entry, ...]:
    """Return what the first layer of each kind would take, in registration order."""
    by_layer = list(modules_in_order(model))
    is_sequence = any(isinstance(m, (nn.MultiheadAttention, nn.RNNBase)) for _, m in by_layer)
    has_token_embedding = any(_is_token_embedding(path, m) for path, m in by_layer)
    found: dict[object, Entry] = {}
    for path, module in by_layer:
        name = path or type(module).__name__
        match module:
            case nn.Embedding() | nn.EmbeddingBag():
                if has_token_embedding and not _is_token_embedding(path, module):
                    continue
                kind: object = "tokens"
                entry = _of_embedding(module, name)
            case _ if isinstance(module, _Forward | _Transposed):
                kind = ("image", _spatial_axes(module))
                entry = _of_convolution(module, name)
            case nn.RNNBase() | nn.MultiheadAttention():
                kind = "sequence"
                entry = _of_sequence_layer(module, name)
            case nn.Linear() | nn.Bilinear() | nn.RNNCellBase():
                kind = "features"
                entry = _of_linear(module, name, is_sequence=is_sequence)
            case _:
                continue
        found.setdefault(kind, entry)
    return tuple(found.values()) or _of_anything(model)


def embeddings(model: nn.Module) -> tuple[tuple[str, int], ...]:
    """Return (layer name, number of ids) of the embeddings that look up ids of an input."""
    found = [
        (path or type(module).__name__, module.num_embeddings, path)
        for path, module in modules_in_order(model)
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
    ]
    of_tokens = [(name, count) for name, count, path in found if not _is_inner(path)]
    return tuple(of_tokens or [(name, count) for name, count, _ in found])


def token_wishes(count: int, why: str) -> tuple[ForwardArgument, ...]:
    """Return ids below ``count``: (1, tokens), and last (1,)."""
    shapes: list[tuple[int, ...]] = [(1, tokens) for tokens in TOKEN_COUNTS]
    shapes.append((1,))
    return tuple(ForwardArgument(shape, why, torch.int64, below=count) for shape in shapes)


def image_wishes(
    channels: int, why: str, sides: tuple[int, ...] = IMAGE_SIDES
) -> tuple[ForwardArgument, ...]:
    """Return square images: (1, channels, side, side)."""
    return tuple(ForwardArgument((1, channels, side, side), why) for side in sides)


def _is_inner(path: str) -> bool:
    """Say whether an embedding, by its name, looks up positions or kinds, not ids of the input."""
    name = path.rpartition(".")[2].casefold()
    return any(part in name for part in ("pos", "type", "quer", "wpe", "time"))


def _is_token_embedding(path: str, module: nn.Module) -> bool:
    return isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and not _is_inner(path)


def _of_embedding(layer: nn.Embedding | nn.EmbeddingBag, name: str) -> Entry:
    return Entry("tokens", token_wishes(layer.num_embeddings, f"first embedding {name}"))


def _spatial_axes(layer: _Forward | _Transposed) -> int:
    return len(layer.kernel_size)


def _of_convolution(layer: _Forward | _Transposed, name: str) -> Entry:
    channels, why = layer.in_channels, f"first convolution {name}"
    if isinstance(layer, LazyModuleMixin) and channels == 0:
        channels, why = _LAZY_CHANNELS, f"first convolution {name}, its channels guessed"
    if isinstance(layer, _Transposed):
        grids: tuple[tuple[int, ...], ...] = tuple(
            (side,) * _spatial_axes(layer) for side in _LATENT_SIDES
        )
    else:
        grids = _grids(channels, _spatial_axes(layer))
    return Entry("image", tuple(ForwardArgument((1, channels, *grid), why) for grid in grids))


def _grids(channels: int, axes: int) -> tuple[tuple[int, ...], ...]:
    if axes == 1:
        return tuple((length,) for length in _SIGNAL_LENGTHS)
    if axes == 2:
        sides = _INNER_SIDES if channels > _INNER_CHANNELS else IMAGE_SIDES
        return tuple((side, side) for side in sides)
    cubes = tuple((side,) * 3 for side in _VOLUME_SIDES)
    return (*_CLIPS, *cubes) if channels == 3 else (*cubes, *_CLIPS)


def _of_sequence_layer(layer: nn.RNNBase | nn.MultiheadAttention, name: str) -> Entry:
    if isinstance(layer, nn.RNNBase):
        width, why = layer.input_size, f"first recurrent layer {name}"
    else:
        width, why = layer.embed_dim, f"first attention {name}"
    if layer.batch_first:
        return Entry("features", (ForwardArgument((1, SEQUENCE_LENGTH, width), why),))
    return Entry("features", (ForwardArgument((SEQUENCE_LENGTH, 1, width), why, batch_axis=1),))


def _of_linear(
    layer: nn.Linear | nn.Bilinear | nn.RNNCellBase, name: str, *, is_sequence: bool
) -> Entry:
    why = f"first linear layer {name}"
    if isinstance(layer, nn.RNNCellBase):
        return Entry(
            "features", (ForwardArgument((1, layer.input_size), f"first recurrent cell {name}"),)
        )
    width = layer.in1_features if isinstance(layer, nn.Bilinear) else layer.in_features
    if isinstance(layer, LazyModuleMixin) and width == 0:
        width, why = _LAZY_FEATURES, f"{why}, its width guessed"
    flat = ForwardArgument((1, width), why)
    sequence = ForwardArgument((1, SEQUENCE_LENGTH, width), why)
    # Attention takes (tokens, width) for one sequence without a batch axis: it would run.
    return Entry("features", (sequence, flat) if is_sequence else (flat, sequence))


def _of_anything(model: nn.Module) -> tuple[Entry, ...]:
    """Return guesses for a model without a layer that is known here, such as a scripted one."""
    for path, module in modules_in_order(model):
        for name, weight in module.named_parameters(recurse=False):
            why = f"first matrix {path}.{name}" if path else f"first matrix {name}"
            if weight.dim() == 2:
                # (out, in), as torch's own layers have it, or (in, out).
                widths = dict.fromkeys((weight.shape[1], weight.shape[0]))
                flat = tuple(ForwardArgument((1, width), why) for width in widths)
                sequences = tuple(
                    ForwardArgument((1, SEQUENCE_LENGTH, width), why) for width in widths
                )
                return (Entry("features", flat + sequences),)
            if weight.dim() in (3, 4, 5):
                channels = weight.shape[1]
                grids = _grids(channels, weight.dim() - 2)
                return (
                    Entry(
                        "image", tuple(ForwardArgument((1, channels, *grid), why) for grid in grids)
                    ),
                )
    why = "a default image size"
    return (Entry("image", image_wishes(3, why)),)
