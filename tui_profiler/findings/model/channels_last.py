"""``channels-last``: convolutions in NCHW layout, which convert their input and output.

oneDNN and cuDNN compute with the channels innermost: a convolution in NCHW layout converts its
input, and its output back. Source:
"Channels Last Memory Format in PyTorch",
pytorch.org/tutorials/intermediate/memory_format_tutorial.html.
"""

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.affected_operators import (
    CONVOLUTION,
    compute_roof,
    matrix_parts,
    memory_roof,
    roof_seconds,
)
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, forward, share_of, slowest_first
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.bound import bytes_moved, node_dtype
from tui_profiler.session import Session, Tree

_IMAGE_AXES = 4


@check("channels-last", holds_in="both")
def channels_last(session: Session) -> Finding | None:
    """Find convolutions on images in NCHW layout."""
    tree, whole = session.tree, forward(session)
    memory = memory_roof(session.ceilings)
    if tree is None or isinstance(whole, Unknown) or not memory:
        return None
    nodes, copied, saved = [], 0.0, 0.0
    for part in matrix_parts(session, tree, CONVOLUTION):
        found = [node for node in part.operators if _is_contiguous_image(tree, node)]
        if not found:
            continue
        costs = [tree.costs[node] for node in found]
        bytes_copied = sum(2.0 * (cost.input_bytes + cost.output_bytes) for cost in costs)
        compute = compute_roof(session.ceilings, node_dtype(tree, part.node))
        least = sum(
            roof_seconds(cost.flops, bytes_moved(cost), compute, memory) if compute else 0.0
            for cost in costs
        )
        # No layout can lift a convolution above its roof.
        most = max(part.seconds - least, 0.0) if part.seconds is not None else float("inf")
        nodes.append(part.node)
        copied += bytes_copied
        saved += min(bytes_copied / memory, most)
    share = share_of(saved, whole.whole)
    if not nodes or share < LEAST_SHARE:
        return None
    formula = (
        f"these conversions take {duration(saved)} of {whole.whole_text} at the measured"
        " bandwidth, no convolution above its roof; layers without a channels-last kernel are not"
        " counted"
    )
    return Finding(
        kind="channels-last",
        title=f"channels-last layout for {counted(len(nodes), 'convolution')}",
        why=(
            "Convolution kernels compute in channels-last layout: a tensor in NCHW is converted"
            " before each convolution, and back after it. Only rounding changes."
        ),
        nodes=slowest_first(session, nodes),
        evidence=(
            Evidence("convolutions in NCHW layout", len(nodes), "count", "derived"),
            Evidence("layout conversions, both ways", copied, "B", "estimated"),
            Evidence("copy bandwidth", memory, "B/s", "measured"),
        ),
        gains=(Gain("time", share, formula, "estimated"),),
    )


def _is_contiguous_image(tree: Tree, node: int) -> bool:
    image = next(iter(tree.nodes[node].inputs), None)
    if image is None or len(image.shape) != _IMAGE_AXES or image.layout == "channels last":
        return False
    # With one channel, or one pixel, both layouts are the same.
    _, channels, height, width = image.shape
    return channels > 1 and height * width > 1
