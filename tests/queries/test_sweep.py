from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.screens.panel_session import folded, live
from tui_profiler.messages import Unknown
from tui_profiler.queries.sweep import Axis, Sweep, results, visit_of
from tui_profiler.reports.text.sweep import sweep_table


@pytest.mark.parametrize("batch", [None, 4])
def test_without_a_batch_axis_there_are_no_items_per_second(batch: int | None) -> None:
    before = live()
    assert before.model is not None
    session = folded((replace(before.model, batch=batch),), before)
    assert session.tick is not None

    visit = visit_of(session, place=0, turn=0, took_seconds=1.0)
    sweep = Sweep("net", (Axis("threads", (1,)),), 1, 1.0, runs=True, visits=(visit,))
    (result,) = results(sweep)

    why = "its inputs have no batch axis"
    expected = session.tick.per_second if batch else Unknown(why)
    assert visit.items_per_second == result.items_per_second == expected
    reason = [line for line in sweep_table(sweep, columns=100) if line.startswith("  items/s")]
    assert reason == ([] if batch else [f"  items/s          – {why}"])
