"""Remembered traces on disk: small recordings in the user's cache folder, bounded.

1. A file is a recording: the wire's messages of one trace in checked frames. Reading one runs no
   code, and yields a tree or nothing.
2. A file is written beside and renamed when it is whole; only the user may read it.
3. What is damaged, too long, another user's or of another request is left alone, with the reason.
4. When there are too many files or bytes, the oldest go, and frames that were painted of them.
"""

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tui_profiler import messages
from tui_profiler.connection.wire import WireError, encode
from tui_profiler.recording.frames import SALT_BYTES, End, Header, Kind, frame, kind_of, preamble
from tui_profiler.recording.kind import RecordingError
from tui_profiler.recording.reader import Recording
from tui_profiler.session import EMPTY, Remembered, Session, apply
from tui_profiler.source.cached_tree_key import asked, folder, key_of
from tui_profiler.system.files import NEW, open_private, private_directory, write_private
from tui_profiler.system.version import __version__

MOST_FILES = 64
MOST_OF_A_KIN = 4
"""A file that is worked on is another one after each change."""
MOST_FRAMES = 4
"""Of one trace: terminals of other sizes, other themes."""
MOST_BYTES = 64 * 1024 * 1024
MOST_FILE_BYTES = 8 * 1024 * 1024
MOST_NODES = 20_000
"""Of a trace that is kept: a larger one would take longer to read than is gained."""
_STALE_SECONDS = 3600.0
_NAME = re.compile(r"([0-9a-f]{16}-[0-9a-f]{32})\.trace")
_FRAME_NAME = re.compile(r"([0-9a-f]{16}-[0-9a-f]{32})\.[0-9a-f]{16}\.frame")
KEPT = (
    *(messages.StageDone, messages.ModelFacts, messages.TraceStarted, messages.Nodes),
    *(messages.Edges, messages.TraceDone),
)
"""What a file consists of."""


class Recent(NamedTuple):
    """Something that was opened before."""

    spec: messages.LoadSpec
    """As it was asked for."""
    at: float
    """Unix time when it was last opened."""


def recall(spec: messages.LoadSpec) -> tuple[Remembered | None, str]:
    """Return what is remembered of a request, and why what is there cannot be used, else empty.

    Where only the files or versions are others than last time, only the stages are given.
    """
    key = key_of(spec)
    exact, why = key.path, ""
    kin = [path for path in _newest_first(folder()) if path.name.startswith(f"{key.kin}-")]
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


def keep(spec: messages.LoadSpec, told: Iterable[messages.Message]) -> str:
    """Write the trace of a request; return why that could not be done, else an empty text.

    Args:
        spec: what was asked for.
        told: messages of ``KEPT``, in the order in which they came.
    """
    try:
        data = _written(spec, told)
        if len(data) > MOST_FILE_BYTES:
            return f"it is larger than {MOST_FILE_BYTES >> 20} MiB"
        place = private_directory(folder())
        write_private(key_of(spec).path, data)
        _forget_oldest(place)
    except (OSError, WireError) as error:
        return str(error)
    return ""


def recent() -> list[Recent]:
    """Return what was opened before, each request once, the last one first."""
    found: dict[messages.LoadSpec, Recent] = {}
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
            if not isinstance(message, KEPT):
                raise RecordingError("it contains something that is not a trace", "")
            session = apply(session, message)
            if session.arriving is not None and len(session.arriving) > MOST_NODES:
                raise RecordingError("it is larger than what is ever kept", "")
        return header, session


def _opened(path: Path) -> Recording:
    """Open a file of this user's.

    Raises:
        RecordingError: it is no recording.
        OSError: it cannot be read, is another user's or too long.
    """
    descriptor = open_private(path, MOST_FILE_BYTES)
    try:
        return Recording(descriptor)
    except (RecordingError, OSError):
        os.close(descriptor)
        raise


def _written(spec: messages.LoadSpec, told: Iterable[messages.Message]) -> bytes:
    salt = os.urandom(SALT_BYTES)
    header = Header(time.time(), "", __version__, spec)
    bodies = [(msgspec.msgpack.encode(header), Kind.HEADER, 0)]
    trace = 0
    for message in told:
        trace += isinstance(message, messages.TraceStarted)
        bodies.append((encode(message), kind_of(message), trace))
    bodies.append((msgspec.msgpack.encode(End("remembered")), Kind.END, trace))
    frames = (
        frame(body, salt, sequence, 0.0, kind, its_trace)
        for sequence, (body, kind, its_trace) in enumerate(bodies)
    )
    return preamble(salt) + b"".join(frames)


def _forget_oldest(place: Path) -> None:
    total = 0
    of_kin: Counter[str] = Counter()
    of_trace: Counter[str] = Counter()
    for path in _newest_first(place):
        kin = path.name.partition("-")[0]
        of_kin[kin] += 1
        total += _status(path)[1]
        if of_kin.total() > MOST_FILES or total > MOST_BYTES or of_kin[kin] > MOST_OF_A_KIN:
            path.unlink(missing_ok=True)
    for path in _newest_first(place, _FRAME_NAME):
        trace = path.name.partition(".")[0]
        of_trace[trace] += 1
        if of_trace[trace] > MOST_FRAMES or not (place / f"{trace}.trace").exists():
            path.unlink(missing_ok=True)
    for path in place.glob(f".*{NEW}"):
        if time.time() - _status(path)[0] > _STALE_SECONDS:  # Left by one that was killed.
            path.unlink(missing_ok=True)


def _newest_first(place: Path, name: re.Pattern[str] = _NAME) -> list[Path]:
    try:
        paths = [path for path in place.iterdir() if name.fullmatch(path.name)]
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
