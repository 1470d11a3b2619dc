"""torchvision's architectures: what there is, how each is built, what is published of it.

Figures of one architecture differ between its published weights, because some were trained at
another image size. ``reference_weights`` picks one entry, and both the input and the published
figures are taken from it, so that they belong together.

The model is built without values for the trace, which needs only shapes, and built again with
values before anything is computed.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pickle import UnpicklingError
from typing import Literal, TypeAlias, get_args

import torch
from torchvision import models
from torchvision.models import WeightsEnum
from torchvision.ops.misc import FrozenBatchNorm2d

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import downloads, errors, loaded_model
from tui_profiler.probe.load.common.initialisation import initialiser, seeded, without_random_values
from tui_profiler.probe.load.common.safe_reading import weights_only
from tui_profiler.probe.load.files.state_dict import bind_file, file_of_weights
from tui_profiler.probe.load.inputs import input_tensors
from tui_profiler.probe.load.inputs.guesses import guesses, image_wishes
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.system.demos import PREFIX, demo_names

_Task: TypeAlias = Literal[
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
class _Published:
    """What torchvision says of an architecture, and the input that it says it of."""

    call: input_tensors.Call
    gmacs: float | None
    """Billions of multiply-accumulates of one item of ``call``; None where they depend on what is
    in the image: on how many proposals a detector makes."""
    parameters: int | None


def architecture_names() -> tuple[str, ...]:
    """Name every architecture."""
    return tuple(models.list_models())


def task_of(name: str) -> _Task:
    """Say what an architecture is for."""
    folder = models.get_model_builder(name).__module__.split(".")[2]
    return next((task for task in get_args(_Task) if task == folder), "classification")


def reference_weights(name: str) -> WeightsEnum | None:
    """Return the published weights whose image size is the architecture's own.

    The first set, or where all came later, the one for the smallest images: the others enlarge
    the model for fine-tuning (``IMAGENET1K_SWAG_E2E_V1``).
    """
    entries = list(models.get_model_weights(name))
    first = [entry for entry in entries if entry.name.endswith("1K_V1")]
    entries = first or sorted(entries, key=lambda entry: _crop_size(entry) or 0)
    return entries[0] if entries else None


def published(name: str, entry: WeightsEnum | None, model: torch.nn.Module) -> _Published | None:
    """Return what is published with these weights; None where there are none."""
    if entry is None:
        return None
    task = task_of(name)
    wish = _wish(task, entry, model)
    names = input_tensors.forward_parameters(model).positional
    count = 2 if task == "optical_flow" else 1
    has_proposals = hasattr(model, "roi_heads")
    return _Published(
        call=input_tensors.Call(tuple((parameter, wish) for parameter in names[:count])),
        gmacs=None if has_proposals else entry.meta.get("_ops"),
        parameters=entry.meta.get("num_params"),
    )


def _is_quantised(
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
    """
    builder = models.get_model_builder(name)
    own = _own_keywords(name, entry)
    try:
        with warnings.catch_warnings():
            # Of torch.ao.quantization, which torchvision calls: nothing that the user could change.
            warnings.simplefilter("ignore")
            model = builder(weights=entry, progress=False, **{**own, **keywords})
    except UnpicklingError as error:
        raise errors.model_failed(
            f"the weights of {name} in the cache cannot be read without running code:"
            f" {errors.reason(error)}",
            (f"tui-profiler {name}", "random weights, no download"),
            error=error,
        ) from error
    except (TypeError, ValueError, KeyError, AssertionError, OSError, RuntimeError) as error:
        if keywords:
            raise errors.wrong_request(
                f"{name} cannot be built with these --args: {errors.reason(error)}",
                (f"tui-profiler {name}", "without --args"),
            ) from error
        if entry is None:
            raise
        raise errors.model_failed(
            f"the weights {entry.name} of {name} are not available: {errors.reason(error)}",
            (f"tui-profiler {name}", "random weights, no download"),
            error=error,
        ) from error
    assert isinstance(model, torch.nn.Module)
    if entry is None and name in _WITH_FROZEN_NORMS:
        _freeze_norms(model)
    return model


def _own_keywords(name: str, entry: WeightsEnum | None) -> dict[str, object]:
    """Return what makes a builder build the model that the published figures are of."""
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
    """Return the side of the images that weights are made for; None where they take any."""
    transforms = entry.transforms()
    sizes = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    return int(sizes[-1]) if sizes else None


def _wish(task: _Task, entry: WeightsEnum, model: torch.nn.Module) -> input_tensors.ForwardArgument:
    side = _crop_size(entry)
    match task:
        case "video":
            return input_tensors.ForwardArgument(
                (1, 3, _FRAMES, side or 112, side or 112), _TRANSFORMS
            )
        case "detection":
            height, width = _image_of_detector(model)
            why = "the size that its transform makes of images"
            return input_tensors.ForwardArgument((1, 3, height, width), why, is_list=True)
        case "optical_flow":
            return input_tensors.ForwardArgument(
                (1, 3, _FLOW_SIDE, _FLOW_SIDE), "the size that its figures are published for"
            )
        case _:
            return image_wishes(3, _TRANSFORMS, (side or 224,))[0]


def _image_of_detector(model: torch.nn.Module) -> tuple[int, int]:
    """Return the (height, width) of an image that a detector's own transform leaves as large."""
    transform = getattr(model, "transform", None)
    fixed = getattr(transform, "fixed_size", None)
    if fixed is not None:
        width, height = fixed
        return int(height), int(width)
    sides = getattr(transform, "min_size", (800,))
    return int(sides[-1]), int(sides[-1])


def load_named(spec: LoadSpec, settings: loaded_model.Settings) -> loaded_model.Loaded:
    """Load an architecture by its name."""
    name = _checked_name(spec)
    keywords = _keywords(spec.arguments, name)
    entry, bind = _weights(spec, name)
    if entry is not None:
        _fetch(entry, spec)
    # Weights are made whole numbers by what they are: their values must be there.
    has_values = _is_quantised(name, keywords, entry)
    reading = nullcontext() if spec.trust else weights_only()
    with reading, seeded() if has_values else without_random_values():
        model = build(name, keywords, entry)
    if bind is not None:
        bind(model)
    model = loaded_model.place(model, settings)
    known = published(name, entry or reference_weights(name), model)
    initialise = None
    if not (entry or bind or has_values or settings.device.type == "meta"):
        initialise = initialiser(partial(build, name, keywords), settings)
    found = loaded_model.loaded(
        model,
        "torchvision",
        spec.weights if bind else f"{entry.name}" if entry else "random",
        lambda model, settings: _candidates(model, known, keywords, spec, settings),
        settings,
        initialise=initialise,
    )
    if known is None or keywords:
        return found
    gmacs = None if spec.inputs else known.gmacs
    return replace(found, published_gmacs=gmacs, published_parameters=known.parameters)


def _checked_name(spec: LoadSpec) -> str:
    name = spec.model
    folded = name.casefold()
    if folded in architecture_names():
        return folded
    raise _unknown(name)


def _unknown(name: str) -> errors.LoadError:
    demos = [PREFIX + demo for demo in demo_names()]
    likely = errors.nearest(name, (*architecture_names(), *demos))
    likely += [PREFIX + demo for demo in demo_names() if demo == name.casefold()]
    remedies = [(f"tui-profiler {near}", "a name like it") for near in dict.fromkeys(likely)]
    if "." in name and all(part.isidentifier() for part in name.split(".")):
        remedies.append((f"tui-profiler {name}:build", "takes build from that Python module"))
    return errors.wrong_request(
        f'no model is named "{name}"',
        *remedies,
        ("tui-profiler models", "lists the names there are"),
    )


def _keywords(arguments: str, name: str) -> dict[str, object]:
    positional, keywords = loaded_model.parse_arguments(arguments)
    reserved = [key for key in ("weights", "progress") if key in keywords]
    if positional or reserved:
        raise errors.wrong_request(
            f"{name} takes keywords only, and its weights through --weights",
            ("--args '{\"num_classes\": 10}'", "an object of keywords"),
        )
    return keywords


def _weights(
    spec: LoadSpec, name: str
) -> tuple[WeightsEnum | None, Callable[[torch.nn.Module], None] | None]:
    """Return the published weights, or what binds the user's own; neither where none were asked."""
    text = spec.weights
    if not text:
        return None, None
    path = file_of_weights(text, spec.folder)
    if path is not None:
        return None, lambda model: bind_file(path, text, model, name)
    return _entry(text, name), None


def _entry(text: str, name: str) -> WeightsEnum:
    entries = models.get_model_weights(name)
    names = [entry.name for entry in entries]
    wanted = text.rpartition(".")[2].upper()
    if wanted == "DEFAULT":
        default: WeightsEnum = entries.DEFAULT
        return default
    for entry in entries:
        if entry.name == wanted:
            found: WeightsEnum = entry
            return found
    raise errors.wrong_request(
        f'{name} has no weights "{text}"; it has {errors.in_words(names)}',
        *(
            (f"--weights {near}", "downloads them, once")
            for near in errors.nearest(text, names) or names[:1]
        ),
    )


def _fetch(entry: WeightsEnum, spec: LoadSpec) -> None:
    download = downloads.download_of(spec)
    if download is None or downloads.file_of_entry(entry).exists():
        return
    try:
        downloads.fetched(download)
    except downloads.DownloadError as error:
        raise errors.model_failed(
            f"the weights {entry.name} of {download.name} are not available: {error}",
            (f"tui-profiler {download.name}", "random weights, no download"),
            error=error,
        ) from error


def _candidates(
    model: torch.nn.Module,
    known: _Published | None,
    keywords: Mapping[str, object],
    spec: LoadSpec,
    settings: loaded_model.Settings,
) -> Sequence[Inputs]:
    if spec.inputs or known is None:
        return candidates_for(model, None, spec, settings)
    # The user's keywords may have changed what it takes.
    others = guesses(model) if keywords.keys() - {"quantize"} else ()
    return input_tensors.Candidates((known.call, *others), settings)
