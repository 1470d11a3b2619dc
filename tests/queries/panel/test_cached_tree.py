"""What is said of last time: how old, how long, what has changed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.small_model import COSTS, DONE, NODES, TRACED, folded, node
from tui_profiler.messages import Heartbeat, Message, Nodes, StageDone, StageStarted, TraceStarted
from tui_profiler.messages.live import Stage
from tui_profiler.queries.panel.cached_tree import (
    ago,
    change,
    is_remembered,
    seconds_left,
    when_replaced,
)
from tui_profiler.session import EMPTY, Remembered, Session, apply

LAST: tuple[tuple[Stage, float], ...] = (("import torch", 2.0), ("load model", 1.0), ("trace", 0.5))
STAGES: tuple[Stage, ...] = ("import torch", "load model", "trace", "idle")
TREE = folded(TRACED).tree


def opened(*messages: Message) -> Session:
    known = apply(EMPTY, Remembered(7200.0, LAST, TREE, (), folded(TRACED).model))
    return folded(messages, known)


def traced(nodes: tuple = NODES, costs: tuple = COSTS) -> tuple[Message, ...]:
    return (TraceStarted(len(nodes), "dispatch:fake"), Nodes(nodes, costs), DONE)


def test_its_tree_is_looked_at_until_the_own_one_comes() -> None:
    session = opened(TRACED[0])
    assert session.tree is TREE
    assert session.model is not None
    assert is_remembered(session)
    own = folded(traced(), session)
    assert own.tree is not TREE
    assert not is_remembered(own)
    assert not is_remembered(folded(TRACED))
    assert not is_remembered(EMPTY)


def test_it_comes_too_late_for_a_tree_that_is_known() -> None:
    session = folded(TRACED)
    assert apply(session, Remembered(1.0, LAST, TREE)).tree is session.tree


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0, "a moment ago"), (59, "a moment ago"), (60, "1 min ago")),
        *((7200, "2 h ago"), (86400 * 3, "3 days ago")),
    ],
)
def test_how_long_ago(seconds: float, words: str) -> None:
    assert ago(seconds) == words


def test_what_is_left_goes_by_last_time() -> None:
    assert seconds_left(opened(), 0.0, STAGES) == 3.5
    running = opened(StageStarted("import torch", 0.1))
    assert seconds_left(running, 0.6, STAGES) == pytest.approx(3.0)
    assert seconds_left(running, 9.9, STAGES) == pytest.approx(1.5)  # Late, but never negative.
    after = opened(StageDone("import torch", 3.0, 2.9), StageStarted("idle", 3.0))
    assert seconds_left(after, 4.0, STAGES) == pytest.approx(1.5)  # It had no time last time.
    assert seconds_left(EMPTY, 1.0, STAGES) is None


def test_when_the_own_tree_is_to_be_expected() -> None:
    running = opened(StageStarted("import torch", 0.1))
    assert when_replaced(running).endswith("in about 4 s")
    late = opened(StageDone("load model", 9.0, 1.0), StageDone("import torch", 9.0, 8.0))
    late = folded((StageStarted("trace", 9.0), Heartbeat(9.4, 0.0)), late)
    assert when_replaced(late).endswith("tracing")


def test_what_has_changed() -> None:
    assert change(folded(traced(), opened())) == "the tree equals the cached one"
    assert change(opened()) == "the tree equals the cached one"
    assert change(EMPTY) == ""
    grown = replace(COSTS[0], macs=COSTS[0].macs + 1_200_000_000, parameters=2578)
    more = traced((*NODES, node(0, "x", "x", "Identity")), (grown, *COSTS[1:], COSTS[-1]))
    assert (
        change(folded(more, opened()))
        == "the tree changed: 1 node more, 1.20 GMAC more, 100 parameters less"
    )
    fewer = traced(NODES[:-1], COSTS[:-1])
    assert change(folded(fewer, opened())) == "the tree changed: 1 node less"
    renamed = (*NODES[:-1], node(0, "mine::other", "/0", "mine.other.default"))
    assert change(folded(traced(renamed), opened())) == "the tree changed: 1 of 8 nodes differ"
