"""Which line of the user's code is running, or raised."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

import torch

_MOST_FRAMES = 200
"""Frames looked at: thousands of nested ``nn.Sequential`` have no line of the user between them."""

_TORCH = os.path.dirname(torch.__file__) + os.sep
_PROBE = str(Path(__file__).parents[2]) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_WRITTEN = re.compile(r'^ *File "(.+?)", line (\d+), in (\S+)', re.MULTILINE)


class Line(NamedTuple):
    """A frame of a stack that was written down."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


def calling_line() -> str:
    """Return ``file:line`` of the user's innermost running frame; empty where none is."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def raising_line(trace: TracebackType | None) -> str:
    """Return ``file:line`` of the innermost frame of a traceback that is the user's, or empty."""
    line = ""
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if is_users(filename):
            line = f"{filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def lines_in(written: str) -> list[Line]:
    """Return user's lines of a written stack, outermost first, without who asked for a trace."""
    found = [
        Line(file, int(number), name)
        for file, number, name in _WRITTEN.findall(written)
        if not file.startswith("<")  # code that was generated
    ]
    ours = [index for index, line in enumerate(found) if line.file.startswith(_PROBE)]
    return [line for line in found[ours[-1] + 1 if ours else 0 :] if is_users(line.file)]


def lines_of_calls(lines: list[Line], codes: list[CodeType | None]) -> list[str]:
    """Return where each of some nested calls was made.

    Args:
        lines: of the user's frames, outermost first.
        codes: of what is called, outermost first; one that is not the user's has no line.
    """
    entered: list[int | None] = []
    begin = 0
    for code in codes:
        found = next((i for i in range(begin, len(lines)) if _is_in(lines[i], code)), None)
        begin = begin if found is None else found + 1
        entered.append(found)
    called_from: list[str] = []
    end = len(lines)
    for found in reversed(entered):
        end = end if found is None else found
        called_from.append(str(lines[end - 1]) if end else "")
    return called_from[::-1]


def _is_in(line: Line, code: CodeType | None) -> bool:
    if code is None or (line.file, line.function) != (code.co_filename, code.co_name):
        return False
    return code.co_firstlineno <= line.number <= _last_line(code)


@lru_cache(maxsize=4096)
def _last_line(code: CodeType) -> int:
    return max((number for *_, number in code.co_lines() if number), default=code.co_firstlineno)


@lru_cache(maxsize=4096)
def is_users(filename: str) -> bool:
    """Tell whether code is neither torch's, nor ours, nor the standard library's."""
    if "site-packages" in filename or "dist-packages" in filename:
        return not filename.startswith((_TORCH, _PROBE))
    return not filename.startswith((_TORCH, _PROBE, _STANDARD_LIBRARY, "<frozen "))
