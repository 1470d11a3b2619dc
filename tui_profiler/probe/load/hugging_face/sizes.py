"""Sizes that a Hugging Face config states, also in the configs inside it, and the processor's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tui_profiler.probe.load.hugging_face.library import image_processor

_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
_MOST_BYTES = 4 << 20


class Sizes:
    """Looks numbers up by the names that architectures give them."""

    def __init__(self, config: Any, folder: Path | None = None) -> None:
        """Take a config object of transformers', and the folder with its processor's config."""
        self._configs = tuple(_with_inner(config))
        self._processor = _processor(folder)

    def number(self, *names: str, inside: str = "") -> int | None:
        """Give the first positive whole number under one of these names.

        Args:
            names: the likeliest first.
            inside: look only into inner configs with this in their name, such as ``vision``.
        """
        found = self.named(*names, inside=inside)
        return None if found is None else found[1]

    def named(self, *names: str, inside: str = "") -> tuple[str, int] | None:
        """Give the same with the name under which it was found."""
        for name in names:
            for path, config in self._configs:
                if inside and inside not in path:
                    continue
                value = _whole(getattr(config, name, None))
                if value is not None:
                    return f"{path}.{name}" if path else name, value
        return None

    def value(self, name: str) -> object:
        """Give what the config, or one inside it, has under a name; None where none has it."""
        for _, config in self._configs:
            found: object = getattr(config, name, None)
            if found is not None:
                return found
        return None

    def special_ids(self) -> dict[str, int]:
        """Give every token id that has a meaning, by its name in the config."""
        found: dict[str, int] = {}
        for _, config in self._configs:
            for name, value in vars(config).items():
                if name.endswith(("_token_id", "_token_index", "_token_idx")):
                    first = value[0] if isinstance(value, (list, tuple)) and value else value
                    if isinstance(first, int) and not isinstance(first, bool):
                        found.setdefault(name, first)
        return found

    def image(self) -> tuple[tuple[int, int], str]:
        """Give (height, width) of an image, and where that comes from."""
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
        """Give (height, width) that the model type's image processor makes unless it is told."""
        kind = getattr(self._configs[0][1], "model_type", "")
        name, content = image_processor(kind)
        for key in ("crop_size", "size"):
            size = _sides(content.get(key))
            if size is not None:
                return size, f"{key} of {name}"
        return None


def _with_inner(config: Any) -> Iterator[tuple[str, Any]]:
    """Give (path, config), the outermost first, each once."""
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
    """Read a size as configs and processors write it."""
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


def _processor(folder: Path | None) -> tuple[str, Mapping[str, Any]] | None:
    """Read what prepares images; None where there is no such file, or it says nothing."""
    for name in _PROCESSOR_FILES:
        path = folder / name if folder is not None else None
        if path is None or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            continue
        try:
            content: object = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue  # a hint that cannot be read: the config is asked instead
        if isinstance(content, dict):
            inner = content.get("image_processor")
            return name, inner if isinstance(inner, dict) else content
    return None
