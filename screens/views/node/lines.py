"""The node screen's body: one node in full, from its settings to the lines of code that ran."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby

from msgspec import Struct

from tui_profiler.figures import units
from tui_profiler.findings.evidence.attention import attention
from tui_profiler.findings.evidence.attention import words as attention_words
from tui_profiler.formatting.canvas import bar, half_cells
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.messages import Cost, Tensor, Unknown, Weight
from tui_profiler.queries.cost.totals import NOT_TOLD, frozen, trainable
from tui_profiler.queries.panel.neighbours import (
    Inside,
    Neighbours,
    operators,
    short_names,
    slowest_children,
)
from tui_profiler.queries.time.base import base
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.time.time_parts import TimePart, TimeParts, time_parts
from tui_profiler.queries.training.backward_operators import backward_operators
from tui_profiler.queries.tree import compiled
from tui_profiler.queries.tree.names import fitted
from tui_profiler.session import Tree

from ...widgets.file_lines import file_lines
from ...widgets.identity_lines import title_of
from ...widgets.lines import EMPTY, Line, line_width
from ...widgets.rows import Look, absent, row, section, words
from ...widgets.step_lines import node_step_lines, step_lines
from ..inspector.inside_lines import letter
from ..machine.energy_lines import node_energy_lines
from .source_text import SourceText

_TIMES = units.TimeColumn("ms", 2)
_NEEDS_WINDOW = "on paper; no operator window yet"
_NOT_ON_GPU = "on paper; operators are not timed on a GPU"
_MOST_PARTS = 8
"""Modules, and operators, that the time is told of by name."""
_MOST = 1000
"""Modules listed; a longer list would be looked through by nobody, and cost a tick."""
_FIGURES = 45
"""Cells of the table's figures: shape 15, MAC 6, bytes 9, ms 7, % 5, class 3."""


class NodeContext(Struct, frozen=True):
    """What was looked up once for a node, because it does not change while it is looked at."""

    edges: Neighbours
    alike: tuple[int, ...]
    """Nodes of the same type and shapes, itself among them."""
    source: SourceText
    """Where its forward is written."""
    called_from: tuple[tuple[str, SourceText], ...]
    """The lines that called it, each with its title: the user's own first."""


def node_lines(look: Look, around: NodeContext) -> tuple[Line, ...]:
    """Return the whole body, as long as it is."""
    tree = look.tree
    if tree is None:
        return words("this node is no longer in the tree", look)
    parts = (
        _identity(tree, look),
        *_inner_parts(tree, around, look),
        _weights(tree, look),
        _attention(look),
        _compilation(look),
        node_energy_lines(look),
        _source("source", around.source, look),
        *(_source(title, source, look) for title, source in around.called_from),
        _alike(tree, around.alike, look),
    )
    lines: list[Line] = []
    for part in parts:
        if part and lines:
            lines.append(EMPTY)
        lines += part
    return tuple(lines)


def _inner_parts(tree: Tree, around: NodeContext, look: Look) -> tuple[tuple[Line, ...], ...]:
    if not tree.has_forward:
        return (_parts(tree, look), file_lines(look))
    return (
        _tensors(tree, around.edges, look),
        _modules(look),
        _operators(look),
        _time(look),
        step_lines(look) if look.node == 0 else node_step_lines(look),
        _backward(look),
    )


def _attention(look: Look) -> tuple[Line, ...]:
    """Return which attention kernel ran in a module."""
    found = attention(look.session).get(look.node)
    if found is None:
        return ()
    return (
        section("attention", "by operator windows", look),
        *words(safe(attention_words(found)), look, "ink"),
        *(words(safe(found.operator), look) if found.operator else ()),
    )


def _compilation(look: Look) -> tuple[Line, ...]:
    """Return the breaks and recompilations in the class of a module."""
    lines: list[Line] = []
    for kind, found in (
        ("graph break", compiled.graph_breaks(look.session)),
        ("recompiled", compiled.recompilations(look.session)),
    ):
        for one in compiled.of_node(found, look.node):
            times = f"{kind}, {units.thousands(one.what.count)}×  "
            place = middle(
                safe(f"{one.function}  {one.where}"),
                max(look.inner - width(times), 8),
                look.glyphs.ellipsis,
            )
            lines.append(row(((times, "ink"), (place, "muted")), EMPTY, look))
            lines += words(safe(one.what.reason), look, indent=2)
    return (section("torch.compile", "of all modules of this class", look), *lines) if lines else ()


def _time(look: Look) -> tuple[Line, ...]:
    found = time_parts(look.session, look.node)
    return () if found is None else parts_lines(found, look)


def parts_lines(found: TimeParts, look: Look) -> tuple[Line, ...]:
    """Return every part of a node's time by name; they add up to the last row."""
    says = "self time by the last operator window" if found.is_divided else "mean per forward"
    return (
        section("time", says, look),
        *(_part(name, seconds, found, look) for name, seconds in _listed(found.parts)),
        _part("total, mean per forward", found.whole, found, look),
    )


def _listed(parts: tuple[TimePart, ...]) -> Iterator[tuple[str, float]]:
    """Yield names and seconds; of many modules, and of many operators, the last are one row."""
    for kind, found in groupby(parts, key=lambda part: part.kind):
        same = list(found)
        yield from ((safe(part.name), part.seconds) for part in same[:_MOST_PARTS])
        if more := same[_MOST_PARTS:]:
            name = f"{units.thousands(len(more))} further {kind}s"
            yield name, sum(part.seconds for part in more)


def _part(name: str, seconds: float, whole: TimeParts, look: Look) -> Line:
    share = units.share_cell(max(seconds, 0.0) / whole.whole)
    figure = ("−" if seconds < 0.0 else "") + units.duration(abs(seconds))
    return _figures(name, figure.rjust(12) + f"{share} %".rjust(8), look)


def _figures(name: str, figures: str, look: Look) -> Line:
    room = max(look.inner - width(figures) - 1, 8)
    return row(((fitted(name, room, look.glyphs.ellipsis), "ink"),), ((figures, "ink"),), look)


def _identity(tree: Tree, look: Look) -> tuple[Line, ...]:
    node = tree.nodes[look.node]
    crumb = f" {look.glyphs.crumb} "
    names = [safe(tree.nodes[index].name) for index in (*tree.ancestors(look.node),)][::-1]
    right: Line = ((safe(node.type), "muted"),)
    room = max(look.inner - line_width(right) - 2, 8)
    name = safe(node.name)
    # The nearest names matter most: the breadcrumb loses its beginning first.
    while names and width(crumb.join((*names, name))) > room:
        names.pop(0)
    path: Line = (
        ((crumb.join(names) + crumb) if names else "", "muted"),
        (middle(name, room, look.glyphs.ellipsis), "strong ink"),
    )
    detail = words(safe(node.detail), look, "ink") if node.detail else ()
    note = words(safe(node.note), look) if node.note else ()
    return (row(path, right, look), *detail, *note)


def _tensors(tree: Tree, edges: Neighbours, look: Look) -> tuple[Line, ...]:
    node = tree.nodes[look.node]
    lines = [section("tensors", "", look)]
    for label, tensors, arrow, ends in (
        ("in", node.inputs, "←", edges.sources),
        ("out", node.outputs, "→", edges.targets),
    ):
        if not tensors:
            lines.append(row(((label.ljust(6), "muted"), ("no tensor", "faint")), EMPTY, look))
        for index, tensor in enumerate(tensors):
            where = _ends(tree, arrow, ends, look) if index == 0 else ""
            lines.append(_tensor(label if index == 0 else "", tensor, where, look))
    return tuple(lines)


def _ends(tree: Tree, arrow: str, ends: tuple[int, ...], look: Look) -> str:
    if not ends:
        return f"{arrow} {look.glyphs.dash}"
    more = f" +{len(ends) - 1}" if len(ends) > 1 else ""
    return f"{arrow} {title_of(tree, ends[0])}{more}"


def _tensor(label: str, tensor: Tensor, where: str, look: Look) -> Line:
    name = middle(safe(tensor.name), 9, look.glyphs.ellipsis)
    left = (
        (label.ljust(6), "muted"),
        (fit(name, 10), "muted"),
        (units.shape(tensor.shape).ljust(14), "ink"),
        (units.dtype(safe(tensor.dtype)).ljust(5), "muted"),
        (units.size(tensor.bytes).rjust(8), "ink"),
    )
    return _with_end(left, where, look)


def _with_end(left: Line, end: str, look: Look) -> Line:
    room = max(look.inner - line_width(left) - 3, 0)
    end = "   " + middle(end, room, look.glyphs.ellipsis) if end and room > 3 else ""
    return row((*left, (end, "muted")), EMPTY, look)


def _parts(tree: Tree, look: Look) -> tuple[Line, ...]:
    """Return the modules inside with their parameters, where there is nothing else to tell."""
    found = slowest_children(look.session, look.node, most=_MOST)
    if not found:
        return ()
    lines = [section("modules", "most parameters first", look)]
    for item in found:
        share_of = units.written(item.share, lambda part: f"{units.share_cell(part)} %")
        cost = tree.costs[item.node]
        figures = (
            units.count(cost.parameters).rjust(8)
            + units.size(cost.parameter_bytes).rjust(12)
            + share_of.rjust(8)
        )
        name = fitted(safe(item.name), max(look.inner - 30, 8), look.glyphs.ellipsis)
        lines.append(row(((name, "ink"),), ((figures, "ink"),), look))
    return tuple(lines)


def _modules(look: Look) -> tuple[Line, ...]:
    found = slowest_children(look.session, look.node, most=_MOST)
    if not found:
        return ()
    in_order = sorted(found, key=lambda item: item.node)
    most = f"the {_MOST} largest" if len(found) == _MOST else str(len(found))
    title = section("modules", f"{most}, execution order", look)
    return (title, _heading(look), *(_item(item, look) for item in in_order))


def _operators(look: Look) -> tuple[Line, ...]:
    found = operators(look.session, look.node)
    if not found:
        return ()
    is_on_paper = all(item.seconds is None for item in found)
    why = _NOT_ON_GPU if look.session.is_timed_on_gpu else _NEEDS_WINDOW
    of_base = base(look.session)
    per = "step, forwards only" if of_base.name == "step" else "forward"
    derived = f"ms per {per}, derived; % {of_base.words}"
    comes_from = f"one forward, {why}" if is_on_paper else derived
    return (
        section("operators", comes_from, look),
        _heading(look),
        *(_item(item, look) for item in found),
    )


def _backward(look: Look) -> tuple[Line, ...]:
    """Return the operators of the backward, those of modules inside included, most time first."""
    found = backward_operators(look.session, look.node)
    told = look.session.backward
    if not found or told is None:
        return ()
    count = told.operators.windows
    windows = f"{units.thousands(count)} window{'s' * (count != 1)}"
    lines = [section("backward", f"operators, self time per step, {windows}", look)]
    for one in found[:_MOST_PARTS]:
        name = one.name + ("  recomputed" if one.is_recomputed else "")
        figures = (
            f"{units.thousands(one.calls)} {look.glyphs.times}".rjust(10)
            + units.duration(one.own).rjust(12)
            + f"{units.share_cell(one.share)} %".rjust(8)
        )
        lines.append(_figures(name, figures, look))
    if more := found[_MOST_PARTS:]:
        rest = f"{units.thousands(len(more))} further"
        figure = units.duration(sum(one.own for one in more)).rjust(12)
        share = f"{units.share_cell(sum(one.share for one in more))} %".rjust(8)
        lines.append(row(((rest, "muted"),), ((figure + share, "ink"),), look))
    return tuple(lines)


def _heading(look: Look) -> Line:
    figures = "shape".ljust(15) + "MAC".rjust(6) + "bytes".rjust(9) + "ms".rjust(7) + "%".rjust(5)
    return row(((f"{fit('name', _name_cells(look))} {figures}", "muted"),), EMPTY, look)


def _name_cells(look: Look) -> int:
    return max(look.inner - _FIGURES - 1, 8)


def _item(item: Inside, look: Look) -> Line:
    tree = look.tree
    outputs = tree.nodes[item.node].outputs if tree is not None else ()
    axes = units.shape(outputs[0].shape) if outputs else units.UNAVAILABLE
    name = fit(fitted(safe(item.name), _name_cells(look), look.glyphs.ellipsis), _name_cells(look))
    seconds = units.written(item.seconds, partial(units.in_column, column=_TIMES))
    return row(
        (
            (f"{name} ", "ink"),
            (fit(axes, 14, look.glyphs.ellipsis) + " ", "muted"),
            (units.written(item.macs, units.count).rjust(6), "ink" if item.macs else "faint"),
            (units.size(item.bytes).rjust(9), "ink"),
            (seconds.rjust(7), "ink" if item.seconds is not None else "faint"),
            (units.written(item.share, units.share_cell).rjust(5), "ink"),
            *letter(item),
        ),
        EMPTY,
        look,
    )


def _weights(tree: Tree, look: Look) -> tuple[Line, ...]:
    own, cost = tree.nodes[look.node].weights, tree.costs[look.node]
    if not own and not cost.parameters:
        return ()
    title = section("weights", f"{units.count(cost.parameters)} parameters", look)
    return (title, *_trained(cost, look), *(_weight(weight, look) for weight in own))


def _trained(cost: Cost, look: Look) -> tuple[Line, ...]:
    """Return how many parameters are trainable and how many frozen, with all modules inside."""
    if not cost.parameters:
        return ()
    found, rest = trainable(cost), frozen(cost)
    if isinstance(found, Unknown) or isinstance(rest, Unknown):
        return absent("train", NOT_TOLD.reason, look)
    figures: Line = (
        (units.thousands(found), "ink"),
        (" trainable   ", "muted"),
        (units.thousands(rest), "ink"),
        (" frozen", "muted"),
    )
    return (row(figures, EMPTY, look),)


def _weight(weight: Weight, look: Look) -> Line:
    name = fit(middle(safe(weight.name), 19, look.glyphs.ellipsis), 20)
    shared = f"same as {safe(weight.shared_with)}" if weight.shared_with else ""
    said = shared or ("buffer" if weight.is_buffer else "not shared")
    if weight.requires_grad is False and not weight.is_buffer:
        said = f"frozen, {said}"
    left = (
        (name, "ink"),
        (units.shape(weight.shape).ljust(14), "ink"),
        (units.dtype(safe(weight.dtype)).ljust(5), "muted"),
        (units.size(weight.bytes).rjust(8), "ink"),
    )
    return _with_end(left, said, look)


def _source(title: str, source: SourceText, look: Look) -> tuple[Line, ...]:
    if not source.file:
        return ()
    # The end of a path says which file it is.
    title = middle(title, max(look.inner // 2, 8), look.glyphs.ellipsis)
    function = middle(source.function, max(look.inner // 3, 8), look.glyphs.ellipsis)
    after = f", {function}" if function else ""
    room = max(look.inner - width(title) - width(after) - 6, 8)
    file = source.file
    while width(file) > room:
        file = look.glyphs.ellipsis + file[len(look.glyphs.ellipsis) + 1 :]
    head = section(title, file + after, look)
    if source.missing:
        dash: Line = ((f"{look.glyphs.dash}  ", "faint"), (source.missing, "muted"))
        return (head, row(dash, EMPTY, look))
    lines = [_code(source, source.first + at, text, look) for at, text in enumerate(source.lines)]
    return (head, *lines)


def _code(source: SourceText, number: int, text: str, look: Look) -> Line:
    is_marked = number == source.marked
    mark = look.glyphs.folded if is_marked else " "
    return row(
        (
            (f"{number:>5} ", "faint"),
            (f"{mark} ", "accent"),
            (text, "ink" if is_marked else "muted"),
        ),
        EMPTY,
        look,
    )


def _alike(tree: Tree, alike: tuple[int, ...], look: Look) -> tuple[Line, ...]:
    if len(alike) < 2:
        return ()
    names = short_names(tuple(title_of(tree, index) for index in alike))
    times = [node_seconds(look.session, index) for index in alike]
    longest = max((seconds for seconds in times if seconds is not None), default=0.0)
    label = min(max(map(width, names)), look.inner // 2)
    room = max(look.inner - label - 12, 1)
    lines = [section("siblings", "same type and shapes, per forward", look)]
    for index, name, seconds in zip(alike, names, times, strict=True):
        halves = half_cells(seconds, longest, room) if seconds and longest else 0
        role = "strong ink" if index == look.node else "ink"
        text = fit(middle(name, label, look.glyphs.ellipsis), label)
        left: Line = ((f"{text}  ", role), (bar(halves, look.glyphs), "muted"))
        figure = units.written(seconds, units.duration)
        lines.append(row(left, ((figure, role),), look))
    return tuple(lines)
