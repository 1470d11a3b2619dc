"""What may be asked of a probe, and why not: of parameters alone, of what is gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.actions.table import refusal, why_gone, why_not_now
from tests.queries.panel.test_playback import WHOLE
from tests.small_model import DONE, NODES, TRACED, cost, folded
from tui_profiler.messages import NO_FORWARD, Ended, Hello, Nodes, TraceStarted
from tui_profiler.session import EMPTY, Session

EVERY = (
    *("Pause", "Resume", "Step", "SetBatch", "SetPhase", "ReplayNode", "Start", "Try"),
    *("AnalyseParameters", "MeasureSensitivity", "ShowModel"),
)
ALL = Hello(1, 1, EVERY)
GONE = Ended(0, False)
LIVE = Hello(1, 1, ("Start", "Pause", "Step"))
PLAYED = Hello(1, 1, ("Play", "Halt", "Seek"), "nothing runs")


def parameters_alone() -> Session:
    """A tree as it comes from a file of weights: nothing in it was called."""
    nodes = tuple(replace(one, calls=0) for one in NODES if one.kind == "module")
    costs = tuple(cost(parameters=1, parameter_bytes=4) for _ in nodes)
    return folded((ALL, TraceStarted(len(nodes), "parameters"), Nodes(nodes, costs), DONE))


@pytest.mark.parametrize("request_name", EVERY)
def test_parameters_alone_are_asked_for_nothing_that_runs_a_forward(request_name: str) -> None:
    session = parameters_alone()
    assert session.tree is not None
    of_values = ("Start", "Try", "AnalyseParameters", "MeasureSensitivity", "ShowModel")
    expected = "" if request_name in of_values else NO_FORWARD
    assert refusal(session, request_name) == expected
    assert refusal(folded((*TRACED, ALL)), request_name) == ""


@pytest.mark.parametrize("request_name", ["Play", "Halt", "SetSpeed", "Seek"])
def test_what_is_live_is_not_played(request_name: str) -> None:
    assert refusal(folded((ALL,)), request_name) == "only a recording is played"


def test_the_reason_of_a_probe_is_made_safe() -> None:
    hostile = folded((Hello(1, 1, (), "\x1b[31mno\x9b2J"),))
    said = refusal(hostile, "Pause")
    assert "no" in said
    assert said.isprintable()


def test_who_is_gone_is_asked_for_nothing_and_it_says_what_helps() -> None:
    session = folded((*TRACED, ALL))
    assert why_not_now(session, "Try") == ""
    for ended, said in (
        (GONE, "no worker; ctrl+r in the explorer starts one"),
        (replace(GONE, is_script=True), "the script has ended; start it again in a shell"),
        (
            replace(GONE, attached=True),
            "the program has ended; tui-profiler attach lists others",
        ),
    ):
        gone = folded((*TRACED, ALL, ended))
        assert why_not_now(gone, "Try") == said
        assert why_not_now(gone, "Seek") == "only a recording is played"
    assert why_gone(folded((GONE,))) == "no worker; ctrl+r starts one"


def test_a_recording_is_asked_after_its_worker_has_ended_as_before() -> None:
    hello = Hello(1, 1, ("Seek", "Play"))
    session = replace(folded((*TRACED, hello, GONE)), playback=WHOLE)
    assert session.ended is not None
    assert why_not_now(session, "Seek") == ""


@pytest.mark.parametrize(
    ("hello", "request_name", "said"),
    [
        (LIVE, "Pause", ""),
        (LIVE, "Seek", "only a recording is played"),
        (LIVE, "SetBatch", "not possible here"),
        (PLAYED, "Seek", ""),
        (PLAYED, "Pause", "nothing runs"),
        (PLAYED, "", ""),
        (None, "Pause", ""),
    ],
)
def test_why_a_request_is_not_carried_out(
    hello: Hello | None, request_name: str, said: str
) -> None:
    session: Session = replace(EMPTY, hello=hello)
    assert refusal(session, request_name) == said
