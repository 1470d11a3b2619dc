"""Names of lines of the program that trains."""

from tui_profiler.formatting.text import middle, printable
from tui_profiler.messages import BackwardLine, SourceLine

LONGEST_FUNCTION, LONGEST_FILE = 240, 120
"""Cells in a name of a line."""
MOST_CHARACTERS = 2000
"""Of a function or a file, the last ones: a program may give them any name."""


def line_name(line: SourceLine | BackwardLine) -> str:
    """Return ``log_metrics, train.py:54`` for a line of the program.

    Of a long name the middle is left out, so that the file and the line are always in it.
    """
    function, file = _line_parts(line)
    return f"{middle(function, LONGEST_FUNCTION)}, {middle(file, LONGEST_FILE)}:{line.line}"


def whole_line_name(line: SourceLine) -> str:
    """Return the same with a long name whole."""
    function, file = _line_parts(line)
    return f"{function}, {file}:{line.line}"


def _line_parts(line: SourceLine | BackwardLine) -> tuple[str, str]:
    function = line.function[-MOST_CHARACTERS:].rpartition(".")[2]
    file = line.file[-MOST_CHARACTERS:]
    return printable(function), printable(file.rpartition("/")[2] or file)
