"""What the machine's counters say about the model: its use of threads, which cache holds it."""

from itertools import pairwise

from msgspec import Struct

from tui_profiler.messages import NOT_RECORDED, Allocator, Cache, Figure, PerfCounters, Unknown
from tui_profiler.queries.cost.bound import bytes_moved
from tui_profiler.session import Session, Tree

NOT_RUNNING = Unknown("no second of forwards was sampled lately")
_LOOKED_AT, _INTERVALS = 60, 5


class WorkingSet(Struct, frozen=True):
    """What one call of a node touches, against the caches of this machine."""

    bytes: int
    """Inputs, weights and outputs of one call; what a module makes inside is not in it."""
    fits: Cache | None
    """The nearest cache that holds all of it; None where only memory does."""


def parallel_efficiency(session: Session) -> Figure:
    """Return CPU time over wall time and threads of the model's process: 1 is every thread busy.

    Of the last seconds in which forwards ran one after another; threads are those inside an
    operator. The process has other threads too, such as those that count, so that its CPU time can
    be above that of all threads of operators: they are busy then, not busier than that.
    """
    environment, samples = session.environment, session.history.samples
    if environment is None:
        return Unknown("torch's threads are not known")
    pairs = pairwise(samples[-_LOOKED_AT:])
    used = [
        after.process_cpu
        for before, after in pairs
        # A sample tells of the time since the one before it.
        if before.activity == after.activity == "running"
    ]
    figures = [one for one in used if not isinstance(one, Unknown)][-_INTERVALS:]
    if not figures:
        return NOT_RUNNING
    return min(sum(figures) / len(figures) / max(environment.threads, 1), 1.0)


def miss_share(counters: PerfCounters | None) -> Figure:
    """Return the cache misses over the references."""
    if counters is None:
        return NOT_RECORDED
    return _share(counters.cache_misses, counters.cache_references)


def last_level_miss_share(counters: PerfCounters | None) -> Figure:
    """Return the loads that missed the last cache over those that reached it."""
    if counters is None:
        return NOT_RECORDED
    return _share(counters.last_level_misses, counters.last_level_loads)


def instructions_per_cycle(counters: PerfCounters | None) -> Figure:
    """Return how many instructions ended in a cycle."""
    if counters is None:
        return NOT_RECORDED
    return _share(counters.instructions, counters.cycles)


def fragmentation(allocator: Allocator) -> Figure:
    """Return the share of what is reserved that is free and cannot be given back."""
    return _share(allocator.inactive_split_bytes, allocator.reserved_bytes)


def working_set(session: Session, node: int) -> WorkingSet | Unknown:
    """Hold what a call of a node touches against the caches; the smallest that holds it fits."""
    tree, environment = session.tree, session.environment
    if tree is None or not tree.has_forward:
        return Unknown("there is no forward")
    if environment is None or not environment.caches:
        return Unknown("the kernel does not describe this machine's caches")
    if session.model is not None and session.model.device != "cpu":
        return Unknown("it does not run on the CPU")
    touched = _touched(tree, node)
    if not touched:
        return Unknown("it touches no bytes")
    fits = next((cache for cache in environment.caches if touched <= cache.bytes), None)
    return WorkingSet(touched, fits)


def _touched(tree: Tree, index: int) -> int:
    node = tree.nodes[index]
    if node.kind == "op":  # Weights are among its inputs.
        return bytes_moved(tree.costs[index]) // max(node.calls, 1)
    tensors = (*node.inputs, *node.outputs)
    return tree.costs[index].parameter_bytes + sum(tensor.bytes for tensor in tensors)


def _share(part: Figure, whole: Figure) -> Figure:
    if isinstance(part, Unknown):
        return part
    if isinstance(whole, Unknown):
        return whole
    return part / whole if whole > 0 else Unknown("nothing was counted")
