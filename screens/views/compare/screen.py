"""The compare screen: two sides, their totals, and their aligned trees with differences."""

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import var
from textual.screen import Screen

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import safe
from tui_profiler.queries.compare import comparison, rows
from tui_profiler.session import EMPTY, Session
from tui_profiler.session.session_group import NO_RANKS, SessionGroup

from ...actions.table import bindings, shown
from ...actions.view_keys import COMPARE
from ...common.base_app import BaseApp, own_keys, redraw_seconds
from ...common.copy_export import CopyExport, ExportContent
from ...settings.preferences import Preferences
from ...settings.theme import next_theme, short_name
from ...terminal.painting import PaintedScreen
from ...widgets.key_bar import key_bar
from ...widgets.line_widgets import KeyBar, LinesWidget
from ...widgets.lines import Line
from ...widgets.prompt import Prompt, PromptRow
from ...widgets.rows import finished, row
from ..ranks.lines import look_of
from .lines import CompareLook, compare_lines, status_line
from .opened import Opened
from .turns import TwoSides

SAID_SECONDS = 8.0
_BAR = ("order", "figure", "filter", "worst", "fold_or_unfold", "operators")


class CompareScreen(PaintedScreen[None]):
    """Runs two sides and shows them."""

    DEFAULT_CSS = """
    CompareScreen #compare { height: 1fr; }
    CompareScreen #status, CompareScreen #keys { height: 1; margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(COMPARE)]

    session: var[Session] = var(EMPTY)
    group: var[SessionGroup] = var(NO_RANKS)

    def __init__(self, glyphs: Glyphs, two: TwoSides) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._two = two
        self._turning: asyncio.Task[None] | None = None
        self._view: rows.View | None = None
        """None until both are traced."""
        self._has_chosen_figure = False
        self._held: SessionGroup | None = None
        """State at the pause of the view."""
        self._compared: tuple[SessionGroup, comparison.Comparison] | None = None
        self._said: tuple[str, float] = ("", 0.0)
        self.prompt = PromptRow(self.draw, self.say)
        given = ExportContent("compare", session=lambda: self.session, path=self.selected_path)
        self._copying = CopyExport(self, given, self.say)

    def compose(self) -> ComposeResult:
        """The view, the status, the keys."""
        yield LinesWidget(id="compare")
        yield LinesWidget(id="status")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Run both sides, and redraw on changes and every second."""
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
            self.app.crashed(error)  # Otherwise the screen would freeze without a reason.

    def show_newest(self) -> None:
        """Show the newest state."""
        self.group = self._two.newest

    def on_resize(self) -> None:
        """Draw again."""
        self.call_after_refresh(self.draw)

    def on_screen_resume(self) -> None:
        """Draw changes since."""
        self.call_after_refresh(self.draw)

    def watch_workspace(self) -> None:
        """Draw changes of a side."""
        if self.is_mounted and self._held is None:
            self.draw()

    @property
    def compared(self) -> comparison.Comparison:
        """The comparison shown."""
        group = self._held if self._held is not None else self.group
        if self._compared is None or self._compared[0] is not group:
            self._compared = (group, comparison.comparison(*self._two.sides(group)))
        return self._compared[1]

    @property
    def view(self) -> rows.View:
        """Folds, filter, figure and cursor."""
        compared = self.compared
        if self._view is None or (
            compared.alignment is not None and self._view.selected >= len(compared.alignment.nodes)
        ):
            view = rows.first_view(compared, comparison.default_figure(compared))
            if compared.alignment is None:
                return view
            self._view = view
        if not self._has_chosen_figure:
            self._view = replace(self._view, figure=comparison.default_figure(compared))
        return self._view

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_current or not self.query("#compare"):
            return  # Messages still arrive while the screen closes.
        widget = self.query_one("#compare", LinesWidget)
        cells, height = widget.size
        if cells < 3 or height < 2:
            return
        look = look_of(cells, self._glyphs)
        at = self._look()
        widget.lines = finished(compare_lines(at, look, height), look, height)
        status = status_line(at, look)
        said, said_at = self._said
        if said and time.monotonic() - said_at < SAID_SECONDS:
            status = row(((safe(said), "ink"),), (), look)
        self.query_one("#status", LinesWidget).lines = finished((status,), look)
        self.query_one("#keys", KeyBar).lines = finished((self._bar(cells),), look)

    def _look(self) -> CompareLook:
        group = self._held if self._held is not None else self.group
        turns = "paused" if self._held is not None else self._two.turns()
        return CompareLook(
            self.compared,
            self.view,
            rows.visible(self.compared, self.view),
            self._two.looks(group),
            turns,
        )

    def _bar(self, cells: int) -> Line:
        if (open_one := self.prompt.open_one) is not None:
            return open_one.line(cells)
        keys = own_keys(self.app, COMPARE)
        named = {key.action.partition("(")[0]: (shown(key), key.label) for key in keys}
        left = tuple(named[name] for name in _BAR)
        return key_bar(left, (named["keys"], named["leave"]), cells, self._glyphs)

    def _become(self, view: rows.View) -> None:
        self._view = view
        self.draw()

    def _unfiltered(self, node: int) -> None:
        self._become(rows.revealed(replace(self.view, filter=""), self.compared, node))

    def say(self, text: str) -> None:
        """Show a message instead of the status."""
        self._said = (text, time.monotonic())
        self.draw()

    def on_key(self, event: events.Key) -> None:
        """Pass a key to the prompt."""
        self.prompt.key(event)

    def on_paste(self, event: events.Paste) -> None:
        """Pass pasted text to the prompt."""
        self.prompt.paste(event)

    def action_copy(self) -> None:
        """Ask what to copy."""
        self.prompt.take(self._copying.copy())

    def action_export(self) -> None:
        """Ask for the file."""
        self.prompt.take(self._copying.export())

    def selected_path(self) -> str:
        """Return the path of the selected node."""
        alignment, view = self.compared.alignment, self.view
        if alignment is None:
            return ""
        return comparison.node_of(self.compared, alignment.nodes[view.selected]).path

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        seen = rows.visible(self.compared, self.view)
        if seen:
            place = seen.index(self.view.selected) if self.view.selected in seen else 0
            self._become(replace(self.view, selected=seen[max(0, min(place + by, len(seen) - 1))]))

    def action_page(self, direction: int) -> None:
        """Move by half a page."""
        self.action_move(direction * max(self.size.height // 2, 1))

    def action_fold_or_unfold(self) -> None:
        """Fold or unfold the selected node."""
        view, selected = self.view, self.view.selected
        self._become(
            rows.folded(view, self.compared, selected, unfold=selected not in view.unfolded)
        )

    def action_unfold(self) -> None:
        """Unfold the selected node, or go to its first child."""
        view = self.view
        if view.selected in view.unfolded:
            self.action_move(1)
        elif rows.has_children(self.compared, view, view.selected):
            self._become(rows.folded(view, self.compared, view.selected, unfold=True))

    def action_fold(self) -> None:
        """Fold the selected node, or go to its parent."""
        view, alignment = self.view, self.compared.alignment
        if alignment is None:
            return
        if view.selected in view.unfolded and not view.filter:
            self._become(rows.folded(view, self.compared, view.selected, unfold=False))
            return
        parent = alignment.nodes[view.selected].parent
        if parent >= 0:
            self._become(replace(view, selected=parent))

    def action_depth(self, depth: int) -> None:
        """Unfold down to a depth."""
        self._become(rows.folded_to(self.view, self.compared, depth))

    def action_operators(self) -> None:
        """Show or hide operators."""
        view = replace(self.view, operators=not self.view.operators)
        self._become(rows.with_visible_selection(view, self.compared))

    def action_order(self) -> None:
        """Sort by difference, or in the model's order."""
        by_tree = self.view.order == "difference"
        self._become(replace(self.view, order="tree" if by_tree else "difference"))

    def action_figure(self) -> None:
        """Compare the next figure."""
        self._has_chosen_figure = True
        self._become(rows.next_figure(self.view, self.compared))

    def action_worst(self) -> None:
        """Select the module with the next largest self difference."""
        self._unfiltered(rows.next_worst(self.view, self.compared))

    def action_filter(self) -> None:
        """Open the filter prompt."""
        self.prompt.take(Prompt("/", self.view.filter, changed=self.filter_by))

    def filter_by(self, text: str) -> None:
        """Filter the rows; if the selected one is hidden, select an ancestor."""
        self._become(rows.with_visible_selection(replace(self.view, filter=text), self.compared))

    def action_back(self) -> None:
        """Drop the filter."""
        if self.view.filter:
            self._unfiltered(self.view.selected)

    def action_pause(self) -> None:
        """Pause or resume the view."""
        self._held = self.group if self._held is None else None
        self.draw()

    def action_theme(self) -> None:
        """Switch to the next theme."""
        self.app.theme = next_theme(self.app.theme)
        self.say(f"theme {short_name(self.app.theme)}")

    def action_keys(self) -> None:
        """List the keys."""
        from ...actions.help import KeysScreen  # noqa: PLC0415

        self.app.push_screen(KeysScreen(keys=own_keys(self.app, COMPARE), glyphs=self._glyphs))

    def action_leave(self) -> None:
        """Quit."""
        self.app.exit(0)


class CompareApp(BaseApp):
    """Shows two sides until it is left."""

    def __init__(
        self,
        opened: tuple[Opened, Opened],
        *,
        measuring: bool,
        seconds: float | None,
        preferences: Preferences | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(preferences, clock)
        self._two = TwoSides(opened, self._clock, measuring=measuring, seconds=seconds)

    def get_default_screen(self) -> Screen[None]:
        """Start at the comparison."""
        return CompareScreen(self.glyphs, self._two)
