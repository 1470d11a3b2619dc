"""A JSON report as a file: told from other files, and read whole, within limits.

1. Only JSON as the standard has it, with figures that adding up cannot take beyond a float's range.
"""

import json
import math
from pathlib import Path

MOST_BYTES = 512 * 1024 * 1024
MOST_NUMBER = 2**80
"""Products of sizes can be beyond 64 bits."""
WRITE_AGAIN = "writing it again: tui-profiler report MODEL --format json --output FILE"
_HEAD_BYTES = 65536
_MARK = b"tui-profiler/"


class ReportError(Exception):
    """A file that is no report that can be read; a sentence, and what to try."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


def is_report(path: str | Path) -> bool:
    """Tell whether a file is a JSON report of ours, of any version, by what it holds."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if not head.lstrip().startswith(b"{"):
                return False
            return _MARK in head or _MARK in file.read(MOST_BYTES)
    except (OSError, ValueError):
        return False


def parsed(path: str | Path) -> dict[str, object]:
    """Return the object that a file holds.

    Raises:
        ReportError: it cannot be read, or holds something else.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}", WRITE_AGAIN) from error
    if len(text) > MOST_BYTES:
        raise ReportError(f"{path} is larger than {MOST_BYTES >> 20} MiB", "--top N writes less")
    try:
        whole = json.loads(text, parse_int=_integer, parse_float=_real, parse_constant=_real)
    except (ValueError, RecursionError) as error:
        if _is_lines(text):
            what = f"{path} has several reports; compare takes one"
            raise ReportError(what, "a file for each: report MODEL --format json") from None
        raise ReportError(f"{path} is not a JSON report: {error}", WRITE_AGAIN) from error
    if not isinstance(whole, dict):
        raise ReportError(f"{path} is not a JSON object", WRITE_AGAIN)
    return whole


def _integer(text: str) -> int:
    """Return a whole number that any figure can be.

    Raises:
        ValueError: it is larger; adding it to a float could fail.
    """
    found = int(text)
    if abs(found) > MOST_NUMBER:
        raise ValueError(f"{text[:20]}… is out of range")
    return found


def _real(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:20]} is not a finite number")
    return found


def _is_lines(text: bytes) -> bool:
    first, _, rest = text.strip().partition(b"\n")
    try:
        return isinstance(json.loads(first), dict) and rest.lstrip().startswith(b"{")
    except (ValueError, RecursionError):
        return False
