"""The inside section: a leaf's operators, or a block's slowest modules."""

from tui_profiler.figures.units import count, duration, share_cell, size, written
from tui_profiler.formatting.text import safe, width
from tui_profiler.queries.cost.bound_classes import LETTERS
from tui_profiler.queries.panel.neighbours import (
    Inside,
    is_block,
    operator_count,
    operators,
    slowest_children,
)
from tui_profiler.queries.time.base import base
from tui_profiler.queries.tree.names import fitted
from tui_profiler.session import Tree

from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row, section

MOST = 5


def inside_lines(look: Look) -> tuple[Line, ...]:
    """Return the section with its title; nothing where a node has nothing inside."""
    tree = look.tree
    if tree is None:
        return ()
    if is_block(tree, look.node):
        found = slowest_children(look.session, look.node, MOST)
        timed = any(item.seconds is not None for item in found)
        paper = "most MACs, on paper" if tree.has_forward else "most parameters"
        of_base = f"slowest modules, % {base(look.session).words}"
        title = section("inside", of_base if timed else paper, look)
        return (title, *(_module(item, tree, look) for item in found))
    found = operators(look.session, look.node, MOST)
    if not found:
        return ()
    more = operator_count(tree, look.node) - len(found)
    rest = (row(((f"{more} more", "faint"),), EMPTY, look),) if more > 0 else ()
    title = section("inside", "operators, on paper", look)
    return (title, *(_operator(item, look) for item in found), *rest)


def _module(item: Inside, tree: Tree, look: Look) -> Line:
    figure = written(item.seconds, duration, _macs(item))
    if not tree.has_forward:
        figure = count(tree.costs[item.node].parameters)
    part = f"{share_cell(item.share)} %" if item.share is not None else look.glyphs.dash
    right: Line = ((figure, "ink"), (part.rjust(7), "ink"), *letter(item))
    return row(_name(item, look, 7 + width(figure) + 3), right, look)


def _macs(item: Inside) -> str:
    return f"{written(item.macs, count)} MAC"


def _operator(item: Inside, look: Look) -> Line:
    right: Line = (
        (_macs(item).rjust(9), "ink"),
        (size(item.bytes).rjust(10), "ink"),
        *letter(item),
    )
    return row(_name(item, look, 22), right, look)


def letter(item: Inside) -> Line:
    """Return the class by its letter: coloured where it was measured, grey on paper."""
    if item.kind is None:
        return (("  ·", "faint"),)
    return ((f"  {LETTERS[item.kind]}", item.kind if item.is_measured else "muted"),)


def _name(item: Inside, look: Look, taken: int) -> Line:
    room = max(look.inner - taken - 1, 1)
    return ((fitted(safe(item.name), room, look.glyphs.ellipsis), "ink"),)
