"""Values for a Hugging Face model: from the files beside its config, or from the user's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import in_words, model_failed, reason, wrong_request
from tui_profiler.probe.load.downloads import DEFAULT
from tui_profiler.probe.load.files.state_dict import file_of_weights
from tui_profiler.probe.load.hugging_face.classes import Choice
from tui_profiler.probe.load.hugging_face.config import Config
from tui_profiler.probe.process.memory_limit import allow_map

_PATTERNS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")
_INDEX = ".index.json"


@dataclass(frozen=True)
class Values:
    """Where values are read from."""

    source: str | Path
    """A folder, a file, or a name that is downloaded."""
    shown: str
    """As it is told: ``its own files'``, or the file as typed."""
    is_download: bool = False


def values_asked_for(spec: LoadSpec, config: Config) -> Values | None:
    """Give where ``--weights`` says that the values are; None where it was not given.

    Raises:
        LoadError: There are no weights at that place.
    """
    text = spec.weights
    if not text:
        return None
    if config.folder is None:
        return Values(config.shown, DEFAULT, is_download=True)
    if text.upper() == DEFAULT:
        if not has_weights(config.folder):
            raise wrong_request(
                f"{config.shown} holds no weights beside its config",
                (f"tui-profiler hf:{config.shown}", "random weights"),
            )
        return Values(config.folder, DEFAULT)
    folder = Path(spec.folder or ".") / Path(text).expanduser()
    if folder.is_dir():
        if not has_weights(folder):
            raise wrong_request(f"--weights: {text} holds no weights")
        return Values(folder, text)
    path = file_of_weights(text, spec.folder)
    if path is None:
        raise wrong_request(
            f'--weights "{text}": there is no such file or folder',
            (f"--weights {DEFAULT}", "the files beside the config"),
        )
    return Values(path, text)


def has_weights(folder: Path) -> bool:
    """Say whether files that hold weights lie in a folder."""
    return any(next(folder.glob(pattern), None) is not None for pattern in _PATTERNS)


def read_values(
    values: Values, choice: Choice, config: Config, dtype: torch.dtype | None
) -> tuple[torch.nn.Module, str]:
    """Build a model with values; give it and what is to be said of its weights.

    Tensors that the files lack are random, and counted.

    Raises:
        LoadError: The files cannot be read, or do not fit.
    """
    named: dict[str, Any] = {
        "config": config.value,
        "dtype": dtype or "auto",
        "local_files_only": not values.is_download,
        "output_loading_info": True,
    }
    source: Any = values.source
    if isinstance(source, Path) and source.is_file():
        named["state_dict"] = _state(source, values.shown)
        source = None
    elif isinstance(source, Path):
        allow_map(sum(file.stat().st_size for file in source.glob("*.safetensors")))
    try:
        model, found = choice.from_pretrained(source, **named)
    except Exception as error:
        raise model_failed(
            f"the weights of {values.shown} cannot be read into {choice.name}: {reason(error)}",
            error=error,
        ) from error
    return model, _told(model, found, values, choice)


def _told(model: torch.nn.Module, found: Any, values: Values, choice: Choice) -> str:
    missing = sorted(str(name) for name in found.get("missing_keys", ()))
    wanted = len(model.state_dict())
    if wanted and len(missing) >= wanted:
        raise model_failed(
            f"{values.shown} holds nothing that {choice.name} takes",
            ("--weights FILE", "another file"),
        )
    if not missing:
        return values.shown
    return f"{values.shown} (all but {len(missing)}, which are random: {in_words(missing, 2)})"


def _state(path: Path, shown: str) -> dict[str, torch.Tensor]:
    """Read one file, or every file that an index names; only tensors, no code."""
    try:
        if path.name.endswith(_INDEX):
            names = sorted(set(json.loads(path.read_bytes())["weight_map"].values()))
            state: dict[str, torch.Tensor] = {}
            for name in names:
                if Path(name).name != name:
                    raise ValueError(f"the index names {name!r}, which lies elsewhere")
                state |= _tensors(path.parent / name)
            return state
        return _tensors(path)
    except Exception as error:
        raise model_failed(
            f"{shown} cannot be read without running code: {reason(error)}", error=error
        ) from error


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file  # noqa: PLC0415 - comes with transformers

        allow_map(path.stat().st_size)
        return dict(load_file(path))
    content: object = torch.load(path, map_location="cpu", weights_only=True, mmap=False)
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not tensors by name")
    return {str(key): part for key, part in content.items() if isinstance(part, torch.Tensor)}
