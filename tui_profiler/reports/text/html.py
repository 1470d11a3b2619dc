"""A session and a comparison as HTML, for notebooks: everything that a model named is escaped.

It is a fragment without scripts, and takes its colours from the page.
"""

from collections.abc import Sequence
from html import escape

from tui_profiler.figures import units
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Unknown
from tui_profiler.queries.compare import comparison, figure_text
from tui_profiler.queries.cost.bound import is_at_least, is_counted, known_flops
from tui_profiler.queries.cost.exactness import SIGNS, of_flops
from tui_profiler.queries.cost.totals import peak_bytes, throughput, top_modules
from tui_profiler.queries.panel import out_of_memory
from tui_profiler.queries.time.base import BASE_WORDS, base, share
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.reports.text.sections.figure_text import bytes_of, peak_size, work
from tui_profiler.session import Session, Tree

TOP = 8
_RIGHT = ' style="text-align:right"'
_LEFT = ' style="text-align:left"'


def html_profile(session: Session) -> str:
    """Return what a model is, what it costs, and its most expensive modules."""
    tree, model = session.tree, session.model
    if tree is None or not len(tree):
        return "<p>the model was not traced: there is nothing to show</p>"
    name = model.name if model is not None else "a model"
    cost = tree.costs[0]
    facts = [
        ("parameters", f"{units.thousands(cost.parameters)}, {units.size(cost.parameter_bytes)}"),
        ("work", work(tree)),
        ("bytes moved", bytes_of(tree) if is_counted(cost) else units.UNAVAILABLE),
        ("peak memory", _peak(tree)),
        ("latency p50", _latency(session)),
    ]
    rows = "".join(_cells((label, text), heads=1) for label, text in facts)
    kind = "" if model is None else f" <small>{_said(model.type)}, {_said(model.device)}</small>"
    return (
        f"<div><b>{_said(name)}</b>{kind}<table>{rows}</table>"
        f"{_modules(session, tree)}{_failure(session)}</div>"
    )


def html_comparison(compared: comparison.Comparison) -> str:
    """Return two sides with their totals and the worst differences."""
    head = _cells(("one forward", "A", "B", "B − A", "B / A"), heads=5)
    totals = comparison.total_rows(compared)
    rows = [_cells((row.words, *figure_text.total_texts(row)), heads=1) for row in totals]
    signs = figure_text.reading_words(row.pair for row in totals)
    labels = f"<b>A</b> {_said(compared.a.label)}<br><b>B</b> {_said(compared.b.label)}"
    legend = f"<p>{_said(signs)}</p>" if signs else ""
    return f"<div>{labels}<table>{head}{''.join(rows)}</table>{legend}{_worst(compared)}</div>"


def _worst(compared: comparison.Comparison) -> str:
    alignment = compared.alignment
    if alignment is None:
        return f"<p>{_said(compared.why_no_alignment)}</p>"
    name = comparison.default_figure(compared)
    rows = []
    for one in comparison.worst(compared, name, TOP):
        row = alignment.nodes[one.index]
        path = f"{figure_text.MARKS[row.change]} {figure_text.path_text(compared, row)}"
        texts = figure_text.pair_texts(one.pair, one.difference, comparison.UNITS[name])
        rows.append(_cells((path, *texts), heads=1))
    if not rows:
        return "<p>no module differs</p>"
    head = _cells((f"worst by {name}", "A", "B", "B − A", "B / A"), heads=5)
    return f"<table>{head}{''.join(rows)}</table>"


def _modules(session: Session, tree: Tree) -> str:
    is_timed = session.timings is not None
    rows = []
    for index in top_modules(session, "seconds" if is_timed else "flops", TOP):
        node, cost = tree.nodes[index], tree.costs[index]
        seconds = node_seconds(session, index)
        texts = [
            safe(node.path) or "(the whole)",
            safe(node.type),
            units.count(cost.parameters),
            _flops(tree, index),
            units.written(seconds, units.duration),
            units.written(share(session, index), units.share),
        ]
        rows.append(_cells(texts, heads=1))
    if not rows:
        return ""
    by, of_base = "time" if is_timed else "FLOP", BASE_WORDS[base(session).name][0]
    head = _cells(
        (f"most {by}", "class", "parameters", "FLOP", "time", of_base),
        heads=6,
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _flops(tree: Tree, index: int) -> str:
    cost = tree.costs[index]
    sign = SIGNS[of_flops(tree.bounded.get(index), is_at_least=is_at_least(cost))]
    flops = known_flops(cost)
    return f"{sign if flops else ''}{units.written(flops, units.count)}"


def _peak(tree: Tree) -> str:
    assert tree.done is not None
    found = peak_bytes(tree.done.peak_memory)
    if isinstance(found, Unknown):
        return f"{units.UNAVAILABLE} {found.reason}"
    return peak_size(tree, tree.done.peak_memory)


def _latency(session: Session) -> str:
    tick = session.tick
    if tick is None:
        return f"{units.UNAVAILABLE} not run"
    return f"{units.duration(tick.latency_p50)}, {throughput(session)}, measured"


def _failure(session: Session) -> str:
    failure, found = session.failure, session.out_of_memory
    said = [] if failure is None else [f"{failure.stage}: {failure.what}"]
    if found is not None:
        said += [out_of_memory.what(session, found), out_of_memory.alive_words(session, found)]
    return "".join(f"<p>{_said(one)}</p>" for one in said)


def _cells(texts: Sequence[str], *, heads: int) -> str:
    """Return one row; so many of its cells are heads."""
    found = []
    for place, text in enumerate(texts):
        tag, side = "th" if place < heads else "td", _LEFT if place == 0 else _RIGHT
        found.append(f"<{tag}{side}>{escape(text)}</{tag}>")
    return f"<tr>{''.join(found)}</tr>"


def _said(text: str) -> str:
    return escape(safe(text))
