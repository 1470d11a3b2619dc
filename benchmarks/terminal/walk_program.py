"""One program in a pty: each key is pressed, and its effect checked."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from benchmarks.terminal.walk_session import (
    ESCAPE,
    EXPLORER_MARK,
    PALETTE,
    PLACES,
    Place,
    Press,
    Step,
)
from tests.end_to_end.terminal import COMMAND, Terminal, alternate_screen_is_left

QUIET_SECONDS, MOST_SECONDS = 0.06, 0.5
ESCAPE_SECONDS = 0.14
"""Textual takes what follows an escape within 0.1 s to belong to it."""
BACK_SECONDS, ASKS_SECONDS = 1.0, 4.0
"""Until another escape is pressed, and until it is taken that a key asks nothing."""
WAIT_SECONDS = 30.0
"""For what a key must lead to: after that the program hangs."""
_ASKS = re.compile(r"▏|\besc (cancels|stay|keeps it)")


class Walk:
    """A program that runs, and the keys pressed in it so far."""

    def __init__(
        self,
        arguments: Sequence[str],
        size: tuple[int, int],
        folder: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._state = Path(folder)
        variables = {"XDG_STATE_HOME": folder, **(environment or {})}
        self.terminal = Terminal(
            [*COMMAND, *arguments], *size, environment=variables, folder=folder
        )
        self.pressed = 0
        self.silent: list[str] = []
        """Keys after which nothing was drawn."""
        self.slowest = (0.0, "")
        """Seconds until a key had led where it must, and which."""

    def press(self, keys: str, why: str) -> None:
        """Press a key, wait until it is read and nothing more is drawn, and look."""
        before = self.terminal.bytes_read
        self.terminal.send(keys)
        self.pressed += 1
        self.terminal.wait_for(lambda _: self.terminal.has_read(), WAIT_SECONDS)
        self.settle(ESCAPE_SECONDS if keys.endswith(ESCAPE) else QUIET_SECONDS)
        if self.terminal.bytes_read == before:
            self.silent.append(f"{why} {keys!r}")
        self.check(f"{why} ({keys!r})")

    def step(self, step: Step) -> None:
        """Do one step, from the explorer on, and come back to it.

        Raises:
            AssertionError: something is wrong.
        """
        if step.place is not None:
            self.open(step.place, step.why)
            if not self.arrives(step.place.mark, f"opening {step.place.name}"):
                raise AssertionError(f"{step.place.name} does not open:\n{self.terminal.text()}")
        for press in step.presses:
            self.type(press, step.why)
            if step.place is not None and not step.leaves:
                where = f"{step.why}: {press.key!r}"
                is_there = self.arrives(step.place.mark, where)
                is_there = is_there and self.wait_for(lambda: not self.asks(), BACK_SECONDS * 5)
                assert is_there, f"{where} led away:\n{self.terminal.text()}"
        self.go_back(step.why)

    def open(self, place: Place, why: str) -> None:
        """Press what opens a place: a key, a key and the answer to its prompt, or the palette."""
        key, *answer = place.opening
        if answer and key == PALETTE.opening[0]:
            self.press(key, why)
            self.arrives(PALETTE.mark, f"{why}: {key!r}")
            for keys in answer:
                self.press(keys, f"{why}: {key!r}")
            return
        self.type(Press(key, tuple(answer)), why)

    def type(self, press: Press, why: str) -> None:
        """Press a key, answer the prompt that it opens, if it opens one, and undo it."""
        self.press(press.key, why)
        if press.leads is not None:
            self.arrives(press.leads.mark, f"{why}: {press.key!r}")
        if press.answer:
            self.wait_for(self.asks, ASKS_SECONDS)
        for keys in press.answer:
            if self.asks():
                self.press(keys, f"{why}: {press.key!r}")
        if press.answer and not self.wait_for(lambda: not self.asks(), BACK_SECONDS):
            self.press(ESCAPE, f"{why}: {press.key!r}")  # That answer is not offered here.
        for keys in press.undo:
            self.press(keys, f"{why}: after {press.key!r}")

    def asks(self) -> bool:
        """Whether a prompt is open in the last row."""
        return bool(_ASKS.search(self.terminal.text().rsplit("\n", 1)[-1]))

    def place(self) -> Place | None:
        """The screen that is seen to be open; None where it is none of them."""
        return next((one for one in PLACES if self.shows(one.mark)), None)

    def is_home(self) -> bool:
        """Whether the explorer is in front, and asks nothing."""
        return self.shows(EXPLORER_MARK) and self.place() is None and not self.asks()

    def arrives(self, mark: str, why: str) -> bool:
        """Wait until a mark is seen and return whether it was."""
        began = time.monotonic()
        is_seen = self.wait_for(lambda: self.shows(mark), WAIT_SECONDS)
        self.slowest = max(self.slowest, (time.monotonic() - began, why))
        return is_seen

    def shows(self, mark: str) -> bool:
        """Whether a mark is on the screen."""
        return re.search(mark, self.terminal.text(), re.MULTILINE) is not None

    def go_back(self, why: str) -> None:
        """Leave what stands before the explorer."""
        ends = time.monotonic() + WAIT_SECONDS
        while not (self.is_home() and self.is_home_still()):
            is_late = time.monotonic() > ends
            assert not is_late, f"no way back after {why}:\n{self.terminal.text()}"
            self.press(ESCAPE, f"back after {why}")
            self.wait_for(self.is_home, BACK_SECONDS)

    def is_home_still(self) -> bool:
        """Whether it is so, too, when what was to be drawn is drawn."""
        self.settle()
        return self.is_home()

    def wait_for(self, claim: Callable[[], bool], seconds: float) -> bool:
        """Wait until a claim holds and return whether it does."""
        ends = time.monotonic() + seconds
        while not claim() and time.monotonic() < ends and self.terminal.is_alive():
            select.select([], [], [], 0.02)
        return claim()

    def settle(self, quiet: float = QUIET_SECONDS) -> None:
        """Wait until nothing more is drawn, or for a moment where something always is."""
        ends = time.monotonic() + MOST_SECONDS
        before, since = -1, time.monotonic()
        while (now := time.monotonic()) < ends and now - since < quiet:
            if self.terminal.bytes_read != before:
                before, since = self.terminal.bytes_read, now
            select.select([], [], [], 0.01)

    def check(self, when: str) -> None:
        """Look at what the program is and shows now."""
        assert self.terminal.is_alive(), f"it ended after {when}:\n{self.terminal.text()}"
        self.terminal.wait_for(lambda shown: bool(shown.strip()), WAIT_SECONDS)
        beyond = self.terminal.screen.beyond
        assert not beyond, f"written beyond the last column after {when}: {beyond}"

    def suspend(self) -> None:
        """Stop the program as ctrl+Z does, and let it go on."""
        process = psutil.Process(self.terminal.pid)
        self.terminal.send("\x1a")
        self.terminal.wait_for(lambda _: process.status() == psutil.STATUS_STOPPED, WAIT_SECONDS)
        assert self.terminal.modes_are_restored(), "ctrl+Z left the terminal's modes changed"
        taken = self.terminal.raw.count(b"\x1b[?1049h")
        os.kill(self.terminal.pid, signal.SIGCONT)
        self.terminal.wait_for(
            lambda _: (
                self.terminal.raw.count(b"\x1b[?1049h") > taken
                and not self.terminal.modes_are_restored()
            ),
            WAIT_SECONDS,
        )
        self.settle()
        self.check("ctrl+Z and back")

    def leave(self, key: str = "q") -> None:
        """Leave, and look at what is left behind."""
        workers = self.terminal.workers()
        self.terminal.send(key)
        code = self.terminal.wait_for_exit(WAIT_SECONDS)
        assert code == 0, f"it left with code {code}:\n{self.terminal.text()}"
        assert self.terminal.modes_are_restored(), "the terminal's modes are not restored"
        is_left = alternate_screen_is_left(bytes(self.terminal.raw))
        assert is_left, "the alternate screen is not left"
        assert not psutil.wait_procs(workers, timeout=WAIT_SECONDS)[1], "a worker is left"
        assert not list(self._state.rglob("crash-*")), "it crashed"
