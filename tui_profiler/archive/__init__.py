"""Reads files of weights without torch and without unpickling: what is in them, and is it sound.

``structure_of`` tells the structure from headers alone and never runs or imports what a file names;
``verify`` reads every byte of the formats that have checksums.
"""

from tui_profiler.archive.checksums import verify
from tui_profiler.archive.inspection import structure_of
from tui_profiler.archive.reading.file_contents import Found, TensorEntry
from tui_profiler.archive.reading.file_region import ArchiveError

__all__ = ["ArchiveError", "Found", "TensorEntry", "structure_of", "verify"]
