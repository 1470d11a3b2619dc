"""YOLO models of Ultralytics, built from their YAML: ``yolov8n.yaml``, or a file of the user's own.

1. Nothing is downloaded but by ``--weights DEFAULT``, and a checkpoint of Ultralytics', which is a
   pickled model, is read only with ``--trust``.
2. Layers that would fetch weights for themselves (``TorchVision``) get random ones.
3. A file of anyone's may name only layers, and an activation only in the documented form:
   ultralytics looks names up and, for ``activation``, evaluates text. What is checked here runs
   nothing.
4. The library is imported so that nothing else is touched. On its own it makes a settings file in
   the user's home, asks the network whether it is online, wraps ``torch.save``, sets how torch and
   numpy print and how OpenCV and OpenMP count threads, and would install what it misses. What must
   be said before its import is said by environment variables; what it changed is put back after it.
"""

import ast
import copy
import importlib
import importlib.util
import inspect
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tui_profiler.archive import Found
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import loaded_model
from tui_profiler.probe.load.common.errors import model_failed, nearest, reason, wrong_request
from tui_profiler.probe.load.common.initialisation import initialiser, without_random_values
from tui_profiler.probe.load.common.optional_libraries import absent, library, not_imported
from tui_profiler.probe.load.files.inspection import imports
from tui_profiler.probe.load.files.state_dict import (
    bind_file,
    file_of_weights,
    structure_of_weights,
)
from tui_profiler.probe.load.inputs.input_candidates import candidates_for
from tui_profiler.probe.load.inputs.input_tensors import Call, Candidates, ForwardArgument
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

NAME = "ultralytics"

_FROM_TORCH = ("save", "set_printoptions")


def ultralytics_tasks(*, offline: bool = True) -> Any:
    """Return ``ultralytics.nn.tasks``, the module that builds its models.

    Args:
        offline: Whether its first import, which decides for the whole process, is told so.
    """
    if NAME not in sys.modules:
        with _kept_as_it_is(), tempfile.TemporaryDirectory(prefix="tui-profiler-") as folder:
            os.environ |= {
                "YOLO_CONFIG_DIR": folder,
                "YOLO_AUTOINSTALL": "false",
                "YOLO_VERBOSE": "false",
            } | ({"YOLO_OFFLINE": "true"} if offline else {})
            library(NAME, "YOLO models", NAME)
            return _tasks()
    return _tasks()


def _tasks() -> Any:
    try:
        return importlib.import_module("ultralytics.nn.tasks")
    except ImportError as error:
        raise not_imported(NAME, error) from error


@contextmanager
def _kept_as_it_is() -> Iterator[None]:
    """Put back what importing ultralytics changes outside itself."""
    environment = dict(os.environ)
    kept = {name: getattr(torch, name) for name in _FROM_TORCH}
    torch.set_printoptions = lambda *_, **__: None
    threads = sys.modules["cv2"].getNumThreads() if "cv2" in sys.modules else -1
    # What it prints on its first import is of its settings file, which is not kept.
    try:
        with np.printoptions():
            yield
    finally:
        for name, value in kept.items():
            setattr(torch, name, value)
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(threads)
        os.environ.clear()
        os.environ.update(environment)


def _downloaded(file_name: str) -> Path:
    """Fetch published weights into torch's own cache, where they are not there already.

    Raises:
        OSError: They cannot be had.
    """
    ultralytics_tasks(offline=False)
    downloads: Any = importlib.import_module("ultralytics.utils.downloads")
    path = Path(torch.hub.get_dir()) / "checkpoints" / file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    downloads.attempt_download_asset(path)
    if not path.is_file():
        raise FileNotFoundError(f"Ultralytics publishes no {file_name}, or cannot be reached")
    return path


_SUFFIXES = (".yaml", ".yml")

_MOST_BYTES = 1 << 20
_MOST_VALUES = 100_000
"""Each counted as often as aliases repeat it."""
_SCALE = re.compile(r"yolo(?:e-)?v?\d+([nslmx])")
_VERSION = re.compile(r"(yolo(?:e-)?v?\d+)(.*)$")
_SCALED = re.compile(r"(\d+)([nslmx])(.+)?$")
_P6 = re.compile(r"(yolov[58][nsmlx])6$")
_SCALES = re.compile(r"^scales:.*\n((?:[ \t]*#.*\n|[ \t]+\w+:.*\n)+)", re.MULTILINE)
_SCALE_NAME = re.compile(r"^[ \t]+([nslmx]):", re.MULTILINE)
_LAYERS = ("torch.nn.", "torchvision.ops.", "ultralytics.nn.modules.")
"""Modules of Python whose classes a file may name."""
_OF_TORCHVISION = "TorchVision"
_ACTIVATION = re.compile(r"(?:torch\.)?nn\.(\w+)\((.*)\)", re.DOTALL)


@dataclass(frozen=True)
class _Architecture:
    """A YAML that was found and read."""

    stem: str
    """Its name without the suffix, which tells the scale: ``yolov8n``."""
    content: dict[str, Any]
    """As ultralytics takes it, its scale included."""
    is_packaged: bool
    """It comes with ultralytics, and is as safe as that."""


@lru_cache(maxsize=1)
def yaml_names() -> tuple[str, ...]:
    """Name the architectures that come with ultralytics, each of its scales; none without it."""
    names: list[str] = []
    for stem, path in sorted(_packaged().items()):
        found = _SCALES.search(path.read_text(encoding="utf-8"))
        scales = _SCALE_NAME.findall(found[1]) if found else []
        digits = _VERSION.match(stem)
        if digits is None or not scales or _SCALE.match(stem):
            names.append(f"{stem}.yaml")
        else:
            names += [f"{digits[1]}{scale}{digits[2]}.yaml" for scale in scales]
    return tuple(names)


def _read_architecture(spec: LoadSpec) -> _Architecture:
    """Read the YAML that the user named: their own file, or one that comes with ultralytics."""
    path = Path(spec.folder or ".") / Path(spec.model).expanduser()
    stem = _P6.sub(r"\1-p6", path.stem)
    own = path.is_file()
    if not own:
        packaged = _packaged()
        if not packaged:
            raise absent(NAME, "YOLO models", NAME)
        found = packaged.get(stem) or packaged.get(_SCALED.sub(r"\1\3", stem))
        if found is None or "/" in spec.model:
            raise _unknown(spec.model)
        path = found
    content = _read(path, spec.model)
    scale = _SCALE.search(stem)
    if scale is not None and scale[1] in (content.get("scales") or {}):
        content["scale"] = scale[1]
    content["yaml_file"] = path.name
    return _Architecture(stem, content, is_packaged=not own)


def _check_layers(architecture: _Architecture, tasks: Any, shown: str) -> None:
    activation = architecture.content.get("activation")
    if activation is not None and not _is_activation(activation):
        raise model_failed(f"{shown}: its activation is not of the form nn.ReLU()")
    for row in _rows(architecture.content):
        name = str(row[2])
        home, _, inner = name.rpartition(".")
        owner: Any = {"": tasks, "nn": nn}.get(home)
        if home == "torchvision.ops":
            owner = importlib.import_module("torchvision.ops")
        layer = getattr(owner, inner, None)
        # Whole models of ultralytics are modules too, and evaluate a file that they are given.
        if not (
            isinstance(layer, type)
            and issubclass(layer, nn.Module)
            and layer.__module__.startswith(_LAYERS)
        ):
            raise model_failed(f"{shown}: {name[:60]} is not a layer of torch or ultralytics")
        if name == _OF_TORCHVISION:
            _check_torchvision(row[3], shown)


def _check_torchvision(arguments: list[Any], shown: str) -> None:
    """Refuse a model of torchvision that would fetch weights, if only those of its backbone."""
    models: Any = importlib.import_module("torchvision.models")
    name = arguments[1] if len(arguments) > 1 else None
    try:
        builder = models.get_model_builder(name)
    except (ValueError, AttributeError):
        raise model_failed(f"{shown}: {str(name)[:60]!r} is not a torchvision model") from None
    if "weights_backbone" in inspect.signature(builder).parameters:
        raise model_failed(f"{shown}: {str(name)[:60]} would download the weights of its backbone")


def _rows(content: dict[str, Any]) -> list[Any]:
    """Return its layers, each as [from, number, module, arguments]."""
    return [*content["backbone"], *content["head"]]


def _is_activation(text: object) -> bool:
    """Say whether a text is one call of a layer of torch's with plain values."""
    found = _ACTIVATION.fullmatch(text.strip()) if isinstance(text, str) else None
    layer = getattr(nn, found[1], None) if found else None
    if found is None or not (isinstance(layer, type) and issubclass(layer, nn.Module)):
        return False
    try:
        call = ast.parse(f"f({found[2]})", mode="eval").body
        # ``f(…)(…)`` is a call as well, whose first arguments would not be looked at.
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            return False
        for value in (*call.args, *(keyword.value for keyword in call.keywords)):
            ast.literal_eval(value)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False
    return True


@lru_cache(maxsize=1)
def _packaged() -> dict[str, Path]:
    """Find the files that come with ultralytics, by their names without suffix; imports nothing."""
    found = importlib.util.find_spec(NAME)
    if found is None or found.origin is None:
        return {}
    folder = Path(found.origin).parent / "cfg" / "models"
    return {path.stem: path for path in folder.rglob("*.yaml")}


def _read(path: Path, shown: str) -> dict[str, Any]:
    try:
        yaml: Any = importlib.import_module("yaml")  # comes with ultralytics
    except ModuleNotFoundError:
        raise absent(NAME, "YOLO models", NAME) from None
    if path.stat().st_size > _MOST_BYTES:
        raise model_failed(f"{shown} is too large for a model's YAML")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise model_failed(f"{shown} cannot be read: {reason(error)}") from error
    if not _is_architecture(content):
        raise model_failed(
            f"{shown} is not the YAML of a YOLO model: it needs nc, and a backbone and a head whose"
            " rows are [from, number, module, arguments]",
            ("tui-profiler yolov8n.yaml", "one that comes with ultralytics"),
        )
    known: dict[str, Any] = content
    return known


def _is_architecture(content: object) -> bool:
    if not isinstance(content, dict) or _repeats(content):
        return False
    parts = (content.get("backbone"), content.get("head"))
    return all(
        isinstance(part, list)
        and part
        and all(
            isinstance(row, list) and len(row) == 4 and isinstance(row[3], list) for row in part
        )
        for part in parts
    ) and isinstance(content.get("nc", 1), int)


def _repeats(content: object) -> bool:
    """Say whether aliases make a few lines of a file more values than any model's."""
    pending, left = [content], _MOST_VALUES
    while pending:
        value = pending.pop()
        inner = list(value.values()) if isinstance(value, dict) else value
        if isinstance(inner, list):
            left -= len(inner)
            if left < 0:
                return True
            pending += inner
    return False


def _unknown(shown: str) -> Exception:
    names = yaml_names()
    return wrong_request(
        f"there is no file {shown}, nor does one of that name come with ultralytics",
        *((f"tui-profiler {near}", "comes with it") for near in nearest(shown, names) or names[:1]),
        ("tui-profiler models yolo", "lists those that do"),
    )


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
    spec: LoadSpec, settings: loaded_model.Settings, tell: Callable[[Found], None]
) -> loaded_model.Loaded:
    """Build a YOLO model from its YAML."""
    keywords = _keywords(spec)
    architecture = _read_architecture(spec)
    file = _file_of_values(spec, architecture)
    tasks = ultralytics_tasks()
    if not architecture.is_packaged:
        _check_layers(architecture, tasks, spec.model)

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

    def made(model: torch.nn.Module, settings: loaded_model.Settings) -> Sequence[Inputs]:
        if spec.inputs:
            return candidates_for(model, None, spec, settings)
        wish = ForwardArgument((1, keywords.get("ch", 3), side, side), why)
        return Candidates((Call((("x", wish),)),), settings)

    placed = loaded_model.place(model, settings)
    return loaded_model.loaded(
        placed, "ultralytics", weights, made, settings, initialise=initialise
    )


def _keywords(spec: LoadSpec) -> dict[str, int]:
    positional, keywords = loaded_model.parse_arguments(spec.arguments)
    numbers = {key: value for key, value in keywords.items() if type(value) is int and value > 0}
    if positional or len(numbers) < len(keywords) or any(key not in _KEYWORDS for key in numbers):
        raise wrong_request(
            f"{spec.model} takes nc (classes) and ch (channels), two whole numbers",
            ("--args '{\"nc\": 10}'", "ten classes"),
        )
    return numbers


def _file_of_values(spec: LoadSpec, architecture: _Architecture) -> Path | None:
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
        return _downloaded(name)
    except Exception as error:
        raise model_failed(
            f"the weights {name} are not available: {reason(error)}",
            (f"tui-profiler {spec.model}", "random weights, no download"),
            error=error,
        ) from error


def _built(
    architecture: _Architecture, tasks: Any, keywords: Mapping[str, int], shown: str
) -> torch.nn.Module:
    content = copy.deepcopy(architecture.content)
    for row in _rows(content):
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


def _side(architecture: _Architecture) -> tuple[int, str]:
    if str(architecture.content["head"][-1][2]) == "Classify":
        return _SIDE_OF_CLASSIFIERS, "Ultralytics' size for classifiers"
    return _SIDE, "Ultralytics' default imgsz"


def _bind(
    file: Path, shown: str, model: torch.nn.Module, spec: LoadSpec, tell: Callable[[Found], None]
) -> None:
    """Put values into a model: from a state dict, or from a checkpoint where that is trusted.

    What needs no trust is loaded without it.
    """
    found = structure_of_weights(file, shown)
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
