"""The explorer while the clock is set: keys are obeyed, no time on screen is negative or jumps.

A monotonic clock that goes back, which no system has, is not tried: asyncio's timers wait for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.terminal import COMMAND, Terminal
from tests.probe.watch.test_faketime import LIBRARY, PROGRAM
from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.recording.files import fixture, write

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed")

NEGATIVE = re.compile(r"(?<![\w.,)])[-−]\s?\d[\d.,]*\s?(?:[mµn]?s|min|h|d|it/s)\b")
POSITION = re.compile(r"([▸‖]) ([\d.]+) of 22\.4 s")


class Clock:
    """Sets the clock of programs that were started with ``environment``."""

    def __init__(self, folder: Path, *, every: bool) -> None:
        self._file = folder / "clock"
        self.set("+0")
        self.environment = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "XDG_STATE_HOME": str(folder),
            **({} if every else {"DONT_FAKE_MONOTONIC": "1"}),
        }

    def set(self, offset: str) -> None:
        """Set it off by so much."""
        self._file.write_text(f"{offset}\n")


def obeys_keys(terminal: Terminal) -> None:
    """See the keys' screen come and go."""
    terminal.send("?")
    terminal.wait_for("type to search")
    terminal.send("\x1b")
    terminal.wait_for(lambda text: "type to search" not in text)
    assert not NEGATIVE.search(terminal.text()), terminal.text()


def leaves(terminal: Terminal) -> None:
    """See it end by itself, without a traceback."""
    terminal.send("q")
    terminal.wait_for(lambda _: not terminal.is_alive())
    assert b"Traceback" not in terminal.raw


@contextmanager
def opened(command: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal([*COMMAND, *command], environment=environment)
    try:
        yield terminal
    finally:
        terminal.close()


def test_a_recording_plays_on_while_the_clock_is_set(tmp_path: Path) -> None:
    clock = Clock(tmp_path, every=False)
    recording = write(tmp_path / "a.rec", fixture())
    with opened(["open", str(recording)], clock.environment) as terminal:

        def position() -> float:
            found = POSITION.search(terminal.text())
            return float(found[2]) if found is not None else 0.0

        terminal.wait_for(lambda _: position() > 0)
        began = time.monotonic()
        for offset in ("+1d", "-1d", "+0"):
            before = position()
            clock.set(offset)
            terminal.wait_for(lambda _, before=before: position() > before or before >= 22.4)
            assert position() <= 22.4
        assert position() >= min(time.monotonic() - began, 22.4) - 5
        obeys_keys(terminal)
        leaves(terminal)


def test_a_recording_plays_to_its_end_where_every_clock_is_put_forward(tmp_path: Path) -> None:
    clock = Clock(tmp_path, every=True)
    recording = write(tmp_path / "a.rec", fixture())
    with opened(["open", str(recording)], clock.environment) as terminal:
        terminal.wait_for(lambda text: POSITION.search(text) is not None)
        clock.set("+1d")
        terminal.wait_for("‖ 22.4 of 22.4 s")
        obeys_keys(terminal)
        leaves(terminal)


def test_a_program_is_looked_at_while_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(tmp_path, every=False)
    with sockets_folder() as folder:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(folder))
        with WatchedProgram(PROGRAM, folder, **clock.environment) as program:
            assert program.said() == ["ready"]
            with opened(["attach", "faked"], clock.environment) as terminal:
                terminal.wait_for("● live")
                for offset in ("+1d", "-1d", "+0"):
                    clock.set(offset)
                    obeys_keys(terminal)
                    terminal.wait_for(r_live)
                leaves(terminal)
            program.hears("end")
            assert program.said() == ["ended"]


def r_live(text: str) -> bool:
    """Tell whether the header has a rate and a latency."""
    return re.search(r"● live +~?[\d.]+ it/s +[\d.]+ [mµ]s p50", text) is not None
