"""Figures as words, for every section."""

from collections.abc import Callable, Iterable

from tui_profiler.figures.units import (
    UNAVAILABLE,
    ZERO,
    count,
    dtype,
    quantity,
    shape,
    size,
    thousands,
)
from tui_profiler.figures.units import intensity as intensity_text
from tui_profiler.messages import (
    Figure,
    FileFacts,
    InputSpec,
    ModelFacts,
    PeakMemory,
    TraceDone,
    Unknown,
)
from tui_profiler.queries.cost import exactness
from tui_profiler.queries.cost.bound import (
    bytes_moved,
    intensity,
    is_at_least,
    known_bytes,
    known_flops,
    known_macs,
    why_not_counted,
)
from tui_profiler.queries.cost.exactness import SIGNS
from tui_profiler.queries.cost.totals import (
    NOT_TOLD,
    frozen,
    known_peak_bytes,
    peak_bytes,
    trainable,
)
from tui_profiler.reports.document import Facts, Note, Part
from tui_profiler.session import Tree

MOST_ROWS = 20
"""Of a table that only shows the largest."""


def percent(value: float | None) -> str:
    """Return a share of 0 to 1 for a column, in percent; a dash where it is not known."""
    return UNAVAILABLE if value is None else f"{value * 100:.1f}"


def figure(value: Figure | None, written: Callable[[float], str], why: str = "") -> str:
    """Return a figure, or a dash and the reason why there is none."""
    if value is None:
        return f"{UNAVAILABLE} ({why})" if why else UNAVAILABLE
    return f"{UNAVAILABLE} ({value.reason})" if isinstance(value, Unknown) else written(value)


def nothing(reason: str) -> tuple[Part, ...]:
    """Return the whole of a section whose figures are absent: why they are."""
    return (Note(f"{UNAVAILABLE} {reason}"),)


def labelled(label: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return facts of which only the first has the label."""
    return [(label if place == 0 else "", text) for place, text in enumerate(texts)]


def facts(*rows: tuple[str, str]) -> Facts:
    """Return facts; those without a text are left out."""
    return Facts(tuple(row for row in rows if row[1]))


def inputs(specs: tuple[InputSpec, ...]) -> list[str]:
    """Return one line for each input: its name, shape and type, and where the shape is from."""
    return [f"{one.name} {shape(one.shape)} {dtype(one.dtype)} ({one.why})" for one in specs]


def work(tree: Tree, between: str = ", ") -> str:
    """Return the work of one forward, and where it is a bound."""
    cost, depends = tree.costs[0], tree.bounded.get(0)
    macs, flops = known_macs(cost), known_flops(cost)
    if flops is None:
        return f"{UNAVAILABLE} {why_not_counted(tree)}"
    least = exactness.of_flops(depends, is_at_least=is_at_least(cost))
    counted = f"{UNAVAILABLE} MAC"
    if macs is not None:
        counted = f"{words(exactness.of_count(depends))}{quantity(macs, 'MAC')}"
    return f"{counted}{between}{words(least)}{quantity(flops, 'FLOP')}"


def words(reading: exactness.Reading) -> str:
    """Return what is written before a figure: ``at most``; empty where it is exact."""
    return f"{reading} " if reading else ""


def bytes_of(tree: Tree) -> str:
    """Return the bytes that the operators of one forward move, and where they are a bound."""
    return words(exactness.of_count(tree.bounded.get(0))) + size(bytes_moved(tree.costs[0]))


def moved(tree: Tree) -> str:
    """Return the bytes that the operators of one forward move, by what they are."""
    cost = tree.costs[0]
    read = f"inputs {size(cost.input_bytes)}, weights {size(cost.weight_bytes)}"
    return f"{bytes_of(tree)}: {read}, outputs {size(cost.output_bytes)}"


def per_byte(tree: Tree) -> str:
    """Return FLOPs per byte of one forward; a dash where nothing is moved."""
    cost = tree.costs[0]
    found = intensity(cost)
    if found is None:
        return UNAVAILABLE
    reading = exactness.of_intensity(tree.bounded.get(0), is_at_least=is_at_least(cost))
    return f"{words(reading)}{intensity_text(found)} FLOP/B"


def work_cells(tree: Tree, at: int) -> tuple[str, str, str, str]:
    """Return MACs, FLOPs, bytes and FLOPs per byte of a node as cells, bounds marked."""
    cost, depends = tree.costs[at], tree.bounded.get(at)
    is_least = is_at_least(cost)
    bounded = SIGNS[exactness.of_count(depends)]
    least = SIGNS[exactness.of_flops(depends, is_at_least=is_least)]
    per_byte = SIGNS[exactness.of_intensity(depends, is_at_least=is_least)]
    macs, flops = known_macs(cost), known_flops(cost)
    moved, ratio = known_bytes(cost), intensity(cost)
    none = UNAVAILABLE if flops is None else ZERO
    return (
        UNAVAILABLE if macs is None else bounded + count(macs) if macs else ZERO,
        UNAVAILABLE if flops is None else least + count(flops) if flops else ZERO,
        UNAVAILABLE if moved is None else bounded + size(moved) if moved else ZERO,
        none if ratio is None else per_byte + intensity_text(ratio),
    )


def peak_mark(tree: Tree, peak: PeakMemory) -> str:
    """Return how the predicted peak is to be read.

    Without a part that is not known it is a lower bound; an upper one where sizes depend on the
    data.
    """
    is_least = isinstance(peak_bytes(peak), Unknown)
    return words(exactness.of_flops(tree.bounded.get(0), is_at_least=is_least))


def peak_size(tree: Tree, peak: PeakMemory) -> str:
    """Return the predicted peak with its mark."""
    return peak_mark(tree, peak) + size(known_peak_bytes(peak))


def peak_covers(peak: PeakMemory) -> str:
    """Return the tensors that the predicted peak covers."""
    views = peak.tensors - peak.sized - peak.skipped
    return (
        f"{thousands(peak.sized)} of {thousands(peak.tensors)} tensors allocate,"
        f" {thousands(views)} are views or in-place, {thousands(peak.skipped)} skipped"
    )


def no_batch(model: ModelFacts) -> tuple[tuple[str, str], ...]:
    """Return the row that says why a model has no batch axis; none where it has one."""
    why = model.why_no_batch
    return (("batch axis", f"{UNAVAILABLE}: {why}"),) if model.batch is None and why else ()


def published(model: ModelFacts) -> list[tuple[str, str]]:
    """Return the row of what torchvision publishes, for its own input size and one item."""
    parts = []
    if model.published_parameters is not None:
        parts.append(f"{thousands(model.published_parameters)} parameters")
    if model.published_gmacs is not None:
        parts.append(f"{model.published_gmacs:.3f} GMAC per item")
    return [("published", ", ".join(parts))] if parts else []


def problems(file: FileFacts) -> list[str]:
    """Return a line for each problem of a file."""
    found = [f"{one.what} ({one.where})" if one.where else one.what for one in file.problems]
    more = file.problem_count - len(file.problems)
    return found + [f"{thousands(more)} more"] * (more > 0)


def failed_attempts(done: TraceDone) -> list[tuple[str, str]]:
    """Return a row for each attempt to trace that failed."""
    return [("", f"{one.method} failed: {one.error}") for one in done.attempts if one.error]


def parameters(tree: Tree, between: str = ", ") -> str:
    """Return how many parameters there are, and their bytes."""
    cost = tree.costs[0]
    return f"{thousands(cost.parameters)}{between}{size(cost.parameter_bytes)}"


def trained(tree: Tree) -> str:
    """Return how many parameters are trainable, and how many frozen."""
    found, rest = trainable(tree.costs[0]), frozen(tree.costs[0])
    if isinstance(found, Unknown) or isinstance(rest, Unknown):
        return f"{UNAVAILABLE} ({NOT_TOLD.reason})"
    return f"{thousands(found)}, {thousands(rest)} frozen"
