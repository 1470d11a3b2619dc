"""Remembered traces on disk: small recordings in the user's cache folder, bounded.

1. A file is a recording: the wire's messages of one trace in checked frames. Reading one runs no
   code, and gives a tree or nothing.
2. A file is written beside and renamed when it is whole; only the user may read it.
3. What is damaged, too long, another user's or of another request is left alone, with the reason.
4. When there are too many files or bytes, the oldest go.
5. The same request, files and versions give the same name. Nothing is imported for it: a version
   is in the name of an installed package's own folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import platformdirs
from msgspec.structs import replace

from tui_profiler.connection.wire import WireError, encode
from tui_profiler.messages import (
    Edges,
    LoadSpec,
    Message,
    ModelFacts,
    Nodes,
    StageDone,
    TraceDone,
    TraceStarted,
)
from tui_profiler.recording.frames import SALT_BYTES, End, Header, Kind, frame, kind_of, preamble
from tui_profiler.recording.kind import RecordingError
from tui_profiler.recording.reader import Recording
from tui_profiler.session import EMPTY, Remembered, Session, apply
from tui_profiler.system.files import NEW, private_directory, write_private
from tui_profiler.system.version import __version__

MOST_FILES = 64
MOST_OF_A_KIN = 4
"""A file that is worked on is another one after each change."""
MOST_BYTES = 64 * 1024 * 1024
MOST_FILE_BYTES = 8 * 1024 * 1024
MOST_NODES = 20_000
"""Of a trace that is kept: a larger one would take longer to read than is gained."""
_STALE_SECONDS = 3600.0
_NAME = re.compile(r"([0-9a-f]{16})-[0-9a-f]{32}\.trace")
_TOLD = (StageDone, ModelFacts, TraceStarted, Nodes, Edges, TraceDone)


class Recent(NamedTuple):
    """Something that was opened before."""

    spec: LoadSpec
    """As it was asked for."""
    at: float
    """Unix time when it was last opened."""


def folder() -> Path:
    """Return the folder of remembered traces; it need not be there."""
    return Path(platformdirs.user_cache_dir("tui-profiler")) / "remembered"


def recall(spec: LoadSpec) -> tuple[Remembered | None, str]:
    """Return what is remembered of a request, and why what is there cannot be used, else empty.

    Where only the files or versions are others than last time, only the stages are given.
    """
    key, place = key_of(spec), folder()
    exact = place / _file_name(key)
    why = ""
    kin = [path for path in _newest_first(place) if path.name.startswith(f"{key.kin}-")]
    for path in sorted(kin, key=lambda path: path != exact):
        try:
            header, session = _read(path)
        except (RecordingError, OSError) as error:
            why = why or f"{path}: {error}"
            continue
        if header.spec is None or header.spec.model != spec.model:
            why = why or f"{path}: it is of another model"
            continue
        is_same = path == exact and asked(header.spec) == asked(spec)
        return _remembered(header, session, with_tree=is_same), why
    return None, why


def keep(spec: LoadSpec, messages: Iterable[Message]) -> str:
    """Remember the trace of a request; gives why that could not be done, else an empty text.

    Args:
        spec: what was asked for.
        messages: those of ``_TOLD``, in the order in which they came.
    """
    try:
        data = _written(spec, messages)
        if len(data) > MOST_FILE_BYTES:
            return f"it is larger than {MOST_FILE_BYTES >> 20} MiB"
        place = private_directory(folder())
        write_private(place / _file_name(key_of(spec)), data)
        _forget_oldest(place)
    except (OSError, WireError) as error:
        return str(error)
    return ""


def recent() -> list[Recent]:
    """Return what was opened before, each request once, the last one first."""
    found: dict[LoadSpec, Recent] = {}
    for path in _newest_first(folder()):
        try:
            recording = _opened(path)
        except (RecordingError, OSError):
            continue  # Whoever opens that model is told.
        with contextlib.closing(recording):
            header = recording.header
        if header is not None and header.spec is not None:
            spec = header.spec
            found.setdefault(asked(spec), Recent(spec, header.recorded_at))
    return list(found.values())


def _remembered(header: Header, session: Session, *, with_tree: bool) -> Remembered:
    tree = session.tree
    stages = tuple((one.stage, one.seconds) for one in session.stages if one.seconds is not None)
    age = max(time.time() - header.recorded_at, 0.0)
    if not with_tree or tree is None or not tree.has_forward:  # Parameters come in no time.
        return Remembered(age, stages)
    return Remembered(age, stages, tree, session.phases, session.model)


def _read(path: Path) -> tuple[Header, Session]:
    """Fold a file.

    Raises:
        RecordingError: not all of it is there, or it is none of ours.
    """
    with contextlib.closing(_opened(path)) as recording:
        header = recording.header
        if header is None or recording.end is None or recording.holes:
            raise RecordingError("it is damaged", "")
        session = EMPTY
        for position in range(1, len(recording.entries) - 1):
            message = recording.message(position)
            if not isinstance(message, _TOLD):
                raise RecordingError("it holds what is no trace", "")
            session = apply(session, message)
            if session.arriving is not None and len(session.arriving) > MOST_NODES:
                raise RecordingError("it is larger than what is ever kept", "")
        return header, session


def _opened(path: Path) -> Recording:
    """Open a file of this user's.

    Raises:
        RecordingError: it is another's, too long, or no recording.
        OSError: it cannot be read.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise RecordingError("it is no file of this user's", "")
        if status.st_size > MOST_FILE_BYTES:
            raise RecordingError("it is too long", "")
        return Recording(descriptor)
    except (RecordingError, OSError):
        os.close(descriptor)
        raise


def _written(spec: LoadSpec, messages: Iterable[Message]) -> bytes:
    salt = os.urandom(SALT_BYTES)
    header = Header(time.time(), "", __version__, spec)
    bodies = [(msgspec.msgpack.encode(header), Kind.HEADER, 0)]
    trace = 0
    for message in messages:
        trace += isinstance(message, TraceStarted)
        bodies.append((encode(message), kind_of(message), trace))
    bodies.append((msgspec.msgpack.encode(End("remembered")), Kind.END, trace))
    frames = (
        frame(body, salt, sequence, 0.0, kind, its_trace)
        for sequence, (body, kind, its_trace) in enumerate(bodies)
    )
    return preamble(salt) + b"".join(frames)


def _forget_oldest(place: Path) -> None:
    count, total = 0, 0
    of_kin: dict[str, int] = {}
    for path in _newest_first(place):
        kin = path.name.partition("-")[0]
        count, of_kin[kin] = count + 1, of_kin.get(kin, 0) + 1
        total += _status(path)[1]
        if count > MOST_FILES or total > MOST_BYTES or of_kin[kin] > MOST_OF_A_KIN:
            path.unlink(missing_ok=True)
    for path in place.glob(f".*{NEW}"):
        if time.time() - _status(path)[0] > _STALE_SECONDS:  # Left by one that was killed.
            path.unlink(missing_ok=True)


def _newest_first(place: Path) -> list[Path]:
    try:
        paths = [path for path in place.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:  # Nothing was ever remembered.
        return []
    return sorted(paths, key=_status, reverse=True)


def _status(path: Path) -> tuple[float, int]:
    """Return the time of the last change and the bytes; zeros for what is gone meanwhile."""
    try:
        status = path.lstat()
    except OSError:
        return 0.0, 0
    return status.st_mtime, status.st_size


def _file_name(key: _Key) -> str:
    return f"{key.kin}-{key.exact}.trace"


_PACKAGES = ("torch", "torchvision", "timm", "transformers", "ultralytics")
"""Whose version a tree depends on; a package that is not installed counts as such."""
MOST_ENTRIES = 1000
"""Of a folder that the request names."""
_FORMAT = 1
_INFO = (".dist-info", ".egg-info")

_Touched: TypeAlias = tuple[str, int, int]
"""Path, time of the last change in nanoseconds, bytes."""


class _Key(NamedTuple):
    """Names for a file."""

    kin: str
    """Of everything that asks for the same model on the same device, whatever its versions."""
    exact: str
    """Of this request, with the files that it names as they are now."""


def key_of(spec: LoadSpec) -> _Key:
    """Return the names that the trace of a request goes by."""
    request, files = asked(spec), touched(spec)
    kin = (request.model, request.device, request.folder)
    exact = (_FORMAT, __version__, platform.python_version(), request, versions(sys.path), files)
    return _Key(_hash(kin)[:16], _hash(exact)[:32])


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
