"""What a headless verb writes: results to stdout or a file, everything else to stderr."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

import click

from tui_profiler.formatting.text import safe
from tui_profiler.system.files import write_whole

from ..web.driver import is_served

PIPE_COLUMNS = 100
"""Width of a table that does not go to a terminal."""


class NotWritten(click.ClickException):
    """What was found cannot be written where it was to go; one sentence, and what to try."""

    def __init__(self, what: str, error: OSError) -> None:
        said = error.strerror or type(error).__name__
        super().__init__(f"{what} was not written completely: {said}. Try another --output FILE.")


def columns(output: str) -> int:
    """Return the width for a table: the terminal's where it goes there."""
    to_terminal = not output and sys.stdout.isatty()
    return shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if to_terminal else PIPE_COLUMNS


class Results:
    """The results of a verb, model by model: to stdout as they come, or into a file at its end.

    1. Whatever ends the verb, ctrl+C too: what was finished until then is written.
    2. The file is there whole or not at all.
    """

    def __init__(self, output: str) -> None:
        """Begin.

        Args:
            output: the file; empty for stdout.

        Raises:
            UsageError: the file could not be written.
        """
        require_writable(output)
        self._output = output
        self._kept: list[bytes] = []
        self.count = 0
        """Of those that were added."""

    def __enter__(self) -> Results:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what is there.

        Raises:
            NotWritten: it cannot be written.
        """
        if self._output and self._kept:
            put_into(self._output, b"".join(self._kept))
            if kind is KeyboardInterrupt:
                models = "model" if self.count == 1 else "models"
                say(self._output, f"interrupted: contains the {self.count} {models} until then")

    def add(self, made: str | bytes) -> None:
        """Take one more; bytes are no text."""
        self.count += 1
        if self._output:
            self._kept.append(made if isinstance(made, bytes) else made.encode())
        elif isinstance(made, bytes):
            put_bytes(made)
        else:
            put(made)

    def add_lines(self, lines: Iterable[str]) -> None:
        """Take the lines about one more model, after a blank one."""
        self.add(("\n" if self.count else "") + "".join(f"{line}\n" for line in lines))


def require_writable(output: str) -> None:
    """Refuse a file that could not be written, before there is anything to write.

    Raises:
        UsageError: it is a folder, or writing it is not allowed.
    """
    if not output:
        return
    path = Path(output)
    places = [path] if path.exists() else []
    if not _stands_for_another(path):
        places.append(path.resolve().parent)  # A new file there takes its place.
    if path.is_dir() or not all(os.access(place, os.W_OK) for place in places):
        raise click.UsageError(f"--output {safe(output)} cannot be written.")


def put_into(output: str, data: bytes) -> None:
    """Write a file, whole or not at all, or what a path stands for, such as a pipe.

    Raises:
        NotWritten: it cannot be written after all: its disk is full.
    """
    path = Path(output)
    try:
        if _stands_for_another(path):
            path.write_bytes(data)
        else:
            write_whole(path.resolve(), data)
    except OSError as error:
        raise NotWritten(f"--output {safe(output)}", error) from error


def _stands_for_another(path: Path) -> bool:
    return path.exists() and not path.is_file()


def put(text: str) -> None:
    """Write to stdout.

    Raises:
        Exit: its reader went away, as ``head`` does: nothing more is wanted, and that is no error.
        NotWritten: what it goes to takes no more.
    """
    _put(lambda: sys.stdout.write(text))


def put_bytes(data: bytes) -> None:
    """Write what is no text to stdout.

    Raises:
        Exit: as above.
    """
    _put(lambda: sys.stdout.buffer.write(data))


def _put(write: Callable[[], int]) -> None:
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        write_nowhere()
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(0) from None
        raise NotWritten("Standard output", error) from error


def write_nowhere() -> None:
    """Open stdout on ``/dev/null``: Python flushes it once more at its end, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def not_written(error: OSError) -> bool:
    """Report that standard output cannot be written, and return True, if that was raised.

    Click writes ``--help`` and ``--version`` without catching errors.
    """
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    if Path(raised_in).parent != Path(click.__file__).parent:
        return False
    write_nowhere()
    NotWritten("Standard output", error).show()
    return True


def speaker(name: str) -> Callable[[str], None]:
    """Return what tells progress of one model."""
    return lambda line: say(name, line)


def say(name: str, *lines: str) -> None:
    """Write lines about one model to stderr."""
    for line in lines:
        click.echo(f"{safe(name)}: {line}", err=True)


def begin_line() -> None:
    """Begin a line on stderr, if it is a terminal whose last line another program may have begun.

    A row of blanks wraps into the next line unless the cursor is at the beginning of one, where the
    carriage return leads back to it.
    """
    if sys.stderr.isatty():
        blanks = " " * shutil.get_terminal_size().columns
        click.echo(f"{blanks}\r", nl=False, err=True)


def is_terminal() -> bool:
    """Tell whether someone can see what is drawn, and answer."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def require_terminal(instead: str = 'try "tui-profiler report MODEL"') -> None:
    """Refuse to draw where no one could see it or answer.

    Args:
        instead: what to do, which needs no terminal.

    Raises:
        UsageError: standard input, output or error is not a terminal, or cannot move its cursor.
    """
    if is_served():
        return
    for name, stream in (("input", sys.stdin), ("output", sys.stdout), ("error", sys.stderr)):
        if stream is None or not stream.isatty():
            raise click.UsageError(
                f"The explorer needs a terminal, and standard {name} is not one: "
                f"{instead}, which needs none."
            )
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise click.UsageError(
            f"The explorer needs a terminal that can move its cursor: {instead}, which needs none."
        )
