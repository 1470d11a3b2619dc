"""Times of other forwards than the one that was traced are never set against its costs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.machine_session import measured
from tests.queries.sessions import resnet
from tui_profiler.findings import findings
from tui_profiler.messages import LoopState, Unknown
from tui_profiler.queries import roofline
from tui_profiler.queries.bound import bound, mix
from tui_profiler.queries.breakdown import bound_shares
from tui_profiler.queries.energy import ForwardEnergy, forward_energy, node_energy
from tui_profiler.queries.mixes import NewestMixes
from tui_profiler.queries.panel_words import last_events
from tui_profiler.queries.roofline_node import standing
from tui_profiler.queries.sorts import MIXED, OTHER_TIMES, forwards_words, models_words
from tui_profiler.queries.totals import counted_rate
from tui_profiler.reports.json_report import as_json
from tui_profiler.reports.table import table
from tui_profiler.session import Session, apply


def of_others(session: Session, *, as_traced: bool = False) -> Session:
    """Give the session whose last tick also met forwards of the other sort."""
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
    assert not any(mix(other, 0).values())
    mixes = NewestMixes()
    mixes.follow(other)
    assert not any(mixes.between(0, len(other.tree)))
    assert all(share.time_share is None for share in bound_shares(other).values())


def test_no_roofline_is_drawn_of_other_times(other: Session) -> None:
    assert other.tree is not None
    found = roofline.parts(other.tree, other.ceilings)
    now = roofline.reached(other, found)
    assert not any(now.seconds)
    assert (now.judged, now.rates) == (0, None)
    at = standing(other, found, now, 0)
    assert (at.kind, at.seconds, at.reaches, at.gain, at.why) == (
        None,
        None,
        None,
        None,
        OTHER_TIMES,
    )


def test_no_advice_is_measured_of_other_times() -> None:
    session = measured()
    on_paper = findings(replace(session, timings=None, operators=None, sample=None))
    assert findings(replace(session, sample=None)) != on_paper
    assert findings(replace(of_others(session), sample=None)) == on_paper


@pytest.mark.parametrize("as_traced", [True, False])
def test_energy_of_an_average_forward_is_no_energy_of_the_traced_one(as_traced: bool) -> None:
    session = of_others(measured(), as_traced=as_traced)
    found = forward_energy(session)
    assert isinstance(found, ForwardEnergy)
    assert isinstance(found.flops_per_joule, Unknown)
    assert MIXED in found.flops_per_joule.reason
    assert isinstance(node_energy(session, 1), Unknown)
    assert counted_rate(session) == Unknown(MIXED)


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
    assert unavailable["bottlenecks.compute.time_share"] == OTHER_TIMES


def test_what_times_leave_out_is_said_with_room_and_without(other: Session) -> None:
    mixed = of_others(resnet(), as_traced=True)
    assert forwards_words(resnet()) == ()
    assert forwards_words(mixed)[-1] == "times leave out 7 other forwards, 4.0 % of the time"
    assert forwards_words(other)[-1] == "times of other inputs than the costs"
    assert last_events(other)[-1] == "times of other inputs than the costs"
    for session in (mixed, other):
        lines = [line.strip() for line in table(session, columns=120)]
        assert any(line.startswith("of  ") for line in lines)


def test_other_models_are_said_with_how_to_see_them() -> None:
    names = ("Head", "\x1b[2J", "C", "D", "E", "F")
    session = apply(resnet(), LoopState("running", 1.0, others=names))
    words = models_words(session)
    assert words.startswith("also ran Head, ")
    assert words.endswith(", C, D and 2 more, not shown")
    assert "\x1b" not in words
    assert last_events(session) == (words,)
    assert as_json(session)["other_models"] == list(names)
    text = " ".join(" ".join(table(session, columns=120)).split())
    assert "tui_profiler.watch(MODEL) in the script" in text
    assert models_words(resnet()) == ""
