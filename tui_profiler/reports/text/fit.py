"""A model on devices that are not here, as a table: a row for each."""

from collections.abc import Iterator, Sequence

from tui_profiler.figures.units import UNAVAILABLE, duration, energy, share, size, thousands
from tui_profiler.formatting.text import aligned, safe
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.exactness import SIGNS, of_count, of_difference
from tui_profiler.queries.hardware.fits import Fit, Fitted, Need, devices_needed, need_of
from tui_profiler.queries.hardware.on_device import LEAST_SECONDS, LeastTime
from tui_profiler.session import Session

_COLUMNS = (
    *("device", "memory", "fits", "largest batch", "devices"),
    *("min eager", "limit", "energy", "min fused"),
)


def fit_table(
    sessions: Sequence[Session], found: tuple[Fitted, ...], reserve: float
) -> tuple[str, ...]:
    """Return a row for each device, and what is to be known of them; arguments as of ``fitted``."""
    session, need = sessions[0], need_of(sessions[0])
    model = session.model
    batch = model.batch if model is not None else None
    what = "a training step" if session.training_memory is not None else "a forward"
    head = [safe(model.name) if model is not None else "unknown model", what]
    if batch is not None:
        head.append(f"batch {thousands(batch)}")
    lines = [", ".join(head), *_need_lines(need, reserve), ""]
    phases = [phase for phase, _ in found[0].least] if found else []
    for phase in phases:
        lines += [f"{phase}:"] if phase else []
        lines += aligned([_COLUMNS, *(_row(one, phase) for one in found)], left=(0, 6))
        lines.append("")
    lines += _notes(found)
    return tuple(lines)


def _need_lines(need: Need | Unknown, reserve: float) -> list[str]:
    if isinstance(need, Unknown):
        return [f"memory unavailable: {safe(need.reason)}"]
    parts = [
        ("weights", need.weights),
        ("KV cache", need.cache),
        ("gradients and optimizer state", need.state),
        ("activations", need.activations),
        ("cuDNN workspace (allowance)", need.convolution),
    ]
    said = ", ".join(f"{name} {size(figure)}" for name, figure in parts if figure)
    return [f"memory: {said}", f"reserve: {size(reserve)} left free on each device"]


_FITS = {True: "yes,", False: "no,", None: UNAVAILABLE}


def _row(found: Fitted, phase: str) -> tuple[str, ...]:
    sheet, held = found.sheet, found.fit
    least = dict(found.least)[phase]
    if isinstance(held, Fit):
        reading = of_count(held.depends)
        sign, opposite = SIGNS[reading], SIGNS[of_difference(reading, "")]
        percent = sign + share(held.need / held.free) if held.free > 0 else UNAVAILABLE
        fits = f"{_FITS[held.fits]} {percent}"
        largest = (
            UNAVAILABLE
            if isinstance(held.largest_batch, Unknown)
            else opposite + thousands(held.largest_batch)
        )
        count = devices_needed(held)
        devices = "above 8" if not sign else UNAVAILABLE
        if not isinstance(count, Unknown):
            devices = f"{count}" if held.fits else f"{sign}{count}"
    else:
        fits = largest = devices = UNAVAILABLE
    if isinstance(least, LeastTime) and least.seconds >= LEAST_SECONDS:
        time = f"≥ {duration(least.seconds)}"
        limit, joules = least.limit or UNAVAILABLE, f"~{energy(least.joules(sheet))}"
    else:
        time = limit = joules = UNAVAILABLE
    fused = UNAVAILABLE
    if isinstance(least, LeastTime) and least.fused_seconds >= LEAST_SECONDS:
        fused = f"≥ {duration(least.fused_seconds)}"
    memory = f"{sheet.memory_bytes / 1e9:.0f} GB"
    return (sheet.name, memory, fits, largest, devices, time, limit, joules, fused)


def _notes(found: tuple[Fitted, ...]) -> list[str]:
    notes = [
        "min eager: lower bound of eager PyTorch, from data-sheet peaks and bandwidth",
        "min fused: lower bound with torch.compile, from matmuls and convolutions only",
        "energy: estimate, min eager × power limit of the board",
        "devices: how many are needed with tensor parallelism",
    ]
    for one in found:
        for _, least in one.least:
            if isinstance(least, LeastTime) and least.no_peak:
                dtypes = ", ".join(map(safe, least.no_peak))
                notes.append(f"{one.sheet.name}: the data sheet has no peak for {dtypes}")
    first = next((least for one in found for _, least in one.least), None)
    if isinstance(first, LeastTime) and first.uncosted:
        notes.append(
            f"{thousands(first.uncosted)} operators have no formula: not in the minimum times"
        )
    if isinstance(first, LeastTime) and first.by_data:
        notes.append(
            f"sizes of {thousands(first.by_data)} operators depend on the data: not in the minimum"
            " times"
        )
    depends = next((one.fit.depends for one in found if isinstance(one.fit, Fit)), None)
    if depends is not None:
        notes.append(f"memory is {depends} this: it depends on the data")
    return list(dict.fromkeys((*notes, *_why_none(found))))


def _why_none(found: tuple[Fitted, ...]) -> Iterator[str]:
    """Yield why figures are a dash."""
    for one in found:
        if isinstance(one.fit, Fit) and isinstance(one.fit.largest_batch, Unknown):
            yield f"largest batch {UNAVAILABLE}: {safe(one.fit.largest_batch.reason)}"
        if isinstance(one.fit, Fit) and one.fit.fits is None:
            yield f"fits {UNAVAILABLE}: memory depends on the data"
        if isinstance(one.fit, Fit) and one.fit.free <= 0:
            yield f"fits {UNAVAILABLE}: the reserve takes all memory of {one.sheet.name}"
        for _, least in one.least:
            if isinstance(least, Unknown):
                yield f"minimum times {UNAVAILABLE}: {safe(least.reason)}"
            elif least.seconds < LEAST_SECONDS:
                yield f"minimum times {UNAVAILABLE}: below 0.01 µs, no bound"
            elif least.fused_seconds < LEAST_SECONDS:
                yield f"min fused {UNAVAILABLE}: below 0.01 µs, no bound"
