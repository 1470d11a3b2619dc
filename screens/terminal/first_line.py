"""One line in the terminal until the first frame, for which Textual must be imported first.

It stands on the normal screen, without a line end and without escape sequences: whoever is killed
meanwhile leaves a terminal that needs no restoring.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from tui_profiler.formatting.text import fit, safe, width


@contextlib.contextmanager
def said_at_once(text: str) -> Iterator[None]:
    """Show a text where the screens will be, and take it back."""
    terminal = sys.__stderr__
    if terminal is None or not terminal.isatty():  # A browser shows the screens.
        yield
        return
    line, cells = safe(text), os.get_terminal_size(terminal.fileno()).columns - 1
    line = fit(line, max(min(width(line), cells), 0))
    print(line, end="", file=terminal, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * width(line)}\r", end="", file=terminal, flush=True)
