"""Which rank holds the others up, and in which module."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import session_of, ticked
from tests.training_session import column, step_parts, training_step
from tui_profiler.messages import Ended, Figure, Heartbeat, LoopState, Program, StepTimes, Unknown
from tui_profiler.queries.ranks import (
    in_order,
    module_differences,
    parts,
    rank_rows,
    reference,
    verdict,
)
from tui_profiler.session import Session, apply
from tui_profiler.session.session_group import NO_RANKS, SessionGroup, with_message, with_rank

NET = """
net Net 10 10
  first Linear 5 5
  block Block 5 5
    second Linear 5 5
"""


def times(compute: float, wait: Figure, host: float = 0.001) -> StepTimes:
    """A step whose compute is half forward, half backward."""
    step = compute + host + (wait if isinstance(wait, float) else 0.0)
    return StepTimes(1.0, 99, 64, step, compute, wait, host, compute / 2, compute / 2)


def run(*ranks: StepTimes | None, of: int | None = None) -> SessionGroup:
    group = NO_RANKS
    for number, step in enumerate(ranks):
        program = Program("net", 100 + number, "train.py", 0.0, 0.0, number, of or len(ranks), "r")
        group = with_rank(group, str(number), program)
        if step is not None:
            group = with_message(group, str(number), step)
    return group


LATE = times(0.030, 0.001)
EARLY = times(0.010, 0.021)


def test_the_straggler_is_the_rank_that_waits_least_though_all_steps_are_as_long() -> None:
    group = run(EARLY, EARLY, LATE, EARLY)
    found = verdict(group, 1.0)

    assert found.key == "2"
    assert found.level == "critical"
    # 21 ms of the others' waiting less 1 ms of its own, in a step of 32 ms.
    assert found.lines[0] == (
        "rank 2 is the straggler: in a step of 32.0 ms it waits 1.00 ms, the others 21.0 ms;"
        " 62 % of the step is lost"
    )
    assert found.lines[1] == "its forward takes 10.0 ms longer than the others"


@pytest.mark.parametrize(
    ("late", "level"),
    [(0.0079, "even"), (0.0081, "warning"), (0.0089, "warning"), (0.0091, "critical")],
)
def test_a_tenth_of_a_step_warns_and_a_fifth_is_critical(late: float, level: str) -> None:
    # Steps of 10 ms; the others compute 7 ms and wait 3.
    others, straggler = times(0.0070, 0.0030, 0.0), times(late, 0.010 - late, 0.0)

    assert verdict(run(others, straggler, others), 1.0).level == level


def test_a_rank_that_waits_less_but_is_not_busy_longer_is_no_straggler() -> None:
    # It speaks of shorter steps than the others.
    found = verdict(run(times(0.0021, 0.0127), times(0.0020, 0.0150), times(0.0020, 0.0151)), 1.0)

    assert found.level == "even"
    assert found.lines[0].startswith("no straggler: 0.10 ms of a step, 0.6 %,")


def test_no_straggler_is_not_said_before_every_rank_is_measured() -> None:
    found = verdict(run(EARLY, EARLY, None), 1.0)

    assert found.level == "unknown"
    assert found.lines == ("no straggler among 2 ranks, no steps known of rank 2",)
    # It waits 1 ms: no other rank is later by more than that.
    assert verdict(run(EARLY, LATE, None), 1.0).level == "critical"
    late, early = times(0.020, 0.012), times(0.010, 0.022)
    assert verdict(run(early, late), 1.0).level == "critical"
    waits = verdict(run(early, late, None), 1.0)
    assert waits.level == "unknown"
    assert waits.lines == (
        "rank 1 waits least of 2 ranks, 12.0 ms of a step; no steps known of rank 2, which may be"
        " later",
    )


def test_rows_begin_with_the_worst_and_say_how_late_it_is() -> None:
    rows = rank_rows(run(EARLY, EARLY, LATE, times(0.011, 0.020)), now=1.0)

    assert [row.number for row in rows] == [2, 0, 1, 3]
    assert rows[0].skew == pytest.approx(0.020)
    assert rows[0].skew_share == pytest.approx(0.020 / 0.032)
    assert rows[1].skew == 0.0


def test_host_time_is_told_from_compute_as_the_reason() -> None:
    slow_to_load = times(0.010, 0.001, host=0.021)
    found = verdict(run(EARLY, slow_to_load), 1.0)

    assert found.lines[1].startswith(
        "outside of forward, backward and collectives it takes 20.0 ms"
    )


def test_what_cannot_be_told_apart_names_no_straggler_and_says_why() -> None:
    blind = times(0.01, Unknown("waits inside of operators"))
    group = run(blind, blind)

    assert verdict(group, 1.0).level == "unknown"
    assert "waits inside of operators (rank 0)" in verdict(group, 1.0).lines[0]
    assert rank_rows(group, 1.0)[0].words == "waits inside of operators"
    assert parts(blind) is None


def test_one_rank_alone_is_no_comparison() -> None:
    assert verdict(run(EARLY, None), 1.0).level == "unknown"


def test_a_rank_that_is_gone_says_so_last_and_is_in_no_figure() -> None:
    group = run(EARLY, EARLY, LATE)
    finished = LoopState("finished", 2.0, detail="the program ended")
    for message in (finished, Ended(0, False, attached=True)):
        group = with_message(group, "2", message)
    rows = rank_rows(group, 2.0)

    assert rows[-1].number == 2
    assert rows[-1].words == "gone: the program ended"
    assert verdict(group, 1.0).level == "even"


def test_a_rank_that_was_killed_says_that_it_hung_up() -> None:
    group = with_message(run(EARLY, EARLY), "1", Ended(0, False, attached=True))

    assert rank_rows(group, 2.0)[-1].words == "gone: it disconnected"


def test_a_rank_that_was_not_found_has_a_row() -> None:
    rows = rank_rows(run(EARLY, EARLY, of=3), 1.0)

    assert (rows[-1].number, rows[-1].key) == (2, "")
    assert rows[-1].words.startswith("not found here")


def test_ranks_that_hang_name_no_straggler_of_before_but_who_is_silent() -> None:
    group = run(EARLY, EARLY, LATE)  # What they said, they said at 1 s.
    for key in ("0", "2"):
        group = with_message(group, key, Heartbeat(7.0, 0.0))

    assert verdict(group, 5.9).key == "2"
    assert verdict(group, 7.0).key == ""
    assert verdict(group, 7.0).lines[0].endswith("of rank 0, 1, 2")
    assert verdict(group, 7.0).lines[1].startswith("no response from rank 1")
    assert not any(row.is_live for row in rank_rows(group, 7.0))


def test_long_steps_are_no_hanging() -> None:
    group = run(times(4.0, 8.0), times(11.0, 1.0))

    assert verdict(group, 30.0).key == "1"
    assert verdict(group, 90.0).key == ""


def test_a_restarted_rank_takes_the_place_of_the_one_that_is_gone() -> None:
    group = with_message(run(EARLY, EARLY), "1", Ended(0, False, attached=True))
    again = replace(group.ranks[1].program, pid=999)
    group = with_rank(group, "new", again)

    assert [rank.key for rank in group.ranks] == ["0", "new"]


def test_a_rank_is_compared_with_the_straggler_and_the_straggler_with_the_first_to_be_there() -> (
    None
):
    group = run(EARLY, times(0.009, 0.022), LATE)

    assert reference(group, "0", 1.0) == "2"
    assert reference(group, "2", 1.0) == "1"


def test_the_module_that_is_slow_comes_first_and_not_those_that_hold_it() -> None:
    slow = ticked(
        session_of(NET), {"": 0.030, "first": 0.004, "block": 0.025, "block.second": 0.024}
    )
    usual = ticked(
        session_of(NET), {"": 0.011, "first": 0.005, "block": 0.005, "block.second": 0.004}
    )
    found = module_differences(slow, usual)

    assert [one.path for one in found][:2] == ["block.second", "first"]
    assert found[0].difference == pytest.approx(0.020)
    assert found[1].difference == pytest.approx(-0.001)


def test_a_module_whose_backward_is_slow_comes_first_too() -> None:
    seconds = {"": 0.030, "first": 0.004, "block": 0.025, "block.second": 0.024}
    usual = ticked(session_of(NET), seconds)
    assert usual.tree is not None
    nodes = [usual.tree.find(path) for path in ("", "first", "block", "block.second")]

    def with_backward(*own: float) -> Session:
        step = training_step(step_parts(forward=0.03, backward=0.05), seconds=0.08)
        zeros = column(*[0.0] * 4)
        figures = dict.fromkeys(("forward", "own_forward", "recomputed", "own_recomputed"), zeros)
        figures |= dict.fromkeys(("backward", "own_backward"), column(*own))
        return apply(usual, replace(step, nodes=array("I", nodes).tobytes(), **figures))

    found = module_differences(
        with_backward(0.0, 0.009, 0.0, 0.002), with_backward(0.0, 0.001, 0.0, 0.002)
    )
    assert found[0].path == "first"
    assert found[0].difference == 0
    assert found[0].backward_difference == pytest.approx(0.008)
    assert module_differences(usual, usual)[0].backward_difference is None


def test_a_module_of_one_rank_alone_has_no_difference() -> None:
    usual = ticked(session_of(NET), {"": 0.011, "first": 0.005})
    other = ticked(session_of(NET), {"": 0.011, "block": 0.005})
    found = {one.path: one for one in module_differences(usual, other)}

    assert found["first"].difference is None
    assert found["first"].second is None
    assert module_differences(usual, other)[0].path == ""


def test_rows_are_ordered_by_a_column_and_those_without_a_figure_are_last_either_way() -> None:
    rows = rank_rows(run(times(0.010, 0.021), None, times(0.030, 0.001), times(0.020, 0.011)), 1.0)

    assert [one.number for one in rows] == [2, 3, 0, 1]
    assert [one.number for one in in_order(rows, "compute")] == [2, 3, 0, 1]
    assert [one.number for one in in_order(rows, "compute", descending=False)] == [0, 3, 2, 1]
    assert [one.number for one in in_order(rows, "wait")] == [0, 3, 2, 1]
    assert [one.number for one in in_order(rows, "late", descending=False)] == [0, 3, 2, 1]
    assert [one.number for one in in_order(rows, "rank", descending=False)] == [0, 1, 2, 3]
    assert in_order(rows, "badness", descending=False) == rows
