"""A step of training as text: its parts along time, modules inside, and the slow steps kept.

Blocks are in grey: colour is the measured bound of a node, and no part of a step has one.
"""

from tui_profiler.figures.units import duration, share, share_cell, thousands, written
from tui_profiler.formatting.text import middle, safe, width
from tui_profiler.messages import SlowStep, Unknown, known
from tui_profiler.queries.time.step_seconds import directions
from tui_profiler.queries.training.slow_steps import slow_step_forms, slow_step_words
from tui_profiler.queries.training.source_lines import line_name
from tui_profiler.queries.training.step import NOT_CALLED, PARTS
from tui_profiler.queries.training.step_blocks import Block, Level, slow_step_blocks
from tui_profiler.queries.tree.names import shown as shown_name

from ...widgets.identity_lines import title_of
from ...widgets.lines import EMPTY, Line, Span, exact, line_width
from ...widgets.rows import PAD, Look, row, section, words

LEAST_ROWS = 3
"""A title, names, blocks."""
LEAST_NAME = 6
"""Cells; a name cut further tells nothing."""
_OF_THE_MODEL = ("forward", "backward")
_NAME = 14


def step_lines(look: Look, levels: tuple[Level, ...], root: int, rows: int) -> tuple[Line, ...]:
    """Return at most ``rows`` lines; none where no step was recorded, or there is no room.

    Args:
        look: of a session that was told of steps.
        levels: the blocks of ``step_blocks``.
        root: the module that fills the width; 0 for the whole step.
        rows: at most so many.
    """
    training, tree = look.session.training, look.session.tree
    if training is None or rows < LEAST_ROWS or isinstance(training.step.seconds, Unknown):
        return ()
    recorded = f"measured, mean of {thousands(training.step.recorded)} steps"
    whole = duration(training.step.seconds)
    if not root or tree is None:
        if not levels:
            return ()
        title = section(f"one step, {whole}", recorded, look)
    else:
        own = duration(sum(directions(look.session, root)))
        room = max(look.inner - width(f"one step   , {own} of {whole}  {recorded}") - 4, 8)
        path = middle(title_of(tree, root), room, look.glyphs.ellipsis)
        said = f"one step {look.glyphs.crumb} {path}, {own} of {whole}"
        title = section(said, recorded, look)
        if not levels:
            return (title, row(((NOT_CALLED, "muted"),), EMPTY, look))
    slow = _slow_steps(look)
    drawn = max((rows - 1 - len(slow)) // 2, 1)
    return (title, *(line for level in levels[:drawn] for line in _level(look, level)), *slow)[
        :rows
    ]


def slow_step_lines(look: Look, slow: SlowStep, rows: int) -> tuple[Line, ...]:
    """Return at most ``rows`` lines of one slow step: its parts beside those of the mean step."""
    is_slowest = slow.step == look.session.slow_steps[0].step
    of = "slowest step" if is_slowest else "last slow step"
    title = section(
        f"{of}, {duration(slow.seconds)}", f"measured, step {thousands(slow.step)}", look
    )
    one, mean = slow_step_blocks(look.session, slow, look.inner)
    lines: list[Line] = [title, *_level(look, one)]
    if mean:
        lines += _level(look, mean, "mean step, the same scale")
    lines += words(slow_step_words(look.session, slow), look, "ink")
    lines.append(_cells("part", ("this step", "mean", "longer"), "muted", look))
    training = look.session.training
    usual = training.step.parts if training is not None else None
    for name in PARTS:
        here = getattr(slow.parts, name)
        before = None if usual is None else known(getattr(usual, name))
        if not isinstance(here, Unknown) or before is not None:
            lines.append(_compared(name, known(here), before, look))
    for line in slow.lines:
        part: Line = ((f"{share(line.share)} of other", "muted"),)
        cells = look.inner - line_width(part) - 3
        name_of_line = middle(line_name(line), cells, look.glyphs.ellipsis)
        lines.append(row(((f"  {name_of_line}", "ink"),), part, look))
    return tuple(lines[:rows])


def _compared(name: str, here: float | None, there: float | None, look: Look) -> Line:
    dash = look.glyphs.dash
    longer = dash
    if here is not None and there is not None:
        by = duration(abs(here - there))
        longer = look.glyphs.zero if by == "0.00 µs" else ("+" if here > there else "−") + by
    texts = (written(seconds, duration, dash) for seconds in (here, there))
    return _cells(name, (*texts, longer), "ink", look)


def _cells(name: str, figures: tuple[str, ...], role: str, look: Look) -> Line:
    text = "".join(figure.rjust(11) for figure in figures)
    return row(((name.ljust(_NAME), "muted"), (text, role)), EMPTY, look)


def _level(look: Look, level: Level, said: str = "") -> tuple[Line, Line]:
    """Return names and blocks of a level; ``said`` stands in place of the names."""
    names: list[Span] = []
    blocks: list[Span] = []
    at = 0
    for block in level:
        blank = (" " * (block.start - at), "ink")
        names += [blank, *exact(_name(look, block, block.cells - 1), block.cells)]
        blocks += [blank, _drawn(look, block)]
        at = block.start + block.cells
    ellipsis = look.glyphs.ellipsis
    return (
        (*PAD, *exact(((said, "faint"),) if said else tuple(names), look.inner, ellipsis), *PAD),
        (*PAD, *exact(tuple(blocks), look.inner, ellipsis), *PAD),
    )


def _drawn(look: Look, block: Block) -> Span:
    """Return a block whose last cell is half a one, so that neighbours are told apart."""
    glyphs = look.glyphs
    if block.part == "other":
        return (glyphs.track * block.cells, "faint")
    role = "ink" if block.part in _OF_THE_MODEL else "faint"
    return (glyphs.full * (block.cells - 1) + glyphs.half, role)


def _name(look: Look, block: Block, room: int) -> Line:
    """Return the longest name that fits; that of a part is never cut."""
    tree, name, role = look.session.tree, str(block.part), "muted"
    if block.node is not None and tree is not None:
        name = safe(shown_name(tree.nodes[block.node].name))
        is_here = block.node <= look.node < tree.ends[block.node]
        role = "strong accent" if is_here else "muted"
    for text in (f"{name} {share_cell(block.share)} %", name):
        if width(text) <= room:
            return ((text, role),)
    if block.node is None or room < LEAST_NAME:
        return EMPTY
    return ((middle(name, room, look.glyphs.ellipsis), role),)


def _slow_steps(look: Look) -> tuple[Line, ...]:
    """Return the slowest step, and the last slow one where that is another: a row each.

    A new one must not move what stands below; its own screen has all that is known of it.
    """
    kept = look.session.slow_steps
    named: list[tuple[str, SlowStep]] = [("slowest", one) for one in kept[:1]]
    named += [("last slow", one) for one in kept[1:2] if one.step != kept[0].step]
    return tuple(_slow_step(look, name, one) for name, one in named)


def _slow_step(look: Look, name: str, one: SlowStep) -> Line:
    """Return the longest form that fits."""
    label = f"{name} step {thousands(one.step)}  "
    forms = slow_step_forms(look.session, one)
    room = look.inner - width(label)
    said = next((form for form in forms if width(form) <= room), forms[-1])
    return row(((label, "muted"), (said, "ink")), EMPTY, look)
