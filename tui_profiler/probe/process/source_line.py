"""Which line of the user's code is running, or raised."""

import os
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

import torch

from tui_profiler.messages import Caller
from tui_profiler.probe.process.wire_names import writable

_MOST_FRAMES = 200
"""Frames looked at: thousands of nested ``nn.Sequential`` have no line of the user between them."""

_MODULES = os.path.join(os.path.dirname(torch.__file__), "nn", "")
_CALL = os.path.join(_MODULES, "modules", "module.py")
"""``nn.Module.__call__`` and hooks: it calls every module."""
_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_DEMOS = os.path.join(_PACKAGE, "demo_models", "")
"""Once installed; they are traced like anyone's."""
_INSTALLED = re.compile(r"(?:site|dist)-packages[\\/]([^\\/]+?)(?:\.py)?(?:[\\/]|$)")
_TORCH = os.path.dirname(torch.__file__) + os.sep
_PROBE = str(Path(__file__).parents[1]) + os.sep
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


def running_callers() -> tuple[Caller, ...]:
    """Return the lines that led to what runs now, as ``Node.callers`` describes them."""
    frame: FrameType | None = sys._getframe(1)
    of_library = of_torch = None
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        file = frame.f_code.co_filename
        if is_users(file) and not _is_ours(file):
            library = library_of(file)
            if not library:
                return (_caller(frame, ""), *((of_library,) if of_library else ()))
            of_library = of_library or _caller(frame, library)
        elif of_torch is None and file.startswith(_MODULES) and file != _CALL:
            of_torch = _caller(frame, "torch")
        frame = frame.f_back
    nearest = of_library or of_torch
    return () if nearest is None else (nearest,)


def callers_in(lines: Sequence[Line]) -> tuple[Caller, ...]:
    """Return the same of a stack that was written down, outermost line first."""
    of_library = None
    for line in reversed(lines):
        library = library_of(line.file)
        caller = Caller(writable(line.file), line.number, writable(line.function), library)
        if not library:
            return (caller, *((of_library,) if of_library else ()))
        of_library = of_library or caller
    return () if of_library is None else (of_library,)


def _caller(frame: FrameType, library: str) -> Caller:
    code = frame.f_code
    return Caller(
        writable(code.co_filename), max(frame.f_lineno or 1, 1), writable(code.co_name), library
    )


@lru_cache(maxsize=4096)
def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE) and not filename.startswith(_DEMOS)


@lru_cache(maxsize=4096)
def library_of(filename: str) -> str:
    """Return the installed package that a file belongs to; empty for other code, and our demos."""
    found = _INSTALLED.search(filename)
    return "" if found is None or filename.startswith(_DEMOS) else writable(found[1])


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


def lines_of_calls(lines: list[Line], codes: list[CodeType | None]) -> list[list[Line]]:
    """Return the lines that led to each of some nested calls, outermost first.

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
    led_to: list[list[Line]] = []
    end = len(lines)
    for found in reversed(entered):
        end = end if found is None else found
        led_to.append(lines[:end])
    return led_to[::-1]


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


@lru_cache(maxsize=4096)
def is_probe(filename: str) -> bool:
    """Return whether code is the profiler's own that runs in a program."""
    return filename.startswith(_PROBE)


@lru_cache(maxsize=4096)
def is_torch(filename: str) -> bool:
    """Return whether code is torch's."""
    return filename.startswith(_TORCH)
