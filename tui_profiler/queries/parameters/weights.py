"""Parameters and their statistics as rows that can be sorted.

1. The rows are those of the tree, in its order, also before values are read. A tensor with a second
   name is a row that names the first.
2. A figure is a number, ``Unknown`` with the reason, or None while pending.
"""

import math
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from tui_profiler import messages
from tui_profiler.messages.parameters import ALL_ZERO, NOTHING_LOST, Scheme
from tui_profiler.queries.parameters.rollup import prunable
from tui_profiler.session import Session, Tree
from tui_profiler.session.tree import weight_name

Column: TypeAlias = Literal[
    "values", "std", "zeros", "int8", "width", "prune", "predicted", "error"
]
Sort: TypeAlias = Literal["order", "name"] | Column
COLUMNS: tuple[Column, ...] = get_args(Column)
_NOT_FINITE = messages.Unknown("no value is finite")
SORTS: tuple[Sort, ...] = ("order", *COLUMNS, "name")
SORT_WORDS: dict[Sort, str] = {
    "order": "in order",
    "name": "by name",
    "values": "by count",
    "std": "by std",
    "zeros": "by zeros",
    "int8": "by int8 SQNR",
    "width": "by smallest format",
    "prune": "by prunable share",
    "predicted": "by predicted error",
    "error": "by measured error",
}


class WeightRow(Struct, frozen=True, eq=False):
    """One parameter or buffer at one place of the tree."""

    name: str
    """Full name, as in the state dict."""
    node: int
    """Index of the module that owns it."""
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    is_buffer: bool
    shared_with: str
    statistics: messages.TensorStatistics | None
    """None before its values are read."""
    sensitivity: messages.Sensitivity | None

    @property
    def values(self) -> int:
        """Number of values."""
        return math.prod(self.shape)


def rows_of(session: Session) -> tuple[WeightRow, ...]:
    """Return every parameter and buffer, in the order of the tree."""
    tree = session.tree
    if tree is None:
        return ()
    parameters, sensitivity = session.parameters, session.sensitivity
    looked_at = {one.name: one for one in parameters.tensors} if parameters is not None else {}
    measured = sensitivity.weights if sensitivity is not None else {}
    found: list[WeightRow] = []
    seen: set[str] = set()
    for index, node in enumerate(tree.nodes):
        for weight in node.weights:
            name = weight_name(node, weight)
            if name in seen:
                continue
            seen.add(name)
            known_of = looked_at.get(name)
            found.append(
                WeightRow(
                    name=name,
                    node=index,
                    shape=weight.shape,
                    dtype=weight.dtype,
                    bytes=weight.bytes,
                    is_buffer=weight.is_buffer,
                    shared_with=weight.shared_with or (known_of.shared_with if known_of else ""),
                    statistics=known_of,
                    sensitivity=measured.get(name),
                )
            )
    return tuple(found)


def figure(row: WeightRow, column: Column) -> messages.Figure | None:
    """Return the figure of a row in a column; shares are 0 to 1, SQNR is in dB."""
    match column:
        case "values":
            return float(row.values)
        case "predicted":
            return row.sensitivity.predicted if row.sensitivity is not None else None
        case "error":
            return measured_error(row)
        case _:
            return _of_statistics(row, column)


def _of_statistics(row: WeightRow, column: Column) -> messages.Figure | None:
    found = row.statistics
    if row.shared_with:
        return messages.Unknown(f"shared with {row.shared_with}")
    if found is None:
        return None
    moments = found.moments
    if moments is None:
        return messages.Unknown(found.why_none or "its values were not analysed")
    if column in ("int8", "width") and "quantisation" in found.pending:
        return None
    match column:
        case "std":
            return moments.std if math.isfinite(moments.std) else _NOT_FINITE
        case "zeros":
            return moments.zeros / moments.count if moments.count else _NOT_FINITE
        case "int8":
            return sqnr(found, "int8", "channel", "tensor")
        case "width":
            return _width(row, found)
        case _:
            share = prunable(found)
            return messages.Unknown("all values are zero") if share is None else share


def _width(row: WeightRow, found: messages.TensorStatistics) -> messages.Figure:
    if found.width is not None:
        return found.width.bits
    if wrong := not_finite(row):
        return messages.Unknown(f"it has {wrong} values")
    return _why(found, "quantisation", "needs two or more rows")


def is_exact(figure: messages.Figure) -> bool:
    """Return whether an SQNR is infinite, as nothing is lost."""
    return isinstance(figure, messages.Unknown) and figure.reason in (NOTHING_LOST, ALL_ZERO)


def sqnr(found: messages.TensorStatistics, stored: str, *granularities: str) -> messages.Figure:
    """Return the SQNR of a format in dB, for the first of these granularities that it has."""
    for granularity in granularities:
        for one in found.quantised:
            if one.format == stored and one.granularity == granularity:
                return one.sqnr_db
    return _why(found, "quantisation")


def _why(
    found: messages.TensorStatistics, part: str, otherwise: str = "not requested"
) -> messages.Unknown:
    return messages.Unknown(next((why for of, why in found.whys if of == part), otherwise))


def measured_error(row: WeightRow) -> messages.Figure | None:
    """Return the measured error of the output; None where not measured."""
    one = row.sensitivity
    return one.output_error if one is not None and one.done else None


def is_measurable(row: WeightRow) -> bool:
    """Return whether its sensitivity can be measured."""
    return len(row.shape) >= 2 and not row.is_buffer


def not_finite(row: WeightRow) -> str:
    """Return ``NaN`` or ``Inf``; empty where all values are finite."""
    moments = row.statistics.moments if row.statistics is not None else None
    if moments is None:
        return ""
    if moments.nans:
        return "NaN"
    return "Inf" if moments.infinities else ""


class WeightsView:
    """The rows shown, their order, and the cursor."""

    def __init__(self) -> None:
        self.sort: Sort = "order"
        self.descending = False
        self.shows_buffers = False
        self.rows: tuple[WeightRow, ...] = ()
        """In the order shown."""
        self.all: tuple[WeightRow, ...] = ()
        self.name = ""
        """Of the row under the cursor."""
        self._made_of: tuple[object, ...] = ()

    def update(self, session: Session, node: int) -> None:
        """Update the rows; keep the cursor, or move it to the node's rows."""
        wanted = (session.tree, session.parameters, session.sensitivity)
        if not self._made_of or any(
            one is not other for one, other in zip(self._made_of, wanted, strict=True)
        ):
            self._made_of = wanted
            self.all = rows_of(session)
            self.arrange()
        row = self.row
        if session.tree is not None and (row is None or row.node != node):
            self.name = self._first_of(session.tree, node)

    def arrange(self) -> None:
        """Filter and sort the rows."""
        shown = [row for row in self.all if self.shows_buffers or not row.is_buffer]
        self.rows = ordered(shown, self.sort, descending=self.descending)

    @property
    def row(self) -> WeightRow | None:
        """The row under the cursor."""
        at = self.at
        return self.rows[at] if 0 <= at < len(self.rows) else None

    @property
    def at(self) -> int:
        """Index of the cursor; -1 without rows."""
        return next((at for at, row in enumerate(self.rows) if row.name == self.name), -1)

    def move(self, by: int) -> WeightRow | None:
        """Move the cursor by so many rows, up to the ends."""
        if not self.rows:
            return None
        row = self.rows[min(max(self.at + by, 0), len(self.rows) - 1)]
        self.name = row.name
        return row

    def sort_by(self, sort: Sort, *, descending: bool | None = None) -> None:
        """Sort by a column: by default figures descending, names ascending."""
        falling = sort not in ("order", "name") if descending is None else descending
        self.sort, self.descending = sort, falling and sort != "order"
        self.arrange()

    def sort_by_next(self) -> None:
        """Sort by the next column with figures."""
        keys = [sort for sort in SORTS if sort == self.sort or self._has(sort)]
        self.sort_by(keys[(keys.index(self.sort) + 1) % len(keys)])

    def _has(self, sort: Sort) -> bool:
        match sort:
            case "order" | "name":
                return True
            case column:
                return any(messages.known(figure(row, column)) is not None for row in self.all)

    def _first_of(self, tree: Tree, node: int) -> str:
        """Return the first row in a node; without one the cursor stays, or moves to the top."""
        end = tree.ends[node] if 0 <= node < len(tree) else 0
        inside = [row for row in self.rows if node <= row.node < end]
        if inside:
            return min(inside, key=lambda row: row.node).name
        return self.name if self.row is not None else (self.rows[0].name if self.rows else "")


def ordered(rows: list[WeightRow], sort: Sort, *, descending: bool) -> tuple[WeightRow, ...]:
    """Return sorted rows; those without a figure come last either way."""
    match sort:
        case "order":
            return tuple(rows)
        case "name":
            return tuple(sorted(rows, key=lambda row: row.name.casefold(), reverse=descending))
        case column:
            figures = [(messages.known(figure(row, column)), row) for row in rows]
    with_figure = [(value, row) for value, row in figures if value is not None]
    with_figure.sort(key=lambda pair: pair[0], reverse=descending)
    without = [row for value, row in figures if value is None]
    return (*(row for _, row in with_figure), *without)


SCHEMES: tuple[Scheme, ...] = (
    Scheme("int8"),
    Scheme("int8", "tensor"),
    Scheme("int4"),
    Scheme("int4", "tensor"),
    Scheme("float8_e4m3fn"),
    Scheme("values", share=0.5),
    Scheme("channels", share=0.25),
)
"""Changes for which sensitivity is measured, in the order of the key."""


def scheme_words(scheme: Scheme) -> str:
    """Return the change of a weight: ``int8 per channel``."""
    match scheme.change:
        case "values":
            return f"{scheme.share:.0%} of values zero".replace("%", " %")
        case "channels":
            return f"{scheme.share:.0%} of channels zero".replace("%", " %")
        case stored:
            short = {"float8_e4m3fn": "fp8 e4m3", "float8_e5m2": "fp8 e5m2"}.get(stored, stored)
            return f"{short} per {scheme.per}"


def next_scheme(scheme: Scheme) -> Scheme:
    """Return the next scheme, cyclically."""
    at = SCHEMES.index(scheme) if scheme in SCHEMES else -1
    return SCHEMES[(at + 1) % len(SCHEMES)]
