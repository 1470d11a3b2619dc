"""A training step that was measured: its time by part, line and module; and health of values.

Health of values is of the last training step that was read, module by module, and the first NaN.
"""

from tui_profiler.figures.units import (
    UNAVAILABLE,
    duration,
    fitted_times,
    in_column,
    share,
    thousands,
)
from tui_profiler.figures.units import per_second as rate_text
from tui_profiler.messages import OtherModel, SlowStep, TrainingStep, Unknown, known
from tui_profiler.queries.time.step_seconds import NodeShare, node_share, timed_backward
from tui_profiler.queries.training.outside_modules import line_seconds, outside_operator_words
from tui_profiler.queries.training.slow_steps import longer_parts
from tui_profiler.queries.training.source_lines import line_name, lines_error
from tui_profiler.queries.training.step import (
    apart_words,
    between_words,
    longer_words,
    parts_words,
    rates,
    step_parts,
    usual_mean,
)
from tui_profiler.queries.training.values import (
    COLUMNS,
    ValueColumn,
    nan_words,
    value_rows,
    value_text,
    values_words,
)
from tui_profiler.queries.training.verdict import StepVerdict, step_verdict
from tui_profiler.reports.document import Column, Facts, Grid, Part, Section, names, short
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session, Tree

LEAST_LEFT = 0.0005
"""Share of ``other`` in no shown line that has a row, at least."""
_ENDS = {"optimizer": "the optimizer's step", "backward": "the backward pass"}


def step_sections(session: Session, tree: Tree, top: int | None = None) -> tuple[Section, ...]:
    """Return the section of a measured step; none where none was measured.

    Args:
        session: As it was left.
        tree: Its tree.
        top: Only so many modules.
    """
    if session.training is None:
        return ()
    step = session.training.step
    parts: list[Part] = [
        figure_text.facts(
            ("share, %", parts_words(session)),
            *figure_text.labelled("not seen", _unseen(session)),
            ("mean", _mean(step)),
            *figure_text.labelled("last steps", _last(step)),
            ("throughput", _rates(step)),
            *figure_text.labelled("between steps", _between(step)),
            ("steps", _counted(step)),
            ("per step", _passes(step)),
            ("recomputed", _recomputed(step)),
            ("outside modules", outside_operator_words(session)),
            ("values", values_words(session)),
            ("verdict", verdict_words(session)),
            *(("slowest", _slow_words(session, one)) for one in session.slow_steps[:1]),
        )
    ]
    if step.lines:
        parts.append(_lines(step))
    if any(line.outside or line.others for line in step.backward_lines):
        parts.append(_backward_lines(step))
    if step.other_models:
        parts.append(_other_models(step.other_models))
    grid = _modules(session, tree, top or figure_text.MOST_ROWS)
    parts += [grid] if grid.rows else []
    return (Section("time of a training step", "measured on this machine", tuple(parts)),)


def verdict_words(session: Session) -> str:
    """Return what limits a step with its figure, or why that cannot be said."""
    found = step_verdict(session)
    return found.words if isinstance(found, StepVerdict) else found


def _unseen(session: Session) -> list[str]:
    """Return the parts without a time, those with the same reason together."""
    found: dict[str, list[str]] = {}
    for part in step_parts(session):
        if part.seconds is None:
            found.setdefault(part.why, []).append(part.name)
    return [f"{', '.join(parts)}: {why}" for why, parts in found.items()]


def _mean(step: TrainingStep) -> str:
    """Return the mean of recorded steps, of which all parts and modules are."""
    left_out = f", {thousands(step.outliers)} far longer left out" if step.outliers else ""
    said = figure_text.figure(step.seconds, duration)
    return f"{said}, of {thousands(step.recorded)} recorded steps{left_out}"


def _last(step: TrainingStep) -> list[str]:
    """Return how long all of the last steps were, recorded or not."""
    p50, p95 = (figure_text.figure(one, duration) for one in (step.p50, step.p95))
    longer = longer_words(step)
    mean = figure_text.figure(usual_mean(step), duration)
    return [
        f"mean {mean}{' without those far longer' if longer else ''}, p50 {p50}, p95 {p95}",
        *filter(None, (longer, apart_words(step))),
    ]


def _between(step: TrainingStep) -> list[str]:
    """Return what lay between steps: how often, how long, and in which lines."""
    found = []
    for words, one in zip(between_words(step), step.between, strict=True):
        parts = [f"mean {duration(one.seconds)}"]
        forwards, seconds = known(one.forwards), known(one.forward_seconds)
        if forwards and seconds is not None:
            parts.append(f"{forwards:,.3g} forwards in {duration(seconds)}")
        if one.data_seconds:
            parts.append(f"data {duration(one.data_seconds)}")
        if one.lines:
            parts.append(f"{line_name(one.lines[0])} {share(one.lines[0].share)} of the rest")
        found.append(f"{words}: {', '.join(parts)}")
    return found


def _rates(step: TrainingStep) -> str:
    if isinstance(step.per_second, Unknown):
        return f"{UNAVAILABLE} ({step.per_second.reason})"
    said = [f"{rate_text(step.per_second)} steps/s"]
    for one in rates(step):
        error = f" ± {share(one.error)}" if one.error else ""
        said.append(f"{one.mark}{rate_text(one.per_second)} {one.unit}{error}")
    of = f", of the last {thousands(step.last)} steps" if step.last else ""
    with_longer = ", those far longer included" if longer_words(step) else ""
    return f"{', '.join(said)}{of}{with_longer}"


def _counted(step: TrainingStep) -> str:
    optimizers = f" ({', '.join(step.optimizers)})" if step.optimizers else ""
    return f"{thousands(step.steps)}; each ends with {_ENDS[step.ended_by]}{optimizers}"


def _passes(step: TrainingStep) -> str:
    """Return how often the model runs in a step; empty where all do once."""
    counted = (step.forwards, step.passes, step.updates)
    if not step.recorded or counted == (1.0, 1.0, 1.0):
        return ""
    forwards, passes, updates = (f"{one:.3g}" for one in counted)
    return f"{forwards} forwards, {passes} backward passes, {updates} optimizer steps"


def _recomputed(step: TrainingStep) -> str:
    again = step.recompute
    if isinstance(again, Unknown):
        return figure_text.figure(again, duration)
    if not again:
        return ""
    backward = known(step.parts.backward)
    of = f", {share(again / backward)} of the backward" if backward else ""
    return f"{duration(again)} by checkpointing{of}"


def _slow_words(session: Session, slow: SlowStep) -> str:
    longer = ", ".join(f"{name} +{duration(by)}" for name, by in longer_parts(session, slow))
    where = f" ({line_name(slow.lines[0])})" if slow.lines else ""
    return ", ".join(
        filter(None, (f"{duration(slow.seconds)}, step {thousands(slow.step)}", longer + where))
    )


def _lines(step: TrainingStep) -> Grid:
    """Return the lines of ``other`` with what is in further lines, and what no sample covers."""
    samples = "1 sample" if step.samples == 1 else f"{thousands(step.samples)} samples"
    title = f"other, by line ({samples}, ± {share(lines_error(step))})"
    left = (("(further lines)", step.lines_rest), ("(no sample there)", step.lines_unsampled))
    rows = (
        *((line_name(one), figure_text.percent(one.share)) for one in step.lines),
        *((name, figure_text.percent(part)) for name, part in left if part >= LEAST_LEFT),
    )
    columns = (
        short(names(title), f"other, by line ({samples})", 0),
        short(Column("% of other"), "% of other", 11),
    )
    return Grid(columns, rows)


def _backward_lines(step: TrainingStep) -> Grid:
    """Return where the seconds of backward passes go, by the line that starts them."""
    lines = step.backward_lines
    times = fitted_times(max(map(line_seconds, lines), default=0.0))
    others = any(line.others for line in lines)
    columns = (
        short(names("backward, by line"), "backward, by line", 0),
        short(Column("passes"), "passes", 7),
        short(Column(f"modules {times.unit}"), f"modules {times.unit}", 12),
        *(
            [short(Column(f"other models {times.unit}"), f"other {times.unit}", 10)]
            if others
            else []
        ),
        short(Column(f"outside {times.unit}"), f"outside {times.unit}", 12),
    )
    rows = tuple(
        (
            line_name(line),
            f"{line.passes:.3g}",
            in_column(line.modules, times),
            *([in_column(line.others, times)] if others else []),
            in_column(line.outside, times),
        )
        for line in lines
    )
    return Grid(columns, rows)


def _other_models(models: tuple[OtherModel, ...]) -> Grid:
    longest = max((known(one.forward) or 0.0 for one in models), default=0.0)
    times = fitted_times(max(longest, *(known(one.backward) or 0.0 for one in models)))
    columns = (
        short(names("other models"), "other models", 0),
        short(Column("calls"), "calls", 7),
        short(Column(f"forward {times.unit}"), f"forward {times.unit}", 12),
        short(Column(f"backward {times.unit}"), f"backward {times.unit}", 13),
    )
    rows = tuple(
        (
            one.name,
            f"{one.calls:.3g}",
            *(
                UNAVAILABLE if isinstance(figure, Unknown) else in_column(figure, times)
                for figure in (one.forward, one.backward)
            ),
        )
        for one in models
    )
    return Grid(columns, rows)


def _modules(session: Session, tree: Tree, most: int) -> Grid:
    """Return the modules with most time of their own in a step, forward and backward together."""
    found: list[tuple[int, NodeShare]] = []
    for at, node in enumerate(tree.nodes):
        spent = node_share(session, at) if node.kind == "module" else None
        if spent is not None and spent.own > 0:
            found.append((at, spent))
    found.sort(key=lambda one: -one[1].own)
    times = fitted_times(max((max(one.forward, one.backward) for _, one in found), default=0.0))
    rows = []
    for at, spent in found[:most]:
        node, timed = tree.nodes[at], timed_backward(session, at)
        backward = UNAVAILABLE if timed is None else in_column(timed.backward, times)
        recomputed = None if timed is None else known(timed.recomputed)
        again = UNAVAILABLE if recomputed is None else in_column(recomputed, times)
        rows.append(
            (
                node.path or node.name,
                in_column(spent.forward, times),
                backward,
                *([again] if _is_recomputed(session) else []),
                figure_text.percent(known(spent.own_share)),
                figure_text.percent(known(spent.share)),
            )
        )
    columns = (
        short(names("by self time in a step"), "by self time in a step", 0),
        short(Column(f"forward {times.unit}"), f"forward {times.unit}", 12),
        short(Column(f"backward {times.unit}"), f"backward {times.unit}", 13),
        *([short(Column("recomputed"), "recomputed", 12)] if _is_recomputed(session) else []),
        short(Column("% self"), "%self", 7),
        short(Column("% step"), "%step", 7),
    )
    return Grid(columns, tuple(rows), left_out=max(len(found) - most, 0))


def _is_recomputed(session: Session) -> bool:
    return session.training is not None and bool(known(session.training.step.recompute))


_TITLES: dict[ValueColumn, str] = {
    "largest": "max abs",
    "rms": "RMS",
    "zeros": "zeros %",
    "gradient": "grad RMS",
    "parameters": "param grad RMS",
    "update": "update",
    "nan": "NaN %",
    "inf": "Inf %",
}


def values_sections(session: Session, top: int | None = None) -> tuple[Section, ...]:
    """Return the section of values; none where nobody asked for them.

    Args:
        session: as it was left.
        top: only so many modules, the first in execution order.
    """
    if session.values is None:
        return ()
    found = value_rows(session)
    rows = tuple(
        (one.path or "(model)", *(value_text(one.figure(column), column) for column in COLUMNS))
        for one in found[:top]
    )
    titles = (Column("module", "left"), *(Column(_TITLES[column]) for column in COLUMNS))
    table = Grid(titles, rows, left_out=len(found) - len(rows))
    return (
        Section("health of values", "measured in one training step", (_step_read(session), table)),
    )


def _step_read(session: Session) -> Facts:
    assert session.values is not None
    values = session.values.values
    norm = values.gradient_norm
    unknown = f"{UNAVAILABLE} ({norm.reason})" if isinstance(norm, Unknown) else ""
    read = f"{thousands(values.step)}, {thousands(values.steps)} read, {duration(values.seconds)}"
    return figure_text.facts(
        ("step", read),
        ("gradient norm", unknown or f"{norm:.3g}"),
        ("first NaN", nan_words(session) or "none in the steps that were read"),
        ("not read", values.why_no_parameters or values.why_not_all),
    )
