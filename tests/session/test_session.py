"""A session grows by messages, and by nothing else."""

from __future__ import annotations

import gc
import math
import tracemalloc
from array import array
from typing import get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

from tests.generation_session import CACHE, GENERATION
from tests.small_model import (
    ACT,
    CEILINGS,
    CONV,
    CONV_OP,
    COSTS,
    DONE,
    FC,
    MEASURED,
    NODES,
    ROOT,
    SAMPLE,
    TICK,
    TRACED,
    folded,
    operator_times,
    tick,
)
from tui_profiler import messages
from tui_profiler.messages.failure import SCRIPT
from tui_profiler.session import EMPTY, apply
from tui_profiler.session.apply import (
    MAX_LINE,
    MAX_LOG_LINES,
    MAX_SAMPLES,
    MAX_TICK_BYTES,
    MAX_TICKS,
)

pytestmark = pytest.mark.usefixtures("old_objects_frozen")  # Garbage is looked for.


def test_a_tree_is_shown_only_when_it_is_whole() -> None:
    session = folded(TRACED[:-1])
    assert (session.tree, session.arriving is not None) == (None, True)


def test_a_whole_tree_holds_its_nodes_in_order() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    assert (tree.nodes, tree.costs) == (NODES, COSTS)


def test_subtrees_end_where_the_next_sibling_begins() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    assert list(tree.ends) == [8, 3, 3, 5, 5, 7, 7, 8]


def test_depths_are_counted_from_the_root() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    assert list(tree.depths) == [0, 1, 2, 1, 2, 1, 2, 1]


def test_children_and_ancestors_are_found() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    assert list(tree.children(ROOT)) == [CONV, FC, ACT, 7]
    assert list(tree.ancestors(CONV_OP)) == [CONV, ROOT]
    assert (tree.find("fc"), tree.find("nowhere")) == (FC, None)


def test_edges_are_collected() -> None:
    session = folded((*TRACED[:-1], messages.Edges(((2, 4),)), messages.Edges(((4, 6),)), DONE))
    assert session.tree is not None
    assert session.tree.edges == ((2, 4), (4, 6))


@pytest.mark.parametrize("message", [messages.Nodes(NODES, COSTS), messages.Edges(((0, 1),)), DONE])
def test_parts_of_no_tree_are_ignored(
    message: messages.Nodes | messages.Edges | messages.TraceDone,
) -> None:
    assert apply(EMPTY, message) is EMPTY


def test_a_failure_keeps_what_was_learned() -> None:
    before = folded(MEASURED)
    after = apply(before, messages.Failed("run", "out of memory"))
    assert (after.tree, after.timings, after.history) == (
        before.tree,
        before.timings,
        before.history,
    )


def test_an_end_keeps_what_was_learned() -> None:
    before = folded(MEASURED)
    after = apply(before, messages.Ended(-9, False))
    assert (after.tree, after.timings) == (before.tree, before.timings)


def test_a_failure_stays_until_a_new_start() -> None:
    failed = folded(
        (
            messages.Failed("trace", "no"),
            messages.LoopState("running", 1.0),
            messages.Heartbeat(1.0, 0.0),
        )
    )
    assert failed.failure == messages.Failed("trace", "no")
    assert apply(failed, messages.Hello(1, 43, ())).failure is None


def test_a_script_stays_failed_though_its_only_forward_is_told_after_it() -> None:
    started = messages.TraceStarted(len(NODES), "dispatch:real")
    raised = messages.Failed(SCRIPT, "ZeroDivisionError: division by zero")
    assert apply(apply(EMPTY, raised), started).failure == raised
    assert apply(apply(EMPTY, messages.Failed("trace", "no")), started).failure is None


def test_a_new_start_forgets_the_end() -> None:
    assert folded((messages.Ended(0, True), messages.Hello(1, 43, ()))).ended is None


def test_the_old_tree_stays_until_the_new_one_is_whole() -> None:
    before = folded(MEASURED)
    during = folded(
        (messages.TraceStarted(1, "dispatch:fake"), messages.Nodes(NODES[:1], COSTS[:1])), before
    )
    assert (during.tree, during.timings) == (before.tree, before.timings)


def test_a_new_tree_drops_timings_of_the_old_one() -> None:
    traced_again = TRACED[-4:]
    session = folded(traced_again, folded(MEASURED))
    assert (session.timings, session.history.ticks, session.history.tick_bytes) == (None, (), 0)


def test_a_new_tree_keeps_the_samples() -> None:
    session = folded(TRACED[-4:], folded(MEASURED))
    assert session.history.samples == (SAMPLE,)


def test_what_was_measured_is_found_by_node() -> None:
    timings = folded(MEASURED).timings
    assert timings is not None
    timing = timings.of(CONV)
    assert timing is not None
    assert (timing.calls, timing.mean) == (100, pytest.approx(0.0005))
    assert timings.own_per_forward(ROOT) == pytest.approx(0.0001)
    assert timings.last(FC) == pytest.approx(0.00025)


def test_a_node_that_was_not_called_has_no_timing() -> None:
    timings = folded(MEASURED).timings
    assert timings is not None
    assert (timings.of(CONV_OP), timings.per_forward(CONV_OP), CONV_OP in timings) == (
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    "column", [name for name, kind in get_type_hints(messages.Tick).items() if kind is bytes]
)
def test_a_tick_with_a_column_cut_short_is_ignored(column: str) -> None:
    session, narrow = folded(TRACED), TICK.p50
    read = ("cpu_per_forward", "own_cpu_per_forward", "unwaited_per_forward")
    read += ("own_unwaited_per_forward", "asleep_per_forward", "own_asleep_per_forward")
    read += ("faults_per_forward", "own_faults_per_forward")
    tick = replace(TICK, **dict.fromkeys(read, narrow))
    assert apply(session, tick) is not session
    assert apply(session, replace(tick, **{column: getattr(tick, column)[:-1]})) is session


def test_ticks_are_bounded_in_number() -> None:
    session = EMPTY
    for at in range(MAX_TICKS + 5):
        session = apply(session, tick({ROOT: (1.0, 1.0)}, at=float(at)))
    kept = session.history.ticks
    assert (len(kept), kept[0].tick.at, kept[-1].tick.at) == (MAX_TICKS, 5.0, MAX_TICKS + 4.0)


_NARROW = (
    *("last", "p50", "p95", "maximum", "per_forward", "own_per_forward"),
    *("mean_per_forward", "own_mean_per_forward"),
)


_READ = (
    *("cpu_per_forward", "own_cpu_per_forward"),
    *("unwaited_per_forward", "own_unwaited_per_forward"),
    *("asleep_per_forward", "own_asleep_per_forward"),
    *("faults_per_forward", "own_faults_per_forward"),
)


def received(nodes: int, first: int = 0) -> messages.Tick:
    """Return a tick of ``nodes`` nodes as decoded from the wire: no column is shared."""
    wide = dict.fromkeys(("calls", "total", "own"), bytes(8 * nodes))
    narrow = dict.fromkeys((*_NARROW, *_READ), bytes(4 * nodes))
    indexes = array("I", range(first, first + nodes)).tobytes()
    encoded = msgspec.msgpack.encode(replace(TICK, nodes=indexes, **wide, **narrow))
    return msgspec.msgpack.decode(encoded, type=messages.Tick)


@pytest.mark.parametrize("nodes", [100, 10_000, 100_000])
@pytest.mark.parametrize("other_nodes", [0, 1], ids=["same nodes", "other nodes"])
def test_ticks_count_the_memory_that_they_take(nodes: int, other_nodes: int) -> None:
    session = apply(apply(EMPTY, TICK), received(nodes))
    before = session.history.tick_bytes
    gc.collect()
    tracemalloc.start()
    try:
        for number in (1, 2):
            session = apply(session, received(nodes, first=number * other_nodes))
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(session.history.ticks) == 4
    assert (session.history.tick_bytes - before) / taken == pytest.approx(1, abs=0.2)


def test_an_index_of_nodes_counts_while_a_tick_that_has_it_is_kept() -> None:
    session = EMPTY
    for number in range(4 * MAX_TICKS):
        session = apply(session, received(3 + number // MAX_TICKS))
        if number % 97:
            continue
        kept = session.history.ticks
        pairs = zip(kept, (None, *kept), strict=False)
        assert session.history.tick_bytes == sum(one.bytes_beside(two) for one, two in pairs)


def test_ticks_are_bounded_in_bytes() -> None:
    session, large = EMPTY, received(MAX_TICK_BYTES // (80 * 3))
    for _ in range(4):
        session = apply(session, large)
    assert (len(session.history.ticks), session.history.tick_bytes <= MAX_TICK_BYTES) == (1, True)


def test_one_tick_is_kept_however_large() -> None:
    session = apply(EMPTY, TICK)
    assert [timings.tick for timings in session.history.ticks] == [TICK]


def test_samples_are_bounded() -> None:
    session = EMPTY
    for at in range(MAX_SAMPLES + 5):
        session = apply(session, replace(SAMPLE, at=float(at)))
    kept: tuple[messages.Sample, ...] = session.history.samples
    assert (len(kept), kept[0].at) == (MAX_SAMPLES, 5.0)


def test_a_stage_that_is_done_replaces_its_beginning() -> None:
    session = folded(
        (
            messages.StageStarted("trace", 2.0, "begins"),
            messages.StageDone("trace", 3.5, 1.5, "ends"),
        )
    )
    (record,) = session.stages
    assert (record.started_at, record.seconds, record.detail) == (2.0, 1.5, "ends")


def test_lines_are_joined_across_messages() -> None:
    log = folded((messages.Printed("one\ntw"), messages.Printed("o\nthr"))).log
    assert (log.lines, log.partial, log.total_lines) == (("one", "two"), "thr", 2)


def test_a_line_end_that_is_cut_in_two_is_one_line_end() -> None:
    log = folded((messages.Printed("one\r"), messages.Printed("\ntwo\r\n"))).log
    assert log.lines == ("one", "two")


def test_a_carriage_return_overwrites_its_line() -> None:
    assert folded((messages.Printed("10 %\r50 %\r100 %\n"),)).log.lines == ("100 %",)


def test_a_progress_bar_that_never_ends_its_line_shows_its_newest() -> None:
    session = folded(tuple(messages.Printed(f"\r{percent} %" + "." * 90) for percent in range(100)))
    assert session.log.partial == "99 %" + "." * 90


def test_empty_lines_are_kept() -> None:
    assert folded((messages.Printed("one\n\n\ntwo\n"),)).log.lines == ("one", "", "", "two")


def test_a_single_line_end_is_an_empty_line() -> None:
    assert folded((messages.Printed("\n"),)).log.lines == ("",)


def test_printed_lines_are_made_safe() -> None:
    assert folded((messages.Printed("\x1b[2\bgone\n"),)).log.lines == ("\\x1b[2\\x08gone",)


def test_colours_of_a_log_are_left_out_also_where_a_chunk_ends_within_one() -> None:
    chunks = ("\x1b[32mINFO\x1b[0m step \x1b", "[1;34", "m3\x1b[0m\x1b[K\r\n")
    assert folded(tuple(map(messages.Printed, chunks))).log.lines == ("INFO step 3",)


def test_a_failure_whose_words_are_coloured_is_shown_without_colours() -> None:
    failed = messages.Failed("load", "\x1b[1mdo those steps\x1b[0m", traceback="\x1b[31mE\x1b[m")
    failure = folded((failed,)).failure
    assert failure is not None
    assert (failure.what, failure.traceback) == ("do those steps", "E")


def test_the_log_is_bounded_and_counts_on() -> None:
    log = folded((messages.Printed("x\n" * (MAX_LOG_LINES + 7)),)).log
    assert (len(log.lines), log.total_lines) == (MAX_LOG_LINES, MAX_LOG_LINES + 7)


def test_a_line_without_an_end_is_bounded() -> None:
    session = EMPTY
    for _ in range(5):
        session = apply(session, messages.Printed("x" * MAX_LINE))
    assert len(session.log.partial) == MAX_LINE


def test_what_was_left_out_is_counted() -> None:
    assert folded((messages.Printed("a\n", 3), messages.Printed("", 4))).log.dropped_bytes == 7


def test_a_sign_of_life_is_remembered() -> None:
    session = folded((messages.Heartbeat(7.5, 0.25),))
    assert (session.heard_at, session.forward_seconds) == (7.5, 0.25)


def test_ceilings_are_kept_through_a_new_tree() -> None:
    assert folded(TRACED[-4:], folded(MEASURED)).ceilings == CEILINGS


def test_operators_without_a_node_are_those_of_the_columns_where_they_agree() -> None:
    called = messages.CalledOperators(
        names=("aten::a", "aten::b"),
        nodes=array("I", [CONV, FC]).tobytes(),
        name_of=array("I", [1, 0]).tobytes(),
        calls=array("I", [2, 3]).tobytes(),
        per_forward=array("f", [0.5, 0.25]).tobytes(),
        own_per_forward=array("f", [0.125, 0.0625]).tobytes(),
    )
    times = replace(operator_times({CONV_OP: 0.5}), called=called)
    found = folded((*TRACED, times)).operators
    assert found is not None
    assert found.called == ((CONV, "aten::b", 2, 0.5, 0.125), (FC, "aten::a", 3, 0.25, 0.0625))
    assert (found.has_own, found.own_per_forward(CONV_OP)) == (False, None)
    for broken in (
        replace(called, names=("aten::a",)),
        replace(called, calls=called.calls[4:]),
        replace(called, nodes=called.nodes[1:]),
    ):
        assert folded((*TRACED, replace(times, called=broken))).operators is None
    own = replace(times, own_per_forward=array("f", [0.25]).tobytes(), called=None)
    found = folded((*TRACED, own)).operators
    assert found is not None
    assert (found.has_own, found.own_per_forward(CONV_OP), found.called) == (True, 0.25, ())
    assert folded((*TRACED, replace(own, own_per_forward=b"\0\0"))).operators is None


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_figures_of_generation_that_are_not_finite_are_refused(wrong: float) -> None:
    known = apply(EMPTY, GENERATION)
    for told in (
        replace(GENERATION, first_p50=wrong),
        replace(GENERATION, between=wrong),
        replace(GENERATION, prefill=replace(GENERATION.prefill, seconds=wrong)),
        replace(GENERATION, decode=replace(GENERATION.decode, seconds=wrong)),
        replace(GENERATION, cache=replace(CACHE, length=wrong)),
        replace(GENERATION, cache=replace(CACHE, growth=wrong)),
    ):
        assert apply(known, told) is known
    assert apply(known, replace(GENERATION, per_second=messages.Unknown("none"))) != known
