"""A Hugging Face config: found and read, nothing in it run; the sizes that it states."""

import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common import downloads, errors

PREFIX = "hf:"

_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_MOST_BYTES = 16 << 20
_LAYERS = ("layers", "n_layer", "num_layer", "depth")
_MOST_LAYERS = 10_000
"""More than any model has; a config that states more would be built for hours."""


@dataclass(frozen=True)
class Config:
    """What a config file says, and where it lies."""

    value: Any
    """transformers' own config object."""
    shown: str
    """The model as the user typed it, without ``hf:``."""
    folder: Path | None
    """Where its other files lie; None for a name that is to be downloaded."""
    auto_map: Mapping[str, object]
    """Classes that its own code has, by the class of transformers that they stand for."""
    has_own_code: bool
    """transformers has no class of its own for it."""


def read_config(library: ModuleType, spec: LoadSpec, folder: Path | None) -> Config:
    """Read the config that the user named, from the folder of what was fetched, if anything was."""
    shown = spec.model.removeprefix(PREFIX)
    path = _path(spec, shown) if folder is None else folder / "config.json"
    if path is None:
        return _config(library, shown, shown, None, {}, trust=spec.trust)
    content = _content(path, shown)
    _check_layers(content, shown)
    # Code beside a config is found by its folder only.
    source = path.parent if path.name == "config.json" else path
    return _config(library, str(source), shown, path.parent, content, trust=spec.trust)


def _path(spec: LoadSpec, shown: str) -> Path | None:
    try:
        path = Path(spec.folder or ".") / Path(shown).expanduser()
        if path.is_dir() and shown:
            path = path / "config.json"
            if not path.is_file():
                raise errors.wrong_request(f"{shown} has no config.json")
        if path.is_file():
            return path
    except (OSError, RuntimeError, ValueError) as error:
        raise errors.wrong_request(f"{shown!r} cannot be a path: {errors.reason(error)}") from error
    if not downloads.is_repository(shown):
        raise errors.wrong_request(f"there is no folder or config file {shown!r}")
    if spec.weights == downloads.DEFAULT:
        return None
    raise errors.wrong_request(
        f"there is no folder {shown!r}, and models on the Hub are only downloaded with --weights",
        (f"--weights {downloads.DEFAULT}", "downloads its config and its weights, once"),
        (f"tui-profiler {PREFIX}DIR", "takes the config.json in that folder, random weights"),
    )


def fetched_folder(spec: LoadSpec) -> Path | None:
    """Fetch config and safetensors of a repository; None if none are asked for."""
    download = downloads.download_of(spec)
    if download is None:
        return None
    name = download.name
    try:
        downloads.fetched(download)
        folder = downloads.folder_of_repository(name)
    except downloads.DownloadError as error:
        raise errors.model_failed(
            f"{name} cannot be downloaded: {error}",
            (f"hf download {name} --local-dir DIR", f"then tui-profiler {PREFIX}DIR"),
        ) from error
    if not (folder / "config.json").is_file():
        raise errors.model_failed(f"{name} has no config.json")
    if not any((folder / one).is_file() for one in _SAFETENSORS):
        raise errors.model_failed(
            f"{name} has no model.safetensors; other files, such as pickles, are not downloaded",
            (
                f"tui-profiler {PREFIX}{name} --weights {downloads.DEFAULT} --trust",
                "if you trust them",
            ),
            (f"hf download {name} --local-dir DIR", f"then tui-profiler {PREFIX}DIR"),
        )
    return folder


def _content(path: Path, shown: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise errors.wrong_request(f"{shown} is larger than any config")
        content: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise errors.model_failed(
            f"{shown} cannot be read as JSON: {errors.reason(error)}", at=str(path)
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise errors.model_failed(
            f"{shown} is not the config of a model: it has no model_type",
            ('"model_type": "bert"', "in that file names the architecture"),
            at=str(path),
        )
    return content


def _check_layers(content: Mapping[str, object], shown: str) -> None:
    """Refuse what could not be built in reasonable time."""
    pending: list[Mapping[str, object]] = [content]
    while pending:
        for key, value in pending.pop().items():
            if isinstance(value, Mapping):
                pending.append(value)
            elif isinstance(value, int) and key.endswith(_LAYERS) and value > _MOST_LAYERS:
                raise errors.model_failed(
                    f"{shown} states {value:,} as {key}: no model has so many"
                )


def _config(
    library: ModuleType,
    source: str,
    shown: str,
    folder: Path | None,
    content: Mapping[str, Any],
    *,
    trust: bool,
) -> Config:
    known = library.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    kind = str(content.get("model_type", ""))
    auto_map = content.get("auto_map")
    auto_map = auto_map if isinstance(auto_map, dict) else {}
    has_own_code = bool(content) and kind not in known
    if has_own_code and not (trust and auto_map):
        raise _unknown_kind(kind, shown, known, code=_files_of_code(auto_map))
    try:
        value = library.AutoConfig.from_pretrained(
            source,
            trust_remote_code=trust and has_own_code,
            local_files_only=folder is not None,
        )
    except Exception as error:  # whatever its checks, or its own code, raise
        raise errors.model_failed(
            f"{shown} is not a usable config: {errors.reason(error)}", error=error
        ) from error
    return Config(value, shown, folder, auto_map, has_own_code)


def _files_of_code(auto_map: Mapping[str, object]) -> tuple[str, ...]:
    """Name the files that an ``auto_map`` takes classes from; ``OTHER--`` is another repository."""
    named = (
        value
        for given in auto_map.values()
        for value in (given if isinstance(given, list) else [given])
        if isinstance(value, str)
    )
    return tuple(sorted({f"{name.rpartition('.')[0]}.py" for name in named}))


def _unknown_kind(
    kind: str, shown: str, known: Mapping[str, str], *, code: tuple[str, ...]
) -> errors.LoadError:
    if code:
        return errors.wrong_request(
            f'transformers has no "{kind}" of its own, and {shown} brings code for it'
            f" ({errors.in_words(code, 4)}), which needs --trust",
            ("--trust", "runs that code: read it first"),
        )
    return errors.model_failed(
        f'transformers here does not know a model of type "{kind}"',
        *((f'"model_type": "{near}"', "a type like it") for near in errors.nearest(kind, known)),
        ("pip install -U transformers", "a newer version may support it"),
    )


_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
_MOST_PROCESSOR_BYTES = 4 << 20


class Sizes:
    """Looks numbers up by the names that architectures give them."""

    def __init__(self, config: Any, folder: Path | None = None) -> None:
        """Take a config object of transformers', and the folder with its processor's config."""
        self._configs = tuple(inner_configs(config))
        self._processor = _processor(folder)

    def number(self, *names: str, inside: str = "") -> int | None:
        """Return the first positive whole number under one of these names.

        Args:
            names: the likeliest first.
            inside: look only into inner configs with this in their name, such as ``vision``.
        """
        found = self.named(*names, inside=inside)
        return None if found is None else found[1]

    def named(self, *names: str, inside: str = "") -> tuple[str, int] | None:
        """Return the same with the name under which it was found."""
        for name in names:
            for path, config in self._configs:
                if inside and inside not in path:
                    continue
                value = _whole(getattr(config, name, None))
                if value is not None:
                    return f"{path}.{name}" if path else name, value
        return None

    def value(self, name: str) -> object:
        """Return what the config, or one inside it, has under a name; None where none has it."""
        for _, config in self._configs:
            found: object = getattr(config, name, None)
            if found is not None:
                return found
        return None

    def special_ids(self) -> dict[str, int]:
        """Return every token id that has a meaning, by its name in the config."""
        found: dict[str, int] = {}
        for _, config in self._configs:
            for name, value in vars(config).items():
                if name.endswith(("_token_id", "_token_index", "_token_idx")):
                    first = value[0] if isinstance(value, (list, tuple)) and value else value
                    if isinstance(first, int) and not isinstance(first, bool):
                        found.setdefault(name, first)
        return found

    def image(self) -> tuple[tuple[int, int], str]:
        """Return (height, width) of an image, and where that comes from."""
        if self._processor is not None:
            source, content = self._processor
            for key in ("crop_size", "size"):
                size = _sides(content.get(key))
                if size is not None and (key == "size" or content.get("do_center_crop", True)):
                    return size, f"{key} of {source}"
        for inside in ("vision", "image", ""):
            for path, config in self._configs:
                if inside not in path:
                    continue
                for name in ("image_size", "img_size", "input_size", "crop_size", "max_img_size"):
                    size = _sides(getattr(config, name, None))
                    if size is not None:
                        return size, f"its config's {path + '.' if path else ''}{name}"
        return (224, 224), "a usual image, as its config states none"

    def prepared_image(self) -> tuple[tuple[int, int], str] | None:
        """Return (height, width) that the model type's image processor makes unless it is told."""
        kind = getattr(self._configs[0][1], "model_type", "")
        name, content = _image_processor(kind)
        for key in ("crop_size", "size"):
            size = _sides(content.get(key))
            if size is not None:
                return size, f"{key} of {name}"
        return None


def inner_configs(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, config) of a config and those within it, the outermost first, each once."""
    pending: list[tuple[str, Any]] = [("", config)]
    seen: set[int] = set()
    while pending:
        path, item = pending.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield path, item
        for name, part in vars(item).items():
            if hasattr(part, "model_type"):
                pending.append((f"{path}.{name}" if path else name, part))


def _whole(value: object) -> int | None:
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return None


def _sides(value: object) -> tuple[int, int] | None:
    if isinstance(value, Mapping):
        for first, second in (("height", "width"), ("shortest_edge", "shortest_edge")):
            sides = _whole(value.get(first)), _whole(value.get(second))
            if sides[0] is not None and sides[1] is not None:
                return sides[0], sides[1]
        return None
    if isinstance(value, (list, tuple)):
        if len(value) < 2:
            value = (*value, *value)
        sides = _whole(value[-2]) if len(value) > 1 else None, _whole(value[-1]) if value else None
        return (sides[0], sides[1]) if sides[0] and sides[1] else None
    side = _whole(value)
    return None if side is None else (side, side)


def _image_processor(kind: str) -> tuple[str, dict[str, object]]:
    """Return the name and the sizes of the class that prepares images for a model type, if any.

    It is not made: of some it takes torchvision or PIL, and only its defaults are wanted.
    """
    library = importlib.import_module("transformers")
    auto = importlib.import_module("transformers.models.auto.image_processing_auto")
    named: Any = auto.IMAGE_PROCESSOR_MAPPING_NAMES.get(kind) or ()
    for name in named.values() if isinstance(named, dict) else named:
        try:
            found = getattr(library, name)
            sizes = {key: getattr(found, key, None) for key in ("crop_size", "size")}
        except Exception:
            continue
        if any(sizes.values()):
            return name, sizes
    return "", {}


def _processor(folder: Path | None) -> tuple[str, Mapping[str, Any]] | None:
    """Read what prepares images; None where there is no such file, or it says nothing."""
    for name in _PROCESSOR_FILES:
        path = folder / name if folder is not None else None
        if path is None or not path.is_file() or path.stat().st_size > _MOST_PROCESSOR_BYTES:
            continue
        try:
            content: object = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue  # a hint that cannot be read: the config is asked instead
        if isinstance(content, dict):
            inner = content.get("image_processor")
            return name, inner if isinstance(inner, dict) else content
    return None
