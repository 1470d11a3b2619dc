"""A tree that is cut at a depth: the nodes that a report lists."""

from tui_profiler.session import Tree


def to_depth(tree: Tree, depth: int | None) -> tuple[int, ...]:
    """Return the nodes at most so deep, in preorder; all of them for None.

    The root is at depth 0. A node's figures include everything below it, whether that is listed
    or not.
    """
    if depth is None:
        return tuple(range(len(tree)))
    return tuple(at for at, found in enumerate(tree.depths) if found <= depth)


def modules_to_depth(tree: Tree, depth: int | None) -> tuple[int, ...]:
    """Return the modules of these."""
    return tuple(at for at in to_depth(tree, depth) if tree.nodes[at].kind == "module")
