"""What ``C`` does: hold the model that is shown against another one, a recording or a report."""

from __future__ import annotations

import asyncio
import time

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.queries.panel.remembered_tree import is_remembered

from ..common.base_app import BaseApp
from ..common.narrow import NARROW_COLUMNS
from ..widgets.prompt import Prompt
from .change_inputs import ChangeActions

_HINT = "resnet101  'a.py:Net --batch 8'  night.rec  before.json"
_SHORT_HINT = "resnet101  night.rec  before.json"


class CompareActions(ChangeActions):
    """Actions of a screen whose model can be held against another."""

    glyphs: Glyphs

    def tell(self, text: str) -> None:
        """Say something that may be longer than the status line."""
        raise NotImplementedError

    def action_compare(self) -> None:
        """Ask what to compare with."""
        if self.session.tree is None or is_remembered(self.session):
            self.say("compare needs the tree, which is not known yet")
            return
        hint = _HINT if self.size.width >= NARROW_COLUMNS else _SHORT_HINT
        self.open_prompt(
            Prompt("compare with ", "", lambda text: None, self.compare_with, lambda text: hint)
        )

    def compare_with(self, text: str) -> None:
        """Compare with what was typed: as B, it is written as for the verb ``compare``."""
        if text.strip():
            self.run_worker(self._compare_with(text), exclusive=True, group="compare")

    async def _compare_with(self, text: str) -> None:
        import click  # noqa: PLC0415 # first paint does without these

        from tui_profiler.recording.kind import RecordingError  # noqa: PLC0415
        from tui_profiler.reports.json.report_file import ReportError  # noqa: PLC0415

        from ..views.compare.opened import Opened  # noqa: PLC0415
        from ..views.compare.with_explored import compare_here, opened_other, other_side  # noqa: PLC0415

        spec = self._as_it_runs()
        try:
            typed = other_side(text, spec)
            other, said = await asyncio.to_thread(opened_other, typed)
        except click.UsageError as error:
            self.tell(error.format_message())
            return
        except (ReportError, RecordingError) as error:
            self.tell(f"{error}; try {error.remedy}")
            return
        began = time.time() - self.now()
        this = Opened(spec.model, self.session, began=began)
        screen = compare_here(self.glyphs, this, other, self._send, measuring=typed.chosen.run)
        self.app.push_screen(screen.data_bind(BaseApp.session))
        if said:
            screen.say("; ".join(said))
