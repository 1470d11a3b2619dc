"""Utilisation and memory of a training step, by hand."""

from __future__ import annotations

import pytest

from tests.queries.training.test_step import parts, step
from tests.queries.training.trained import BACKWARD, cost, memory
from tests.small_model import CEILINGS, CONV, MEASURED, STRANGE_OP, folded
from tui_profiler.messages import PassCost, TrainSpec, Unknown, known
from tui_profiler.queries.compare.comparison import comparison, total_rows
from tui_profiler.queries.compare.figure_text import total_texts
from tui_profiler.queries.compare.side import side_of
from tui_profiler.queries.sweep import visit_of
from tui_profiler.queries.training import step_costs
from tui_profiler.session import Session, apply
from tui_profiler.session.training import NO_COST

FORWARD = 6912 + 2560


def trained(spec: TrainSpec | None = None, *, seconds: float = 0.0) -> Session:
    session = folded((cost(spec), memory()), folded(MEASURED))
    return apply(session, step(parts(forward=seconds), seconds)) if seconds else session


def test_a_step_has_the_flops_of_all_its_passes() -> None:
    found = step_costs.step_flops(trained())

    assert isinstance(found, step_costs.StepFlops)
    assert found.model == 2 * 3 * (FORWARD + 8 + BACKWARD.macs + 16)
    assert found.hardware == found.model + 2 * 3 * 1000


def test_utilisation_is_of_the_roof_of_the_dtype() -> None:
    session = trained(seconds=0.5)
    found, flops = step_costs.utilisation(session), step_costs.step_flops(session)
    roof = next(known(one.flops_per_second) for one in CEILINGS.compute if one.dtype == "float32")

    assert not isinstance(flops, Unknown)
    assert (found.dtype, found.roof) == ("float32", roof)
    assert roof
    assert known(found.mfu) == pytest.approx(flops.model / 0.5 / roof)
    assert known(found.hfu) == pytest.approx(flops.hardware / 0.5 / roof)


def test_a_named_peak_takes_the_place_of_the_roof() -> None:
    named = TrainSpec("sgd", peak_flops=1e9)
    found, flops = (
        step_costs.utilisation(trained(named, seconds=2.0)),
        step_costs.step_flops(trained(named)),
    )

    assert not isinstance(flops, Unknown)
    assert (found.dtype, found.roof) == ("", 1e9)
    assert known(found.mfu) == pytest.approx(flops.model / 2e9)


def test_without_a_step_or_a_roof_the_reason_is_told() -> None:
    assert step_costs.utilisation(trained()).mfu == Unknown("no step was measured")
    assert step_costs.utilisation(folded(MEASURED)).mfu == step_costs.NOT_RECORDED
    assert step_costs.step_flops(folded(MEASURED)) == step_costs.NOT_RECORDED


def test_nodes_have_their_backward() -> None:
    found = step_costs.node_backward(trained(), CONV)

    assert found is not None
    assert (found.macs, found.bytes_moved, found.gradient_bytes) == (6912, 1500, 432)
    assert step_costs.node_backward(trained(), STRANGE_OP) == NO_COST
    assert step_costs.node_backward(folded(MEASURED), CONV) is None


def test_another_tree_forgets_the_step() -> None:
    session = folded(MEASURED, trained())

    assert session.training_cost is session.training_memory is None


def test_the_peak_has_its_workspace_and_what_lowers_it() -> None:
    assert step_costs.peak_bytes(trained()) == 24_280 + 100
    assert [one.nodes for one in step_costs.best_checkpointing(trained())] == [(CONV,)]


def test_a_sweep_and_a_comparison_speak_of_steps() -> None:
    session = trained(seconds=0.5)
    visit = visit_of(session, place=0, turn=0, took_seconds=1.0)
    rows = {
        row.name: row for row in total_rows(comparison(*(side_of(name, session) for name in "ab")))
    }

    assert (visit.latency_p50, visit.items_per_second) == (0.5, 4.0 * 2.0)
    assert visit.paper_bytes == 24_380
    assert rows["train.step_s"].pair.a == 0.5
    assert rows["train.memory.peak"].pair.b == 24_380
    assert total_texts(rows["train.mfu"])[0].endswith(" %")
    assert rows["train.backward_flops"].pair.difference == 0


def test_bytes_are_read_and_written() -> None:
    assert step_costs.bytes_of(PassCost(0, 0, 1, 2, 4, 0, 0)) == 7
