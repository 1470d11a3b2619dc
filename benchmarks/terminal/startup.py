"""Seconds from the command to the first frame, beside other programs in one interleaved run.

``python -m benchmarks.terminal.startup [MODEL] [ROUNDS] [--other TUI_PROFILER] [--stages]``. Each
round starts every program once, in turn, on a pty that is read as fast as it goes; before the first
round each is started once uncounted, so that its bytecode is kept, as a user's is.

- *frame*: header, stages and keys stand there, on a first start; *explorer*: its own first frame
  has taken their place, and keys act.
- *cached tree*: the same for a model that was opened before; a *key* moves in it.
- A blank Textual app, and btop, harlequin and memray's live mode where they are installed: the
  first text on the screen.
- ``--other`` is the ``tui-profiler`` of another version.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from tests.end_to_end.terminal import COMMAND, Terminal

FRAME_BUDGET, EXPLORER_BUDGET, BLANK_BUDGET = 0.120, 0.300, 1.6
_SEQUENCE = re.compile(rb"\x1b\[[?>0-9;$]*[a-zA-Z]|\x1b[^\[]")
_TEXT = re.compile(rb"[^\s\x1b]")
LAST_WORDS = b"keys"
"""Of the last row: the frame is whole."""
TAKEN = b"\x1b[?1004h"
"""What Textual's driver asks of the terminal, some ms before its first frame."""
BLANK = """
from textual.app import App
from textual.widgets import Static
class Blank(App):
    def compose(self):
        yield Static("blank")
Blank().run()
"""
PEERS = {
    "btop": ["btop"],
    "harlequin": ["harlequin"],
    "memray live": ["memray", "run", "--live"],
}


def until(terminal: Terminal, claim: Callable[[bytearray], bool]) -> None:
    """Wait until a claim about the bytes holds: drawing them would hold up who reads them."""
    deadline = terminal.seconds() + 30
    while not claim(terminal.raw):
        assert terminal.seconds() < deadline, terminal.text()
        terminal.pause(0.005)


def first_text(command: Sequence[str]) -> float:
    """Return seconds until there is any text on the screen."""
    terminal = Terminal(command)
    until(terminal, lambda raw: bool(_TEXT.search(_SEQUENCE.sub(b"", raw))))
    terminal.wait_for(lambda shown: bool(shown.strip()), seconds=30)
    seconds = terminal.first_text_after
    terminal.close()
    assert seconds is not None
    return seconds


def came(terminal: Terminal, wanted: bytes, after: int = 0) -> tuple[float, int]:
    """Return when these bytes had been read, and where they end."""
    until(terminal, lambda raw: wanted in raw[after:])
    end = terminal.raw.index(wanted, after) + len(wanted)
    return next(at for at, count in terminal.reads if count >= end), end


def opened(command: Sequence[str], cache: str, *, wanted: str) -> dict[str, float]:
    """Return seconds to the frame, to the explorer's own and to the answer of a key in it.

    Args:
        command: to start.
        cache: folder of what is cached.
        wanted: on the screen, with the frame.
    """
    environment = {"XDG_CACHE_HOME": cache, "XDG_STATE_HOME": cache}
    terminal = Terminal(command, environment=environment)
    frame, _ = came(terminal, LAST_WORDS)
    _, end = came(terminal, TAKEN)
    # Its frame goes to the header; what it asks of the terminal before does not.
    found = {"frame": frame, "explorer": came(terminal, b"\x1b[1;", end)[0]}
    assert wanted in terminal.text()
    if wanted == "cached":
        before, sent = terminal.bytes_read, terminal.seconds()
        terminal.send("j")
        terminal.wait_for(lambda shown: " 2 of " in shown, seconds=30)
        answered = next(at for at, count in terminal.reads if count > before)
        found["key"] = found["explorer"] + answered - sent
    terminal.close()
    return found


def first_start(command: Sequence[str]) -> dict[str, float]:
    """Return the seconds of a start with nothing cached."""
    with tempfile.TemporaryDirectory() as cache:
        return opened(command, cache, wanted="starting")


def fill(command: Sequence[str], cache: str) -> None:
    """Open a model until it runs, and leave it: its tree and its first frame are cached."""
    terminal = Terminal(command, environment={"XDG_CACHE_HOME": cache, "XDG_STATE_HOME": cache})
    terminal.wait_for("● live", 240)
    terminal.send("q")
    terminal.wait_for_exit()
    terminal.close()


def row(words: str, found: list[float], budget: float | None = None) -> None:
    """Print the median and the least of some seconds."""
    held = "" if budget is None else f"   budget {budget * 1e3:.0f}"
    print(f"  {words:<32}{median(found) * 1e3:6.0f} ms  ({min(found) * 1e3:.0f}){held}")


def compare(model: str, rounds: int, other: str, cache: str) -> None:
    """Start everything in turn, and print what each took."""
    ours = [*COMMAND, model]
    starts: dict[str, Callable[[], dict[str, float]]] = {
        "blank": lambda: {"text": first_text([sys.executable, "-c", BLANK])},
        "first": lambda: first_start(ours),
        "again": lambda: opened(ours, cache, wanted="cached"),
    }
    script = Path(cache) / "blank.py"
    script.write_text("import time\ntime.sleep(30)\n")
    for name, command in PEERS.items():
        if shutil.which(command[0]):
            whole = [*command, str(script)] if name == "memray live" else command
            starts[name] = lambda whole=whole: {"text": first_text(whole)}
    if other:
        starts["other"] = lambda: {"text": first_text([other, model])}
    fill(ours, cache)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in starts}
    for each in range(rounds + 1):
        for name, start in starts.items():
            found = start()
            if each:  # The first ones are not counted.
                times[name].append(found)
    print(f"{model}, median of {rounds} in turn, the least in brackets")
    row("first start: frame", [one["frame"] for one in times["first"]], FRAME_BUDGET)
    row("first start: explorer", [one["explorer"] for one in times["first"]], EXPLORER_BUDGET)
    row("again: frame with cached tree", [one["frame"] for one in times["again"]], FRAME_BUDGET)
    row("again: explorer", [one["explorer"] for one in times["again"]], EXPLORER_BUDGET)
    row("again: a key in it", [one["key"] for one in times["again"]], EXPLORER_BUDGET)
    row("blank Textual app: text", [one["text"] for one in times["blank"]])
    for name in (*PEERS, "other"):
        if name in times:
            row(f"{other if name == 'other' else name}: text", [one["text"] for one in times[name]])
    for name, words in (("frame", ""), ("explorer", f"   budget {BLANK_BUDGET}")):
        for start in ("first", "again"):
            pairs = zip(times[start], times["blank"], strict=True)
            ratio = median(mine[name] / theirs["text"] for mine, theirs in pairs)
            print(f"  {start} {name} : blank {ratio:6.2f}{words}")


def stages(model: str) -> None:
    """Print seconds from the command to the tree and to the first live figure."""
    terminal = Terminal([*COMMAND, model])
    for wanted, words in (("tree", "\n modules"), ("live", "● live")):
        terminal.wait_for(words, 120)
        print(f"  {wanted:<14} after {terminal.seconds():6.2f} s")
    terminal.send("q")
    terminal.wait_for_exit()
    terminal.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="resnet50")
    parser.add_argument("rounds", nargs="?", type=int, default=9)
    parser.add_argument("--other", default="")
    parser.add_argument("--stages", action="store_true")
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        compare(typed.model, typed.rounds, typed.other, cache)
    if typed.stages:
        stages(typed.model)


if __name__ == "__main__":
    main()
