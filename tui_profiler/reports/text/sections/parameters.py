"""Parameters: how many, of which types, where they are, and what their values are like."""

import math
from heapq import nlargest

from tui_profiler.figures import units
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Figure, Quantised, TensorStatistics, Unknown, Weight
from tui_profiler.queries.parameters.rollup import PRUNING_LOSS, ParameterSums, prunable, rolled_up
from tui_profiler.queries.parameters.weights import is_exact
from tui_profiler.reports.document import Grid, Note, Part, Section, figures, names
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.reports.text.sections.figure_text import figure
from tui_profiler.session import Session, Tree
from tui_profiler.session.parameters import Parameters, in_order
from tui_profiler.session.tree import weight_name

HEADS = (
    *(("type", 9), ("values", 8), ("mean", 10), ("std", 10)),
    *(("%zero", 6), ("int8", 6), ("bits", 6), ("%prune", 7)),
)
"""Titles of a tensor's cells, and their widths in the table."""
LEGEND = (
    "int8: SQNR in dB, one scale per channel. bits: the smallest width with 30 dB.",
    f"%prune: prunable at a loss of {units.share(PRUNING_LOSS)} of the tensor's norm.",
)


def parameters_section(session: Session, tree: Tree) -> Section:
    """Return totals, the types, the largest tensors, and the statistics where they were asked."""
    owned = [(weight_name(node, weight), weight) for node in tree.nodes for weight in node.weights]
    own = [(path, weight) for path, weight in owned if not weight.shared_with]
    parameters = [(path, weight) for path, weight in own if not weight.is_buffer]
    parts: list[Part] = [
        figure_text.facts(
            ("parameters", figure_text.parameters(tree)),
            ("trainable", figure_text.trained(tree)),
            ("tensors", f"{units.thousands(len(parameters))}; the largest are below"),
            ("types", _types([weight for _, weight in parameters])),
            ("buffers", _buffers([weight for _, weight in own if weight.is_buffer])),
            *figure_text.labelled(
                "shared", [f"{p} = {w.shared_with}" for p, w in owned if w.shared_with]
            ),
        )
    ]
    if parameters:
        parts.append(_largest(parameters))
    return Section("parameters", "as loaded", (*parts, *statistics(session)))


def statistics(session: Session) -> tuple[Part, ...]:
    """Return statistics of the values; nothing where they were not read."""
    found = session.parameters
    if found is None:
        return ()
    whole = rolled_up(session).get(0)
    rows = [*(whole_rows(whole) if whole is not None else ()), *reading_rows(found)]
    tensors = nlargest(
        figure_text.MOST_ROWS, tensors_told(session, found, None), key=lambda one: one.bytes
    )
    told = [(one.name, cells) for one in tensors if (cells := tensor_cells(one)) is not None]
    grid = Grid(
        (names("values of the largest"), *figures(*(head for head, _ in HEADS))),
        tuple((name, *cells) for name, cells in told),
        left_out=len(found.tensors) - len(told),
    )
    return Note(says(found)), figure_text.facts(*rows), grid, *map(Note, LEGEND)


def _types(weights: list[Weight]) -> str:
    bytes_by_type: dict[str, int] = {}
    for weight in weights:
        name = units.dtype(weight.dtype)
        bytes_by_type[name] = bytes_by_type.get(name, 0) + weight.bytes
    found = sorted(bytes_by_type.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{units.size(taken)} {name}" for name, taken in found)


def _buffers(weights: list[Weight]) -> str:
    taken = sum(weight.bytes for weight in weights)
    return f"{units.thousands(len(weights))}, {units.size(taken)}" if weights else "none"


def _largest(parameters: list[tuple[str, Weight]]) -> Grid:
    whole = sum(weight.bytes for _, weight in parameters)
    rows = tuple(
        (
            path,
            units.shape(weight.shape),
            units.dtype(weight.dtype),
            units.thousands(math.prod(weight.shape)),
            units.size(weight.bytes),
            figure_text.percent(weight.bytes / whole if whole else None),
        )
        for path, weight in nlargest(
            figure_text.MOST_ROWS, parameters, key=lambda one: one[1].bytes
        )
    )
    columns = (
        names("largest parameters"),
        *(names("shape"), names("type")),
        *figures("elements", "bytes", "% bytes"),
    )
    return Grid(columns, rows, left_out=max(len(parameters) - figure_text.MOST_ROWS, 0))


def tensors_told(session: Session, found: Parameters, top: int | None) -> list[TensorStatistics]:
    """Return the tensors that have a row, in the order of the tree, or the ``top`` largest."""
    tensors = [
        one for one in in_order(found, session.tree) if not one.is_buffer or not _is_plain(one)
    ]
    if top is not None:
        return sorted(tensors, key=lambda one: (one.moments is None, -one.bytes))[:top]
    return tensors


def tensor_cells(one: TensorStatistics) -> tuple[str, ...] | None:
    """Return a tensor's cells, as ``HEADS``; None where nothing is known of its values."""
    moments = one.moments
    if moments is None:
        return None
    zeros = units.share_cell(moments.zeros / moments.count) if moments.count else units.UNAVAILABLE
    return (
        *(
            type_cell(one.dtype),
            units.count(moments.count),
            _signed(moments.mean),
            _signed(moments.std),
        ),
        *(zeros, _decibels(one), _bits(one), _prunable(one)),
    )


def why_no_cells(one: TensorStatistics) -> str:
    """Return the reason for empty cells."""
    return f"shared with {one.shared_with}" if one.shared_with else one.why_none


def _is_plain(one: TensorStatistics) -> bool:
    """Tell whether there is nothing to be said of a buffer beside its figures."""
    return not one.why_none and not (one.moments and (one.moments.nans or one.moments.infinities))


def says(found: Parameters) -> str:
    """Return where the values are from."""
    if found.started.is_random:
        return "randomly initialised weights: not representative of a trained model"
    return f"weights: {safe(found.started.weights)}"


def whole_rows(whole: ParameterSums) -> list[tuple[str, str]]:
    """Return (label, text) of what is known of all values together."""
    sums = whole.sums
    if not sums.count:
        return [("values", f"{units.UNAVAILABLE} (no value is known)")]
    narrow = whole.recommended_bytes
    return [
        (
            "values",
            f"{units.thousands(sums.count)}  {units.size(whole.bytes)}, without buffers",
        ),
        ("mean, std", f"{sums.mean:.4g}, {figure(whole.std, lambda one: f'{one:.4g}')}"),
        ("range", f"{sums.minimum:.4g} to {sums.maximum:.4g}"),
        (
            "shape",
            f"skewness {figure(whole.skewness, lambda one: f'{one:.3g}')}, "
            f"kurtosis {figure(whole.kurtosis, lambda one: f'{one:.3g}')} (normal: 0)",
        ),
        (
            "norms",
            f"L1 {sums.magnitudes:.4g}, L2 {whole.l2:.4g}, largest spectral {whole.norm:.4g}",
        ),
        (
            "zeros",
            f"{units.share(sums.zeros / sums.count)},"
            f" near 0 {units.share(whole.near_zeros / sums.count)}",
        ),
        (
            "not finite",
            f"{units.thousands(sums.nans)} NaN, {units.thousands(sums.infinities)} infinite",
        ),
        (
            "prunable",
            f"{units.share(whole.prunable / sums.count)}"
            f" at a loss of {units.share(PRUNING_LOSS)} of each norm",
        ),
        (
            "channels",
            f"{units.thousands(whole.dead)} dead, {units.thousands(whole.outliers)} with outliers, "
            f"{units.thousands(whole.near_duplicates)} near-duplicate",
        ),
        (
            "at fewer bits",
            f"{units.size(narrow)} at the recommended widths,"
            f" {units.share(narrow / whole.bytes)} of the present size",
        ),
        (
            "compressed",
            f"zlib ratio {units.share(whole.pressed_bytes / whole.bytes)}, entropy bound "
            f"{units.share(whole.entropy_bytes / whole.bytes)}, of samples",
        ),
    ]


def reading_rows(found: Parameters) -> list[tuple[str, str]]:
    """Return (label, text) of how the values were read, and what is incomplete."""
    done, started = found.done, found.started
    lines: list[tuple[str, str]] = []
    if done is not None and done.seconds:
        read = f"{units.size(done.bytes)} of {units.thousands(done.tensors)} tensors"
        read += f" in {units.duration(done.seconds)}"
        lines.append(("analysed", f"{read}, {units.rate(done.bytes / done.seconds, 'B/s')}"))
    if done is None or done.was_stopped or done.why:
        why = (safe(done.why) or "stopped") if done is not None else "not finished"
        lines.append(("incomplete", why))
    if started.left_out:
        lines.append(("left out", f"{units.thousands(started.left_out)} tensors, the smallest"))
    return lines


def type_cell(dtype: str) -> str:
    """Return a type in eight cells."""
    return safe(dtype).replace("float8_", "f8").replace("bfloat", "bf").replace("float", "f")[:8]


def _signed(value: float) -> str:
    if math.isnan(value):
        return units.UNAVAILABLE
    return f"{value:.2e}" if value and not 1e-3 <= abs(value) < 1e4 else f"{value:.4f}"[:9]


def _decibels(one: TensorStatistics) -> str:
    found = best(one.quantised, "int8")
    if found is not None and is_exact(found):
        return "exact"
    if found is None or isinstance(found, Unknown):
        return units.UNAVAILABLE
    return f"{found:.1f}"


def best(ways: tuple[Quantised, ...], form: str) -> Figure | None:
    """Return the noise of a format with a scale for each channel, else for the tensor."""
    for granularity in ("channel", "tensor"):
        for one in ways:
            if (one.format, one.granularity) == (form, granularity):
                return one.sqnr_db
    return None


def _bits(one: TensorStatistics) -> str:
    return units.UNAVAILABLE if one.width is None else f"{one.width.bits:.1f}"


def _prunable(one: TensorStatistics) -> str:
    found = prunable(one)
    return units.UNAVAILABLE if found is None else units.share_cell(found)
