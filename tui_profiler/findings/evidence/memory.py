"""Memory that a change saves, of the peak; batch size; parameters with known values."""

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence.finding import Gain, Provenance
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import TensorStatistics, Unknown, known
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.session import Session, Tree
from tui_profiler.session.history import seen_as

NO_PEAK = Unknown("the peak is not known")
LEAST_OF_DEVICE = 0.001
"""Share of the memory of the device: what saves less makes no room for anything."""


def device_bytes(session: Session) -> float | None:
    """Return the memory of the model's device; None where it is not known."""
    sample, model = session.sample, session.model
    if sample is None or model is None:
        return None
    if model.device == "cpu":
        return float(sample.memory_total_bytes)
    gpu = seen_as(sample.gpus, model.device)
    return None if gpu is None else known(gpu.memory_total_bytes)


def peak_of(tree: Tree) -> float | None:
    """Return the peak bytes of a forward; None where there is none, or a part is not known."""
    if tree.done is None or not tree.has_forward:
        return None
    return known(peak_bytes(tree.done.peak_memory))


def memory_gain(
    tree: Tree,
    saved: float,
    formula: str,
    provenance: Provenance = "derived",
    *,
    is_bound: bool = False,
) -> Gain:
    """Return the gain of these bytes, of the peak."""
    whole = peak_of(tree)
    if not whole:
        return Gain("memory", NO_PEAK, formula)
    depends = tree.depends(0)
    text = f"{formula}, of a peak of {f'{depends} ' if depends else ''}{size(whole)}"
    if depends is not None:  # The share of an upper bound is not one.
        return Gain("memory", share_of(saved, whole), text, "estimated")
    return Gain("memory", share_of(saved, whole), text, provenance, is_bound)


def batch_of(session: Session) -> int | None:
    """Return the batch size that the model runs with."""
    batch = session.loop.batch if session.loop is not None else None
    return batch or (session.model.batch if session.model is not None else None)


def has_items(session: Session) -> bool:
    """Return whether the inputs have a batch axis, so that a larger batch is possible."""
    step = session.training.step if session.training is not None else None
    return batch_of(session) is not None or (step is not None and known(step.items) is not None)


def trained_values(session: Session) -> tuple[TensorStatistics, ...]:
    """Return the statistics of all parameters, each storage once.

    Empty until the analysis is done, and for random weights, which say nothing of the model.
    """
    found = session.parameters
    if found is None or found.done is None or found.started.is_random:
        return ()
    return tuple(one for one in found.tensors if not one.is_buffer and not one.shared_with)


def owners(session: Session, tensors: tuple[TensorStatistics, ...]) -> tuple[int, ...]:
    """Return the nodes that own tensors, in the order given; the root where none is found."""
    tree = session.tree
    if tree is None:
        return ()
    nodes = {node.path: at for at, node in reversed(list(enumerate(tree.nodes)))}
    return tuple(dict.fromkeys(nodes.get(one.owner, 0) for one in tensors))
