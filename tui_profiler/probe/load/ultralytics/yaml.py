"""YOLO architectures as YAML: found by name in ultralytics or by path, and checked.

ultralytics builds a model from its YAML by looking names up and, for ``activation``, by evaluating
text. A file of anyone's may therefore name only layers, and an activation only in the documented
form: what is checked here runs nothing.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import nn

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import model_failed, nearest, reason, wrong_request
from tui_profiler.probe.load.common.optional_libraries import absent
from tui_profiler.probe.load.ultralytics.library import NAME

SUFFIXES = (".yaml", ".yml")

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
class Architecture:
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


def read_architecture(spec: LoadSpec) -> Architecture:
    """Read the YAML that the user named: their own file, or one that comes with ultralytics.

    Raises:
        LoadError: There is none, or it is not the YAML of a YOLO model.
    """
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
    return Architecture(stem, content, is_packaged=not own)


def check_layers(architecture: Architecture, tasks: Any, shown: str) -> None:
    """Refuse a file that names anything but layers.

    Args:
        architecture: What was read.
        tasks: The module in which ultralytics looks names up.
        shown: The file as the user typed it.

    Raises:
        LoadError: It does.
    """
    activation = architecture.content.get("activation")
    if activation is not None and not _is_activation(activation):
        raise model_failed(f"{shown}: its activation is not of the form nn.ReLU()")
    for row in rows(architecture.content):
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
            raise model_failed(f"{shown}: {name[:60]} is no layer of torch's or ultralytics'")
        if name == _OF_TORCHVISION:
            _check_torchvision(row[3], shown)


def _check_torchvision(arguments: list[Any], shown: str) -> None:
    """Refuse a model of torchvision that would fetch weights, also where its own are not asked for.

    Raises:
        LoadError: It would.
    """
    models: Any = importlib.import_module("torchvision.models")
    name = arguments[1] if len(arguments) > 1 else None
    try:
        builder = models.get_model_builder(name)
    except (ValueError, AttributeError):
        raise model_failed(f"{shown}: {str(name)[:60]!r} is no model of torchvision's") from None
    if "weights_backbone" in inspect.signature(builder).parameters:
        raise model_failed(f"{shown}: {str(name)[:60]} would download the weights of its backbone")


def rows(content: dict[str, Any]) -> list[Any]:
    """Give its layers, each as [from, number, module, arguments]."""
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
        raise model_failed(f"{shown} is larger than any YAML of a model")
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
