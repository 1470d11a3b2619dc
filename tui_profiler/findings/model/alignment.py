"""``alignment``: matmuls and convolutions whose sizes are not aligned to a GPU's tensor cores.

Tensor cores are efficient where sizes are multiples of 16 bytes: eight values of 16 bits. Source:
NVIDIA, Matrix Multiplication Background User's Guide, section 3.1, table 1. Matmuls in float32 run
on them only as TF32, which torch leaves off unless the program enables it: they are not checked.
"""

from tui_profiler.findings.evidence import time_share
from tui_profiler.findings.evidence.affected_operators import CONVOLUTION
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.queries.cost.bound import node_dtype
from tui_profiler.queries.cost.breakdown import op_type
from tui_profiler.session import Session, Tree

BYTES = 16
_VALUE_BYTES = {"float16": 2, "bfloat16": 2}


@check("alignment", holds_in="both")
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
