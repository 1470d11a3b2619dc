"""The compare screen: two sides, their totals, and their trees as one, with differences."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import var

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import safe
from tui_profiler.queries.compare.comparison import Comparison, comparison, default_figure, node_of
from tui_profiler.queries.compare.rows import (
    View,
    first_view,
    folded,
    folded_to,
    has_children,
    in_sight,
    next_figure,
    next_worst,
    revealed,
    visible,
)
from tui_profiler.session import EMPTY, Session
from tui_profiler.session.workspace import NO_RANKS, Workspace

from ...actions.table import bindings, shown
from ...actions.view_keys import COMPARE
from ...common.base_app import BaseApp, own_keys, redraw_seconds
from ...common.copy_export import CopyExport, ExportContent
from ...settings.theme import next_theme, short_name
from ...terminal.painting import PaintedScreen
from ...widgets.key_bar import KeyBar, key_bar
from ...widgets.lines import Line, LinesWidget
from ...widgets.prompt import Prompt, PromptRow
from ...widgets.rows import finished, row
from ..ranks.lines import look_of
from .cells import CompareLook
from .lines import compare_lines, status_line
from .turns import TwoSides

SAID_SECONDS = 8.0
_BAR = ("order", "figure", "filter", "worst", "fold_or_unfold", "operators")


class CompareScreen(PaintedScreen[None]):
    """Lets two sides run and shows them, until it is left."""

    DEFAULT_CSS = """
    CompareScreen #compare { height: 1fr; }
    CompareScreen #status, CompareScreen #keys { height: 1; margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(COMPARE)]

    session: var[Session] = var(EMPTY)
    workspace: var[Workspace] = var(NO_RANKS)

    def __init__(self, glyphs: Glyphs, two: TwoSides) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._two = two
        self._turning: asyncio.Task[None] | None = None
        self._view: View | None = None
        """None until both have a tree."""
        self._has_chosen_figure = False
        self._held: Workspace | None = None
        """What is shown while the view is paused."""
        self._compared: tuple[Workspace, Comparison] | None = None
        self._said: tuple[str, float] = ("", 0.0)
        self.prompt = PromptRow(self.draw)
        given = ExportContent("compare", session=lambda: self.session, path=self.selected_path)
        self._copying = CopyExport(self, given, self.say, self.prompt.ask)

    def compose(self) -> ComposeResult:
        """The view, one fact, the keys."""
        yield LinesWidget(id="compare")
        yield LinesWidget(id="status")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Let them run; draw, and go on drawing what is new and what moves by the clock."""
        self._turning = asyncio.create_task(self._run())
        self.set_interval(redraw_seconds(self.app), self.show_newest)
        self.set_interval(1.0, self.draw)
        self.show_newest()
        self.call_after_refresh(self.draw)

    async def on_unmount(self) -> None:
        """End the workers before the event loop ends."""
        if self._turning is not None:
            self._turning.cancel()
            await asyncio.gather(self._turning, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._two.run(self.show_newest)
        except Exception as error:
            assert isinstance(self.app, BaseApp)
            self.app.crashed(error)  # Else the screen would stand still, and no one would know why.

    def show_newest(self) -> None:
        """Show what is known by now."""
        self.workspace = self._two.newest

    def on_resize(self) -> None:
        """Lay the rows out anew."""
        self.call_after_refresh(self.draw)

    def on_screen_resume(self) -> None:
        """Draw what has changed meanwhile."""
        self.call_after_refresh(self.draw)

    def watch_workspace(self) -> None:
        """Draw what a side has said."""
        if self.is_mounted and self._held is None:
            self.draw()

    @property
    def compared(self) -> Comparison:
        """Both sides as they are shown."""
        workspace = self._held if self._held is not None else self.workspace
        if self._compared is None or self._compared[0] is not workspace:
            self._compared = (workspace, comparison(*self._two.sides(workspace)))
        return self._compared[1]

    @property
    def view(self) -> View:
        """How they are looked at."""
        compared = self.compared
        if self._view is None or (
            compared.alignment is not None and self._view.selected >= len(compared.alignment.nodes)
        ):
            view = first_view(compared, default_figure(compared))
            if compared.alignment is None:
                return view
            self._view = view
        if not self._has_chosen_figure:
            self._view = replace(self._view, figure=default_figure(compared))
        return self._view

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_current or not self.query("#compare"):
            return  # The sides still say something while the screen is left.
        widget = self.query_one("#compare", LinesWidget)
        cells, rows = widget.size
        if cells < 3 or rows < 2:
            return
        look = look_of(cells, self._glyphs)
        at = self._look()
        widget.lines = finished(compare_lines(at, look, rows)[0], look, rows)
        status = status_line(at, look)
        said, said_at = self._said
        if said and time.monotonic() - said_at < SAID_SECONDS:
            status = row(((safe(said), "ink"),), (), look)
        self.query_one("#status", LinesWidget).lines = finished((status,), look)
        self.query_one("#keys", KeyBar).lines = finished((self._bar(cells),), look)

    def _look(self) -> CompareLook:
        workspace = self._held if self._held is not None else self.workspace
        turns = "paused" if self._held is not None else self._two.turns()
        return CompareLook(
            self.compared,
            self.view,
            visible(self.compared, self.view),
            self._two.looks(workspace),
            turns,
        )

    def _bar(self, cells: int) -> Line:
        if (open_one := self.prompt.open_one) is not None:
            return open_one.line(cells)
        keys = own_keys(self.app, COMPARE)
        named = {key.action.partition("(")[0]: (shown(key), key.label) for key in keys}
        left = tuple(named[name] for name in _BAR)
        return key_bar(left, (named["keys"], named["leave"]), cells, self._glyphs)

    def _become(self, view: View) -> None:
        self._view = view
        self.draw()

    def _unfiltered(self, node: int) -> None:
        self._become(revealed(replace(self.view, filter=""), self.compared, node))

    def say(self, text: str) -> None:
        """Tell it in place of the status."""
        self._said = (text, time.monotonic())
        self.draw()

    def on_key(self, event: events.Key) -> None:
        """Hand what is typed to the prompt."""
        self.prompt.key(event)

    def on_paste(self, event: events.Paste) -> None:
        """Hand pasted text to an open prompt."""
        self.prompt.paste(event)

    def action_copy(self) -> None:
        """Ask what to copy."""
        self._copying.copy()

    def action_export(self) -> None:
        """Ask for the file."""
        self._copying.export()

    def selected_path(self) -> str:
        """Return the path of the selected node."""
        alignment, view = self.compared.alignment, self.view
        if alignment is None:
            return ""
        return node_of(self.compared, alignment.nodes[view.selected]).path

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        rows = visible(self.compared, self.view)
        if rows:
            place = rows.index(self.view.selected) if self.view.selected in rows else 0
            self._become(replace(self.view, selected=rows[max(0, min(place + by, len(rows) - 1))]))

    def action_page(self, direction: int) -> None:
        """Move by half a page."""
        self.action_move(direction * max(self.size.height // 2, 1))

    def action_fold_or_unfold(self) -> None:
        """Fold or unfold the selected node."""
        view, selected = self.view, self.view.selected
        self._become(folded(view, self.compared, selected, unfold=selected not in view.unfolded))

    def action_unfold(self) -> None:
        """Unfold the selected node; where it is, go in."""
        view = self.view
        if view.selected in view.unfolded:
            self.action_move(1)
        elif has_children(self.compared, view, view.selected):
            self._become(folded(view, self.compared, view.selected, unfold=True))

    def action_fold(self) -> None:
        """Fold the selected node; where it is, go out."""
        view, alignment = self.view, self.compared.alignment
        if alignment is None:
            return
        if view.selected in view.unfolded and not view.filter:
            self._become(folded(view, self.compared, view.selected, unfold=False))
            return
        parent = alignment.nodes[view.selected].parent
        if parent >= 0:
            self._become(replace(view, selected=parent))

    def action_depth(self, depth: int) -> None:
        """Unfold down to a depth."""
        self._become(folded_to(self.view, self.compared, depth))

    def action_operators(self) -> None:
        """Show operators, or hide them."""
        view = replace(self.view, operators=not self.view.operators)
        self._become(in_sight(view, self.compared))

    def action_order(self) -> None:
        """Sort by difference, or as the model has it."""
        by_tree = self.view.order == "difference"
        self._become(replace(self.view, order="tree" if by_tree else "difference"))

    def action_figure(self) -> None:
        """Compare the next figure."""
        self._has_chosen_figure = True
        self._become(next_figure(self.view, self.compared))

    def action_worst(self) -> None:
        """Go to the module that differs most by itself, then to the next."""
        self._unfiltered(next_worst(self.view, self.compared))

    def action_filter(self) -> None:
        """Ask for a filter."""
        self.prompt.ask(Prompt("/", self.view.filter, self.filter_by, lambda text: None))

    def filter_by(self, text: str) -> None:
        """Show what a text lets through; where the cursor's row is not among it, one above it."""
        self._become(in_sight(replace(self.view, filter=text), self.compared))

    def action_back(self) -> None:
        """Drop the filter."""
        if self.view.filter:
            self._unfiltered(self.view.selected)

    def action_pause(self) -> None:
        """Pause the view, or let it go on."""
        self._held = self.workspace if self._held is None else None
        self.draw()

    def action_theme(self) -> None:
        """Go to the next theme."""
        self.app.theme = next_theme(self.app.theme)
        self.say(f"theme {short_name(self.app.theme)}")

    def action_keys(self) -> None:
        """List the keys."""
        from ...actions.help import KeysScreen  # noqa: PLC0415

        self.app.push_screen(KeysScreen(keys=own_keys(self.app, COMPARE), glyphs=self._glyphs))

    def action_leave(self) -> None:
        """Quit."""
        self.app.exit(0)
