"""What a screen copies to the clipboard and exports to a file."""

import asyncio
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from textual.screen import Screen
from textual.widget import Widget

from tui_profiler.formatting.text import fit, printable, safe
from tui_profiler.queries.panel.phrases import model_name
from tui_profiler.session import Session
from tui_profiler.system.files import write_whole

from ..widgets.line_widgets import LinesWidget
from ..widgets.lines import exact
from ..widgets.lines import text as text_of
from ..widgets.prompt import Answer, Choice, Prompt
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


class ExportContent(Struct, frozen=True):
    """What a screen copies and exports."""

    view: str
    """Name of the screen, for a file's name."""
    session: Callable[[], Session]
    path: Callable[[], str]
    """Returns the path of the node that the screen speaks of."""
    row: Callable[[], str | None] = lambda: None
    """Returns the row of that node; None on a screen without rows of nodes."""
    panel: Callable[[], str | None] = lambda: None
    """Returns the panel that speaks of that node; None on a screen without one."""
    csv: Callable[[], Callable[[], str] | None] = lambda: None
    """Returns a function that writes the rows of nodes as CSV, in any thread; None without rows."""
    tsv: Callable[[], str | None] = lambda: None
    """Returns all rows as TSV; None on a screen that copies one row at a time."""
    markdown: Callable[[], str | None] = lambda: None
    """Returns all rows as a table of Markdown; likewise."""


class CopyExport:
    """What ``y`` copies and ``e`` writes of a screen.

    Args:
        screen: that is shown.
        given: what there is to copy and to write.
        say: tells the user what came of it.
    """

    def __init__(
        self, screen: Screen[Any], given: ExportContent, say: Callable[[str], None]
    ) -> None:
        self._screen = screen
        self._given = given
        self._say = say

    def copy(self) -> Choice:
        """Ask what to copy."""
        row, panel = self._given.row(), self._given.panel()
        options: list[tuple[str, str, Callable[[], Answer]]] = []
        options += [("y", "", self.copy_path), ("p", "path", self.copy_path)]
        if row is not None:
            options.append(("r", "row", partial(self._copy, "the row", row)))
        tables = (("t", "TSV", self._given.tsv()), ("m", "Markdown", self._given.markdown()))
        for key, what, rows in tables:
            if rows is not None:
                copy = partial(self._copy, f"the rows as {what}", rows)
                options.append((key, what, copy))
        if panel is not None:
            options.append(("l", "panel", partial(self._copy, "the panel", panel)))

        def copy_screen() -> None:
            self._copy("the screen", self._screen_text())

        options.append(("s", "screen", partial(self._after, copy_screen)))
        return Choice("copy:", tuple(options), "cancels")

    def _copy(self, what: str, text: str) -> None:
        copy_text(self._screen, what, text, self._say)

    def copy_path(self) -> str:
        """Copy the path of the node."""
        path = printable(self._given.path())
        if not path:
            return "nothing to copy: the path of the root is empty"
        self._copy(path if len(path) <= 40 else "the path", path)
        return ""

    def _screen_text(self) -> str:
        return "\n".join(screen_rows(self._screen)) + "\n"

    def export(self) -> Prompt:
        """Ask for the file."""
        name = default_name(model_name(self._given.session()), self._given.view)
        hint = f"as {'  '.join(self._kinds())}"
        return Prompt("export to ", name, done=self.export_to, hint=hint)

    def _kinds(self) -> tuple[str, ...]:
        tree = self._given.session().tree
        has_report = tree is not None and tree.done is not None
        has_rows = self._given.csv() is not None
        return tuple(
            kind
            for kind in KINDS
            if (kind != ".csv" or has_rows) and (kind not in REPORTS or has_report)
        )

    def export_to(self, typed: str) -> Answer:
        """Write the file that was typed; ask first where there is one already."""
        if not typed.strip():
            return None
        file, kinds = chosen_file(typed), self._kinds()
        if file.suffix.lower() not in kinds:
            return f"formats, by extension: {', '.join(kinds)}; not {safe(file.name)}"
        if os.path.lexists(file):
            over = partial(self._after, partial(self._export, file, again=True))
            question = f"{safe(file.name)} is there already"
            return Choice(question, (("o", "overwrite it", over),), "keeps it")
        self._after(partial(self._export, file, again=False))
        return None

    def _export(self, file: Path, *, again: bool) -> None:
        kind = file.suffix.lower()
        make: Callable[[], str | bytes]
        if kind in REPORTS:
            make = partial(report_text, self._given.session(), kind)
        elif kind == ".csv" and (rows := self._given.csv()) is not None:
            make = rows
        elif kind == ".svg":
            make = partial(str, self._screen.app.export_screenshot(title="tui-profiler"))
        else:
            make = partial(str, self._screen_text())
        write_file(self._screen, file, make, self._say, again=again)

    def _after(self, act: Callable[[], None]) -> None:
        """Act after the next drawing: the prompt is no part of the picture."""
        self._screen.call_after_refresh(act)


def copy_text(screen: Screen[Any], what: str, text: str, say: Callable[[str], None]) -> None:
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
    screen: Screen[Any],
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
        make: returns what is written; called in a thread.
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
    """Return a name for a file that any system takes, from any model's name."""
    plain = _NOT_IN_NAMES.sub("-", model).strip("-.")[:_LONGEST_NAME]
    return f"{plain or 'model'}-{view}.txt"


def chosen_file(typed: str) -> Path:
    """Return the absolute path of what was typed; ``~`` is the user's home."""
    return Path(os.path.abspath(os.path.expanduser(typed.strip())))


def report_text(session: Session, kind: str) -> str | bytes:
    """Return a report of the whole session; any thread may call it."""
    from tui_profiler.reports.json.report import json_report  # noqa: PLC0415
    from tui_profiler.reports.perfetto.trace import perfetto_trace  # noqa: PLC0415
    from tui_profiler.reports.text.full import full_markdown  # noqa: PLC0415

    if kind == ".md":
        return full_markdown(session)
    return json_report(session) + "\n" if kind == ".json" else perfetto_trace(session, 1)


def written(file: Path, text: str | bytes, *, again: bool) -> None:
    """Write a file whole or not at all; one that is there only if it may be written again.

    Raises:
        FileExistsError: it is there, and ``again`` is false, or it is not a regular file.
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


def screen_rows(screen: Widget) -> tuple[str, ...]:
    """Return the rows of what its widgets draw, from the top, blank ends left out."""
    rows: list[list[tuple[int, str]]] = [[] for _ in range(screen.size.height)]
    for widget in screen.query(LinesWidget):
        region = widget.region
        for y, line in enumerate(widget.lines[: region.height]):
            if region.width and 0 <= region.y + y < len(rows):
                rows[region.y + y].append((region.x, text_of(exact(line, region.width))))
    return tuple(_joined(parts).rstrip() for parts in rows)


def _joined(parts: list[tuple[int, str]]) -> str:
    row = ""
    for x, part in sorted(parts):
        row = fit(row, x) + part
    return row
