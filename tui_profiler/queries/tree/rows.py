"""The visible rows of a tree: node indexes in the order of the screen.

1. Rows are a flat array; a node's visible descendants follow it in one run.
2. Folding and unfolding cut out or put in one run: the rest is copied as a block, never walked.
3. Rows change only when asked: a new session never changes their order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.queries.time.repeated_siblings import Runs, Steps
from tui_profiler.queries.time.repeated_siblings import runs as find_runs
from tui_profiler.queries.tree import filter as filters
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree.columns import summed_figure
from tui_profiler.queries.tree.focus import Focus
from tui_profiler.session import Session, Tree


class Shape(Struct, frozen=True, eq=False):
    """What of a tree may be shown, apart from folds."""

    shown: bytes
    """One byte for each node: 1 where it may be shown."""
    branches: bytes
    """One byte for each node: 1 where one of its children may be shown."""
    total: int
    """Nodes that could be shown without a filter."""
    found: int
    """Nodes that the filter found; 0 without one."""
    runs: Runs | None = None
    """Equal siblings, where they were looked for."""
    hits: bytes = b""
    """One byte for each node: 1 where the filter found it; empty without one."""


class Outline(Struct, frozen=True, eq=False):
    """A tree as it is looked at: its visible rows and the focus that gave them."""

    tree: Tree
    focus: Focus
    shape: Shape
    rows: array[int]
    cursor: int = 0
    """Row of the selected node."""

    def __len__(self) -> int:
        return len(self.rows)

    def is_unfolded(self, node: int) -> bool:
        """Say if the children of a node are shown."""
        if self.focus.filter_text:
            return bool(self.shape.branches[node]) and node not in self.focus.folded_in_filter
        return bool(self.shape.branches[node]) and bool(self.focus.unfolded[node])

    def depth(self, node: int) -> int:
        """Return the levels between a node and the root of the view."""
        return self.tree.depths[node] - self.tree.depths[self.focus.root]

    def run_of(self, node: int) -> Steps:
        """Return the run that a row shows folded into one, none where it shows one node."""
        return _run_of(self.tree, self.focus, self.shape, node)

    def steps(self, node: int) -> Steps:
        """Return all runs that a node lies in, below the view's root: its row sums over them."""
        if self.shape.runs is None or not _is_grouped(self.focus):
            return ()
        found: Steps = ()
        while node > self.focus.root:
            found += self.run_of(node)
            node = self.tree.nodes[node].parent
        return found

    def hiding(self, node: int) -> frozenset[int]:
        """Return the first nodes of the runs that a node is folded away in."""
        firsts = self.shape.runs.firsts if self.shape.runs is not None else {}
        return frozenset(firsts[at] for at in (node, *self.tree.ancestors(node)) if at in firsts)

    def standing_for(self, node: int) -> int:
        """Return the node whose row stands for a node; itself where it is not folded away."""
        if self.shape.runs is None or not _is_grouped(self.focus):
            return node
        firsts, shift = self.shape.runs.firsts, 0
        for at in (node, *self.tree.ancestors(node)):
            first = firsts.get(at, at)
            shift += at - first if first not in self.focus.apart else 0
        return node - shift

    def row_of(self, node: int) -> int | None:
        """Return the row that shows a node, None where it is hidden."""
        if self.focus.sort != "order":
            try:
                return self.rows.index(node)
            except ValueError:
                return None
        row = bisect_left(self.rows, node)
        return row if row < len(self.rows) and self.rows[row] == node else None

    def row_near(self, node: int) -> int:
        """Return the row of a node or of the nearest ancestor that is shown."""
        row = self.row_of(node)
        if row is None:
            node = self.standing_for(node)
            row = self.row_of(node)
        while row is None and node > self.focus.root:
            node = self.tree.nodes[node].parent
            row = self.row_of(node)
        return row or 0


def outline(session: Session, focus: Focus) -> Outline:
    """Lay out the tree of a session, all rows anew and in order of their present figures.

    Raises:
        ValueError: the session has no tree, or one without nodes.
    """
    tree = session.tree
    if tree is None or not len(tree):
        raise ValueError("nothing to lay out: the session has no tree")
    shape = _shape(session, tree, focus)
    return _settled(Outline(tree, focus, shape, _all_rows(session, tree, focus, shape)))


def relaid(before: Outline, session: Session, focus: Focus) -> Outline:
    """Lay out with another focus; what does not depend on the change is kept.

    What a filter finds by measured figures is found anew.
    """
    old = before.focus
    tree = before.tree
    is_kept = _shaping(old) == _shaping(focus) and not filters.is_live(focus.filter_text)
    shape = before.shape if is_kept else _shape(session, tree, focus, before.shape.runs)
    return _settled(Outline(tree, focus, shape, _all_rows(session, tree, focus, shape)))


def toggled(before: Outline, session: Session, node: int) -> Outline:
    """Fold or unfold one node whose row is shown; every other row stays where it is."""
    row = before.row_of(node)
    if row is None or not before.shape.branches[node]:
        return before
    focus = focuses.toggled(before.focus, node)
    rows = before.rows[: row + 1]
    if before.is_unfolded(node):
        rest = _end_of_run(before, row)
        inside = node < before.focus.selected < before.tree.ends[node]
        if inside:
            focus = replace(focus, selected=node)
    else:
        rest = row + 1
        _add_descendants(rows, session, before.tree, focus, before.shape, node)
    rows += before.rows[rest:]
    return _settled(Outline(before.tree, focus, before.shape, rows))


def at_row(before: Outline, row: int) -> Outline:
    """Move the cursor to a row, or to the last one before it."""
    row = max(0, min(row, len(before.rows) - 1))
    return replace(before, focus=replace(before.focus, selected=before.rows[row]), cursor=row)


def filtered(before: Outline, session: Session, text: str) -> Outline:
    """Keep what the text finds; the cursor stays where it can, else goes to the first found."""
    focus = replace(before.focus, filter_text=text, folded_in_filter=frozenset())
    if not text:
        focus = focuses.revealing(focus, before.tree, focus.selected)
        return relaid(before, session, focus)
    after = relaid(before, session, focus)
    if before.shape.shown[focus.selected] and after.shape.shown[focus.selected]:
        return after
    hits = after.shape.hits
    return at_row(after, next((row for row, node in enumerate(after.rows) if hits[node]), 0))


def _settled(laid: Outline) -> Outline:
    return at_row(laid, laid.row_near(laid.focus.selected))


def _shaping(focus: Focus) -> tuple[object, ...]:
    """Return the parts of a focus that a shape is made from."""
    return focus.filter_text, focus.show_operators, focus.grouped, focus.apart


def _is_grouped(focus: Focus) -> bool:
    """Say whether runs are folded: what a filter finds is shown one by one."""
    return focus.grouped and not focus.filter_text


def _shape(session: Session, tree: Tree, focus: Focus, known: Runs | None = None) -> Shape:
    modules = bytes(node.kind == "module" for node in tree.nodes)
    allowed = b"\1" * len(tree) if focus.show_operators else modules
    shown, hits = allowed, bytearray()
    if focus.filter_text:
        matches = filters.matches(session, focus.filter_text, operators=focus.show_operators)
        shown = filters.with_ancestors(tree, matches)
        hits = bytearray(len(tree))
        for node in matches:
            hits[node] = 1
    runs = (known or find_runs(tree)) if focus.grouped else known
    if runs is not None and _is_grouped(focus):
        kept = bytearray(shown)
        for node, first in runs.firsts.items():
            if first not in focus.apart:
                kept[node] = 0
        shown = bytes(kept)
    branches = bytearray(len(tree))
    for below, visible in zip(tree.nodes, shown, strict=True):
        if visible and below.parent >= 0:
            branches[below.parent] = 1
    counts = (allowed.count(1), hits.count(1))
    return Shape(shown, bytes(branches), *counts, runs, bytes(hits))


def _run_of(tree: Tree, focus: Focus, shape: Shape, node: int) -> Steps:
    runs = shape.runs
    if runs is None or not _is_grouped(focus) or node == focus.root or node in focus.apart:
        return ()
    count = runs.counts.get(node, 0)
    return ((count, tree.ends[node] - node),) if count else ()


def _all_rows(session: Session, tree: Tree, focus: Focus, shape: Shape) -> array[int]:
    rows = array("I", (focus.root,))
    if _open_mask(focus, shape)[focus.root]:
        _add_descendants(rows, session, tree, focus, shape, focus.root)
    return rows


def _open_mask(focus: Focus, shape: Shape) -> bytes:
    if not focus.filter_text:
        return focus.unfolded
    mask = bytearray(shape.branches)
    for node in focus.folded_in_filter:
        mask[node] = 0
    return bytes(mask)


def _add_descendants(
    rows: array[int], session: Session, tree: Tree, focus: Focus, shape: Shape, node: int
) -> None:
    opened = _open_mask(focus, shape)
    if focus.sort != "order":
        order = _sorted_siblings(session, focus, lambda node: _run_of(tree, focus, shape, node))
        _add_sorted(rows, tree, shape.shown, opened, order, node)
        return
    shown, ends, append = shape.shown, tree.ends, rows.append
    index, stop = node + 1, ends[node]
    while index < stop:
        if shown[index]:
            append(index)
            if opened[index]:
                index += 1
                continue
        index = ends[index]


def _add_sorted(
    rows: array[int],
    tree: Tree,
    shown: bytes,
    opened: bytes,
    order: Callable[[list[int]], list[int]],
    node: int,
) -> None:
    def children(parent: int) -> list[int]:
        return order([child for child in tree.children(parent) if shown[child]])

    waiting = children(node)[::-1]
    while waiting:
        index = waiting.pop()
        rows.append(index)
        if opened[index]:
            waiting += children(index)[::-1]


def _end_of_run(laid: Outline, row: int) -> int:
    node = laid.rows[row]
    stop = laid.tree.ends[node]
    rows = laid.rows
    # Rule 1: "is below this node" holds for one run of rows, then no more; bisection finds its end.
    return bisect_left(
        range(len(rows)), True, lo=row + 1, key=lambda at: not node < rows[at] < stop
    )


_Key: TypeAlias = Callable[[int], float | tuple[bool, int, str] | None]


def _sorted_siblings(
    session: Session, focus: Focus, steps: Callable[[int], Steps] = lambda node: ()
) -> Callable[[list[int]], list[int]]:
    """Return the function that puts the children of one node in the order of the focus.

    Args:
        session: whose figures are compared.
        focus: says by which.
        steps: returns the run that a node stands for: their sum is compared.
    """
    key = _key(session, focus, steps)

    def order(siblings: list[int]) -> list[int]:
        keys = {node: key(node) for node in siblings}
        with_figure = [node for node in siblings if keys[node] is not None]
        without = [node for node in siblings if keys[node] is None]
        # The sort is stable either way: equal figures stay in the order of the model.
        with_figure.sort(key=lambda node: keys[node], reverse=focus.descending)  # type: ignore[arg-type, return-value]  # None was left out above
        return with_figure + without

    return order


def _key(session: Session, focus: Focus, steps: Callable[[int], Steps]) -> _Key:
    tree = session.tree
    assert tree is not None
    match focus.sort:
        case "name":
            return lambda node: _by_name(tree.nodes[node].name)
        case "order":
            return lambda node: node
        case column:
            return lambda node: summed_figure(session, node, column, steps(node))


def _by_name(name: str) -> tuple[bool, int, str]:
    """Put numbers in their own order before words: 2 before 10; Python refuses 5,000 digits."""
    number = int(name) if name.isdecimal() and len(name) < 19 else 0
    return (not name.isdecimal(), number, name.casefold())


def next_match(laid: Outline, step: int) -> int | None:
    """Return the row of the next or former node that the filter found, round the ends.

    None where no row shows one. ``step`` is 1 or -1.
    """
    hits, rows = laid.shape.hits, laid.rows
    if not hits:
        return None
    count = len(rows)
    around = (laid.cursor + step * way for way in range(1, count + 1))
    return next((row % count for row in around if hits[rows[row % count]]), None)


def sibling_row(laid: Outline, step: int) -> int | None:
    """Return the row of the next or former node below the same parent; None at the ends.

    Siblings are what is shown, in the order of the screen. ``step`` is 1 or -1.
    """
    depths, rows, row = laid.tree.depths, laid.rows, laid.cursor
    depth = depths[rows[row]]
    row += step
    while 0 <= row < len(rows) and depths[rows[row]] > depth:
        row += step
    return row if 0 <= row < len(rows) and depths[rows[row]] == depth else None


def next_mark(focus: Focus) -> int | None:
    """Return the next marked node after the selected one, round the end; None without a mark."""
    marks = sorted(focus.marked)
    return next((node for node in marks if node > focus.selected), marks[0] if marks else None)
