"""``alignment``: products whose sizes do not fill a GPU's tensor cores.

Tensor cores take 16 bytes at a time: eight values of 16 bits. Source: NVIDIA, Matrix Multiplication
Background User's Guide, section 3.1, table 1. Products of float32 run on them only as TF32, which
torch leaves off for matrix products unless the program asks for it: nothing is said of them.
"""

from __future__ import annotations

from tui_profiler.findings.evidence.affected_operators import CONVOLUTION
from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import slowest_first, spent
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.bound import node_dtype
from tui_profiler.queries.cost.breakdown import op_type
from tui_profiler.session import Session, Tree

BYTES = 16
_VALUE_BYTES = {"float16": 2, "bfloat16": 2}


@check("alignment", holds_in="both")
def alignment(session: Session) -> Finding | None:
    """Find linear layers and convolutions of 16 bits with odd sizes, on a GPU.

    The nodes are the products' operators.
    """
    tree, model = session.tree, session.model
    if tree is None or model is None or not model.device.startswith("cuda"):
        return None
    odd = {node: size for node in range(len(tree)) if (size := _odd_size(tree, node))}
    if not odd:
        return None
    found = spent(session, odd)
    if isinstance(found, Unknown):
        gain = Gain("time", found, "the share of these products per forward")
    else:
        formula = f"they take {found.text}; what tensor cores leave of it is not measured"
        gain = found.gain(formula, is_bound=True)
    examples = tuple(
        Evidence(f"size of {tree.nodes[tree.nodes[node].parent].path}", size, "count", "derived")
        for node, size in list(odd.items())[:3]
    )
    return Finding(
        kind="alignment",
        title=f"pad {counted(len(odd), 'product')} to multiples of {BYTES} bytes",
        why=(
            "Tensor cores take 16 bytes of a row at a time. Widths that do not divide run on slower"
            " kernels; padding a vocabulary or a head to the next multiple costs little."
        ),
        nodes=slowest_first(session, odd),
        evidence=(
            Evidence("products with such sizes", len(odd), "count", "derived"),
            *examples,
        ),
        gains=(gain,),
        why_no_trial="other sizes are another model, with weights of its own",
    )


def _odd_size(tree: Tree, index: int) -> int:
    """Return a size of a product's weight that does not fill 16 bytes; 0 where all do."""
    node = tree.nodes[index]
    if node.kind != "op":
        return 0
    kind = op_type(node)
    if kind != "Linear" and kind not in CONVOLUTION:
        return 0
    values = BYTES // _VALUE_BYTES.get(node_dtype(tree, index), BYTES)
    weights = node.inputs[1:2] if kind in CONVOLUTION else node.inputs
    for tensor in weights:
        # Of a convolution the channels out and in; of a product the last two axes of both.
        axes = tensor.shape[:2] if kind in CONVOLUTION else tensor.shape[-2:]
        odd = next((axis for axis in axes if axis > values and axis % values), 0)
        if odd and len(tensor.shape) > 1:
            return odd
    return 0
