"""What becomes of a child of ours when we are gone."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def signal_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when the one that started it ends.

    Nothing happens where the C library has no ``prctl``.
    """
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
