"""A file that is there whole or not at all, whatever stops the writing of it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, in place of the one that may be there; its permissions stay.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    part = path.with_name(f".tui-profiler-{os.getpid()}-{time.monotonic_ns()}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
