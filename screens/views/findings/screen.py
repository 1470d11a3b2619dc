"""Findings by group and gain; ``x`` runs a trial, and its result is shown beside the prediction.

1. Rows do not jump: findings are computed again now and then, and sorted again only when no key was
   pressed for a while; the cursor stays on its finding.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar, get_args

from msgspec.structs import replace
from textual.binding import BindingType

from tui_profiler.findings import Conclusions, conclusions
from tui_profiler.findings.evidence.finding import Finding, Group, Kind
from tui_profiler.findings.trial_verdict import (
    REFUTED,
    Advice,
    Column,
    advice,
    by_rank,
    in_order,
    trial_request,
)
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import ProlongTrial, StopTrial
from tui_profiler.queries.panel.cached_tree import is_remembered
from tui_profiler.session import Session, Tree

from ...actions.table import why_not_now
from ...actions.view_keys import FINDINGS, own_bindings
from ...widgets.heading import Heading, Order
from ...widgets.key_bar import Keys
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row
from ..view_screen import SideScreen, ViewState
from .finding import finding_lines
from .lines import BY_RANK, at_word, list_heading, list_items, list_lines, none_line, withheld_lines

AGAIN_SECONDS = 1.0
"""Least time between two computations; they take at most a twentieth of the time."""
IDLE_SECONDS = 5.0
LEAST_BEST = 24
"""Cells of the best finding in the status, below which it is left out."""
_LEAST_DETAIL = 6
_BESIDE = 4000
"""Nodes from which on they are computed in a thread: about 50 ms."""


class FindingsScreen(SideScreen):
    """The list of findings and the details of one; the cursor selects its node."""

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
        """Start without findings."""
        self.found: tuple[Finding, ...] = ()
        """In the order shown."""
        self._concluded = Conclusions()
        self._ranked: tuple[Finding, ...] = ()
        self._groups: dict[Kind, Group] = {}
        """As the rows are: a trial's result moves its row when they are sorted again."""
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
        """Index of the finding under the cursor."""
        at = (i for i, finding in enumerate(self.found) if finding.kind == self._kind)
        return next(at, 0)

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the list, and the details of the finding under the cursor."""
        self._ask(look.session)
        if not self.found:
            return none_line(look, self._concluded, is_asking=self._is_asking)
        shown = advice(look.session, self.found)
        items = list_items(shown, self._groups if self._order == BY_RANK else {})
        # The whole list, where the details fit as well.
        listed = max(min(len(items) + 1, rows - _LEAST_DETAIL, max(rows * 9 // 20, 4)), 2) - 1
        at = items.index(self.selected)
        is_first = at > 0 and not isinstance(items[at - 1], int)
        self._top = min(max(self._top, at - listed + 1), at - is_first)
        shown = tuple(
            replace(one, word="not here")
            if one.word == "can be tried" and self._refused(look.session, one.finding)
            else one
            for one in shown
        )
        seen = items[self._top : self._top + listed]
        above = list_lines(look, shown, self.selected, seen, self._order)
        one = shown[self.selected]
        detail = (
            *finding_lines(look, one, self._refused(look.session, one.finding)),
            *withheld_lines(look, self._concluded),
        )
        self._rows = max(rows - len(above) - 1, 1)
        self._scroll = max(0, min(self._scroll, len(detail) - self._rows))
        return (*above, EMPTY, *detail[self._scroll : self._scroll + self._rows])

    def status(self, look: Look) -> Line:
        """Return the number of findings and of trials."""
        count = len(self.found)
        tried = [one for one in advice(look.session, self.found) if one.measured is not None]
        refuted = sum(one.word in REFUTED for one in tried)
        left = f"{count} finding{'s' * (count != 1)} of {self._concluded.checks}"
        right = f"{len(tried)} tried, {refuted} refuted" if tried else ""
        if held := self._concluded.in_short:
            left += f", {held}"
        room = max(look.inner - len(right) - 2, 8)
        if count and width(left) + LEAST_BEST <= room:
            left += f"  best: {safe(self._ranked[0].title)}"
        left = at_word(left, room, look.glyphs.ellipsis)
        return row(((left, "ink"),), ((right, "muted"),), look)

    def _ask(self, session: Session) -> None:
        """Compute the findings again where the session changed. Rule 1."""
        before, tree, not_before = self._asked
        if before is session or (tree is session.tree and time.monotonic() < not_before):
            return
        if session.tree is not None and len(session.tree) > _BESIDE:
            if tree is not session.tree:
                self.found = ()  # Their nodes are of the previous tree.
            if not self._is_asking:
                self._is_asking = True
                self.run_worker(self._ask_beside(session))
            return
        began = time.monotonic()
        self._take(session, conclusions(session), began)

    async def _ask_beside(self, session: Session) -> None:
        """Compute in a thread: a large tree takes longer than a key may wait."""
        began = time.monotonic()
        concluded = await asyncio.to_thread(conclusions, session)
        self._is_asking = False
        self._take(session, concluded, began)
        if self.is_mounted:
            self.refresh_view()

    def _take(self, session: Session, concluded: Conclusions, began: float) -> None:
        """Show new findings, without moving rows while keys are pressed."""
        _, tree, _ = self._asked
        self._concluded, found = concluded, concluded.findings
        ended = time.monotonic()
        self._asked = (session, session.tree, ended + max(AGAIN_SECONDS, 20 * (ended - began)))
        before = {finding.kind: at for at, finding in enumerate(self.found)}
        # A finding with a trial stays, also where it is not predicted any more.
        tried = {one.kind for one in session.trials} | (
            {session.trial.kind, *session.trial.waiting} if session.trial is not None else set()
        )
        now = {one.kind for one in found}
        gone = (one for one in self.found if one.kind in tried and one.kind not in now)
        ranked = by_rank(advice(session, (*found, *gone)))
        self._ranked = found = tuple(one.finding for one in ranked)
        groups = {one.finding.kind: one.group for one in ranked}
        self._arrange(session)
        if ended - self._touched < IDLE_SECONDS and tree is session.tree:
            last = len(before)
            self.found = tuple(sorted(self.found, key=lambda one: before.get(one.kind, last)))
            groups |= {kind: one for kind, one in self._groups.items() if kind in groups}
        self._groups = groups
        if not self._kind and found:
            # From a node, the cursor starts at a finding of that node.
            of_node = (one.kind for one in found if self.node and self.node in one.nodes)
            self._kind = next(of_node, found[0].kind)

    def _arrange(self, session: Session) -> None:
        """Sort the findings by the chosen column."""
        shown = advice(session, self._ranked)
        for column in get_args(Column):
            if column == self._order.column:
                shown = in_order(shown, column, descending=self._order.descending)
        self.found = tuple(one.finding for one in shown)

    def heading(self, look: Look) -> Heading | None:
        """Return the columns of the list."""
        return list_heading(look, self._order) if self.found else None

    def order_by(self, order: Order) -> None:
        """Sort the findings; the cursor stays on its finding."""
        self._order = order
        self._arrange(self.session_shown)
        self.refresh_view()

    def _refused(self, session: Session, finding: Finding) -> str:
        if is_remembered(session):  # It may be of another version of the model.
            return "cached tree: the model is not traced yet"
        return why_not_now(session, "TryOptimizer" if finding.is_beside else "Try")

    def _current(self) -> Advice | None:
        session = self.session_shown
        shown = advice(session, self.found)
        return shown[self.selected] if shown else None

    def action_walk(self, by: int) -> None:
        """Select another finding, and its first node."""
        self._touched = time.monotonic()
        if not self.found:
            return
        at = max(0, min(self.selected + by, len(self.found) - 1))
        self._kind, self._scroll = self.found[at].kind, 0
        self.select(self._there(self.found[at].nodes[0]))

    def action_cross(self, by: int) -> None:
        """Select another node of the finding."""
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
        """Scroll the details by half of their rows."""
        self._touched = time.monotonic()
        self._scroll += by * max(self._rows // 2, 1)
        self.refresh_view()

    def action_try(self) -> None:
        """Run the finding's trial, or stop it."""
        self._touched = time.monotonic()
        one = self._current()
        if one is None:
            self.say("no findings to try")
            return
        kind = one.finding.trial
        if kind is None:
            self.say(f"no trial: {one.finding.why_no_trial}")
        elif why_not := self._refused(self.session, one.finding):
            self.say(why_not)
        elif one.progress is not None:
            self.send(StopTrial())
            waiting = one.progress.waiting
            self.say(f"trial stopped{', and the waiting ones' if waiting else ''}")
        elif one.word == "waits":
            self.say(f"{kind} waits for the running trial; x there stops both")
        else:
            asked = trial_request(one.finding, self.session_shown)
            if asked is None:
                self.say("no trial: what it gains of a step is not known")
                return
            self.send(asked)
            self.say(f"running the {kind} trial; x stops it")

    def action_prolong(self) -> None:
        """Prolong the running trial."""
        if why_not := why_not_now(self.session, "ProlongTrial"):
            self.say(why_not)
        elif self.session.trial is None:
            self.say("no trial is running")
        else:
            request = ProlongTrial()
            self.send(request)
            kind = self.session.trial.kind
            self.say(f"the {kind} trial measures {request.seconds:.0f} s longer")

    def action_open(self) -> None:
        """Open the node under the cursor."""
        one = self._current()
        nodes = one.finding.nodes if one is not None else (self.node,)
        self.dismiss(ViewState(self.node if self.node in nodes else self._there(nodes[0]), "node"))
