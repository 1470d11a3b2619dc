"""Recordings that run out of room at a given byte, and what has to be in them then."""

from __future__ import annotations

import random
import resource
import signal
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.recording.files import HEADER, fixture, messages_in, write
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Message
from tui_profiler.recording.frames import PREAMBLE_BYTES
from tui_profiler.recording.reader import open_recording
from tui_profiler.recording.writer import Writer, create

Said = Sequence[tuple[Message, float]]


def frame_ends(path: Path) -> list[int]:
    """Where the preamble and each frame of a whole recording end."""
    recording = open_recording(path)
    begins = [entry.offset for entry in recording.entries]
    recording.close()
    assert begins[0] == PREAMBLE_BYTES
    return [*begins, path.stat().st_size]


def moments(ends: Sequence[int], chance: random.Random, count: int) -> list[int]:
    """Bytes at which there is no room: in preamble, header and last frame, then in any of them."""
    frames = [(0, ends[0]), *pairwise(ends)]
    chosen = [frames[0], frames[1], frames[-1], *chance.choices(frames, k=max(count - 3, 0))]
    return [chance.randrange(begin, end) for begin, end in chosen[:count]]


def record_until_full(path: Path, said: Said) -> Writer:
    """Record as the program does: when the writer has failed, it is only closed."""
    writer = Writer(create(str(path)), HEADER)
    for message, at in said:
        writer.put(message, at)
        while writer.waiting > 100:
            time.sleep(0)
        if writer.failure:
            break
    writer.close("finished", said[-1][1])
    return writer


def trouble(path: Path, writer: Writer, room: int, ends: Sequence[int], said: Said) -> str:
    """What is wrong with a recording that had so many bytes of room; empty if nothing."""
    whole = sum(end <= room for end in ends) - 1  # The first end is the preamble's.
    wanted = max(whole, 0)
    if writer.frames != wanted or not writer.failure or writer.dropped:
        return f"{writer.frames} frames for {wanted}, {writer.failure!r}, {writer.dropped} dropped"
    size = ends[whole] if whole >= 0 else 0
    if path.stat().st_size != size:
        return f"{path.stat().st_size} bytes for {size}"
    recording = open_recording(path)
    try:
        if len(recording.entries) != wanted or recording.holes or recording.end is not None:
            return f"{len(recording.entries)} frames read for {wanted}, {recording.holes}"
        found = [encode(message) for message in messages_in(recording)]
    finally:
        recording.close()
    if found != [encode(message) for message, _ in said][: max(wanted - 1, 0)]:
        return "other messages than were written"
    return ""


def without_room(folder: Path, seed: int, count: int) -> list[str]:
    """Record with a limit on the size of files at so many moments and return what went wrong.

    The limit of this process is changed meanwhile: call it in one that does nothing else.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    said = fixture()
    ends = frame_ends(write(folder / "whole.rec", said))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    found = []
    for number, room in enumerate(moments(ends, random.Random(seed), count)):
        path = folder / f"{number}.rec"
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            writer = record_until_full(path, said)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        why = trouble(path, writer, room, ends, said)
        if writer.failure != "File too large":
            why = why or f"it said {writer.failure!r}"
        found += [f"{room} bytes of room: {why}"] if why else []
        path.unlink()
    return found
