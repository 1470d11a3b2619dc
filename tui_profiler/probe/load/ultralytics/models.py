"""YOLO models built from their YAML: ``yolov8n.yaml``, or a file of the user's own.

1. Nothing is downloaded but by ``--weights DEFAULT``, and a checkpoint of Ultralytics', which is a
   pickled model, is read only with ``--trust``.
2. Layers that would fetch weights for themselves (``TorchVision``) get random ones.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tui_profiler.archive import Found
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import model_failed, reason, wrong_request
from tui_profiler.probe.load.common.factory import parse_arguments
from tui_profiler.probe.load.common.initialisation import initialiser, without_random_values
from tui_profiler.probe.load.common.input_tensors import Call, Candidates, Wish
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.common.settings import Settings, place
from tui_profiler.probe.load.files.inspection import imports
from tui_profiler.probe.load.files.state_dict import bind_file, file_of_weights, look_into_weights
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.load.ultralytics.library import downloaded, ultralytics_tasks
from tui_profiler.probe.load.ultralytics.yaml import (
    Architecture,
    check_layers,
    read_architecture,
    rows,
)
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

# Which class of ultralytics.nn.tasks stands around which last layer; it decides the same way
# (guess_model_task), and by the name of the file for the open-vocabulary ones.
_CLASSES: Mapping[str, str] = {
    "Classify": "ClassificationModel",
    "Depth": "DepthModel",
    "Detect": "DetectionModel",
    "OBB": "OBBModel",
    "OBB26": "OBBModel",
    "Pose": "PoseModel",
    "Pose26": "PoseModel",
    "RTDETRDecoder": "RTDETRDetectionModel",
    "Segment": "SegmentationModel",
    "Segment26": "SegmentationModel",
    "SemanticSegment": "SemanticSegmentationModel",
    "WorldDetect": "WorldModel",
    "YOLOEDetect": "YOLOEModel",
    "YOLOESegment": "YOLOESegModel",
    "YOLOESegment26": "YOLOESegModel",
    "v10Detect": "DetectionModel",
}
_SIDE, _SIDE_OF_CLASSIFIERS = 640, 224
"""Source: ``imgsz`` in ultralytics' ``cfg/default.yaml`` and, of classifiers, its documentation."""
_KEYWORDS = ("nc", "ch")
_INNER_NAMES = ("ema", "model")

_Build = Callable[[], torch.nn.Module]


def load_ultralytics_yaml(
    spec: LoadSpec, settings: Settings, tell: Callable[[Found], None]
) -> Loaded:
    """Build a YOLO model from its YAML.

    Args:
        spec: what the user typed.
        settings: of this run.
        tell: is given what a look into trusted weights found, before they are loaded.

    Raises:
        LoadError: ultralytics or the file is not there, it names something else than layers, or
            what goes with it cannot be had.
    """
    keywords = _keywords(spec)
    architecture = read_architecture(spec)
    file = _file_of_values(spec, architecture)
    tasks = ultralytics_tasks()
    if not architecture.is_packaged:
        check_layers(architecture, tasks, spec.model)

    def build() -> torch.nn.Module:
        return _built(architecture, tasks, keywords, spec.model)

    with without_random_values():
        model = build()
    side, why = _side(architecture)
    weights, initialise = "random", None
    if file is not None:
        weights = file.name if spec.weights.upper() == "DEFAULT" else spec.weights
        _bind(file, weights, model, spec, tell)
    elif settings.device.type != "meta":
        initialise = initialiser(build, settings)

    def made(model: torch.nn.Module, settings: Settings) -> Sequence[Inputs]:
        if spec.inputs:
            return candidates_for(model, None, spec, settings)
        wish = Wish((1, keywords.get("ch", 3), side, side), why)
        return Candidates((Call((("x", wish),)),), settings)

    return Loaded(
        model=place(model, settings),
        facts_source="ultralytics",
        weights=weights,
        candidates=made(model, settings),
        initialise=initialise,
        published_gmacs=None,
        published_parameters=None,
        remake=lambda model, batch: made(model, replace(settings, batch=batch)),
    )


def _keywords(spec: LoadSpec) -> dict[str, int]:
    positional, keywords = parse_arguments(spec.arguments)
    numbers = {key: value for key, value in keywords.items() if type(value) is int and value > 0}
    if positional or len(numbers) < len(keywords) or any(key not in _KEYWORDS for key in numbers):
        raise wrong_request(
            f"{spec.model} takes nc (classes) and ch (channels), two whole numbers",
            ("--args '{\"nc\": 10}'", "ten classes"),
        )
    return numbers


def _file_of_values(spec: LoadSpec, architecture: Architecture) -> Path | None:
    """Give the file of weights; Ultralytics' own are fetched only here."""
    if not spec.weights:
        return None
    if spec.weights.upper() != "DEFAULT":
        path = file_of_weights(spec.weights, spec.folder)
        if path is not None:
            return path
        raise wrong_request(
            f'--weights "{spec.weights}": there is no such file',
            ("--weights DEFAULT", "downloads Ultralytics' own, once"),
        )
    name = f"{architecture.stem}.pt"
    if not spec.trust:
        raise wrong_request(
            f"{name} as Ultralytics publishes it is a pickled model: loading it runs code",
            (f"tui-profiler {spec.model} --weights DEFAULT --trust", "if you trust them"),
        )
    try:
        return downloaded(name)
    except Exception as error:
        raise model_failed(
            f"the weights {name} cannot be had: {reason(error)}",
            (f"tui-profiler {spec.model}", "random weights, no download"),
            error=error,
        ) from error


def _built(
    architecture: Architecture, tasks: Any, keywords: Mapping[str, int], shown: str
) -> torch.nn.Module:
    content = copy.deepcopy(architecture.content)
    for row in rows(content):
        if row[2] == "TorchVision":
            row[3][2:3] = [None]  # which weights it fetches; its own choice where there is nothing
    last = str(content["head"][-1][2])
    made_by = getattr(tasks, _CLASSES.get(last, ""), None)
    if made_by is None:
        raise model_failed(f"{shown}: a model that ends in {last[:60]} is not known here")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = made_by(content, verbose=False, **keywords)
    except Exception as error:
        raise model_failed(f"{shown} cannot be built: {reason(error)}", error=error) from error
    assert isinstance(model, torch.nn.Module)
    return model


def _side(architecture: Architecture) -> tuple[int, str]:
    """Give the side of its images, and why."""
    if str(architecture.content["head"][-1][2]) == "Classify":
        return _SIDE_OF_CLASSIFIERS, "Ultralytics' size for classifiers"
    return _SIDE, "Ultralytics' default imgsz"


def _bind(
    file: Path, shown: str, model: torch.nn.Module, spec: LoadSpec, tell: Callable[[Found], None]
) -> None:
    """Put values into a model: from a state dict, or from a checkpoint where that is trusted.

    What needs no trust is loaded without it.
    """
    found = look_into_weights(file, shown)
    if not found.untrusted_globals:
        bind_file(file, shown, model, spec.model)
        return
    if not spec.trust:
        raise model_failed(
            f"{shown} is a pickled model, and loading it runs code: {imports(found)}",
            (f"tui-profiler {spec.model} --weights {shown} --trust", "if you trust who made it"),
        )
    tell(found)
    try:
        content = torch.load(file, map_location="cpu", weights_only=False)
    except Exception as error:
        raise model_failed(f"{shown} cannot be read: {reason(error)}", error=error) from error
    inner = content
    if isinstance(content, Mapping):
        inner = next((content[name] for name in _INNER_NAMES if content.get(name)), content)
    state = inner.float().state_dict() if isinstance(inner, torch.nn.Module) else inner
    try:
        model.load_state_dict(state)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise model_failed(
            f"{shown} does not fit {spec.model}: {reason(error)}", error=error
        ) from error
