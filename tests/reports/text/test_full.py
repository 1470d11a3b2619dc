"""The full report: the same session as text and as Markdown."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from tests.hostile import TEXTS
from tests.machine_session import FULL
from tests.reports.real_sessions import real_session
from tests.small_model import DONE, FACTS, MEASURED, NODES, TRACED, folded
from tui_profiler.figures.units import quantity, thousands
from tui_profiler.formatting.text import width
from tui_profiler.messages import Failed, Nodes, TraceStarted
from tui_profiler.reports.text.full import full_markdown, full_text, sections
from tui_profiler.reports.text.text import LEAST_COLUMNS, field, wrap_field
from tui_profiler.session import EMPTY, Session

TITLES = [
    "executive summary",
    "architecture",
    "parameters",
    "computation",
    "memory",
    "profile",
    "energy",
    "findings",
]


def text(session: Session, columns: int = 100) -> str:
    return full_text(session, columns=columns)


@pytest.mark.parametrize("messages", [TRACED, MEASURED], ids=["traced", "measured"])
def test_every_section_is_there_in_its_order(messages: tuple) -> None:
    assert [section.title for section in sections(folded(messages))] == TITLES


@pytest.mark.parametrize("name", ["demo:cnn", "demo:decoder", "demo:lstm", "demo:hostile"])
@pytest.mark.parametrize("columns", [90, 100, 160])
def test_no_line_is_wider_than_asked_for(name: str, columns: int) -> None:
    lines = text(real_session(name), columns).splitlines()
    assert max(map(width, lines)) <= columns
    assert all(line == line.rstrip() for line in lines)


def test_a_narrow_terminal_gets_whole_figures() -> None:
    assert text(real_session("demo:cnn"), 40) == text(real_session("demo:cnn"), LEAST_COLUMNS)
    layers = text(real_session("demo:cnn"), 40).partition("\nlayer ")[2].splitlines()[1:74]
    assert all(line.endswith(("memory", "compute", "·")) for line in layers)


def test_the_figures_are_those_of_the_session() -> None:
    session = real_session("demo:cnn")
    assert session.tree is not None
    found = session.tree.costs[0]
    for written in (text(session), full_markdown(session)):
        assert thousands(found.parameters) in written
        assert quantity(found.macs, "MAC") in written
        assert quantity(found.flops, "FLOP") in written


def test_both_have_every_layer() -> None:
    session = real_session("demo:cnn")
    assert session.tree is not None
    names = [node.name for node in session.tree.nodes if node.kind == "module"]
    layers = text(session).partition("\nlayer ")[2].splitlines()[1 : len(names) + 1]
    assert [line.split()[0] for line in layers] == names
    table = full_markdown(session).partition("| layer |")[2].splitlines()[2 : len(names) + 2]
    assert [re.sub("(&nbsp;)+", "", line.split()[1]) for line in table] == names


def test_what_is_absent_says_why() -> None:
    said = text(folded(TRACED))
    assert "– not measured; --measure SECONDS does" in said
    assert re.search(r"measured +– \(not measured; --measure SECONDS does\)", said)


def test_measured_times_are_told_with_their_provenance() -> None:
    said = text(folded((*MEASURED, FULL)))
    assert "profile -- measured on this machine" in said
    assert re.search(r"latency +p50 1\.00 ms, p95 2\.00 ms", said)
    assert re.search(r"most expensive +conv \(Conv2d\): 50 % of the time", said)


def test_on_paper_the_most_expensive_is_by_its_own_flops() -> None:
    # 13,824 of 18,964 FLOP, worked out by hand in small_model.
    assert "conv (Conv2d): 73 % of the FLOPs" in text(folded(TRACED))


def test_only_the_most_expensive_layers_are_given() -> None:
    said = full_text(folded(TRACED), columns=100, top=1)
    layers = said.partition("\nlayer ")[2].partition("\n\n")[0].splitlines()[1:]
    assert [line.split()[0] for line in layers] == ["conv"]


def test_a_failure_is_told_with_what_was_learned() -> None:
    said = text(folded((*TRACED, Failed("run", "out of memory", "conv"))))
    assert "stopped early. run: out of memory" in said


def test_parameters_alone_have_no_work_and_say_so() -> None:
    done = replace(DONE, attempts=(), uncosted=())
    messages = (FACTS, TraceStarted(2, "parameters"), *_parameters_only(), done)
    said = text(folded(messages))
    assert re.search(r"work +– \(", said)
    assert "FLOP/B" not in said
    assert "10,712" not in said
    assert full_markdown(folded(messages)).startswith("# net.py:build\n")


def _parameters_only() -> tuple[Nodes, ...]:
    first = folded(TRACED).tree
    assert first is not None
    return (Nodes((NODES[0], NODES[1]), (first.costs[0], first.costs[1])),)


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_text_is_safe_everywhere(name: str) -> None:
    nodes = tuple(replace(node, name=name, type=name, path=name) for node in NODES[:2])
    facts = replace(FACTS, name=name, type=name, source=name, weights=name)
    first = folded(TRACED).tree
    assert first is not None
    messages = (facts, TraceStarted(2, "dispatch:fake"), Nodes(nodes, first.costs[:2]), DONE)
    for written in (text(folded(messages)), full_markdown(folded(messages))):
        assert all(line.isprintable() for line in written.splitlines())
        assert len(written.encode("utf-8")) > 0
    assert max(map(width, text(folded(messages)).splitlines())) <= 100


def test_without_a_tree_there_is_no_report() -> None:
    with pytest.raises(ValueError, match="not traced"):
        text(EMPTY)


def test_what_has_a_label_goes_on_in_further_lines() -> None:
    line = field("peak memory", "109 MiB: parameters 97.5 MiB, buffers 208 KiB, workspace 690 KiB")
    assert wrap_field(line, 76) == [
        "  peak memory      109 MiB: parameters 97.5 MiB, buffers 208 KiB,",
        "                   workspace 690 KiB",
    ]


def test_a_line_that_fits_stays_as_it_is() -> None:
    assert wrap_field(field("work", "4.09 GMAC  8.22 GFLOP"), 76) == [
        "  work             4.09 GMAC  8.22 GFLOP"
    ]


def test_what_has_no_label_is_cut() -> None:
    assert wrap_field("x" * 90, 76) == ["x" * 75 + "…"]


@pytest.mark.parametrize("label", ["prompt throughput", "generation throughput"])
@pytest.mark.parametrize("figures", [1, 20])
def test_a_label_as_long_as_its_column_is_apart_from_its_text(label: str, figures: int) -> None:
    lines = wrap_field(field(label, ", ".join(["464 tokens"] * figures)), 76)
    assert lines[0].startswith(f"  {label} 464 tokens")
    assert max(map(len, lines)) <= 76


def test_a_long_field_ends_with_a_sign_that_it_goes_on() -> None:
    lines = wrap_field(field("", "a reason " * 200), 76)
    assert len(lines) == 6
    assert lines[-1].endswith("…")
    assert all(len(line) <= 76 for line in lines)
