"""Holds up who imports a library, as a slow disk would, until a pipe is opened for writing.

The pipe is named by the environment: ``GATE_textual``, ``GATE_torch``. On ``PYTHONPATH`` this is
imported by every Python that a test starts.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path


class _Gate(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        pipe = os.environ.pop(f"GATE_{name}", "")
        if pipe:
            with Path(pipe).open():  # Waits until someone opens it for writing.
                pass


sys.meta_path.insert(0, _Gate())
