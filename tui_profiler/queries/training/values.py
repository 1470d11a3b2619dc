"""Values of a training step by module, and where the first NaN was."""

from typing import Literal, NamedTuple, TypeAlias, get_args

from tui_profiler.figures.units import UNAVAILABLE, share, share_cell, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import FoundNan
from tui_profiler.session import Session
from tui_profiler.session.training import NodeValues

ValueColumn: TypeAlias = Literal[
    "largest", "rms", "zeros", "gradient", "parameters", "update", "nan", "inf"
]
COLUMNS: tuple[ValueColumn, ...] = get_args(ValueColumn)

SHARES: tuple[ValueColumn, ...] = ("zeros", "nan", "inf")
"""Columns of shares of elements."""
LEAST_SHARE = 0.001
"""Below it a share is not told from others."""


class ValueRow(NamedTuple):
    """The values of one module."""

    node: int
    path: str
    values: NodeValues

    @property
    def nans(self) -> float | None:
        """Largest share of NaN: of what it returns, its gradient, those of its parameters."""
        return _most(self.values, "nans")

    @property
    def infs(self) -> float | None:
        """Likewise of Inf."""
        return _most(self.values, "infs")

    def figure(self, column: ValueColumn) -> float | None:
        """Return the figure in a column; None: not known."""
        values = self.values
        match column:
            case "largest":
                return values.activation.largest if values.activation is not None else None
            case "rms":
                return values.activation.rms if values.activation is not None else None
            case "zeros":
                return values.activation.zeros if values.activation is not None else None
            case "gradient":
                return values.gradient.rms if values.gradient is not None else None
            case "parameters":
                return values.parameters.rms if values.parameters is not None else None
            case "update":
                return values.update_ratio
            case "nan":
                return self.nans
            case "inf":
                return self.infs


def value_text(figure: float | None, column: ValueColumn) -> str:
    """Return the text of a cell; one element in a million is not none."""
    if figure is None:
        return UNAVAILABLE
    if column not in SHARES:
        return f"{figure:.2g}"
    if figure < LEAST_SHARE:
        return "<0.1" if figure else "0"
    return share_cell(figure)


def _most(values: NodeValues, name: str) -> float | None:
    groups = (values.activation, values.gradient, values.parameters)
    found = [getattr(one, name) for one in groups if one is not None]
    return max((one for one in found if one is not None), default=None)


def value_rows(session: Session) -> tuple[ValueRow, ...]:
    """Return the modules whose values were read, in execution order."""
    tree, values = session.tree, session.values
    if tree is None or values is None:
        return ()
    return tuple(
        ValueRow(node, tree.nodes[node].path, found)
        for node in values.nodes
        if node < len(tree) and (found := values.of(node)) is not None
    )


def in_order(
    rows: tuple[ValueRow, ...], column: ValueColumn, *, descending: bool
) -> tuple[ValueRow, ...]:
    """Return rows by a column; those without a figure are last."""

    def key(row: ValueRow) -> tuple[bool, float]:
        found = row.figure(column)
        if found is None:
            return True, 0.0
        return False, -found if descending else found

    return tuple(sorted(rows, key=key))


_KINDS = {
    "input": "the input of the model",
    "activation": "the output of {path}",
    "gradient": "the gradient of the output of {path}",
    "parameter gradient": "the gradient of {name}",
}


def first_nan(session: Session) -> FoundNan | None:
    """Return the first NaN that was seen; None: none was, or its module is not in the tree."""
    values, tree = session.values, session.tree
    found = values.values.first_nan if values is not None else None
    is_there = found is not None and tree is not None and 0 <= found.node < len(tree)
    return found if is_there else None


def nan_place(session: Session, found: FoundNan) -> str:
    """Return ``the gradient of the output of layers.3.mlp``."""
    assert session.tree is not None
    path = session.tree.nodes[found.node].path or "the model"
    return _KINDS[found.kind].format(path=safe(path), name=safe(found.name))


def nan_words(session: Session) -> str:
    """Return where and when the first NaN was seen; empty where none was."""
    found = first_nan(session)
    if found is None:
        return ""
    before = f"; none at step {thousands(found.clean_step)}" if found.clean_step else ""
    where = nan_place(session, found)
    step = thousands(found.step)
    weights = ", its weights have one already" if found.is_in_weights else ""
    return f"NaN first seen at step {step} in {where}, {share(found.share)} of it{weights}{before}"


def values_words(session: Session) -> str:
    """Return the same, or in how many steps there was none; empty where none was read."""
    if session.values is None:
        return ""
    steps = session.values.values.steps
    read = "1 step that was read" if steps == 1 else f"{thousands(steps)} steps that were read"
    return nan_words(session) or f"no NaN in {read}"


def why_no_values(session: Session) -> str:
    """Return why there are no values so far."""
    if session.training is None:
        return "values are read in training steps, and none was seen"
    if session.ended is not None or session.failure is not None:
        return "the program ended before a recorded step was read"
    return "the next recorded step is read"
