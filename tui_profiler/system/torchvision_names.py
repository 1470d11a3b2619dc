"""Names of torchvision's models without importing it: they are read from its source, and cached.

Importing torchvision takes seconds. A name that it does not have is refused at once instead.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import platformdirs

from tui_profiler.system.files import private_directory, write_private

_REGISTERED = re.compile(
    r'^@register_model\((?:name="(\w+)")?\)\n(?:@.*\n|[ )].*\n)*def (\w+)', re.MULTILINE
)
"""Its decorator, others below it, and the builder, whose name is the model's unless it has one."""
_LEAST = 50
"""Fewer were never in a release: the source is written in another way, and nothing is known."""


def torchvision_names(folder: Path | None = None) -> frozenset[str] | None:
    """Return the names of all models of the installed torchvision.

    Args:
        folder: where the names are cached; None: the user's cache directory.

    Returns:
        None where torchvision is not installed, or its source does not say.
    """
    root = _root()
    if root is None:
        return None
    cached = (folder or Path(platformdirs.user_cache_dir("tui-profiler"))) / "torchvision_names"
    try:
        version = root / "version.py"
        source = f"{version} {version.stat().st_mtime_ns}"
    except OSError:
        return None
    names = _read(cached, source)
    if names is None:
        names = _found(root / "models")
        if len(names) < _LEAST:
            return None
        _keep(cached, source, names)
    return names


def _root() -> Path | None:
    try:
        spec = importlib.util.find_spec("torchvision")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _read(cached: Path, source: str) -> frozenset[str] | None:
    try:
        first, *names = cached.read_text().splitlines()
    except (OSError, ValueError):
        return None
    return frozenset(names) if first == source else None


def _keep(cached: Path, source: str, names: frozenset[str]) -> None:
    try:
        private_directory(cached.parent)
        write_private(cached, "\n".join((source, *sorted(names))).encode())
    except OSError:
        return  # Without a cache it takes some milliseconds again.


def _found(models: Path) -> frozenset[str]:
    names: set[str] = set()
    for file in models.rglob("*.py"):
        try:
            text = file.read_text()
        except (OSError, ValueError):
            continue
        names.update(given or own for given, own in _REGISTERED.findall(text))
    return frozenset(names)
