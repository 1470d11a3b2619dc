"""The node screen: everything that is known of one node, the inspector beside it."""

import time
from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import printable, safe
from tui_profiler.messages import Node
from tui_profiler.queries.panel.neighbours import neighbours, same_shape, sibling
from tui_profiler.session import Tree

from ...actions.table import SIDE_SCREENS, side_keys
from ...common.base_app import own_keys, redraw_seconds
from ...common.copy_export import copy_text
from ...common.narrow import is_narrow
from ...common.scrolling import ScrollingScreen
from ...common.view_pause import ViewPause
from ...widgets.bound_lines import bound_lines
from ...widgets.header import header_lines
from ...widgets.identity_lines import work_lines
from ...widgets.key_bar import key_bar
from ...widgets.line_widgets import KeyBar, LinesWidget, Panel
from ...widgets.lines import EMPTY as BLANK
from ...widgets.lines import Line
from ...widgets.machine_lines import machine_lines
from ...widgets.rows import Look, finished, row
from ...widgets.scrolled import ScrolledLines
from ...widgets.status import status_lines
from ...widgets.strip import ForwardStrip
from ...widgets.timing_lines import timing_lines
from ..inspector.pane import inspector_lines
from ..view_screen import VIEW_BINDINGS, ViewState
from .lines import NodeContext, node_lines
from .source_text import SourceText, read_source

SAID_SECONDS = 8.0
WIDE_COLUMNS = 160
_KEYS = (("esc", "back"), ("↑↓", "scroll"), ("[ ]", "sibling"), ("p", "pause"), ("y", "copy"))


class NodeScreen(ScrollingScreen[ViewState]):
    """Shows one node until it is left."""

    CSS = """
    NodeScreen .blank { height: 1; }
    NodeScreen #node { width: 1fr; height: 1fr; }
    NodeScreen.narrow .wide-only { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "sibling(-1)", show=False, id="former-sibling"),
        Binding("right_square_bracket", "sibling(1)", show=False, id="next-sibling"),
        *VIEW_BINDINGS,
    ]

    def __init__(
        self,
        node: int,
        glyphs: Glyphs = UNICODE,
        now: Callable[[], float] = lambda: 0.0,
        view_pause: ViewPause | None = None,
    ) -> None:
        super().__init__()
        self._view_pause = view_pause or ViewPause(lambda request: None)
        self._node = node
        self._glyphs = glyphs
        self._now = now
        self._tree: Tree | None = None
        self._around: NodeContext | None = None
        self._said, self._said_at = "", 0.0

    @property
    def node(self) -> int:
        """Index of the node that is shown."""
        return self._node

    def compose(self) -> ComposeResult:
        """The explorer's rows, with the node in the tree's place."""
        yield Panel(id="header")
        yield LinesWidget(classes="blank wide-only")
        yield ForwardStrip(glyphs=self._glyphs, id="strip")
        with Horizontal(id="body"):
            yield ScrolledLines(self._glyphs, id="node")
            yield Panel(id="inspector")
        yield LinesWidget(classes="blank wide-only")
        yield Panel(id="status")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Draw, and go on drawing what moves by the clock."""
        self.set_interval(redraw_seconds(self.app), self._draw_when_current)
        self.draw()

    def on_resize(self) -> None:
        """Choose the form for this size."""
        self.set_class(self._is_narrow, "narrow")
        self.set_class(self.size.width >= WIDE_COLUMNS and not self._is_narrow, "very-wide")

    @property
    def _is_narrow(self) -> bool:
        return is_narrow(self.size)

    def _draw_when_current(self) -> None:
        if self.is_current:
            self.draw()

    def draw(self) -> None:
        """Draw everything from the session, the node and the clock."""
        held = self._view_pause.held
        session, now = held if held is not None else (self.session, self._now())
        self._follow(session.tree)
        paused_at = held[1] if held is not None else None
        look = Look(session, self._node, self._now(), 0, self._glyphs)
        self.query_one("#header", Panel).show(
            look, lambda look, rows: header_lines(look, paused_at=paused_at)
        )
        strip = self.query_one(ForwardStrip)
        strip.session, strip.selected = session, self._node
        body = self.query_one(ScrolledLines)
        look = replace(look, now=now)
        body.show(self._body(replace(look, cells=max(body.size.width - 1, 3))))
        self.query_one("#inspector", Panel).show(look, inspector_lines)
        said = self._said if time.monotonic() - self._said_at < SAID_SECONDS else ""
        self.query_one("#status", Panel).show(look, lambda look, rows: status_lines(look, said))
        views = side_keys(own_keys(self.app, SIDE_SCREENS))
        last = key_bar(_KEYS, (*views, ("?", "keys")), self.size.width, self._glyphs)
        if self._is_narrow and said:  # There is no other row for it.
            cells = replace(look, cells=max(self.size.width, 3))
            [last] = finished((row(((safe(said), "ink"),), (), cells),), cells)
        self.query_one("#keys", KeyBar).lines = (last,)

    def _body(self, look: Look) -> tuple[Line, ...]:
        if self._around is None:
            return finished((), look)
        lines = node_lines(look, self._around)
        if not self._is_narrow:
            return finished(lines, look)
        below = (work_lines(look), timing_lines(look), bound_lines(look), machine_lines(look))
        return finished((*lines, *(line for part in below for line in (BLANK, *part))), look)

    def _follow(self, tree: Tree | None) -> None:
        """Keep to the same node when the model was traced anew; look up what stays as it is."""
        if tree is self._tree:
            return
        if tree is not None and self._tree is not None and self._node < len(self._tree):
            self._node = tree.find(self._tree.nodes[self._node].path) or 0
        self._tree = tree
        self._around = node_context(tree, self._node) if tree is not None else None

    def action_sibling(self, step: int) -> None:
        """Go to the next or former node below the same parent."""
        tree = self._tree
        if tree is None or not 0 <= self._node < len(tree):
            return
        found = sibling(tree, self._node, step)
        if found == self._node:
            self.say("no further sibling")
        else:
            self._go(tree, found)
        self.draw()

    def on_forward_strip_clicked(self, event: ForwardStrip.Clicked) -> None:
        """Go to the module whose block was clicked."""
        if self._tree is not None and 0 <= event.node < len(self._tree):
            self._go(self._tree, event.node)
            self.draw()

    def _go(self, tree: Tree, node: int) -> None:
        self._node, self._said = node, ""
        self._around = node_context(tree, node)
        self.query_one(ScrolledLines).to_start()

    def action_pause(self) -> None:
        """Pause the view, or let it go on; of a recording, halt or play."""
        if said := self._view_pause.press(self.session, self._now()):
            self.say(said)
        self.draw()

    def action_back(self) -> None:
        """Go back; the node that is shown is the selected one then."""
        self.dismiss(ViewState(self._node))

    def action_leave_for(self, name: str) -> None:
        """Go to another view of this node."""
        self.dismiss(ViewState(self._node, name))

    def action_keys(self) -> None:
        """List the keys of this screen; leaving the list leads back here."""
        from ...actions.help import KeysScreen  # noqa: PLC0415 # as in the explorer
        from ...actions.view_keys import OF_NODE  # noqa: PLC0415

        keys = own_keys(self.app, OF_NODE)
        self.app.push_screen(KeysScreen(self.session, keys, self._glyphs, "node"))

    def action_copy(self) -> None:
        """Copy the node's path."""
        if self._tree is not None and self._node < len(self._tree):
            path = printable(self._tree.nodes[self._node].path)
            if path:
                copy_text(self, path if len(path) <= 40 else "the path", path, self.say)
            else:
                self.say("nothing to copy: the path of the root is empty")

    def say(self, text: str) -> None:
        """Put an event into the status line."""
        self._said, self._said_at = text, time.monotonic()
        self.draw()


def node_context(tree: Tree, node: int) -> NodeContext | None:
    """Look up once what does not change while a node is looked at; None where it is not there."""
    if not 0 <= node < len(tree):
        return None
    found = tree.nodes[node]
    # A container that only holds modules has no forward of its own to show.
    is_called = bool(found.inputs or found.outputs or found.called_from)
    return NodeContext(
        edges=neighbours(tree, node),
        alike=same_shape(tree, node),
        source=read_source(found.source if is_called else "", before=0, after=8),
        called_from=_called_from(found),
    )


def _called_from(node: Node) -> tuple[tuple[str, SourceText], ...]:
    """Return the lines that led to its first call; of earlier recordings the nearest one."""
    if not node.callers:
        return (("called from", read_source(node.called_from, before=1, after=1)),)
    found = []
    for one in node.callers:
        source = read_source(f"{one.file}:{one.line}", before=1, after=1)
        title = f"called from {safe(one.library) if one.library else 'your code'}"
        found.append((title, replace(source, function=safe(one.function))))
    return tuple(found)
