"""A model in a program that is not ours, watched from the same process over a real socket."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.probe.watch.watched_model import (
    Net,
    has_times,
    has_tree,
    is_put_back,
    ran,
    sockets,  # noqa: F401
)
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler import watch
from tui_profiler.connection.sockets import places
from tui_profiler.messages import Hello


def test_a_viewer_sees_the_tree_its_macs_and_times() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        session = viewer.until(has_times, ran(model, x))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    assert session.tree is not None
    assert [node.path for node in session.tree.nodes if node.kind == "module"] == [
        *("", "first", "norm", "drop", "second")
    ]
    assert 2 * session.tree.costs[0].macs == counter.get_total_flops()
    assert session.timings is not None
    assert session.timings.tick.latency_p50 > 0


def test_nothing_is_replaced_before_a_viewer_comes_and_after_the_last_has_left() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    before = _threads_beside_the_server()
    with watch(model, "net", grace_seconds=0.05):
        assert is_put_back()
        with Viewer(place_of("net")) as viewer:
            viewer.until(has_times, ran(model, x))
            assert not is_put_back()
        wait_until(is_put_back)
        wait_until(lambda: _threads_beside_the_server() <= before)
        with Viewer(place_of("net")) as viewer:  # The tree is kept; the figures are new ones.
            session = viewer.until(has_times, ran(model, x))
            assert has_tree(session)
    wait_until(lambda: not list(places()))


def _threads_beside_the_server() -> set[int | None]:
    names = ("tui-profiler-read", "tui-profiler-write")
    return {thread.ident for thread in threading.enumerate() if thread.name in names}


def trained(steps: int, each: Callable[[int], None] = lambda step: None) -> list[torch.Tensor]:
    """Train from a fixed beginning and return outputs, gradients, parameters and buffers."""
    torch.manual_seed(7)
    model = Net().train()
    each_of_model(model, each)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    kept: list[torch.Tensor] = []
    for step in range(steps):
        each(step)
        output = model(torch.randn(6, 8))
        optimiser.zero_grad()
        output.square().sum().backward()
        kept += [
            output.detach(),
            *(p.grad.clone() for p in model.parameters() if p.grad is not None),
        ]
        optimiser.step()
    return [*kept, *(tensor.clone() for tensor in model.state_dict().values()), torch.rand(3)]


_watching: list[nn.Module] = []


def each_of_model(model: nn.Module, each: Callable[[int], None]) -> None:
    _watching[:] = [model]
    each(-1)


def test_training_is_bit_identical_with_viewers_that_come_and_go() -> None:
    steps = 60
    bare = trained(steps)
    viewers: list[Viewer] = []
    watched = []

    def each(step: int) -> None:
        if step < 0:
            watched.append(watch(_watching[0], "training", grace_seconds=0.0))
        elif step in (10, 30):
            viewers.append(Viewer(place_of("training")))
            wait_until(lambda: not is_put_back())
        elif step in (20, 50):
            viewers[-1].until(has_tree)
            viewers[-1].close()
            wait_until(is_put_back)

    seen = trained(steps, each)
    watched[0].close()
    assert len(viewers) == 2
    assert all(torch.equal(one, other) for one, other in zip(bare, seen, strict=True))


def test_two_viewers_see_the_same_and_one_that_comes_later_is_told_all() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0):
        first = Viewer(place_of("net"))
        first.until(has_times, ran(model, x))
        second = Viewer(place_of("net"))
        session = second.until(has_times, ran(model, x))
        assert session.tree is not None
        assert first.session.tree is not None
        assert session.tree.nodes == first.session.tree.nodes
        assert session.model == first.session.model
        first.close()
        before = session.timings.tick.forwards if session.timings else 0
        second.until(
            lambda s: s.timings is not None and s.timings.tick.forwards > before, ran(model, x)
        )
        second.close()


def test_who_only_asks_who_it_is_changes_nothing() -> None:
    model = Net().eval()
    with watch(model, "net"), Viewer(place_of("net"), looks=False) as viewer:
        viewer.until(lambda s: s.hello is not None)
        assert isinstance(viewer.heard[0], Hello)
        assert viewer.heard[0].program is not None
        assert viewer.heard[0].program.pid == os.getpid()
        assert is_put_back()


def test_a_model_is_not_kept_alive_by_who_looks_at_it() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    watch(model, "net", grace_seconds=0.0)
    viewer = Viewer(place_of("net"))
    viewer.until(has_times, ran(model, x))
    gc.collect()
    known = weakref.ref(model)
    del model
    wait_until(lambda: known() is None)
    viewer.until(lambda _: viewer.is_hung_up_on)
    assert viewer.session.loop is not None
    assert viewer.session.loop.detail == "the model was deleted"
    assert not list(places())


def test_a_block_that_ends_ends_the_watching_and_says_so() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net"):
        viewer = Viewer(place_of("net"))
        viewer.until(has_times, ran(model, x))
    viewer.until(lambda _: viewer.is_hung_up_on)
    assert viewer.session.loop is not None
    assert (viewer.session.loop.state, viewer.session.loop.detail) == (
        *("finished", "the program no longer watches it"),
    )
    wait_until(is_put_back)


def test_watching_again_and_again_keeps_nothing() -> None:
    model = Net().eval()
    for _ in range(3):
        with watch(model, "net"):
            pass
    wait_until(lambda: not list(places()))
    kept = [one for one in weakref.finalize._registry if one.peek() and one.peek()[0] is model]  # type: ignore[attr-defined]
    assert not kept
