"""What a remembered trace is called on disk: the same request, files and versions, the same name.

1. Nothing is imported for it: a version is in the name of an installed package's own folder.
2. The first frame waits for this: nothing here reads a trace.
"""

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import platformdirs
from msgspec.structs import replace

from tui_profiler.messages import LoadSpec
from tui_profiler.system.version import __version__

_PACKAGES = ("torch", "torchvision", "timm", "transformers", "ultralytics")
"""Whose version a tree depends on; a package that is not installed counts as such."""
MOST_ENTRIES = 1000
"""Of a folder that the request names."""
_FORMAT = 1
_INFO = (".dist-info", ".egg-info")

_Touched: TypeAlias = tuple[str, int, int]
"""Path, time of the last change in nanoseconds, bytes."""


class Key(NamedTuple):
    """Names for a file."""

    kin: str
    """Of everything that asks for the same model on the same device, whatever its versions."""
    exact: str
    """Of this request, with the files that it names as they are now."""

    @property
    def path(self) -> Path:
        """Where the trace is kept; it need not be there."""
        return folder() / f"{self.kin}-{self.exact}.trace"


def folder() -> Path:
    """Return the folder of remembered traces; it need not be there."""
    return Path(platformdirs.user_cache_dir("tui-profiler")) / "remembered"


def key_of(spec: LoadSpec) -> Key:
    """Return the names that the trace of a request goes by."""
    request, files = asked(spec), touched(spec)
    kin = (request.model, request.device, request.folder)
    exact = (_FORMAT, __version__, platform.python_version(), request, versions(sys.path), files)
    return Key(_hash(kin)[:16], _hash(exact)[:32])


def asked(spec: LoadSpec) -> LoadSpec:
    """Return a request without what changes nothing of the tree: when, how long, how closely."""
    return replace(
        spec,
        forwards=None,
        seconds=None,
        budget=0.0,
        folder=spec.folder if touched(spec) else "",
        started_at=0.0,
        ceilings=True,
        grid_grams_per_kwh=None,
        grid_named="",
        memory_limit_bytes=None,
    )


def versions(folders: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return (package, version) of those of ``_PACKAGES`` that are installed in the folders.

    Args:
        folders: as on ``sys.path``; of two of one name the first one counts, as for an import.
    """
    found: dict[str, str] = {}
    for folder in folders:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:  # An archive, or not there: then nothing is imported from it either.
            continue
        for name in names:
            package, dash, rest = name.partition("-")
            if dash and package in _PACKAGES and rest.endswith(_INFO):
                found.setdefault(package, rest.rpartition(".")[0])
    return tuple(sorted(found.items()))


def touched(spec: LoadSpec) -> tuple[_Touched, ...]:
    """Return the files that a request names, as they are now; none where it names none."""
    found: dict[str, _Touched] = {}
    for name in _named(spec):
        path = Path(spec.folder or os.curdir) / Path(name).expanduser()
        for one in _stats(path):
            found[one[0]] = one
    return tuple(found[path] for path in sorted(found))


def _named(spec: LoadSpec) -> Iterator[str]:
    """Yield whatever could be a file: ``net.py:build``, ``pkg.net:build``, ``hf:DIR``."""
    model = spec.model
    yield model
    module, colon, _ = model.rpartition(":")
    if colon:
        yield module
        yield model.partition(":")[2]
        yield module.replace(".", "/") + ".py"
        yield module.replace(".", "/") + "/__init__.py"
    if spec.weights:
        yield spec.weights


def _stats(path: Path) -> Iterator[_Touched]:
    try:
        status = path.stat()
        inside = [path]
        if path.is_dir():
            with os.scandir(path) as entries:
                inside += [Path(entry.path) for entry in islice(entries, MOST_ENTRIES)]
    except (OSError, ValueError):  # Not there, or no path at all: then it is no file's name.
        return
    for file in inside:
        try:
            status = file.stat()
        except OSError:  # Gone meanwhile, or a link to nothing.
            continue
        yield str(file), status.st_mtime_ns, status.st_size


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(value)).hexdigest()
