"""Attention written by hand, found in a recorded graph, and put as one fused operator.

What is found is ``softmax(q @ k^T * scale + mask) @ v``, with the scale anywhere before the mask or
in ``q``, and nothing else that reads the products between.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.fx import Graph, GraphModule, Node

_aten = torch.ops.aten
_SOFTMAX = (_aten.softmax.int, _aten._softmax.default)
_PRODUCTS = (_aten.matmul.default, _aten.bmm.default)
_SCALES = (_aten.mul.Tensor, _aten.mul.Scalar, _aten.div.Tensor, _aten.div.Scalar)
_MASKS = (_aten.masked_fill.Scalar, _aten.masked_fill.Tensor)
_PASSING = (
    *(_aten.to.dtype, _aten._to_copy.default, _aten.contiguous.default, _aten.clone.default),
    *(_aten.dropout.default, _aten.detach.default, _aten.alias.default),
)
_LEAST_MASKED = -1e4
"""What is filled in where nothing is to be seen: minus infinity, or a large number."""


class Attention(NamedTuple):
    """One that was found."""

    queries: Node
    keys_transposed: Node
    values: Node
    scale: float
    mask: Node | None
    is_masked_out: bool
    """The mask says what is not seen, as against: it is added."""
    end: Node
    """Its last operator."""


def attentions(graph: Graph) -> list[Attention]:
    """Give all that are found in a graph."""
    found = (_around(node) for node in graph.nodes if node.target in _SOFTMAX)
    return [one for one in found if one is not None]


def fuse(graph_module: GraphModule) -> int:
    """Put one fused operator in the place of each, in place; gives how many there were."""
    graph = graph_module.graph
    found = attentions(graph)
    for one in found:
        with graph.inserting_before(one.end):
            keys = graph.call_function(_aten.transpose.int, (one.keys_transposed, -2, -1))
            mask = one.mask
            if mask is not None and one.is_masked_out:
                mask = graph.call_function(_aten.logical_not.default, (mask,))
            fused = graph.call_function(
                torch.nn.functional.scaled_dot_product_attention,
                (one.queries, keys, one.values),
                {"attn_mask": mask, "scale": one.scale},
            )
        one.end.replace_all_uses_with(fused)
        graph.erase_node(one.end)
    graph.eliminate_dead_code()
    graph.lint()
    graph_module.recompile()
    return len(found)


def _around(softmax: Node) -> Attention | None:
    if not _is_over_last_axis(softmax):
        return None
    end = _product_below(softmax)
    values = end.args[1] if end is not None else None
    if end is None or not isinstance(values, Node):
        return None
    above = _above(softmax)
    if above is None:
        return None
    product, scale, mask, is_masked_out = above
    queries, keys = product.args[0], product.args[1]
    if not isinstance(queries, Node) or not isinstance(keys, Node):
        return None
    return Attention(queries, keys, values, scale, mask, is_masked_out, end)


def _is_over_last_axis(softmax: Node) -> bool:
    axis = softmax.args[1]
    shape = _shape(softmax)
    return bool(axis == -1 or (shape is not None and axis == len(shape) - 1))


def _product_below(softmax: Node) -> Node | None:
    """Give the product with the values, where nothing else reads the weights of attention."""
    node = softmax
    while len(node.users) == 1:
        reader = next(iter(node.users))
        if reader.target in _PRODUCTS:
            return reader if reader.args[0] is node and reader.args[1] is not node else None
        if reader.target not in _PASSING or _drops(reader):
            return None
        node = reader
    return None


def _drops(node: Node) -> bool:
    """Say whether a dropout is one in training."""
    return node.target is _aten.dropout.default and bool(node.args[2])


def _above(softmax: Node) -> tuple[Node, float, Node | None, bool] | None:
    """Give the product of queries and keys, the scale, and the mask with whether it hides."""
    node, scale = softmax.args[0], 1.0
    mask: Node | None = None
    is_masked_out = False
    while isinstance(node, Node) and len(node.users) == 1:
        if node.target in _PRODUCTS:
            return node, scale, mask, is_masked_out
        if node.target in _PASSING and not _drops(node):
            node = node.args[0]
        elif node.target in _SCALES and isinstance(node.args[1], int | float):
            by = float(node.args[1])
            scale = scale * by if "mul" in str(node.target) else scale / by
            node = node.args[0]
        elif node.target in _MASKS and mask is None and scale == 1.0 and _hides(node.args[2]):
            mask, is_masked_out = _node(node.args[1]), True
            node = node.args[0]
        elif node.target is _aten.add.Tensor and mask is None and scale == 1.0:
            node, mask = _told_apart(node)
        else:
            return None
    return None


def _hides(value: object) -> bool:
    return isinstance(value, int | float) and value <= _LEAST_MASKED


def _node(value: object) -> Node | None:
    return value if isinstance(value, Node) else None


def _told_apart(addition: Node) -> tuple[Node | None, Node | None]:
    """Tell the products in an addition from the mask: they have its whole shape."""
    one, other = _node(addition.args[0]), _node(addition.args[1])
    if one is None or other is None or addition.kwargs:
        return None, None
    whole = _shape(addition)
    if _shape(one) == whole and _leads_to_product(one):
        return one, other
    return (other, one) if _shape(other) == whole and _leads_to_product(other) else (None, None)


def _leads_to_product(node: object) -> bool:
    while isinstance(node, Node):
        if node.target in _PRODUCTS:
            return True
        if node.target not in (*_PASSING, *_SCALES):
            return False
        node = node.args[0]
    return False


def _shape(node: Node) -> tuple[int, ...] | None:
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return tuple(value.shape) if value is not None and hasattr(value, "shape") else None
