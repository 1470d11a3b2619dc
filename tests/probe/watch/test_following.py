"""A program whose forwards change: the kind that runs now is shown, with a tree of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from tests.probe.watch.watched_model import Net, has_times, has_tree, ran, sockets  # noqa: F401
from tests.viewer import Viewer, place_of
from tui_profiler import watch
from tui_profiler.messages import TraceDone
from tui_profiler.session import Session

FLOPS_PER_ROW = 2 * 8 * 16 + 2 * 16 * 4
"""Of the two linear layers of ``Net``, without biases."""


def rows(session: Session) -> int:
    """Return how many rows the tree is of."""
    return 0 if session.tree is None else session.tree.nodes[0].inputs[0].shape[0]


def is_of(count: int) -> Callable[[Session], bool]:
    def holds(session: Session) -> bool:
        tick = session.tick
        return rows(session) == count and tick is not None and tick.as_traced and has_times(session)

    return holds


def test_a_server_whose_batch_changed_is_followed_with_costs_and_times() -> None:
    model = Net().eval()
    one, three = torch.randn(1, 8), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        before = viewer.until(is_of(1), ran(model, one))
        after = viewer.until(is_of(3), ran(model, three))

    assert before.tree is not None
    assert after.tree is not None
    assert after.tree.costs[0].macs == 3 * before.tree.costs[0].macs == 3 * FLOPS_PER_ROW // 2
    assert torch.equal(model(three), model(three))


def test_batches_in_turn_keep_the_tree_and_the_others_are_named() -> None:
    model = Net().eval()
    one, three = torch.randn(1, 8), torch.randn(3, 8)

    def in_turn() -> None:
        with torch.no_grad():
            for _ in range(20):
                model(one)
                model(three)

    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(has_tree, ran(model, one))
        until = time.monotonic() + 6.0
        session = viewer.until(
            lambda s: time.monotonic() > until and s.tick is not None and s.tick.other_kinds,
            in_turn,
        )

    assert rows(session) == 1
    assert len([one for one in viewer.heard if isinstance(one, TraceDone)]) == 1
    assert session.tick is not None
    (other,) = session.tick.other_kinds
    assert other.name == "inputs (3, 8)"
    assert other.forwards > 100
    assert 0.2 < other.share < 0.8


def test_a_viewer_that_comes_after_the_change_sees_the_kind_that_runs() -> None:
    model = Net().eval()
    one, three = torch.randn(1, 8), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0):
        with Viewer(place_of("net")) as first:
            first.until(is_of(1), ran(model, one))
        ran(model, three)()
        with Viewer(place_of("net")) as second:
            session = second.until(is_of(3), ran(model, three))

    assert session.tick is not None
    assert session.tick.as_traced


def test_a_model_that_evaluates_while_it_trains_keeps_its_tree() -> None:
    model, loss = Net(), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(6, 8), torch.randn(6, 4)

    def epoch() -> None:
        model.train()
        for _ in range(4):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for _ in range(60):
                model(x[:2])

    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(has_tree, epoch)
        until = time.monotonic() + 6.0
        session = viewer.until(lambda _: time.monotonic() > until, epoch)

    assert rows(session) == 6
