"""The session at any place of a recording is what folding everything up to it makes."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.recording.files import fixture, fold, messages_in, plain, write
from tui_profiler.messages import Failed, Hello, LoopState, Message, Nodes, Sample, Tick
from tui_profiler.recording.frames import HEAD_BYTES
from tui_profiler.recording.reader import Recording, open_recording
from tui_profiler.session import Session
from tui_profiler.session.history import MAX_SECONDS
from tui_profiler.source.recorded import ACCEPTS, RECORD_AGAIN, REFUSAL, SeekIndex, needed


def long_session() -> list[tuple[Message, float]]:
    """A thousand ticks and samples, a failure, another batch size: the fixture told on and on."""
    said = fixture()
    (sample,) = [m for m, _ in said if isinstance(m, Sample)][:1]
    ticks = [m for m, _ in said if isinstance(m, Tick) and m.forwards > 0]
    loop = next(m for m, _ in said if isinstance(m, LoopState))
    tree = [m for m, _ in said if type(m).__name__ in ("TraceStarted", "Nodes", "Edges")]
    done = next(m for m, _ in said if type(m).__name__ == "TraceDone")
    at = said[-1][1]
    for number in range(1000):
        at += 0.25
        said.append((replace(ticks[number % len(ticks)], at=at, forwards=1000 + number), at))
        if number % 2 == 0:
            said.append((replace(sample, at=at), at))
        if number == 400:
            said.append((Failed("run", "something", fatal=False), at))
        if number == 600:
            said += [(m, at) for m in (*tree, done, replace(loop, at=at, batch=2))]
    return said


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return open_recording(write(tmp_path_factory.mktemp("past") / "long.rec", long_session()))


def expected(recording: Recording, stop: int) -> Session:
    """Every message up to there, folded as a live viewer would have; none is left out."""
    every = (recording.message(position) for position in range(stop))
    said = [
        replace(m, accepts=ACCEPTS, refusal=REFUSAL) if isinstance(m, Hello) else m for m in every
    ]
    return fold([Hello(0, 0, ACCEPTS, REFUSAL), *(m for m in said if m is not None)])


def assert_same(found: Session, wanted: Session) -> None:
    # Written out: a figure that is no number equals nothing, not even itself.
    for name in wanted.__struct_fields__:
        assert repr(plain(getattr(found, name))) == repr(plain(getattr(wanted, name))), name


def test_at_every_place_the_session_is_what_was_known_there(recording: Recording) -> None:
    past = SeekIndex(recording)
    chance = random.Random(4)
    last = len(recording.entries)
    for stop in [0, 1, last, *chance.sample(range(last), 12), 25, 26, 27, 28]:
        assert_same(past.session(stop), expected(recording, stop))


def test_little_is_read_for_a_place_far_away(recording: Recording) -> None:
    last = len(recording.entries)
    assert len(needed(recording, 0, last)) < last * 0.7


def test_the_tree_is_the_same_one_wherever_it_is_looked_at(recording: Recording) -> None:
    past = SeekIndex(recording)
    last = len(recording.entries)
    trees = [past.session(stop).tree for stop in (last, last - 100, last - 300, last)]
    assert trees[0] is not None
    assert all(a is b for a, b in pairwise(trees))


def damaged(tmp_path: Path, lost: type[Message], nth: int = 0) -> Recording:
    """The long session, with one bit flipped in one frame of that kind."""
    path = write(tmp_path / "long.rec", long_session())
    whole = open_recording(path)
    kinds = [type(whole.message(position)) for position in range(len(whole.entries))]
    place = [position for position, kind in enumerate(kinds) if kind is lost][nth]
    data = bytearray(path.read_bytes())
    data[whole.entries[place].offset + HEAD_BYTES + 1] ^= 1
    path.write_bytes(data)
    return open_recording(path)


def test_a_lost_tick_is_the_only_thing_that_is_lost(tmp_path: Path) -> None:
    recording = damaged(tmp_path, Tick, 20)
    found = SeekIndex(recording).session(len(recording.entries))
    assert found.tree is not None
    assert found.failure is None
    assert (recording.skipped, len(messages_in(recording))) == (1, len(long_session()) - 1)


def test_times_are_not_shown_at_the_nodes_of_another_tree(tmp_path: Path) -> None:
    recording = damaged(tmp_path, Nodes, 1)
    past = SeekIndex(recording)
    assert past.session(200).tree is not None
    found = past.session(len(recording.entries))
    assert found.tree is None
    assert found.failure is not None
    assert "is missing in this recording" in found.failure.what
    assert found.failure.remedies == (RECORD_AGAIN,)


def test_the_last_minutes_are_those_of_a_viewer_that_saw_everything(tmp_path: Path) -> None:
    said = fixture()
    (sample,) = [m for m, _ in said if isinstance(m, Sample)][:1]
    tick = [m for m, _ in said if isinstance(m, Tick)][-1]
    at, forwards = said[-1][1], tick.forwards
    for number in range(2 * MAX_SECONDS + 300):
        at += 0.5
        forwards += number % 100 < 80  # Now and then the model is held.
        said.append((replace(tick, at=at, forwards=forwards, latency_p50=forwards / 1e6), at))
        said.append((replace(sample, at=at), at))
    recording = open_recording(write(tmp_path / "minutes.rec", said))
    found = SeekIndex(recording).session(len(recording.entries)).history
    wanted = fold(message for message, _ in said).history
    assert len(found.latencies) == len(found.loads) == MAX_SECONDS
    # Beyond what is kept nothing tells whether the very first of them finished a forward.
    assert found.latencies[1:] == wanted.latencies[1:]
    assert found.loads == wanted.loads
    assert len(needed(recording, 0, len(recording.entries))) < len(said) * 0.7
