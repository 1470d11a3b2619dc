"""What one real forward cost, beside figures that depend on the data."""

from __future__ import annotations

from msgspec.structs import replace

from tests.small_model import COSTS, DONE, NODES, TRACED, folded
from tui_profiler.messages import RealCost, TraceStarted
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.table import table

BOUNDED = (*TRACED[:-1], replace(DONE, bounded=("aten::nonzero",)))
REAL = RealCost(replace(COSTS[0], macs=700, flops=1500, ops=9))


def lines(session) -> str:
    return "\n".join(table(session, columns=100))


def test_both_figures_are_given() -> None:
    session = folded((*BOUNDED, REAL))

    report = as_json(session)

    assert report["total_macs"] == COSTS[0].macs
    moved = REAL.cost.input_bytes + REAL.cost.weight_bytes + REAL.cost.output_bytes
    assert report["real_run"] == {
        "total_macs": 700,
        "total_flops": 1500,
        "total_memory": moved,
        "ops": 9,
    }
    assert "700 MAC  1.50 KFLOP in one real run on these inputs" in lines(session)


def test_where_there_is_none_its_reason_is_told() -> None:
    for messages, reason in (
        (TRACED, "not needed: the totals are the same in every run"),
        (BOUNDED, "not measured; --measure SECONDS does"),
        ((*BOUNDED, RealCost(None, "ValueError: no box")), "ValueError: no box"),
    ):
        report = as_json(folded(messages))
        assert report["real_run"] is None
        assert report["unavailable"]["real_run"] == reason


def test_a_new_tree_forgets_it() -> None:
    session = folded((*BOUNDED, REAL, TraceStarted(len(NODES), "dispatch:fake")))

    assert session.real is None


def test_a_real_run_that_failed_is_told_in_the_table() -> None:
    assert "a real run failed: ValueError: no box" in lines(
        folded((*BOUNDED, RealCost(None, "ValueError: no box")))
    )
