"""A node's class where the thread that runs forwards waited for a core; figures by hand."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from screens.widgets.bound_lines import bound_lines
from screens.widgets.lines import text
from screens.widgets.rows import Look
from tests.small_model import ACT, CEILINGS, FC, ROOT, TRACED, folded, tick, with_cpu_times
from tui_profiler.messages import Figure, ThreadTime, Tick, Unknown
from tui_profiler.queries.cost.bound import bound, kinds_of, node_mix
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.queries.cost.roofline import parts, reached
from tui_profiler.queries.cost.totals import hottest, top_modules
from tui_profiler.queries.time.time_parts import time_parts
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.sections.summary import wants
from tui_profiler.session import Session, apply

SECONDS = 42.5e-6
TIMES = {ROOT: (SECONDS, 0.0), FC: (30e-6, 30e-6), ACT: (12.5e-6, 12.5e-6)}


def layers_of(session: Session) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(json_report(session))["layers"]
    return found


def test_the_panel_says_how_long_a_node_waits_for_a_core() -> None:
    def panel(share: float) -> str:
        look = Look(waited(share * SECONDS), FC, 7.0, 60)
        return " ".join(" ".join(map(text, bound_lines(look))).split())

    assert "waits for a core 62 % of its time, not in these" in panel(0.62)
    assert "waits" not in panel(0.04)


def waited(waiting: Figure) -> Session:
    """Return a session whose forwards waited so many of 42.5 us for a core."""
    spent = 0.0 if isinstance(waiting, Unknown) else waiting
    used = ThreadTime(SECONDS, SECONDS - spent, waiting, 3.0, 0.0, 1.0, 7.0)
    ticked: Tick = replace(tick(TIMES), thread=used)
    return folded((*TRACED, CEILINGS, ticked))


def test_waiting_is_a_figure_beside_the_class_and_never_the_class() -> None:
    session, alone = waited(0.62 * SECONDS), waited(0.0)
    for node in (ROOT, FC, ACT):
        found, before = bound(session, node), bound(alone, node)
        assert found is not None
        assert before is not None
        assert (found.kind, found.mix) == (before.kind, pytest.approx(before.mix))
        assert (found.waiting, before.waiting) == (pytest.approx(0.62), 0.0)
        assert kinds_of(session)(node) == before.kind
    assert wants(session).endswith("; host contended: forwards wait for a core 62 % of the time")
    assert "contended" not in wants(waited(0.24 * SECONDS))


def test_what_is_left_is_held_against_the_roofs_without_the_waiting() -> None:
    idle, busy = node_mix(waited(0.0), FC), node_mix(waited(0.62 * SECONDS), FC)
    # 30 us are judged as memory-bound; of them 11.4 are left, and still memory-bound.
    assert idle[KINDS.index("memory")] == pytest.approx(30e-6)
    assert busy[KINDS.index("memory")] == pytest.approx(30e-6 * 0.38)


def test_time_that_no_roof_explains_because_of_the_waiting_is_not_unexplained() -> None:
    # A floor of 9.48 us: of 200 us it explains too little, of the 38 us on a core enough.
    times = {ROOT: (SECONDS * 20, 0.0), FC: (30e-6 * 20, 30e-6 * 20)}
    used = ThreadTime(1.0, 0.05, 0.95, 0.0, 0.0, 0.0, 0.0)
    without = folded((*TRACED, CEILINGS, tick(times)))
    with_it = folded((*TRACED, CEILINGS, replace(tick(times), thread=used)))
    assert kinds_of(without)(FC) == "unexplained"
    found = bound(with_it, FC)
    assert found is not None
    assert found.mix[KINDS.index("unexplained")] == 0.0


@pytest.mark.parametrize(
    "waiting", [0.04 * SECONDS, Unknown("this kernel has no /proc/thread-self/schedstat")]
)
def test_little_waiting_or_an_unknown_one_changes_nothing(waiting: Figure) -> None:
    assert bound(waited(waiting), ROOT) == bound(folded((*TRACED, CEILINGS, tick(TIMES))), ROOT)


def test_shares_of_time_by_class_are_of_the_time_without_waiting() -> None:
    shares = bound_shares(waited(0.5 * SECONDS))
    assert sum(one.time_share or 0.0 for one in shares.values()) == pytest.approx(1.0)
    written = json.loads(json_report(waited(0.5 * SECONDS)))["bottlenecks"]
    assert written["waiting"]["time_share"] == pytest.approx(0.5)
    assert layers_of(waited(0.5 * SECONDS))[FC]["waiting_share"] == pytest.approx(0.5)
    unread = waited(Unknown("this kernel has no /proc/thread-self/schedstat"))
    assert layers_of(unread)[FC]["waiting_share"] is None
    assert sum(written[kind]["time_share"] or 0.0 for kind in KINDS) == pytest.approx(1.0)


OWN_UNWAITED = {ROOT: 0.0, FC: 10e-6, ACT: 12e-6}


def read_by_node(session: Session, unwaited: dict[int, float]) -> Session:
    """Return the same where calls read what they waited: own seconds without it, by node."""
    assert session.tick is not None
    cpu = {node: (seconds, seconds) for node, seconds in unwaited.items()}
    return apply(session, with_cpu_times(session.tick, cpu))


def test_each_node_waits_by_what_it_took_longer_than_without_waiting() -> None:
    session = read_by_node(waited(0.5 * SECONDS), OWN_UNWAITED)
    found = {node: bound(session, node) for node in (ROOT, FC, ACT)}
    waits = {}
    for node, each in found.items():
        assert each is not None
        waits[node] = each.waiting
    # 20 and 0.5 us longer, and 21.25 waited in all.
    assert waits[FC] * 30e-6 == pytest.approx(20e-6 * 21.25 / 20.5, rel=1e-5)
    assert waits[ACT] * 12.5e-6 == pytest.approx(0.5e-6 * 21.25 / 20.5, rel=1e-5)
    assert waits[ROOT] == pytest.approx(0.5)


@pytest.mark.parametrize(("share", "hottest_node"), [(0.2, FC), (0.5, ACT)])
def test_on_a_contended_host_the_hottest_is_by_time_without_waiting(
    share: float, hottest_node: int
) -> None:
    # FC takes 30 us, of which 20 are waiting where the thread waits for half of a forward.
    session = read_by_node(waited(share * SECONDS), OWN_UNWAITED)
    assert hottest(session) == hottest_node
    assert top_modules(session, "seconds", 1) == (hottest_node,)


@pytest.mark.parametrize(
    "unwaited",
    [{}, {ROOT: 0.0, FC: 40e-6, ACT: 20e-6}],
    ids=["none read", "none took longer"],
)
def test_it_is_shared_out_evenly_where_no_node_says_more(unwaited: dict[int, float]) -> None:
    session = read_by_node(waited(0.5 * SECONDS), unwaited)
    for node in (ROOT, FC, ACT):
        found = bound(session, node)
        assert found is not None
        assert found.waiting == pytest.approx(0.5)


def test_an_operator_and_its_roofline_part_wait_as_their_module_does() -> None:
    session = read_by_node(waited(0.5 * SECONDS), OWN_UNWAITED)
    timings, tree = session.timings, session.tree
    assert timings is not None
    assert tree is not None
    left = 30e-6 - 20e-6 * 21.25 / 20.5
    assert timings.on_core(FC, 15e-6) == pytest.approx(left / 2, rel=1e-5)
    found = parts(tree, CEILINGS)
    now = reached(session, found)
    by_node = dict(zip(found.nodes, now.on_core, strict=True))
    assert by_node[FC] == pytest.approx(left, rel=1e-5)
    assert now.seconds[found.places[FC]] == pytest.approx(30e-6)
    divided = time_parts(session, FC)
    assert divided is not None
    waiting = {part.kind: part.seconds for part in divided.parts}["waiting"]
    assert waiting == pytest.approx(30e-6 - left, rel=1e-5)
