"""Bytes between a watched model's socket and two descriptors: what ssh runs on the other host.

1. Nothing is understood or changed on the way. Whoever reads slowly holds up the relay, and then
   the program's link drops ticks: nothing piles up.
2. ``MARK`` comes first: what a shell prints when it starts is before it.
3. When either side ends, both do.
"""

from __future__ import annotations

import os
import socket
import threading

MARK = b"\0tui-profiler relay 1\n"
READ_BYTES = 65536


def relay(connected: socket.socket, source: int, sink: int) -> None:
    """Carry bytes both ways until one side ends.

    Args:
        connected: to the program.
        source: descriptor of what the viewer says.
        sink: descriptor of what it hears.
    """
    over = threading.Event()

    def up() -> None:
        try:
            while data := os.read(source, READ_BYTES):
                connected.sendall(data)
        except OSError:
            pass  # Either end is gone: so are we.
        over.set()

    def down() -> None:
        try:
            _write(sink, MARK)
            while data := connected.recv(READ_BYTES):
                _write(sink, data)
        except OSError:
            pass
        over.set()

    for carry in (up, down):
        threading.Thread(target=carry, daemon=True).start()
    over.wait()
    connected.close()


def _write(sink: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(sink, left) :]
