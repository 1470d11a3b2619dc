"""What a whole model costs."""

from __future__ import annotations

from math import nan

import pytest
from msgspec.structs import replace

from tests.queries.sessions import resnet, session_of, ticked
from tests.small_model import ACT, CONV, DONE, FC, MEASURED, ROOT, TRACED, folded, tick
from tests.training_session import step_parts, trained, training_step, with_evaluation
from tui_profiler.messages import (
    Failed,
    LoopState,
    Message,
    Overhead,
    PeakMemory,
    StageDone,
    Unknown,
)
from tui_profiler.queries.cost import totals
from tui_profiler.queries.cost.bound import bytes_moved, intensity
from tui_profiler.session import EMPTY, Session, apply


def test_totals_are_those_of_the_root() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    found = tree.costs[0]
    assert (found.parameters, found.macs, found.flops, found.uncosted) == (2678, 9472, 18964, 1)
    assert bytes_moved(found) == 13728
    assert intensity(found) == pytest.approx(18964 / 13728)


def test_the_peak_is_the_sum_of_its_parts() -> None:
    assert totals.peak_bytes(DONE.peak_memory) == 13272.0


def test_a_peak_with_an_unknown_part_is_unknown() -> None:
    peak = PeakMemory(1.0, 2.0, 3.0, Unknown("not modelled on cuda"), 0, 1, 1)
    assert totals.peak_bytes(peak) == Unknown("not modelled on cuda")


def test_a_peak_with_an_unknown_part_is_at_least_the_others() -> None:
    peak = PeakMemory(1.0, 2.0, 3.0, Unknown("not modelled on cuda"), 0, 1, 1)
    assert totals.known_peak_bytes(peak) == 6.0


@pytest.mark.parametrize(
    ("column", "first"),
    [
        ("parameters", (FC, CONV)),
        ("macs", (CONV, FC)),
        ("flops", (CONV, FC, ACT)),
        ("memory", (FC, CONV, ROOT, ACT)),
        ("seconds", (CONV, FC, ACT, ROOT)),
    ],
)
def test_the_most_expensive_come_first(column: totals.Column, first: tuple[int, ...]) -> None:
    found = totals.top_modules(folded(MEASURED), column, 10)
    assert set(found) == set(first)
    assert found[:2] == first[:2]


def at(session: Session, path: str) -> int:
    assert session.tree is not None
    found = session.tree.find(path)
    assert found is not None
    return found


FUSED = """
net Net 0 0
  encoder EncoderLayer 0 900
    attention MultiheadAttention 0 0
      out_proj Linear 0 0
    linear Linear 0 0
  block Block 0 60
    norm LayerNorm 0 20
  head Linear 0 40
"""


@pytest.mark.parametrize(
    ("own", "path"),
    [
        # A fused encoder layer calls none of its parts: it has all of the time.
        ({"": 0.001, "encoder": 0.31, "block.norm": 0.001, "head": 0.00016}, "encoder"),
        # An attention module holds a projection whose weights it reads itself.
        ({"": 0.001, "encoder": 0.001, "encoder.attention": 0.2, "head": 0.1}, "encoder.attention"),
        # A block with operators of its own around a cheap norm.
        ({"": 0.001, "block": 0.3, "block.norm": 0.01, "head": 0.2}, "block"),
        ({"": 0.001, "block": 0.1, "block.norm": 0.2, "head": 0.15}, "block.norm"),
        ({"": 0.4, "block": 0.1, "block.norm": 0.2, "head": 0.15}, ""),
    ],
)
def test_the_hottest_has_the_most_self_time_of_all_modules(
    own: dict[str, float], path: str
) -> None:
    traced = session_of(FUSED)
    assert traced.tree is not None
    nodes = {node.path: index for index, node in enumerate(traced.tree.nodes)}
    # A module takes its own time and that of all modules inside.
    spent = {
        outer: sum(s for inner, s in own.items() if traced.tree.ends[at_] > nodes[inner] >= at_)
        for outer, at_ in nodes.items()
    }
    session = ticked(traced, {outer: s for outer, s in spent.items() if s})

    assert totals.hottest(session) == nodes[path]
    # The report names the same one.
    assert totals.top_modules(session, "seconds", 1) == (nodes[path],)


def test_the_hottest_lies_in_the_root_of_the_view() -> None:
    session = resnet()
    assert totals.hottest(session) == at(session, "layer2.0")
    layer1 = at(session, "layer1")
    assert totals.hottest(session, layer1) == at(session, "layer1.1.conv1")


def test_before_times_the_hottest_has_the_most_macs_of_its_own() -> None:
    session = session_of(FUSED)
    assert totals.hottest(session) == at(session, "encoder")
    assert totals.hottest(session, at(session, "block")) == at(session, "block")
    # Without any figure it is the node itself.
    assert totals.hottest(session, at(session, "encoder.attention")) == at(
        session, "encoder.attention"
    )
    assert totals.hottest(EMPTY, 0) == 0


def test_only_so_many_are_given() -> None:
    assert totals.top_modules(folded(MEASURED), "flops", 1) == (CONV,)


def test_before_times_none_is_slowest() -> None:
    assert totals.top_modules(folded(TRACED), "seconds", 3) == ()


def test_without_a_tree_there_is_none() -> None:
    assert totals.top_modules(folded((Failed("load model", "no"),)), "flops", 3) == ()


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (TRACED, "not measured; --measure SECONDS does"),
        (
            (*TRACED, StageDone("first run", 3.0, 1.0), tick({}, forwards=0)),
            "no forward after the warm-up was finished; measure for longer",
        ),
        (
            (
                *TRACED,
                StageDone("trace", 2.0, 1.0),
                LoopState("finished", 3.0, 1, "not run, as asked"),
            ),
            "not run, as asked",
        ),
        (
            (*TRACED, LoopState("finished", 3.0, detail="the script ended")),
            "no forward has times: the script ended",
        ),
        (
            (*TRACED, Failed("worker", "the probe failed", why="no bool")),
            "the probe failed: no bool",
        ),
        (MEASURED, ""),
    ],
)
def test_a_session_without_times_says_why(messages: tuple[Message, ...], why: str) -> None:
    assert totals.why_no_times(folded(messages)) == why


def test_a_throughput_counts_forwards_where_the_batch_is_not_known() -> None:
    known = folded(MEASURED)
    assert known.model is not None
    own_program = apply(known, replace(known.model, batch=None))

    assert totals.throughput(known) == "800 items/s"
    assert totals.throughput(own_program) == "800 it/s"
    assert totals.throughput(folded(TRACED)) == "–"


def test_why_there_is_no_batch_axis_is_told() -> None:
    known = folded(MEASURED).model
    assert known is not None
    assert totals.batch_axis(known) == known.batch
    unknown = replace(known, batch=None, why_no_batch="aten::index_add combines what lies along it")
    assert totals.batch_axis(unknown) == Unknown(f"no batch axis was found: {unknown.why_no_batch}")
    assert totals.batch_axis(replace(known, batch=None)) == Unknown("its inputs have no batch axis")


@pytest.mark.parametrize(
    ("pairs", "share", "text"),
    [(0, 0.05, "~800 items/s"), (0, 1.0, "800 items/s"), (30, 0.05, "800 items/s")],
)
def test_a_throughput_of_a_share_of_a_programs_forwards_is_an_estimate(
    pairs: int, share: float, text: str
) -> None:
    session = apply(folded(MEASURED), Overhead(0.01, 0.0, 0.02, pairs, share))

    assert totals.throughput(session) == text


def test_a_throughput_with_forwards_unseen_is_an_estimate_whatever_is_recorded_by_now() -> None:
    all_by_now = apply(folded(MEASURED), Overhead(0.01, 0.0, 0.02, pairs=0, share=1.0))
    assert all_by_now.timings is not None
    with_gap = apply(all_by_now, replace(all_by_now.timings.tick, gaps=1))
    never_in_a_row = apply(all_by_now, replace(all_by_now.timings.tick, per_second=nan))

    assert totals.throughput(with_gap) == "~800 items/s"
    assert totals.counted_rate(with_gap) == Unknown(totals.ESTIMATED_RATE)
    assert totals.throughput(never_in_a_row) == "–"
    assert totals.counted_rate(never_in_a_row) == Unknown(totals.NONE_IN_A_ROW)


def test_the_estimated_throughput_of_a_training_is_that_of_its_steps() -> None:
    """Recorded steps take longer than the others: 200 of 250 forwards per second there."""
    seen = apply(folded(MEASURED), Overhead(0.01, 0.0, 0.02, pairs=0, share=0.05))
    assert seen.model is not None
    eight = replace(seen, model=replace(seen.model, batch=8))
    told = replace(training_step(step_parts()), per_second=125.0, forwards=2.0, items=16.0)

    assert totals.throughput(trained(told, eight)) == "~2.00 Kitems/s"
    once = replace(told, items=8.0)  # Both forwards are of one batch.
    assert totals.throughput(trained(once, eight)) == "~1.00 Kitems/s"
    without = replace(seen, model=replace(seen.model, batch=None))
    assert totals.throughput(trained(told, without)) == "~250 it/s"
    rollouts = replace(with_evaluation(told), calls_per_second=700.0)
    assert totals.throughput(trained(rollouts, without)) == "~700 it/s"
    assert totals.throughput(trained(rollouts, eight)) == "~2.00 Kitems/s"
    unknown = replace(told, per_second=Unknown("no step has ended"))
    assert totals.throughput(trained(unknown, seen)) == "~800 items/s"
    all_recorded = trained(told, folded(MEASURED))
    assert totals.throughput(all_recorded) == "800 items/s"
    assert totals.counted_rate(trained(told, seen)) == Unknown(totals.ESTIMATED_RATE)


def test_in_a_long_evaluation_the_throughput_is_that_of_its_forwards() -> None:
    seen = apply(folded(MEASURED), Overhead(0.01, 0.0, 0.02, pairs=0, share=0.05))
    told = replace(training_step(step_parts()), per_second=125.0, items=1.0)
    steps = trained(told, replace(seen, loop=None))
    assert totals.throughput(steps) == "~125 items/s"
    assert steps.timings is not None
    later = apply(steps, replace(steps.timings.tick, at=told.at + 60.0))

    assert totals.throughput(later) == "~800 items/s"
