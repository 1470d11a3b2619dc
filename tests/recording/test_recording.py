"""Whatever happens to the file of a recording: it opens, and shows nothing that was not said."""

from __future__ import annotations

import os
import random
import zlib
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.fixtures.record_memory import memory, recorded_with_memory
from tests.recording.files import HEADER, fixture, messages_in, read, timed, write
from tests.small_model import MEASURED
from tui_profiler.connection.wire import MAX_FRAME_BYTES, WireError, encode
from tui_profiler.messages import Failed, Message, Nodes, Printed, TraceStarted
from tui_profiler.recording.frames import (
    COMPRESSED,
    HEAD_BYTES,
    MARK,
    MAX_BODY_BYTES,
    PREAMBLE_BYTES,
    Kind,
    frame,
    head,
    preamble,
    unpacked,
)
from tui_profiler.recording.kind import RecordingError, is_recording
from tui_profiler.recording.reader import Recording, open_recording
from tui_profiler.recording.scan import scan
from tui_profiler.session import Tree
from tui_profiler.source.recorded import SeekIndex

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
    recording = open_recording(write(tmp_path / "a.rec", SAID, end="3 s were requested"))
    assert recording.header == HEADER
    assert recording.end is not None
    assert recording.end.why == "3 s were requested"
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


def frames_of(path: Path) -> list[bytes]:
    """The preamble, then every frame."""
    data = path.read_bytes()
    ends = [
        entry.offset + HEAD_BYTES + entry.frame.length for entry in open_recording(path).entries
    ]
    return [data[a:b] for a, b in pairwise([0, PREAMBLE_BYTES, *ends])]


def test_frames_of_another_recording_are_noticed_and_never_shown(
    tmp_path: Path, small: bytes
) -> None:
    ours = frames_of(tmp_path / "small")
    theirs = frames_of(write(tmp_path / "theirs", SAID))
    said = [message for message, _ in SAID]
    chance = random.Random(5)
    for whole in (theirs, theirs[1:], theirs[2:]):  # With and without preamble and header.
        for _ in range(15):
            at = chance.randrange(2, len(ours) + 1)
            back = chance.randrange(at, len(ours) + 1)
            spliced = b"".join([*ours[:at], *whole, *ours[back:]])
            recording = opened(tmp_path, spliced)
            assert [hole.splice for hole in recording.holes] == ["another recording"]
            assert len(recording.entries) == len(ours) - 1 - (back - at)
            assert messages_in(recording) == said[: at - 2] + said[back - 2 :]
            recording.close()


def test_half_a_recording_and_the_rest_of_another_is_noticed(tmp_path: Path, small: bytes) -> None:
    theirs = b"".join(frames_of(write(tmp_path / "theirs", SAID))[8:])
    recording = opened(tmp_path, small[: len(small) // 2] + theirs)
    assert [hole.splice for hole in recording.holes] == ["another recording"]
    assert recording.end is None
    recording.close()


def test_frames_repeated_moved_or_cut_out_are_noticed(tmp_path: Path, small: bytes) -> None:
    ours = frames_of(tmp_path / "small")
    said = [message for message, _ in SAID]
    chance = random.Random(6)
    for _ in range(30):
        first, second = sorted(chance.sample(range(2, len(ours) - 1), 2))
        repeated = [*ours[:second], ours[first], *ours[second:]]
        moved = [*ours[:first], *ours[first + 1 : second + 1], ours[first], *ours[second + 1 :]]
        missing = [*ours[:first], *ours[second:]]
        for frames, wanted in (
            (repeated, ["repeated"]),
            (moved, ["cut out", "repeated"]),
            (missing, ["cut out"]),
        ):
            recording = opened(tmp_path, b"".join(frames))
            assert [hole.splice for hole in recording.holes] == wanted
            assert is_part_of(messages_in(recording), said)
            recording.close()
    # Damage elsewhere is still damage.
    recording = opened(tmp_path, b"".join((*ours[:4], ours[2], *ours[4:6], b"rubbish", *ours[6:])))
    assert [hole.splice for hole in recording.holes] == ["repeated", ""]
    recording.close()
    recording = opened(tmp_path, small + ours[-2])
    assert [(hole.splice, hole.frames) for hole in recording.holes] == [("repeated", 0)]
    recording.close()


def test_damage_alone_is_not_called_a_splice(tmp_path: Path, small: bytes) -> None:
    chance = random.Random(7)
    for _ in range(100):
        damaged = bytearray(small)
        start = chance.randrange(PREAMBLE_BYTES, len(small))
        length = min(chance.choice((1, 40, 512)), len(small) - start)
        damaged[start : start + length] = chance.randbytes(length)
        recording = opened(tmp_path, bytes(damaged[: chance.randrange(start, len(small) + 1)]))
        assert {hole.splice for hole in recording.holes} <= {""}
        recording.close()


def test_a_frame_inside_a_text_is_no_frame(tmp_path: Path) -> None:
    faked = frame(encode(Failed("run", "faked")), SALT, 5, 1.0, Kind.MESSAGE)
    held = encode(Printed("", 0))[:4] + faked  # A body that holds the bytes of a frame,
    first = frame(held, b"ours", 0, 0.0, Kind.MESSAGE)
    damaged = bytearray(preamble(b"ours") + first)
    damaged[PREAMBLE_BYTES + HEAD_BYTES] ^= 1  # and whose own frame is damaged.
    assert opened(tmp_path, bytes(damaged)).entries == ()


def test_a_head_that_claims_more_than_a_message_is_no_head() -> None:
    def claiming(length: int) -> bytes:
        made = frame(b"text", SALT, 1, 2.0, Kind.MESSAGE)
        at = len(MARK) + len(SALT)
        return made[:at] + length.to_bytes(4, "big") + made[at + 4 :]

    found = head(claiming(MAX_BODY_BYTES), SALT)
    assert found is not None
    assert found.length == MAX_BODY_BYTES
    assert head(claiming(MAX_BODY_BYTES + 1), SALT) is None  # Nor are so many bytes read.
    assert head(claiming(4), b"tlas") is None


def test_what_does_not_compress_is_kept_as_it_is() -> None:
    for body, is_smaller in ((random.Random(1).randbytes(1000), False), (bytes(1000), True)):
        made = frame(body, SALT, 1, 2.0, Kind.MESSAGE)
        found = head(made, SALT)
        assert found is not None
        assert (found.length < len(body)) == is_smaller
        assert found.length <= len(body)
        assert unpacked(made[HEAD_BYTES:], found.flags) == body


def test_a_bomb_is_not_blown_up(tmp_path: Path) -> None:
    bomb = b"\0" * (MAX_BODY_BYTES + 1)
    recording = opened(tmp_path, preamble(SALT) + frame(bomb, SALT, 0, 0.0, Kind.MESSAGE))
    assert len(recording.entries) == 1
    assert messages_in(recording) == []
    assert recording.unreadable == 1
    with pytest.raises(WireError, match="the body has no end"):
        unpacked(zlib.compress(bomb), COMPRESSED)
    assert unpacked(zlib.compress(bomb[1:]), COMPRESSED) == bomb[1:]


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
    with pytest.raises(RecordingError, match="not a recording"):
        opened(tmp_path, data)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "nowhere", "a\0b"):
        with pytest.raises(RecordingError, match="cannot be read"):
            open_recording(str(tmp_path / name))


def test_of_a_pipe_nothing_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDWR)  # Or opening it would wait for a writer.
    os.write(held, preamble(SALT))
    assert not is_recording(tmp_path / "pipe")
    assert os.read(held, PREAMBLE_BYTES) == preamble(SALT)
    os.close(held)


def test_the_kind_is_told_by_the_first_bytes(tmp_path: Path, small: bytes) -> None:
    (tmp_path / "other").write_bytes(b"PK\x03\x04")
    names = ["small", "other", "nowhere", "."]
    assert [is_recording(tmp_path / name) for name in names] == [True, False, False, False]


def test_a_file_made_slow_to_read_is_given_up(tmp_path: Path) -> None:
    head = bytearray(frame(b"", SALT, 0, 0.0, Kind.MESSAGE))
    head[8:12] = (60_000).to_bytes(4, "big")
    assert opened(tmp_path, preamble(SALT) + bytes(head) * 40_000).entries == ()


@pytest.mark.parametrize("copied_bytes", [0, 60_000])
def test_a_file_made_slow_to_read_is_read_so_many_times(copied_bytes: int) -> None:
    """Heads of long frames with a wrong checksum; and whole frames, all with the same number."""
    if copied_bytes:
        again = frame(bytes(copied_bytes), SALT, 0, 0.0, Kind.MESSAGE)
        first = frame(b"", SALT, 1, 0.0, Kind.MESSAGE)
        nested = b"".join(MARK + SALT for _ in range(2000))
        data = preamble(SALT) + first + again * 100 + nested
    else:
        head = bytearray(frame(b"", SALT, 0, 0.0, Kind.MESSAGE))
        head[8:12] = (60_000).to_bytes(4, "big")
        data = preamble(SALT) + bytes(head) * 40_000
    read_bytes = 0

    def read(offset: int, size: int) -> bytes:
        nonlocal read_bytes
        piece = data[offset : offset + size]
        read_bytes += len(piece)
        return piece

    scan(read, len(data))
    assert read_bytes < 20 * len(data) + 2 * MAX_BODY_BYTES


def test_heads_of_another_recording_in_many_holes_are_read_so_many_times() -> None:
    other = bytearray(frame(b"", b"tlas", 0, 0.0, Kind.MESSAGE))
    other[8:12] = (60_000).to_bytes(4, "big")
    ours = (frame(b"", SALT, number, 0.0, Kind.MESSAGE) for number in range(60))
    data = preamble(SALT) + b"".join(one + bytes(other) * 64 for one in ours)
    read_bytes = 0

    def read(offset: int, size: int) -> bytes:
        nonlocal read_bytes
        piece = data[offset : offset + size]
        read_bytes += len(piece) if size < len(data) else 0  # Looking for marks is apart.
        return piece

    assert scan(read, len(data)) is not None
    assert read_bytes < 20 * len(data) + 2 * MAX_BODY_BYTES


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


def tree_at_the_end(path: Path) -> Tree:
    recording = open_recording(path)
    try:
        tree = SeekIndex(recording).session(len(recording.entries)).tree
    finally:
        recording.close()
    assert tree is not None
    return tree


def test_steps_are_recorded_with_their_tree(tmp_path: Path) -> None:
    tree = tree_at_the_end(write(tmp_path / "new.rec", timed(recorded_with_memory())))
    assert tree.memory is not None
    assert tree.memory.steps == memory()[0]


def test_a_recording_without_steps_opens(tmp_path: Path) -> None:
    tree = tree_at_the_end(write(tmp_path / "old.rec", fixture()))
    assert tree.memory is None
