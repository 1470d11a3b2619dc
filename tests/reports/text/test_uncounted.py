"""A model whose operators are its own: nobody counted its work, and no figure is made of that."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.small_model import CONV, MEASURED, ROOT, TRACED, folded
from tui_profiler import messages
from tui_profiler.messages import Unknown
from tui_profiler.queries.compare.difference import difference
from tui_profiler.queries.compare.side import side_of
from tui_profiler.queries.cost.energy import energy_on_paper
from tui_profiler.queries.cost.flat import By, flat_table
from tui_profiler.queries.panel.neighbours import operators
from tui_profiler.queries.panel.phrases import macs_text
from tui_profiler.reports.csv import csv_nodes
from tui_profiler.reports.json.reader import read_report
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.full import full_text
from tui_profiler.reports.text.html import html_profile
from tui_profiler.reports.text.sections.summary import wants
from tui_profiler.session import Session

WHY = "not counted: mine::strange"


def uncounted(message: messages.Message) -> messages.Message:
    """Have no operator counted, as with kernels of a library's own; their bytes are known."""
    if not isinstance(message, messages.Nodes):
        return message
    costs = tuple(replace(one, macs=0, flops=0, uncosted=one.ops) for one in message.costs)
    return replace(message, costs=costs)


def session(measured: bool = False) -> Session:
    return folded(tuple(map(uncounted, MEASURED if measured else TRACED)))


def test_no_report_has_a_figure_of_it() -> None:
    report = as_json(session())
    absent = ("total_macs", "total_flops", "arithmetic_intensity")
    assert [report[name] for name in absent] == [None] * 3
    assert {report["unavailable"][name] for name in absent} == {WHY}
    assert report["total_memory"] > 0
    for layer in report["layers"]:
        assert layer["macs"] is layer["flops"] is layer["arithmetic_intensity"] is None
    for part in (*report["breakdown"], *report["layer_types"]):
        assert part["flops"] is part["share"] is None
    assert sum(one["ops"] for one in report["intensity_bands"]) == 0
    for text in (full_text(session(), columns=100), html_profile(session())):
        assert "0 FLOP" not in text
        assert "0.00 FLOP/B" not in text


@pytest.mark.parametrize("by", ["module", "class", "operator"])
def test_no_flat_table_has_a_figure_of_it(by: By) -> None:
    for row in flat_table(session(), by).rows:
        assert (row.macs, row.flops) == (Unknown(WHY), Unknown(WHY))
        assert row.bytes_moved != 0


def test_a_spreadsheet_has_empty_cells() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_nodes(session(), range(8)))))
    assert {(row["macs"], row["flops"]) for row in rows} == {("", "")}
    assert all(int(row["bytes"]) > 0 for row in rows)


def test_nothing_is_concluded_from_it() -> None:
    assert wants(session()) == ""
    assert macs_text(session()) == "MAC not counted"
    assert energy_on_paper(session(), ROOT) == Unknown(WHY)
    assert [one.macs for one in operators(session(), CONV)] == [None]


def test_a_difference_has_no_work() -> None:
    before, after = session(measured=True), session(measured=True)
    assert not any("MAC" in one for one in difference(before, after))
    assert any("MAC" in one for one in difference(folded(MEASURED), folded(MEASURED)))


def test_a_report_of_an_older_version_says_the_same(tmp_path: Path) -> None:
    """It has 0 where nothing was counted."""
    report = as_json(session(measured=True))
    for layer in report["layers"]:
        layer.update(macs=0, flops=0)
    (tmp_path / "old.json").write_text(json.dumps(report))
    old, new = read_report(tmp_path / "old.json", "old"), side_of("new", session(measured=True))
    assert old.tree is not None
    assert new.tree is not None
    assert [one.flops for one in old.tree.nodes] == [one.flops for one in new.tree.nodes]
    assert {one.macs for one in old.tree.nodes} == {None}
