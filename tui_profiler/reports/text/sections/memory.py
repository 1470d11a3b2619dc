"""Memory: the peak of one forward, its components, and the tensors alive at it."""

from tui_profiler.figures.units import UNAVAILABLE, shape, size
from tui_profiler.messages import NO_FORWARD, PeakMemory
from tui_profiler.queries.cost.totals import known_peak_bytes
from tui_profiler.reports.document import Grid, Part, Section, figures, names
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree


def memory_section(session: Session, tree: Tree) -> Section:
    """Return the peak by its parts, and the largest tensors alive at it."""
    title = "memory"
    if not tree.has_forward:
        return Section(title, "", figure_text.nothing(NO_FORWARD))
    if tree.done is None:
        return Section(title, "", figure_text.nothing("the tree is not whole"))
    peak = tree.done.peak_memory
    grid: list[Part] = [_alive(tree, peak)] if peak.alive else []
    parts = (figure_text.facts(*_peak(tree, peak)), *grid)
    return Section(title, "predicted from tensor lifetimes", parts)


def _peak(tree: Tree, peak: PeakMemory) -> list[tuple[str, str]]:
    at = tree.nodes[peak.at].path if 0 <= peak.at < len(tree) else ""
    steps = tree.memory
    return [
        ("peak", figure_text.peak_size(tree, peak)),
        ("at", at),
        ("parameters", figure_text.figure(peak.parameters, size)),
        ("buffers", figure_text.figure(peak.buffers, size)),
        ("activations", figure_text.figure(peak.activations, size)),
        ("workspace", figure_text.figure(peak.workspace, size)),
        ("kv cache", "" if peak.kv_cache is None else figure_text.figure(peak.kv_cache, size)),
        ("covers", figure_text.peak_covers(peak)),
        ("over the forward", _over(min(steps.live), max(steps.live)) if steps else ""),
    ]


def _over(least: int, most: int) -> str:
    return f"{size(least)} to {size(most)} in live tensors after each operator, without weights"


def _alive(tree: Tree, peak: PeakMemory) -> Grid:
    whole = known_peak_bytes(peak)
    rows = []
    for node, taken in peak.alive:
        made = tree.nodes[node] if 0 <= node < len(tree) else None
        outputs = made.outputs if made is not None else ()
        name = "the inputs" if made is None else made.path
        kind = UNAVAILABLE if made is None else made.name
        held = shape(outputs[0].shape) if outputs else UNAVAILABLE
        part = figure_text.percent(taken / whole if whole else None)
        rows.append((name, kind, held, size(taken), part))
    columns = (
        *(names("alive at the peak, produced by"), names("operator"), names("shape")),
        *figures("bytes", "% peak"),
    )
    return Grid(columns, tuple(rows))
