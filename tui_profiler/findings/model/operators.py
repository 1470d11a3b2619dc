"""Findings of single operators: their sizes, layout and dtype, and what they can be fused with.

- ``alignment``: matmuls and convolutions whose sizes are not aligned to a GPU's tensor cores, which
  are efficient where sizes are multiples of 16 bytes: eight values of 16 bits. Source: NVIDIA,
  Matrix Multiplication Background User's Guide, section 3.1, table 1. Matmuls in float32 run on
  them only as TF32, which torch leaves off unless the program enables it: they are not checked.
- ``channels-last``: convolutions in NCHW layout. oneDNN and cuDNN compute with the channels
  innermost: such a convolution converts its input, and its output back. Source: "Channels Last
  Memory Format in PyTorch", pytorch.org/tutorials/intermediate/memory_format_tutorial.html.
- ``fuse-activation``: activations that can be fused into the preceding matmul or convolution.
- ``upcast``: casts and operators in a wider dtype than the weights.
"""

from msgspec.structs import replace

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.affected_operators import (
    CONVOLUTION,
    ROOF_DOUBT,
    compute_roof,
    in_dtype,
    matrix_parts,
    memory_roof,
    roof_seconds,
)
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.findings.evidence.graph import Graph, graph
from tui_profiler.findings.evidence.page_faults import DOUBT, page_faults
from tui_profiler.findings.model.slow_dtype import slow_operators
from tui_profiler.messages import KernelCosts, Node, Unknown, known
from tui_profiler.queries.cost.bound import bytes_moved, node_dtype
from tui_profiler.queries.cost.breakdown import op_type
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.session import Session, Tree

BYTES = 16
_VALUE_BYTES = {"float16": 2, "bfloat16": 2}


@check(
    "alignment",
    holds_in="both",
    reads=(quantities.TREE,),
    uses=quantities.TIME_OF_NODES,
)
def alignment(session: Session) -> Finding | None:
    """Find linear layers and convolutions in 16 bits with unaligned sizes, on a GPU.

    The nodes are operators.
    """
    tree, model = session.tree, session.model
    if tree is None or model is None or not model.device.startswith("cuda"):
        return None
    odd = {node: size for node in range(len(tree)) if (size := _odd_size(tree, node))}
    if not odd:
        return None
    examples = (
        Evidence(f"size of {tree.nodes[tree.nodes[node].parent].path}", size, "count", "derived")
        for node, size in list(odd.items())[:3]
    )
    return Finding(
        kind="alignment",
        title=f"pad {counted(len(odd), 'matmul')} to multiples of {BYTES} bytes",
        why=(
            "Tensor cores need sizes that are multiples of 16 bytes; other sizes run on slower"
            " kernels. Padding a vocabulary or a head to the next multiple costs little."
        ),
        nodes=time_share.slowest_first(session, odd),
        evidence=(
            Evidence("matmuls with unaligned sizes", len(odd), "count", "derived"),
            *examples,
        ),
        gains=(
            time_share.gain(
                time_share.spent(session, odd),
                "they take {}; the speed-up of aligned sizes is not measured",
                "the share of these matmuls per forward",
                is_bound=True,
            ),
        ),
        why_no_trial="a model with other sizes needs other weights",
    )


def _odd_size(tree: Tree, index: int) -> int:
    """Return a size of a matmul's weight that is not a multiple of 16 bytes; 0 where all are."""
    node = tree.nodes[index]
    if node.kind != "op":
        return 0
    kind = op_type(node)
    if kind != "Linear" and kind not in CONVOLUTION:
        return 0
    values = BYTES // _VALUE_BYTES.get(node_dtype(tree, index), BYTES)
    weights = node.inputs[1:2] if kind in CONVOLUTION else node.inputs
    for tensor in weights:
        # Convolution: output and input channels; matmul: the last two axes of both operands.
        axes = tensor.shape[:2] if kind in CONVOLUTION else tensor.shape[-2:]
        odd = next((axis for axis in axes if axis > values and axis % values), 0)
        if odd and len(tensor.shape) > 1:
            return odd
    return 0


_IMAGE_AXES = 4
_WITHOUT_KERNEL = "float64"
"""Dtype of convolutions that oneDNN and cuDNN do not compute in channels-last."""


@check(
    "channels-last",
    holds_in="both",
    reads=(quantities.TREE, quantities.MEMORY_ROOF),
    uses=(*quantities.TIME_OF_NODES, quantities.FAULT_COST, quantities.KERNELS),
)
def channels_last(session: Session) -> Finding | Unknown | None:
    """Find convolutions on images in NCHW layout."""
    tree, whole = session.tree, time_share.forward(session)
    memory = memory_roof(session.ceilings)
    if tree is None or session.ceilings is None or not memory:
        return None
    faults, roofs = page_faults(session), usable_roofs(session.ceilings)
    kernels = session.ceilings.kernels
    nodes, copied, low, high, in_faults = [], 0.0, 0.0, 0.0, 0.0
    is_bound = False
    for part in matrix_parts(session, tree, CONVOLUTION):
        found = [node for node in part.operators if _is_contiguous_image(tree, node)]
        if not found:
            continue
        if not set(found).isdisjoint(in_dtype(tree, part.operators, _WITHOUT_KERNEL)):
            return None  # Their slow kernel would have to convert what the others hand on.
        costs = [tree.costs[node] for node in found]
        bytes_copied = sum(2.0 * (cost.input_bytes + cost.output_bytes) for cost in costs)
        compute = compute_roof(session.ceilings, node_dtype(tree, part.node))
        least = sum(
            roof_seconds(cost.flops, bytes_moved(cost), compute, memory) if compute else 0.0
            for cost in costs
        )
        is_bound = is_bound or compute is None
        calls = sum(tree.nodes[node].calls for node in found)
        level = roofs.level(bytes_copied / max(calls, 1))
        rate = (level.bytes_per_second or level.at_least if level is not None else 0.0) or memory
        copying = bytes_copied / rate
        # Its own buffers for both conversions; its output it allocates in any layout.
        paging = 0.0 if faults is None else faults.seconds_of(tree, bytes_copied / 2)
        kept = 0.0 if faults is None else faults.seconds_of(tree, bytes_copied / 4)
        # No layout can lift a convolution above its roof.
        most = float("inf")
        if part.seconds is not None:
            most = max(part.seconds - least / ROOF_DOUBT - (1 - DOUBT) * kept, 0.0)
        faster = _kernel_speedup(tree, found, kernels)
        by_kernel = copying
        if part.seconds is not None and faster is not None:
            by_kernel = max(part.seconds - paging, 0.0) * (1 - 1 / faster)
        nodes.append(part.node)
        copied += bytes_copied
        in_faults += paging
        low += min(min(copying, by_kernel) + (1 - DOUBT) * paging, most)
        # A copy whose data is not in the caches takes what the memory roof says.
        copying = max(copying, bytes_copied / memory)
        high += min(max(copying, by_kernel) + (1 + DOUBT) * paging, most)
    if not nodes or isinstance(whole, Unknown):
        return whole if nodes and isinstance(whole, Unknown) else None
    if low <= 0:
        return None
    if not whole.is_measured:  # The conversions are not in the time on paper.
        whole = replace(whole, whole=whole.whole + high)
    formula = (
        f"copies from one layout to the other and the kernels of each, as measured here, take"
        f" {duration(low)} to {duration(high)} of {whole.whole_text}, {duration(in_faults)} of it"
        " page faults of the copies; no convolution above its roof"
    )
    return Finding(
        kind="channels-last",
        title=f"channels-last layout for {counted(len(nodes), 'convolution')}",
        why=(
            "Convolution kernels compute in channels-last layout: a tensor in NCHW is converted"
            " before each convolution, and back after it. Only rounding changes."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("convolutions in NCHW layout", len(nodes), "count", "derived"),
            Evidence("layout conversions, both ways", copied, "B", "estimated"),
            Evidence("copy bandwidth", memory, "B/s", "measured"),
            *_kernels(kernels),
        ),
        gains=(
            time_share.ranged(whole, (low, (low + high) / 2, high), formula, is_bound=is_bound),
        ),
    )


def _kernels(kernels: KernelCosts | None) -> tuple[Evidence, ...]:
    """Return how many times as fast the kernels of channels-last are here."""
    if kernels is None:
        return ()
    what = "channels-last vs NCHW in the caches,"
    return (
        Evidence(f"{what} depthwise", kernels.depthwise_speedup, "times", "measured"),
        Evidence(f"{what} dense", kernels.convolution_speedup, "times", "measured"),
    )


def _kernel_speedup(tree: Tree, operators: list[int], kernels: KernelCosts | None) -> float | None:
    """Return how many times as fast convolutions like these are in channels-last here."""
    if kernels is None:
        return None
    weights = [tree.nodes[node].inputs[1:2] for node in operators]
    is_depthwise = all(one and one[0].shape[1:2] == (1,) for one in weights)
    return known(kernels.depthwise_speedup if is_depthwise else kernels.convolution_speedup)


def _is_contiguous_image(tree: Tree, node: int) -> bool:
    image = next(iter(tree.nodes[node].inputs), None)
    if image is None or len(image.shape) != _IMAGE_AXES or image.layout == "channels last":
        return False
    # With one channel, or one pixel, both layouts are the same.
    _, channels, height, width = image.shape
    return channels > 1 and height * width > 1


_ACTIVATION_NAMES = """aten::relu aten::relu_ aten::gelu aten::silu aten::silu_ aten::sigmoid
    aten::tanh aten::hardtanh aten::hardtanh_ aten::hardswish aten::hardswish_ aten::leaky_relu
    aten::leaky_relu_ aten::elu aten::mish"""
_ACTIVATIONS = frozenset(_ACTIVATION_NAMES.split())
_VIEWS = frozenset({"aten::view", "aten::_unsafe_view", "aten::reshape"})
_MOST_VIEWS = 4


@check(
    "fuse-activation",
    holds_in="both",
    reads=(quantities.TREE,),
    uses=quantities.TIME_OF_NODES,
)
def fuse_activation(session: Session) -> Finding | None:
    """Find activations that are the only consumer of a linear layer or a convolution.

    The nodes are operators.
    """
    tree = session.tree
    if tree is None:
        return None
    edges = graph(tree)
    nodes = tuple(
        index
        for index, node in enumerate(tree.nodes)
        if node.kind == "op"
        and node.name in _ACTIVATIONS
        and node.calls == 1
        # Of compiled or scripted code it is not known which operators are fused already.
        and not any(tree.nodes[above].is_opaque for above in tree.ancestors(index))
        and _product_before(tree, edges, index)
    )
    found = time_share.spent(session, nodes)
    if not nodes or time_share.is_negligible(found):
        return None
    moved = sum(tree.costs[node].input_bytes + tree.costs[node].output_bytes for node in nodes)
    return Finding(
        kind="fuse-activation",
        title=f"fuse {counted(len(nodes), 'activation')} into the preceding operator",
        why=(
            "A matmul or convolution kernel can apply the activation before it writes its output."
            " Eager PyTorch does not; a compiler or an inference engine does."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("activations after a matmul or convolution", len(nodes), "count", "derived"),
            Evidence("tensors that they read and write", moved, "B", "derived"),
            *time_share.evidence(found),
        ),
        gains=(
            time_share.gain(
                found,
                "they take {}; fused, they take no time at best",
                "the activations' share of a forward",
                is_bound=True,
            ),
        ),
        why_no_trial="eager PyTorch cannot fuse them; the compile trial does",
    )


def _product_before(tree: Tree, edges: Graph, activation: int) -> bool:
    at = activation
    for _ in range(_MOST_VIEWS):
        writer = edges.only_writer(at)
        if writer is None or edges.only_reader(writer) != at or tree.nodes[writer].calls != 1:
            return False
        if op_type(tree.nodes[writer]) in ("Linear", "Conv1d", "Conv2d", "Conv3d"):
            return True
        if tree.nodes[writer].name not in _VIEWS:
            return False
        at = writer
    return False


_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
_CASTS = frozenset({"aten::_to_copy", "aten::to"})
_LEAST_VALUES = 1024
"""Of a tensor: scalars in float64 come from Python, and cost nothing."""


@check(
    "upcast",
    holds_in="both",
    reads=(quantities.TREE,),
    uses=quantities.TIME_OF_NODES,
)
def upcast(session: Session) -> Finding | None:
    """Find casts to a wider dtype, and operators in a wider dtype than the weights.

    The nodes are operators.
    """
    tree = session.tree
    own = _weight_dtype(tree) if tree is not None else ""
    if tree is None or own not in _BITS:
        return None
    casts = [i for i, node in enumerate(tree.nodes) if _widens(node)]
    slow = slow_operators(session, tree)  # A finding of their own.
    wide = [
        index
        for index, node in enumerate(tree.nodes)
        if node.kind == "op"
        and index not in casts
        and index not in slow
        and tree.costs[index].flops
        and _BITS.get(_written(node), 0) > _BITS[own]
    ]
    nodes = (*casts, *wide)
    if not nodes:
        return None
    written = sum(tree.costs[node].output_bytes for node in nodes)
    return Finding(
        kind="upcast",
        title=f"keep {counted(len(nodes), 'operator')} in {own}",
        why=(
            f"The weights are {own}, but some tensors have a wider dtype, which costs compute and"
            " memory traffic. Some reductions need the precision: check the output."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("casts to a wider dtype", len(casts), "count", "derived"),
            Evidence("operators in a wider dtype", len(wide), "count", "derived"),
            Evidence("bytes that they write", written, "B", "derived"),
        ),
        gains=(
            time_share.gain(
                time_share.spent(session, nodes),
                f"casts and wider operators take {{}}; in {own}, at most all of it is saved",
                "the share of a forward that they take",
                is_bound=True,
            ),
        ),
        why_no_trial="only the model's author knows which of them need the precision",
    )


def _weight_dtype(tree: Tree) -> str:
    """Return the dtype of most bytes of parameters; empty where there are none."""
    found: dict[str, int] = {}
    for index, node in enumerate(tree.nodes):
        if any(not weight.is_buffer for weight in node.weights):
            name = node_dtype(tree, index)
            found[name] = found.get(name, 0) + sum(one.bytes for one in node.weights)
    return max(found, key=found.__getitem__, default="")


def _widens(node: Node) -> bool:
    if node.kind != "op" or node.name not in _CASTS or not node.inputs or not node.outputs:
        return False
    before, after = _BITS.get(node.inputs[0].dtype, 99), _BITS.get(_written(node), 0)
    return after > before


def _written(node: Node) -> str:
    """Return the dtype of what an operator writes, empty where that is next to nothing."""
    for tensor in node.outputs[:1]:
        bits = _BITS.get(tensor.dtype)
        if bits is not None and tensor.bytes * 8 >= bits * _LEAST_VALUES:
            return tensor.dtype
    return ""
