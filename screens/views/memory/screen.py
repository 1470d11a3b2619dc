"""The memory screen: what is alive over one forward, step by step, and who at the peak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler.messages import Unknown
from tui_profiler.queries.forward.memory import first_step, module_at, peak_step, steps_of
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Memory

from ...actions.view_keys import MEMORY, own_bindings
from ...widgets.key_bar import Keys
from ...widgets.lines import Line
from ...widgets.rows import Look
from ..view_screen import SideScreen, ViewState
from .lines import cursor_line, memory_lines

_PROVENANCE = "predicted from lifetimes"
_PAGES = 10
"""Pages that a forward has."""


class MemoryScreen(SideScreen):
    """Shows live bytes over one forward; the cursor is a step, and the node is its module."""

    name_of_view = "memory"
    keys: ClassVar[Keys] = (("esc", "back"), ("←→", "step"), ("z", "peak"), ("↵", "node"))

    every_key = MEMORY
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(MEMORY)]

    _step = 0
    _at: tuple[Memory, int] | None = None
    """The steps and the node for which the cursor was set."""

    @property
    def step(self) -> int:
        """The step under the cursor."""
        return self._step

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the view."""
        self._set_cursor(look.session)
        return memory_lines(look, self._step, rows, narrow=self.is_narrow)

    def status(self, look: Look) -> Line:
        """Return what the cursor is on."""
        return cursor_line(look, self._step, ((_PROVENANCE, "faint"),))

    def _set_cursor(self, session: Session) -> None:
        """Stay at the step while node and forward stay; else go to the node's first step.

        The root is everything: of that the peak.
        """
        memory, tree = steps_of(session), session.tree
        if isinstance(memory, Unknown) or tree is None:
            self._at = None
        elif self._at is None or self._at[0] is not memory or self._at[1] != self.node:
            found = first_step(tree, memory, self.node) if self.node else peak_step(memory)
            self._step = found if found is not None else 0
            self._at = (memory, self.node)

    def _shown(self) -> tuple[Tree, Memory] | None:
        session = self.session_shown
        memory, tree = steps_of(session), session.tree
        return None if isinstance(memory, Unknown) or tree is None else (tree, memory)

    def _go(self, step: int) -> None:
        """Move the cursor; the node is the module whose operator the step is."""
        shown = self._shown()
        if shown is None:
            return
        tree, memory = shown
        self._step = min(max(step, 0), len(memory) - 1)
        node = module_at(tree, memory, self._step)
        self._at = (memory, node)
        self.select(node)

    def action_step(self, by: int) -> None:
        """Go some steps on, or back."""
        self._go(self._step + by)

    def action_page(self, by: int) -> None:
        """Go a tenth of the forward on, or back."""
        shown = self._shown()
        if shown is not None:
            self._go(self._step + by * max(len(shown[1]) // _PAGES, 1))

    def action_peak(self) -> None:
        """Go to the step with the most alive."""
        shown = self._shown()
        if shown is not None:
            self._go(peak_step(shown[1]))

    def action_end(self, which: int) -> None:
        """Go to the first step, or to the last."""
        shown = self._shown()
        if shown is not None:
            self._go(0 if which == 0 else len(shown[1]) - 1)

    def action_open(self) -> None:
        """Open the node at the cursor."""
        shown = self._shown()
        node = module_at(*shown, self._step) if shown is not None else self.node
        self.dismiss(ViewState(node, "node"))
