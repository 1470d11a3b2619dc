"""``larger-batch``: time of a forward that does not grow with the batch size."""

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.affected_operators import compute_roof, memory_roof
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.memory import NO_PEAK, batch_of
from tui_profiler.findings.evidence.time_share import BUSY_GPU, host, share_of
from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.cost.bound import (
    OVERHEAD,
    bytes_moved,
    node_dtype,
    node_mix,
    own_dependence,
)
from tui_profiler.queries.cost.roofline import part_nodes
from tui_profiler.session import Session, Tree
from tui_profiler.session.history import seen_as

TIMES = (16, 8, 4, 2)
"""The trial's batch sizes; the prediction is for the largest that fits."""
NO_FREE_BYTES = Unknown("it is not known how much memory is free")
APPLIES_ABOVE = 0.05
"""Of the time per item."""


@check(
    "larger-batch",
    holds_in="inference",
    reads=(quantities.TREE, quantities.BATCH, *quantities.PYTHON),
    uses=(
        quantities.REAL,
        quantities.COMPUTE_ROOF,
        quantities.MEMORY_ROOF,
        quantities.PEAK,
        quantities.SAMPLE,
    ),
)
def larger_batch(session: Session) -> Finding | Unknown | None:
    """Find how much of a forward does not grow with the batch size."""
    tree, found = session.tree, host(session)
    batch = batch_of(session)
    if isinstance(found, Unknown):
        return None if found is BUSY_GPU else found
    if tree is None or batch is None:
        return None
    weights = _reading_weights(session, tree)
    # At least: without the memory roof, without what reading weights takes.
    fixed = min(found.python + found.calling + (known(weights) or 0.0), found.whole)
    fits = _fitting(session, tree)
    if fits is None:
        return None
    times, room = fits
    overhead = node_mix(session, 0)[OVERHEAD]
    doubt = found.most_python - found.python
    most = min(fixed + doubt + max(overhead - found.python - found.calling, 0.0), found.whole)
    least = fixed - (found.python - found.least_python)
    saved = 1 - 1 / times
    low, high = (share_of(one, found.whole) * saved for one in (least, most))
    if low < APPLIES_ABOVE:
        return None
    formula = (
        f"{duration(least)} of {duration(found.whole)} do not grow with the batch, at most"
        f" {duration(most)} where all time of overhead-bound modules does not; at {times}× the"
        f" batch, {times - 1}/{times} of it is saved per item"
    )
    return Finding(
        kind="larger-batch",
        title=f"increase the batch size from {batch} to {times * batch}",
        why=(
            "Python overhead, operator overhead and reading weights do not grow with the batch."
            " Throughput rises; so does latency."
        ),
        nodes=(0,),
        evidence=(
            Evidence("Python overhead, per forward", found.python, "s", "measured"),
            Evidence("operator overhead, at least", found.calling, "s", "derived"),
            Evidence("reading weights at the memory roof, at least", weights, "s", "derived"),
            room,
        ),
        gains=(
            Gain(
                "time",
                (low + high) / 2,
                formula,
                "estimated",
                low=low,
                high=high,
                per="item",
            ),
        ),
    )


def _reading_weights(session: Session, tree: Tree) -> Figure:
    """Return the seconds that reading weights adds to the minimum times of all leaves."""
    memory, total = memory_roof(session.ceilings), 0.0
    if not memory:
        return Unknown("the memory roof is missing, or not good enough")
    for node in part_nodes(tree):
        if own_dependence(tree, node) is not None:
            continue  # Less work reads the weights as well, or does not.
        cost = tree.costs[node]
        compute = compute_roof(session.ceilings, node_dtype(tree, node))
        products = cost.flops / compute if compute else 0.0
        now, without = bytes_moved(cost) / memory, (bytes_moved(cost) - cost.weight_bytes) / memory
        total += max(now, products) - max(without, products)
    return total


def _fitting(session: Session, tree: Tree) -> tuple[int, Evidence] | None:
    """Return the largest of TIMES that fits into free memory, and what it needs; None if none."""
    done = tree.done
    activations = known(done.peak_memory.activations) if done is not None else None
    workspace = known(done.peak_memory.workspace) if done is not None else None
    what, free = "additional memory", _free_bytes(session)
    if activations is None or workspace is None or tree.depends(0) == "about":
        return TIMES[-1], Evidence(what, NO_PEAK, "B", "estimated")
    each = activations + workspace
    if free is None:
        return TIMES[-1], Evidence(what, NO_FREE_BYTES, "B", "estimated")
    for times in TIMES:
        more = (times - 1) * each
        if more <= free:
            return times, Evidence(what, more, "B", "estimated")
    return None


def _free_bytes(session: Session) -> float | None:
    sample, model = session.sample, session.model
    if sample is None or model is None:
        return None
    if model.device == "cpu":
        return float(sample.memory_total_bytes - sample.memory_bytes)
    gpu = seen_as(sample.gpus, model.device)
    if gpu is None:
        return None
    used, total = known(gpu.memory_bytes), known(gpu.memory_total_bytes)
    return None if used is None or total is None else total - used
