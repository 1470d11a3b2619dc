"""The three standard streams as every verb needs them, whatever the caller left of them."""

from __future__ import annotations

import io
import os
import sys


def mend_streams() -> None:
    """Open what is closed, and let no character be refused.

    1. A descriptor below 3 that is closed is opened on ``/dev/null``: the next socket would take
       its number, and whatever prints would write into it.
    2. What the locale cannot say (``×`` in ASCII) is spelled out, as Python does on standard error.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Takes the least number that is free: this one.
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
