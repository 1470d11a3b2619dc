"""A recording is played at any speed, from any place, and is told as it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.recording.files import fixture, fold, timed, write
from tests.small_model import MEASURED
from tui_profiler import messages
from tui_profiler.recording.frames import HEAD_BYTES
from tui_profiler.recording.reader import open_recording
from tui_profiler.session import Jump, Session, apply
from tui_profiler.source.recorded import FASTEST, Player


class Listener:
    """Folds what a player tells; its clock is the test's."""

    def __init__(self, path: Path, **options: float) -> None:
        self.seconds = 0.0
        self.player = Player(open_recording(path), clock=lambda: self.seconds, **options)
        self._messages: AsyncIterator[messages.Message | Jump] = self.player.messages()
        self._next: asyncio.Future[messages.Message | Jump] | None = None
        self.session: Session = fold([])
        self.heard: list[messages.Message | Jump] = []

    async def until_quiet(self) -> list[messages.Message | Jump]:
        """Hear all that is due now."""
        before = len(self.heard)
        while True:
            if self._next is None:
                self._next = asyncio.ensure_future(anext(self._messages))
            for _ in range(20):
                await asyncio.sleep(0)
            if not self._next.done():
                return self.heard[before:]
            self.heard.append(self._next.result())
            self.session = apply(self.session, self._next.result())
            self._next = None

    async def after(self, seconds: float) -> list[messages.Message | Jump]:
        """Let time pass; what waits for it is woken."""
        self.seconds += seconds
        self.player.wake()
        return await self.until_quiet()

    async def ask(self, request: messages.Request) -> list[messages.Message | Jump]:
        self.player.send(request)
        return await self.until_quiet()

    @property
    def playback(self) -> messages.Playback:
        assert self.session.playback is not None
        return self.session.playback

    async def close(self) -> None:
        await self.player.close()
        if self._next is not None:
            with pytest.raises(StopAsyncIteration):
                await self._next


TEN: list[tuple[messages.Message, float]] = [
    (MEASURED[0], 0.0),
    *((messages.Printed(f"{second}\n"), float(second)) for second in range(1, 11)),
]


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    """Ten lines, one a second."""
    return write(tmp_path / "ten.rec", TEN)


def lines(listener: Listener) -> int:
    return listener.session.log.total_lines


async def test_it_tells_what_was_there_when_it_was_there(ten: Path) -> None:
    listener = Listener(ten, at=0.0)
    await listener.until_quiet()
    assert lines(listener) == 0
    for second in range(1, 11):
        await listener.after(1.0)
        assert lines(listener) == second
    await listener.close()


@pytest.mark.parametrize(("speed", "seconds"), [(0.25, 16.0), (2.0, 2.0), (64.0, 0.0625)])
async def test_it_plays_at_any_speed(ten: Path, speed: float, seconds: float) -> None:
    listener = Listener(ten, at=0.0, speed=speed)
    await listener.until_quiet()
    await listener.after(seconds * 0.9)
    assert lines(listener) == 3
    await listener.after(seconds * 0.1)
    assert (lines(listener), listener.player.now()) == (4, 4.0)
    await listener.close()


async def test_another_speed_goes_on_from_the_same_place(ten: Path) -> None:
    listener = Listener(ten, at=0.0)
    await listener.until_quiet()
    await listener.after(2.5)
    await listener.ask(messages.SetSpeed(4.0))
    assert (listener.player.now(), listener.playback.speed) == (2.5, 4.0)
    await listener.after(0.5)
    assert lines(listener) == 4
    await listener.close()


async def test_a_speed_is_chosen_while_it_stands_still(ten: Path) -> None:
    listener = Listener(ten, at=0.0)
    await listener.until_quiet()
    await listener.ask(messages.Halt())
    await listener.ask(messages.SetSpeed(8.0))
    assert (listener.playback.is_playing, listener.playback.speed) == (False, 8.0)
    await listener.ask(messages.Play())
    await listener.after(0.5)
    assert lines(listener) == 4
    await listener.close()


@pytest.mark.parametrize(("asked", "taken"), [(0.0, 1 / 64), (1e9, FASTEST), (float("nan"), 1.0)])
async def test_a_speed_has_its_limits(ten: Path, asked: float, taken: float) -> None:
    listener = Listener(ten)
    await listener.until_quiet()
    await listener.ask(messages.SetSpeed(asked))
    assert listener.playback.speed == taken
    await listener.close()


async def test_it_stands_still_and_goes_on(ten: Path) -> None:
    listener = Listener(ten, at=0.0)
    await listener.until_quiet()
    await listener.after(2.0)
    await listener.ask(messages.Halt())
    assert not listener.playback.is_playing
    assert await listener.after(100.0) == []
    await listener.ask(messages.Play())
    assert (lines(listener), listener.player.now()) == (2, 2.0)
    await listener.after(1.0)
    assert lines(listener) == 3
    await listener.close()


async def test_a_place_is_gone_to_forwards_and_back(ten: Path) -> None:
    listener = Listener(ten, at=5.0)
    await listener.until_quiet()
    for at, told in [(8.5, 8), (2.0, 2), (-3.0, 0), (1e9, 10), (float("nan"), 0)]:
        heard = await listener.ask(messages.Seek(at))
        assert isinstance(heard[0], Jump)
        assert lines(listener) == told
    await listener.close()


async def test_a_place_is_gone_to_while_it_stands_still(ten: Path) -> None:
    listener = Listener(ten, at=5.0)
    await listener.until_quiet()
    await listener.ask(messages.Halt())
    await listener.ask(messages.Seek(3.0))
    assert (lines(listener), listener.playback.is_playing) == (3, False)
    await listener.close()


async def test_at_its_end_it_stands_and_can_be_played_again(ten: Path) -> None:
    listener = Listener(ten, at=9.0)
    await listener.until_quiet()
    await listener.after(60.0)
    assert (lines(listener), listener.player.now()) == (10, 10.0)
    assert not listener.playback.is_playing
    await listener.ask(messages.Play())
    assert (lines(listener), listener.player.now()) == (0, 0.0)
    await listener.close()


async def test_it_begins_at_the_first_figures(tmp_path: Path) -> None:
    said = fixture()
    first = next(at for m, at in said if isinstance(m, messages.Tick) and m.forwards > 0)
    listener = Listener(write(tmp_path / "a.rec", said))
    await listener.until_quiet()
    assert listener.player.now() == first
    assert listener.session.timings is not None
    await listener.close()


async def test_without_figures_it_begins_at_its_end(tmp_path: Path) -> None:
    listener = Listener(write(tmp_path / "a.rec", timed(MEASURED[:4])))
    await listener.until_quiet()
    assert listener.player.now() == listener.playback.ends
    await listener.close()


async def test_it_accepts_what_a_recording_can_do_and_says_why_no_more(ten: Path) -> None:
    listener = Listener(ten)
    await listener.until_quiet()
    hello = listener.session.hello
    assert isinstance(hello, messages.Hello)
    assert hello.accepts == ("Play", "Halt", "SetSpeed", "Seek")
    assert hello.refusal == "this is a recording: no model runs here"
    listener.player.send(messages.Pause())
    assert await listener.until_quiet() == []
    await listener.close()


async def test_it_says_where_it_comes_from(ten: Path) -> None:
    listener = Listener(ten)
    await listener.until_quiet()
    found = listener.playback
    assert (found.recorded_at, found.host, found.is_whole) == (1_795_000_000.0, "host", True)
    assert (found.begins, found.ends, found.frames_skipped) == (0.0, 10.0, 0)
    await listener.close()


def damage(path: Path, *lost: int) -> None:
    """Flip a bit in each of these frames, and cut the last one short."""
    data = bytearray(path.read_bytes())
    for entry in map(open_recording(path).entries.__getitem__, lost):
        data[entry.offset + HEAD_BYTES] ^= 1
    path.write_bytes(data[:-3])


async def test_it_says_what_is_damaged_and_where(ten: Path) -> None:
    damage(ten, 5, 6, 9)
    listener = Listener(ten, at=1e9)
    await listener.until_quiet()
    found = listener.playback
    assert [(place.at, place.frames) for place in found.skipped] == [(3.0, 2), (7.0, 1), (10.0, 1)]
    assert (found.frames_skipped, found.is_whole) == (4, False)
    assert lines(listener) == 7
    await listener.close()


async def test_what_nothing_was_written_to_is_an_empty_recording(tmp_path: Path) -> None:
    (tmp_path / "empty.rec").touch()
    listener = Listener(tmp_path / "empty.rec")
    await listener.until_quiet()
    assert (listener.session.tree, listener.playback.is_whole) == (None, False)
    await listener.ask(messages.Play())
    await listener.close()


async def test_a_long_time_at_once_is_passed_over(tmp_path: Path) -> None:
    said = [(messages.Printed(f"{number}\n"), number / 100) for number in range(3000)]
    listener = Listener(write(tmp_path / "a.rec", said), at=0.0, speed=FASTEST)
    await listener.until_quiet()
    heard = await listener.after(20 / FASTEST)
    assert any(isinstance(item, Jump) for item in heard)
    assert lines(listener) == 2001
    await listener.close()


async def test_played_to_its_end_it_is_the_session_that_was_folded_live(tmp_path: Path) -> None:
    said = fixture()
    listener = Listener(write(tmp_path / "a.rec", said), at=0.0)
    await listener.until_quiet()
    while listener.playback.is_playing:
        await listener.after(0.2)
    live = fold([message for message, _ in said])
    assert listener.session.tick == live.tick
    assert len(listener.session.history.ticks) == len(live.history.ticks)
    assert listener.session.stages == live.stages
    await listener.close()
