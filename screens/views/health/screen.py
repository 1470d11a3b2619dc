"""The health screen: values of activations, gradients and updates, and the first NaN.

Values are read only while it is open: it asks the probe when it is opened and when it is left.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler.formatting.text import safe
from tui_profiler.messages import ReadValues
from tui_profiler.queries.training.values import nan_words, why_no_values
from tui_profiler.session import Session

from ...actions.table import why_not_now
from ...actions.view_keys import HEALTH, own_bindings
from ...widgets.heading import Heading, Order
from ...widgets.key_bar import Keys
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, first_row, row, words
from ..view_screen import RowsScreen
from .lines import BY_EXECUTION, head_lines, health_heading, health_lines, ordered_rows


class HealthScreen(RowsScreen):
    """Shows the values of each module in the last step that was read."""

    name_of_view = "health"
    keys: ClassVar[Keys] = (("esc", "back"), ("s", "sort"), ("n", "first NaN"), ("↵", "node"))
    every_key = HEALTH
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(HEALTH)]

    def begin(self) -> None:
        """Keep the order; nothing is asked for yet."""
        self._order = BY_EXECUTION
        self._has_asked = False

    def on_unmount(self) -> None:
        """Have no more of them read."""
        if self._has_asked:
            self.send(ReadValues(wanted=False))

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the table, or why there is none."""
        self._ask(look.session)
        found = ordered_rows(look, self._order)
        if not found:
            refused = "" if self._has_asked else why_not_now(look.session, "ReadValues")
            return words(f"no values: {safe(refused or why_no_values(look.session))}", look)
        return health_lines(look, found, self._order, rows)

    def _ask(self, session: Session) -> None:
        """Have values read, where the probe is known to do it; once."""
        if self._has_asked or session.hello is None or why_not_now(session, "ReadValues"):
            return
        self._has_asked = True
        self.send(ReadValues())

    def status(self, look: Look) -> Line:
        """Return where the first NaN was."""
        found = nan_words(look.session)
        if found or look.session.values is None:
            return row(((found, "error"),), EMPTY, look)
        return row((("no NaN in the steps that were read", "muted"),), EMPTY, look)

    def heading(self, look: Look) -> Heading | None:
        """Return the columns."""
        if look.session.values is None:
            return None
        return health_heading(look, self._order, len(head_lines(look)))

    def order_by(self, order: Order) -> None:
        """Order the rows; the cursor stays on its module."""
        self._order = order
        self.refresh_view()

    def action_move(self, by: int) -> None:
        """Go to another row."""
        rows = ordered_rows(self.look_now(), self._order)
        if rows:
            at = next((place for place, one in enumerate(rows) if one.node == self.node), 0)
            self.select(rows[max(0, min(at + by, len(rows) - 1))].node)

    def action_first_nan(self) -> None:
        """Go to the module with the first NaN."""
        values = self.session_shown.values
        found = values.values.first_nan if values is not None else None
        tree = self.session_shown.tree
        if found is None or tree is None or not 0 <= found.node < len(tree):
            self.say("no NaN in the steps that were read")
        else:
            self.select(found.node)

    def touched(self, x: int, y: int) -> None:
        """Select a row."""
        look = self.look_now()
        rows = ordered_rows(look, self._order)
        above = len(head_lines(look)) + 1
        at = next((place for place, one in enumerate(rows) if one.node == self.node), 0)
        place = first_row(at, len(rows), max(self.lines_of_view - above, 1)) + y - above
        if y >= above and place < len(rows):
            self.select(rows[place].node)
