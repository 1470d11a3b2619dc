"""First content and first figures, compared with a blank Textual app in one interleaved run.

``python benchmarks/startup.py [MODEL] [ROUNDS] [OTHER]``. First content is the first text on the
screen of a pty, counted from the start of the process, where the program was started before and so
its bytecode is kept, as Textual's is (first of all each is started once uncounted). Budget: 300 ms,
and 1.6 times the blank app; the first frame of the screens is told beside the line that stands
there before it. The tree of last time is on the screen, and a key moves in it, within 300 ms where
the model was opened before; what is remembered lies in a cache folder of the benchmark's own. OTHER
is the ``tui-profiler`` of another version, started in turn with this one: its line and first frame.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.end_to_end.terminal import COMMAND, Terminal

FRAME = b"loading"
"""In the header of the first frame."""
BLANK = """
from textual.app import App
from textual.widgets import Static
class Blank(App):
    def compose(self):
        yield Static("blank")
Blank().run()
"""


def first_content(command: list[str]) -> float:
    terminal = Terminal(command)
    terminal.wait_for(lambda shown: bool(shown.strip()), seconds=30)
    seconds = terminal.first_text_after
    terminal.close()
    assert seconds is not None
    return seconds


def first_frame(command: list[str]) -> tuple[float, float]:
    """Seconds to the line that stands there before the screens, and to their first frame."""
    with tempfile.TemporaryDirectory() as cache:  # Nothing is remembered.
        return _first_frame(Terminal(command, environment={"XDG_CACHE_HOME": cache}))


def _first_frame(terminal: Terminal) -> tuple[float, float]:
    terminal.wait_for(lambda _: FRAME in terminal.raw, seconds=30)
    frame = came(terminal, FRAME)
    line = terminal.first_text_after
    terminal.close()
    assert line is not None
    return line, frame


def came(terminal: Terminal, wanted: bytes, after: int = 0) -> float:
    """Seconds until these bytes were read, whenever they were drawn by whoever reads them."""
    place = terminal.raw.index(wanted, after)
    return next(at for at, count in terminal.reads if count > place)


def remembered(command: list[str], cache: str) -> tuple[float, float]:
    """Seconds to the tree of last time, and to the answer of a key that moves in it."""
    terminal = Terminal([*command], environment={"XDG_CACHE_HOME": cache})
    shown = terminal.wait_for(lambda shown: "on paper, cached" in shown, seconds=30)
    assert "live" not in shown.split("\n")[0], "the worker was there first"
    before = len(terminal.raw)
    terminal.send("j")
    sent = terminal.seconds()
    terminal.wait_for(lambda shown: " 2 of " in shown, seconds=30)
    tree = came(terminal, b"on paper, cached")
    key = next(at for at, count in terminal.reads if count > before)
    terminal.close()
    return tree, tree + key - sent


def opened_before(command: list[str], rounds: int) -> None:
    """Open a model once, then again and again."""
    with tempfile.TemporaryDirectory() as cache:
        first = Terminal(command, environment={"XDG_CACHE_HOME": cache})
        first.wait_for("● live", 120)
        first.send("q")
        first.wait_for_exit()
        first.close()
        blank, times = [], []
        for _ in range(rounds):
            blank.append(first_content([sys.executable, "-c", BLANK]))
            times.append(remembered(command, cache))
    for words, place in (("tree", 0), ("and a key", 1)):
        found = [time[place] * 1e3 for time in times]
        ratio = median(mine[place] / theirs for mine, theirs in zip(times, blank, strict=True))
        print(
            f"  {words:<14} {median(found):6.0f} ms  ({min(found):.0f})  budget 300;"
            f" {ratio:.2f} times the blank app"
        )


def stages(model: str) -> None:
    """Seconds from the command to the tree and to the first live figure."""
    terminal = Terminal([*COMMAND, model])
    for wanted, words in (("first content", ""), ("tree", "graph"), ("live", "● live")):
        terminal.wait_for(lambda shown, words=words: words in shown and bool(shown.strip()), 120)
        print(f"  {wanted:<14} after {terminal.seconds():6.2f} s")
    terminal.send("q")
    terminal.wait_for_exit()
    terminal.close()


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "resnet50"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    other = sys.argv[3:4]
    blank, lines, ours, others = [], [], [], []
    for command in (
        [sys.executable, "-c", BLANK],
        [*COMMAND, model],
        *([*other, model],) * len(other),
    ):
        first_content(command)
    for _ in range(rounds):
        blank.append(first_content([sys.executable, "-c", BLANK]))
        line, frame = first_frame([*COMMAND, model])
        lines.append(line)
        ours.append(frame)
        if other:
            others.append(first_frame([*other, model]))
    ratio = median(mine / theirs for mine, theirs in zip(ours, blank, strict=True))
    print(f"first content, median of {rounds} in turn, best in brackets")
    for words, found, budget in (
        ("blank Textual", blank, ""),
        ("our line", lines, "  budget 300"),
        ("our first frame", ours, "  budget 300"),
    ):
        print(f"  {words:<15}{median(found) * 1e3:6.0f} ms  ({min(found) * 1e3:.0f}){budget}")
    print(f"  frame : blank  {ratio:6.2f}     budget 1.6")
    if other:
        print(f"  {other[0]}, in turn with it")
        for words, found in zip(("line", "first frame"), zip(*others, strict=True), strict=True):
            print(f"  {words:<15}{median(found) * 1e3:6.0f} ms  ({min(found) * 1e3:.0f})")
    print(f"{model}, opened before: median of {rounds}, best in brackets")
    opened_before([*COMMAND, model], rounds)
    print(f"{model}, one start")
    stages(model)


if __name__ == "__main__":
    main()
