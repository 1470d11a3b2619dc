"""What a forward was predicted to take beside what was measured, and why something was not."""

from msgspec import Struct

from tui_profiler.messages import NO_FORWARD, Allocator, Figure, Unknown
from tui_profiler.queries.cost.totals import known_peak_bytes, peak_bytes
from tui_profiler.session import Session

NOT_PREDICTED = Unknown("not part of the model")
NO_WINDOW = Unknown("no operator window with memory events was opened")
_NO_PARTS = Unknown("the allocator reports only the total")


class Compared(Struct, frozen=True):
    """One part of the memory; bytes."""

    label: str
    predicted: Figure
    measured: Figure


class Comparison(Struct, frozen=True):
    """Every part, the peak of all, and what the process takes."""

    parts: tuple[Compared, ...]
    peak: Compared
    reserved: Compared | None
    """What torch's allocator took from the device at most; None where there is none to ask."""
    process: Compared
    """Resident memory of the whole process at its most, torch's own included."""
    is_least: bool
    """The predicted peak is without a part that could not be predicted."""
    off_by: float | None
    """Predicted over measured peak, less 1; None where one of them is not known."""


def comparison(session: Session) -> Comparison | None:
    """Hold the prediction against what the session knows; None where there is no prediction."""
    tree = session.tree
    if tree is None or tree.done is None:
        return None
    peak = tree.done.peak_memory
    allocator = _allocator(session)
    measured = allocator.peak_allocated_bytes if isinstance(allocator, Allocator) else allocator
    window = session.memory_window
    if window is not None:
        measured = float(window.peak_bytes)
    elif isinstance(allocator, Allocator) and allocator.device == "cpu":
        measured = why_no_window(session)
    part = measured if isinstance(measured, Unknown) else _NO_PARTS
    predicted = peak_bytes(peak)
    is_least = isinstance(predicted, Unknown) and not isinstance(peak.activations, Unknown)
    predicted = known_peak_bytes(peak) if is_least else predicted
    weights = part if window is None else float(window.window.weights_bytes)
    parts = [
        Compared("weights", _sum(peak.parameters, peak.buffers), weights),
        Compared("activations", peak.activations, part),
        Compared("workspace", peak.workspace, part),
    ]
    if peak.kv_cache is not None:
        parts.insert(1, Compared("kv cache", peak.kv_cache, part))
    reserved = None
    if isinstance(allocator, Allocator) and allocator.device != "cpu":
        reserved = Compared("reserved", NOT_PREDICTED, allocator.peak_reserved_bytes)
    return Comparison(
        parts=tuple(parts),
        peak=Compared("peak", predicted, measured),
        reserved=reserved,
        process=Compared("process", NOT_PREDICTED, _process(session)),
        is_least=is_least,
        off_by=_off_by(predicted, measured),
    )


def why_no_window(session: Session) -> Unknown:
    """Say why what a forward allocates on the CPU was not measured."""
    operators = session.host_operators
    if operators is not None and operators.times.why_none:
        return Unknown(f"no operator window was opened: {operators.times.why_none}")
    return NO_WINDOW


def _allocator(session: Session) -> Allocator | Unknown:
    """Return the allocator of the model's device."""
    sample, model, tree = session.sample, session.model, session.tree
    if tree is not None and not tree.has_forward:
        return Unknown(NO_FORWARD)
    if sample is None or model is None:
        return Unknown("no sample of this process yet")
    if isinstance(sample.allocators, Unknown):
        return sample.allocators
    device = "cuda:0" if model.device == "cuda" else model.device
    found = (one for one in sample.allocators if one.device == device)
    return next(found, Unknown(f"torch has no allocator statistics for {device}"))


def _process(session: Session) -> Figure:
    sample = session.sample
    if sample is None:
        return Unknown("no sample of this process yet")
    return sample.process_peak_bytes


def _sum(one: Figure, other: Figure) -> Figure:
    if isinstance(one, Unknown):
        return one
    return other if isinstance(other, Unknown) else one + other


def _off_by(predicted: Figure, measured: Figure) -> float | None:
    if isinstance(predicted, Unknown) or isinstance(measured, Unknown) or not measured:
        return None
    return predicted / measured - 1
