"""What the values of parameters are like, as lines: the whole, then tensor by tensor."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE, thousands
from tui_profiler.formatting.text import fit, middle, safe
from tui_profiler.messages import TensorStatistics, known
from tui_profiler.queries.parameters.rollup import rolled_up
from tui_profiler.reports.parameters_text import (
    HEADS,
    LEGEND,
    how_rows,
    says,
    tensor_cells,
    tensors_told,
    type_cell,
    whole_rows,
    why_no_cells,
)
from tui_profiler.reports.text_parts import field, heading, in_cells
from tui_profiler.session import Session

_COLUMNS = "".join(f"{head:>{cells}}" for head, cells in HEADS)
_LEAST_NAME = 14


def parameter_lines(session: Session, cells: int, top: int | None) -> list[str]:
    """Give the section; nothing where the values were not looked at.

    Args:
        session: as it was left.
        cells: of the widest line.
        top: only so many tensors, the largest.
    """
    found = session.parameters
    if found is None:
        return []
    whole = rolled_up(session).get(0)
    tensors = tensors_told(session, found, top)
    says_which = "every value looked at"
    if top is not None:
        says_which = f"the {len(tensors)} largest of {thousands(len(found.tensors))} tensors"
    room = max(cells - len(_COLUMNS), _LEAST_NAME)
    rows = [*(whole_rows(whole) if whole is not None else ()), *how_rows(found)]
    return [
        "",
        heading("values of parameters", says(found)),
        *(field(label, text) for label, text in rows),
        "",
        heading("tensors", says_which),
        fit("", room) + _COLUMNS,
        *(_tensor(one, room) for one in tensors),
        *LEGEND,
        *_odd(tensors, cells),
    ]


def _tensor(one: TensorStatistics, room: int) -> str:
    name = fit(middle(safe(one.name), room - 1), room)
    figures = tensor_cells(one)
    if figures is None:
        return f"{name}{type_cell(one.dtype):>9}  {UNAVAILABLE} {safe(why_no_cells(one))}".rstrip()
    return name + "".join(
        f"{text:>{cells}}" for text, (_, cells) in zip(figures, HEADS, strict=True)
    )


def _odd(tensors: list[TensorStatistics], cells: int) -> list[str]:
    """Give what should be looked at: values that are no numbers, dead and doubled channels."""
    lines = []
    for one in tensors:
        said = []
        if one.moments is not None and one.moments.nans:
            said.append(f"{thousands(one.moments.nans)} NaN")
        if one.moments is not None and one.moments.infinities:
            said.append(f"{thousands(one.moments.infinities)} infinite")
        if one.channels is not None:
            rows = one.channels
            alike = known(rows.near_duplicates)
            said += [f"{thousands(rows.dead)} of {thousands(rows.count)} channels dead"] * (
                rows.dead > 0
            )
            said += [f"{thousands(rows.outliers)} outlier channels"] * (rows.outliers > 0)
            if alike:
                said.append(f"{thousands(int(alike))} rows like another")
        if said:
            lines.append(in_cells(f"{safe(one.name)}: {', '.join(said)}", cells))
    return ["", heading("worth a look", ""), *lines] if lines else []
