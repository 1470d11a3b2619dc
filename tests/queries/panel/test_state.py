"""The state of a process in words."""

from __future__ import annotations

from msgspec.structs import replace

from tests.screens.panel_session import LOADING, TRACED, folded, live
from tui_profiler.messages import Ended, Failed, Hello, LoopState, Program, StageStarted
from tui_profiler.messages.live import WAITS
from tui_profiler.queries.panel.failure import still_known, trouble
from tui_profiler.queries.panel.phrases import last_events
from tui_profiler.queries.panel.state import is_stale, state
from tui_profiler.session import EMPTY


def test_silence_begins_after_five_seconds():
    assert not is_stale(live(), 12.0)
    assert is_stale(live(), 12.1)
    assert not is_stale(EMPTY, 100.0)


def test_a_worker_that_is_gone_is_not_merely_silent():
    gone = folded((Ended(-9, False),), live())
    assert not is_stale(gone, 100.0)
    assert state(gone, 100.0).kind == "gone"


def test_a_paused_view_is_not_silent():
    assert state(live(), 100.0, paused_at=90.0).words == "paused"
    assert state(live(), 100.0, paused_at=90.0).detail == "10 s"


def test_an_end_that_was_asked_for_is_no_trouble():
    done = folded((LoopState("finished", 7.0, 1, "10 forwards"),), live())
    assert state(done, 7.5).detail == "10 forwards"
    left = folded((Ended(0, True),), done)
    assert state(left, 7.5).kind == "finished"
    assert trouble(left) is None


def test_a_failure_stays_what_it_was_when_the_worker_then_goes():
    failed = folded((*LOADING, Failed("load model", "boom"), Ended(1, False, "", 1, 2.0)))
    found = trouble(failed)
    assert found is not None
    assert found.title == "load model failed"


def test_a_failed_node_is_named_with_its_type():
    failed = folded((*LOADING, *TRACED, Failed("first run", "boom", "layer3.2.conv2")))
    found = trouble(failed)
    assert found is not None
    assert (found.where, found.type) == ("layer3.2.conv2", "Conv2d")


def test_times_without_roofs_give_no_bound():
    session = replace(live(), ceilings=None)
    assert [fact.is_known for fact in still_known(session)] == [True, True, True, False]
    assert still_known(session)[3].words == "unavailable: needs this machine's roofs"


def test_the_stage_under_way_is_named_once_the_tree_is_known():
    loading = folded((*LOADING, *TRACED, StageStarted("first run", 3.9)))
    found = state(loading, 4.4)
    assert (found.kind, found.words, found.detail) == ("loading", "first run", "0.50 s")


def test_what_was_never_run_has_not_finished():
    session = folded((LoopState("finished", 9.0, None, "not run: parameters only"),), live())
    shown = state(session, 9.0)
    assert (shown.words, shown.detail) == ("not run", "parameters only")
    assert last_events(session) == ("not run: parameters only",)


def test_figures_of_forwards_before_the_awaited_one_are_not_live():
    program = Program("svc", 7, "serve.py", 1.0, 0.0)
    attached = replace(live(), hello=Hello(1, 7, (), program=program))
    again = folded((StageStarted("trace", 20.0, f"{WAITS}Net#1 m was deleted"),), attached)
    shown = state(again, 24.0)
    assert (shown.kind, shown.words, shown.detail) == ("waiting", "waiting for a forward", "4 s")
    assert last_events(again)[-1] == "Net#1 m was deleted"
    over = folded((LoopState("finished", 25.0, None, "the model was deleted"),), again)
    assert state(over, 26.0).words == "finished"
    assert last_events(over) != last_events(again)
