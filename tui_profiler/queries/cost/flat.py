"""A model as a flat table: its modules, its classes, or its operators by name, by self time.

1. Self times of all modules below a root add up to the root's time: both are means over one set of
   forwards. A module's FLOPs, MACs and bytes are those of its own operators, its parameters those
   that it owns, each counted once: they add up likewise.
2. The total of a class, or of an operator name, counts only the outermost of those that lie inside
   each other: nothing is counted twice. So do allocated bytes and GPU time.
3. Operators are all that a window saw, as in torch's ``key_averages()``: those of the tree and, by
   name, those that they call. Work and allocations are those of the tree's.
4. A node that was not measured has no time, and no 0: the row says why.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from math import prod
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Figure, Node, Tensor, Unknown, known
from tui_profiler.queries.cost.bound import bytes_moved, is_counted, why_not_counted
from tui_profiler.queries.cost.memory_compared import why_no_window as why_no_memory_window
from tui_profiler.queries.cost.totals import why_no_times
from tui_profiler.queries.time import node_seconds
from tui_profiler.queries.time.base import BASE_WORDS, Base, base, own_share
from tui_profiler.queries.time.forward_kinds import times_fit_costs, why_times_do_not_fit
from tui_profiler.queries.time.gpu_times import is_on_gpu
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import CalledOperator
from tui_profiler.session.tree import weight_name

By: TypeAlias = Literal["module", "class", "operator"]
_Work: TypeAlias = Literal["macs", "flops", "bytes", "uncosted"]
"""What one row stands for."""
Column: TypeAlias = Literal[
    "name",
    "class",
    "nodes",
    "calls",
    "total",
    "own",
    "share",
    "cpu",
    "gpu",
    "allocated",
    "parameters",
    "macs",
    "flops",
    "bytes",
    "input",
    "output",
]
"""What a row has, and can be ordered by; of a shape its elements."""
TEXTS: tuple[Column, ...] = ("name", "class")
"""Ordered from A to Z; figures begin with the largest."""
SHAPES: tuple[Column, ...] = ("input", "output")
TIMES: tuple[Column, ...] = ("total", "own", "cpu", "gpu")
COLUMN_WORDS: dict[Column, tuple[str, str]] = {
    "name": ("name", "path, class, or name of the operator"),
    "class": ("class", "class of the module"),
    "nodes": ("modules", "modules of that class"),
    "calls": ("calls", "calls per forward"),
    "total": ("total", "mean total time per forward"),
    "own": ("self", "mean self time per forward"),
    "cpu": ("cpu", "mean CPU time of the thread, self"),
    "share": ("%", "self time: share of the step, request or forward"),
    "gpu": ("gpu", "mean GPU time per forward, by events"),
    "allocated": ("alloc", "bytes allocated (measured)"),
    "parameters": ("params", "parameters that it owns"),
    "macs": ("MAC", "multiply-accumulates per forward"),
    "flops": ("FLOP", "2 × MAC and all other arithmetic"),
    "bytes": ("bytes", "bytes read and written"),
    "input": ("in", "shape of the first input"),
    "output": ("shape", "shape of the first output"),
}
"""Heading, and what the figures are."""
_WHERE_KNOWN: tuple[Column, ...] = ("cpu", "gpu", "allocated")
"""Not shown, unless chosen, where no row has a figure."""
_ABSENT: dict[By, tuple[Column, ...]] = {
    "module": ("nodes",),
    "class": ("class", "input", "output"),
    "operator": ("class", "nodes", "parameters"),
}

BYS: tuple[By, ...] = ("module", "class", "operator")
NOT_CALLED = "it is not called itself: its time is that of the modules inside"
NO_SELF_TIME = "recordings of this version have no self times of operators"
CALLED = "it counts with the operator that calls it"
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
    """Indexes of the nodes that it stands for, in preorder; none for an operator that only others
    call."""
    callers: tuple[int, ...]
    """Nodes that call the operators of that name that are no nodes themselves, in preorder."""
    calls: int
    total: Figure
    """Seconds, with everything inside."""
    own: Figure
    """Seconds without the time of modules, or operators, inside."""
    share: Figure
    """Of modules the share of the base (``queries/time/base.py``) that their self times are. Of
    operators the share of their table's time: self time, or total time where no self time is
    known."""
    cpu: Figure
    """CPU seconds of the thread, without the time of modules inside."""
    gpu: Figure
    """Mean seconds on the GPU by events, with everything inside; medians in older recordings."""
    allocated: Figure
    """Bytes, freed or not; with everything inside."""
    parameters: int
    """Owned by the modules themselves; 0 for operators."""
    macs: Figure
    """Of the modules' own operators."""
    flops: Figure
    bytes_moved: Figure
    """Read and written."""
    input: tuple[int, ...] | None
    """Of the first input, where it is the same for all nodes."""
    output: tuple[int, ...] | None
    """Of the first output, likewise."""

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from all other rows of its table."""
        return self.name, (self.nodes or self.callers)[0]


class FlatTable(Struct, frozen=True):
    """All rows, and what they are shares of."""

    by: By
    root: int
    seconds: Figure
    """Of one forward in the root; of operators, all of theirs together in operator windows."""
    base: Base
    """What the shares of modules are of."""
    rows: tuple[FlatRow, ...]
    """In the order of ``in_order``: most self time first, or total time where there is none."""


def title_of(table: FlatTable, column: Column) -> str:
    """Return the heading of a column."""
    if column == "share" and table.by != "operator" and table.base.is_measured:
        return BASE_WORDS[table.base.name][0]
    return COLUMN_WORDS[column][0]


def columns_of(by: By) -> tuple[Column, ...]:
    """Return what a table can show beside the names."""
    return tuple(one for one in COLUMN_WORDS if one != "name" and one not in _ABSENT[by])


def usual_columns(table: FlatTable) -> tuple[Column, ...]:
    """Return those of its columns that are shown where nobody chose."""
    return tuple(
        column
        for column in columns_of(table.by)
        if column not in _WHERE_KNOWN
        or any(known(figure_of(row, column)) is not None for row in table.rows)
    )


def timed_as(session: Session, by: By) -> Session:
    """Return the session with the times of a table: operators are timed on the host alone."""
    return session.timed_on_host() if by == "operator" else session


def flat_table(session: Session, by: By, root: int = 0) -> FlatTable:
    """Return the flat table of a node.

    Args:
        session: with a whole tree, else there are no rows.
        by: what a row stands for.
        root: index of the node that is listed, itself included.
    """
    session, tree = timed_as(session, by), session.tree
    if tree is None or not len(tree) or not len(tree.ends):
        return FlatTable(by, root, Unknown("no tree yet"), base(session), ())
    seconds = _whole(session, root)
    sums = _Sums(session, tree, root, seconds)
    inside = range(root, tree.ends[root])
    wanted = [index for index in inside if (tree.nodes[index].kind == "op") == (by == "operator")]
    groups: dict[object, list[int]] = {}
    for index in wanted:
        groups.setdefault(_group(tree.nodes[index], index, by), []).append(index)
    if by != "operator":
        rows = [sums.row(by, tuple(nodes)) for nodes in groups.values()]
        ordered = in_order(rows, default_column(session, by))
        return FlatTable(by, root, seconds, base(session), ordered)
    called = _called(session, inside)
    # Windows are other forwards than those of the mean: shares of theirs are of them alone.
    seconds = sums.whole_of(tuple(wanted), tuple(chain.from_iterable(called.values())))
    names = dict.fromkeys((*map(str, groups), *called))
    rows = [sums.row(by, tuple(groups.get(name, ())), called.get(name, ())) for name in names]
    return FlatTable(by, root, seconds, base(session), in_order(rows, default_column(session, by)))


def _called(session: Session, inside: range) -> dict[str, tuple[CalledOperator, ...]]:
    """Return the operators in a range of nodes that no node stands for, by name."""
    found: dict[str, list[CalledOperator]] = {}
    operators = session.operators
    if operators is not None and times_fit_costs(session):
        for one in operators.called:
            if one.node in inside:
                found.setdefault(one.name, []).append(one)
    return {name: tuple(each) for name, each in found.items()}


def interrupted_words(session: Session, table: FlatTable) -> str:
    """Say that operator windows took far longer than other forwards; empty where they did not."""
    whole, seconds = known(_whole(session, table.root)), known(table.seconds)
    if table.by != "operator" or not whole or seconds is None or seconds < INTERRUPTED * whole:
        return ""
    return f"{seconds / whole:.1f}× a forward's mean: the windows were interrupted"


def default_column(session: Session, by: By) -> Column:
    """Return what a table is ordered by at first: time, or on paper FLOPs, else parameters.

    In training that is the share of the step: self times are those of a forward alone.
    """
    tree = session.tree
    operators = session.operators
    if by == "operator" and operators is not None and len(operators):
        return "own" if operators.has_own else "total"
    if by != "operator" and session.timings is not None:
        return "share" if base(session).name == "step" else "own"
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
        usual = sorted(rows, key=lambda row: (_text(row, column), row.key[1]))
        usual.sort(key=lambda row: _text(row, column), reverse=bool(descending))
        return tuple(usual)
    sign = 1 if descending is False else -1

    def key(row: FlatRow) -> tuple[bool, float, float, int]:
        value = known(figure_of(row, column))
        return (value is None, sign * (value or 0), -(known(row.flops) or 0), row.key[1])

    return tuple(sorted(rows, key=key))


def _text(row: FlatRow, column: Column) -> str:
    return row.type if column == "class" else row.name


def figure_of(row: FlatRow, column: Column) -> Figure:
    """Return what a row has in a column of figures."""
    match column:
        case "input" | "output":
            shape = row.input if column == "input" else row.output
            return Unknown("several shapes") if shape is None else prod(shape)
        case "nodes":
            return len(row.nodes)
        case "bytes":
            return row.bytes_moved
        case _:
            figure: Figure = getattr(row, column)
            return figure


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
    seconds = node_seconds.node_seconds(session, root)
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

    def row(
        self, by: By, nodes: tuple[int, ...], called: tuple[CalledOperator, ...] = ()
    ) -> FlatRow:
        """Return a row.

        Args:
            by: what it stands for.
            nodes: that it stands for.
            called: operators of its name that no node stands for; where there are no nodes, some.
        """
        tree = self._tree
        first = tree.nodes[nodes[0]] if nodes else None
        is_op = by == "operator"
        total, own = self._total(nodes, called), self._sum(map(self._own, nodes), called)
        of = total if isinstance(own, Unknown) and is_op else own
        of_table = node_seconds.part_of(known(of), known(self._whole))
        part = of_table if is_op else self._share(nodes)
        work = self._why_no_work(nodes)
        names = {"module": "path", "class": "type", "operator": "name"}
        return FlatRow(
            name=getattr(first, names[by]) if first is not None else called[0].name,
            type="" if is_op or first is None else first.type,
            nodes=nodes,
            callers=tuple(one.node for one in called),
            calls=sum(tree.nodes[node].calls for node in nodes) + sum(one.calls for one in called),
            total=total,
            own=own,
            share=part if part is not None else _reason(of, self._whole),
            cpu=Unknown(node_seconds.CPU_OF_CALLS) if is_op else self._sum(map(self._cpu, nodes)),
            gpu=self._gpu(nodes, is_op=is_op),
            allocated=self._allocated(nodes),
            parameters=sum(self._parameters.get(node, 0) for node in nodes),
            macs=work or self._counted("macs", nodes),
            flops=work or self._counted("flops", nodes),
            bytes_moved=work or self._work("bytes", nodes),
            input=_alike(tree.nodes[node].inputs for node in nodes),
            output=_alike(tree.nodes[node].outputs for node in nodes),
        )

    def _share(self, nodes: tuple[int, ...]) -> float | None:
        """Return the share of the base that the self times of modules are."""
        shares = [own_share(self._session, node) for node in nodes]
        known_shares = [share for share in shares if share is not None]
        return node_seconds.part_of(sum(known_shares), 1.0) if known_shares else None

    def _why_no_work(self, nodes: tuple[int, ...]) -> Unknown | None:
        if not nodes:
            return Unknown(CALLED)
        if not self._tree.has_forward:
            return Unknown(why_no_forward(self._tree))
        is_known = all(is_counted(self._tree.costs[node]) for node in nodes)
        return None if is_known else Unknown(why_not_counted(self._tree))

    def whole_of(self, nodes: tuple[int, ...], called: tuple[CalledOperator, ...]) -> Figure:
        """Return what operators take together, and make shares of it from now on."""
        own = self._sum(map(self._own, nodes), called)
        self._whole = self._total(nodes) if isinstance(own, Unknown) and nodes else own
        return self._whole

    def _gpu(self, nodes: tuple[int, ...], *, is_op: bool) -> Figure:
        """Return what the outermost of the nodes take on the GPU."""
        session = self._session
        if is_op:
            return Unknown(node_seconds.ENQUEUED)
        if session.device is None:
            is_there = is_on_gpu(session)
            return Unknown("no GPU times yet" if is_there else "the model does not run on a GPU")
        why_none = session.device.times.why_none or "not timed on the GPU"
        return self._outermost(nodes, session.device.per_forward, why_none)

    def _allocated(self, nodes: tuple[int, ...]) -> Figure:
        """Return what the outermost of the nodes allocate."""
        window = self._session.memory_window
        if not nodes:
            return Unknown(CALLED)
        if window is None:
            return why_no_memory_window(self._session)
        return self._outermost(nodes, window.allocated, "not seen in the window")

    def _outermost(
        self, nodes: tuple[int, ...], figure: Callable[[int], float | None], why_none: str
    ) -> Figure:
        """Add up a figure of the outermost of the nodes that have it. Rule 2."""
        total: float | None = None
        after = -1
        for node in nodes:
            if node >= after and (found := figure(node)) is not None:
                total = (total or 0) + found
                after = self._tree.ends[node]
        return Unknown(why_none) if total is None else total

    def _total(self, nodes: tuple[int, ...], called: tuple[CalledOperator, ...] = ()) -> Figure:
        found = self._outermost(nodes, self._seconds, "")
        if not isinstance(found, Unknown) or called:
            return (known(found) or 0.0) + sum(one.seconds for one in called)
        if self._tree.nodes[nodes[0]].kind == "op":
            why = why_no_operator_times(self._session)
            return Unknown(why or "not seen in any operator window")
        return Unknown(self._why_unmeasured(nodes[0]))

    def _seconds(self, node: int) -> float | None:
        """Return the time of a node for a sum: a mean, also of operators."""
        if self._tree.nodes[node].kind == "module":
            return node_seconds.node_seconds(self._session, node)
        operators = self._session.operators
        if operators is None or not times_fit_costs(self._session):
            return None
        return operators.mean_per_forward(node)

    def _own(self, node: int) -> Figure:
        if self._tree.nodes[node].kind == "op":
            return self._own_of_operator(node)
        timings = self._session.timings
        seconds = timings.own_per_forward(node) if timings is not None else None
        return Unknown(self._why_unmeasured(node)) if seconds is None else seconds

    def _cpu(self, node: int) -> Figure:
        timings = self._session.timings
        seconds = timings.own_cpu_per_forward(node) if timings is not None else None
        if seconds is not None:
            return seconds
        own = self._own(node)
        return (
            own
            if isinstance(own, Unknown)
            else Unknown(node_seconds.why_no_cpu_time(self._session, node))
        )

    def _own_of_operator(self, node: int) -> Figure:
        operators = self._session.operators
        if why := why_no_operator_times(self._session):
            return Unknown(why)
        assert operators is not None
        if not operators.has_own:
            return Unknown(NO_SELF_TIME)
        seconds = operators.own_per_forward(node)
        return Unknown("not seen in any operator window") if seconds is None else seconds

    def _why_unmeasured(self, node: int) -> str:
        if why := why_no_times(self._session):
            return why
        if node in self._inside_opaque:
            return _OPAQUE
        found = self._tree.nodes[node]
        if found.calls == 0:
            return found.note or NOT_CALLED
        return "not called so far, or among those with the least time, which are left out"

    def _sum(self, figures: Iterable[Figure], called: tuple[CalledOperator, ...] = ()) -> Figure:
        """Add up what is known; one that is not is part of no sum."""
        why = Unknown("")
        values = [one.own for one in called]
        for figure in figures:
            if isinstance(figure, Unknown):
                why = why if why.reason else figure
            else:
                values.append(figure)
        return sum(values) if values else why

    def _counted(self, column: _Work, nodes: tuple[int, ...]) -> int | Unknown:
        """Return MACs or FLOPs; none of what nobody counted."""
        found = self._work(column, nodes)
        is_known = found or not self._work("uncosted", nodes)
        return found if is_known else Unknown(why_not_counted(self._tree))

    def _work(self, column: _Work, nodes: tuple[int, ...]) -> int:
        return sum(self._own_work(column, node) for node in nodes)

    def _own_work(self, column: _Work, node: int) -> int:
        tree = self._tree

        def figure(index: int) -> int:
            cost = tree.costs[index]
            if column == "bytes":
                return bytes_moved(cost)
            if column == "uncosted":
                return cost.uncosted
            return cost.macs if column == "macs" else cost.flops

        if tree.nodes[node].kind == "op":
            return figure(node)
        modules = tree.modules_in(node)
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


def _alike(tensors: Iterable[tuple[Tensor, ...]]) -> tuple[int, ...] | None:
    """Return the shape of the first tensor, None where it is not the same everywhere."""
    shapes = {each[0].shape if each else None for each in tensors}
    return shapes.pop() if len(shapes) == 1 else None


def _owned(tree: Tree, root: int) -> dict[int, int]:
    """Return the parameters that each module owns; of those that share one, the first has it."""
    seen: set[str] = set()
    found: dict[int, int] = {}
    for index in range(root, tree.ends[root]):
        node = tree.nodes[index]
        if node.kind == "op":
            continue
        if not node.weights and not tree.modules_in(index):
            # One that was not expanded has those of all modules inside.
            held = [(node.path, tree.costs[index].parameters)]
        else:
            held = [
                (one.shared_with or weight_name(node, one), prod(one.shape))
                for one in node.weights
                if not one.is_buffer
            ]
        found[index] = sum(count for name, count in dict(held).items() if name not in seen)
        seen.update(name for name, _ in held)
    return found


def _inside_opaque(tree: Tree) -> frozenset[int]:
    """Return the modules inside opaque ones."""
    return frozenset(
        index
        for around, node in enumerate(tree.nodes)
        if node.is_opaque
        for index in range(around + 1, tree.ends[around])
    )
