"""The full report: every section of one model, for text and for Markdown."""

from __future__ import annotations

from tui_profiler.figures import units
from tui_profiler.messages import NO_FORWARD, PeakMemory, Unknown
from tui_profiler.queries.cost.energy import ForwardEnergy, forward_energy
from tui_profiler.queries.cost.energy_on_paper import PaperEnergy, energy_on_paper
from tui_profiler.queries.cost.totals import known_peak_bytes, peak_bytes, was_run, why_no_times
from tui_profiler.reports.document import Grid, Part, Section, figures, names
from tui_profiler.reports.text.markdown import as_markdown
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.reports.text.sections.architecture import architecture_section
from tui_profiler.reports.text.sections.computation import computation
from tui_profiler.reports.text.sections.findings import findings_section
from tui_profiler.reports.text.sections.parameters import parameters_section
from tui_profiler.reports.text.sections.profile import profile
from tui_profiler.reports.text.sections.summary import summary
from tui_profiler.reports.text.text import as_text
from tui_profiler.session import Session, Tree


def full_text(
    session: Session, *, columns: int, top: int | None = None, more: tuple[Section, ...] = ()
) -> str:
    """Return the full report as text, with a line end.

    Args:
        session: as it was left.
        columns: cells of the widest line.
        top: only so many layers, those that cost most by themselves.
        more: sections that go before the others, such as the checks that were asked for.

    Raises:
        ValueError: there is no whole tree yet.
    """
    return "\n".join(as_text(_title(session), (*more, *sections(session, top)), columns)) + "\n"


def full_markdown(
    session: Session, *, top: int | None = None, more: tuple[Section, ...] = ()
) -> str:
    """Return the same as Markdown; arguments and errors as above."""
    return "\n".join(as_markdown(_title(session), (*more, *sections(session, top)))) + "\n"


def sections(session: Session, top: int | None = None) -> tuple[Section, ...]:
    """Return the sections in their order.

    Raises:
        ValueError: there is no whole tree yet.
    """
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        raise ValueError("the model was not traced")
    return (
        summary(session, tree),
        architecture_section(session, tree),
        parameters_section(session, tree),
        computation(session, tree, top),
        memory_section(session, tree),
        profile(session, tree, top),
        energy_section(session, tree),
        findings_section(session),
    )


def _title(session: Session) -> str:
    return session.model.name if session.model is not None else "unknown model"


def energy_section(session: Session, tree: Tree) -> Section:
    """Return the energy of a forward and, where it is not measured, why."""
    if not tree.has_forward:
        return Section("energy", "", figure_text.nothing(NO_FORWARD))
    # The counters run before the model does: only what ran has an energy of its own.
    found = forward_energy(session) if was_run(session) else Unknown(why_no_times(session))
    if isinstance(found, ForwardEnergy):
        return Section(
            "energy", "measured on this machine", (figure_text.facts(*_measured(found)),)
        )
    paper = energy_on_paper(session, 0)
    if isinstance(paper, PaperEnergy):
        between = f"~{units.rough_energy(paper.low)} to ~{units.rough_energy(paper.high)}"
        on_paper = f"{between}, by {paper.source}"
    else:
        on_paper = figure_text.figure(paper, units.energy)
    rows = (("measured", figure_text.figure(found, units.energy)), ("on paper", on_paper))
    return Section("energy", "estimated from published coefficients", (figure_text.facts(*rows),))


def _measured(found: ForwardEnergy) -> list[tuple[str, str]]:
    how = "counted" if found.source == "counter" else "by the integral of power"
    over = (
        f"{units.three_digits(found.seconds)} s and {units.three_digits(found.forwards)} forwards"
    )
    return [
        ("a forward", f"{units.energy(found.joules)}, {how} over {over}"),
        ("counter", found.name),
        ("power", f"{units.three_digits(found.watts)} W while it runs"),
        (
            "idle machine",
            figure_text.figure(found.idle_watts, lambda v: f"{units.three_digits(v)} W"),
        ),
        (
            "above idle",
            figure_text.figure(found.above_idle_joules, lambda v: units.energy(max(v, 0.0))),
        ),
        (
            "work per joule",
            figure_text.figure(found.flops_per_joule, lambda v: units.quantity(v, "FLOP")),
        ),
        ("CO₂", figure_text.figure(found.grams, lambda v: f"{v:.3g} g {found.grid}")),
    ]


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
    return Section(title, "predicted, from the lifetimes of tensors", parts)


def _peak(tree: Tree, peak: PeakMemory) -> list[tuple[str, str]]:
    least = "at least " if isinstance(peak_bytes(peak), Unknown) else ""
    at = tree.nodes[peak.at].path if 0 <= peak.at < len(tree) else ""
    steps = tree.memory
    in_view = (
        f"{units.thousands(peak.tensors - peak.sized - peak.skipped)} in memory that was there"
    )
    allocated = f"{units.thousands(peak.sized)} allocated"
    covered = f"{units.thousands(peak.tensors)} tensors: {allocated}, {in_view}"
    return [
        ("peak", f"{least}{units.size(known_peak_bytes(peak))}"),
        ("at", at),
        ("parameters", figure_text.figure(peak.parameters, units.size)),
        ("buffers", figure_text.figure(peak.buffers, units.size)),
        ("activations", figure_text.figure(peak.activations, units.size)),
        ("workspace", figure_text.figure(peak.workspace, units.size)),
        (
            "kv cache",
            "" if peak.kv_cache is None else figure_text.figure(peak.kv_cache, units.size),
        ),
        ("covers", f"{covered}, {units.thousands(peak.skipped)} skipped"),
        ("over the forward", _over(min(steps.live), max(steps.live)) if steps else ""),
    ]


def _over(least: int, most: int) -> str:
    between = f"{units.size(least)} to {units.size(most)}"
    return f"{between} in tensors after an operator, weights not counted"


def _alive(tree: Tree, peak: PeakMemory) -> Grid:
    whole = known_peak_bytes(peak)
    rows = []
    for node, taken in peak.alive:
        made = tree.nodes[node] if 0 <= node < len(tree) else None
        outputs = made.outputs if made is not None else ()
        name = "the inputs" if made is None else made.path
        kind = units.UNAVAILABLE if made is None else made.name
        held = units.shape(outputs[0].shape) if outputs else units.UNAVAILABLE
        part = figure_text.percent(taken / whole if whole else None)
        rows.append((name, kind, held, units.size(taken), part))
    columns = (
        *(names("alive at the peak, made by"), names("operator"), names("shape")),
        *figures("bytes", "% peak"),
    )
    return Grid(columns, tuple(rows))
