"""Every kind of finding declares what it reads, and says nothing without it.

Each test starts from a session in which the kind applies: of a real trace, with times given.
"""

from __future__ import annotations

from array import array

import msgspec
import pytest
import torch
from msgspec.structs import replace
from torch import nn

from tests.findings.made import on_paper, timed, with_host
from tests.findings.test_modes import applies
from tests.small_model import SAMPLE
from tui_profiler.findings import CHECKS
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, Kind, Withheld
from tui_profiler.messages import Hello, Overhead, Program, ThreadTime, TrainingStep, Unknown
from tui_profiler.queries.cost.rules import UNKNOWN, Quantity, granted, without
from tui_profiler.session import Session, apply

MADE = "made unknown by the test"
FACTS = {
    *("hello", "stages", "model", "file", "arriving", "phases", "no_decode", "partial", "listed"),
    *("loop", "mode", "trial", "trials", "log", "failure", "out_of_memory", "ended", "children"),
    *("playback", "remembered", "training_cost", "heard_at", "forward_seconds"),
}
"""Fields of a session that are no figures, or that say what is run and how. Of the cost of a
training step findings read whose steps they are."""
OF_THE_SET = {
    *("at", "steps", "ended_by", "p50", "p95", "recorded", "outliers", "forwards", "passes"),
    *("updates", "tokens", "optimizers", "why_no_lines", "why_no_backward", "dropped", "nodes"),
    *("forward", "own_forward", "backward", "own_backward", "recomputed", "own_recomputed"),
    *("on_device", "recorded_so_far", "seconds_so_far", "backward_lines", "other_models", "last"),
    *(
        "longer",
        "longer_share",
        "items_error",
        "tokens_error",
        "fetches",
        "thread_steps",
        "between",
    ),
    "calls_per_second",
}
"""Fields of a training step that are known wherever steps are recorded: of that quantity."""


@pytest.fixture(scope="module", name="applying")
def _applying() -> dict[Kind, Session]:
    found = {kind: _with_more(session) for kind, session in applies().items()}
    program = Program("net", 1, "python serve.py", 0.0, 0.0)
    found["input-idle"] = apply(found["input-idle"], Hello(1, 1, ("Observe",), program=program))
    return found


def _with_more(session: Session) -> Session:
    """Return the session with a sample of the machine, and all forwards counted."""
    for message in (SAMPLE, Overhead(0.01, 0.0, 0.02, pairs=0, share=1.0)):
        session = apply(session, message)
    return session


def cases(*, declared: bool) -> list[tuple[Kind, Quantity]]:
    return [
        (kind, one)
        for kind, check in CHECKS.items()
        for one in quantities.EVERY
        if (one in check.rule.declared) == declared
    ]


def name(value: object) -> str:
    return value.name if isinstance(value, Quantity) else str(value)


def test_every_kind_has_a_session_in_which_it_applies(applying: dict[Kind, Session]) -> None:
    assert applying.keys() == CHECKS.keys()
    for kind, session in applying.items():
        assert isinstance(CHECKS[kind].conclude(session), Finding), kind


@pytest.mark.parametrize(("kind", "quantity"), cases(declared=True), ids=name)
def test_without_a_figure_that_it_declares_nothing_follows_from_it(
    applying: dict[Kind, Session], kind: Kind, quantity: Quantity
) -> None:
    check, session = CHECKS[kind], applying[kind]
    before, after = check.conclude(session), check.conclude(without(session, {quantity: MADE}))
    assert isinstance(before, Finding)
    if isinstance(after, Withheld):
        assert quantity.name in after.reason
        return
    assert quantity not in check.rule.reads
    assert after is not None, "it is withheld, with the reason, or it stays"
    known = {*before.evidence, *before.gains}
    for one in (*after.evidence, *after.gains):
        assert one in known or is_marked(one), one


def is_marked(one: Evidence | Gain) -> bool:
    """Return whether a figure is unavailable, estimated by the roofs, or a bound."""
    figure = one.figure if isinstance(one, Evidence) else one.share
    is_bound = isinstance(one, Gain) and one.is_bound
    return isinstance(figure, Unknown) or one.provenance == "estimated" or is_bound


@pytest.mark.parametrize(("kind", "quantity"), cases(declared=False), ids=name)
def test_no_figure_is_read_that_is_not_declared(
    applying: dict[Kind, Session], kind: Kind, quantity: Quantity
) -> None:
    check, session = CHECKS[kind], applying[kind]
    assert check.conclude(without(session, {quantity: MADE})) == check.conclude(session)
    if quantity.is_in_tree:
        return
    left = granted(session, check.rule, quantities.EVERY)
    for path, absent in quantity.fields.items():
        value: object = left
        for each in path.split("."):
            value = getattr(value, each) if value is not None else None
        is_absent = value == absent or (absent is UNKNOWN and isinstance(value, Unknown))
        assert is_absent or value is None, path


def test_compile_is_withheld_where_the_time_of_fusible_operators_is_not_known() -> None:
    """Python alone would be a range whose upper end is too low."""
    layers = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Tanh())
    session = with_host(timed(on_paper(layers, torch.zeros(4, 16)), {"": 1e-3}), 4e-4, 1e-3)
    session = timed(session, {"": 1e-3}, {"1/0": 1e-4, "2/0": 1e-4})
    assert isinstance(CHECKS["compile"].conclude(session), Finding)
    roofs = (quantities.COMPUTE_ROOF, quantities.MEMORY_ROOF, quantities.OPERATORS)
    after = CHECKS["compile"].conclude(without(session, dict.fromkeys(roofs, MADE)))
    assert isinstance(after, Withheld)


@pytest.mark.parametrize("kind", CHECKS)
def test_forwards_that_wait_count_also_where_they_are_in_no_mean(
    applying: dict[Kind, Session], kind: Kind
) -> None:
    """Of 1 ms that a forward takes in the mean of all, 0.9 ms is waiting, in a few far longer."""
    check, session = CHECKS[kind], applying[kind]
    if session.timings is None:
        return
    tick = session.timings.tick
    assert tick.thread is not None
    few = ThreadTime(1e-3, 1e-4, 9e-4, 0.0, 0.0, 0.0, 0.0)
    waits = ThreadTime(1.0, 0.1, 0.9, 0.0, 0.0, 0.0, 0.0)
    found = check.conclude(apply(session, replace(tick, thread_of_all=few)))
    assert found == check.conclude(apply(session, replace(tick, thread=waits)))


@pytest.mark.parametrize("kind", CHECKS)
def test_of_forwards_that_wait_for_a_core_no_wall_time_is_read(
    applying: dict[Kind, Session], kind: Kind
) -> None:
    """Counts and figures on paper stay, and are marked."""
    check, session = CHECKS[kind], applying[kind]
    if session.timings is None:
        return
    waits = ThreadTime(1.0, 0.55, 0.4, 0.0, 0.0, 0.0, 0.0)
    contended = check.conclude(apply(session, replace(session.timings.tick, thread=waits)))
    reads = {one.clock for one in check.rule.reads}
    if not {one.clock for one in check.rule.declared} & {"forward"}:
        assert contended == check.conclude(session)
    elif isinstance(contended, Withheld):
        assert contended.because == "contention"
        assert contended.reason == "host contended: forwards wait for a core 40 % of the time"
    else:
        assert "forward" not in reads
        walls = {one: MADE for one in quantities.EVERY if one.clock == "forward"}
        without_times = check.conclude(without(session, walls))
        why = "host contended: forwards wait for a core 40 % of the time"
        assert contended == (
            replace(without_times, contended=why) if isinstance(without_times, Finding) else None
        )


def test_every_field_of_a_session_is_a_fact_or_of_a_quantity() -> None:
    paths = {path for one in quantities.EVERY for path in one.fields}
    fields = {one.name for one in msgspec.structs.fields(Session)}
    assert fields == FACTS | {path.split(".")[0] for path in paths} | {"tree"}
    prefix = "training.step."
    of_step = {path.removeprefix(prefix).split(".")[0] for path in paths if path.startswith(prefix)}
    assert not of_step & OF_THE_SET
    assert of_step | OF_THE_SET == {one.name for one in msgspec.structs.fields(TrainingStep)}


def test_times_without_waiting_hold_where_every_call_read_it() -> None:
    """Half of each forward was waiting: wall times are unknown, times without it are not."""
    net = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    session = timed(on_paper(net, torch.zeros(1, 1024)), {"": 2e-3, "0": 1.8e-3})
    assert session.tick is not None
    waits = ThreadTime(2e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0, 0.0)
    blind = apply(session, replace(session.tick, thread=waits))
    read = array("f", [1e-3, 9e-4]).tobytes()
    tick = replace(session.tick, thread=waits, unwaited_per_forward=read)
    own = array("f", [1e-4, 9e-4]).tobytes()
    reads = apply(session, replace(tick, own_unwaited_per_forward=own, **_cpu(read, own)))
    alone = timed(on_paper(net, torch.zeros(1, 1024)), {"": 1e-3, "0": 9e-4})
    expected = CHECKS["int8-dynamic"](alone)
    found = CHECKS["int8-dynamic"](reads)
    assert expected is not None
    assert found is not None
    assert found.gain.low == pytest.approx(expected.gain.low, rel=1e-5)
    assert found.gain.high == pytest.approx(expected.gain.high, rel=1e-5)
    withheld = CHECKS["compile"].answer(with_host(blind, 1e-3, 2e-3))
    assert isinstance(withheld, Withheld)


def _cpu(whole: bytes, own: bytes) -> dict[str, bytes]:
    return {"cpu_per_forward": whole, "own_cpu_per_forward": own}
