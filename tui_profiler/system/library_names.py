"""Names of torchvision's and timm's models without importing these: read from source, and cached.

Importing them takes seconds. A name that torchvision does not have is refused at once instead, and
the start screen finds names while they are typed.
"""

import importlib.util
import re
from pathlib import Path
from typing import Literal, TypeAlias

import platformdirs

from tui_profiler.system.files import private_directory, write_private

_LEAST = 50
"""Fewer were never in a release: the source is written in another way, and nothing is known."""


Library: TypeAlias = Literal["torchvision", "timm"]
"""A package with a folder ``models`` and a file ``version.py``."""
_REGISTERED: dict[Library, re.Pattern[str]] = {
    "torchvision": re.compile(
        # Its decorator, others below it, and the builder, whose name is the model's unless it has
        # one of its own.
        r'^@register_model\((?:name="(\w+)")?\)\n(?:@.*\n|[ )].*\n)*def (\w+)',
        re.MULTILINE,
    ),
    "timm": re.compile(r"^@register_model\s+()def (\w+)\(", re.MULTILINE),
}
"""A model in its source: the name in one group, or in the first one that is not empty."""


def library_names(library: Library, folder: Path | None = None) -> frozenset[str] | None:
    """Return the names of all models of an installed library, timm's without their prefix.

    Args:
        library: the package.
        folder: where the names are cached; None: the user's cache directory.

    Returns:
        None where it is not installed, or its source does not say.
    """
    root = _root(library)
    if root is None:
        return None
    cached = (folder or Path(platformdirs.user_cache_dir("tui-profiler"))) / f"{library}_names"
    try:
        version = root / "version.py"
        source = f"{version} {version.stat().st_mtime_ns}"
    except OSError:
        return None
    names = _read(cached, source)
    if names is None:
        names = names_in_source(library)
        if len(names) < _LEAST:
            return None
        _keep(cached, source, names)
    return names


def names_in_source(library: Library) -> frozenset[str]:
    """Return the names of a library's models as its source has them now; none without it."""
    root = _root(library)
    names: set[str] = set()
    for file in (root / "models").rglob("*.py") if root is not None else ():
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        names.update(given or own for given, own in _REGISTERED[library].findall(text))
    return frozenset(names)


def _root(library: Library) -> Path | None:
    try:
        spec = importlib.util.find_spec(library)
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
