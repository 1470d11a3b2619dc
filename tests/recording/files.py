"""Recordings for tests: written by the real writer, and sessions compared field by field."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.fixtures.record import recorded
from tui_profiler.messages import LoadSpec, Message
from tui_profiler.recording.frames import Header
from tui_profiler.recording.reader import Recording, open_recording
from tui_profiler.recording.writer import Writer, create
from tui_profiler.session import EMPTY, Session, Timings, apply
from tui_profiler.session.columns import DeviceTimings, MeasuredMemory, Memory, Operators, Windows

HEADER = Header(1_795_000_000.0, "host", "0.1.0", LoadSpec("resnet50"))


def timed(messages: Iterable[Message]) -> list[tuple[Message, float]]:
    """Each message with the time that it names itself, or that of the one before."""
    at, made = 0.0, []
    for message in messages:
        at = max(at, getattr(message, "at", at))
        made.append((message, at))
    return made


def fixture() -> list[tuple[Message, float]]:
    """What a real worker said of resnet50."""
    return timed(recorded())


def write(path: Path, said: Sequence[tuple[Message, float]], *, end: str = "finished") -> Path:
    writer = Writer(create(str(path)), HEADER)
    for message, at in said:
        writer.put(message, at)
        while writer.waiting > 100:
            time.sleep(0)  # A test speaks faster than any worker does.
    writer.close(end, said[-1][1] if said else 0.0)
    assert (writer.failure, writer.dropped) == ("", 0)
    return path


def messages_in(recording: Recording) -> list[Message]:
    every = (recording.message(position) for position in range(len(recording.entries)))
    return [message for message in every if message is not None]


def read(path: Path) -> list[Message]:
    recording = open_recording(path)
    try:
        return messages_in(recording)
    finally:
        recording.close()


def fold(messages: Iterable[Message]) -> Session:
    session = EMPTY
    for message in messages:
        session = apply(session, message)
    return session


def plain(value: object) -> object:
    """A session as values that compare, whatever identities its parts have."""
    if isinstance(value, Timings):
        return plain(value.tick)
    if isinstance(value, Memory):
        return plain(value.steps)
    if isinstance(value, Operators | Windows | DeviceTimings):
        return plain(value.times)
    if isinstance(value, MeasuredMemory):
        return plain(value.window)
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return type(value).__name__, {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value
