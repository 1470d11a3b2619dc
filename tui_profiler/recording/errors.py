"""What can go wrong with the file of a recording."""

from __future__ import annotations


class RecordingError(Exception):
    """One sentence of what is wrong with the file, and one of what to try.

    Its text names no file: who asked for it knows which one it was.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy
