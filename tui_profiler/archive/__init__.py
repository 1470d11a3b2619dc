"""Reads files of weights without torch and without unpickling: what is in them, and is it sound.

``look`` tells the structure from headers alone and never runs or imports what a file names;
``verify`` reads every byte of the formats that have checksums.
"""

from __future__ import annotations

from tui_profiler.archive.inspection import look
from tui_profiler.archive.reading.file_contents import (
    Checksum,
    Content,
    Found,
    Kind,
    ModuleEntry,
    Problem,
    Role,
    TensorEntry,
    Verdict,
)
from tui_profiler.archive.reading.limits import ArchiveError
from tui_profiler.archive.verify import Progress, verify

__all__ = [
    "ArchiveError",
    "Checksum",
    "Content",
    "Found",
    "Kind",
    "ModuleEntry",
    "Problem",
    "Progress",
    "Role",
    "TensorEntry",
    "Verdict",
    "look",
    "verify",
]
