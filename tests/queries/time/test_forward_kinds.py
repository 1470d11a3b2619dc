"""Times of other forwards than the one that was traced are never set against its costs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.machine_session import measured
from tests.queries.sessions import resnet
from tui_profiler.findings import findings
from tui_profiler.messages import Ended, Failed, LoopState, TorchChildren, Unknown
from tui_profiler.queries.cost import roofline
from tui_profiler.queries.cost.bound import bound, mixes_of, node_mix
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.queries.cost.energy import ForwardEnergy, forward_energy, node_energy
from tui_profiler.queries.cost.roofline import node_roofline
from tui_profiler.queries.cost.totals import counted_rate
from tui_profiler.queries.panel.phrases import last_events
from tui_profiler.queries.panel.state import state
from tui_profiler.queries.time import forward_kinds
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.table import table
from tui_profiler.session import EMPTY, Session, apply


def of_others(session: Session, *, as_traced: bool = False) -> Session:
    """Return the session whose last tick also met forwards of the other sort."""
    assert session.tick is not None
    tick = replace(session.tick, as_traced=as_traced, others=7, others_share=0.04)
    return apply(session, tick)


@pytest.fixture
def other() -> Session:
    return of_others(resnet())


def test_no_class_against_this_machine_comes_of_other_times(other: Session) -> None:
    assert other.tree is not None
    nodes = range(len(other.tree))
    assert any((found := bound(resnet(), node)) and found.measured for node in nodes)
    assert not any((found := bound(other, node)) and found.measured for node in nodes)
    assert not any(node_mix(other, 0))
    assert mixes_of(other) is None
    assert all(share.time_share is None for share in bound_shares(other).values())


def test_no_roofline_is_drawn_of_other_times(other: Session) -> None:
    assert other.tree is not None
    found = roofline.parts(other.tree, other.ceilings)
    now = roofline.reached(other, found)
    assert not any(now.seconds)
    assert (now.judged, now.rates) == (0, None)
    at = node_roofline(other, found, now, 0)
    assert (at.kind, at.seconds, at.achieved, at.gain, at.why) == (
        None,
        None,
        None,
        None,
        forward_kinds.OTHER_TIMES,
    )


def test_no_advice_is_measured_of_other_times() -> None:
    session = measured()
    on_paper = findings(replace(session, timings=None, host_operators=None, sample=None))
    assert findings(replace(session, sample=None)) != on_paper
    assert findings(replace(of_others(session), sample=None)) == on_paper


@pytest.mark.parametrize("as_traced", [True, False])
def test_energy_of_an_average_forward_is_no_energy_of_the_traced_one(as_traced: bool) -> None:
    session = of_others(measured(), as_traced=as_traced)
    found = forward_energy(session)
    assert isinstance(found, ForwardEnergy)
    assert isinstance(found.flops_per_joule, Unknown)
    assert forward_kinds.MIXED in found.flops_per_joule.reason
    assert isinstance(node_energy(session, 1), Unknown)
    assert counted_rate(session) == Unknown(forward_kinds.MIXED)


def test_the_json_report_says_which_forwards_and_derives_nothing(other: Session) -> None:
    report = as_json(other)
    latency = report["latency"]
    assert isinstance(latency, dict)
    told = {name: latency[name] for name in ("as_traced", "other_forwards", "other_time_share")}
    assert told == {"as_traced": False, "other_forwards": 7, "other_time_share": 0.04}
    layers = report["layers"]
    assert isinstance(layers, list)
    assert not any(layer["bottleneck_measured"] for layer in layers)
    unavailable = report["unavailable"]
    assert isinstance(unavailable, dict)
    assert unavailable["bottlenecks.compute.time_share"] == forward_kinds.OTHER_TIMES


def test_what_times_leave_out_is_said_with_room_and_without(other: Session) -> None:
    mixed = of_others(resnet(), as_traced=True)
    assert forward_kinds.forwards_words(resnet()) == ()
    assert (
        forward_kinds.forwards_words(mixed)[-1]
        == "times leave out 7 other forwards, 4.0 % of the time"
    )
    assert forward_kinds.forwards_words(other)[-1] == "times of other inputs than the costs"
    assert last_events(other)[-1] == "times of other inputs than the costs"
    for session in (mixed, other):
        lines = [line.strip() for line in table(session, columns=120)]
        assert any(line.startswith("times of  ") for line in lines)


def test_a_share_of_recorded_forwards_is_not_called_that_of_the_time() -> None:
    """Evaluations are all recorded, steps one in ten: what is recorded is no share of the time."""
    mixed = of_others(resnet(), as_traced=True)
    assert mixed.tick is not None
    sampled = apply(mixed, replace(mixed.tick, is_sampled=True, others_share=0.74, forwards=93))
    for said in forward_kinds.forwards_words(sampled):
        assert "7 of the 100 recorded" in said
        assert "%" not in said
    found = as_json(sampled)
    latency, unavailable = found["latency"], found["unavailable"]
    assert isinstance(latency, dict)
    assert isinstance(unavailable, dict)
    assert latency["other_time_share"] is None
    assert unavailable["latency.other_time_share"] == "not all forwards were recorded"


def test_other_models_are_said_with_how_to_see_them() -> None:
    names = ("Head", "\x1b[2J", "C", "D", "E", "F")
    session = apply(resnet(), LoopState("running", 1.0, others=names))
    words = forward_kinds.models_words(session)
    assert words.startswith("also ran Head, ")
    assert words.endswith(", C, D and 2 more, not shown")
    assert "\x1b" not in words
    assert last_events(session) == (words,)
    assert as_json(session)["other_models"] == list(names)
    text = " ".join(" ".join(table(session, columns=120)).split())
    assert "run --model NAME shows another" in text
    assert forward_kinds.models_words(resnet()) == ""


def test_children_that_run_torch_are_told_of_wherever_there_is_room() -> None:
    session = apply(resnet(), TorchChildren(tuple(range(11, 17)), 6))
    long, middle, short = forward_kinds.children_words(session)
    assert long.startswith("6 child processes have torch loaded (pids 11, 12, 13, 14, …)")
    assert "tui-profiler attach PID" in long
    assert len(middle) < 80
    assert len(short) < 50
    assert last_events(session)[0] == long
    assert long in " ".join(" ".join(table(session, columns=200)).split())
    assert as_json(session)["torch_child_processes"] == [11, 12, 13, 14, 15, 16]


def test_a_script_that_failed_says_so_and_not_that_a_worker_waits() -> None:
    failed = apply(EMPTY, Failed("script", "ValueError: \x1b[31mnan"))
    for session in (failed, apply(failed, Ended(1, expected=False, is_script=True))):
        assert last_events(session)[-1].startswith("ValueError: nan")
        assert state(session, 1.0).words == "script failed"
    killed = apply(EMPTY, Ended(-9, expected=False, is_script=True))
    assert state(killed, 1.0).words == "script ended by SIGKILL"
    assert "the script was killed by SIGKILL" in last_events(killed)[-1]


def test_models_are_told_with_their_shares_and_come_in_turn() -> None:
    loop = LoopState("running", 1.0, others=("Head", "Zoom"), others_shares=(0.3, 0.1))
    session = apply(resnet(), loop)
    assert forward_kinds.models_words(session) == "also ran Head 30 %, Zoom 10 %, not shown"
    models = as_json(session)["models"]
    assert isinstance(models, list)
    assert [(one["type"], one["shown"]) for one in models] == [
        (None, True),
        ("Head", False),
        ("Zoom", False),
    ]
    assert [one["share"] for one in models] == pytest.approx([0.6, 0.3, 0.1])
    assert getattr(forward_kinds.next_model(session), "type", None) == "Head"
    untimed = as_json(apply(session, LoopState("running", 1.0, others=("Head",))))
    reasons = untimed["unavailable"]
    assert isinstance(reasons, dict)
    assert reasons["models[].share"] == "no complete step was timed"


def test_cold_times_say_so_and_nothing_is_derived_from_them() -> None:
    assert resnet().tick is not None
    session = apply(resnet(), replace(resnet().tick, cold=True, forwards=2, warmup_forwards=0))
    assert forward_kinds.forwards_words(session) == ("cold: 2 forwards, no warm-up",)
    assert last_events(session)[0] == "cold: 2 forwards, no warm-up"
    assert session.tree is not None
    assert not any((found := bound(session, at)) and found.measured for at in range(9))
    report = as_json(session)
    latency, unavailable = report["latency"], report["unavailable"]
    assert isinstance(latency, dict)
    assert isinstance(unavailable, dict)
    assert (latency["cold"], latency["forwards"]) == (True, 2)
    assert unavailable["bottlenecks.compute.time_share"] == forward_kinds.COLD_TIMES
    assert counted_rate(session) == Unknown(forward_kinds.COLD_TIMES)
    lines = [" ".join(line.split()) for line in table(session, columns=120)]
    assert "times of cold: 2 forwards, no warm-up" in lines
    assert "forwards 2" in lines


def test_the_steady_state_is_set_against_no_cold_times() -> None:
    tick = resnet().tick
    assert tick is not None
    cold = apply(resnet(), replace(tick, cold=True, forwards=5))
    warm = apply(cold, replace(tick, forwards=3))
    assert warm.tick is not None
    assert (warm.tick.forwards, forward_kinds.forwards_words(warm)) == (3, ())
    assert [one.tick.forwards for one in warm.history.ticks] == [3]
