"""A report in at most 2 KiB of Markdown, for agents: totals, verdict, top nodes, top findings.

1. Never longer than ``MOST_BYTES`` in UTF-8, whatever the names. A text that is cut has an ``…``,
   rows that are left out are counted.
2. The id of a node is its path, as in the state dict and in the JSON report; the model itself is
   ``MODEL_ID``, which no path can be.
3. Each line of figures says where they come from: counted, predicted, estimated, measured.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tui_profiler.figures import units
from tui_profiler.findings import conclusions
from tui_profiler.findings.evidence.finding import gain_text, whole_text
from tui_profiler.findings.trial_verdict import GROUP_WORDS, Advice, grouped
from tui_profiler.formatting.text import middle, safe, width
from tui_profiler.messages import NO_FORWARD
from tui_profiler.queries.cost import bound, totals
from tui_profiler.queries.time.base import base, base_seconds, own_base_seconds, own_share
from tui_profiler.queries.time.forward_kinds import forwards_words
from tui_profiler.queries.time.node_seconds import root_seconds
from tui_profiler.queries.time.standard_error import DOUBT, NOT_RANKED, why_doubtful
from tui_profiler.reports.text.markdown import escaped
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.reports.text.sections.findings import measured_text
from tui_profiler.reports.text.sections.generation import generation_words
from tui_profiler.reports.text.sections.layers import ON_PAPER, PAPER_NOTE
from tui_profiler.reports.text.sections.serving import serving_words
from tui_profiler.reports.text.sections.summary import wants
from tui_profiler.reports.text.sections.training import step_facts
from tui_profiler.session import Session, Tree

MOST_BYTES = 2048
TOP = 10
"""Nodes where no number is asked for."""
MODEL_ID = "."
_MOST_FINDINGS = 3
_NAME_BYTES, _LINE_BYTES, _VERDICT_BYTES, _FINDING_BYTES = 80, 120, 200, 120
_ID_BYTES = (400, 96, 64, 48, 40, 32, 24, 16)
"""Of the longest id; the first with which all rows fit is taken."""
_TYPE_BYTES = 24
_LEFT_OUT_BYTES = 40
_FINDING_ID_BYTES = 40
_IS_WRITTEN_OUT = re.compile(r"[…\\&<]")
_PLAIN_ID = re.compile(r"[\w./-]+", re.ASCII)


class _Rows(NamedTuple):
    """The top nodes as a table."""

    title: str
    titles: tuple[str, ...]
    nodes: tuple[int, ...]
    figures: Callable[[int], tuple[str, ...]]
    note: str = ""


def brief(session: Session, top: int = TOP) -> str:
    """Return the report with a line end.

    Args:
        session: As it was left.
        top: Nodes with the most self time, or self FLOPs where there are no times.

    Raises:
        ValueError: There is no whole tree yet.
    """
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        raise ValueError("the model was not traced")
    head = [*_identity(session), "", *_totals(session, tree)]
    advice = _findings(session, tree) if tree.has_forward else []
    rows = _rows(session, tree, top)
    room = MOST_BYTES - _bytes((*head, *advice))
    return "\n".join((*head, *_table(tree, rows, room), *advice)) + "\n"


def node_of(tree: Tree, written: str) -> int | None:
    """Return the node with an id: its path, whole or as it was cut; None if there is none or two.

    Args:
        tree: Whose nodes are looked at.
        written: As in a brief report, without the quotes of code; empty is the model itself.
    """
    if written in ("", MODEL_ID):
        return 0
    exact = tree.find(written)
    if exact is not None or not _IS_WRITTEN_OUT.search(written):
        return exact
    found = [at for at, node in enumerate(tree.nodes) if written in _written(node.path)]
    return found[0] if len(found) == 1 else None


def _written(path: str) -> set[str]:
    return {safe(path), *(_cut(path, most) for most in _ID_BYTES)}


def _identity(session: Session) -> list[str]:
    model = session.model
    if model is None:
        return ["# unknown model"]
    batch = (
        f", batch {model.batch}"
        if model.batch
        else ", no batch axis found" * bool(model.why_no_batch)
    )
    said = f"{model.type} from {model.source}, {model.weights} weights, {model.device}{batch}"
    return [f"# {_cut(model.name, _NAME_BYTES)}", _cut(said, _LINE_BYTES)]


def _totals(session: Session, tree: Tree) -> list[str]:
    failure, has_forward = session.failure, tree.has_forward
    peak = figure_text.peak_size(tree, tree.done.peak_memory) if tree.done is not None else ""
    work = f"{units.UNAVAILABLE} ({NO_FORWARD})"
    if has_forward:
        work = figure_text.work(tree)
        if bound.is_counted(tree.costs[0]):
            work += f", {figure_text.bytes_of(tree)} moved (counted)"
    said = [
        f"parameters: {figure_text.parameters(tree)} (counted)",
        f"forward: {work}",
        *([f"peak memory: {peak} (predicted)"] if has_forward else []),
        *(_measured(session) if has_forward else []),
        *(f"{label}: {text}" for label, text in step_facts(session) if text),
        *(f"{label}: {text}" for label, text in generation_words(session)),
        *(f"{label}: {text}" for label, text in serving_words(session)),
        *([f"stopped early in {failure.stage}: {failure.what}"] if failure is not None else []),
    ]
    lines = [f"- {_cut(one, _LINE_BYTES)}" for one in said]
    verdict = wants(session) if has_forward else ""
    if verdict:
        is_measured = root_seconds(session) is not None and "on paper" not in verdict
        lines.append(f"- verdict{' (measured)' * is_measured}: {_cut(verdict, _VERDICT_BYTES)}")
    return lines


def _measured(session: Session) -> list[str]:
    tick, why = session.tick, totals.why_no_times(session)
    if tick is None or why:
        return [f"times: {units.UNAVAILABLE} ({why})"] if why else []
    latency = f"p50 {units.duration(tick.latency_p50)}, p95 {units.duration(tick.latency_p95)}"
    of = next((f" of {words}" for words in forwards_words(session)[:1]), "")
    rate = totals.throughput(session)
    by = "estimated" if totals.is_estimated_rate(session) else "measured"
    of += " on the GPU" if session.is_timed_on_gpu else ""
    return [f"latency{of}: {latency} (measured); throughput {rate} ({by})"]


def _findings(session: Session, tree: Tree) -> list[str]:
    concluded = conclusions(session)
    every = [one for group in grouped(session, concluded.findings).values() for one in group]
    if not every:
        said = "; ".join((f"no findings: {concluded.checks} ran, none applies", *concluded.words))
        return ["", _cut(said, _LINE_BYTES)]
    left_out = len(every) - _MOST_FINDINGS
    lines = ["", "findings by gain (~ estimated, ≤ upper bound):"]
    lines += [f"- {_finding(tree, one)}" for one in every[:_MOST_FINDINGS]]
    lines += [f"and {units.thousands(left_out)} more"] * (left_out > 0)
    return lines + [_cut(words, _LINE_BYTES) for words in concluded.words[:1]]


def _finding(tree: Tree, advised: Advice) -> str:
    one, measured = advised.finding, measured_text(advised)
    gain = measured or f"{gain_text(one.gain)} of {whole_text(one.gain)}, {advised.group}"
    if advised.group == "unknown":
        gain = GROUP_WORDS["unknown"][0]
    first, *others = one.nodes
    more = f" and {units.thousands(len(others))} more" if others else ""
    where = _id(tree.nodes[first].path or MODEL_ID, _FINDING_ID_BYTES)
    return f"{_cut(f'{one.title}: {gain}', _FINDING_BYTES)} [{one.kind}] at {where}{more}"


def _rows(session: Session, tree: Tree, top: int) -> _Rows:
    whole = root_seconds(session)
    if not tree.has_forward:
        return _by_parameters(session, tree, top)
    return _by_flops(session, tree, top) if whole is None else _by_time(session, whole, top)


def _by_time(session: Session, whole: float, top: int) -> _Rows:
    of = base(session)
    times = units.fitted_times(base_seconds(session, 0) or whole)
    nodes = totals.slowest_modules(session, top)

    def figures(at: int) -> tuple[str, ...]:
        timing = session.timings.of(at) if session.timings is not None else None
        if timing is None:
            return (units.UNAVAILABLE, units.UNAVAILABLE, units.UNAVAILABLE)
        mark = DOUBT if why_doubtful(session, at) else ""
        own = units.written(own_base_seconds(session, at), partial(units.in_column, column=times))
        return (mark + own, figure_text.percent(own_share(session, at)), _class(session, at))

    is_doubtful = any(why_doubtful(session, at) for at in nodes)
    return _Rows(
        "top nodes by self time (measured)",
        (f"self {times.unit}", f"% {of.words.replace('the ', '').replace('a ', '')}", "bound"),
        nodes,
        figures,
        NOT_RANKED if is_doubtful else "",
    )


def _by_flops(session: Session, tree: Tree, top: int) -> _Rows:
    whole = tree.costs[0].flops

    def figures(at: int) -> tuple[str, ...]:
        own = bound.known_flops(bound.own_cost(tree, at))
        part = figure_text.percent(own / whole if whole and own is not None else None)
        return (
            figure_text.figure(own, units.count),
            part,
            units.count(tree.costs[at].parameters),
            _class(session, at),
        )

    titles = ("self FLOP", "%", "params", "bound")
    nodes = totals.top_modules(session, "flops", top)
    return _Rows("top nodes by self FLOP (counted)", titles, nodes, figures)


def _by_parameters(session: Session, tree: Tree, top: int) -> _Rows:
    def figures(at: int) -> tuple[str, ...]:
        cost = tree.costs[at]
        return (units.count(cost.parameters), units.size(cost.parameter_bytes))

    nodes = totals.top_modules(session, "parameters", top)
    return _Rows("top nodes by parameters (as stored)", ("params", "bytes"), nodes, figures)


def _class(session: Session, at: int) -> str:
    found = bound.bound(session, at)
    if found is None:
        return units.UNAVAILABLE
    return found.kind if found.measured else ON_PAPER + found.kind


def _table(tree: Tree, rows: _Rows, room: int) -> list[str]:
    """Return the table in at most so many bytes, the first rows where not all fit."""
    if not rows.nodes:
        return []
    titles = ("node", "class", *rows.titles)
    head = [
        "",
        f"{rows.title}; node: its path, {MODEL_ID} the model itself",
        "",
        f"| {' | '.join(titles)} |",
        f"| {' | '.join(('---', '---', *('---:' for _ in rows.titles)))} |",
    ]
    on_paper = any(rows.figures(at)[-1].startswith(ON_PAPER) for at in rows.nodes)
    notes = [rows.note] * bool(rows.note) + [PAPER_NOTE] * on_paper
    foot = ["", *notes] if notes else []
    left = room - _bytes((*head, *foot))
    for most in _ID_BYTES:
        lines = [_row(tree, at, rows.figures(at), most) for at in rows.nodes]
        if _bytes(lines) <= left:
            return [*head, *lines, *foot]
    kept: list[str] = []
    while _bytes((*kept, lines[len(kept)])) <= left - _LEFT_OUT_BYTES:
        kept.append(lines[len(kept)])
    more = f"and {units.thousands(len(lines) - len(kept))} more nodes"
    return [*head, *kept, "", more, *foot]


def _row(tree: Tree, at: int, figures: tuple[str, ...], most: int) -> str:
    node = tree.nodes[at]
    cells = (_id(node.path or MODEL_ID, most), _cut(node.type, min(_TYPE_BYTES, most)), *figures)
    return f"| {' | '.join(cells)} |"


def _id(path: str, most: int) -> str:
    """Return an id as code, in which Markdown has no escapes; others than plain ones escaped."""
    return f"`{path}`" if _PLAIN_ID.fullmatch(path) and len(path) <= most else _cut(path, most)


def _cut(text: str, most: int) -> str:
    """Return text as Markdown in at most so many bytes, cut in its middle."""
    plain = safe(text)
    cells = min(width(plain), most)
    while len((found := escaped(middle(plain, cells))).encode()) > most:
        cells -= 1
    return found


def _bytes(lines: tuple[str, ...] | list[str]) -> int:
    """Return how many bytes lines take, with their ends."""
    return sum(len(line.encode()) + 1 for line in lines)
