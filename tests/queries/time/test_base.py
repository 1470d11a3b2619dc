"""One whole for all shares on screen: what the user waits for."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.generation_session import GENERATION
from tests.queries.sessions import session_of, ticked, with_ceilings
from tests.training_session import column, step_parts, trained, training_step
from tui_profiler.messages import SlowForward, ThreadTime, TrainingStep, Unknown
from tui_profiler.queries.cost.flat import default_column, flat_table
from tui_profiler.queries.cost.totals import hottest, slowest_modules
from tui_profiler.queries.forward.flame import flame
from tui_profiler.queries.forward.strip import strip
from tui_profiler.queries.panel.neighbours import slowest_children
from tui_profiler.queries.time.base import (
    Base,
    base,
    base_seconds,
    forward_share,
    own_ranked_seconds,
    own_share,
    share,
)
from tui_profiler.queries.time.slow_forwards import as_session
from tui_profiler.queries.training.passes_strip import direction_share
from tui_profiler.queries.training.step_mix import step_parts_by_class
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import figure, step_columns
from tui_profiler.queries.tree.filter import matches
from tui_profiler.queries.tree.focus import Focus, all_unfolded, initial
from tui_profiler.queries.tree.rows import outline
from tui_profiler.session import Session, Timings

MODEL = """
net Net 0 100
  a Conv2d 10 50
  b Linear 10 40
  c ReLU 0 10
"""
ROOT, A, B, C = range(4)
SECONDS = {"": 0.1, "a": 0.06, "b": 0.03, "c": 0.005}
OF_STEP = {ROOT: 0.62, A: 0.16, B: 0.44, C: 0.005}
"""Forward, backward and what is run again, of a step of one second with two forwards."""
OWN_OF_STEP = {ROOT: 0.015, A: 0.16, B: 0.44, C: 0.005}


def told(**changes: object) -> TrainingStep:
    step = training_step(step_parts(data=0.3, forward=0.2, backward=0.42, other=0.08))
    return replace(
        step,
        forwards=2.0,
        passes=2.0,
        nodes=array("I", (ROOT, A, B, C)).tobytes(),
        forward=column(0.2, 0.12, 0.06, 0.005),
        own_forward=column(0.015, 0.12, 0.06, 0.005),
        backward=column(0.4, 0.02, 0.38, 0.0),
        own_backward=column(0.0, 0.02, 0.38, 0.0),
        recomputed=column(0.0, 0.02, 0.0, 0.0),
        own_recomputed=column(0.0, 0.02, 0.0, 0.0),
        recompute=0.02,
        **changes,
    )


def inferring() -> Session:
    return with_ceilings(ticked(session_of(MODEL), SECONDS))


def training(**changes: object) -> Session:
    return trained(told(**changes), inferring())


def test_in_training_shares_are_of_the_step_with_the_backward_and_what_is_run_again() -> None:
    session = training()

    assert base(session) == Base("step", 1.0, pytest.approx(0.2))
    assert {node: share(session, node) for node in OF_STEP} == pytest.approx(OF_STEP)
    assert {node: own_share(session, node) for node in OF_STEP} == pytest.approx(OWN_OF_STEP)
    assert base_seconds(session, B) == pytest.approx(0.44)


def test_elsewhere_they_are_of_the_forward_and_before_times_on_paper() -> None:
    session = inferring()

    assert base(session) == Base("forward", pytest.approx(0.1), 1.0)
    assert share(session, A) == pytest.approx(0.6)
    assert own_share(session, ROOT) == pytest.approx(0.05)
    assert base(session_of(MODEL)) == Base("MACs", None, 1.0)
    assert share(session_of(MODEL), A) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": Unknown("too few steps")},
        {"recompute": Unknown("checkpointing is not seen")},
        {"why_no_backward": "not timed", "backward": column(0.0, 0.0, 0.0, 0.0)},
    ],
)
def test_of_a_step_whose_parts_are_not_known_no_node_has_a_share(
    changes: dict[str, object],
) -> None:
    session = trained(replace(told(), **changes), inferring())

    assert base(session).name == "forward"
    assert share(session, A) == pytest.approx(0.6)
    assert "step" not in step_columns(session)


def test_bars_orders_filters_and_the_hottest_are_of_the_whole_that_shares_are_of() -> None:
    session = training()
    assert session.tree is not None
    figures = Figures()
    figures.update(session)
    rows = {node: figures.cells(node, 44) for node in (A, B, C)}

    # Of a forward a is the longest, of a step it is b: the bar of b is full, that of a 16/44.
    assert {node: rows[node].share for node in rows} == pytest.approx({A: 0.16, B: 0.44, C: 0.005})
    scale = figures.scale
    halves = {node: rows[node].bar.halves for node in rows}
    assert halves == {node: round(88 * OF_STEP[node] / scale) for node in rows}
    assert figure(session, B, "step") == figure(session, B, "share") == pytest.approx(0.44)
    assert hottest(session) == B
    assert slowest_modules(session, 3) == (B, A, ROOT)
    assert matches(session, "share>40%", operators=False) == [ROOT, B]
    assert matches(session, "time>100ms", operators=False) == [ROOT, A, B]
    view = Focus(sort="share", descending=True, unfolded=initial(session.tree).unfolded)
    assert list(outline(session, all_unfolded(view, session.tree)).rows) == [ROOT, B, A, C]
    assert [one.node for one in slowest_children(session, ROOT)] == [B, A, C]


def test_the_same_questions_of_a_model_that_infers_are_of_its_forward() -> None:
    session = inferring()

    assert hottest(session) == A
    assert matches(session, "share>40%", operators=False) == [ROOT, A]
    assert [one.node for one in slowest_children(session, ROOT)] == [A, B, C]


def test_strips_and_blocks_of_one_forward_have_its_part_of_the_step() -> None:
    session = training()

    shown = strip(session, 60)
    assert {one.first: one.share for one in shown.segments} == pytest.approx(
        {A: 0.12, B: 0.06, C: 0.01, -1: 0.01}, abs=0.005
    )
    assert forward_share(session, A) == pytest.approx(0.12)
    # What checkpointing runs again is a part of the backward.
    assert direction_share(session, A, is_backward=True) == pytest.approx(0.04)
    levels = flame(session, ROOT, 60).levels
    assert levels[0].segments[0].share == pytest.approx(0.2)
    assert levels[1].segments[0].share == pytest.approx(0.12)


def test_a_flat_table_of_modules_is_ordered_by_shares_of_the_step() -> None:
    table = flat_table(training(), "module")

    assert default_column(training(), "module") == "share"
    assert default_column(inferring(), "module") == "own"
    assert [(row.name, row.share) for row in table.rows] == [
        ("b", pytest.approx(0.44)),
        ("a", pytest.approx(0.16)),
        ("", pytest.approx(0.015)),
        ("c", pytest.approx(0.005)),
    ]


def test_a_slow_forward_is_the_whole_of_its_own_shares() -> None:
    nodes, spent = array("I", (ROOT, A, B, C)).tobytes(), column(0.4, 0.1, 0.3, 0.0)
    slow = SlowForward(
        at=2.0, forward=7, seconds=0.4, nodes=nodes, whole=spent, own=spent, thread=None
    )
    session = training()
    assert session.timings is not None
    session = as_session(replace(session, host=Timings(session.timings.tick)), slow)

    assert base(session).name == "forward"
    assert share(session, B) == pytest.approx(0.75)


def test_of_a_request_shares_are_of_both_phases_and_of_what_lies_between() -> None:
    """15 s of forwards are seven eighths of the requests; decode has 12 s of them."""
    session = inferring()
    assert session.tree is not None
    decode = replace(session.tree, phase="decode")
    session = replace(session, tree=decode, phases=(decode,), generation=GENERATION)

    part = 12.0 / 15.0 * (1.0 - 0.125)
    assert base(session) == Base("request", pytest.approx(15.0 / 0.875 / 12), pytest.approx(part))
    assert share(session, ROOT) == pytest.approx(part)
    assert share(session, A) == pytest.approx(0.6 * part)
    assert own_share(session, A) == pytest.approx(0.6 * part)
    prefill = replace(session.tree, phase="prefill")
    beside = replace(session, tree=prefill, phases=(prefill, decode))
    assert share(beside, ROOT) == pytest.approx(3.0 / 15.0 * 0.875)
    unknown = replace(GENERATION, between=Unknown("no whole request yet"))
    assert base(replace(session, generation=unknown)).name == "forward"


def test_a_bar_has_the_classes_of_the_forward_and_no_class_where_none_is_known() -> None:
    session = training()

    parts = step_parts_by_class(session, A)
    assert sum(parts) == pytest.approx(0.16)
    # The backward has no class here: 0.02, and 0.02 that is run again.
    assert parts[-1] == pytest.approx(0.04)
    assert not any(step_parts_by_class(replace(session, ceilings=None), A))


def test_on_a_contended_host_modules_of_a_step_are_ranked_without_waiting() -> None:
    """Half of all is waited for, in forwards all of it in the root's own code."""
    thread = ThreadTime(0.1, 0.05, 0.05, 0.0, 0.0, 0.0, 0.0)
    seen = inferring().tick
    assert seen is not None
    unwaited = column(0.0, 0.06, 0.03, 0.005)
    tick = replace(seen, thread=thread, own_unwaited_per_forward=unwaited)
    step = told(thread=ThreadTime(1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0))
    session = trained(step, replace(inferring(), timings=Timings(tick)))
    assert session.timings is not None
    assert session.timings.is_contended

    # Of a, whose forward did not wait: 0.12 s, and half of the 0.04 s of its backward.
    assert own_ranked_seconds(session, A) == pytest.approx(0.12 + 0.02)
    assert own_ranked_seconds(session, B) == pytest.approx(0.06 + 0.19)
    assert own_ranked_seconds(session, ROOT) == pytest.approx(0.0)
    assert own_ranked_seconds(training(), B) == pytest.approx(0.44)
