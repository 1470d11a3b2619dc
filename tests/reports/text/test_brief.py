"""The brief report: figures worked out by hand, 2 KiB whatever the names, ids that find a node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from demo_models.hostile import NAMES
from screens.cli.main import main
from tests.hostile import TEXTS
from tests.recording.files import timed, write
from tests.reports.reading import cells
from tests.small_model import FACTS, MEASURED, TRACED, cost, folded, node, tick
from tui_profiler import messages
from tui_profiler.formatting.text import safe
from tui_profiler.reports.text.brief import MOST_BYTES, TOP, brief, node_of
from tui_profiler.session import Session

LONG = ("::", *NAMES.values(), *TEXTS, "畳" * 500, "\u202e" * 400, "|`*_" * 100, "blocks." * 90)


def named(*names: str, seconds: float | None = None) -> Session:
    """Return a session in which everything that has a name has one of these, hostile ones too.

    Args:
        names: of layers; the first is also that of the model, its class and its failure.
        seconds: of each layer; None: nothing was measured.
    """
    first = names[0]
    done = next(one for one in TRACED if isinstance(one, messages.TraceDone))
    layers = [node(0, name, name, name, kind="module") for name in names]
    peak = replace(done.peak_memory, at=0)
    each = cost(parameters=10, macs=5, flops=10, input_bytes=4, output_bytes=4, ops=1)
    whole = cost(parameters=10 * len(names), macs=5 * len(names), flops=10 * len(names), ops=1)
    said: list[messages.Message] = [
        *TRACED[:4],
        replace(FACTS, name=first, type=first, source=first, weights=first, device=first),
        messages.TraceStarted(1 + len(names), "dispatch:real"),
        messages.Nodes(
            (node(-1, first, "", first, kind="module"), *layers), (whole, *(each,) * len(names))
        ),
        replace(done, peak_memory=peak),
        messages.Failed("run", first * 5),
    ]
    if seconds is not None:
        shares = dict.fromkeys(range(1, 1 + len(names)), (seconds, seconds))
        said.insert(-1, tick({0: (seconds * len(names), 0.0), **shares}))
    return folded(tuple(said))


def table(text: str) -> list[list[str]]:
    """Return the rows as shown; ids that are code are text, anything else but text an error."""
    # As text, in which an underscore emphasises nothing: what is in backticks is code.
    plain = re.sub(r"`([\w./-]+)`", lambda code: code[1].replace("_", r"\_"), text)
    return cells(plain)[1:]


def test_figures_are_those_of_a_hand_count_with_units_and_provenance() -> None:
    text = brief(folded(TRACED))
    assert "- parameters: 2,678, 10.5 KiB (counted)" in text
    assert "- forward: 9.47 KMAC, at least 19.0 KFLOP, 13.4 KiB moved (counted)" in text
    assert "- peak memory: 13.0 KiB (predicted)" in text
    # 13,824 + 5,130 + 10 of 18,964 FLOP.
    assert [row[:4] for row in table(text)] == [
        ["conv", "Conv2d", "13.8K", "72.9"],
        ["fc", "Linear", "5.13K", "27.1"],
        ["act", "ReLU", "10", "0.1"],
    ]
    assert "times: – (not measured" in text


def test_of_a_measured_model_times_are_said_to_be_measured() -> None:
    text = brief(folded(MEASURED))
    assert "- latency: p50 1.00 ms, p95 2.00 ms (measured); throughput 800 items/s" in text
    assert "top nodes by self time (measured)" in text
    assert "| self µs | % of forward | bound |" in text
    assert [row[:4] for row in table(text)] == [
        ["conv", "Conv2d", "500.0", "50.0"],
        ["fc", "Linear", "250.0", "25.0"],
        ["act", "ReLU", "150.0", "15.0"],
        [".", "Net", "100.0", "10.0"],
    ]
    assert "- verdict (measured): " in text


def test_what_was_not_counted_has_no_figure_and_findings_say_where() -> None:
    said = list(TRACED)
    at = next(at for at, one in enumerate(said) if isinstance(one, messages.Nodes))
    unseen = cost(parameters=2678, parameter_bytes=10712, ops=1, uncosted=1)
    said[at : at + 2] = [messages.Nodes((node(-1, "net", "", "Net"),), (unseen,))]
    started = next(at for at, one in enumerate(said) if isinstance(one, messages.TraceStarted))
    said[started] = messages.TraceStarted(1, "dispatch:real")
    seen = (messages.CompiledAgain("a.py", 3, "f", "item", 1),)
    text = brief(folded((*said, messages.Compilations(1.0, 2, 2, 0.5, seen, ()))))
    (work,) = (line for line in text.split("\n") if line.startswith("- forward:"))
    assert work.startswith("- forward: – ")
    assert "moved" not in work
    assert "graph break of torch.compile: gain unavailable [graph-breaks] at `.`" in text


@given(
    st.lists(st.one_of(st.sampled_from(LONG), st.text(min_size=1)), min_size=1, max_size=40),
    st.integers(1, 60),
    st.sampled_from((None, 1e-3, 3e5)),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_names_it_is_never_longer(
    names: list[str], top: int, seconds: float | None
) -> None:
    text = brief(named(*names, seconds=seconds), top)
    assert len(text.encode()) <= MOST_BYTES
    assert all(line.isprintable() for line in text.split("\n"))
    shown = len(table(text))
    asked = min(top, len(names))
    assert shown == asked or f"and {asked - shown} more nodes" in text


@pytest.mark.parametrize("seconds", [None, 1e-3])
@pytest.mark.parametrize("name", ["畳", "w" * 60, "\u202e", "|`*_"])
def test_ten_hostile_nodes_all_have_a_row_and_are_cut_visibly(
    name: str, seconds: float | None
) -> None:
    session = named(*(f"{name * 30}{at}{name * 30}" for at in range(30)), seconds=seconds)
    text = brief(session, TOP)
    assert len(text.encode()) <= MOST_BYTES
    assert len(table(text)) == TOP
    assert all("…" in row[0] and "…" in row[1] for row in table(text))


def test_an_id_is_the_path_and_finds_its_node_also_as_it_was_cut() -> None:
    names = ("layer1.0.conv", "_private", "a|b", "\x1b[2J", f"{'x' * 300}9", f"{'x' * 300}8")
    session = named(*names)
    tree = session.tree
    assert tree is not None
    lines = brief(session).split("\n")
    raw = [line.split(" | ")[0][2:].strip("`") for line in lines if line.startswith("| ")]
    for at, name in enumerate(names, start=1):
        assert node_of(tree, name) == at
        assert node_of(tree, safe(name)) == at or len(name) > 200
        assert any(node_of(tree, one) == at for one in raw), name
    assert node_of(tree, ".") == node_of(tree, "") == 0
    assert node_of(tree, "layer1") is None
    assert node_of(tree, f"{'x' * 5}…{'x' * 5}") is None


def test_the_command_line_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "a.rec")
    write(tmp_path / "a.rec", timed(MEASURED))
    assert main(["report", file, "--brief", "--top", "2"]) == 0
    said = capsys.readouterr().out
    assert len(table(said)) == 2
    assert main(["report", file, "--brief", "--format", "markdown", "--top", "2"]) == 0
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--format", "json"), "--brief is Markdown"),
        (("--format", "table"), "--brief is Markdown"),
        (("--by", "class"), "--brief and --by"),
        (("--depth", "1"), "--brief and --depth exclude"),
        (("--on", "L4"), "--brief and --on exclude"),
        (("--parameters",), "--brief and --parameters exclude"),
    ],
)
def test_what_it_cannot_have_is_refused(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "demo:cnn", "--brief", *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
