"""What the user looks at: a frozen value that every view of one session shares."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.queries.tree.columns import COLUMN_NAMES, COLUMN_WORDS, ColumnName
from tui_profiler.session import Tree

SortKey: TypeAlias = ColumnName | Literal["order", "name"]
SORT_KEYS: tuple[SortKey, ...] = ("order", *COLUMN_NAMES, "name")
SORT_LABELS: dict[SortKey, str] = {
    "order": "execution order",
    "name": "by name",
    **{name: f"by {heading}" for name, (heading, _) in COLUMN_WORDS.items()},
    "seconds": "by time",
    "share": "by share",
    "bar": "by share",
    "bytes": "by bytes",
    "activations": "by activations",
    "self": "by self time",
    "in": "by input elements",
    "out": "by output elements",
    "forward": "by forward",
    "backward": "by backward",
    "recompute": "by recomputation",
    "step": "by step share",
    "backward_bound": "by bound of the backward",
    "gradients": "by gradient bytes",
}

MOST_WRAPPERS = 4
"""Levels of single children that are unfolded at first: a wrapper by itself shows nothing."""


class Focus(Struct, frozen=True):
    """Selected node, root of the view, folds, order and filter."""

    selected: int = 0
    """Index of the node under the cursor."""
    root: int = 0
    """Index of the node drilled down to; 0 shows the whole model."""
    unfolded: bytes = b""
    """One byte for each node of the tree: 1 where its children are shown."""
    sort: SortKey = "order"
    descending: bool = False
    filter_text: str = ""
    """Only nodes whose path or type contains it are shown, with their ancestors."""
    folded_in_filter: frozenset[int] = frozenset()
    """While a filter holds everything it keeps is unfolded, except these."""
    show_operators: bool = False
    grouped: bool = False
    """Equal siblings that follow one another are one row, unless a filter holds."""
    apart: frozenset[int] = frozenset()
    """First nodes of runs that are shown one by one all the same."""
    marked: frozenset[int] = frozenset()
    """Nodes that the user marked."""
    paused: bool = False
    """The view stands still; the model runs on."""


def sort_keys(columns: tuple[ColumnName, ...]) -> tuple[SortKey, ...]:
    """Return what siblings can be sorted by where these columns are shown."""
    return ("order", *(name for name in columns if name != "bar"), "name")


def initial(tree: Tree) -> Focus:
    """Look at a tree for the first time: the root unfolded, and single children with it."""
    unfolded = bytearray(len(tree))
    node = 0
    for _ in range(min(MOST_WRAPPERS, len(tree))):
        unfolded[node] = 1
        inside = tree.modules_in(node)
        if len(inside) != 1:
            break
        node = inside[0]
    return Focus(unfolded=bytes(unfolded))


def carried_over(focus: Focus, old: Tree, new: Tree) -> Focus:
    """Look at a new tree as at the one before: folds, root and selection are kept by path."""
    open_paths = {
        node.path for node, opened in zip(old.nodes, focus.unfolded, strict=True) if opened
    }
    found = {node.path: index for index, node in reversed(list(enumerate(new.nodes)))}
    root = found.get(old.nodes[focus.root].path, 0)
    selected = found.get(old.nodes[focus.selected].path, root)
    return replace(
        focus,
        unfolded=bytes(node.path in open_paths for node in new.nodes),
        root=root,
        selected=selected if root <= selected < new.ends[root] else root,
        folded_in_filter=frozenset(),
        apart=frozenset(),
        marked=frozenset(
            found[path] for node in focus.marked if (path := old.nodes[node].path) in found
        ),
    )


def toggled(focus: Focus, node: int) -> Focus:
    """Fold a node that is unfolded, unfold one that is folded."""
    if focus.filter_text:
        return replace(focus, folded_in_filter=focus.folded_in_filter ^ {node})
    unfolded = bytearray(focus.unfolded)
    unfolded[node] ^= 1
    return replace(focus, unfolded=bytes(unfolded))


def unfolded_to_depth(focus: Focus, tree: Tree, depth: int) -> Focus:
    """Unfold to ``depth`` levels below the root of the view; 0 folds everything in it."""
    start, stop = focus.root, tree.ends[focus.root]
    limit = tree.depths[start] + depth
    inside = bytes(own < limit for own in tree.depths[start:stop])
    unfolded = focus.unfolded[:start] + inside + focus.unfolded[stop:]
    return replace(focus, unfolded=unfolded, folded_in_filter=frozenset())


def all_unfolded(focus: Focus, tree: Tree) -> Focus:
    """Unfold everything below the root of the view."""
    start, stop = focus.root, tree.ends[focus.root]
    unfolded = focus.unfolded[:start] + b"\1" * (stop - start) + focus.unfolded[stop:]
    return replace(focus, unfolded=unfolded, folded_in_filter=frozenset())


def all_folded(focus: Focus, tree: Tree) -> Focus:
    """Fold everything but the root of the view; the selection goes to its ancestor below it."""
    folded = unfolded_to_depth(focus, tree, 1)
    depth = tree.depths[focus.root] + 1
    selected = focus.selected
    while tree.depths[selected] > depth:
        selected = tree.nodes[selected].parent
    return replace(folded, selected=selected)


def revealing(focus: Focus, tree: Tree, node: int) -> Focus:
    """Select a node and unfold everything above it; leaves the root of the view if need be."""
    unfolded = bytearray(focus.unfolded)
    for ancestor in tree.ancestors(node):
        unfolded[ancestor] = 1
    inside = focus.root <= node < tree.ends[focus.root]
    hidden = focus.folded_in_filter.intersection(tree.ancestors(node))
    return replace(
        focus,
        selected=node,
        root=focus.root if inside else 0,
        unfolded=bytes(unfolded),
        folded_in_filter=focus.folded_in_filter - hidden,
        show_operators=focus.show_operators or tree.nodes[node].kind == "op",
    )


def drilled_down(focus: Focus, node: int) -> Focus:
    """Make a node the root of the view, unfolded."""
    unfolded = bytearray(focus.unfolded)
    unfolded[node] = 1
    return replace(focus, root=node, selected=node, unfolded=bytes(unfolded))


def drilled_up(focus: Focus, tree: Tree) -> Focus:
    """Leave the root of the view for its parent; the former root is selected."""
    parent = tree.nodes[focus.root].parent
    if parent < 0:
        return focus
    return replace(drilled_down(focus, parent), selected=focus.root)
