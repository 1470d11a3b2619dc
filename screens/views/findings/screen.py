"""The findings: advice by predicted gain; ``x`` tries it, and what was measured stands beside it.

1. Rows do not jump: findings are asked for anew now and then, and put in another order only when no
   key was pressed for a while; the cursor stays on its finding.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar, get_args

from msgspec.structs import replace
from textual.binding import BindingType

from tui_profiler.findings import (
    Advice,
    Finding,
    advice,
    checks_words,
    findings,
    withheld,
    withheld_words,
)
from tui_profiler.findings.verdict import REFUTED, Column, in_order
from tui_profiler.formatting.text import safe
from tui_profiler.messages import StopTrial, Try
from tui_profiler.messages.trials import Wish
from tui_profiler.queries.panel.accepted_requests import why_not_now
from tui_profiler.queries.panel.remembered_tree import is_remembered
from tui_profiler.queries.time.modes import mode
from tui_profiler.session import Session, Tree

from ...actions.view_keys import FINDINGS, own_bindings
from ...widgets.heading import Heading, Order
from ...widgets.key_bar import Keys
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row
from ..view_screen import SideScreen, ViewState
from .finding import finding_lines
from .lines import BY_RANK, at_word, list_heading, list_lines, none_line

AGAIN_SECONDS = 1.0
"""Findings are asked for no more often, and never for more than a twentieth of the time."""
IDLE_SECONDS = 5.0
_LEAST_DETAIL = 6
_BESIDE = 4000
"""Nodes from which on they are asked for beside the drawing: about 50 ms."""


class FindingsScreen(SideScreen):
    """Shows the findings and one of them in full; the cursor takes the selected node along."""

    name_of_view = "findings"
    keys: ClassVar[Keys] = (
        ("esc", "back"),
        ("x", "try"),
        ("↑↓", "finding"),
        ("←→", "its nodes"),
        ("↵", "node"),
    )
    every_key = FINDINGS
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(FINDINGS)]

    def begin(self) -> None:
        """Keep the findings, their order, the cursor, and how far the detail is scrolled."""
        self.found: tuple[Finding, ...] = ()
        """In the order that is shown."""
        self._ranked: tuple[Finding, ...] = ()
        self._order = BY_RANK
        self._asked: tuple[Session | None, Tree | None, float] = (None, None, 0.0)
        self._touched = 0.0
        self._is_asking = False
        self._kind = ""
        self._top = 0
        self._scroll = 0
        self._rows = 1

    @property
    def selected(self) -> int:
        """Which finding the cursor is on."""
        at = (i for i, finding in enumerate(self.found) if finding.kind == self._kind)
        return next(at, 0)

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the list, and below it the finding under the cursor."""
        self._ask(look.session)
        if not self.found:
            said = checks_words(look.session)
            return none_line(look, said, withheld_words(look.session), is_asking=self._is_asking)
        shown = advice(look.session, self.found)
        # A list of all where there is room for it and for what they say.
        listed = max(min(len(shown) + 1, rows - _LEAST_DETAIL, max(rows * 2 // 5, 4)), 2)
        self._top = min(max(self._top, self.selected - listed + 2), self.selected)
        refused = self._refused(look.session)
        shown = tuple(
            replace(one, word="not here") if refused and one.word == "can be tried" else one
            for one in shown
        )
        above = list_lines(look, shown, self.selected, self._top, listed, self._order)
        detail = finding_lines(look, shown[self.selected], refused)
        self._rows = max(rows - len(above) - 1, 1)
        self._scroll = max(0, min(self._scroll, len(detail) - self._rows))
        return (*above, EMPTY, *detail[self._scroll : self._scroll + self._rows])

    def status(self, look: Look) -> Line:
        """Return how many findings there are, and what became of those that were tried."""
        count = len(self.found)
        tried = [one for one in advice(look.session, self.found) if one.measured is not None]
        refuted = sum(one.word in REFUTED for one in tried)
        left = f"{count} finding{'s' * (count != 1)} of {checks_words(look.session)}"
        right = f"{len(tried)} tried, {refuted} refuted" if tried else ""
        if held := len(withheld(look.session)):
            why = mode(look.session).name or "mode unknown"
            left += f", {held} withheld: {why}"
        if count:
            left += f"  best: {safe(self._ranked[0].title)}"
        left = at_word(left, max(look.inner - len(right) - 2, 8), look.glyphs.ellipsis)
        return row(((left, "ink"),), ((right, "muted"),), look)

    def _ask(self, session: Session) -> None:
        """Ask for findings anew where there may be others. Rule 1."""
        before, tree, not_before = self._asked
        if before is session or (tree is session.tree and time.monotonic() < not_before):
            return
        if session.tree is not None and len(session.tree) > _BESIDE:
            if tree is not session.tree:
                self.found = ()  # They speak of nodes of the tree before.
            if not self._is_asking:
                self._is_asking = True
                self.run_worker(self._ask_beside(session))
            return
        began = time.monotonic()
        self._take(session, findings(session), began)

    async def _ask_beside(self, session: Session) -> None:
        """Ask in a thread: of a large tree it takes longer than a key may wait."""
        began = time.monotonic()
        found = await asyncio.to_thread(findings, session)
        self._is_asking = False
        self._take(session, found, began)
        if self.is_mounted:
            self.refresh_view()

    def _take(self, session: Session, found: tuple[Finding, ...], began: float) -> None:
        """Take in what was found of a session, without moving rows while keys are pressed."""
        _, tree, _ = self._asked
        ended = time.monotonic()
        self._asked = (session, session.tree, ended + max(AGAIN_SECONDS, 20 * (ended - began)))
        before = {finding.kind: at for at, finding in enumerate(self.found)}
        # What was tried stays, also where its prediction would not be made any more.
        tried = {one.kind for one in session.trials} | (
            {session.trial.kind, *session.trial.waiting} if session.trial is not None else set()
        )
        now = {one.kind for one in found}
        gone = (one for one in self.found if one.kind in tried and one.kind not in now)
        found = tuple(one.finding for one in advice(session, (*found, *gone)))
        self._ranked = found
        self._arrange(session)
        if ended - self._touched < IDLE_SECONDS and tree is session.tree:
            last = len(before)
            self.found = tuple(sorted(self.found, key=lambda one: before.get(one.kind, last)))
        if not self._kind and found:
            # Whoever comes from a node finds what is said of it.
            of_node = (one.kind for one in found if self.node and self.node in one.nodes)
            self._kind = next(of_node, found[0].kind)

    def _arrange(self, session: Session) -> None:
        """Put the findings into the order that was chosen."""
        shown = advice(session, self._ranked)
        for column in get_args(Column):
            if column == self._order.column:
                shown = in_order(shown, column, descending=self._order.descending)
        self.found = tuple(one.finding for one in shown)

    def heading(self, look: Look) -> Heading | None:
        """Return the columns of the list."""
        return list_heading(look, self._order) if self.found else None

    def order_by(self, order: Order) -> None:
        """Order the findings; the cursor stays on its own."""
        self._order = order
        self._arrange(self.session_shown)
        self.refresh_view()

    def _refused(self, session: Session) -> str:
        if is_remembered(session):  # What is found in it may not be true of the model of today.
            return "cached tree: the worker's own is not known yet"
        return why_not_now(session, "Try")

    def _current(self) -> Advice | None:
        session = self.session_shown
        shown = advice(session, self.found)
        return shown[self.selected] if shown else None

    def action_walk(self, by: int) -> None:
        """Go to another finding, and to its first node."""
        self._touched = time.monotonic()
        if not self.found:
            return
        at = max(0, min(self.selected + by, len(self.found) - 1))
        self._kind, self._scroll = self.found[at].kind, 0
        self.select(self._there(self.found[at].nodes[0]))

    def action_cross(self, by: int) -> None:
        """Go to another node of the finding."""
        self._touched = time.monotonic()
        if not self.found:
            return
        nodes = self.found[self.selected].nodes
        at = nodes.index(self.node) + by if self.node in nodes else 0
        self.select(self._there(nodes[max(0, min(at, len(nodes) - 1))]))

    def _there(self, node: int) -> int:
        tree = self.session.tree
        return node if tree is not None and node < len(tree) else 0

    def action_scroll_detail(self, by: int) -> None:
        """Scroll what is said of the finding by half of its rows."""
        self._touched = time.monotonic()
        self._scroll += by * max(self._rows // 2, 1)
        self.refresh_view()

    def action_try(self) -> None:
        """Try what the finding advises, or stop its trial."""
        self._touched = time.monotonic()
        one = self._current()
        if one is None:
            self.say("nothing to try: no findings")
            return
        kind = one.finding.trial
        if kind is None:
            self.say(f"no trial: {one.finding.why_no_trial}")
        elif why_not := self._refused(self.session):
            self.say(why_not)
        elif one.progress is not None:
            self.send(StopTrial())
            waiting = one.progress.waiting
            self.say(f"the trial is stopped{', and those that wait' if waiting else ''}")
        elif one.word == "waits":
            self.say(f"{kind} waits for the trial before it; x there stops both")
        else:
            self.send(Try(Wish(kind)))
            self.say(f"running the trial of {kind}; x stops it")

    def action_open(self) -> None:
        """Open the node under the cursor."""
        one = self._current()
        nodes = one.finding.nodes if one is not None else (self.node,)
        self.dismiss(ViewState(self.node if self.node in nodes else self._there(nodes[0]), "node"))
