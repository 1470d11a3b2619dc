"""Tells a recording from other files, and what is wrong with one; imports next to nothing."""

import os
from pathlib import Path

MAGIC = b"\x89TUIPRO\n"


def is_recording(path: str | Path) -> bool:
    """Tell whether a file begins as a recording; false where it cannot be read."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


class RecordingError(Exception):
    """One sentence of what is wrong with the file, and one of what to try.

    Its text names no file: who asked for it knows which one it was.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy
