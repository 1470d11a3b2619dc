"""Which nodes a text finds: a case-insensitive substring of path, name or type."""

from __future__ import annotations

from tui_profiler.session import Tree


def matches(tree: Tree, text: str, *, operators: bool) -> list[int]:
    """Give the nodes found, in order; an empty text finds none.

    Args:
        tree: a complete tree.
        text: what to look for.
        operators: look at operators as well as at modules.
    """
    needle = text.casefold()
    if not needle:
        return []
    return [
        index
        for index, node in enumerate(tree.nodes)
        if (operators or node.kind == "module")
        and (
            needle in node.path.casefold()
            or needle in node.type.casefold()
            or needle in node.name.casefold()
        )
    ]


def with_ancestors(tree: Tree, found: list[int]) -> bytes:
    """Mark what is found and everything above it, one byte for each node; the root always."""
    kept = bytearray(len(tree))
    nodes = tree.nodes
    if kept:
        kept[0] = 1
    for match in found:
        index = match
        while not kept[index]:
            kept[index] = 1
            index = nodes[index].parent
    return bytes(kept)
