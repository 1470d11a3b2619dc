"""What the explorer is made of, when its parts come, and how they lie in the size that there is.

1. The first frame needs the header, the stages and the footer alone; the widgets for a model that
   is known are imported and mounted after it (``_complete``), while torch is imported elsewhere.
   Where a tree is known before it, that of last time, it is in the first frame.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Size
from textual.widget import MountError

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.messages import LoadSpec, Request

from ..common.narrow import is_narrow
from ..common.view_pause import ViewPause
from ..settings.preferences import Habits
from ..widgets.header import Header
from ..widgets.lines import LinesWidget
from ..widgets.status import Status
from .loading import Loading
from .palette_commands import PaletteActions

WIDE_COLUMNS = 160
TINY_COLUMNS = 60
TINY_ROWS = 15
GARBAGE = 20_000
"""So many more objects than were freed are looked through for garbage. What is drawn is freed
without that, but drawing makes thousands: with Python's own 700 a tenth of each key was spent on
looking, and 5 ms in one piece at each tenth time."""
HINT = "x tries the marked line"


class ExplorerParts(PaletteActions):
    """Holds the widgets."""

    def __init__(
        self,
        spec: LoadSpec,
        glyphs: Glyphs,
        now: Callable[[], float],
        send: Callable[[Request], None],
        restart: Callable[[LoadSpec | None], None],
        habits: Habits | None = None,
    ) -> None:
        super().__init__(spec, now, send, restart)
        self.habits = habits or Habits()
        self.glyphs = glyphs
        self.view_pause = ViewPause(send)
        self._is_made = False
        self._is_complete = False
        self._arranged_for: Size | None = None

    def compose(self) -> ComposeResult:
        """What the first frame needs; the form is one CSS class."""
        loading = Loading(self.glyphs, self.spec, id="loading")
        yield Header(self.glyphs, self.spec, id="header")
        if self.session.tree is not None:
            self._make_rest()
            yield self._strip
            yield Container(loading, *self._in_body, id="body")
            yield self._compact
        else:
            yield Container(loading, id="body")
        yield Status(self.glyphs, id="status")
        yield LinesWidget(id="keys")

    def on_mount(self) -> None:
        """Draw at once, then bring the rest."""
        self.tick_at(self.habits.config.settings.rate)
        if self._is_made:
            self._begin()
        else:
            self.refresh_all()
        self.call_after_refresh(self._complete)

    async def _complete(self) -> None:
        gc.enable()  # Off since the command line was read: it would run ten times before this.
        gc.freeze()
        gc.set_threshold(GARBAGE)
        if self._is_made:
            return
        self._make_rest()
        body = self.query_one("#body")
        try:
            await self.mount(self._strip, before=body)
            await body.mount(*self._in_body)
            await self.mount(self._compact, after=body)
        except MountError:
            return  # The screen is being left already.
        self._begin()

    def _make_rest(self) -> None:
        from ..views.inspector.compact_pane import Compact  # noqa: PLC0415 # rule 1
        from ..views.inspector.pane import Inspector  # noqa: PLC0415
        from ..widgets.strip import ForwardStrip  # noqa: PLC0415
        from .failure import FailurePanel  # noqa: PLC0415
        from .tree.widget import NodeTree  # noqa: PLC0415

        self._strip = ForwardStrip(glyphs=self.glyphs, id="strip")
        self.tree_widget = NodeTree(glyphs=self.glyphs, id="tree")
        self._inspector = Inspector(self.glyphs, id="inspector")
        self._failure = FailurePanel(self.glyphs, HINT, id="failure")
        self._compact = Compact(self.glyphs, id="compact")
        self._in_body = (self.tree_widget, self._inspector, self._failure)
        self._is_made = True

    def _begin(self) -> None:
        """Use all widgets from now on."""
        self._is_complete = True
        self.tree_widget.focus()
        self._arrange()
        self.refresh_all()

    def on_resize(self) -> None:
        """Choose the form for this size, which may be told several times."""
        if self.size != self._arranged_for:
            self._arranged_for = self.size
            self._arrange()
            self.refresh_all()

    @property
    def is_narrow(self) -> bool:
        """Whether the panel lies below the tree instead of beside it."""
        return is_narrow(self.size)

    @property
    def is_tiny(self) -> bool:
        """Whether there is room for the tree and one line."""
        return self.size.width < TINY_COLUMNS or self.size.height < TINY_ROWS

    def _arrange(self) -> None:
        self.set_class(self.is_narrow, "narrow")
        self.set_class(self.is_tiny, "tiny")
        self.set_class(self.size.width >= WIDE_COLUMNS and not self.is_narrow, "very-wide")
        if self._is_complete:
            self.tree_widget.form = (
                "tiny" if self.is_tiny else "narrow" if self.is_narrow else "wide"
            )
