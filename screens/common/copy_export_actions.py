"""What ``y`` copies and ``e`` writes of any screen that shows a session."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from textual.reactive import var

from tui_profiler.formatting.text import printable, safe
from tui_profiler.queries.panel.phrases import model_name
from tui_profiler.session import EMPTY, Session

from ..widgets.prompt import Choice, Prompt
from .copy_export import (
    KINDS,
    REPORTS,
    chosen_file,
    copy_text,
    default_name,
    report_text,
    write_file,
)
from .prompt_input import AskingScreen

_Result = TypeVar("_Result")


class TakeActions(AskingScreen[_Result]):
    """Actions of a screen that copies and exports what it shows."""

    session: var[Session] = var(EMPTY)
    name_of_view: ClassVar[str] = "explorer"
    has_rows: ClassVar[bool] = False
    """Whether there are rows of nodes to write as CSV."""

    def say(self, text: str) -> None:
        """Tell the user."""
        raise NotImplementedError

    def selected_path(self) -> str:
        """Give the path of the node that the screen speaks of."""
        raise NotImplementedError

    def row_text(self) -> str | None:
        """Give the row of that node; None on a screen without rows of nodes."""
        return None

    def panel_text(self) -> str | None:
        """Give the panel that speaks of that node; None on a screen without one."""
        return None

    def rows_as_csv(self) -> Callable[[], str]:
        """Give what writes the rows of nodes, as they are now, as CSV; any thread may call it."""
        raise NotImplementedError

    def action_copy(self) -> None:
        """Ask what to copy."""
        row, panel = self.row_text(), self.panel_text()
        options: list[tuple[str, str, Callable[[], None]]] = []
        options += [("y", "", self._copy_path), ("p", "path", self._copy_path)]
        if row is not None:
            options.append(("r", "row", partial(self.copy, "the row", row)))
        if panel is not None:
            options.append(("l", "panel", partial(self.copy, "the panel", panel)))
        options.append(("s", "screen", lambda: self._after(self._copy_screen)))
        self.open_prompt(Choice("copy:", tuple(options), "cancels"))

    def copy(self, what: str, text: str) -> None:
        """Copy a text, and say by which way it went."""
        copy_text(self, what, text, self.say)

    def _copy_path(self) -> None:
        path = printable(self.selected_path())
        if path:
            self.copy(path if len(path) <= 40 else "the path", path)
        else:
            self.say("nothing to copy: the path of the root is empty")

    def _copy_screen(self) -> None:
        self.copy("the screen", self._screen_text())

    def _screen_text(self) -> str:
        from .screen_text import screen_rows  # noqa: PLC0415 # first paint does without it

        return "\n".join(screen_rows(self)) + "\n"

    def action_export(self) -> None:
        """Ask for the file."""
        name = default_name(model_name(self.session), self.name_of_view)
        kinds = "  ".join(self._kinds())
        hint = f"as {kinds}"
        self.open_prompt(
            Prompt("export to ", name, lambda text: None, self.export_to, lambda text: hint)
        )

    def _kinds(self) -> tuple[str, ...]:
        has_report = self.session.tree is not None and self.session.tree.done is not None
        return tuple(
            kind
            for kind in KINDS
            if (kind != ".csv" or self.has_rows) and (kind not in REPORTS or has_report)
        )

    def export_to(self, typed: str) -> None:
        """Write the file that was typed; ask first where there is one already."""
        if not typed.strip():
            return
        file, kinds = chosen_file(typed), self._kinds()
        if file.suffix.lower() not in kinds:
            self.say(f"the end of the name says how: {', '.join(kinds)}; not {safe(file.name)}")
        elif os.path.lexists(file):
            over = (
                "o",
                "overwrite it",
                lambda: self._after(lambda: self._export(file, again=True)),
            )
            self.open_prompt(Choice(f"{safe(file.name)} is there already", (over,), "keeps it"))
        else:
            self._after(lambda: self._export(file, again=False))

    def _export(self, file: Path, *, again: bool) -> None:
        kind = file.suffix.lower()
        make: Callable[[], str | bytes]
        if kind in REPORTS:
            make = partial(report_text, self.session, kind)
        elif kind == ".csv":
            make = self.rows_as_csv()
        elif kind == ".svg":
            make = partial(str, self.app.export_screenshot(title="tui-profiler"))
        else:
            make = partial(str, self._screen_text())
        write_file(self, file, make, self.say, again=again)

    def _after(self, act: Callable[[], None]) -> None:
        """Act after the next drawing: the prompt is no part of the picture."""
        self.call_after_refresh(act)
