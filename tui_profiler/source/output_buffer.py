"""The process between a script's output and ``run``: the script never waits for ``run`` to read.

1. It is in its own session, with the signals of ``run`` blocked: what stops ``run`` does not stop
   it. It reads at all times, and passes on as ``run`` reads.
2. Up to ``MOST_BYTES`` are kept meanwhile. Beyond that the oldest is dropped, and a line says how
   much.
3. It ends when the script and all that it started have closed their output. Where ``run`` is gone,
   what they print is read all the same.
4. It runs as a file, on its own: nothing but the standard library is imported.
"""

import os
import select
import sys
from collections import deque

MOST_BYTES = 32 * 1024 * 1024
"""As much as one log file has."""
ASK = b"?"
"""Asks for everything that was printed so far to be passed on."""
PASSED = b"."
_READ_BYTES = 256 * 1024
_READS_OF_A_PIPE = 16
"""More than a pipe has room for: what was in it when it was asked has been read after so many."""


class Buffer:
    """Bytes between two descriptors.

    Args:
        source: to read from; without blocking from now on.
        target: to write to; likewise.
        most_bytes: kept at once.
    """

    def __init__(self, source: int, target: int, most_bytes: int = MOST_BYTES) -> None:
        self._source, self._target, self._most = source, target, most_bytes
        self._kept: deque[bytes] = deque()
        self._size = self._dropped = 0
        self.is_over = self._is_deaf = False
        """``is_over``: there is nothing more to read."""
        os.set_blocking(source, False)
        os.set_blocking(target, False)

    @property
    def has_something(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._kept)

    def read(self) -> bool:
        """Read once; tell whether there was anything."""
        try:
            data = os.read(self._source, _READ_BYTES)
        except BlockingIOError:
            return False
        self.is_over = not data
        if self._is_deaf or not data:
            return bool(data)
        self._kept.append(data)
        self._size += len(data)
        while self._size > self._most and len(self._kept) > 1:
            gone = len(self._kept.popleft())
            self._size -= gone
            self._dropped += gone
        return True

    def write(self) -> None:
        """Write as much as the other end takes."""
        if self._dropped:
            words = f"[tui-profiler: {self._dropped:,} bytes of output were dropped here]"
            said = f"\n{words}\n".encode()
            self._kept.appendleft(said)
            self._size, self._dropped = self._size + len(said), 0
        while self._kept:
            try:
                written = os.write(self._target, self._kept[0])
            except BlockingIOError:
                return
            except OSError:  # ``run`` is gone.
                self._kept.clear()
                self._size, self._is_deaf = 0, True
                return
            self._size -= written
            if written < len(self._kept[0]):
                self._kept[0] = self._kept[0][written:]
            else:
                self._kept.popleft()


def main(source: int, target: int, control: int) -> None:
    """Pass on until the source is over and all of it was written.

    Args:
        source: where the script prints to.
        target: where ``run`` reads.
        control: a socket on which ``run`` may ask.
    """
    buffer, is_asked, listens = Buffer(source, target), False, [control]
    while not buffer.is_over or buffer.has_something:
        reads = [*listens, *([] if buffer.is_over else [source])]
        ready, _, _ = select.select(reads, [target] if buffer.has_something else [], [])
        if control in ready:
            is_asked = bool(os.read(control, 64))
            listens = listens if is_asked else []
        for _ in range(_READS_OF_A_PIPE if is_asked else 1):
            if buffer.is_over or not buffer.read():
                break
        buffer.write()
        if is_asked and not buffer.has_something:
            is_asked = False
            try:
                os.write(control, PASSED)
            except OSError:
                listens = []


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
