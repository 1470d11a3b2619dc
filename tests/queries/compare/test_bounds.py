"""Differences of figures that are bounds, because they depend on the data or lack formulas."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests.queries.compare.pairs import FORMER, LATTER
from tests.queries.sessions import session_of
from tests.screens.views.compare.test_compare import verdicts
from tui_profiler.messages import Nodes, PeakMemory, TraceDone, TraceStarted
from tui_profiler.queries.compare.comparison import comparison, total_rows, worst
from tui_profiler.queries.compare.side import Side, side_of
from tui_profiler.queries.cost.exactness import Reading, of_difference
from tui_profiler.reports.json.compare import compare_as_json
from tui_profiler.reports.json.reader import read_report
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.compare import compare_table
from tui_profiler.reports.text.html import html_comparison
from tui_profiler.session import EMPTY, Session, apply

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "compare.schema.json"
REALLY: dict[Reading, tuple[float, ...]] = {
    "": (1.0,),
    "at most": (0.25, 0.5, 1.0),
    "at least": (1.0, 2.0, 4.0),
    "about": (0.25, 1.0, 4.0),
}
"""What a figure told as 1 may be."""
LOWER, HIGHER = PeakMemory(100, 50, 10, 5, 1, 40, 0), PeakMemory(100, 500, 10, 5, 1, 40, 0)


def told(text: str, *, peak: PeakMemory = LOWER, bounded: str = "", uncosted: int = 0) -> Session:
    """Return a traced model in which an operator answered with a bound, or none has a formula."""
    tree = session_of(text).tree
    assert tree is not None
    costs = tuple(replace(cost, uncosted=uncosted, output_bytes=8) for cost in tree.costs)
    session = EMPTY
    for message in (
        TraceStarted(len(tree), "dispatch:fake"),
        Nodes(tree.nodes, costs),
        TraceDone((), (), (bounded,) if bounded else (), peak),
    ):
        session = apply(session, message)
    return session


def side(text: str, **settings: object) -> Side:
    return side_of("side", told(text, **settings))  # type: ignore[arg-type]  # as of told


@pytest.mark.parametrize(("a", "b"), list(product(REALLY, REALLY)))
def test_a_difference_and_a_ratio_are_told_as_what_all_their_values_are(
    a: Reading, b: Reading
) -> None:
    values = list(product(REALLY[a], REALLY[b]))
    for told_as, found in (
        (0.0, [right - left for left, right in values]),
        (1.0, [right / left for left, right in values]),
    ):
        is_less = any(one < told_as for one in found)
        is_more = any(one > told_as for one in found)
        expected = "about" if is_less and is_more else "at most" if is_less else ""
        assert of_difference(a, b) == (expected or ("at least" if is_more else ""))


RELU, CONVOLUTION = "aten::relu", "aten::convolution"


def test_totals_and_their_differences_are_marked_in_every_format(tmp_path: Path) -> None:
    sessions = told(FORMER, bounded=RELU), told(LATTER, uncosted=1)
    compared = comparison(*(side_of(name, one) for name, one in zip("ab", sessions, strict=True)))

    readings = {row.name: (row.pair.a_reading, row.pair.b_reading) for row in total_rows(compared)}
    assert readings == {
        "total_parameters": ("", ""),
        "total_parameter_bytes": ("", ""),
        "total_macs": ("at most", ""),
        "total_flops": ("at most", "at least"),
        "total_memory": ("at most", ""),
        "arithmetic_intensity": ("about", "at least"),
        "peak_memory.activations": ("at most", ""),
        "peak_memory.total": ("at most", ""),
        "coverage.ops": ("at most", ""),
    }
    table = compare_table(compared, columns=100)
    assert "  MAC                     ≤5.00M       7.00M      ≥+2.00M  ≥×1.40" in table
    assert "  FLOP                    ≤10.0M      ≥14.0M      ≥+4.00M  ≥×1.40" in table
    assert any(line.startswith("  ≤ at most, ≥ at least, ~ about: depends") for line in table)
    page = html_comparison(compared)
    assert "≤5.00M</td>" in page
    assert "≥+2.00M</td>" in page
    assert "≤ at most" in page

    found = compare_as_json(compared)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    totals = {one["name"]: one for one in found["totals"]}  # type: ignore[union-attr,index,call-overload]  # plain values
    marks = ("a_bounded", "b_bounded", "difference_bounded")
    assert [totals["total_flops"][name] for name in marks] == ["at most", "at least", "at least"]
    assert [totals["total_parameters"][name] for name in marks] == [None] * 3

    read = []
    for name, one in zip("ab", sessions, strict=True):
        (tmp_path / name).write_text(json_report(one) + "\n")
        read.append(read_report(tmp_path / name, name))
    assert [one.readings for one in read] == [compared.a.readings, compared.b.readings]
    (tmp_path / "top").write_text(json_report(sessions[0], top=1) + "\n")
    assert read_report(tmp_path / "top", "top").readings == compared.a.readings


def test_two_upper_bounds_tell_nothing_of_their_difference_also_where_they_are_equal() -> None:
    compared = comparison(side(FORMER, bounded=RELU), side(FORMER, bounded=RELU))
    table = compare_table(compared, columns=100)
    assert "  MAC                     ≤5.00M      ≤5.00M           ~0  ~×1.00" in table
    assert "  parameters               1.30K       1.30K            =       =" in table


def test_a_module_is_marked_by_its_own_operators() -> None:
    compared = comparison(side(FORMER, bounded=CONVOLUTION), side(LATTER))
    marks = {
        (compared.alignment.nodes[one.index].a, one.pair.a_reading, one.pair.reading)  # type: ignore[union-attr]  # both have trees
        for one in worst(compared, "flops", 20)
    }
    assert (1, "at most", "at least") in marks
    assert {at for at, reading, _ in marks if reading} == {1}  # The stem: its operator is bounded.


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (side(FORMER, peak=HIGHER), side(FORMER, peak=LOWER, bounded=RELU), "better"),
        (side(FORMER, peak=LOWER), side(FORMER, peak=HIGHER, bounded=RELU), ""),
        (side(FORMER, peak=LOWER, bounded=RELU), side(FORMER, peak=HIGHER), "worse"),
        (side(FORMER, peak=HIGHER, bounded=RELU), side(FORMER, peak=LOWER), ""),
        (side(FORMER, peak=HIGHER), side(FORMER, peak=LOWER), "better"),
    ],
)
def test_a_bound_is_better_or_worse_only_where_it_decides_it(
    a: Side, b: Side, verdict: str
) -> None:
    row = {one.name: one for one in total_rows(comparison(a, b))}["peak_memory.total"]
    assert row.verdict == verdict


@pytest.mark.parametrize("cells", [80, 120])
def test_the_screen_marks_totals(cells: int) -> None:
    rows = verdicts(cells, side(FORMER, bounded=RELU), side(LATTER))
    assert "≤5.00M" in rows["MAC"][0]
    assert "≥+2.00M" in rows["MAC"][0]
    assert any("depends on the data" in name for name in rows)
