"""``sdpa``: attention as separate matmuls and softmax, where one fused operator does it all.

Between its two matmuls, the scores are scaled, masked and normalised, each time written to memory
and read again. ``scaled_dot_product_attention`` keeps them in the caches. Source: Dao et al.,
FlashAttention, arXiv 2205.14135.
"""

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence import time_share
from tui_profiler.findings.evidence.attention import unfused
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.findings.evidence.memory import memory_gain, peak_of
from tui_profiler.session import Session


@check("sdpa", holds_in="both")
def sdpa(session: Session) -> Finding | None:
    """Find a softmax between two batched matmuls."""
    tree = session.tree
    if tree is None:
        return None
    found = unfused(tree)
    time = time_share.spent(session, (node for one in found for node in one.between))
    if not found or time_share.is_negligible(time):
        return None
    largest = max(one.scores_bytes for one in found)
    memory = memory_gain(
        tree, largest, f"at most {size(largest)} of scores at once", "estimated", is_bound=True
    )
    return Finding(
        kind="sdpa",
        title=f"use SDPA in {counted(len(found), 'attention module')}",
        why=(
            "scaled_dot_product_attention scales, masks and normalises the scores in one kernel,"
            " and never writes all of them to memory. Only rounding changes."
        ),
        nodes=time_share.slowest_first(session, dict.fromkeys(one.module for one in found)),
        evidence=(
            Evidence("softmax between two batched matmuls", len(found), "count", "derived"),
            Evidence(
                "scores written per forward",
                sum(one.scores_bytes for one in found),
                "B",
                "derived",
            ),
            *time_share.evidence(time, "scaling, masking and softmax per forward"),
        ),
        gains=(
            time_share.gain(
                time,
                "scaling, masking and softmax take {}; fused, they take no time",
                "the share of the operators between the two matmuls",
            ),
            *((memory,) if peak_of(tree) else ()),
        ),
        trial="sdpa",
    )
