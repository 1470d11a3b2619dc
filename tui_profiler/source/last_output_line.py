"""What a child said before it died, as one line."""

from __future__ import annotations

import re

KEPT_BYTES = 32 * 1024
"""Of the end of its output: a fault prints the stacks of all threads."""
_MOST_CHARACTERS = 1000
_FAULT = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_PLACE = re.compile(r'^Current thread .*\n((?:  File ".*", line \d+ in .*\n?)+)', re.MULTILINE)
_FRAME = re.compile(r'File "(.*)", line (\d+) in ')


def last_words(output: bytes) -> str:
    """Give the last line printed; of a fault, what it was and the line of the user's nearest to it.

    Args:
        output: the end of what the child printed, ``KEPT_BYTES`` of it at most.
    """
    text = output.decode(errors="replace").replace("\r\n", "\n")
    fault = next(reversed(list(_FAULT.finditer(text))), None)
    if fault is None:
        return text.strip().rpartition("\n")[2].strip()[:_MOST_CHARACTERS]
    place = _PLACE.search(text, fault.end())
    frames = _FRAME.findall(place[1]) if place is not None else []
    at = next((f" at {file}:{line}" for file, line in frames if not _is_library(file)), "")
    return f"{fault[1].strip()}{at}"[:_MOST_CHARACTERS]


def _is_library(file: str) -> bool:
    return "/lib/python" in file or file.startswith("<")
