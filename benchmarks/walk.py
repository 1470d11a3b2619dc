"""The real program in a pty, through a session that touches every key of every screen.

``python benchmarks/walk.py [MODEL...] [--size 120x40] [--size 80x24]``. Two models are made here:
``giant`` has 100,000 nodes, ``weights`` is a file of parameters alone. The keys come from the
tables that the screens are bound to, so that a new key is walked by itself. After each key the
program must run, show something, and have written nothing beyond the last column; at the end it
leaves with code 0, the terminal restored, no worker and no report of a crash.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import psutil
from textual.binding import Binding
from textual.keys import _character_to_key
from textual.screen import Screen

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from screens.keys import DEPTHS, EXPLORER, SIDE_SCREENS, Key
from screens.side_screens import side_screen
from tests.end_to_end.terminal import COMMAND, Terminal, alternate_screen_is_left

MODELS = (
    *("resnet50", "vit_b_16", "demo:decoder", "ssdlite320_mobilenet_v3_large"),
    *("giant", "weights"),
)
GIANT = """
from torch import nn


def build():
    blocks = [nn.Sequential(*[nn.ReLU() for _ in range(99)]) for _ in range(500)]
    return nn.Sequential(nn.Linear(8, 8), *blocks)
"""
"""Each of its 49,500 activations is a module and an operator."""
WEIGHTS = "import sys, torch, torchvision; torch.save({}.state_dict(), sys.argv[1])"
QUIET_SECONDS, MOST_SECONDS = 0.08, 1.5
SLOW_SECONDS = 1.0
"""Without a change, before it is taken that a screen does not open, or does not close."""
ESCAPE_SECONDS = 0.16
"""Textual takes what follows an escape within 0.1 s to belong to it."""
ESCAPE = "\x1b"
_SEQUENCES = {
    "enter": "\r",
    "escape": ESCAPE,
    "backspace": "\x7f",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "shift+left": "\x1b[1;2D",
    "shift+right": "\x1b[1;2C",
}
_CHARACTERS = {_character_to_key(chr(code)): chr(code) for code in range(32, 127)}
_AFTERWARDS = {
    "filter": ("conv", "\r", ESCAPE),
    "batch": ("2", "\r"),
    "seek_to": ("50%", "\r"),
    "hold": ("P", ".", "P"),
    "compare": (ESCAPE,),
}
"""What is typed after the key of an action: into its prompt, or to undo it."""
_INSIDE, _BACK = "in", "esc back"
_MODULES = {"keys": "help"}
_LEAVING = re.compile(r"leave|\bback|dismiss|app\.|quit|choose")


def typed(key: str) -> str:
    """Give the bytes that a terminal sends for a key, as Textual names it."""
    if key in _SEQUENCES:
        return _SEQUENCES[key]
    if key.startswith("ctrl+"):
        return chr(ord(key[-1]) & 0x1F)
    return _CHARACTERS[key]


def is_there(key: Key) -> bool:
    """Whether the screen of a key can be imported."""
    return find_spec(f"screens.{_MODULES.get(key.label, key.label)}") is not None


def opens(key: Key) -> bool:
    """Whether a key of the explorer opens a screen of its own."""
    return is_there(key) and (key.group == "screens" or key.action == "node")


def bound(key: Key) -> list[tuple[str, str]]:
    """Give (key, action) of everything that is bound on the screen that a key opens."""
    if key in SIDE_SCREENS:
        kinds: list[type] = [side_screen(key.label)]
    else:
        module = import_module(f"screens.{_MODULES.get(key.label, key.label)}")
        kinds = [one for one in vars(module).values() if isinstance(one, type)]
        kinds = [
            one for one in kinds if issubclass(one, Screen) and one.__module__ == module.__name__
        ]
    found: list[tuple[str, str]] = []
    for kind in kinds:
        for parent in kind.__mro__:
            if parent.__module__.startswith("screens"):
                for binding in vars(parent).get("BINDINGS", ()):
                    assert isinstance(binding, Binding)
                    found += [(name, binding.action) for name in binding.key.split(",")]
    return found


def session() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give the session: (what is done, what is typed for it)."""
    restarts = [key for key in EXPLORER if key.action == "restart"]
    plain = [key for key in (*EXPLORER, *DEPTHS) if not _LEAVING.search(key.action)]
    for key in plain:
        if key in restarts:
            continue
        for name in key.keys.split(","):
            then = (*_AFTERWARDS.get(key.action, ()), *((ESCAPE,) if opens(key) else ()))
            yield f"{key.label}: {name}", (typed(name), *then)
    for key in filter(opens, plain):
        opening = typed(key.keys.split(",")[0])
        staying = [(name, action) for name, action in bound(key) if not _LEAVING.search(action)]
        keys = tuple(typed(name) for name, _ in staying)
        where = f"{_INSIDE} {key.label}" if key.label != "palette" else key.label
        yield f"{where}, every key", (opening, *keys, ESCAPE)
        for name, action in bound(key):
            if _LEAVING.search(action):
                yield (
                    f"{where}, left by {name}",
                    (opening, typed(name), ESCAPE, ESCAPE),
                )
    for key in restarts:
        yield "restart", (typed(key.keys),)


class Walk:
    """One program that is walked through."""

    def __init__(
        self,
        arguments: Sequence[str],
        size: tuple[int, int],
        state: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._state = Path(state)
        variables = {"XDG_STATE_HOME": state, **(environment or {})}
        self.terminal = Terminal([*COMMAND, *arguments], *size, environment=variables)
        self.pressed = 0

    def press(self, keys: str, why: str) -> None:
        """Press a key, wait until it is read and nothing more is drawn, and look."""
        self.terminal.send(keys)
        self.pressed += 1
        self.terminal.wait_for(lambda _: self.terminal.has_read())
        self.settle(ESCAPE_SECONDS if keys == ESCAPE else QUIET_SECONDS)
        self.check(f"{why} ({keys!r})")

    def step(self, keys: Sequence[str], why: str) -> None:
        """Press the keys of one step, from the explorer on.

        What cannot be opened for this model is not left: the keys for that would leave the program.
        """
        self.go_back(why)
        opening, *rest = keys
        self.press(opening, why)
        if why.startswith(_INSIDE) and _BACK not in self.terminal.text():
            self.settle(SLOW_SECONDS)
        if not why.startswith(_INSIDE) or _BACK in self.terminal.text():
            for key in rest:
                self.press(key, why)

    def go_back(self, why: str) -> None:
        """Leave a screen that still stands beside the explorer."""
        for _ in range(3):
            if _BACK in self.terminal.text():
                self.press(ESCAPE, f"back before {why}")
                self.settle(SLOW_SECONDS)

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
        self.terminal.wait_for(lambda shown: bool(shown.strip()))
        beyond = self.terminal.screen.beyond
        assert not beyond, f"written beyond the last column after {when}: {beyond}"

    def suspend(self) -> None:
        """Stop the program as ctrl+Z does, and let it go on."""
        process = psutil.Process(self.terminal.pid)
        self.terminal.send("\x1a")
        self.terminal.wait_for(lambda _: process.status() == psutil.STATUS_STOPPED)
        assert self.terminal.modes_are_restored()
        os.kill(self.terminal.pid, signal.SIGCONT)
        self.settle()
        self.check("ctrl+Z and back")

    def leave(self) -> None:
        """Leave, and look at what is left behind."""
        self.go_back("leaving")
        workers = self.terminal.workers()
        self.terminal.send("q")
        code = self.terminal.wait_for_exit()
        assert code == 0, f"it left with code {code}:\n{self.terminal.text()}"
        assert self.terminal.modes_are_restored()
        assert alternate_screen_is_left(bytes(self.terminal.raw))
        assert not psutil.wait_procs(workers, timeout=240)[1], "a worker is left"
        assert not list(self._state.rglob("crash-*")), "it crashed"


def walk(
    arguments: Sequence[str], size: tuple[int, int], *, ready: str = "graph", every: int = 1
) -> int:
    """Walk through one program; gives how many keys were pressed.

    Args:
        arguments: of ``tui-profiler``.
        size: columns and rows.
        ready: what the screen shows once there is a tree.
        every: do one of so many steps of the session, for a sample of it.

    Raises:
        AssertionError: with the key after which something was wrong.
    """
    with tempfile.TemporaryDirectory() as state:
        one = Walk(arguments, size, state)
        try:
            one.terminal.wait_for(ready, seconds=300)
            for why, keys in islice(session(), 0, None, every):
                one.step(keys, why)
            one.suspend()
            one.leave()
        finally:
            one.terminal.close()
    return one.pressed


def arguments(model: str, folder: Path) -> list[str]:
    """Give what is typed for a model, made first where it is one of ours."""
    if model == "giant":
        (folder / "giant.py").write_text(GIANT, encoding="utf-8")
        return [f"{folder / 'giant.py'}:build"]
    if model == "weights":
        code = WEIGHTS.format("torchvision.models.resnet18()")
        subprocess.run([sys.executable, "-c", code, folder / "weights.pt"], check=True)
        return [str(folder / "weights.pt")]
    return model.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--size", action="append", help="COLUMNSxROWS; may be repeated")
    options = parser.parse_args()
    sizes = options.size or ["120x40", "80x24"]
    with tempfile.TemporaryDirectory() as folder:
        walks = [
            (model, arguments(model, Path(folder)), size)
            for model in options.models
            for size in sizes
        ]
        failures = [walked(*one) for one in walks].count(False)
    return 1 if failures else 0


def walked(model: str, typed: Sequence[str], size: str) -> bool:
    """Walk through one model and tell how it went; gives whether nothing was wrong."""
    columns, rows = map(int, size.split("x"))
    began = time.monotonic()
    try:
        pressed = walk(typed, (columns, rows))
    except AssertionError as error:
        print(f"{model:<32} {size:>7}  FAILED {error}", flush=True)
        return False
    seconds = time.monotonic() - began
    print(f"{model:<32} {size:>7}  {pressed} keys, {seconds:.0f} s, nothing wrong", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
