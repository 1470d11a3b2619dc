"""``reuse-memory``: large tensors that each forward allocates anew, page fault by page fault.

1. At least and at most: a quarter less and more than the faults cost where they were measured,
   beside the roofs; what remains is no faster than the roofs.
"""

from tui_profiler.figures.units import count as count_text
from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.page_faults import DOUBT, fresh_bytes, page_faults
from tui_profiler.messages import Unknown
from tui_profiler.session import Session

APPLIES_ABOVE = 0.05
"""Share of a forward in page faults."""


@check(
    "reuse-memory",
    holds_in="both",
    reads=(quantities.TREE, quantities.TIMES, quantities.FAULT_COST, quantities.KERNELS),
    uses=(quantities.COMPUTE_ROOF, quantities.MEMORY_ROOF, quantities.OPERATOR_ROOF),
)
def reuse_memory(session: Session) -> Finding | None:
    """Find a forward whose page faults take much of its time."""
    tree, faults, whole = session.tree, page_faults(session), time_share.forward(session)
    if tree is None or faults is None or isinstance(whole, Unknown) or not whole.is_measured:
        return None
    fresh = fresh_bytes(tree)
    share = faults.seconds / whole.whole
    if share < APPLIES_ABOVE or not fresh:
        return None
    most = 1.0
    if session.ceilings is not None:
        least = time_share.least_times(tree, session.ceilings)
        if not isinstance(least, Unknown) and least:
            most = 1.0 - (1 - DOUBT) * time_share.share_of(least[0], whole.whole)
    low, likely, high = (min(share * times, most) for times in (1 - DOUBT, 1.0, 1 + DOUBT))
    formula = (
        f"{faults.count:,.0f} page faults of {duration(faults.seconds_each)} each, of"
        f" {whole.whole_text}; no faster than the roofs"
    )
    return Finding(
        kind="reuse-memory",
        title=f"reuse memory: {count_text(faults.count)} page faults per forward",
        why=(
            "Large outputs and buffers of operators are allocated anew in each forward, and the"
            " kernel hands out their pages one by one. Write to a buffer that is kept (out=,"
            " in-place operators), or let the allocator keep memory: jemalloc or tcmalloc by"
            " LD_PRELOAD, or mallopt(M_MMAP_MAX, 0) and M_TRIM_THRESHOLD of glibc."
        ),
        nodes=tuple(sorted(fresh, key=lambda node: -fresh[node])),
        evidence=(
            Evidence("minor page faults per forward", faults.count, "count", "measured"),
            Evidence("cost of a page fault", faults.seconds_each, "s", "measured"),
            Evidence("large outputs allocated anew", sum(fresh.values()), "B", "derived"),
        ),
        gains=(Gain("time", likely, formula, "estimated", low=low, high=high),),
        why_no_trial="the program decides which allocator it uses and which tensors it keeps",
    )
