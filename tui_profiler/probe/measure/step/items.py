"""Items and tokens of one forward, as far as the recorded forward shows them.

Of a program that is not ours no other size can be tried. Its first axis counts items only if

1. all inputs that have an axis agree on the first, and so does the first output that has one;
   where none has one (a loss alone), several inputs do;
2. no recurrent network or attention is given time first (``batch_first=False``) along it;
3. no operator contracts it, as a product with an adjacency matrix does, and none picks from it or
   adds into it another number of entries, as edges do of nodes.

Token ids are whole numbers, (batch, tokens) or (tokens, batch), that an embedding looks up.
"""

from collections.abc import Sequence

from torch import nn

from tui_profiler.messages import Figure, Node, Unknown

_TIME_FIRST = (nn.RNNBase, nn.MultiheadAttention)
_PRODUCTS = ("aten::mm", "aten::matmul")
_PICKS = ("aten::index", "aten::index_select", "aten::gather")
_ADDS = ("aten::index_add", "aten::scatter_add", "aten::scatter_reduce")
_NO_AXIS = "the inputs have no batch axis"


def items_of(nodes: Sequence[Node], model: nn.Module) -> Figure:
    """Return the items of the recorded forward, or why they are not known."""
    root = nodes[0]
    given = [one.shape[0] for one in root.inputs if one.shape]
    axes = set(given)
    if not axes:
        return Unknown(_NO_AXIS)
    outputs = next(({one.shape[0]} for one in root.outputs if one.shape), None)
    if len(axes) > 1:
        return Unknown("the inputs do not agree on the first axis: which is the batch is not known")
    if outputs is None and len(given) < 2:
        return Unknown(
            "one input, and no output with an axis: which axis is the batch is not known"
        )
    if outputs is not None and outputs != axes:
        return Unknown("the first axis of the outputs is not that of the inputs: no known batch")
    size = axes.pop()
    modules = dict(model.named_modules())
    for node in nodes:
        why = _why_no_item(node, nodes, modules, size)
        if why:
            return Unknown(why)
    return size


def tokens_of(nodes: Sequence[Node]) -> Figure:
    """Return the token ids that the recorded forward was given, or why it was given none."""
    given = nodes[0].inputs
    first = given[0] if given else None
    no_ids = Unknown("the model is not given token ids")
    if first is None or first.dtype not in ("int64", "int32") or len(first.shape) != 2:
        return no_ids
    for node in nodes:
        if node.name == "aten::embedding" and len(node.inputs) > 1:
            looked_up = node.inputs[1].shape
        elif "Embedding" in node.type and node.inputs:
            looked_up = node.inputs[0].shape
        else:
            continue
        if looked_up == first.shape:
            return first.shape[0] * first.shape[1]
    return no_ids


def _why_no_item(
    node: Node, nodes: Sequence[Node], modules: dict[str, nn.Module], size: int
) -> str:
    """Return why the first axis does not count items, by one node; empty where it may."""
    shapes = [one.shape for one in node.inputs]
    if not shapes or not shapes[0] or shapes[0][0] != size:
        return ""
    module = modules.get(node.path) if node.kind == "module" else None
    if isinstance(module, _TIME_FIRST):
        is_time_first = not module.batch_first and len(shapes[0]) > 2
        return f"the first axis is time in {node.path or node.type}" if is_time_first else ""
    outputs = [one.shape for one in node.outputs]
    if node.name in _PRODUCTS and not isinstance(modules.get(nodes[node.parent].path), nn.Linear):
        is_contracted = len(shapes) > 1 and shapes[0][-1] == size and shapes[1][:1] == (size,)
        return f"{node.name} adds up over the first axis" if is_contracted else ""
    if node.name in _PICKS and outputs and outputs[0][:1] != (size,):
        return f"{node.name} picks entries of the first axis"
    if node.name.removesuffix("_") in _ADDS and any(s[:1] != (size,) for s in shapes[-1:] if s):
        return f"{node.name} adds entries of another axis to the first"
    return ""
