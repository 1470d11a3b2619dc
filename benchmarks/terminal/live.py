"""Bytes to the terminal and CPU of the screens, live.

``python benchmarks/terminal/live.py [MODEL] [SECONDS]``

At 120x40 and the default rate. Budget: 10 KB/s and 5 % of a core. ``terminal_traffic.py`` has more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.end_to_end.terminal import COMMAND, Terminal


class Steady(NamedTuple):
    """What a program cost over some seconds."""

    bytes_per_second: float
    cores: float
    """CPU seconds per second."""


def steady(terminal: Terminal, seconds: float) -> Steady:
    """Let a program run on, and give what it wrote to the terminal and its CPU, children apart."""
    process = psutil.Process(terminal.pid)
    bytes_before, cpu_before = terminal.bytes_read, sum(process.cpu_times()[:2])
    began = terminal.seconds()
    terminal.pause(seconds)
    elapsed = terminal.seconds() - began
    busy = sum(process.cpu_times()[:2]) - cpu_before
    return Steady((terminal.bytes_read - bytes_before) / elapsed, busy / elapsed)


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "resnet50"
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    terminal = Terminal([*COMMAND, model])
    terminal.wait_for("● live", 180)
    terminal.send("z")
    terminal.pause(8)
    found = steady(terminal, seconds)
    memory = psutil.Process(terminal.pid).memory_info().rss / 2**20
    print(f"{model}, {seconds:.0f} s live at 120x40, default rate")
    print(f"  to the terminal  {found.bytes_per_second / 1e3:6.1f} KB/s   budget 10")
    print(f"  CPU of the UI    {found.cores * 100:6.1f} % of a core   budget 5")
    print(f"  memory of the UI {memory:6.0f} MiB")
    terminal.send("q")
    terminal.wait_for_exit()
    terminal.close()


if __name__ == "__main__":
    main()
