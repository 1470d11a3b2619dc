r"""A report for reading, as Markdown: GitHub's, with its tables.

1. All text is made printable on one line, and what Markdown or HTML would take for markup is
   written so that it stands for itself (CommonMark 0.31, 2.4 and 6; GFM 0.29, 4.10 and 6.9).
2. No text becomes a link, a mention, an issue or a picture by itself.
"""

import re
from collections.abc import Iterator

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.text import safe
from tui_profiler.reports.document import Facts, Grid, Note, Part, Section

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_MARKUP = re.compile(
    r"(?P<entity>[&<>|])"
    r"|(?P<split>@(?=\w)|\#(?=\d))"  # GitHub links people and issues after escapes are gone.
    r"|(?P<mark>[\\`*\[\]~$!#]|(?<![^\W_])_|_(?![^\W_])"
    r"|(?<=www)\.|(?<=http):|(?<=https):|(?<=ftp):|(?<=mailto):|(?<=xmpp):|:(?=[\w+-]+:)"
    r"|^[-+=:](?=[-=:\s]|$)|(?<=^\d)[.)](?=\s|$))",
    re.IGNORECASE,
)
_SPLIT = "<!-- -->"
"""Is not shown, and ends a word."""
_INDENT = "&nbsp;&nbsp;"


def as_markdown(title: str, sections: tuple[Section, ...]) -> tuple[str, ...]:
    """Return the report as lines, an empty one between blocks."""
    lines = [f"# {escaped(title)}"]
    for section in sections:
        lines += ["", f"## {escaped(section.title)}"]
        if section.provenance:
            lines += ["", escaped(section.provenance)]
        for part in section.parts:
            block = list(part_lines(part))
            lines += ["", *block] if block else []
    return tuple(lines)


def escaped(text: str) -> str:
    """Return text escaped for Markdown: in tables, headings, lines."""
    return _MARKUP.sub(_written, safe(text)).strip(" ") or " "


def _written(match: re.Match[str]) -> str:
    found = match[0]
    if match["entity"]:
        return _ENTITIES[found]
    if match["split"]:
        return ("\\#" if found == "#" else found) + _SPLIT
    return f"\\{found}"


def part_lines(part: Part) -> Iterator[str]:
    """Yield the lines of one part."""
    match part:
        case Note(text=text):
            yield escaped(text)
        case Facts(rows=rows):
            yield from _table(("", ""), ("---", "---"), [list(map(escaped, row)) for row in rows])
        case Grid():
            yield from _grid(part)


def _grid(grid: Grid) -> Iterator[str]:
    sides = tuple("---:" if column.side == "right" else "---" for column in grid.columns)
    depths = grid.depths or (0,) * len(grid.rows)
    rows = [
        [_INDENT * depth + escaped(row[0]), *map(escaped, row[1:])]
        for row, depth in zip(grid.rows, depths, strict=True)
    ]
    yield from _table(tuple(escaped(column.title) for column in grid.columns), sides, rows)
    if grid.left_out:
        yield ""
        yield f"and {thousands(grid.left_out)} more"


def _table(titles: tuple[str, ...], sides: tuple[str, ...], rows: list[list[str]]) -> Iterator[str]:
    for row in (titles, sides, *rows):
        yield f"| {' | '.join(row)} |"
