"""The explorer: the tree, and panels that always speak of the selected node.

1. The first frame needs the header, the stages and the footer alone; the widgets for a model that
   is known are imported and mounted after it (``_complete``), while torch is imported elsewhere.
   Where a tree is known before it, that of last time, it is in the first frame. Until all parts
   are there the stages of the loading are shown.
2. ``refresh_all`` draws everything from the session, the selection and the clock; it runs when one
   of them changes. Nothing here computes what is shown.
3. What a key does is in its row of ``actions/table.py``: which part of the screen does it, what it
   needs, whether it asks. The screen does what opens another screen, and what changes the panels.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual import events
from textual.actions import parse
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.geometry import Size
from textual.reactive import var
from textual.timer import Timer
from textual.widget import MountError

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import LoadSpec, PartialTree, Request
from tui_profiler.queries.compare.difference import difference
from tui_profiler.queries.panel.cached_tree import change, is_remembered
from tui_profiler.queries.panel.failure import first_untried, trouble
from tui_profiler.queries.panel.state import is_stale
from tui_profiler.session import EMPTY, Session

from ..actions.footer import explorer_bar
from ..actions.table import DEPTHS, EXPLORER, OF_FUNCTION, Key, bindings, refusal, textual_action
from ..common.base_app import BaseApp, own_keys
from ..common.copy_export import CopyExport, ExportContent
from ..common.narrow import NARROW_COLUMNS, is_narrow
from ..common.view_pause import ViewPause
from ..settings.preferences import Preferences
from ..settings.theme import THEMES, short_name
from ..terminal.painting import PaintedScreen
from ..widgets.header import header_lines
from ..widgets.line_widgets import KeyBar, LinesWidget, Panel
from ..widgets.lines import Line, text
from ..widgets.prompt import Choice, Prompt, PromptRow
from ..widgets.rows import Look, aged, finished, plain, row
from ..widgets.status import status_lines
from .appearance import Appearance
from .failure import failure_lines, raised_at
from .loading import loading_body
from .requests import Requests

if TYPE_CHECKING:  # Only their names: they are imported after the first frame.
    from ..actions.commands import Command
    from ..views.inspector.why_lines import Why
    from ..views.view_screen import ViewState
    from ..widgets.strip import ForwardStrip
    from .tree.widget import NodeTree

SECTIONS = (None, "work", "timing", "bound", "machine", "step")
"""Of the narrow panel: all in short, then each in full."""
SAID_SECONDS = 8.0
CLOCK_SECONDS = 0.9
"""Where nothing else has drawn the panels, the clock in them goes on about once per second."""
DIFFERENCE_SECONDS = 5.0
WIDE_COLUMNS = 160
TINY_COLUMNS = 60
TINY_ROWS = 15
GARBAGE = 20_000
"""So many more objects than were freed are looked through for garbage. What is drawn is freed
without that, but drawing makes thousands: with Python's own 700 a tenth of each key was spent on
looking, and 5 ms in one piece at each tenth time."""
HINT = "x tries the marked line"
PANELS = "#failure, #compact, #inspector"
"""Of these one is shown."""
_REMEDY_KEYS = {"ctrl+r": "restart", "L": "log"}
"""Remedies that are a key of ours."""
_AT_ONCE = frozenset(textual_action(key.action) for key in EXPLORER if key.at_once)
COMPARE_HINT = "resnet101  'a.py:Net --batch 8'  night.rec  before.json"
SHORT_COMPARE_HINT = "resnet101  night.rec  before.json"


class Loading(Panel):
    """Shows the stages, and the modules of a forward that raised with a cursor among them."""

    cursor: int | None = None
    """The row of a module; None: nobody has moved away from the one that raised."""
    _partial: PartialTree | None = None

    def show(self, look: Look, draw: Callable[[Look, int], Iterable[Line]]) -> None:
        """Show what is drawn of a look; the cursor stays as long as the modules do."""
        if look.session.partial is not self._partial:
            self._partial, self.cursor = look.session.partial, None
        super().show(look, draw)

    def move(self, by: int) -> None:
        """Move among the modules of a forward that raised, from the one that did."""
        tree = self._partial
        if tree is not None and tree.modules_shown:
            at = (raised_at(tree) if self.cursor is None else self.cursor) + by
            self.cursor = min(max(at, 0), len(tree.modules_shown) - 1)
            self.draw()

    def page(self, direction: int) -> None:
        """Move by half a page."""
        self.move(direction * max(self.size.height // 2, 1))

    def first(self) -> None:
        """Go to the first module."""
        self.move(-sys.maxsize)

    def last(self) -> None:
        """Go to the last module."""
        self.move(sys.maxsize)

    def on_mouse_scroll_down(self) -> None:
        """Move down."""
        self.move(1)

    def on_mouse_scroll_up(self) -> None:
        """Move up."""
        self.move(-1)


class ExplorerScreen(PaintedScreen[None]):
    """Holds what is looked at, and hands it to the widgets."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(EXPLORER), *bindings(DEPTHS)]

    session: var[Session] = var(EMPTY)
    before: var[Session] = var(EMPTY)
    """The session as it was before the last change of batch, input, device or dtype."""
    tree_widget: NodeTree
    """Set when the tree is made; before that there is nothing that its keys could act on."""

    def __init__(
        self,
        spec: LoadSpec,
        glyphs: Glyphs,
        now: Callable[[], float],
        send: Callable[[Request], None],
        restart: Callable[[LoadSpec | None], None],
        preferences: Preferences | None = None,
    ) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.now = now
        self._send = send
        self._restart = restart
        self.prompt = PromptRow(self._draw_panels, self.say)
        self.view_pause = ViewPause(send)
        self.appearance = Appearance(self, preferences or Preferences(), glyphs, self._tick_at)
        self.requests = Requests(
            spec,
            session=lambda: self.session,
            now=now,
            send=send,
            restart=self._start_anew,
            view_pause=self.view_pause,
        )
        given = ExportContent(
            "explorer",
            session=lambda: self.session,
            path=self._selected_path,
            row=self._row_text,
            panel=self._panel_text,
            csv=self._rows_as_csv,
        )
        self.copying = CopyExport(self, given, self.say)
        self._chosen: int | None = None
        """Which remedy of a failure was selected; None: the first that was not tried yet."""
        self._is_made = False
        self._is_complete = False
        self._arranged_for: Size | None = None
        self._ticker: Timer | None = None
        self._at_once: dict[str, str] = {}
        """Key to its action, once one was pressed."""
        self._asking: dict[str, Key] = {}
        """Key to what it asks for, once one was pressed."""
        self._difference: tuple[Session, float, tuple[str, ...]] = (EMPTY, 0.0, ())
        self._said, self._said_at = "", -1e9
        self._told: Session | None = None
        self._section = 0
        self._asked: Why | None = None
        """Where the figures of the selected node come from is shown until a key is pressed."""
        self._pages = 0
        """Of that answer."""
        self._draws_soon = False
        self._panels_drawn_at = 0.0

    # Its parts, and how they lie in the size that there is.

    def compose(self) -> ComposeResult:
        """What the first frame needs; the form is one CSS class."""
        loading = Loading(id="loading")
        yield Panel(id="header")
        if self.session.tree is not None:
            self._make_rest()
            yield self._step
            yield self._strip
            yield Container(loading, *self._in_body, id="body")
            yield self._compact
        else:
            yield Container(loading, id="body")
        yield Panel(id="status")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Draw at once, then bring the rest."""
        self._tick_at(self.appearance.preferences.config.settings.rate)
        if self._is_made:
            self._begin()
        else:
            self.refresh_all()
        self.call_after_refresh(self._complete)

    def on_unmount(self) -> None:
        """Keep how the model was looked at last."""
        self.appearance.keep()

    async def _complete(self) -> None:
        gc.enable()  # Off since the command line was read: it would run ten times before this.
        gc.freeze()
        gc.set_threshold(GARBAGE)
        if self._is_made:
            return
        self._make_rest()
        body = self.query_one("#body")
        try:
            await self.mount(self._step, self._strip, before=body)
            await body.mount(*self._in_body)
            await self.mount(self._compact, after=body)
        except MountError:
            return  # The screen is being left already.
        self._begin()

    def _make_rest(self) -> None:
        from ..widgets.strip import ForwardStrip  # noqa: PLC0415 # rule 1
        from .tree.widget import NodeTree  # noqa: PLC0415

        self._step = Panel(id="step")
        self._strip = ForwardStrip(glyphs=self.glyphs, id="strip")
        self.tree_widget = NodeTree(glyphs=self.glyphs, id="tree")
        self._inspector, self._compact = Panel(id="inspector"), Panel(id="compact")
        self._failure = Panel(id="failure")
        self._in_body = (self.tree_widget, self._inspector, self._failure)
        self._is_made = True

    def _begin(self) -> None:
        """Use all widgets from now on."""
        self._is_complete = True
        self.tree_widget.focus()
        self._arrange()
        self.refresh_all()
        if isinstance(self.app, BaseApp):
            # What was resized draws itself in the refresh after next.
            self.call_after_refresh(self.call_after_refresh, self.app.begin)

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

    # What is drawn.

    def on_screen_resume(self) -> None:
        """Draw what a view in front has changed: it may have paused, or let go on."""
        if self._is_complete:
            self.refresh_all()

    def watch_session(self, before: Session, after: Session) -> None:
        """Draw what has changed."""
        if self.is_mounted:
            self.refresh_all()
            if is_remembered(before) and after.tree is not None and not is_remembered(after):
                self.say(change(after))

    def _tick_at(self, rate: float) -> None:
        if self._ticker is not None:
            self._ticker.stop()
        self._ticker = self.set_interval(1 / rate, self._tick)

    def _tick(self) -> None:
        """Redraw what moves by the clock alone: how long it is loading, paused, without data."""
        if self.is_current:
            now = time.monotonic()
            if self._is_complete:
                self.tree_widget.settle(now)
            is_loading = self._shown().tree is None
            if is_loading or now - self._panels_drawn_at > CLOCK_SECONDS:
                self._draw_panels()

    def refresh_all(self) -> None:
        """Draw everything from the session, the selection and the clock."""
        session = self._shown()
        is_loading = session.tree is None or not self._is_complete  # Rule 1.
        self.set_class(is_loading, "loading")
        self.set_class(trouble(session) is not None, "failed")
        if self._is_complete:
            self.prompt.take(self.appearance.show_in_tree(session, self.tree_widget))
        self._draw_panels()

    def _shown(self) -> Session:
        """The session that is on screen: the newest, or the one at which the view was paused."""
        held = self.view_pause.held
        return held[0] if held is not None else self.session

    def _draw_panels(self) -> None:
        self._draws_soon = False
        self._panels_drawn_at = time.monotonic()
        session, now = self._shown(), self.now()
        held = self.view_pause.held
        paused_at = held[1] if held is not None else None
        look, spec = Look(session, 0, now, 0, self.glyphs), self.requests.spec
        self.query_one("#header", Panel).show(
            look, lambda look, rows: header_lines(look, spec=spec, paused_at=paused_at)
        )
        if session.tree is None or not self._is_complete:
            loading, marked = self.query_one(Loading), self._marked(session)
            loading.show(
                look,
                lambda look, rows: loading_body(
                    look, rows, spec, marked=marked, hint=HINT, cursor=loading.cursor
                ),
            )
        else:
            self.tree_widget.stale = paused_at is None and is_stale(session, now)
            self._strip.stale = self.tree_widget.stale
            self._draw_panel(session, now if paused_at is None else paused_at)
        changed = self._changed(session)
        if self.is_narrow and changed and self._told is not self.before:
            self._told, self._said, self._said_at = self.before, changed[-2], time.monotonic()
        said = self._said if time.monotonic() - self._said_at < SAID_SECONDS else ""
        self.query_one("#status", Panel).show(
            look, lambda look, rows: status_lines(look, said, changed)
        )
        self._draw_keys(session, said)

    def _changed(self, session: Session) -> tuple[str, ...]:
        """Return what the last change changed, found anew every few seconds; none without one."""
        before, at, forms = self._difference
        tick = session.tick
        if tick is None:
            return ()
        if before is not self.before or not forms or not 0 <= tick.at - at < DIFFERENCE_SECONDS:
            self._difference = (self.before, tick.at, difference(self.before, session))
        return self._difference[2]

    def _draw_panel(self, session: Session, now: float) -> None:
        """Draw what speaks of the selected node: of the three panels, the one that is shown."""
        from ..views.inspector import compact_pane, pane  # noqa: PLC0415 # rule 1
        from ..widgets import generation_lines, step_lines  # noqa: PLC0415

        node = self.tree_widget.view.selected
        self._strip.session, self._strip.selected = session, node
        look, asked = Look(session, node, now, 0, self.glyphs), self._asked
        is_narrow = self.is_narrow
        panel = self._compact if is_narrow else self._inspector
        trains, answers = map(bool, (step_lines.is_training_seen(session), session.generation))
        self.set_class(trains or answers, "barred")
        bar = step_lines.bar_lines if trains else generation_lines.bar_lines
        self._step.show(look, lambda look, rows: aged(bar(look, rows), look))

        def answer(look: Look, rows: int) -> tuple[Line, ...]:
            assert asked is not None
            answered = compact_pane.answer_lines if is_narrow else pane.answer_lines
            lines, self._pages = answered(look, asked, rows)
            return lines

        if asked is not None:
            panel.show(look, answer)
        elif trouble(session) is not None:
            marked = self._marked(session)
            self._failure.show(look, lambda look, rows: failure_lines(look, rows, marked, HINT))
        elif is_narrow:
            panel.show(look, partial(compact_pane.compact_lines, section=SECTIONS[self._section]))
        else:
            panel.show(look, pane.inspector_lines)

    def _draw_keys(self, session: Session, said: str) -> None:
        """Draw the keys that matter here, or what was said where there is no row for it."""
        look = Look(session, 0, 0.0, self.size.width, self.glyphs)
        if (open_one := self.prompt.open_one) is not None:
            line = plain(open_one.line(look.cells), self.glyphs)
        elif self.is_narrow and said:  # There is no other row for it.
            line = finished((row(((safe(said), "ink"),), (), look),), look)[0]
        else:
            line = explorer_bar(
                self._own_keys(), session, look.cells, narrow=self.is_narrow, glyphs=self.glyphs
            )
        self.query_one("#keys", KeyBar).lines = (line,)

    def say(self, text: str) -> None:
        """Put an event into the status line."""
        if self.is_narrow and width(text) > self.size.width - 2:
            self.tell(text)  # The last row is all there is, and too short for it.
            return
        # By a clock of its own: a recording that stands still has another now.
        self._said, self._said_at = text, time.monotonic()
        self._draw_panels()

    def tell(self, text: str) -> None:
        """Say something that may be longer than the status line, or where there is none."""
        if not self.is_narrow and width(text) <= self.size.width - 2:
            self.say(text)
        else:
            self.app.clear_notifications()
            self.notify(safe(text), timeout=SAID_SECONDS, markup=False)

    # Keys, and what they stand for.

    def _own_keys(self) -> tuple[Key, ...]:
        return own_keys(self.app, EXPLORER)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what acts on the tree until it is there."""
        if action == "do":
            action = str(parameters[0]).partition("(")[0]
        key = OF_FUNCTION.get(action)
        needs_tree = key is not None and (key.needs_tree or key.on == "tree_widget")
        return self._is_made or not needs_tree or self._moves_in_partial(action)

    def action_do(self, action: str) -> None:
        """Do what a row of the table says; say what came of it, or why it is refused.

        Args:
            action: as the row has it, such as ``move(1)``.
        """
        _, name, arguments = parse(action)
        key = OF_FUNCTION[name]
        if why_not := "" if key.explains else refusal(self.session, key.request):
            self.say(why_not)
            return
        owner = self.query_one(Loading) if self._moves_in_partial(name) else getattr(self, key.on)
        self.prompt.take(getattr(owner, name)(*arguments))

    def _moves_in_partial(self, action: str) -> bool:
        """Tell whether an action moves among the modules of a forward that raised."""
        is_shown = self.has_class("loading") and self._shown().partial is not None
        return is_shown and action in ("move", "page", "first", "last")

    def on_key(self, event: events.Key) -> None:
        """Hand what is typed to the prompt, and open one at once."""
        if self.prompt.key(event):
            return
        if self._asked is not None and self._key_closes(event):
            return
        if not self._asking:
            asking = (key for key in reversed(self._own_keys()) if key.asks)
            self._asking = {name: key for key in asking for name in key.keys.split(",")}
        key = self._asking.get(event.key)
        if key is None or not self.check_action(key.name, ()):
            return
        event.stop()
        event.prevent_default()
        if key.on:
            self.action_do(key.action)
        else:
            self.action_compare()
        self._draw_panels()

    def on_paste(self, event: events.Paste) -> None:
        """Hand pasted text to an open prompt."""
        self.prompt.paste(event)

    def straight(self, key: str) -> str:
        """Return the action of a key that moves through the tree."""
        if (
            self.prompt.open_one is not None
            or self._asked is not None
            or not self._is_made
            or self.tree_widget.outline is None
        ):
            return ""
        if not self._at_once:
            bound = ((key, one) for key, one in self.active_bindings.items() if one.node is self)
            self._at_once = {
                key: one.binding.action for key, one in bound if one.binding.action in _AT_ONCE
            }
        return self._at_once.get(key, "")

    def on_node_tree_changed(self) -> None:
        """Draw what depends on the view: first the tree with its cursor, then the panels, once."""
        if not self._draws_soon:
            self._draws_soon = self.call_after_refresh(self._draw_panels)

    def on_node_tree_opened(self) -> None:
        """Open what was clicked twice."""
        self.action_open()

    def on_forward_strip_clicked(self, event: ForwardStrip.Clicked) -> None:
        """Go to the module whose block was clicked."""
        self.tree_widget.select(event.node)

    def action_open(self) -> None:
        """Make a block the root; open a leaf, or the root itself."""
        if self.session.tree is None or not self.tree_widget.drill_down():
            self.action_node()

    def action_pause(self) -> None:
        """Pause the view, or let it go on; of a recording, pause or play it."""
        if said := self.view_pause.press(self.session, self.now()):
            self.say(said)
        self.refresh_all()

    def action_speed(self, times: float) -> None:
        """Play so many times as fast as before; where nothing is played, redraw so often."""
        playback = self.session.playback
        self.prompt.take(
            self.appearance.change_rate(times)
            if playback is None
            else self.requests.speed(playback, times)
        )

    def action_replay(self) -> None:
        """Ask for the energy of the selected node, run by itself."""
        node = self.tree_widget.view.selected if self._is_made else 0
        self.prompt.take(self.requests.replay(node))

    def action_panels(self) -> None:
        """Show the next section of the narrow panel in full; mark the next remedy of a failure."""
        found = trouble(self._shown())
        if found is not None and found.remedies:
            self._chosen = (self._marked(self._shown()) + 1) % len(found.remedies)
        self._section = (self._section + 1) % len(SECTIONS)
        if SECTIONS[self._section] == "step" and self._shown().training is None:
            self._section = 0
        self._draw_panels()

    def action_why(self) -> None:
        """Show where the figures of the selected node come from, page by page."""
        from ..views.inspector.why_lines import Why  # noqa: PLC0415 # first paint does without it

        tree, asked = self.tree_widget, self._asked
        if self._shown().tree is None:
            self.say("why needs the tree, which is not known yet")
        elif asked is None:
            self._ask_why(Why(tree.columns_shown, tree.stands_for()))
        else:
            after = replace(asked, page=asked.page + 1)
            self._ask_why(after if after.page < self._pages else None)

    def _ask_why(self, asked: Why | None) -> None:
        self._asked = asked
        self.set_class(asked is not None, "asked")
        self._draw_panels()

    def _key_closes(self, event: events.Key) -> bool:
        """Leave the answer, but for the next page and a copy; True where the key does no more."""
        names = {key.name for key in self._own_keys() if event.key in key.keys.split(",")}
        if names.isdisjoint(("why", "copy")):
            self._ask_why(None)
        if is_back := "back" in names:
            event.stop()
            event.prevent_default()
        return is_back

    async def action_try(self) -> None:
        """Restart the worker with the marked remedy of a failure."""
        found = trouble(self.session)
        remedies = found.remedies if found is not None else ()
        if not remedies:
            self.say("nothing to try: no failure with a remedy")
            return
        marked = self._marked(self.session)
        if marked < 0:
            self.say("all of these were tried: tab selects one to try again")
            return
        remedy = remedies[marked]
        if remedy.command in _REMEDY_KEYS:
            await self.run_action(textual_action(_REMEDY_KEYS[remedy.command]))
        else:
            self.prompt.take(self.requests.try_remedy(remedy))

    def _marked(self, session: Session) -> int:
        """Return which remedy of a failure the cursor is on; -1: none."""
        found = trouble(session)
        if found is None:
            return -1
        if self._chosen is not None:
            return min(self._chosen, len(found.remedies) - 1)
        return first_untried(found.remedies, self.requests.was_tried)

    def _start_anew(self, spec: LoadSpec | None) -> None:
        self._chosen = None
        self._ask_why(None)
        self._restart(spec)

    # What is copied and written of it.

    def _selected_path(self) -> str:
        laid = self.tree_widget.outline
        return laid.tree.nodes[laid.focus.selected].path if laid is not None else ""

    def _row_text(self) -> str:
        return self.tree_widget.row_text()

    def _panel_text(self) -> str:
        if self._asked is not None:
            told = self._asked.answer(self._shown(), self.tree_widget.view.selected)
            return "".join(f"{figure}: {text}\n" for figure, text in told)
        shown = [panel for panel in self.query(PANELS).results(LinesWidget) if panel.region]
        lines = [text(line).rstrip() for panel in shown for line in panel.lines]
        return "\n".join(lines).strip("\n") + "\n"

    def _rows_as_csv(self) -> Callable[[], str]:
        from tui_profiler.reports.csv import csv_nodes  # noqa: PLC0415

        laid = self.tree_widget.outline if self._is_made else None
        if laid is None:
            return lambda: csv_nodes(self.session, ())
        return partial(csv_nodes, self.tree_widget.session, laid.rows, laid.steps)

    # Other screens, which are imported when they are opened.

    def action_side(self, name: str) -> None:
        """Open a view of the selected node beside the explorer."""
        from ..views.view_screen import side_screen  # noqa: PLC0415

        if self.session.tree is None:
            self.say(f"{name} needs the tree, which is not known yet")
            return
        view = side_screen(name)
        screen = view(self.tree_widget.view.selected, self.glyphs, self.now, self.view_pause)
        screen.send, screen.tree_root = self._send, self.tree_widget.view.root
        self.app.push_screen(screen.data_bind(BaseApp.session), self._come_back)

    async def _come_back(self, left: ViewState | None) -> None:
        """Select what was selected where one comes from, and go on to where one wants to."""
        if left is not None:
            self.tree_widget.select(left.node)
            if left.then in ("node", "palette"):
                await self.run_action(left.then)
            elif left.then:
                self.action_side(left.then)

    def action_node(self) -> None:
        """Open the node screen."""
        from ..views.node.screen import NodeScreen  # noqa: PLC0415 # first paint does without it

        if self.session.tree is None:
            self.say("node needs the tree, which is not known yet")
            return
        selected = self.tree_widget.view.selected
        screen = NodeScreen(selected, self.glyphs, self.now, self.view_pause)
        self.app.push_screen(screen.data_bind(BaseApp.session), self._come_back)

    def action_machine(self) -> None:
        """Open the machine screen."""
        from ..views.machine.screen import MachineScreen  # noqa: PLC0415

        self.app.push_screen(MachineScreen(self.glyphs, self.now).data_bind(BaseApp.session))

    def action_log(self) -> None:
        """Open the log."""
        from ..views.log import LogScreen  # noqa: PLC0415

        self.app.push_screen(LogScreen(self.glyphs).data_bind(BaseApp.session))

    def action_ranks(self) -> None:
        """Go to the ranks of the run."""
        app = self.app
        if not isinstance(app, BaseApp) or not app.show_ranks():
            self.say("one process only: ranks are shown when attached to a torchrun job")

    def action_compare(self) -> None:
        """Ask what to compare with."""
        if self.session.tree is None or is_remembered(self.session):
            self.say("compare needs the tree, which is not known yet")
            return
        hint = COMPARE_HINT if self.size.width >= NARROW_COLUMNS else SHORT_COMPARE_HINT
        self.prompt.take(Prompt("compare with ", done=self.compare_with, hint=hint))

    def compare_with(self, text: str) -> None:
        """Compare with what was typed: as B, it is written as for the verb ``compare``."""
        if text.strip():
            self.run_worker(self._compare_with(text), exclusive=True, group="compare")

    async def _compare_with(self, text: str) -> None:
        from ..views.compare.explorer_comparison import OtherError, compare_here, opened_other  # noqa: PLC0415
        from ..views.compare.opened import Opened  # noqa: PLC0415

        spec = self.requests.as_it_runs()
        try:
            typed, other, said = await opened_other(text, spec)
        except OtherError as error:
            self.tell(str(error))
            return
        began = time.time() - self.now()
        this = Opened(spec.model, self.session, began=began, spec=spec)
        screen = compare_here(self.glyphs, this, other, self._send, measuring=typed.chosen.run)
        self.app.push_screen(screen.data_bind(BaseApp.session))
        if said:
            screen.say("; ".join(said))

    def action_keys(self) -> None:
        """Open the list of keys."""
        from ..actions.help import KeysScreen  # noqa: PLC0415

        self.app.push_screen(KeysScreen(self.session, self._own_keys(), self.glyphs))

    def action_palette(self) -> None:
        """Open the palette; what is chosen there is done here."""
        from ..actions.commands import commands  # noqa: PLC0415 # first paint does without it
        from ..actions.palette import PaletteScreen  # noqa: PLC0415

        async def carry_out(chosen: Command | None) -> None:
            if chosen is not None:
                await self.run_action(textual_action(chosen.action))
                self.refresh_all()

        themes = [short_name(theme.name) for theme in THEMES]
        found = commands(self.session, themes, (*self._own_keys(), *DEPTHS))
        self.app.push_screen(PaletteScreen(found, self.glyphs), carry_out)

    async def action_leave(self) -> None:
        """Quit; where something of the user's runs in here, ask what becomes of it."""
        app = self.app
        if not isinstance(app, BaseApp) or not app.runs_script():
            app.exit(0)
            return
        stop = ("s", "stop it", lambda: app.exit(0))
        run_on = ("l", "leave it running here", app.let_script_go)
        self.prompt.take(Choice("the script is running", (stop, run_on)))
