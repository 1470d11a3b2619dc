"""A model's operators by type, what architecture that makes it, and what bounds them."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Cost, Node, Unknown
from tui_profiler.queries.cost.bound import node_parts, on_paper, why_no_thread_class
from tui_profiler.queries.cost.bound_classes import KINDS, OF_FLOORS, OF_THREAD, BoundKind
from tui_profiler.queries.cost.distribution import shared
from tui_profiler.session import Session, Tree

OpType: TypeAlias = Literal[
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "Linear",
    "matmul",
    "attention",
    "transformer layer",
    "recurrent",
    "norm",
    "activation",
    "pooling",
    "embedding",
    "reduction",
    "elementwise",
    "layout",
    "other",
]

Architecture: TypeAlias = Literal[
    "CNN-heavy", "transformer-heavy", "recurrent", "dense", "mixed", "unknown"
]

PAPER_KINDS: tuple[BoundKind, ...] = ("compute", "memory")
"""The classes that need no times."""
CNN_ABOVE = 0.7
PRODUCTS_ABOVE = 0.5
RECURRENT_ABOVE = 0.5
"""Shares of all FLOPs; the first two are the product's own definition. With most of them in matrix
products a model is transformer-heavy where it has attention, and dense where it has none."""

_LINEAR = """linear mkldnn_linear addmm _addmm_activation mm int_mm _int_mm _weight_int8pack_mm
    _weight_int4pack_mm _weight_int4pack_mm_for_cpu _sparse_semi_structured_linear linear_dynamic
    linear_relu_dynamic quantized_linear mv addmv"""
_MATMUL = """bmm baddbmm addbmm matmul dot vdot einsum addr _trilinear _grouped_mm
    _scaled_grouped_mm linalg_vecdot _cdist_forward"""
_ACTIVATION = """relu relu6 gelu silu sigmoid tanh hardtanh hardswish hardsigmoid leaky_relu elu
    selu celu prelu _prelu_kernel rrelu softplus softsign mish glu log_sigmoid_forward log_sigmoid
    softmax _softmax _safe_softmax log_softmax _log_softmax softshrink hardshrink tanhshrink
    threshold logsigmoid"""
_RECURRENT = """lstm gru rnn_tanh rnn_relu mkldnn_rnn_layer _cudnn_rnn miopen_rnn
    _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell quantized_lstm quantized_gru"""
_ELEMENTWISE = """add sub rsub mul div pow exp exp2 expm1 log log1p log2 log10 sqrt rsqrt neg abs
    sign sin cos tan asin acos atan atan2 sinh cosh erf erfc clamp clamp_min clamp_max maximum
    minimum where masked_fill eq ne lt le gt ge logical_and logical_or logical_not logical_xor
    bitwise_and bitwise_or bitwise_not bitwise_xor floor ceil round trunc frac fmod remainder
    floor_divide addcmul addcdiv lerp reciprocal square true_divide isnan isinf isfinite nan_to_num
    bernoulli native_dropout dropout"""
_REDUCTION = """mean sum max min amax amin aminmax argmax argmin prod var std var_mean std_mean
    cumsum cumprod logsumexp any all norm linalg_vector_norm nansum count_nonzero"""
_LAYOUT = """view _unsafe_view reshape _reshape_alias permute transpose t expand expand_as slice
    select unsqueeze squeeze split split_with_sizes unsafe_split chunk unsafe_chunk unbind narrow
    flatten unflatten cat concat stack clone copy _to_copy contiguous as_strided alias detach roll
    flip repeat repeat_interleave tile constant_pad_nd pad reflection_pad2d replication_pad2d
    pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle unfold im2col col2im
    movedim swapaxes diagonal view_as_real view_as_complex lift_fresh to index gather index_select
    empty zeros ones full arange empty_like zeros_like ones_like full_like new_zeros new_ones
    new_empty new_full fill zero scalar_tensor"""

_NAMES: tuple[tuple[OpType, str], ...] = (
    ("Linear", _LINEAR),
    ("matmul", _MATMUL),
    ("activation", _ACTIVATION),
    ("recurrent", _RECURRENT),
    ("reduction", _REDUCTION),
    ("elementwise", _ELEMENTWISE),
    ("layout", _LAYOUT),
)
_BY_NAME: dict[str, OpType] = {name: kind for kind, names in _NAMES for name in names.split()}
_BY_PART: tuple[tuple[str, OpType], ...] = (
    ("transformer_encoder_layer", "transformer layer"),
    ("attention", "attention"),
    ("embedding", "embedding"),
    ("batch_norm", "norm"),
    ("layer_norm", "norm"),
    ("group_norm", "norm"),
    ("instance_norm", "norm"),
    ("rms_norm", "norm"),
    ("_pool", "pooling"),
)
_CONVOLUTIONS: dict[int, OpType] = {3: "Conv1d", 4: "Conv2d", 5: "Conv3d"}
"""By the number of axes of what goes in."""


class TypeShare(Struct, frozen=True):
    """All operators of one type."""

    type: OpType
    count: int
    """Calls in one forward."""
    flops: int | Unknown
    share: float | None
    """Of all FLOPs; None where there are none, or these are not known."""


class BoundShare(Struct, frozen=True):
    """All operators of one bottleneck class, and the time that modules spend in it."""

    ops: int | None
    """Calls in one forward, by intensity on paper; None for a class that only time can show."""
    flops_share: float | None
    """Of all FLOPs, likewise."""
    time_share: float | None
    """Of a forward's measured time; None before it is measured against this machine, and where the
    roofs that would decide are not good enough."""


def op_type(node: Node) -> OpType:
    """Return the type of an operator, by its name."""
    name = node.name.rpartition("::")[2]
    plain = name.rstrip("_") if not name.endswith("__") else name
    if "conv" in plain and "convert" not in plain:
        axes = max((len(tensor.shape) for tensor in node.inputs[:1]), default=4)
        return _CONVOLUTIONS.get(axes, "Conv2d")
    if (found := _BY_NAME.get(plain)) is not None:
        return found
    for part, found in _BY_PART:
        if part in plain:
            return found
    return "attention" if "multi_head" in plain else "other"


def breakdown(tree: Tree) -> tuple[TypeShare, ...]:
    """Return the operators by type, most FLOPs first; counts and FLOPs of one forward."""
    counts: dict[OpType, int] = {}
    flops: dict[OpType, int] = {}
    uncosted: dict[OpType, int] = {}
    for node, cost in _ops(tree):
        kind = op_type(node)
        uncosted[kind] = uncosted.get(kind, 0) + cost.uncosted
        counts[kind] = counts.get(kind, 0) + cost.ops
        flops[kind] = flops.get(kind, 0) + cost.flops
    whole = sum(flops.values())
    found = [
        TypeShare(kind, counts[kind], *shared(tree, flops[kind], uncosted[kind], whole))
        for kind in counts
    ]
    return tuple(sorted(found, key=lambda part: (-(part.share or 0.0), -part.count, part.type)))


def architecture(parts: tuple[TypeShare, ...], *, has_attention: bool) -> Architecture:
    """Return the class of a model: where most of its FLOPs are.

    Args:
        parts: its operators by type.
        has_attention: see ``has_attention``.
    """
    shares = {part.type: part.share or 0.0 for part in parts}
    if not any(shares.values()):
        return "unknown"

    def together(*types: OpType) -> float:
        return sum(shares.get(kind, 0.0) for kind in types)

    if together("Conv1d", "Conv2d", "Conv3d") > CNN_ABOVE:
        return "CNN-heavy"
    if together("recurrent") > RECURRENT_ABOVE:
        return "recurrent"
    if together("Linear", "matmul", "attention", "transformer layer") > PRODUCTS_ABOVE:
        return "transformer-heavy" if has_attention else "dense"
    return "mixed"


def architecture_of(tree: Tree) -> Architecture:
    """Return the class of a model from its tree."""
    return architecture(breakdown(tree), has_attention=has_attention(tree))


def has_attention(tree: Tree) -> bool:
    """Return whether a model has attention: fused, or a softmax between two products.

    Of attention written by hand, the product after the softmax is one of two activations
    (``bmm``), which the linear layer after the softmax of a classifier is not.
    """
    before, is_weighed = False, False
    for node, _ in _ops(tree):
        kind, is_softmax = op_type(node), "softmax" in node.name
        if kind in ("attention", "transformer layer"):
            return True
        if kind == "matmul":
            if is_weighed:
                return True
            before = True
        elif kind == "Linear":
            before = False  # What is weighed may be projected after the softmax.
        elif is_softmax:
            is_weighed = before
    return False


def bound_shares(session: Session) -> dict[BoundKind, BoundShare]:
    """Return each bottleneck class's share of operators, of FLOPs and, once measured, of time.

    Shares of FLOPs are not known where those of an operator depend on the data.
    """
    tree, depends = session.tree, False
    ops: dict[BoundKind, int] = dict.fromkeys(KINDS, 0)
    flops: dict[BoundKind, int] = dict.fromkeys(KINDS, 0)
    for index, (node, cost) in enumerate(_nodes(tree) if tree is not None else ()):
        found = on_paper(tree, index) if tree is not None and node.kind == "op" else None
        if found is not None:
            ops[found.kind] += cost.ops
            flops[found.kind] += cost.flops
        if tree is not None and node.kind == "op" and cost.flops and tree.depends(index):
            depends = True
    whole = 0 if depends else sum(flops.values())
    has_nodes = tree is not None and len(tree) > 0
    parts = node_parts(session, 0) if has_nodes else ()
    seconds, running = dict(zip(KINDS, parts, strict=False)), sum(parts)
    # Time whose class no good roof decides may be of these classes: no share of it is not 0.
    is_open = any(parts[len(KINDS) :])
    may_be = {kind for kind in OF_FLOORS if is_open and not seconds[kind]}
    may_be |= {kind for kind in OF_THREAD if why_no_thread_class(session, kind)}
    return {
        kind: BoundShare(
            ops=ops[kind] if kind in PAPER_KINDS else None,
            flops_share=flops[kind] / whole if whole and kind in PAPER_KINDS else None,
            time_share=seconds[kind] / running
            if any(seconds.values()) and kind not in may_be
            else None,
        )
        for kind in KINDS
    }


def _ops(tree: Tree) -> list[tuple[Node, Cost]]:
    return [(node, cost) for node, cost in _nodes(tree) if node.kind == "op"]


def _nodes(tree: Tree) -> Iterator[tuple[Node, Cost]]:
    return zip(tree.nodes, tree.costs, strict=True)
