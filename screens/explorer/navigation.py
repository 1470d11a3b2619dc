"""What the keys do to look: theme, the node, log and keys screens, and leaving."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.messages import ReplayNode
from tui_profiler.queries.panel.remembered_tree import is_remembered

from ..actions.table import EXPLORER
from ..common.base_app import BaseApp, own_keys
from ..common.copy_export_actions import TakeActions
from ..common.view_pause import ViewPause
from ..widgets.lines import LinesWidget, text
from .compare import CompareActions
from .playback import PlayActions
from .tree_actions import TreeActions

if TYPE_CHECKING:
    from ..views.view_screen import Left

PANELS = "#failure, #compact, #inspector"
"""Of these one is shown."""


class LookActions(TakeActions[None], TreeActions, CompareActions, PlayActions):
    """Actions of a screen with a tree and a session. Other screens are imported when opened."""

    glyphs: Glyphs
    view_pause: ViewPause
    has_rows = True

    def selected_path(self) -> str:
        """Give the path of the node under the cursor."""
        laid = self.tree_widget.outline
        return laid.tree.nodes[laid.focus.selected].path if laid is not None else ""

    def row_text(self) -> str:
        """Give the row under the cursor."""
        return self.tree_widget.row_text()

    def panel_text(self) -> str:
        """Give the panel that is shown."""
        shown = [panel for panel in self.query(PANELS).results(LinesWidget) if panel.region]
        lines = [text(line).rstrip() for panel in shown for line in panel.lines]
        return "\n".join(lines).strip("\n") + "\n"

    def rows_as_csv(self) -> Callable[[], str]:
        """Give what writes the rows of the tree, folded as they are."""
        from tui_profiler.reports.csv.nodes import csv_nodes  # noqa: PLC0415

        laid = self.tree_widget.outline if hasattr(self, "tree_widget") else None
        if laid is None:
            return lambda: csv_nodes(self.session, ())
        return partial(csv_nodes, self.tree_widget.session, laid.rows, laid.steps)

    def action_side(self, name: str) -> None:
        """Open a view of the selected node beside the explorer."""
        from ..views.index import side_screen  # noqa: PLC0415

        if self.session.tree is None:
            self.say(f"{name} needs the tree, which is not known yet")
            return

        view = side_screen(name)
        screen = view(self.tree_widget.view.selected, self.glyphs, self.now, self.view_pause)
        screen.send = self._send
        self.app.push_screen(screen.data_bind(BaseApp.session), self._come_back)

    async def _come_back(self, left: Left | None) -> None:
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

    def action_replay(self) -> None:
        """Ask for the energy of the selected node, run by itself."""
        if is_remembered(self.session):
            self.say("this tree is remembered: the worker's own is not known yet")
        elif self.session.tree is None:
            self.say("energy needs the tree, which is not known yet")
        else:
            selected = self.tree_widget.view.selected
            self._request(ReplayNode(selected), "it is run by itself: o shows its energy then")

    def action_log(self) -> None:
        """Open the log."""
        from ..views.log import LogScreen  # noqa: PLC0415

        self.app.push_screen(LogScreen(self.glyphs).data_bind(BaseApp.session))

    def action_ranks(self) -> None:
        """Go to the ranks of the run."""
        app = self.app
        if not isinstance(app, BaseApp) or not app.show_ranks():
            self.say("one process only: ranks are those of a torchrun that is attached to")

    def action_keys(self) -> None:
        """Open the list of keys."""
        from ..actions.help import KeysScreen  # noqa: PLC0415

        keys = own_keys(self.app, EXPLORER)
        self.app.push_screen(KeysScreen(self.session, keys, self.glyphs))

    async def action_leave(self) -> None:
        """Quit; where something of the user's runs in here, ask what becomes of it."""
        app = self.app
        if isinstance(app, BaseApp) and app.runs_script():
            self.ask_what_becomes_of_it(app.let_script_go)
        else:
            app.exit(0)

    def ask_what_becomes_of_it(self, let_go: Callable[[], None]) -> None:
        """Ask whether a script stops with us."""
        raise NotImplementedError
