"""torchvision's architectures: what there is, how each is built, what is published of it.

Figures of one architecture differ between its published weights, because some were trained at
another image size. ``reference_weights`` picks one entry, and both the input and the published
figures are taken from it, so that they belong together.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import Literal, TypeAlias

import torch
from torchvision import models
from torchvision.models import WeightsEnum
from torchvision.ops.misc import FrozenBatchNorm2d

from tui_profiler.probe.load.common.errors import model_failed, reason, wrong_request
from tui_profiler.probe.load.common.input_tensors import Call, Wish
from tui_profiler.probe.load.common.layers import image_wishes
from tui_profiler.probe.load.common.signature import forward_parameters

Task: TypeAlias = Literal[
    "classification", "segmentation", "detection", "video", "optical_flow", "quantization"
]

_TRANSFORMS = "its transforms"
_FRAMES = 16
"""Frames of a clip: with these the operations are those that torchvision publishes."""
_FLOW_SIDE = 512
"""Likewise the side of two images between which the flow is found."""

# As the builders do when they are given weights: otherwise the published figures are of another
# model. init_weights only silences a warning about its coming default.
_GOOGLENET = {"aux_logits": False, "transform_input": True, "init_weights": True}
_INCEPTION = {"aux_logits": True, "transform_input": True, "init_weights": True}
_AS_PUBLISHED: Mapping[str, Mapping[str, bool]] = {
    "googlenet": _GOOGLENET,
    "inception_v3": _INCEPTION,
    "quantized_googlenet": _GOOGLENET,
    "quantized_inception_v3": _INCEPTION,
}
_WITH_FROZEN_NORMS = frozenset(
    {
        "fasterrcnn_mobilenet_v3_large_320_fpn",
        "fasterrcnn_mobilenet_v3_large_fpn",
        "fasterrcnn_resnet50_fpn",
        "fcos_resnet50_fpn",
        "keypointrcnn_resnet50_fpn",
        "maskrcnn_resnet50_fpn",
        "retinanet_resnet50_fpn",
    }
)
"""Detectors whose builders freeze the batch norms of the backbone when they are given weights."""


@dataclass(frozen=True)
class Published:
    """What torchvision says of an architecture, and the input that it says it of."""

    call: Call
    gmacs: float | None
    """Billions of multiply-accumulates of one item of ``call``; None where they depend on what is
    in the image: on how many proposals a detector makes."""
    parameters: int | None


def architecture_names() -> tuple[str, ...]:
    """Name every architecture."""
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
    wish = _wish(task, entry, model)
    names = forward_parameters(model).positional
    count = 2 if task == "optical_flow" else 1
    has_proposals = hasattr(model, "roi_heads")
    return Published(
        call=Call(tuple((parameter, wish) for parameter in names[:count])),
        gmacs=None if has_proposals else entry.meta.get("_ops"),
        parameters=entry.meta.get("num_params"),
    )


def is_quantised(
    name: str, keywords: Mapping[str, object], entry: WeightsEnum | None = None
) -> bool:
    """Say whether an architecture is built with whole numbers for weights, not only made for it."""
    wanted = keywords.get("quantize", entry is not None)
    return task_of(name) == "quantization" and bool(wanted)


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
    own = _own_keywords(name, entry)
    try:
        with warnings.catch_warnings():
            # Of torch.ao.quantization, which torchvision calls: nothing that the user could change.
            warnings.simplefilter("ignore")
            model = builder(weights=entry, progress=False, **{**own, **keywords})
    except UnpicklingError as error:
        raise model_failed(
            f"the weights of {name} in the cache cannot be read without running code:"
            f" {reason(error)}",
            (f"tui-profiler {name}", "random weights, no download"),
            error=error,
        ) from error
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
    if entry is None and name in _WITH_FROZEN_NORMS:
        _freeze_norms(model)
    return model


def _own_keywords(name: str, entry: WeightsEnum | None) -> dict[str, object]:
    """Give what makes a builder build the model that the published figures are of."""
    if entry is not None:
        # The weights of a quantised model are whole numbers, and fit nothing else.
        return {"quantize": True} if task_of(name) == "quantization" else {}
    known = inspect.signature(models.get_model_builder(name)).parameters
    own: dict[str, object] = dict(_AS_PUBLISHED.get(name, {}))
    own |= {"weights_backbone": None} if "weights_backbone" in known else {}
    return own | ({"aux_loss": True} if "aux_loss" in known else {})


def _freeze_norms(model: torch.nn.Module) -> None:
    """Put ``FrozenBatchNorm2d`` in place of every batch norm, as published detectors have it."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is torch.nn.BatchNorm2d:
                setattr(module, name, FrozenBatchNorm2d(child.num_features, child.eps))


def _crop_size(entry: WeightsEnum) -> int | None:
    """Give the side of the images that weights are made for; None where they take any."""
    transforms = entry.transforms()
    sizes = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    return int(sizes[-1]) if sizes else None


def _wish(task: Task, entry: WeightsEnum, model: torch.nn.Module) -> Wish:
    side = _crop_size(entry)
    match task:
        case "video":
            return Wish((1, 3, _FRAMES, side or 112, side or 112), _TRANSFORMS)
        case "detection":
            height, width = _image_of_detector(model)
            why = "the size that its transform makes of images"
            return Wish((1, 3, height, width), why, is_list=True)
        case "optical_flow":
            return Wish(
                (1, 3, _FLOW_SIDE, _FLOW_SIDE), "the size that its figures are published for"
            )
        case _:
            return image_wishes(3, _TRANSFORMS, (side or 224,))[0]


def _image_of_detector(model: torch.nn.Module) -> tuple[int, int]:
    """Give the (height, width) of an image that a detector's own transform leaves as large."""
    transform = getattr(model, "transform", None)
    fixed = getattr(transform, "fixed_size", None)
    if fixed is not None:
        width, height = fixed
        return int(height), int(width)
    sides = getattr(transform, "min_size", (800,))
    return int(sides[-1]), int(sides[-1])
