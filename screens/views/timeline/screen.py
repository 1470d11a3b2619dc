"""The timeline screen: a step of training, one forward by depth, and the last minutes below it."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from msgspec.structs import replace
from textual.binding import Binding, BindingType

from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import SlowForward, SlowStep
from tui_profiler.queries.cost.bound import mixes_of
from tui_profiler.queries.cost.totals import hottest
from tui_profiler.queries.forward import flame as flames
from tui_profiler.queries.forward import strip
from tui_profiler.queries.time.hysteresis import Hysteresis
from tui_profiler.queries.time.slow_forwards import as_session, is_slow, slow_words
from tui_profiler.queries.time.timeline import steps, usual_step
from tui_profiler.queries.training.step_blocks import step_blocks
from tui_profiler.queries.tree.cells import REFRESH_SECONDS
from tui_profiler.session import Session, Tree

from ...actions.view_keys import TIMELINE, own_bindings
from ...widgets.key_bar import Keys
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row, words
from ..view_screen import SideScreen
from .flame_lines import Drawn, flame_lines, legend
from .lines import plot_columns, timeline_lines
from .step_lines import slow_step_lines, step_lines

HOLD_SECONDS = 2.0
LEAST_ROWS = 10
"""With fewer there is only the forward."""
MOST_PAST_ROWS = 20
LEAST_FORWARD_ROWS = 7
"""Of the forward, that a step of training leaves: its figures and two levels."""


_Blocks = TypeVar("_Blocks")


class SteadyLayout(Generic[_Blocks]):
    """Lays blocks out when something else is looked at, and follows new times without flicker."""

    def __init__(self, lay: Callable[[Session, int, int], _Blocks]) -> None:
        self._lay = lay
        self._steady: Hysteresis[_Blocks] = Hysteresis(HOLD_SECONDS)
        self._of: tuple[Tree | None, bool, bool, int, int] | None = None
        self._wanted: _Blocks
        self._at = 0.0

    def of(self, session: Session, root: int, cells: int) -> _Blocks:
        """Return the blocks of a node over so many cells."""
        has_times, has_steps = session.timings is not None, session.training is not None
        looked_at = (session.tree, has_times, has_steps, root, cells)
        if looked_at != self._of:
            self._steady.clear()
        elif 0 <= session.heard_at - self._at < REFRESH_SECONDS:
            return self._steady.show(0, self._wanted, session.heard_at)
        self._of, self._at = looked_at, session.heard_at
        self._wanted = self._lay(session, root, cells)
        return self._steady.show(0, self._wanted, session.heard_at)


def flame_blocks(session: Session, root: int, cells: int) -> Drawn:
    """Return the blocks of one forward inside a node, and their colours."""
    found = flames.flame(session, root, cells)
    return Drawn(found, tuple(strip.colours(level, mixes_of(session)) for level in found.levels))


class TimelineScreen(SideScreen):
    """Shows the forward as blocks, and walks and zooms in them."""

    name_of_view: ClassVar[str] = "timeline"
    keys: ClassVar[Keys] = (
        ("esc", "back"),
        ("arrows", "walk"),
        ("↵", "zoom"),
        ("z", "hottest"),
        ("t", "slowest"),
        ("s", "span"),
        ("o", "node"),
    )
    every_key = TIMELINE
    BINDINGS: ClassVar[list[BindingType]] = [
        *own_bindings(TIMELINE),
        Binding("q", "leave_for('')", show=False),
    ]

    def begin(self) -> None:
        """Keep the layout, and what is zoomed into."""
        self._layout = SteadyLayout(flame_blocks)
        self._step_layout = SteadyLayout(step_blocks)
        self._zoomed: tuple[int, ...] = ()
        self._tree: Tree | None = None
        self._step: int | None = None
        self._which = 0
        """Place in ``_choices`` of what is drawn."""
        self._is_told_above = False
        """Whether what was different is above the plots: it is longer than the last row."""
        self._slow_session: tuple[Session, SlowForward, Session] | None = None

    @property
    def session_shown(self) -> Session:
        """The session with the times of the forward that is drawn."""
        session, slow = self._session_of_means, self._slow
        if slow is None:
            return session
        known = self._slow_session
        if known is None or known[0] is not session or known[1] is not slow:
            known = self._slow_session = (session, slow, as_session(session, slow))
        return known[2]

    @property
    def _session_of_means(self) -> Session:
        return super().session_shown

    @property
    def _choices(self) -> tuple[SlowForward | SlowStep | None, ...]:
        """The mean of all, the slowest, and the last slow one where that is another.

        Where training is seen, slow steps go before slow forwards.
        """
        session = self._session_of_means
        forwards = tuple(one for one in session.slow[:2] if is_slow(session, one))
        steps_kept = session.slow_steps[:2]
        if len(steps_kept) > 1 and steps_kept[0].step == steps_kept[1].step:
            steps_kept = steps_kept[:1]
        if len(forwards) > 1 and forwards[0] is forwards[1]:
            forwards = forwards[:1]
        return (None, *steps_kept, *forwards)

    @property
    def _drawn(self) -> SlowForward | SlowStep | None:
        choices = self._choices
        return choices[self._which] if self._which < len(choices) else None

    @property
    def _slow(self) -> SlowForward | None:
        """The forward that is drawn in place of the mean; None for the mean."""
        return self._drawn if isinstance(self._drawn, SlowForward) else None

    @property
    def _slow_words(self) -> str:
        """What was different in the slow forward that is drawn; empty for the mean."""
        slow = self._slow
        return "" if slow is None else safe(slow_words(self._session_of_means, slow))

    @property
    def root(self) -> int:
        """Index of the node that fills the width."""
        return self._zoomed[-1] if self._zoomed else 0

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return both parts, the lower one at the bottom."""
        self._keep_zoom(look)
        of_means, slow = look, self._slow
        if slow is not None:
            look = replace(look, session=self.session_shown)
        drawn = self._layout.of(look.session, self.root, look.inner)
        below: tuple[Line, ...] = ()
        if rows >= LEAST_ROWS:
            below = timeline_lines(
                of_means, min(max(rows * 40 // 100, 4), MOST_PAST_ROWS), self._step
            )
        room = rows - len(below) - (0 if self.is_narrow else 1)
        if isinstance(self._drawn, SlowStep):
            slowly = slow_step_lines(of_means, self._drawn, room)
            return (*slowly, *[EMPTY] * (rows - len(below) - len(slowly)), *below)
        said = self._slow_words
        self._is_told_above = bool(below) and width(said) > look.inner
        if self._is_told_above:
            below = (*words(said, look, "ink"), EMPTY, *below)
            room = max(rows - len(below) - (0 if self.is_narrow else 1), LEAST_FORWARD_ROWS)
        levels = self._step_layout.of(of_means.session, self.root, look.inner)
        step = step_lines(of_means, levels, self.root, room - LEAST_FORWARD_ROWS)
        above = (*step, *flame_lines(look, drawn, room - len(step), slow))
        return (*above, *[EMPTY] * (rows - len(below) - len(above)), *below)[:rows]

    def status(self, look: Look) -> Line:
        """Say what the colours mean; of a slow forward, what was different in it."""
        if isinstance(self._drawn, SlowStep):
            return row((("parts of one step, and of the mean one", "muted"),), EMPTY, look)
        said = self._slow_words
        if said and not self._is_told_above:
            return row(((said, "ink"),), EMPTY, look)
        return legend(look, self._layout.of(look.session, self.root, look.inner))

    def has_news(self, look: Look) -> bool:
        """Tell of a slow forward in the last row where it has none of its own."""
        return self._slow is not None and not self._is_told_above

    def action_which(self) -> None:
        """Show the mean of all, the slowest, or the last slow one, in turn."""
        choices = self._choices
        if len(choices) == 1:
            self.say("no slow step or forward yet")
            return
        self._which = (self._which + 1) % len(choices)
        self._layout = SteadyLayout(flame_blocks)
        self.refresh_view()

    def _keep_zoom(self, look: Look) -> None:
        """Show all of a tree that was traced anew."""
        if look.session.tree is not self._tree:
            self._tree, self._zoomed = look.session.tree, ()

    def action_beside(self, step: int) -> None:
        """Go to the next module in time at the same depth, or the former."""
        session = self.session_shown
        if session.tree is not None:
            at = flames.module_of(session.tree, self.node)
            self.select(flames.beside(session, self.root, at, step))

    def action_outward(self) -> None:
        """Go to the module around the selected one."""
        tree = self.session_shown.tree
        if tree is not None and self.node != self.root:
            self.select(max(tree.nodes[self.node].parent, 0))

    def action_inward(self) -> None:
        """Go to the first module inside the selected one."""
        session = self.session_shown
        if session.tree is not None:
            drawn = self._layout.of(session, self.root, max(self.size.width - 2, 1))
            self.select(flames.first_inside(session, drawn.flame, self.node))

    def action_zoom(self) -> None:
        """Let the selected block fill the width; open a leaf."""
        session = self.session_shown
        if session.tree is None:
            return
        if isinstance(self._drawn, SlowStep):
            self.say("modules of a slow step are not timed; t shows the mean step")
            return
        inside = any(
            flames.takes_part(session, child) for child in session.tree.children(self.node)
        )
        if not inside:
            self.action_leave_for("node")
        elif self.node != self.root:
            self._zoomed = (*self._zoomed, self.node)
            self.refresh_view()

    def action_hottest(self) -> None:
        """Go to the module with the most self time, inside what fills the width."""
        self.select(hottest(self.session_shown, self.root))

    def action_span(self) -> None:
        """Show the last minutes with the next number of seconds a column."""
        columns = plot_columns(max(self.size.width, 3))
        possible = steps(columns)
        shown = self._step or usual_step(columns)
        longer = [step for step in possible if step > shown]
        self._step = longer[0] if longer else possible[0]
        self.refresh_view()

    def action_back(self) -> None:
        """Zoom out; from the whole forward, go back to the explorer."""
        if self._zoomed:
            self._zoomed = self._zoomed[:-1]
            self.refresh_view()
        else:
            super().action_back()
