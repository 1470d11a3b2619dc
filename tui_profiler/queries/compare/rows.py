"""Visible rows of two aligned trees: folds, filter, order."""

from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.queries.compare import comparison
from tui_profiler.queries.compare.alignment import CHANGE_WORDS, AlignedNode, Alignment

Order: TypeAlias = Literal["tree", "difference"]
_CHANGES = {name: name for name in CHANGE_WORDS} | {
    word: change for change, word in CHANGE_WORDS.items()
}
"""Filter terms for changes: their words, and their names in JSON."""
OPEN_DEPTH = 2
"""Differing nodes up to this depth are unfolded at first."""


class View(Struct, frozen=True):
    """View of a comparison."""

    figure: comparison.FigureName
    order: Order = "tree"
    unfolded: frozenset[int] = frozenset()
    """Nodes of the alignment that show their children."""
    filter: str = ""
    operators: bool = False
    selected: int = 0
    """Node of the alignment under the cursor."""


def first_view(compared: comparison.Comparison, figure: comparison.FigureName) -> View:
    """Return the initial view: unfolded where something differs."""
    alignment = compared.alignment
    if alignment is None:
        return View(figure)
    unfolded = {0}
    for index, one in enumerate(alignment.nodes):
        differs = one.change != "same" and one.depth < OPEN_DEPTH
        if differs and one.parent in unfolded and _differs_inside(alignment, index):
            unfolded.add(index)
    return View(figure, unfolded=frozenset(unfolded))


def _differs_inside(alignment: Alignment, index: int) -> bool:
    """Return whether the children have different changes."""
    inside = {alignment.nodes[child].change for child in alignment.children(index)}
    return len(inside) > 1


def next_figure(view: View, compared: comparison.Comparison) -> View:
    """Return the view of the next figure that both sides have."""
    there = [name for name in comparison.FIGURES if _is_there(compared, name)] or [view.figure]
    place = there.index(view.figure) + 1 if view.figure in there else 0
    return replace(view, figure=there[place % len(there)])


def _is_there(compared: comparison.Comparison, name: comparison.FigureName) -> bool:
    if name == "seconds":
        return compared.a.is_timed or compared.b.is_timed
    alignment = compared.alignment
    if alignment is None:
        return False
    pair = comparison.figure_pair(compared, alignment.nodes[0], name)
    return pair.difference is not None


def visible(compared: comparison.Comparison, view: View) -> tuple[int, ...]:
    """Return the visible nodes of the alignment, in order."""
    return _visible(compared, replace(view, selected=0))


@lru_cache(maxsize=2)
def _visible(compared: comparison.Comparison, view: View) -> tuple[int, ...]:
    alignment = compared.alignment
    if alignment is None:
        return ()
    passing = _passing(compared, view.filter, view.operators) if view.filter.strip() else None
    rows: list[int] = []
    pending = [0]
    while pending:
        index = pending.pop()
        if passing is not None and index not in passing:
            continue
        rows.append(index)
        if passing is not None or index in view.unfolded:
            below = [
                child
                for child in alignment.children(index)
                if view.operators
                or comparison.node_of(compared, alignment.nodes[child]).kind == "module"
            ]
            if view.order == "difference":
                below.sort(key=lambda child: -_distance(compared, alignment.nodes[child], view))
            pending += reversed(below)
    return tuple(rows)


def _distance(compared: comparison.Comparison, one: AlignedNode, view: View) -> float:
    pair = comparison.figure_pair(compared, one, view.figure)
    found = comparison.row_difference(one, pair)
    if found is None:
        return -1.0
    return abs(found) if pair.is_ranked else -0.5  # In the order of the model, after the rest.


def has_children(compared: comparison.Comparison, view: View, index: int) -> bool:
    """Return whether a row can be unfolded."""
    alignment = compared.alignment
    if alignment is None:
        return False
    below = (alignment.nodes[child] for child in alignment.children(index))
    return any(
        view.operators or comparison.node_of(compared, one).kind == "module" for one in below
    )


@lru_cache(maxsize=2)
def _passing(compared: comparison.Comparison, text: str, operators: bool) -> frozenset[int]:
    """Return the nodes that match a filter, and their ancestors."""
    alignment = compared.alignment
    assert alignment is not None
    found: set[int] = set()
    terms = text.casefold().split()
    for index, one in enumerate(alignment.nodes):
        node = comparison.node_of(compared, one)
        if node.kind == "op" and not operators:
            continue
        said = f"{node.path} {node.type}".casefold()
        if all(_passes(term, said, one) for term in terms):
            above = index
            while above >= 0 and above not in found:
                found.add(above)
                above = alignment.nodes[above].parent
    return frozenset(found | {0})


def _passes(term: str, said: str, one: AlignedNode) -> bool:
    if term.startswith("!") and len(term) > 1:
        return not _passes(term[1:], said, one)
    if term in _CHANGES:
        return one.change == _CHANGES[term]
    return term in said


def folded(view: View, compared: comparison.Comparison, index: int, *, unfold: bool) -> View:
    """Fold or unfold a node."""
    if not unfold:
        return replace(view, unfolded=view.unfolded - {index})
    is_open = has_children(compared, view, index)
    return replace(view, unfolded=view.unfolded | {index}) if is_open else view


def folded_to(view: View, compared: comparison.Comparison, depth: int) -> View:
    """Unfold nodes down to a depth, and fold deeper ones; the selection stays visible."""
    alignment = compared.alignment
    if alignment is None:
        return view
    nodes = alignment.nodes
    found = frozenset(i for i, one in enumerate(nodes) if i == 0 or one.depth < depth)
    selected = view.selected
    while selected > 0 and nodes[selected].parent not in found:
        selected = nodes[selected].parent
    return replace(view, unfolded=found, selected=max(selected, 0))


def with_visible_selection(view: View, compared: comparison.Comparison) -> View:
    """Select the nearest visible ancestor, if the selected row is hidden."""
    alignment, rows = compared.alignment, frozenset(visible(compared, view))
    selected = view.selected
    while alignment is not None and selected > 0 and selected not in rows:
        selected = alignment.nodes[selected].parent
    return replace(view, selected=max(selected, 0))


def revealed(view: View, compared: comparison.Comparison, index: int) -> View:
    """Select a node, and unfold its ancestors."""
    alignment = compared.alignment
    if alignment is None:
        return view
    above = set(view.unfolded)
    parent = alignment.nodes[index].parent
    while parent >= 0:
        above.add(parent)
        parent = alignment.nodes[parent].parent
    return replace(view, unfolded=frozenset(above), selected=index)


def next_worst(view: View, compared: comparison.Comparison) -> int:
    """Return the node with the largest self difference after the selected one, cyclically."""
    found = [one.index for one in comparison.worst(compared, view.figure, 100)]
    if not found:
        return view.selected
    place = found.index(view.selected) + 1 if view.selected in found else 0
    return found[place % len(found)]
