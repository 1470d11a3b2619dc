"""The weights screen: every parameter with its statistics and sensitivity."""

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler import messages
from tui_profiler.queries.parameters import weights

from ...actions.table import why_not_now
from ...actions.view_keys import WEIGHTS, own_bindings
from ...common.model_pause import ModelPause
from ...widgets.heading import Heading, Order
from ...widgets.key_bar import Keys
from ...widgets.lines import Line, text
from ...widgets.rows import Look, first_row, row
from ..view_screen import SAID_SECONDS, RowsScreen
from .analysis_state import is_measuring, is_reading
from .lines import PANEL_CELLS, status_line, weights_heading, weights_lines
from .panel import panel_lines
from .table import LEAST_ROWS, body_rows

_MOST_PANEL_ROWS = 100


class WeightsScreen(RowsScreen):
    """A table of the parameters; the cursor selects the module of its row."""

    name_of_view = "weights"
    keys: ClassVar[Keys] = (
        ("esc", "back"),
        ("x", "measure"),
        ("X", "all"),
        ("s", "sort"),
        ("v", "change"),
        ("c", "stop"),
        ("b", "buffers"),
        ("↵", "node"),
    )
    every_key = WEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(WEIGHTS)]

    def begin(self) -> None:
        """Start with the tree's order and the first scheme."""
        self.view = weights.WeightsView()
        self.scheme = weights.SCHEMES[0]
        self._model_pause = ModelPause()
        self._has_asked = False
        self._busy_at = -1e9
        self._asked_at: tuple[object, object] | None = None
        """State when a request was sent; None after its answer."""
        self._waits = False
        """Values are requested, and none has arrived."""

    def on_mount(self) -> None:
        """Request the statistics where there are none yet, once the session is set."""
        self.call_after_refresh(self._read_first)

    def watch_session(self) -> None:
        """Request the statistics as soon as possible, and draw changes."""
        if self.is_mounted:
            self._read_first()
        known = (self.session.parameters, self.session.sensitivity)
        if self._asked_at is not None and any(
            one is not other for one, other in zip(self._asked_at, known, strict=True)
        ):
            self._said = ("", 0.0)  # The answer replaces the message of the request.
            self._asked_at = None
            self._busy_at = time.monotonic()
        super().watch_session()

    def _read_first(self) -> None:
        if self._has_asked or self.session.parameters is not None:
            return
        if not self._why_not(messages.AnalyseParameters()):
            self._has_asked = self._waits = True
            self.send(messages.AnalyseParameters())

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the table, and the panel or the facts."""
        self.view.update(look.session, self.node)
        return weights_lines(look, self.view, rows, narrow=self.is_narrow)

    def status(self, look: Look) -> Line:
        """Return progress or result."""
        session = look.session
        if self._waits and session.parameters is None and session.ended is None:
            told = "weights requested"
            return row(((told, "muted"),), (), look)
        return status_line(look, self.scheme)

    def has_news(self, look: Look) -> bool:
        """Return whether the status has just changed."""
        session, now = look.session, time.monotonic()
        waits = self._waits and session.parameters is None
        if waits or is_measuring(session) or is_reading(session):
            self._busy_at = now
        return now - self._busy_at < SAID_SECONDS

    def rows_as_csv(self) -> Callable[[], str]:
        """Return a function that writes the rows, in the order shown."""
        from tui_profiler.reports.csv import csv_weights  # noqa: PLC0415 # only for this

        rows = self.view.rows
        return lambda: csv_weights(rows)

    def selected_path(self) -> str:
        """Return the full name of the weight under the cursor."""
        return self.view.name or super().selected_path()

    def row_text(self) -> str | None:
        """Return the row under the cursor."""
        from tui_profiler.reports.csv import csv_weights  # noqa: PLC0415

        weight = self.view.row
        return csv_weights((weight,)).splitlines()[1] if weight is not None else None

    def panel_text(self) -> str | None:
        """Return the panel of the weight under the cursor."""
        look = Look(self.session, self.node, self.now(), PANEL_CELLS, self.glyphs)
        lines = panel_lines(look, self.view.row, _MOST_PANEL_ROWS)
        return "\n".join(text(line).rstrip() for line in lines) + "\n" if lines else None

    def touched(self, x: int, y: int) -> None:
        """Select a row; the title and the column titles are above."""
        body = body_rows(self.lines_of_view - 1)
        at = first_row(self.view.at, len(self.view.rows), body) + y - 2
        if y >= 2 and at < len(self.view.rows):
            self.action_move(at - self.view.at)

    def action_move(self, by: int) -> None:
        """Select another row, and its module."""
        weight = self.view.move(by)
        if weight is not None:
            self.select(weight.node)

    def heading(self, look: Look) -> Heading | None:
        """Return the column titles."""
        if self.lines_of_view < LEAST_ROWS + 2:  # The title, and a row below the table.
            return None
        return weights_heading(look, self.view, narrow=self.is_narrow)

    def order_by(self, order: Order) -> None:
        """Sort the rows."""
        for sort in weights.SORT_WORDS:
            if sort == order.column:
                self.view.sort_by(sort, descending=order.descending)
        self.say(weights.SORT_WORDS[self.view.sort])
        self.refresh_view()

    def action_sort(self) -> None:
        """Sort by the next column with figures."""
        self.view.sort_by_next()
        self.say(weights.SORT_WORDS[self.view.sort])

    def action_buffers(self) -> None:
        """Show or hide buffers."""
        self.view.shows_buffers = not self.view.shows_buffers
        self.view.arrange()
        self.say("buffers shown" if self.view.shows_buffers else "buffers hidden")

    def action_read(self) -> None:
        """Read the weights again."""
        self._ask(messages.AnalyseParameters(), "reading the weights again")

    def action_measure(self) -> None:
        """Measure the sensitivity of the output to the weight under the cursor."""
        weight = self.view.row
        if weight is None:
            self.say("no weight to measure")
        elif not weights.is_measurable(weight):
            self.say("sensitivity needs two or more axes")
        else:
            name = weight.shared_with or weight.name
            self._ask(messages.MeasureSensitivity(self.scheme, name), self._changing(name))

    def action_measure_all(self) -> None:
        """Measure the sensitivity of the output to every weight."""
        self._ask(
            messages.MeasureSensitivity(self.scheme), self._changing("one weight after another")
        )

    def action_scheme(self) -> None:
        """Choose the change that is measured."""
        self.scheme = weights.next_scheme(self.scheme)
        self.say(f"x and X measure {weights.scheme_words(self.scheme)}")

    def action_stop(self) -> None:
        """Stop reading or measuring; results so far remain."""
        waits = self._waits and self.session.parameters is None
        self._waits = False
        if waits or is_measuring(self.session) or is_reading(self.session):
            self._ask(messages.StopAnalysing(), "stopped; results are kept")
        else:
            self.say("nothing to stop")

    def action_hold(self) -> None:
        """Pause the model on the second press, so that weights are read faster; or resume it."""
        if why_not := self._why_not(messages.Pause()):
            self.say(why_not)
            return
        request, said = self._model_pause.press(self.session, self.now())
        if request is not None:
            self.send(request)
        self.say(said)

    def _changing(self, what: str) -> str:
        said = f"{what}: {weights.scheme_words(self.scheme)}"
        return said if self.is_narrow else f"{said}; the model's weights are not changed"

    def _ask(self, request: messages.Request, said: str) -> None:
        why_not = self._why_not(request)
        if why_not:
            self.say(why_not)
        else:
            self._waits = self._waits or isinstance(request, messages.AnalyseParameters)
            self.send(request)
            self.say(said)
            self._asked_at = (self.session.parameters, self.session.sensitivity)

    def _why_not(self, request: messages.Request) -> str:
        """Return why a request is refused; empty where it is not."""
        if self.session.hello is None:
            return "the worker is starting"
        return why_not_now(self.session, type(request).__name__)
