"""Every place that shows a bound shows the same one: of leaves, containers and operators."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from functools import cache

import pytest
from msgspec.structs import replace

from screens.views.inspector.compact_pane import compact_lines, one_line
from screens.views.timeline.flame_lines import flame_lines
from screens.views.timeline.screen import SteadyLayout, flame_blocks
from screens.widgets.bound_lines import bound_lines
from screens.widgets.identity_lines import identity_lines
from screens.widgets.lines import text
from screens.widgets.rows import Look
from tests.fixtures.record import recorded
from tests.queries.sessions import ticked, with_ceilings
from tests.reports.reading import read_trace
from tests.reports.real_sessions import real_session
from tests.screens.explorer.tree.test_lines import drawn
from tui_profiler.messages import RoofQuality
from tui_profiler.queries.cost.bound import (
    bound,
    node_mix,
    node_parts,
    not_decided_modules,
    phrase,
    why_not_decided,
)
from tui_profiler.queries.cost.bound_classes import KINDS, LETTERS
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.queries.cost.roofline import node_roofline
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.panel.neighbours import slowest_children
from tui_profiler.queries.panel.provenance import why
from tui_profiler.queries.tree import filter as filters
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import figure
from tui_profiler.queries.tree.filter import BOUNDS
from tui_profiler.reports.csv import csv_model
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.perfetto.trace import perfetto_trace
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.sections.layers import PAPER_NOTE, layers_section
from tui_profiler.reports.text.sections.summary import wants
from tui_profiler.reports.text.table import as_table, table
from tui_profiler.session import EMPTY, Session, apply


def recorded_resnet() -> Session:
    session = EMPTY
    for message in recorded():
        session = apply(session, message)
    return session


def timed(name: str) -> Session:
    """Return a real model's tree with times that differ from its floors by chance."""
    session = with_ceilings(real_session(name))
    assert session.tree is not None
    tree, chance = session.tree, random.Random(name)
    seconds: dict[str, float] = {}
    for index in reversed(range(len(tree))):
        node = tree.nodes[index]
        if node.kind == "module" and node.calls:
            least = max(tree.costs[index].flops / 4e11, tree.costs[index].ops * 5e-6)
            inside = [
                seconds.get(tree.nodes[child].path, 0.0)
                for child in tree.children(index)
                if tree.nodes[child].kind == "module"
            ]
            seconds[node.path] = sum(inside) + least * 10 ** chance.uniform(-0.5, 1.6)
    return ticked(session, seconds)


def doubted(session: Session) -> Session:
    quality = RoofQuality(1.0, 0.9, "0 of 9 pieces ran without waiting")
    assert session.ceilings is not None
    return apply(session, replace(session.ceilings, busy=0.0, memory_quality=quality))


SESSIONS: dict[str, Callable[[], Session]] = {
    "resnet50, recorded": recorded_resnet,
    "cnn, measured": lambda: timed("demo:cnn"),
    "transformer, measured": lambda: timed("demo:transformer"),
    "decoder, measured": lambda: timed("demo:decoder"),
    "resnet50, memory's roof not good enough": lambda: doubted(recorded_resnet()),
    "transformer, memory's roof not good enough": lambda: doubted(timed("demo:transformer")),
    "cnn, on paper": lambda: real_session("demo:cnn"),
    "transformer, on paper": lambda: real_session("demo:transformer"),
}


@cache
def session_of(name: str) -> Session:
    return SESSIONS[name]()


def kinds(session: Session) -> dict[int, str | None]:
    assert session.tree is not None
    found = {node: bound(session, node) for node in range(len(session.tree))}
    return {node: None if one is None else one.kind for node, one in found.items()}


def modules(session: Session) -> list[int]:
    assert session.tree is not None
    return [i for i, node in enumerate(session.tree.nodes) if node.kind == "module"]


ALL = pytest.mark.parametrize("name", SESSIONS)


def kept(session: Session, node: int) -> bool:
    """Return whether what is not decided leaves the largest part the largest."""
    *parts, other = node_parts(session, node)
    most, second, *_ = sorted(parts, reverse=True)
    return most >= second + other


@pytest.mark.parametrize("name", [name for name in SESSIONS if "not good" in name])
def test_some_modules_are_on_paper_and_others_not_and_each_says_why(name: str) -> None:
    session = session_of(name)
    open_ones = [node for node in modules(session) if why_not_decided(session, node)]
    measured = [node for node in modules(session) if not why_not_decided(session, node)]
    assert open_ones
    assert measured
    said = "the memory roof is not good enough: 0 of 9 pieces ran without waiting"
    layers = json.loads(json_report(session))["layers"]
    wide = as_table([layers_section(session, session.tree, None)], 200)  # type: ignore[arg-type]  # traced
    for node in open_ones:
        assert said in dict(why(session, node))["bound"]
        assert layers[node]["bottleneck_on_paper"] == said
        look = Look(session, node, session.heard_at, 118)
        assert "memory roof is" in " ".join(text(line) for line in bound_lines(look))
    assert all(layers[node]["bottleneck_on_paper"] is None for node in measured)
    assert wide[-1] == PAPER_NOTE
    count = not_decided_modules(session)[0]
    summed = f"against this machine; {count} of {not_decided_modules(session)[1]} modules on paper"
    assert f"bounds: {summed}: {said}" in "\n".join(table(session, columns=200))
    assert f"{summed}: {said}" in " ".join(full_text(session, columns=200).split())


@ALL
def test_the_class_is_the_largest_part_of_the_mix(name: str) -> None:
    session = session_of(name)
    assert session.tree is not None
    seen = set()
    for node in modules(session):
        seconds, limit = node_mix(session, node), bound(session, node)
        if any(seconds) and (not why_not_decided(session, node) or kept(session, node)):
            assert limit is not None
            assert limit.measured
            assert KINDS[seconds.index(max(seconds))] == limit.kind
            seen.add(limit.is_container)
        else:
            assert limit is None or not limit.measured
    # Both leaves and containers were compared, where there are times.
    assert seen == (set() if "paper" in name else {True, False})


@ALL
def test_letter_bar_and_panels_show_it(name: str) -> None:
    session = session_of(name)
    expected, tree = kinds(session), session.tree
    assert tree is not None
    figures = Figures()
    lines = drawn(session, 120, figures=figures, unfold_all=True)[1:]
    for node, line in zip(modules(session), lines, strict=True):
        limit, cells = bound(session, node), figures.cells(node, 40)
        is_measured = limit is not None and limit.measured
        if not is_measured:
            assert cells.bar.mix == ()
            assert cells.bound in (None, expected[node])
        else:
            assert limit is not None
            assert cells.bound == limit.kind
            assert text(line).split()[-1] == LETTERS[limit.kind]
            if cells.bar.mix:
                assert cells.bar.mix[KINDS.index(limit.kind)] == max(cells.bar.mix[: len(KINDS)])
        look = Look(session, node, session.heard_at, 118)
        said = "" if limit is None else phrase(limit.kind) if limit.measured else limit.kind
        assert said in text(identity_lines(look)[0])
        assert said in text(compact_lines(look, 8)[0])
        if limit is not None:
            assert text(one_line(look)).rstrip().endswith(LETTERS[limit.kind])
            assert limit.reason in dict(why(session, node))["bound"]
        for inside in slowest_children(session, node, 100):
            assert inside.kind == expected[inside.node]
        column = figure(session, node, "bound")
        assert (None if column is None else KINDS[int(column)]) == expected[node]


@ALL
def test_timeline_and_roofline_show_it(name: str) -> None:
    session = session_of(name)
    expected = kinds(session)
    view = RooflineView()
    view.update(session, 10.0)
    assert view.parts is not None
    assert view.now is not None
    layout = SteadyLayout(flame_blocks)
    for node, kind in expected.items():
        at = node_roofline(session, view.parts, view.now, node)
        assert at.kind is None or at.kind == kind
        place = view.parts.places.get(node)
        if at.kind is not None and place is not None:
            assert view.now.kind(view.parts, place) == kind
    for node in modules(session)[:40]:
        look = Look(session, node, session.heard_at, 118)
        row = text(flame_lines(look, layout.of(session, 0, look.inner), 12)[1])
        limit = bound(session, node)
        if limit is not None and limit.measured:
            assert row.rstrip().endswith(phrase(limit.kind))


@ALL
def test_filters_find_it(name: str) -> None:
    session = session_of(name)
    assert BOUNDS == KINDS
    for kind in KINDS:
        wanted = [node for node, of in kinds(session).items() if of == kind]
        assert filters.matches(session, f"bound:{kind}", operators=True) == wanted


@ALL
def test_every_report_shows_it(name: str) -> None:
    session = session_of(name)
    expected, tree = kinds(session), session.tree
    assert tree is not None
    found = json.loads(json_report(session))
    assert [layer["bottleneck"] for layer in found["layers"]] == list(expected.values())
    rows = list(csv.DictReader(io.StringIO(csv_model(session, with_titles=True))))
    assert all(row["bound"] in ("", expected[node]) for node, row in enumerate(rows))
    every = modules(session)
    wide = as_table([layers_section(session, tree, None)], 200)[3:][: len(every)]
    for node, line in zip(every, wide, strict=True):
        kind = expected[node]
        found_bound = bound(session, node)
        is_paper = session.timings is not None and not (found_bound and found_bound.measured)
        letter = "·" if kind is None else "~" * is_paper + LETTERS[kind]
        assert line.split()[-1] == letter
    for packet in read_trace(perfetto_trace(session, 1)):
        notes = {n.name: n.string_value for n in packet.track_event.debug_annotations}
        if "bottleneck" in notes and notes["type"] != "":
            named = {
                expected[i]
                for i, node in enumerate(tree.nodes)
                if node.path == notes["path"] and node.type == notes["type"]
            }
            assert notes["bottleneck"] in named
    root = bound(session, 0)
    assert root is not None
    conclusion = wants(session)
    assert conclusion.startswith(phrase(root.kind))
    assert conclusion in "\n".join(table(session, columns=200))
    assert conclusion in full_text(session, columns=200)
    assert conclusion in full_markdown(session)
    shares = bound_shares(session)
    times = {kind: part.time_share for kind, part in shares.items() if part.time_share}
    if root.measured:
        assert max(times, key=lambda kind: times[kind]) == root.kind
        written = {kind: found["bottlenecks"][kind]["time_share"] or 0.0 for kind in KINDS}
        assert written == pytest.approx(dict(zip(KINDS, root.mix, strict=True)))
    else:
        assert not times
