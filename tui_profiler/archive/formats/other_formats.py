"""Names file formats that are not read here, so that a refusal says what the file is."""

from __future__ import annotations

from tui_profiler.archive.reading.file_contents import Found, Problem
from tui_profiler.archive.reading.file_region import Region

_STARTS = (
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras)"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"BZh", "compressed by bzip2"),
    (b"\xfd7zXZ\0", "compressed by xz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"%PDF", "a PDF file"),
    (b"\x7fELF", "a program"),
    (b"version https://git-lfs", "a pointer of Git LFS: the file itself was not fetched"),
    (b"<!DOCTYPE", "a web page, not what was to be downloaded"),
    (b"<html", "a web page, not what was to be downloaded"),
)
_TAR_AT = 257
_TFLITE_AT = 4


def stranger(region: Region) -> Found:
    """Give the Found of a file that holds no weights we read, and what it is, where we know."""
    start = region.read(0, min(region.size, _TAR_AT + 5))
    what = next((name for mark, name in _STARTS if start.startswith(mark)), "")
    if start[_TAR_AT : _TAR_AT + 5] == b"ustar":
        what = "a tar archive (torch before 0.2 wrote such files)"
    if start[_TFLITE_AT : _TFLITE_AT + 4] == b"TFL3":
        what = "a TensorFlow Lite file"
    if not region.size:
        what = "empty"
    if region.size and not any(start):
        what = "nothing but zeros at its start: the copy was not finished"
    return unknown(region.file, f"is {what or 'no file of weights that is known'}")


def unknown(file: str, what: str) -> Found:
    """Give the Found of a file that is not understood, and why."""
    problem = Problem(file, "", what)
    return Found(
        kind="unknown",
        path=file,
        content="nothing",
        problems=(problem,),
        checksum="none in this format",
        files=(file,),
    )
