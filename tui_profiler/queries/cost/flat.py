"""A model as a flat table: its modules by self time, by class, or its operators by name.

1. Self times of all modules below a root add up to the root's time: both are means over one set of
   forwards. A module's FLOPs, MACs and bytes are those of its own operators, its parameters those
   that it owns, each counted once: they add up likewise.
2. The total of a class, or of an operator name, counts only the outermost of nodes that lie inside
   each other: nothing is counted twice.
3. A node that was not measured has no time, and no 0: the row says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Figure, Node, Unknown, known
from tui_profiler.queries.cost.bound import bytes_moved, is_counted, why_not_counted
from tui_profiler.queries.cost.totals import why_no_times
from tui_profiler.queries.time.forward_kinds import times_fit_costs, why_times_do_not_fit
from tui_profiler.queries.time.node_seconds import node_seconds, part_of
from tui_profiler.session import Session, Tree

By: TypeAlias = Literal["module", "class", "operator"]
"""What one row stands for."""
Column: TypeAlias = Literal[
    "own",
    "total",
    "calls",
    "nodes",
    "parameters",
    "macs",
    "flops",
    "bytes",
    "shape",
    "name",
    "class",
]
"""What rows can be ordered by; of a shape its elements."""
TEXTS: tuple[Column, ...] = ("name", "class")
"""Ordered from A to Z; figures begin with the largest."""

BYS: tuple[By, ...] = ("module", "class", "operator")
NOT_CALLED = "it is not called itself: its time is that of the modules inside"
NO_SELF_TIME = "operator windows time an operator together with the operators that it calls"
NO_WINDOW = "no operator window yet"
INTERRUPTED = 1.5
"""Times the mean of a forward: a window makes it a little slower, so much only others do."""
_OPAQUE = "compiled or scripted: the time is that of the module around it"


class FlatRow(Struct, frozen=True):
    """A module, all modules of a class, or all operators of a name; in one forward."""

    name: str
    """Path of a module, empty for the model itself; class; ``aten::convolution``. As the model has
    it, and not safe yet."""
    type: str
    """Class of a module; empty for an operator."""
    nodes: tuple[int, ...]
    """Indexes of the nodes that it stands for, in preorder."""
    calls: int
    total: Figure
    """Seconds, with everything inside."""
    own: Figure
    """Seconds without the time of modules inside; never known of operators."""
    share: Figure
    """Of the table's time: self time of modules, total time of operators."""
    parameters: int
    """Owned by the modules themselves; 0 for operators."""
    macs: Figure
    """Of the modules' own operators."""
    flops: Figure
    bytes_moved: Figure
    """Read and written."""
    shape: tuple[int, ...] | None
    """Of the first output, where it is the same for all nodes."""


class FlatTable(Struct, frozen=True):
    """All rows, and what they are shares of."""

    by: By
    root: int
    seconds: Figure
    """Of one forward in the root; of operators, all of theirs together in operator windows."""
    rows: tuple[FlatRow, ...]
    """In the order of ``in_order``: most self time first, operators by their total."""


def flat_table(session: Session, by: By, root: int = 0) -> FlatTable:
    """Return the flat table of a node.

    Args:
        session: with a whole tree, else there are no rows.
        by: what a row stands for.
        root: index of the node that is listed, itself included.
    """
    tree = session.tree
    if tree is None or not len(tree) or not len(tree.ends):
        return FlatTable(by, root, Unknown("no tree yet"), ())
    seconds = _whole(session, root)
    sums = _Sums(session, tree, root, seconds)
    inside = range(root, tree.ends[root])
    wanted = [index for index in inside if (tree.nodes[index].kind == "op") == (by == "operator")]
    groups: dict[object, list[int]] = {}
    for index in wanted:
        groups.setdefault(_group(tree.nodes[index], index, by), []).append(index)
    if by == "operator":
        # Windows are other forwards than those of the mean: shares of theirs are of them alone.
        seconds = sums.whole_of(tuple(wanted))
    rows = [sums.row(by, tuple(nodes)) for nodes in groups.values()]
    return FlatTable(by, root, seconds, in_order(rows, default_column(session, by)))


def interrupted_words(session: Session, table: FlatTable) -> str:
    """Say that operator windows took far longer than other forwards; empty where they did not."""
    whole, seconds = known(_whole(session, table.root)), known(table.seconds)
    if table.by != "operator" or not whole or seconds is None or seconds < INTERRUPTED * whole:
        return ""
    return f"{seconds / whole:.1f}× a forward's mean: the windows were interrupted"


def default_column(session: Session, by: By) -> Column:
    """Return what a table is ordered by at first: time, or on paper FLOPs, else parameters."""
    tree = session.tree
    if by == "operator" and session.operators is not None and len(session.operators):
        return "total"
    if by != "operator" and session.timings is not None:
        return "own"
    return "flops" if tree is None or tree.has_forward else "parameters"


def in_order(
    rows: Iterable[FlatRow], column: Column, *, descending: bool | None = None
) -> tuple[FlatRow, ...]:
    """Return rows by a column; what is not known goes last either way.

    Rows that are equal in it are ordered by FLOPs, then by where they are in the forward.

    Args:
        rows: in any order.
        column: what they are ordered by.
        descending: None: most first, texts from A to Z.
    """
    if column in TEXTS:
        usual = sorted(rows, key=lambda row: (_text(row, column), row.nodes))
        usual.sort(key=lambda row: _text(row, column), reverse=bool(descending))
        return tuple(usual)
    sign = 1 if descending is False else -1

    def key(row: FlatRow) -> tuple[bool, float, float, tuple[int, ...]]:
        value = known(figure_of(row, column))
        return (value is None, sign * (value or 0), -(known(row.flops) or 0), row.nodes)

    return tuple(sorted(rows, key=key))


def _text(row: FlatRow, column: Column) -> str:
    return row.type if column == "class" else row.name


def figure_of(row: FlatRow, column: Column) -> Figure:
    """Return what a row has in a column of figures."""
    match column:
        case "shape":
            several = Unknown("several shapes")
            return several if row.shape is None else prod(row.shape)
        case "own":
            return row.own
        case "total":
            return row.total
        case "calls":
            return row.calls
        case "nodes":
            return len(row.nodes)
        case "parameters":
            return row.parameters
        case "macs":
            return row.macs
        case "flops":
            return row.flops
        case _:
            return row.bytes_moved


def why_no_operator_times(session: Session) -> str:
    """Return the reason why operators have no times, empty where some have."""
    if why := why_no_times(session) or why_times_do_not_fit(session):
        return why
    operators = session.operators
    if operators is not None and len(operators):
        return ""
    if operators is not None and operators.times.why_none:
        return f"no operator window was opened: {operators.times.why_none}"
    return NO_WINDOW


def _group(node: Node, index: int, by: By) -> object:
    match by:
        case "module":
            return index
        case "class":
            return node.type
        case "operator":
            return node.name


def _whole(session: Session, root: int) -> Figure:
    tree = session.tree
    assert tree is not None
    seconds = node_seconds(session, root)
    if seconds:
        return seconds
    is_op = tree.nodes[root].kind == "op"
    why = why_no_operator_times(session) if is_op else why_no_times(session)
    return Unknown(why or "not called so far")


class _Sums:
    """Sums over the nodes of one row."""

    def __init__(self, session: Session, tree: Tree, root: int, whole: Figure) -> None:
        self._session, self._tree, self._whole = session, tree, whole
        self._parameters = _owned(tree, root)
        self._inside_opaque = _inside_opaque(tree)

    def row(self, by: By, nodes: tuple[int, ...]) -> FlatRow:
        tree = self._tree
        first = tree.nodes[nodes[0]]
        is_op = by == "operator"
        own: Figure = Unknown(NO_SELF_TIME) if is_op else self._sum(map(self._own, nodes))
        total = self._total(nodes)
        part = part_of(known(total if is_op else own), known(self._whole))
        has_work = tree.has_forward and all(is_counted(tree.costs[node]) for node in nodes)
        not_counted = Unknown(why_not_counted(tree) if tree.has_forward else why_no_forward(tree))
        shapes = {tuple(one.shape for one in tree.nodes[node].outputs[:1]) for node in nodes}
        alike = next(iter(shapes)) if len(shapes) == 1 else ()
        return FlatRow(
            name={"module": first.path, "class": first.type, "operator": first.name}[by],
            type="" if is_op else first.type,
            nodes=nodes,
            calls=sum(tree.nodes[node].calls for node in nodes),
            total=total,
            own=own,
            share=part if part is not None else _reason(total if is_op else own, self._whole),
            parameters=sum(self._parameters.get(node, 0) for node in nodes),
            macs=self._work("macs", nodes) if has_work else not_counted,
            flops=self._work("flops", nodes) if has_work else not_counted,
            bytes_moved=self._work("bytes", nodes) if has_work else not_counted,
            shape=alike[0] if alike else None,
        )

    def whole_of(self, nodes: tuple[int, ...]) -> Figure:
        """Return what nodes take together, and make shares of it from now on."""
        self._whole = self._total(nodes)
        return self._whole

    def _total(self, nodes: tuple[int, ...]) -> Figure:
        """Add up the outermost of the nodes that were measured. Rule 2."""
        seconds: float | None = None
        after = -1
        for node in nodes:
            if node >= after and (found := self._seconds(node)) is not None:
                seconds = (seconds or 0.0) + found
                after = self._tree.ends[node]
        if seconds is not None:
            return seconds
        if self._tree.nodes[nodes[0]].kind == "op":
            why = why_no_operator_times(self._session)
            return Unknown(why or "not seen in any operator window")
        return Unknown(self._why_unmeasured(nodes[0]))

    def _seconds(self, node: int) -> float | None:
        """Return the time of a node for a sum: a mean, also of operators."""
        if self._tree.nodes[node].kind == "module":
            return node_seconds(self._session, node)
        operators = self._session.operators
        if operators is None or not times_fit_costs(self._session):
            return None
        return operators.mean_per_forward(node)

    def _own(self, node: int) -> Figure:
        timings = self._session.timings
        seconds = timings.own_per_forward(node) if timings is not None else None
        return Unknown(self._why_unmeasured(node)) if seconds is None else seconds

    def _why_unmeasured(self, node: int) -> str:
        if why := why_no_times(self._session):
            return why
        if node in self._inside_opaque:
            return _OPAQUE
        found = self._tree.nodes[node]
        if found.calls == 0:
            return found.note or NOT_CALLED
        return "not called so far, or among those with the least time, which are left out"

    def _sum(self, figures: Iterable[Figure]) -> Figure:
        """Add up what is known; one that is not is part of no sum."""
        why = Unknown("")
        values: list[float] = []
        for figure in figures:
            if isinstance(figure, Unknown):
                why = why if why.reason else figure
            else:
                values.append(figure)
        return sum(values) if values else why

    def _work(self, column: Literal["macs", "flops", "bytes"], nodes: tuple[int, ...]) -> int:
        return sum(self._own_work(column, node) for node in nodes)

    def _own_work(self, column: Literal["macs", "flops", "bytes"], node: int) -> int:
        tree = self._tree

        def figure(index: int) -> int:
            cost = tree.costs[index]
            if column == "bytes":
                return bytes_moved(cost)
            return cost.macs if column == "macs" else cost.flops

        if tree.nodes[node].kind == "op":
            return figure(node)
        modules = (child for child in tree.children(node) if tree.nodes[child].kind == "module")
        return max(figure(node) - sum(map(figure, modules)), 0)


def why_no_forward(tree: Tree) -> str:
    """Return why a tree of parameters has no work, empty where there is a forward."""
    return "" if tree.has_forward else "there are only parameters: no forward was traced"


def _reason(figure: Figure, whole: Figure) -> Unknown:
    """Return why there is no share."""
    for one in (figure, whole):
        if isinstance(one, Unknown):
            return one
    return Unknown("the root has no time")


def _owned(tree: Tree, root: int) -> dict[int, int]:
    """Return the parameters that each module owns; of those that share one, the first has it."""
    seen: set[str] = set()
    found: dict[int, int] = {}
    for index in range(root, tree.ends[root]):
        node = tree.nodes[index]
        if node.kind == "op":
            continue
        is_leaf = not any(tree.nodes[child].kind == "module" for child in tree.children(index))
        if not node.weights and is_leaf:
            # One that was not expanded has those of all modules inside.
            held = [(node.path, tree.costs[index].parameters)]
        else:
            held = [
                (one.shared_with or _joined(node.path, one.name), prod(one.shape))
                for one in node.weights
                if not one.is_buffer
            ]
        found[index] = sum(count for name, count in dict(held).items() if name not in seen)
        seen.update(name for name, _ in held)
    return found


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _inside_opaque(tree: Tree) -> frozenset[int]:
    """Return the modules inside opaque ones."""
    return frozenset(
        index
        for around, node in enumerate(tree.nodes)
        if node.is_opaque
        for index in range(around + 1, tree.ends[around])
    )
