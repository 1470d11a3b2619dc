"""Whatever happens to the file of a recording: it opens, and shows nothing that was not said."""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import msgspec
import pytest

from tests.recording.files import HEADER, fixture, messages_in, read, timed, write
from tests.small_model import MEASURED
from tui_profiler.messages import Failed, Message, Nodes, Printed, TraceStarted
from tui_profiler.recording.errors import RecordingError
from tui_profiler.recording.frames import (
    HEAD_BYTES,
    MAX_BODY_BYTES,
    PREAMBLE_BYTES,
    Kind,
    frame,
    preamble,
)
from tui_profiler.recording.kind import is_recording
from tui_profiler.recording.reader import Recording, open_recording
from tui_profiler.wire import MAX_FRAME_BYTES, encode

SAID = timed(MEASURED)
SALT = b"salt"


def opened(tmp_path: Path, data: bytes) -> Recording:
    path = tmp_path / "damaged"
    path.write_bytes(data)
    return open_recording(path)


def is_part_of(found: list[Message], said: list[Message]) -> bool:
    """Whether everything found was said, in that order."""
    rest = iter(said)
    return all(message in rest for message in found)


@pytest.fixture
def small(tmp_path: Path) -> bytes:
    return write(tmp_path / "small", SAID).read_bytes()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    said = fixture()
    # As bytes: before the first figures a tick holds what is no number, and equals nothing.
    found = [encode(message) for message in read(write(tmp_path / "a.rec", said))]
    assert found == [encode(message) for message, _ in said]


def test_a_recording_says_where_it_comes_from_and_how_it_ended(tmp_path: Path) -> None:
    recording = open_recording(write(tmp_path / "a.rec", SAID, end="3 s were asked for"))
    assert recording.header == HEADER
    assert recording.end is not None
    assert recording.end.why == "3 s were asked for"
    assert (recording.holes, recording.unreadable) == ((), 0)
    assert [entry.at for entry in recording.entries] == [0.0, *(at for _, at in SAID), SAID[-1][1]]


def test_it_is_less_than_two_thirds_of_what_came_over_the_wire(tmp_path: Path) -> None:
    said = fixture()
    on_wire = sum(len(encode(message)) for message, _ in said)
    assert write(tmp_path / "a.rec", said).stat().st_size < on_wire * 2 / 3


@pytest.mark.parametrize("seed", range(3))
def test_a_file_cut_anywhere_opens_with_every_whole_frame(
    tmp_path: Path, small: bytes, seed: int
) -> None:
    said = [message for message, _ in SAID]
    ends = [
        entry.offset + HEAD_BYTES + entry.frame.length
        for entry in open_recording(tmp_path / "small").entries
    ]
    for size in random.Random(seed).sample(range(len(small) + 1), 60):
        recording = opened(tmp_path, small[:size])
        whole = sum(end <= size for end in ends)
        assert len(recording.entries) == whole
        assert messages_in(recording) == said[: max(whole - 1, 0)]
        assert bool(recording.holes) == (size > PREAMBLE_BYTES and size not in ends)
        recording.close()


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_show_nothing_that_was_not_said(
    tmp_path: Path, small: bytes, seed: int
) -> None:
    said = [message for message, _ in SAID]
    chance = random.Random(seed)
    for _ in range(100):
        damaged = bytearray(small)
        for bit in chance.sample(range(len(small) * 8), chance.choice((1, 1, 2, 20))):
            damaged[bit // 8] ^= 1 << bit % 8
        recording = opened(tmp_path, bytes(damaged))
        found = messages_in(recording)
        assert is_part_of(found, said)
        assert recording.unreadable == 0
        recording.close()


def test_every_single_flip_in_a_frame_is_found_and_counted(tmp_path: Path, small: bytes) -> None:
    whole = open_recording(tmp_path / "small")
    victim = whole.entries[3]
    for bit in range(8 * victim.offset, 8 * (victim.offset + HEAD_BYTES + 20)):
        damaged = bytearray(small)
        damaged[bit // 8] ^= 1 << bit % 8
        recording = opened(tmp_path, bytes(damaged))
        assert len(recording.entries) == len(whole.entries) - 1
        assert [(hole.entry, hole.frames) for hole in recording.holes] == [(3, 1)]
        recording.close()


def test_damaged_first_bytes_cost_nothing(tmp_path: Path, small: bytes) -> None:
    recording = opened(tmp_path, b"\0" * PREAMBLE_BYTES + small[PREAMBLE_BYTES:])
    assert messages_in(recording) == [message for message, _ in SAID]
    assert recording.skipped == 0


def test_rubbish_between_frames_is_passed_over(tmp_path: Path, small: bytes) -> None:
    place = open_recording(tmp_path / "small").entries[4].offset
    rubbish = random.Random(1).randbytes(3 * 1024 * 1024)
    recording = opened(tmp_path, small[:place] + rubbish + small[place:])
    assert messages_in(recording) == [message for message, _ in SAID]
    assert [(hole.length, hole.frames) for hole in recording.holes] == [(len(rubbish), 0)]


def test_a_frame_inside_a_text_is_no_frame(tmp_path: Path) -> None:
    faked = frame(encode(Failed("run", "faked")), SALT, 5, 1.0, Kind.MESSAGE)
    held = encode(Printed("", 0))[:4] + faked  # A body that holds the bytes of a frame,
    first = frame(held, b"ours", 0, 0.0, Kind.MESSAGE)
    damaged = bytearray(preamble(b"ours") + first)
    damaged[PREAMBLE_BYTES + HEAD_BYTES] ^= 1  # and whose own frame is damaged.
    assert opened(tmp_path, bytes(damaged)).entries == ()


def test_a_bomb_is_not_blown_up(tmp_path: Path) -> None:
    bomb = b"\0" * (MAX_BODY_BYTES + 1)
    recording = opened(tmp_path, preamble(SALT) + frame(bomb, SALT, 0, 0.0, Kind.MESSAGE))
    assert len(recording.entries) == 1
    assert messages_in(recording) == []
    assert recording.unreadable == 1


def test_a_message_of_a_newer_version_is_left_out_and_counted(tmp_path: Path) -> None:
    body = msgspec.msgpack.encode(["Newer", 1])
    newer = len(body).to_bytes(4, "big") + body
    frames = [newer, encode(MEASURED[0])]
    data = preamble(SALT) + b"".join(
        frame(body, SALT, number, 0.0, Kind.MESSAGE) for number, body in enumerate(frames)
    )
    recording = opened(tmp_path, data)
    assert (messages_in(recording), recording.unreadable) == ([MEASURED[0]], 1)


def test_times_never_go_back_and_are_numbers(tmp_path: Path) -> None:
    body, times = encode(MEASURED[0]), [1.0, float("nan"), 0.5, float("inf"), 2.0]
    data = preamble(SALT) + b"".join(
        frame(body, SALT, number, at, Kind.MESSAGE) for number, at in enumerate(times)
    )
    assert [entry.at for entry in opened(tmp_path, data).entries] == [1.0, 1.0, 1.0, 1.0, 2.0]


def test_a_newer_format_is_refused_in_one_sentence(tmp_path: Path) -> None:
    begin = bytearray(preamble(SALT))
    begin[9] = 2
    begin[14:18] = b"salt"
    begin[-4:] = zlib.crc32(begin[:-4]).to_bytes(4, "big")
    with pytest.raises(RecordingError, match="format 2, and this version reads format 1") as caught:
        opened(tmp_path, bytes(begin))
    assert "upgrade" in caught.value.remedy


@pytest.mark.parametrize("data", [b"PK\x03\x04" + b"\0" * 100, b"hello", b"\0" * 10_000])
def test_another_file_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(RecordingError, match="no recording"):
        opened(tmp_path, data)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "nowhere", "a\0b"):
        with pytest.raises(RecordingError, match="cannot be read"):
            open_recording(str(tmp_path / name))


def test_the_kind_is_told_by_the_first_bytes(tmp_path: Path, small: bytes) -> None:
    (tmp_path / "other").write_bytes(b"PK\x03\x04")
    names = ["small", "other", "nowhere", "."]
    assert [is_recording(tmp_path / name) for name in names] == [True, False, False, False]


def test_a_file_made_slow_to_read_is_given_up(tmp_path: Path) -> None:
    head = bytearray(frame(b"", SALT, 0, 0.0, Kind.MESSAGE))
    head[8:12] = (60_000).to_bytes(4, "big")
    assert opened(tmp_path, preamble(SALT) + bytes(head) * 40_000).entries == ()


def test_a_file_that_shrinks_while_it_is_read_shows_nothing_wrong(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", SAID)
    recording = open_recording(path)
    os.truncate(path, recording.entries[3].offset + 10)
    assert messages_in(recording) == [message for message, _ in SAID[:2]]


def test_a_tree_of_which_a_part_is_lost_is_known(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", fixture())
    recording = open_recording(path)
    kinds = [type(recording.message(i)) for i in range(len(recording.entries))]
    assert recording.broken == frozenset()
    for lost in (Nodes, TraceStarted):
        place = recording.entries[kinds.index(lost)].offset + HEAD_BYTES + 3
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        assert opened(tmp_path, bytes(data)).broken == {1}


def test_the_longest_message_of_the_wire_is_kept(tmp_path: Path) -> None:
    text = random.Random(1).randbytes(MAX_FRAME_BYTES // 2 - 100).hex()
    said: list[tuple[Message, float]] = [(Printed(text), 0.0)]
    assert read(write(tmp_path / "a.rec", said)) == [Printed(text)]
