"""torchvision's architectures: what there is, how each is built, what is published of it.

Figures of one architecture differ between its published weights, because some were trained at
another image size. ``reference_weights`` picks one entry, and both the input and the published
figures are taken from it, so that they belong together.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torchvision import models
from torchvision.models import WeightsEnum

from tui_profiler.probe.load.errors import model_failed, reason, wrong_request
from tui_profiler.probe.load.layers import image_wishes
from tui_profiler.probe.load.signature import forward_parameters
from tui_profiler.probe.load.tensors import Call, Wish

Task: TypeAlias = Literal[
    "classification", "segmentation", "detection", "video", "optical_flow", "quantization"
]

LATER: Mapping[Task, str] = {
    "quantization": "quantised models cannot be run on fake inputs",
    "detection": "on fake inputs every proposal is kept, which takes minutes",
}
"""Tasks whose models cannot be taken yet, with the reason."""
_TRANSFORMS = "its transforms"
_FRAMES = 16
"""Frames of a clip: with these the operations are those that torchvision publishes."""

# As the builders do when they are given weights: otherwise the published figures are of another
# model. init_weights only silences a warning about its coming default.
_AS_PUBLISHED: Mapping[str, Mapping[str, bool]] = {
    "googlenet": {"aux_logits": False, "transform_input": True, "init_weights": True},
    "inception_v3": {"aux_logits": True, "transform_input": True, "init_weights": True},
}


@dataclass(frozen=True)
class Published:
    """What torchvision says of an architecture, and the input that it says it of."""

    call: Call
    gmacs: float | None
    """Billions of multiply-accumulates of one item of ``call``; None where they depend on what is
    in the image, or on a size that is not told."""
    parameters: int | None


def architecture_names() -> tuple[str, ...]:
    """Name the architectures that can be loaded."""
    return tuple(name for name in models.list_models() if task_of(name) not in LATER)


def all_names() -> tuple[str, ...]:
    """Name every architecture that torchvision has, also those that cannot be loaded."""
    return tuple(models.list_models())


def task_of(name: str) -> Task:
    """Say what an architecture is for."""
    folder = models.get_model_builder(name).__module__.split(".")[2]
    tasks: dict[str, Task] = {
        "segmentation": "segmentation",
        "detection": "detection",
        "video": "video",
        "optical_flow": "optical_flow",
        "quantization": "quantization",
    }
    return tasks.get(folder, "classification")


def reference_weights(name: str) -> WeightsEnum | None:
    """Give the published weights whose image size is the architecture's own.

    The first set, or where all came later, the one for the smallest images: the others enlarge
    the model for fine-tuning (``IMAGENET1K_SWAG_E2E_V1``).
    """
    entries = list(models.get_model_weights(name))
    first = [entry for entry in entries if entry.name.endswith("1K_V1")]
    entries = first or sorted(entries, key=lambda entry: _crop_size(entry) or 0)
    return entries[0] if entries else None


def published(name: str, entry: WeightsEnum | None, model: torch.nn.Module) -> Published | None:
    """Give what is published with these weights; None where there are none."""
    if entry is None:
        return None
    task = task_of(name)
    wish = _wish(name, task, entry)
    names = forward_parameters(model).positional
    count = 2 if task == "optical_flow" else 1
    is_sized = task not in ("detection", "optical_flow")
    return Published(
        call=Call(tuple((parameter, wish) for parameter in names[:count])),
        gmacs=entry.meta.get("_ops") if is_sized else None,
        # Detectors with published weights have their norms frozen, which are no parameters then.
        parameters=entry.meta.get("num_params") if task != "detection" else None,
    )


def build(
    name: str, keywords: Mapping[str, object], entry: WeightsEnum | None = None
) -> torch.nn.Module:
    """Build an architecture as its published weights do.

    Args:
        name: One of ``architecture_names``.
        keywords: The user's own, for the builder.
        entry: Weights to load, downloaded where they are not kept from before; None for none.

    Raises:
        LoadError: The builder does not take the keywords, or the weights cannot be had.
    """
    builder = models.get_model_builder(name)
    own: dict[str, object] = {}
    if entry is None:
        known = inspect.signature(builder).parameters
        own = dict(_AS_PUBLISHED.get(name, {}))
        own |= {"weights_backbone": None} if "weights_backbone" in known else {}
        own |= {"aux_loss": True} if "aux_loss" in known else {}
    try:
        model = builder(weights=entry, progress=False, **{**own, **keywords})
    except (TypeError, ValueError, KeyError, AssertionError, OSError, RuntimeError) as error:
        if keywords:
            raise wrong_request(
                f"{name} cannot be built with these --args: {reason(error)}",
                (f"tui-profiler {name}", "without --args"),
            ) from error
        if entry is None:
            raise
        raise model_failed(
            f"the weights {entry.name} of {name} cannot be had: {reason(error)}",
            (f"tui-profiler {name}", "random weights, no download"),
            error=error,
        ) from error
    assert isinstance(model, torch.nn.Module)
    return model


def _crop_size(entry: WeightsEnum) -> int | None:
    """Give the side of the images that weights are made for; None where they take any."""
    transforms = entry.transforms()
    sizes = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    return int(sizes[-1]) if sizes else None


def _wish(name: str, task: Task, entry: WeightsEnum) -> Wish:
    side = _crop_size(entry)
    match task:
        case "video":
            return Wish((1, 3, _FRAMES, side or 112, side or 112), _TRANSFORMS)
        case "detection":
            square = next((size for size in (320, 300) if str(size) in name), None)
            height, width = (480, 640) if square is None else (square, square)
            why = "a usual photograph" if square is None else "the size in its name"
            return Wish((1, 3, height, width), why, is_list=True)
        case "optical_flow":
            return Wish((1, 3, 128, 128), "the smallest image it takes")
        case _:
            return image_wishes(3, _TRANSFORMS, (side or 224,))[0]
