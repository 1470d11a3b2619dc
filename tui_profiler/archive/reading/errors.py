"""What goes wrong while a file is looked into, with the file and the place in it."""

from __future__ import annotations

from tui_profiler.formatting.text import safe


class ArchiveError(Exception):
    """A file cannot be looked into; ``what``, ``file`` and ``where`` say why, which and where."""

    def __init__(self, what: str, file: str, where: str = "") -> None:
        super().__init__(what, file, where)
        self.what = what
        """One sentence, without a point; safe to print."""
        self.file = file
        """The file's path; hostile text."""
        self.where = where
        """The place in it: ``data.pkl, byte 1042``; safe to print; empty for the whole file."""

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{safe(self.file)}{place}: {self.what}"
