"""Names of lines of the program that trains, and how well their shares are known."""

from math import sqrt

from tui_profiler.figures.units import share
from tui_profiler.formatting.text import middle, printable
from tui_profiler.messages import BackwardLine, SourceLine, TrainingStep

LONGEST_FUNCTION, LONGEST_FILE = 240, 120
"""Cells in a name of a line."""
FEW_SAMPLES = 50
"""Samples of the stack below which a share is marked as an estimate: half of its 95 % interval is
14 % there, at most."""
MOST_CHARACTERS = 2000
"""Of a function or a file, the last ones: a program may give them any name."""


def line_name(line: SourceLine | BackwardLine) -> str:
    """Return ``log_metrics, train.py:54`` for a line of the program.

    Of several lines in one of which the time lies it is ``log_metrics, train.py:54-57``. Of a long
    name the middle is left out, so that the file and the line are always in it.
    """
    function, file = _line_parts(line)
    return f"{middle(function, LONGEST_FUNCTION)}, {middle(file, LONGEST_FILE)}:{_numbers(line)}"


def whole_line_name(line: SourceLine) -> str:
    """Return the same with a long name whole."""
    function, file = _line_parts(line)
    return f"{function}, {file}:{_numbers(line)}"


def lines_error(step: TrainingStep) -> float:
    """Return half of the 95 % interval of a line's share of ``other``, at most: of a half."""
    return min(1.96 * 0.5 / sqrt(step.samples), 1.0) if step.samples else 1.0


def line_share(line: SourceLine, step: TrainingStep) -> str:
    """Return a line's share of ``other``; with the number of samples where those are few.

    ``70 %``, ``~70 % by 13 samples``.
    """
    if step.samples >= FEW_SAMPLES:
        return share(line.share)
    samples = "1 sample" if step.samples == 1 else f"{step.samples} samples"
    return f"~{share(line.share)} by {samples}"


def _numbers(line: SourceLine | BackwardLine) -> str:
    first = line.first_line if isinstance(line, SourceLine) else 0
    return f"{first}-{line.line}" if first else f"{line.line}"


def _line_parts(line: SourceLine | BackwardLine) -> tuple[str, str]:
    function = line.function[-MOST_CHARACTERS:].rpartition(".")[2]
    file = line.file[-MOST_CHARACTERS:]
    return printable(function), printable(file.rpartition("/")[2] or file)
