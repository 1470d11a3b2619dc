"""One forward by depth as text: what is selected, then two rows a level, names above blocks.

1. A block's last cell is half a one, so that neighbours of one colour are told apart.
2. A row of half cells is several modules, each too short for a block of its own.
"""

from msgspec import Struct

from tui_profiler.figures.units import duration, share_cell, thousands
from tui_profiler.figures.units import share as share_text
from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import middle, safe, width
from tui_profiler.messages import SlowForward
from tui_profiler.queries.cost.bound import bound, kinds_seen
from tui_profiler.queries.cost.bound_classes import LETTERS
from tui_profiler.queries.forward.flame import Flame, module_of, spot
from tui_profiler.queries.forward.strip import ELSEWHERE, Segment, Strip, place
from tui_profiler.queries.time.base import base, forward_share
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.tree.names import fitted
from tui_profiler.queries.tree.names import shown as shown_name

from ...widgets.bound_lines import verdict
from ...widgets.identity_lines import detail_of, title_of
from ...widgets.lines import EMPTY, Line, Span, exact, line_width
from ...widgets.rows import PAD, Look, absent, columns, pending, row, section
from ...widgets.strip_lines import bar
from ...widgets.timing_lines import why_not_measured

LEVEL_ROWS = 2
HEAD_ROWS = 3
ROOMY = 20
"""Rows from which on a blank one stands below the figures."""
LEAST_NAME = 6
"""Cells; a name cut further tells nothing."""
_FAINT_BELOW = 0.005


class Drawn(Struct, frozen=True):
    """Blocks, and how many cells of each belong to each of ``KINDS``."""

    flame: Flame
    colours: tuple[tuple[tuple[int, ...], ...], ...]
    """By level and block; an empty one is grey."""

    @property
    def measured(self) -> bool:
        """False: widths are shares of what a forward costs on paper."""
        return bool(self.flame.levels) and self.flame.levels[0].measured


def flame_lines(
    look: Look, drawn: Drawn, rows: int, slow: SlowForward | None = None
) -> tuple[Line, ...]:
    """Return at most ``rows`` lines: a title, what is selected, and as many levels as fit.

    Args:
        look: of a session with the times that are drawn.
        drawn: the blocks.
        rows: at most so many.
        slow: the one forward that the times are of; None: they are means.
    """
    tree = look.tree
    if tree is None:
        return (section("one forward", "", look), row((("no tree", "muted"),), EMPTY, look))
    if not drawn.flame.levels:
        is_coming, why = why_not_measured(look.session, drawn.flame.root)
        said = (pending if is_coming else absent)("times", why, look)
        return (_title(look, drawn, slow), _selected(look), *said)[:rows]
    at = spot(drawn.flame, module_of(tree, look.node))
    blank: tuple[Line, ...] = (EMPTY,) if rows >= ROOMY else ()
    room = (rows - HEAD_ROWS - len(blank)) // LEVEL_ROWS
    first, count = _window(drawn, at[0] if at else 0, room)
    head = (_title(look, drawn, slow), _selected(look), _figures(look, drawn, first, count), *blank)
    lines: list[Line] = []
    for number in range(first, first + count):
        marked = at[1] if at is not None and at[0] == number else None
        lines += _level(look, drawn, number, marked)
    return (*head, *lines)[:rows]


def legend(look: Look, drawn: Drawn) -> Line:
    """Return what the colours mean."""
    if not drawn.measured:
        tree = look.tree
        costs = "MACs" if tree is None or tree.has_forward else "parameters"
        said = f"grey is on paper: widths are shares of the {costs}, in the order of the tree"
        return row(((said, "muted"),), EMPTY, look)
    spans: list[Span] = [("bound by ", "muted")]
    for kind in kinds_seen(look.session):
        spans += [(f" {look.glyphs.full}{look.glyphs.half} ", kind), (kind, "muted")]
    means = (
        "  blank: a recording with medians only"
        if drawn.flame.is_uneven
        else ": outside its modules"
    )
    spans += [(f"  {_gap(look.glyphs) * 2} ", "faint"), (f"self{means}", "muted")]
    return row(tuple(spans), EMPTY, look)


def _title(look: Look, drawn: Drawn, slow: SlowForward | None) -> Line:
    tree, tick = look.session.tree, look.session.tick
    inside = ""
    if tree is not None and drawn.flame.root:
        room = max(look.inner // 2 - 14, 8)
        path = middle(title_of(tree, drawn.flame.root), room, look.glyphs.ellipsis)
        inside = f" {look.glyphs.crumb} {path}"
    if slow is not None:
        is_slowest = slow is look.session.slow[0]
        of = "slowest forward" if is_slowest else "last slow forward"
        return section(f"{of}{inside}", f"measured, forward {thousands(slow.forward)}", look)
    if drawn.measured:
        calls = ""
        if tick is not None and tick.mean_forwards:
            calls = f", mean of {thousands(tick.mean_forwards)} forwards"
        elif tick is not None:
            calls = f", median of the last {thousands(tick.window)} forwards"
        return section(f"one forward{inside}", f"measured{calls}", look)
    has_forward = tree is None or tree.has_forward
    costs = "shares of MACs" if has_forward else "no forward: shares of parameters"
    return section(f"one forward{inside}, on paper", costs, look)


def _named(look: Look) -> Line:
    tree = look.tree
    if tree is None:
        return EMPTY
    path = fitted(title_of(tree, look.node), max(look.inner // 2, 8), look.glyphs.ellipsis)
    return ((path, "strong ink"), (f"  {detail_of(tree, look.node)}", "muted"))


def _selected(look: Look) -> Line:
    return row(_named(look), verdict(bound(look.session, look.node), look), look)


def _figures(look: Look, drawn: Drawn, first: int, count: int) -> Line:
    """Return the row of figures: of the selected node left, what is not drawn right."""
    session, node = look.session, look.node
    seconds, part = node_seconds(session, node), forward_share(session, node)
    parts: list[Line] = []
    if drawn.measured:
        parts.append(((duration(seconds) if seconds is not None else look.glyphs.dash, "ink"),))
        of_base: Line = EMPTY
        if part is not None:
            whole = base(session)
            words = "" if whole.name == "forward" else f" {whole.words}"
            of_base = ((f"   {share_text(part)}", "ink"), (words, "muted"))
        parts.append(of_base)
    elif part is not None:
        parts.append(((share_text(part), "ink"), (" of the whole, on paper", "muted")))
    timing = session.timings.of(node) if session.timings is not None else None
    if timing is not None:
        parts.append((("   self ", "muted"), (duration(timing.own_per_forward), "ink")))
    windowed = session.windows.shares(node) if session.windows is not None else None
    if windowed is not None:
        host = duration(windowed.host)
        parts.append((("   host ", "muted"), (host, "ink"), (" in the last window", "muted")))
    # What is not drawn matters more than what was measured besides time and share.
    room = look.inner - sum(map(line_width, parts[:2])) - 1
    said = _not_drawn(drawn, first, count)
    right = next((text for text in said if width(text) <= room), said[-1])
    return columns(parts or [EMPTY], ((right, "muted"),), look)


def _not_drawn(drawn: Drawn, first: int, count: int) -> tuple[str, ...]:
    """Say what is not drawn, the longest form first."""
    hidden = drawn.flame.hidden
    short = f"+{thousands(hidden)} too short to show" if hidden else ""
    below = len(drawn.flame.levels) - first - count
    levels = [f"{number} more {side}" for number, side in ((first, "above"), (below, "below"))]
    more = "  ".join(text for text in levels if not text.startswith("0"))
    return (f"{more}  {short}".strip(), short)


def _window(drawn: Drawn, selected: int, room: int) -> tuple[int, int]:
    """Return the first level to show, and how many: the selected one and what is inside it."""
    levels = len(drawn.flame.levels)
    count = max(min(room, levels), 0)
    return max(min(selected + 2 - count, levels - count), 0), count


def _level(look: Look, drawn: Drawn, number: int, marked: Segment | None) -> tuple[Line, Line]:
    names: list[Span] = []
    blocks: list[Span] = []
    at = 0
    colours = drawn.colours[number]
    for segment, widths in zip(drawn.flame.levels[number].segments, colours, strict=True):
        blank = (" " * (segment.start - at), "ink")
        names += [blank, *_name(look, drawn, segment, is_marked=segment is marked)]
        blocks += [blank, *_block(segment, widths, look.glyphs)]
        at = segment.start + segment.cells
    inner, ellipsis = look.inner, look.glyphs.ellipsis
    return (
        (*PAD, *exact(tuple(names), inner, ellipsis), *PAD),
        (*PAD, *exact(tuple(blocks), inner, ellipsis), *PAD),
    )


def _block(segment: Segment, widths: tuple[int, ...], glyphs: Glyphs) -> Line:
    if segment.first == ELSEWHERE:
        return ((_gap(glyphs) * segment.cells, "faint"),)
    drawn = bar(segment, widths, glyphs)
    if not segment.alone:
        return tuple((glyphs.half * len(part), role) for part, role in drawn)
    part, role = drawn[-1]
    return (*drawn[:-1], (part[:-1] + glyphs.half, role))


def _gap(glyphs: Glyphs) -> str:
    return glyphs.track if glyphs.track.strip() else glyphs.zero


def _name(look: Look, drawn: Drawn, segment: Segment, *, is_marked: bool) -> Line:
    """Return a block's name in exactly its cells, with the mark of what is selected."""
    line = _fitting(look, drawn, segment, segment.cells - 1)
    if is_marked:
        return exact(_marked(look, drawn, segment, line), segment.cells)
    return exact(line, segment.cells)


def _marked(look: Look, drawn: Drawn, segment: Segment, name: Line) -> Line:
    """Underline the selected block to its end; of one that is not drawn, about where it lies."""
    tree = look.session.tree
    assert tree is not None
    node, under = module_of(tree, look.node), look.glyphs.under
    taken, gap = line_width(name), 1 if name else 0
    if segment.first == node and segment.alone:
        length = max(segment.cells - 1 - taken - gap, 0 if name else 1)
        named: Line = tuple((part, "strong accent") for part, _ in name)
        return (*named, (" " * gap + under * length, "accent"))
    found = place(look.session, Strip((segment,), drawn.measured), node)
    start, length = found if found is not None else (segment.start, 1)
    start -= segment.start
    before = exact(name if taken + gap <= start else EMPTY, start)
    return (*before, (under * length, "accent"))


def _fitting(look: Look, drawn: Drawn, segment: Segment, room: int) -> Line:
    tree = look.session.tree
    if tree is None or not segment.alone or room < 1:
        return EMPTY
    part = None if segment.first == ELSEWHERE else forward_share(look.session, segment.first)
    percent = f" {share_cell(segment.share if part is None else part)} %"
    if segment.first == ELSEWHERE:
        forms = (f"self{percent}", "self")
        return next((((text, "faint"),) for text in forms if width(text) <= room), EMPTY)
    role = "muted" if segment.share >= _FAINT_BELOW else "faint"
    name = safe(shown_name(tree.nodes[segment.first].name))
    letter = _letter(look, drawn, segment)
    for text in (name + percent, name):
        if width(text) + line_width(letter) <= room:
            return ((text, role), *letter)
    if width(name) <= room:
        return ((name, role),)
    return ((middle(name, room, look.glyphs.ellipsis), role),) if room >= LEAST_NAME else EMPTY


def _letter(look: Look, drawn: Drawn, segment: Segment) -> Line:
    found = bound(look.session, segment.first) if drawn.measured else None
    if found is None or not found.measured:
        return EMPTY
    return ((f" {LETTERS[found.kind]}", found.kind if segment.share >= _FAINT_BELOW else "faint"),)
