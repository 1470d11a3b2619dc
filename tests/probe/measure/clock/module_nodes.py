"""Nodes of a module tree as a trace would give them, without tracing: for tests of the clock."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from tui_profiler.messages import Node

CONTAINERS = (nn.ModuleList, nn.ModuleDict)


def node(parent: int, path: str, calls: int = 1, kind: str = "module") -> Node:
    return Node(
        parent=parent,
        kind="module" if kind == "module" else "op",
        name=path.rpartition(".")[2],
        path=path,
        type="",
        calls=calls,
        inputs=(),
        outputs=(),
        weights=(),
        detail="",
        source="",
        called_from="",
    )


def module_nodes(model: nn.Module) -> tuple[Node, ...]:
    """Every module once for each path, called once, but for lists and dictionaries of modules."""
    nodes: list[Node] = []

    def visit(module: nn.Module, parent: int, path: str) -> None:
        index = len(nodes)
        nodes.append(node(parent, path, 0 if isinstance(module, CONTAINERS) else 1))
        for name, child in module._modules.items():
            if child is not None:
                visit(child, index, f"{path}.{name}" if path else name)

    visit(model, -1, "")
    return tuple(nodes)


def paths(nodes: Sequence[Node]) -> list[str]:
    return [one.path for one in nodes]
