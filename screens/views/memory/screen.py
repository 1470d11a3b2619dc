"""The memory screen: what is alive over one forward, or a training step, and who at the peak."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from textual.binding import BindingType

from tui_profiler.messages import Unknown
from tui_profiler.queries.forward.memory import first_step, module_at, peak_step, steps_of
from tui_profiler.queries.time.modes import is_program
from tui_profiler.queries.training import memory as training_memory
from tui_profiler.session import Session
from tui_profiler.session.training import MemoryColumns

from ...actions.view_keys import MEMORY, own_bindings
from ...widgets.key_bar import Keys
from ...widgets.lines import Line
from ...widgets.rows import Look
from ..view_screen import SideScreen, ViewState
from .lines import cursor_line, memory_lines
from .step import step_cursor_line, step_lines

_PROVENANCE = "predicted from lifetimes"
OF_MODEL = "was recorded: --train runs one"
OF_PROGRAM = "on paper: it is predicted of models that the profiler itself runs with --train"
_PAGES = 10
"""Pages that a forward has."""


class Points(Struct, frozen=True, eq=False):
    """What the cursor goes over: the steps of a forward, or of a training step."""

    of: object
    """What they are of."""
    count: int
    peak: int
    """The one with the most alive."""
    module: Callable[[int], int]
    """Returns the module whose operator one is."""
    first: Callable[[int], int | None]
    """Returns the first one inside a node, None where there is none."""


class MemoryScreen(SideScreen):
    """Shows live bytes over a forward or training step; the node is the module at the cursor."""

    name_of_view = "memory"
    keys: ClassVar[Keys] = (("esc", "back"), ("←→", "step"), ("z", "peak"), ("↵", "node"))

    every_key = MEMORY
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(MEMORY)]

    step = 0
    """Under the cursor."""
    _at: tuple[object, int] | None = None
    """The steps and the node for which the cursor was set."""
    _of_forward = False
    """Whether the forward is shown where there is a training step."""

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the view."""
        self._set_cursor(look.session)
        training = self._training(look.session)
        if training is not None:
            return step_lines(look, training, self.step, rows, narrow=self.is_narrow)
        return memory_lines(look, self.step, rows, narrow=self.is_narrow)

    def status(self, look: Look) -> Line:
        """Return what the cursor is on."""
        training, right = self._training(look.session), ((_PROVENANCE, "faint"),)
        if training is not None:
            return step_cursor_line(look, training, self.step, right)
        return cursor_line(look, self.step, right)

    def _training(self, session: Session) -> MemoryColumns | None:
        """Return the training step, where it is shown."""
        is_shown = not self._of_forward and session.tree is not None
        columns = session.training_memory
        return columns if is_shown and columns is not None and len(columns) else None

    def _points(self, session: Session) -> Points | None:
        """Return what the cursor goes over; None where nothing is known."""
        tree = session.tree
        if tree is None:
            return None
        if (columns := self._training(session)) is not None:
            return Points(
                of=columns,
                count=len(columns),
                peak=training_memory.peak_point(columns),
                module=lambda point: training_memory.module_at(tree, columns, point),
                first=lambda node: training_memory.first_point(tree, columns, node),
            )
        memory = steps_of(session)
        if isinstance(memory, Unknown):
            return None
        return Points(
            of=memory,
            count=len(memory),
            peak=peak_step(memory),
            module=lambda step: module_at(tree, memory, step),
            first=lambda node: first_step(tree, memory, node),
        )

    def _set_cursor(self, session: Session) -> None:
        """Stay at the step while node and forward stay; else go to the node's first step.

        The root is everything: of that the peak.
        """
        points = self._points(session)
        if points is None:
            self._at = None
        elif self._at is None or self._at[0] is not points.of or self._at[1] != self.node:
            found = points.first(self.node) if self.node else points.peak
            self.step = found if found is not None else 0
            self._at = (points.of, self.node)

    def _go(self, step: int) -> None:
        """Move the cursor; the node is the module whose operator the step is."""
        points = self._points(self.session_shown)
        if points is None:
            return
        self.step = min(max(step, 0), points.count - 1)
        node = points.module(self.step)
        self._at = (points.of, node)
        self.select(node)

    def action_step(self, by: int) -> None:
        """Go some steps on, or back."""
        self._go(self.step + by)

    def action_page(self, by: int) -> None:
        """Go a tenth of the forward on, or back."""
        points = self._points(self.session_shown)
        if points is not None:
            self._go(self.step + by * max(points.count // _PAGES, 1))

    def action_peak(self) -> None:
        """Go to the step with the most alive."""
        points = self._points(self.session_shown)
        if points is not None:
            self._go(points.peak)

    def action_end(self, which: int) -> None:
        """Go to the first step, or to the last."""
        points = self._points(self.session_shown)
        if points is not None:
            self._go(0 if which == 0 else points.count - 1)

    def action_switch(self) -> None:
        """Show the forward in place of the training step, or that again."""
        if self.session_shown.training_memory is None:
            why = OF_PROGRAM if is_program(self.session_shown) else OF_MODEL
            self.say(f"no training step {why}")
            return
        self._of_forward, self._at = not self._of_forward, None
        self.refresh_view()

    def action_open(self) -> None:
        """Open the node at the cursor."""
        points = self._points(self.session_shown)
        node = points.module(self.step) if points is not None else self.node
        self.dismiss(ViewState(node, "node"))
