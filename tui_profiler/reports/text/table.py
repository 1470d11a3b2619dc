"""A session as a table for a terminal: the short sections, in columns of fixed width.

1. No line is wider than ``columns`` cells, and none holds anything but safe text.
2. Names are cut first; figures never: what has a label goes on in further lines.
3. What was measured and what is on paper stand under headings that say which.
"""

from collections.abc import Iterable, Iterator

from tui_profiler.figures.units import thousands
from tui_profiler.findings import conclusions
from tui_profiler.findings.evidence.finding import gain_text, whole_text
from tui_profiler.findings.trial_verdict import Advice, grouped
from tui_profiler.formatting.text import fit, middle, safe, width, wrap
from tui_profiler.reports.document import Column, Facts, Grid, Note, Part, Section
from tui_profiler.reports.text.sections import findings as findings_text
from tui_profiler.reports.text.sections.table_sections import short_sections
from tui_profiler.reports.text.text import field, heading, in_cells, wrap_field
from tui_profiler.session import Session

LEAST_COLUMNS = 76
"""A narrower terminal wraps the lines: better than losing figures."""
_LEAST_NAME = 14
_MOST_INDENT = 24
_INDENT = " " * 6


def table(
    session: Session, *, columns: int, top: int | None = None, depth: int | None = None
) -> tuple[str, ...]:
    """Return the report as lines.

    Args:
        session: As it was left.
        columns: Cells of the widest line; at least 76 are taken.
        top: Only the layers that cost most by themselves, by time or else by FLOPs.
        depth: Only layers at most so deep; the root is at depth 0. Not with ``top``.
    """
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        return ("the model was not traced: there is nothing to report",)
    return as_table(short_sections(session, tree, top, depth), columns)


def as_table(sections: Iterable[Section], columns: int) -> tuple[str, ...]:
    """Return sections as lines, each below its heading; one without a title has none."""
    cells = max(columns, LEAST_COLUMNS)
    lines: list[str] = []
    for section in sections:
        if section.title:
            says = safe(section.provenance)
            lines += ["", in_cells(heading(safe(section.title), says), cells)]
        lines += [line for part in section.parts for line in _part(part, cells)]
    return tuple(lines)


def _part(part: Part, cells: int) -> Iterator[str]:
    match part:
        case Note(text=text):
            yield in_cells(safe(text), cells)
        case Facts(rows=rows):
            for label, text in rows:
                yield from wrap_field(field(safe(label), safe(text)), cells)
        case Grid():
            for line in _grid(part, cells):
                yield in_cells(line, cells)


def _grid(grid: Grid, cells: int) -> Iterator[str]:
    first, *others = grid.columns
    rest = sum(column.cells for column in others)
    room = first.cells or max(cells - rest, _LEAST_NAME)
    yield fit(first.short, room) + _cells(others, tuple(column.short for column in others))
    for place, row in enumerate(grid.rows):
        name = safe(row[0])
        if grid.asides:
            indent = min(2 * grid.depths[place], _MOST_INDENT, room - _LEAST_NAME)
            shown = " " * indent + _name(name, safe(grid.asides[place]), room - indent)
        else:
            cut = fit(name, room - 1) if first.cells else middle(name, room - 1)
            shown = fit(cut, room)
        yield shown + _cells(others, row[1:])
    if grid.left_out:
        yield f"and {thousands(grid.left_out)} more"


def _name(name: str, aside: str, room: int) -> str:
    """Return a name with what follows it where there is room for both."""
    after = f"  {aside}" if aside and width(name) + 2 + width(aside) <= room else ""
    return fit(middle(name, room) + after, room)


def _cells(columns: list[Column], row: tuple[str, ...]) -> str:
    """Return all cells but the first, each at the right of its column; a sentence ends a row."""
    cells = row if len(row) == len(columns) else row[:-1]
    figures = "".join(
        " " * (column.cells - width(cell)) + cell
        for column, cell in zip(columns, map(safe, cells), strict=False)
    )
    return figures if cells is row else f"{figures}  {safe(row[-1])}"


def findings_lines(session: Session, columns: int) -> tuple[str, ...]:
    """Return the section, with a blank line before it; ``columns`` cells is the widest line."""
    concluded = conclusions(session)
    found = concluded.findings
    left = [f"  {part}" for words in concluded.words for part in wrap(words, columns - 2)]
    if not found:
        said = f"no findings: {concluded.checks} ran, none applies"
        return "", heading("findings", ""), f"  {said}", *left
    lines = ["", heading("findings", findings_text.PROVENANCE)]
    for group, members in grouped(session, found).items():
        lines.append(f"  {findings_text.group_text(group)}")
        for one in members:
            lines += _finding(one, columns)
    return (*lines, *left)


def _finding(advised: Advice, columns: int) -> list[str]:
    one, measured = advised.finding, findings_text.measured_text(advised)
    said = [
        one.why,
        f"evidence: {'; '.join(map(findings_text.evidence_text, one.evidence))}",
        *(f"predicted: {findings_text.gain_line(gain)}" for gain in one.gains),
        *((f"measured: {measured}",) if measured else ()),
        f"trial: {findings_text.trial_text(one)}",
    ]
    head, kind = (
        f"  {gain_text(one.gain):>11} of {whole_text(one.gain):<16} {safe(one.title)}",
        f"[{one.kind}]",
    )
    fits = width(head) + 2 + width(kind) <= columns
    room = columns - len(_INDENT)
    heads = [f"{head}  {kind}"] if fits else [head, f"{_INDENT}{kind}"]
    return [*heads, *(f"{_INDENT}{part}" for text in said for part in wrap(safe(text), room))]
