"""A step of training: one bar above the tree, and its parts in full in a panel.

The bar is in grey: colour is the measured bound of a node, and no part of a step has one.
"""

from collections.abc import Iterator

from tui_profiler.figures import units
from tui_profiler.formatting.text import middle, safe
from tui_profiler.messages import OtherModel, TrainingStep, Unknown, known
from tui_profiler.queries.cost.totals import seconds_without_step
from tui_profiler.queries.panel.state import whole_seconds
from tui_profiler.queries.time.step_seconds import NodeShare, node_share, timed_backward
from tui_profiler.queries.training.backward_bound import backward_bound
from tui_profiler.queries.training.outside_modules import (
    outside_lines,
    outside_operator_words,
    outside_words,
)
from tui_profiler.queries.training.source_lines import line_name, line_share, lines_error
from tui_profiler.queries.training.step import (
    Part,
    PartName,
    apart_words,
    between_words,
    longer_words,
    rates,
    step_parts,
    usual_mean,
)
from tui_profiler.queries.training.verdict import StepVerdict, step_verdict
from tui_profiler.session import Session

from .bound_lines import verdict
from .lines import EMPTY, Line, Span, line_width
from .rows import LABEL, Look, absent, columns, meter, row, section, side_by_side, words

MOST_LINES = 3
"""Lines of the program in a panel."""
LEAST_UNSAMPLED = 0.01
"""Share of ``other`` without a sample that is shown, at least."""
LEAST_BAR = 24
"""Cells of the bar for which rates yield."""
BETWEEN = 3
"""Blank cells at least between parts and rates."""
_LABEL = 14
_GAP: Line = (("   ", "ink"),)
_OF_THE_MODEL: tuple[PartName, ...] = ("forward", "backward")


def is_training_seen(session: Session) -> bool:
    """Tell whether there is a step to show."""
    return bool(step_parts(session))


def bar_lines(look: Look, rows: int) -> tuple[Line, ...]:
    """Return the step by part: a row in words, and, where there are two, a bar with the verdict."""
    parts, training = step_parts(look.session), look.session.training
    if training is None or not parts:
        return ()
    rates = _rates(training.step, look)
    if rows < 2:
        return (_fitting(parts, training.step, (*rates[-1:], EMPTY), look),)
    return (_fitting(parts, training.step, (EMPTY,), look), _bar(parts, rates, look))


def _fitting(
    parts: tuple[Part, ...], step: TrainingStep, rates: tuple[Line, ...], look: Look
) -> Line:
    """Return the longest form that fits: what does not is left out, the least parts last of all."""
    left: Line = EMPTY
    for left in _forms(parts, step, look):
        for right in rates:
            if line_width(left) + line_width(right) + (BETWEEN if right else 0) <= look.inner:
                return row(left, right, look)
            if left:
                break  # First fewer words; the rate goes when one part alone is left.
    return row(left, EMPTY, look)


def _forms(parts: tuple[Part, ...], step: TrainingStep, look: Look) -> Iterator[Line]:
    """Yield the parts in words, the longest form first."""
    seen = tuple(part for part in parts if part.share is not None)
    seconds = known(step.seconds)
    time: Line = EMPTY
    if seconds is not None:
        time = (("step ", "muted"), (units.duration(seconds), "ink"), *_GAP)
    named, at_line = _where(step, long=True), _where(step, long=False)
    if outside := outside_words(step):
        yield (*time, *_in_words(parts, named, look, outside))
        yield (*time, *_in_words(seen, named, look, outside))
    yield (*time, *_in_words(parts, named, look))
    yield (*time, *_in_words(seen, named, look))
    for where in (named, at_line, ""):
        yield _in_words(seen, where, look)
    by_share = sorted(seen, key=lambda part: part.share or 0.0)
    for count in range(1, len(by_share)):
        left_out = set(by_share[:count])
        yield _in_words(tuple(part for part in seen if part not in left_out), "", look)


def _in_words(parts: tuple[Part, ...], where: str, look: Look, outside: str = "") -> Line:
    said = {"other": where, "backward": outside}
    spans: list[Span] = []
    for part in parts:
        if spans:
            spans.append((f" {look.glyphs.zero} ", "faint"))
        figure = look.glyphs.dash if part.share is None else units.share_cell(part.share)
        role = "faint" if part.share is None else "ink"
        spans += [(f"{part.name} ", "muted"), (figure, role)]
        if part.share is not None and (at := said.get(part.name)):
            spans.append((f" ({at})", "muted"))
    return tuple(spans)


def _where(step: TrainingStep, *, long: bool) -> str:
    """Return the line in which most of ``other`` was spent: ``log_metrics, train.py:54, 70 %``."""
    if not step.lines:
        return ""
    name = line_name(step.lines[0])
    if long:
        return f"{name}, {line_share(step.lines[0], step)}"
    return name.rpartition(", ")[2]


def _rates(step: TrainingStep, look: Look) -> tuple[Line, ...]:
    """Return steps, items and tokens per second, the longest form first, or that steps stopped.

    Where steps that took far longer are a part of them, each form says so.
    """
    if idle := seconds_without_step(look.session):
        stopped: Line = (("no step ", "muted"), (whole_seconds(idle), "ink"))
        return (stopped,)
    per_second = known(step.per_second)
    if per_second is None:
        nothing: Line = ((look.glyphs.dash, "faint"), (" steps/s", "muted"))
        return (nothing,)
    found: list[Line] = [((units.per_second(per_second), "ink"), (" steps/s", "muted"))]
    for one in rates(step):
        rate = f"{one.mark}{units.per_second(one.per_second)}"
        found.append((*found[-1], (f"  {rate}", "ink"), (f" {one.unit}", "muted")))
    if longer_words(step):
        longer: Line = ((f", {units.share(step.longer_share)} in longer steps", "muted"),)
        found = [(*one, *longer) for one in found]
    if step.between:
        all_rates, most = found[-1], step.between[0]
        for said in (f"{most.kind} {units.share(most.share)}", between_words(step)[0]):
            found.append((*all_rates, (f"  {said}", "muted")))
    return tuple(reversed(found))


def _bar(parts: tuple[Part, ...], rates: tuple[Line, ...], look: Look) -> Line:
    """Return the parts from left to right, what limits the step, and how often it comes."""
    said = (("  ", "ink"), *_verdict(look.session), *_GAP)
    right: Line = EMPTY
    for rate in rates:
        right = (*said, *rate)
        if look.inner - line_width(right) >= LEAST_BAR:
            break
    seen = [
        (
            part.share,
            look.glyphs.track if part.name == "other" else look.glyphs.full,
            "ink" if part.name in _OF_THE_MODEL else "faint",
        )
        for part in parts
        if part.share
    ]
    return row(side_by_side(seen, look.inner - line_width(right)), right, look)


def _verdict(session: Session) -> Line:
    found = step_verdict(session)
    return ((found.words, "ink"),) if isinstance(found, StepVerdict) else ((found, "muted"),)


def step_lines(look: Look) -> tuple[Line, ...]:
    """Return the section of a panel: every part with its time, or why it is not known."""
    training = look.session.training
    if training is None:
        return ()
    step = training.step
    title = section("step", f"mean of {units.thousands(step.recorded)} recorded", look)
    if isinstance(step.seconds, Unknown):
        return (title, *absent("step", safe(step.seconds.reason), look))
    parts = (
        _part(part.name, part.seconds, part.share, look)
        for part in step_parts(look.session)
        if part.seconds is not None and part.share is not None
    )
    _, last, *rest = step_remarks(look)
    [(said, role)] = _verdict(look.session)
    recorded = row((("step", "muted"),), ((units.duration(step.seconds), "strong ink"),), look)
    return (title, *parts, recorded, *rest, last, *words(said, look, role))


def step_remarks(look: Look) -> tuple[Line, ...]:
    """Return what the bar above the tree does not say, what matters most first."""
    training = look.session.training
    if training is None or isinstance(training.step.seconds, Unknown):
        return absent("step", "no step was recorded", look)
    step = training.step
    unseen: dict[str, list[str]] = {}
    for part in step_parts(look.session):
        if part.seconds is None:
            unseen.setdefault(safe(part.why), []).append(part.name)
    lines = [row(_verdict(look.session), EMPTY, look), _last(step, look)]
    for said in filter(None, (*between_words(step), longer_words(step), apart_words(step))):
        lines += words(said, look, "muted", 2)
    lines += _source_lines(step, look)
    lines += _outside_lines(step, look)
    if again := known(step.recompute):
        recomputed: Line = ((units.duration(again), "ink"), (" of the backward", "muted"))
        lines.append(row((("recomputed", "muted"),), recomputed, look))
    for why, names in unseen.items():
        lines += words(f"{', '.join(names)} {look.glyphs.dash}  {why}", look)
    return tuple(lines)


def _last(step: TrainingStep, look: Look) -> Line:
    """Return how long the last steps were, recorded or not, and how often one came."""
    usual = known(usual_mean(step))
    mean = look.glyphs.dash if usual is None else units.duration(usual)
    named = (("p50", known(step.p50)), ("p95", known(step.p95)))
    whole: list[Line] = [
        (("last steps".ljust(_LABEL), "muted"), (mean, "ink")),
        *(
            ((f"   {name} ", "muted"), (units.duration(found), "ink"))
            for name, found in named
            if found is not None
        ),
    ]
    return columns(whole, _rates(step, look)[-1], look)


def node_step_lines(look: Look) -> tuple[Line, ...]:
    """Return the section of a module: what it takes of a step, forward and backward."""
    training, tree = look.session.training, look.tree
    if training is None or tree is None or tree.nodes[look.node].kind == "op":
        return ()
    title = section("step", f"mean of {units.thousands(training.step.recorded)} recorded", look)
    found = node_share(look.session, look.node)
    if found is None:
        return (title, *absent("forward", "not called in recorded steps", look))
    forward: Line = (("forward".ljust(LABEL), "muted"), (units.duration(found.forward), "ink"))
    if timed_backward(look.session, look.node) is None:
        why = safe(training.step.why_no_backward)
        return (title, row(forward, EMPTY, look), *absent("backward", why, look))
    parts: list[Line] = [
        forward,
        (("   backward ", "muted"), (units.duration(found.backward), "ink")),
    ]
    lines = (title, columns(parts, EMPTY, look), *_share_lines(found, look))
    judged = backward_bound(look.session, look.node)
    if judged is None:
        return lines
    of_backward = row((("bound of the backward", "muted"),), verdict(judged, look), look)
    return (*lines, of_backward, *words(judged.reason, look))


def _share_lines(found: NodeShare, look: Look) -> tuple[Line, ...]:
    """Return a module's shares of the step with what is recomputed, or why they are unknown."""
    if isinstance(found.share, Unknown):
        return absent("share", safe(found.share.reason), look)
    own = look.glyphs.dash if isinstance(found.own_share, Unknown) else units.share(found.own_share)
    share: list[Line] = [
        (("share".ljust(LABEL), "muted"), (units.share(found.share), "ink")),
        (("   self ", "muted"), (own, "ink")),
    ]
    again: Line = EMPTY
    if recomputed := known(found.recomputed):
        again = (("recomputed ", "muted"), (units.duration(recomputed), "ink"))
    return (columns(share, again, look),)


def step_row(look: Look) -> tuple[Line, ...]:
    """Return what a node takes of a step, for one row: figures, the first ones matter most."""
    found = node_share(look.session, look.node)
    if found is None:
        return ()
    figures: list[tuple[str, str]] = [("forward", units.duration(found.forward))]
    if timed_backward(look.session, look.node) is not None:
        figures.append(("backward", units.duration(found.backward)))
        if recomputed := known(found.recomputed):
            figures.append(("recomputed", units.duration(recomputed)))
        if (share := known(found.share)) is not None:
            figures.append(("of the step", units.share(share)))
    return tuple(((f"{figure} ", "ink"), (f"{name}   ", "muted")) for name, figure in figures)


def _part(name: str, seconds: float, share: float, look: Look) -> Line:
    left: Line = (
        (name.ljust(_LABEL), "muted"),
        *meter(min(share, 1.0), max(look.inner - _LABEL - 18, 4), "muted", look),
        (units.share(share).rjust(7), "ink"),
    )
    return row(left, ((units.duration(seconds), "ink"),), look)


def _outside_lines(step: TrainingStep, look: Look) -> Iterator[Line]:
    """Yield what lies in no module of the model: the backward of losses, and other models."""
    lines = outside_lines(step)[:MOST_LINES]
    operators = outside_operator_words(look.session) if lines else ""
    for line in lines:
        spent: Line = ((f"outside modules {units.duration(line.outside)}", "muted"),)
        room = look.inner - line_width(spent) - 3
        name = middle(line_name(line), room, look.glyphs.ellipsis)
        yield row(((f"  {name}", "ink"),), spent, look)
    if operators:
        yield from words(operators, look, "faint", 2)
    for model in step.other_models[:MOST_LINES]:
        yield row(((f"  {safe(model.name)}", "ink"),), _of_model(model), look)


def _of_model(model: OtherModel) -> Line:
    times = [("forward", known(model.forward)), ("backward", known(model.backward))]
    said = [f"{name} {units.duration(spent)}" for name, spent in times if spent is not None]
    return (("  ".join(said), "muted"),)


def _source_lines(step: TrainingStep, look: Look) -> Iterator[Line]:
    for line in step.lines[:MOST_LINES]:
        share: Line = ((f"{units.share(line.share)} of other", "muted"),)
        room = look.inner - line_width(share) - 3
        name = middle(line_name(line), room, look.glyphs.ellipsis)
        yield row(((f"  {name}", "ink"),), share, look)
    if step.lines_unsampled >= LEAST_UNSAMPLED:
        unsampled: Line = ((f"{units.share(step.lines_unsampled)} of other", "muted"),)
        yield row((("  no sample there", "muted"),), unsampled, look)
    if step.lines:
        samples = "1 sample" if step.samples == 1 else f"{units.thousands(step.samples)} samples"
        yield from words(f"by {samples}, ± {units.share(lines_error(step))}", look, "faint", 2)
    if step.why_no_lines:
        which = "not of all steps" if step.lines else "no lines"
        yield from words(f"{which}: {safe(step.why_no_lines)}", look, "faint", 2)
