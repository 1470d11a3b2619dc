"""Dataflow between operators: producers and consumers of every operator node."""

from functools import lru_cache

from msgspec import Struct

from tui_profiler.messages import Node
from tui_profiler.session import Tree

CONVOLUTIONS = frozenset(
    {
        "aten::convolution",
        "aten::_convolution",
        "aten::conv1d",
        "aten::conv2d",
        "aten::conv3d",
        "aten::cudnn_convolution",
        "aten::mkldnn_convolution",
        "aten::miopen_convolution",
        "aten::convolution_overrideable",
    }
)
BATCH_NORMS = frozenset(
    {
        "aten::batch_norm",
        "aten::native_batch_norm",
        "aten::_native_batch_norm_legit_no_training",
        "aten::_batch_norm_no_update",
        "aten::cudnn_batch_norm",
        "aten::miopen_batch_norm",
    }
)


class Graph(Struct, frozen=True, eq=False):
    """Edges of a tree, both ways, by operator node."""

    readers: dict[int, tuple[int, ...]]
    """Consumers of its output."""
    writers: dict[int, tuple[int, ...]]
    """Producers of its inputs."""

    def only_reader(self, node: int) -> int | None:
        """Return the only consumer of a node; None where there is not exactly one."""
        found = self.readers.get(node, ())
        return found[0] if len(found) == 1 else None

    def only_writer(self, node: int) -> int | None:
        """Return the only producer of a node's inputs; None where there is not exactly one."""
        found = self.writers.get(node, ())
        return found[0] if len(found) == 1 else None


@lru_cache(maxsize=4)
def graph(tree: Tree) -> Graph:
    """Return the dataflow of a tree."""
    readers: dict[int, set[int]] = {}
    writers: dict[int, set[int]] = {}
    for writer, reader in tree.edges:
        readers.setdefault(writer, set()).add(reader)
        writers.setdefault(reader, set()).add(writer)
    return Graph(
        {node: tuple(sorted(found)) for node, found in readers.items()},
        {node: tuple(sorted(found)) for node, found in writers.items()},
    )


def operators(tree: Tree, names: frozenset[str]) -> list[int]:
    """Return the operator nodes with one of these names, in the tree's order."""
    return [i for i, node in enumerate(tree.nodes) if node.kind == "op" and node.name in names]


def is_evaluating_norm(node: Node) -> bool:
    """Return whether a batch norm uses its running statistics: in training it returns its own."""
    return all(0 in tensor.shape for tensor in node.outputs[1:2])
