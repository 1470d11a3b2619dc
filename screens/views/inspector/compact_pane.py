"""The panel below the tree, where there is no room for one beside it."""

from heapq import nlargest

from tui_profiler.figures.units import (
    count,
    duration,
    shape,
    share,
    size,
    thousands,
    three_digits,
    written,
)
from tui_profiler.formatting.canvas import nice_ceiling, sparkline
from tui_profiler.formatting.text import safe
from tui_profiler.messages import NO_FORWARD, Sample, Tensor, Unknown, known
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound_classes import KINDS, LETTERS, BoundKind
from tui_profiler.queries.panel.provenance import no_class
from tui_profiler.queries.time.base import base, base_seconds
from tui_profiler.queries.time.base import share as share_of_base
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.time.series import last_calls, utilisation
from tui_profiler.queries.tree.names import fitted
from tui_profiler.session import Timing

from ...widgets.bound_lines import bound_lines, verdict, why_on_paper
from ...widgets.file_lines import file_lines
from ...widgets.identity_lines import (
    detail_of,
    flops,
    macs,
    moved,
    per_byte,
    tensor_lines,
    title_of,
    work_lines,
)
from ...widgets.lines import EMPTY, Line, cut, line_width
from ...widgets.machine_lines import busy, machine_lines, memory_text, serving_lines, serving_text
from ...widgets.rows import LABEL, Look, aged, columns, finished, meter, row
from ...widgets.step_lines import node_step_lines, step_remarks, step_row
from ...widgets.timing_lines import counted, in_unit, timing_lines, unit_of, why_not_measured
from .why_lines import Why, why_pages

_SPARK = 35
_MOST_SERVING = 2
"""Rows of a server beside the program; a longer reason is whole on the machine screen."""


def compact_lines(look: Look, rows: int, section: str | None = None) -> tuple[Line, ...]:
    """Return exactly ``rows`` lines: a title, then all sections in short or one in full."""
    if rows == 1:
        return (one_line(look),)
    lines = _in_full(look, section, rows - 1) if section else _in_short(look)
    return finished((_title(look, section), *lines), look, rows)


def answer_lines(look: Look, asked: Why, rows: int) -> tuple[tuple[Line, ...], int]:
    """Return where the figures come from, exactly ``rows`` lines, and how many pages there are."""
    pages = why_pages(look, asked, rows - 1)
    title = _title(look, f"why  {asked.hint(len(pages))}")
    page = pages[min(asked.page, len(pages) - 1)]
    return finished((title, *page), look, rows), len(pages)


def one_line(look: Look) -> Line:
    """Return the panel of a tiny terminal: path, time, share and class."""
    tree = look.tree
    if tree is None:
        return finished((row((("…  after the trace", "muted"),), EMPTY, look),), look)[0]
    of_step = base(look.session).name == "step"
    seconds = (base_seconds if of_step else node_seconds)(look.session, look.node)
    part = share_of_base(look.session, look.node)
    found = bound.bound(look.session, look.node)
    right: list[tuple[str, str]] = []
    if seconds is not None:
        right.append((f"  {duration(seconds)}", "ink"))
        right.append((f"  {share(part)}" if part else "", "ink"))
    if found is not None:
        letter = LETTERS[found.kind]
        right.append((f"  {letter}", found.kind if found.measured else "muted"))
    room = max(look.inner - line_width(tuple(right)), 4)
    path = fitted(title_of(tree, look.node), room, look.glyphs.ellipsis)
    return finished((row(((path, "strong ink"),), tuple(right), look),), look)[0]


def _title(look: Look, section: str | None) -> Line:
    """Return the rule with the node's name in it and its class at the end."""
    rule, cells = look.glyphs.rule, look.cells
    tree = look.tree
    if tree is None:
        return ((rule * cells, "hairline"),)
    right: Line = verdict(bound.bound(look.session, look.node), look)
    if section:
        gap: Line = (("  ", "ink"),) if right else EMPTY
        right = ((section, "strong accent"), *gap, *right)
    room = max(cells - line_width(right) - 8, 1)
    path = fitted(title_of(tree, look.node), room, look.glyphs.ellipsis)
    left: Line = ((path, "strong ink"), (f"  {detail_of(tree, look.node)}", "muted"))
    left = cut(left, room, look.glyphs.ellipsis)
    between = max(cells - line_width(left) - line_width(right) - 6, 0)
    named: Line = ((f"{rule} ", "hairline"), *left)
    if not right:
        return (*named, (f" {rule * (between + 3)}", "hairline"))
    return (*named, (f" {rule * between} ", "hairline"), *right, (f" {rule}", "hairline"))


def _in_full(look: Look, section: str, rows: int) -> tuple[Line, ...]:
    match section:
        case "work":
            lines = (*work_lines(look), *tensor_lines(look))
        case "timing" | "bound" if look.tree is not None and not look.tree.has_forward:
            lines = file_lines(look)[1:]
        case "timing":
            lines = timing_lines(look, max(min(rows - 2, 3), 1))[1:]
        case "bound":
            lines = bound_lines(look)[1:]
        case "step":
            lines = _step(look)
        case _:
            # What was asked for on the command line is in sight.
            server = serving_lines(look)
            rest = machine_lines(look)[1:]
            own = rest[: len(rest) - len(server)]
            server = server[:_MOST_SERVING]
            lines = (*own[: max(rows - len(server), 0)], *server)
    return lines[:rows]


def _step(look: Look) -> tuple[Line, ...]:
    """Return what is told of the whole step for the root, of any other node what it takes of it."""
    if look.node == 0 or not (lines := node_step_lines(look)):
        return step_remarks(look)
    return lines[1:]


def _in_short(look: Look) -> tuple[Line, ...]:
    if look.tree is not None and not look.tree.has_forward:
        return (_work(look), *_file(look), _machine(look))
    step = step_row(look)
    first = _labelled("step", list(step), EMPTY, look) if step else _work(look)
    figures = (first, _timing(look), _bound(look), _machine(look))
    return aged(figures, look)


def _labelled(label: str, parts: list[Line], right: Line, look: Look) -> Line:
    head: Line = ((label.ljust(LABEL), "muted"),)
    return columns([(*head, *parts[0]), *parts[1:]] if parts else [head], right, look)


def _absence(label: str, is_coming: bool, reason: str, look: Look) -> Line:
    mark = "…" if is_coming else look.glyphs.dash
    return _labelled(label, [((f"{mark}  ", "faint"), (reason, "muted"))], EMPTY, look)


def _work(look: Look) -> Line:
    tree = look.tree
    if tree is None:
        return _absence("work", True, "after the trace", look)
    node, cost = tree.nodes[look.node], tree.costs[look.node]
    if not tree.has_forward:
        held: Line = ((count(cost.parameters), "ink"), (" parameters", "muted"))
        return _labelled("params", [held], ((size(cost.parameter_bytes), "ink"),), look)
    bounded = tree.bounded.get(look.node)
    right: Line = ((moved(cost, bounded), "ink"),)
    figure = macs(cost, bounded) if cost.macs else flops(cost, bounded)
    parts: list[Line] = [
        (*_tensor(node.inputs), (" in   ", "muted")),
        (*_tensor(node.outputs), (" out    ", "muted")),
        figure,
    ]
    if intensity := per_byte(cost, bounded):
        parts.append((("   ", "ink"), *intensity))
    return _labelled("work", parts, right, look)


def _file(look: Look) -> tuple[Line, Line]:
    """Return what the file is, in place of times and bounds."""
    found = look.session.file
    if found is None:
        return _absence("timing", False, NO_FORWARD, look), _absence("bound", False, "", look)
    problems = f", {thousands(found.problem_count)} problems" if found.problem_count else ""
    wrong = "error" if found.problem_count or found.checksum == "failed" else "muted"
    kind: Line = (
        (safe(found.kind), "ink"),
        (f"  checksum {safe(found.checksum)}{problems}", wrong),
    )
    hint = f"to run it: {safe(found.hint)}" if found.hint else NO_FORWARD
    return _labelled("file", [kind], EMPTY, look), _labelled("", [((hint, "muted"),)], EMPTY, look)


def _tensor(tensors: tuple[Tensor, ...]) -> Line:
    if not tensors:
        return (("no tensor", "faint"),)
    more = f" +{len(tensors) - 1}" if len(tensors) > 1 else ""
    return ((shape(tensors[0].shape), "ink"), (more, "muted"))


def _timing(look: Look) -> Line:
    session = look.session
    timing = session.timings.of(look.node) if session.timings is not None else None
    if timing is not None and look.tree is not None:
        return _measured(look, timing)
    seconds = node_seconds(session, look.node) if look.tree is not None else None
    is_coming, reason = why_not_measured(session, look.node) if look.tree else (True, "no tree yet")
    if seconds is None:
        return _absence("timing", is_coming, reason, look)
    return _labelled(
        "timing", [((duration(seconds), "ink"), (f"  {reason}", "muted"))], EMPTY, look
    )


def _measured(look: Look, timing: Timing) -> Line:
    unit = unit_of(timing)
    room = max(min(_SPARK, look.inner - LABEL - 23), 1)
    values = last_calls(look.session, look.node, room)
    top = nice_ceiling(max((value for value in values if value is not None), default=0.0))
    drawn = sparkline(values, top, 1, look.glyphs)[0]
    parts: list[Line] = [
        ((drawn, "faint"), (f"  {in_unit(timing.p50, unit)}", "strong ink"), (f" {unit}", "muted")),
        (("  p95", "muted"), (" " + in_unit(timing.p95, unit).rjust(5), "ink")),
    ]
    return _labelled("timing", parts, counted(look.session, timing), look)


def _bound(look: Look) -> Line:
    if look.tree is None:
        return _absence("bound", True, "after the trace", look)
    found = bound.bound(look.session, look.node)
    if found is None:
        return _absence("bound", False, safe(no_class(look.session, look.node)), look)
    if not found.measured:
        is_coming, reason = why_on_paper(look.session, look.node)
        mark = "…" if is_coming else look.glyphs.dash
        said: Line = ((f"{found.kind}, on paper  ", "ink"), (f"{mark}  {reason}", "muted"))
        return _labelled("bound", [said], EMPTY, look)
    right = "of its time" if found.is_container else "of roof"
    return _labelled("bound", _meters(found, look), ((right, "muted"),), look)


def _meters(found: bound.Bound, look: Look) -> list[Line]:
    # Where calling decides, the larger of the two roofs says the least: overhead takes its place.
    shares: list[tuple[BoundKind, float | None]] = [
        ("compute", found.compute_share),
        ("memory", found.memory_share),
    ]
    if found.is_container:
        # The two that take most of the time, the class first.
        shares = [(kind, part) for kind, part in zip(KINDS, found.mix, strict=True) if part]
        shares = nlargest(2, shares, key=lambda one: one[1] or 0.0)
    elif found.kind == "overhead":
        shares = [("overhead", found.overhead_share), max(shares, key=lambda s: s[1] or 0.0)]
    length = max((look.inner - LABEL - (48 if found.is_container else 40)) // 2, 4)
    lines: list[Line] = []
    for kind, reached in shares:
        if reached is None:
            continue
        gap = "   " if lines else ""
        name: Line = ((f"{gap}{kind} ", "muted"),)
        lines.append((*name, *meter(reached, length, kind, look), (share(reached).rjust(6), "ink")))
    return lines


def _machine(look: Look) -> Line:
    sample = look.session.sample
    if sample is None:
        return _absence("machine", look.session.ended is None, "the first sample", look)
    gpu, power = _gpu(sample, look), _power(sample, look)
    # A GPU with figures needs the cells more than the processor's past does.
    past = 14 if gpu == look.glyphs.dash else 4
    drawn = sparkline(utilisation(look.session, past), 1.0, 1, look.glyphs)[0]
    mean = busy(sample)
    figure = written(mean, share, look.glyphs.dash)
    parts: list[Line] = [
        (("cpu ", "muted"), (drawn, "faint"), (figure.rjust(6), "ink")),
        *_serving(look),
        (("   " + memory_text(sample), "ink"),),
        (("   gpu ", "muted"), (gpu, "ink")),
        (("   power ", "muted"), (power, "ink")),
    ]
    return _labelled("machine", parts, (("i why", "muted"),), look)


def _serving(look: Look) -> list[Line]:
    """Return the server beside the program: it goes before figures that there is no room for."""
    server, requests = serving_text(look)
    return [((f"   {server} ", "muted"), (requests, "ink"))] if server else []


def _gpu(sample: Sample, look: Look) -> str:
    if isinstance(sample.gpus, Unknown) or not sample.gpus:
        return look.glyphs.dash
    busiest = max(sample.gpus, key=lambda gpu: known(gpu.utilisation) or 0.0)
    used = written(known(busiest.utilisation), share, look.glyphs.dash)
    return f"{used} {written(known(busiest.memory_bytes), size, '')}".rstrip()


def _power(sample: Sample, look: Look) -> str:
    watts = known(sample.package_watts)
    return written(watts, lambda value: f"{three_digits(value)} W", look.glyphs.dash)
