"""What a screen gives away: a text to the clipboard, a file with what it shows."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from textual.screen import Screen

from tui_profiler.formatting.text import safe
from tui_profiler.session import Session
from tui_profiler.system.files import write_whole

from .base_app import BaseApp

KINDS = {
    ".txt": "the screen as text",
    ".csv": "the rows as CSV",
    ".svg": "the screen as SVG",
    ".md": "the full report as Markdown",
    ".json": "the report as JSON",
    ".pftrace": "a trace for ui.perfetto.dev",
}
"""The end of a file's name to what is written into it."""
REPORTS = (".md", ".json", ".pftrace")
"""Those that speak of the whole session, whatever the screen shows of it."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 60
_Result = TypeVar("_Result")


def copy_text(screen: Screen[_Result], what: str, text: str, say: Callable[[str], None]) -> None:
    """Copy a text, and say by which way it went; the screen does not wait.

    Args:
        screen: that is asked.
        what: the text's name, for the sentence.
        text: what is copied.
        say: tells the user.
    """
    app = screen.app
    write = app.write_to_terminal if isinstance(app, BaseApp) else lambda sequence: None

    async def copy() -> None:
        from ..terminal.clipboard import copied, said  # noqa: PLC0415 # first paint does without it

        done = await copied(text, write)
        if screen.is_mounted:
            say(said(what, done))

    screen.run_worker(copy(), group="copy", exclusive=True)


def write_file(
    screen: Screen[_Result],
    file: Path,
    make: Callable[[], str | bytes],
    say: Callable[[str], None],
    *,
    again: bool,
) -> None:
    """Write a file, and say where it is or why it could not be written; the screen does not wait.

    Args:
        screen: that is asked.
        file: its absolute path.
        make: gives what is written; it is called in a thread.
        say: tells the user.
        again: it may be there already.
    """

    async def write() -> None:
        try:
            await asyncio.to_thread(lambda: written(file, make(), again=again))
        except FileExistsError:
            say(f"not written: {safe(str(file))} is there already")
        except OSError as error:
            say(f"not written: {error.strerror or type(error).__name__}: {safe(str(file))}")
        else:
            say(f"wrote {KINDS[file.suffix.lower()]}: {safe(str(file))}")

    screen.run_worker(write(), group="export")


def default_name(model: str, view: str) -> str:
    """Give a name for a file that any system takes, from any model's name."""
    plain = _NOT_IN_NAMES.sub("-", model).strip("-.")[:_LONGEST_NAME]
    return f"{plain or 'model'}-{view}.txt"


def chosen_file(typed: str) -> Path:
    """Give the absolute path of what was typed; ``~`` is the user's home."""
    return Path(os.path.abspath(os.path.expanduser(typed.strip())))


def report_text(session: Session, kind: str) -> str | bytes:
    """Give a report of the whole session; any thread may call it."""
    from tui_profiler.reports.json.report import json_report  # noqa: PLC0415
    from tui_profiler.reports.perfetto.trace import perfetto_trace  # noqa: PLC0415
    from tui_profiler.reports.text.full import full_markdown  # noqa: PLC0415

    if kind == ".md":
        return full_markdown(session)
    return json_report(session) + "\n" if kind == ".json" else perfetto_trace(session, 1)


def written(file: Path, text: str | bytes, *, again: bool) -> None:
    """Write a file whole or not at all; one that is there only if it may be written again.

    Raises:
        FileExistsError: it is there, and ``again`` is false, or it is no plain file.
        OSError: it cannot be written.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if again and not file.is_file():
        raise FileExistsError(str(file))
    if not again:
        with open(file, "xb") as out:
            try:
                out.write(data)
                out.flush()
            except OSError:
                file.unlink(missing_ok=True)
                raise
        return
    write_whole(file, data)
