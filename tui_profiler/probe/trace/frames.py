"""Which line of the user's code is running, or raised."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType

import torch

_MOST_FRAMES = 200
"""Frames looked at: thousands of nested ``nn.Sequential`` have no line of the user between them."""

_TORCH = os.path.dirname(torch.__file__) + os.sep
_PROBE = str(Path(__file__).parents[1]) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


def calling_line() -> str:
    """Give ``file:line`` of the innermost running frame that is the user's; empty where none is."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def raising_line(trace: TracebackType | None) -> str:
    """Give ``file:line`` of the innermost frame of a traceback that is the user's, or empty."""
    line = ""
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if is_users(filename):
            line = f"{filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


@lru_cache(maxsize=4096)
def is_users(filename: str) -> bool:
    """Tell whether code is neither torch's, nor ours, nor the standard library's."""
    if "site-packages" in filename or "dist-packages" in filename:
        return not filename.startswith((_TORCH, _PROBE))
    return not filename.startswith((_TORCH, _PROBE, _STANDARD_LIBRARY, "<frozen "))
