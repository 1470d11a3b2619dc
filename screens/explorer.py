"""The explorer: the tree, and panels that always speak of the selected node.

One ``refresh_all`` draws everything from the session, the selection and the clock; it runs when one
of them changes and on the app's tick. Nothing here computes what is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.reactive import var
from textual.screen import Screen

from tui_profiler.canvas import Glyphs
from tui_profiler.messages import LoadSpec, Pause, Request, Resume, SetBatch, Step
from tui_profiler.queries.focus import SORT_KEYS
from tui_profiler.queries.panel_failure import trouble
from tui_profiler.queries.panel_state import is_stale
from tui_profiler.queries.why import why
from tui_profiler.session import EMPTY, Session
from tui_profiler.text import safe

from .keys import DEPTHS, EXPLORER, bindings, footer
from .prompt import Prompt
from .remedy import with_option
from .widgets.compact import Compact
from .widgets.failure import FailurePanel
from .widgets.header import Header
from .widgets.inspector import Inspector
from .widgets.key_bar import key_bar
from .widgets.lines import LinesWidget
from .widgets.loading import Loading
from .widgets.status import Status
from .widgets.strip import ForwardStrip
from .widgets.tree import NodeTree

NARROW_COLUMNS = 100
NARROW_ROWS = 30
WIDE_COLUMNS = 160
TINY_COLUMNS = 60
TINY_ROWS = 15
SECTIONS = (None, "work", "timing", "bound", "machine")
HOLD_SECONDS = 3.0
SAID_SECONDS = 8.0
HINT = "x tries the marked line"


class ExplorerScreen(Screen[None]):
    """Holds what is looked at, and hands it to the widgets."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(EXPLORER), *bindings(DEPTHS)]
    CSS_PATH = None

    session: var[Session] = var(EMPTY)

    def __init__(
        self,
        spec: LoadSpec,
        glyphs: Glyphs,
        now: Callable[[], float],
        send: Callable[[Request], None],
        restart: Callable[[LoadSpec | None], None],
    ) -> None:
        super().__init__()
        self._spec = spec
        self._glyphs = glyphs
        self._now = now
        self._send = send
        self._restart = restart
        self._held_view: tuple[Session, float] | None = None
        self._said = ""
        self._said_at = -1e9
        self._hold_asked_at = -1e9
        self._section = 0
        self._marked = 0

    def compose(self) -> ComposeResult:
        """Header, strip, body, status, keys; the form is one CSS class."""
        yield Header(self._glyphs, self._spec, id="header")
        yield LinesWidget(classes="blank wide-only")
        yield ForwardStrip(glyphs=self._glyphs, id="strip")
        with Container(id="body"):
            yield Loading(self._glyphs, self._spec, id="loading")
            yield NodeTree(glyphs=self._glyphs, id="tree")
            yield Inspector(self._glyphs, id="inspector")
            yield FailurePanel(self._glyphs, HINT, id="failure")
        yield Compact(self._glyphs, id="compact")
        yield LinesWidget(classes="blank wide-only")
        yield Status(self._glyphs, id="status")
        yield LinesWidget(id="keys")

    def on_mount(self) -> None:
        """Give the keys to the tree, and draw."""
        self.query_one(NodeTree).focus()
        self.set_interval(0.25, self._tick)
        self.refresh_all()

    def on_resize(self) -> None:
        """Choose the form for this size."""
        self._arrange()
        self.refresh_all()

    def watch_session(self) -> None:
        """Draw what has changed."""
        if self.is_mounted:
            self.refresh_all()

    @property
    def is_narrow(self) -> bool:
        """Whether the panel lies below the tree instead of beside it."""
        return self.size.width < NARROW_COLUMNS or self.size.height < NARROW_ROWS

    @property
    def is_tiny(self) -> bool:
        """Whether there is room for the tree and one line."""
        return self.size.width < TINY_COLUMNS or self.size.height < TINY_ROWS

    def _arrange(self) -> None:
        self.set_class(self.is_narrow, "narrow")
        self.set_class(self.is_tiny, "tiny")
        self.set_class(self.size.width >= WIDE_COLUMNS and not self.is_narrow, "very-wide")
        form = "tiny" if self.is_tiny else "narrow" if self.is_narrow else "wide"
        self.query_one(NodeTree).form = form

    def _tick(self) -> None:
        """Redraw what moves by the clock alone: how long it is loading, paused, without data."""
        if self.is_current:
            self._draw_panels()

    def refresh_all(self) -> None:
        """Draw everything from the session, the selection and the clock."""
        session = self._shown()
        self.set_class(session.tree is None, "loading")
        self.set_class(trouble(session) is not None, "failed")
        tree = self.query_one(NodeTree)
        tree.session = session
        self._draw_panels()

    def _shown(self) -> Session:
        """The session that is on screen: the newest, or the one at which the view was paused."""
        return self._held_view[0] if self._held_view is not None else self.session

    def _draw_panels(self) -> None:
        session, now, tree = self._shown(), self._now(), self.query_one(NodeTree)
        node = tree.view.selected
        paused_at = self._held_view[1] if self._held_view is not None else None
        tree.stale = paused_at is None and is_stale(session, now)
        self.query_one(Header).show(session, now, paused_at)
        strip = self.query_one(ForwardStrip)
        strip.session, strip.selected = session, node
        if session.tree is None:
            self.query_one(Loading).show(session, now, self._marked, HINT)
        elif trouble(session) is not None:
            self.query_one(FailurePanel).show(session, now, self._marked)
        elif self.is_narrow:
            self.query_one(Compact).show(session, node, now, SECTIONS[self._section])
        else:
            self.query_one(Inspector).show(session, node, now)
        said = self._said if now - self._said_at < SAID_SECONDS else ""
        self.query_one(Status).show(session, now, said)
        self._draw_keys(session)

    def _draw_keys(self, session: Session) -> None:
        narrow = self.is_narrow
        left = footer(EXPLORER, "left", narrow=narrow)
        if trouble(session) is not None:
            left = (("x", "try this"), ("ctrl+r", "restart"), ("L", "traceback and log"))
        elif session.tree is None:
            left = (("L", "log"), ("ctrl+r", "restart"))
        bar = key_bar(left, footer(EXPLORER, "right", narrow=narrow), self.size.width)
        self.query_one("#keys", LinesWidget).lines = (bar,)

    def say(self, text: str) -> None:
        """Put an event into the status line."""
        self._said, self._said_at = text, self._now()
        self._draw_panels()

    def on_node_tree_selected(self) -> None:
        """Let the panels speak of the new selection."""
        self._draw_panels()

    def on_node_tree_changed(self) -> None:
        """Draw what depends on the view."""
        self._draw_panels()

    def on_node_tree_opened(self, message: NodeTree.Opened) -> None:
        """Open what was clicked twice."""
        self.action_open()

    # Moving and folding: what the tree does.

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.query_one(NodeTree).move(by)

    def action_page(self, direction: int) -> None:
        """Move by half a page."""
        self.query_one(NodeTree).page(direction / 2)

    def action_first(self) -> None:
        """Go to the first row."""
        self.query_one(NodeTree).goto_first()

    def action_last(self) -> None:
        """Go to the last row."""
        self.query_one(NodeTree).goto_last()

    def action_unfold(self) -> None:
        """Unfold."""
        self.query_one(NodeTree).unfold()

    def action_fold(self) -> None:
        """Fold, or go to the parent."""
        self.query_one(NodeTree).fold()

    def action_toggle(self) -> None:
        """Fold or unfold."""
        self.query_one(NodeTree).toggle()

    def action_fold_all(self) -> None:
        """Fold everything."""
        self.query_one(NodeTree).fold_all()

    def action_unfold_all(self) -> None:
        """Unfold everything."""
        self.query_one(NodeTree).unfold_all()

    def action_depth(self, depth: int) -> None:
        """Unfold to a depth."""
        self.query_one(NodeTree).unfold_to_depth(depth)

    def action_hottest(self) -> None:
        """Go to the hottest leaf."""
        self.query_one(NodeTree).hottest()

    def action_operators(self) -> None:
        """Show or hide operators."""
        tree = self.query_one(NodeTree)
        tree.show_operators(not tree.view.show_operators)
        self.say("operators are shown" if tree.view.show_operators else "operators are hidden")

    def action_sort(self) -> None:
        """Sort by the next column."""
        tree = self.query_one(NodeTree)
        tree.sort_by(SORT_KEYS[(SORT_KEYS.index(tree.view.sort) + 1) % len(SORT_KEYS)])

    def action_reverse(self) -> None:
        """Sort the other way round."""
        tree = self.query_one(NodeTree)
        tree.sort_by(tree.view.sort, descending=not tree.view.descending)

    def action_open(self) -> None:
        """Make a block the root; open a leaf, or the root itself."""
        if self.session.tree is not None and not self.query_one(NodeTree).drill_down():
            self.action_node()

    def action_back(self) -> None:
        """Drop the filter, then go one root up."""
        tree = self.query_one(NodeTree)
        if tree.view.filter_text:
            tree.filter_by("")
        else:
            tree.drill_up()

    # Looking.

    def action_panels(self) -> None:
        """Show the next section of the narrow panel in full; mark the next remedy of a failure."""
        found = trouble(self._shown())
        if found is not None and found.remedies:
            self._marked = (self._marked + 1) % len(found.remedies)
        self._section = (self._section + 1) % len(SECTIONS)
        self._draw_panels()

    def action_why(self) -> None:
        """Say where the figures of the selected node come from."""
        self.say(why(self._shown(), self.query_one(NodeTree).view.selected))

    def action_copy(self) -> None:
        """Copy the selected node's path."""
        session = self._shown()
        if session.tree is not None:
            path = session.tree.nodes[self.query_one(NodeTree).view.selected].path
            self.app.copy_to_clipboard(safe(path))
            self.say(f"copied {safe(path) or 'the root: its path is empty'}")

    def action_theme(self) -> None:
        """Go to the next theme."""
        names = sorted(self.app.available_themes)
        self.app.theme = names[(names.index(self.app.theme) + 1) % len(names)]
        self.say(f"theme {self.app.theme}")

    def action_node(self) -> None:
        """Open the node screen."""
        from .app import ProfilerApp  # noqa: PLC0415 # first paint does without it
        from .node import NodeScreen  # noqa: PLC0415

        if self.session.tree is not None:
            selected = self.query_one(NodeTree).view.selected
            screen = NodeScreen(selected, self._glyphs, self._now)
            self.app.push_screen(screen.data_bind(ProfilerApp.session))

    def action_log(self) -> None:
        """Open the log."""
        from .app import ProfilerApp  # noqa: PLC0415
        from .log import LogScreen  # noqa: PLC0415

        self.app.push_screen(LogScreen(self._glyphs).data_bind(ProfilerApp.session))

    def action_keys(self) -> None:
        """Open the list of keys."""
        from .help import KeysScreen  # noqa: PLC0415

        self.app.push_screen(KeysScreen())

    async def action_leave(self) -> None:
        """Quit."""
        self.app.exit(0)

    # Asking.

    def action_filter(self) -> None:
        """Ask what to filter by."""
        tree = self.query_one(NodeTree)
        self._ask("/", tree.view.filter_text, tree.filter_by, lambda text: None)

    def action_batch(self) -> None:
        """Ask for a batch size."""
        self._ask("batch ", "", lambda text: None, self._set_batch)

    def _ask(
        self, label: str, text: str, changed: Callable[[str], None], done: Callable[[str], None]
    ) -> None:
        if not self.query(Prompt):
            self.mount(Prompt(label, text, changed, done))

    def _set_batch(self, text: str) -> None:
        if text.isdecimal() and int(text) > 0:
            self._request(SetBatch(int(text)), f"batch {text} asked for")
        elif text:
            self.say(f"a batch size is a whole number above 0, not {safe(text)!r}")

    # The running model.

    def action_pause(self) -> None:
        """Pause the view, or let it go on."""
        if self._held_view is None:
            self._held_view = (self.session, self._now())
        else:
            self._held_view = None
        self.refresh_all()

    def action_hold(self) -> None:
        """Hold the model when asked twice, or let it run."""
        loop = self.session.loop
        if loop is not None and loop.state == "paused":
            self._request(Resume(), "the model runs again")
        elif self._now() - self._hold_asked_at <= HOLD_SECONDS:
            self._hold_asked_at = -1e9
            self._request(Pause(), "the model is held: P lets it run, . steps")
        else:
            self._hold_asked_at = self._now()
            self.say("P again holds the model")

    def action_step(self) -> None:
        """Run one forward of a model that is held."""
        loop = self.session.loop
        if loop is not None and loop.state == "paused":
            self._request(Step(), "one forward")
        else:
            self.say("the model runs; P P holds it, then . steps")

    def _request(self, request: Request, said: str) -> None:
        hello = self.session.hello
        name = type(request).__name__
        if hello is None or self.session.ended is not None:
            self.say("there is no worker to ask; ctrl+r starts one")
        elif name not in hello.accepts:
            self.say(hello.refusal or f"this probe does not accept {name}")
        else:
            self._send(request)
            self.say(said)

    def action_restart(self) -> None:
        """Start a new worker."""
        self._start_again(None, "a new worker is started")

    def action_try(self) -> None:
        """Restart the worker with the marked remedy of a failure."""
        found = trouble(self.session)
        remedies = found.remedies if found is not None else ()
        if not remedies:
            return
        remedy = remedies[min(self._marked, len(remedies) - 1)]
        changed = with_option(self._spec, remedy.command)
        if changed is None:
            self.say(f"{safe(remedy.command)} is to be typed in a shell")
        else:
            self._start_again(changed, f"started again with {safe(remedy.command)}")

    def _start_again(self, spec: LoadSpec | None, said: str) -> None:
        self._held_view, self._marked = None, 0
        self._spec = spec or self._spec
        self._restart(self._spec)
        self.say(said)
