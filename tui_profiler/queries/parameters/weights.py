"""The parameters one by one: what is known of the values of each, as rows that can be sorted.

1. The rows are those of the tree, in its order: they are there before any value was looked at, and
   figures come to them. A tensor under a second name is a row that says where its figures are.
2. A figure is a number, ``Unknown`` with the reason, or None where it is not known yet.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler import messages
from tui_profiler.messages.parameters import ALL_ZERO, NOTHING_LOST, Scheme
from tui_profiler.session import Session, Tree

Column: TypeAlias = Literal[
    "values", "std", "zeros", "int8", "width", "prune", "predicted", "error"
]
Sort: TypeAlias = Literal["order", "name"] | Column
COLUMNS: tuple[Column, ...] = (
    "values",
    "std",
    "zeros",
    "int8",
    "width",
    "prune",
    "predicted",
    "error",
)
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
PRUNE_LOSS = 0.1
"""Of the norm: what the column of prunable values speaks of."""
NOT_LOOKED_AT = "its values were not analysed"


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
    """None while its values were not looked at."""
    sensitivity: messages.Sensitivity | None

    @property
    def values(self) -> int:
        """How many values it has."""
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
            name = f"{node.path}.{weight.name}" if node.path else weight.name
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
    """Return what a row has in a column; shares and errors are of 1, noise is in dB."""
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
        return messages.Unknown(f"the same values as {row.shared_with}")
    if found is None:
        return None
    moments = found.moments
    if moments is None:
        return messages.Unknown(found.why_none or NOT_LOOKED_AT)
    match column:
        case "std":
            return (
                moments.std
                if math.isfinite(moments.std)
                else messages.Unknown("no value is finite")
            )
        case "zeros":
            return (
                moments.zeros / moments.count
                if moments.count
                else messages.Unknown("no value is finite")
            )
        case "int8":
            return signal_over_noise(found, "int8", "channel", "tensor")
        case "width":
            return _width(row, found)
        case _:
            return prunable(found)


def _width(row: WeightRow, found: messages.TensorStatistics) -> messages.Figure:
    if found.width is not None:
        return found.width.bits
    if wrong := not_finite(row):
        return messages.Unknown(f"there are values that are {wrong}")
    return _why(found, "quantisation", "only tensors of two rows or more are made narrower")


def is_exact(figure: messages.Figure) -> bool:
    """Tell whether a signal over noise is missing because nothing is lost."""
    return isinstance(figure, messages.Unknown) and figure.reason in (NOTHING_LOST, ALL_ZERO)


def signal_over_noise(
    found: messages.TensorStatistics, stored: str, *granularities: str
) -> messages.Figure:
    """Return dB of a format, for the first of the granularities that there is."""
    for granularity in granularities:
        for one in found.quantised:
            if one.format == stored and one.granularity == granularity:
                return one.sqnr_db
    return _why(found, "quantisation")


def prunable(found: messages.TensorStatistics) -> messages.Figure:
    """Return the share of values that can be zero for a loss of a tenth of the norm."""
    if not found.pruned:
        return messages.Unknown("no norm to lose")
    return min(found.pruned, key=lambda one: abs(one.loss - PRUNE_LOSS)).sparsity


def _why(
    found: messages.TensorStatistics, part: str, otherwise: str = "not asked for"
) -> messages.Unknown:
    return messages.Unknown(next((why for of, why in found.whys if of == part), otherwise))


def measured_error(row: WeightRow) -> messages.Figure | None:
    """Return what changing it cost the output; None where that was not measured."""
    one = row.sensitivity
    return one.output_error if one is not None and one.done else None


def is_measurable(row: WeightRow) -> bool:
    """Tell whether the output's sensitivity to it can be asked for."""
    return len(row.shape) >= 2 and not row.is_buffer


def not_finite(row: WeightRow) -> str:
    """Say what is wrong with its values in a word; empty where nothing is."""
    moments = row.statistics.moments if row.statistics is not None else None
    if moments is None:
        return ""
    if moments.nans:
        return "NaN"
    return "Inf" if moments.infinities else ""


class WeightsView:
    """Which rows are shown, in which order, and which one the cursor is on."""

    def __init__(self) -> None:
        self.sort: Sort = "order"
        self.descending = False
        self.shows_buffers = False
        self.rows: tuple[WeightRow, ...] = ()
        """In the order that is shown."""
        self.all: tuple[WeightRow, ...] = ()
        self.name = ""
        """Of the row under the cursor."""
        self._made_of: tuple[object, ...] = ()

    def update(self, session: Session, node: int) -> None:
        """Take what is known, and keep the cursor where it is, or go to the node's rows."""
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
        """Choose and order the rows anew."""
        shown = [row for row in self.all if self.shows_buffers or not row.is_buffer]
        self.rows = ordered(shown, self.sort, descending=self.descending)

    @property
    def row(self) -> WeightRow | None:
        """The row under the cursor."""
        at = self.at
        return self.rows[at] if 0 <= at < len(self.rows) else None

    @property
    def at(self) -> int:
        """Place of the cursor; -1 where there are no rows."""
        return next((at for at, row in enumerate(self.rows) if row.name == self.name), -1)

    @property
    def buffers(self) -> int:
        """How many rows are buffers."""
        return sum(row.is_buffer for row in self.all)

    def move(self, by: int) -> WeightRow | None:
        """Move the cursor by so many rows, no further than the ends."""
        if not self.rows:
            return None
        row = self.rows[min(max(self.at + by, 0), len(self.rows) - 1)]
        self.name = row.name
        return row

    def sort_by(self, sort: Sort, *, descending: bool | None = None) -> None:
        """Order by a column: figures begin with the largest, names and order with the first."""
        falling = sort not in ("order", "name") if descending is None else descending
        self.sort, self.descending = sort, falling and sort != "order"
        self.arrange()

    def sort_by_next(self) -> None:
        """Order by the next column that has figures."""
        keys = [sort for sort in SORTS if sort == self.sort or self._has(sort)]
        self.sort_by(keys[(keys.index(self.sort) + 1) % len(keys)])

    def _has(self, sort: Sort) -> bool:
        match sort:
            case "order" | "name":
                return True
            case column:
                return any(messages.known(figure(row, column)) is not None for row in self.all)

    def _first_of(self, tree: Tree, node: int) -> str:
        """Return the first row of a node or below it; else the cursor stays, or goes to the top."""
        end = tree.ends[node] if 0 <= node < len(tree) else 0
        inside = [row for row in self.rows if node <= row.node < end]
        if inside:
            return min(inside, key=lambda row: row.node).name
        return self.name if self.row is not None else (self.rows[0].name if self.rows else "")


def ordered(rows: list[WeightRow], sort: Sort, *, descending: bool) -> tuple[WeightRow, ...]:
    """Return rows in an order; those without a figure come last either way."""
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
"""What sensitivity is measured for, in the order in which a key goes through them."""


def scheme_words(scheme: Scheme) -> str:
    """Say what is done to a weight, in a few words."""
    match scheme.change:
        case "values":
            return f"{scheme.share:.0%} of values zero".replace("%", " %")
        case "channels":
            return f"{scheme.share:.0%} of channels zero".replace("%", " %")
        case stored:
            short = {"float8_e4m3fn": "fp8 e4m3", "float8_e5m2": "fp8 e5m2"}.get(stored, stored)
            return f"{short} per {scheme.per}"


def next_scheme(scheme: Scheme) -> Scheme:
    """Return the scheme after one, in a circle."""
    at = SCHEMES.index(scheme) if scheme in SCHEMES else -1
    return SCHEMES[(at + 1) % len(SCHEMES)]
