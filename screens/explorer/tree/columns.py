"""Which columns the tree shows at a width, and how wide each is: every row adds up to the width.

A row: cursor 1 | indent, fold, name, type | columns, each with the gap before it | pad | divider.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.queries.tree.columns import OF_A_STEP, WITHOUT_FORWARD, ColumnName

Form: TypeAlias = Literal["wide", "narrow", "tiny"]
Place: TypeAlias = ColumnName | Literal["trend"]
"""What stands in a row: a column, or the arrow beside the times."""

LONGEST_NAME = 44
"""Wider, and the eye loses the row on its way to the figures."""


class Column(Struct, frozen=True):
    """One column."""

    name: Place
    cells: int
    gap: int
    """Blank cells before it."""


class Columns(Struct, frozen=True):
    """What one row is made of, from left to right; the sum is ``cells``."""

    cells: int
    name_cells: int
    """Indent, fold, name and type together."""
    columns: tuple[Column, ...]
    pad: int
    """Blank cells after the last column."""
    divider: bool

    @property
    def names(self) -> tuple[ColumnName, ...]:
        """What the columns say, without the arrow."""
        return tuple(column.name for column in self.columns if column.name != "trend")

    @property
    def bar_cells(self) -> int:
        """Cells of the bar, 0 where there is none."""
        return next((column.cells for column in self.columns if column.name == "bar"), 0)


_PARAMS = Column("params", 6, 1)
_MACS = Column("macs", 6, 1)
_BYTES = Column("bytes", 9, 1)
_INTENSITY = Column("intensity", 6, 1)
_SECONDS = Column("seconds", 6, 1)
_SECONDS_APART = Column("seconds", 6, 2)
_TREND = Column("trend", 1, 0)
_P95 = Column("p95", 7, 0)
_SHARE = Column("share", 4, 0)
_SHARE_APART = Column("share", 4, 1)
_BAR = Column("bar", 12, 2)
_SHORT_BAR = Column("bar", 8, 2)
_LONG_BAR = Column("bar", 16, 2)
_BOUND = Column("bound", 1, 1)
_BOUND_NEAR = Column("bound", 1, 0)
_FORWARD = Column("forward", 6, 1)
_FORWARD_APART = Column("forward", 6, 2)
_BACKWARD = Column("backward", 6, 1)
_RECOMPUTE = Column("recompute", 7, 1)
_STEP = Column("step", 5, 2)
"""Its title fills it, and the arrow of the order stands before that."""
_BACKWARD_BOUND = Column("backward_bound", 1, 1)
_GRADIENTS = Column("gradients", 9, 1)


class _Choice(Struct, frozen=True):
    """A set of columns, and the least room for names that makes it worth having."""

    least_name: int
    longest_bar: int
    columns: tuple[Column, ...]


_MEASURES = (_SECONDS_APART, _TREND, _P95, _SHARE_APART, _BAR, _BOUND)
_WIDE = (
    _Choice(30, 32, (_PARAMS, _MACS, _BYTES, _INTENSITY, *_MEASURES)),
    _Choice(30, 32, (_PARAMS, _MACS, _BYTES, *_MEASURES)),
    _Choice(40, 32, (_PARAMS, _MACS, *_MEASURES)),
    _Choice(26, 32, (_PARAMS, _MACS, _SECONDS, _TREND, _SHARE, _BAR, _BOUND)),
    _Choice(20, 10, (_PARAMS, _MACS, _SECONDS, _TREND, _SHARE, _SHORT_BAR, _BOUND)),
    _Choice(15, 10, (_MACS, _SECONDS, _TREND, _SHARE, _SHORT_BAR, _BOUND)),
    _Choice(12, 0, (_SECONDS, _TREND, _SHARE, _BOUND)),
)
_NARROW = (
    _Choice(LONGEST_NAME, 32, (_PARAMS, _MACS, _SECONDS_APART, _TREND, _SHARE, _LONG_BAR, _BOUND)),
    _Choice(28, 32, (_MACS, _SECONDS_APART, _TREND, _SHARE, _LONG_BAR, _BOUND)),
    _Choice(20, 16, (_MACS, _SECONDS_APART, _TREND, _SHARE, _SHORT_BAR, _BOUND)),
    _Choice(12, 0, (_SECONDS, _TREND, _SHARE, _BOUND)),
)
_TINY = (_Choice(0, 0, (_SECONDS, _TREND, _SHARE)),)
_CHOICES: dict[Form, tuple[_Choice, ...]] = {"wide": _WIDE, "narrow": _NARROW, "tiny": _TINY}
_PER_STEP = (_FORWARD, _TREND, _BOUND_NEAR, _BACKWARD, _BACKWARD_BOUND, _RECOMPUTE, _STEP)
_PER_STEP_APART = (_FORWARD_APART, *_PER_STEP[1:])
_TRAINING: dict[Form, tuple[_Choice, ...]] = {
    "wide": (
        _Choice(30, 32, (_PARAMS, _MACS, *_PER_STEP_APART, _GRADIENTS, _BAR)),
        _Choice(26, 32, (_PARAMS, _MACS, *_PER_STEP_APART, _BAR)),
        _Choice(22, 10, (_MACS, *_PER_STEP, _SHORT_BAR)),
        _Choice(18, 10, (*_PER_STEP, _SHORT_BAR)),
        _Choice(12, 0, (_FORWARD, _BACKWARD, _STEP, _BOUND)),
        _Choice(12, 0, (_STEP, _BOUND)),
    ),
    "narrow": (
        _Choice(28, 32, (_MACS, *_PER_STEP_APART, _SHORT_BAR)),
        _Choice(18, 16, (*_PER_STEP_APART, _SHORT_BAR)),
        _Choice(12, 0, (_FORWARD, _BACKWARD, _STEP, _BOUND)),
        _Choice(12, 0, (_STEP, _BOUND)),
    ),
    "tiny": (_Choice(14, 0, (_FORWARD, _BACKWARD, _STEP)), _Choice(0, 0, (_STEP,))),
}
"""Where shares are of the step: all times are per step, and each class stands at what it judges."""
_PARAMETERS = (
    _Choice(26, 32, (_PARAMS, _BYTES, _SHARE_APART, _LONG_BAR)),
    _Choice(14, 10, (_PARAMS, _BYTES, _SHARE_APART, _SHORT_BAR)),
    _Choice(10, 0, (_PARAMS, _SHARE)),
)
_CHOSEN: dict[ColumnName, tuple[Column, ...]] = {
    "params": (_PARAMS,),
    "macs": (_MACS,),
    "flops": (Column("flops", 6, 1),),
    "bytes": (_BYTES,),
    "intensity": (_INTENSITY,),
    "activations": (Column("activations", 9, 1),),
    "in": (Column("in", 16, 1),),
    "out": (Column("out", 16, 1),),
    "seconds": (_SECONDS_APART, _TREND),
    "self": (Column("self", 7, 1),),
    "cpu": (Column("cpu", 7, 1),),
    "mean": (Column("mean", 7, 1),),
    "p95": (Column("p95", 7, 1),),
    "calls": (Column("calls", 5, 1),),
    "share": (_SHARE_APART,),
    "bar": (_SHORT_BAR,),
    "bound": (Column("bound", 1, 2),),
    "energy": (Column("energy", 8, 1),),
    "forward": (_FORWARD,),
    "backward": (_BACKWARD,),
    "recompute": (_RECOMPUTE,),
    "step": (_STEP,),
    "backward_bound": (_BACKWARD_BOUND,),
    "gradients": (_GRADIENTS,),
}
_LEAST_NAMES: dict[Form, int] = {"wide": 20, "narrow": 20, "tiny": 12}
"""Room for names that columns of the user's choice leave; the last of them yield."""
_LONGEST_CHOSEN_BAR = 32
_PADS: dict[Form, int] = {"wide": 2, "narrow": 2, "tiny": 1}
_CURSOR = 1


def columns_for(
    cells: int,
    form: Form,
    *,
    has_forward: bool = True,
    of_step: frozenset[ColumnName] = frozenset(),
    chosen: tuple[ColumnName, ...] = (),
) -> Columns:
    """Choose the columns for a row of ``cells``; names come first, then more figures, then bars.

    Args:
        cells: of the row.
        form: of the screen.
        has_forward: parameters alone have neither work nor times.
        of_step: columns of a training step that have figures; with ``step`` shares are of it.
        chosen: by the user, from left to right; none leaves it to us.
    """
    divider = form == "wide"
    edge = _PADS[form] + divider
    wanted = tuple(name for name in chosen if has_forward or name in WITHOUT_FORWARD)
    choices = _CHOICES[form] if has_forward else _PARAMETERS
    if "step" in of_step and has_forward:
        choices = tuple(_with_figures(choice, of_step) for choice in _TRAINING[form])
    if wanted:
        choices = _of_the_user(wanted, _LEAST_NAMES[form])
    taken = next(
        (choice for choice in choices if _room(cells, choice, edge) >= choice.least_name), None
    )
    if taken is None:
        return _names_only(cells, divider=divider)
    room = _room(cells, taken, edge)
    bar = next((column for column in taken.columns if column.name == "bar"), None)
    columns = taken.columns
    if bar is not None:
        # A long name is worth more than a long bar, up to the length that names may have.
        for_names = LONGEST_NAME if taken.longest_bar > 16 else taken.least_name
        more = max(0, min(room - for_names, taken.longest_bar - bar.cells))
        room -= more
        wider = Column("bar", bar.cells + more, bar.gap)
        columns = tuple(wider if column is bar else column for column in columns)
    name_cells = min(room, LONGEST_NAME) if bar is not None or wanted else room
    return Columns(cells, name_cells, columns, _PADS[form] + room - name_cells, divider)


def _with_figures(choice: _Choice, of_step: frozenset[ColumnName]) -> _Choice:
    """Return a set of columns without those of a step that say nothing."""
    kept = tuple(
        column
        for column in choice.columns
        if column.name not in OF_A_STEP or column.name in of_step
    )
    return replace(choice, columns=kept)


def _of_the_user(names: tuple[ColumnName, ...], least_name: int) -> tuple[_Choice, ...]:
    """Return all of the user's columns, then without the last one, and so on to the first alone."""
    return tuple(
        _Choice(
            least_name if count > 1 else 0,
            _LONGEST_CHOSEN_BAR,
            tuple(column for name in names[:count] for column in _CHOSEN[name]),
        )
        for count in range(len(names), 0, -1)
    )


def _room(cells: int, choice: _Choice, edge: int) -> int:
    return cells - _CURSOR - edge - sum(column.cells + column.gap for column in choice.columns)


def _names_only(cells: int, *, divider: bool) -> Columns:
    """Return what is left where not even the figures fit."""
    room = max(cells - _CURSOR, 0)
    with_divider = divider and room > 1
    return Columns(cells, room - with_divider, (), 0, with_divider)
