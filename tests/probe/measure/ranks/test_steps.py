"""Steps of a rank: how they are split, and what is heard of a real process group of one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from statistics import median
from struct import pack

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_module
from torch.nn.parallel import DistributedDataParallel

from tui_profiler.messages import StepTimes, Unknown
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.ranks.collectives import (
    MOST_SPANS,
    Collectives,
    PendingCollectives,
    Span,
)
from tui_profiler.probe.measure.ranks.steps import Split, Steps, middle_half, split

REPLACED = (
    (torch._C._distributed_c10d.Work, "wait"),
    (torch.autograd, "_engine_run_backward"),
    (torch._C._distributed_c10d.Reducer, "_rebuild_buckets"),
    (torch._C._distributed_c10d.Reducer, "prepare_for_backward"),
    (distributed, "_broadcast_coalesced"),
)
AS_FOUND = [vars(owner)[name] for owner, name in REPLACED]


def is_put_back() -> bool:
    return all(
        vars(owner)[name] is found for (owner, name), found in zip(REPLACED, AS_FOUND, strict=True)
    )


def span(kind: str, began: float, ended: float) -> Span:
    return Span(kind, 1, began, ended)  # type: ignore[arg-type]  # one of three words


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_waiting_inside_of_compute_is_no_compute_and_the_rest_is_host_time() -> None:
    spans = [
        span("wait", 0.2, 0.3),  # inside of the forward
        span("wait", 1.8, 2.0),  # the end of the backward
        span("backward", 1.0, 2.0),
        span("wait", 2.5, 2.6),  # after it
    ]
    found = split(0.0, 4.0, (0.0, 1.0), spans)

    assert found == pytest.approx(Split(4.0, 1.7, 0.4, 1.9, 0.9, 0.8))


def test_a_wait_that_two_spans_tell_is_counted_once_and_the_next_steps_part_is_left_out() -> None:
    spans = [span("wait", 1.0, 3.0), span("wait", 2.0, 5.0)]

    assert split(0.0, 4.0, (0.0, 0.5), spans).wait == pytest.approx(3.0)


def test_a_pause_is_left_out_of_the_figures() -> None:
    usual = [Split(1.0, 0.5, 0.3, 0.2, 0.3, 0.2)] * 6
    kept = middle_half([*usual, Split(90.0, 0.5, 0.3, 89.2, 0.3, 0.2)])

    assert set(kept) == set(usual)


def test_what_is_replaced_is_put_back_when_the_last_listener_leaves(group: None) -> None:
    collectives = Collectives()
    first, second = collectives.listen(lambda reducer: True), collectives.listen(bool)
    assert not is_put_back()
    distributed.all_reduce(torch.ones(3))
    collectives.leave(first)
    assert not is_put_back()
    collectives.leave(second)
    assert is_put_back()

    work = distributed.all_reduce(torch.ones(3), async_op=True)
    assert work.wait()  # It is a method again, and not what a method gives.
    assert [one.kind for one in first.take()[0]] == ["wait"]
    assert [one.kind for one in second.take()[0]] == ["wait"]


def test_what_another_has_replaced_since_is_left_alone(group: None) -> None:
    collectives = Collectives()
    heard = collectives.listen(bool)
    ours = torch.autograd._engine_run_backward

    def theirs(*args: object, **kwargs: object) -> object:
        return ours(*args, **kwargs)

    torch.autograd._engine_run_backward = theirs
    try:
        collectives.leave(heard)
        assert torch.autograd._engine_run_backward is theirs
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        assert x.grad is not None
        assert heard.take() == ([], 0)
    finally:
        torch.autograd._engine_run_backward = vars(ours)["__wrapped__"]
    assert is_put_back()


def test_an_error_of_the_programs_own_passes_through(group: None) -> None:
    collectives = Collectives()
    heard = collectives.listen(bool)
    try:
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.ones(2).sum().backward()
        assert [one.kind for one in heard.take()[0]] == ["backward"]
    finally:
        collectives.leave(heard)


def test_what_does_not_fit_is_counted() -> None:
    heard = PendingCollectives(bool)
    for number in range(MOST_SPANS + 5):
        heard.put(span("wait", number, number + 0.5))
    spans, dropped = heard.take()

    assert (len(spans), dropped) == (MOST_SPANS, 5)
    assert heard.take() == ([], 0)


def trained(model: nn.Module, steps: int) -> list[torch.Tensor]:
    torch.manual_seed(3)
    for _ in range(steps):
        model(torch.randn(4, 8)).square().sum().backward()
    return [
        parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None
    ]


def net() -> DistributedDataParallel:
    torch.manual_seed(2)
    return DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))


def told(steps: Steps, forwards: list[Forward]) -> StepTimes:
    steps.add(forwards)
    (message,) = steps.messages(1.0)
    return message


def test_steps_of_ddp_are_split_and_gradients_are_the_same(group: None) -> None:
    bare, model = net(), net()
    steps = Steps(model.module)
    steps.add([])  # Begins to listen.
    began = time.perf_counter()
    gradients = trained(model, 12)
    spent = time.perf_counter() - began
    found = told(steps, [])
    steps.close()

    assert is_put_back()
    assert all(map(torch.equal, gradients, trained(bare, 12)))
    assert found.steps == 11
    parts = (found.compute, found.wait, found.host)
    assert all(isinstance(part, float) and part > 0 for part in parts)
    assert sum(part for part in parts if isinstance(part, float)) == pytest.approx(found.step)
    assert isinstance(found.step, float)
    assert found.step * 11 <= spent


def test_waits_of_ddp_are_as_long_as_ddp_itself_says(group: None) -> None:
    model = net()  # Of one bucket: it is sent round when the last gradient is ready.
    model._set_ddp_runtime_logging_sample_rate(1)
    collectives = Collectives()
    heard = collectives.listen(bool)
    ratios = []
    for _ in range(60):
        trained(model, 1)
        (*_, wait, _) = heard.take()[0]
        with torch.enable_grad():
            model(torch.randn(4, 8))  # DDP adds its own up at the next forward.
        theirs = model._get_ddp_logging_data()["backward_comm_time"] * 1e-9
        ratios.append((wait.ended - wait.began) / theirs)
        heard.take()
    collectives.leave(heard)

    assert median(ratios[10:]) == pytest.approx(1.0, abs=0.25)


def test_accumulating_gradients_is_no_waiting(group: None) -> None:
    model = DistributedDataParallel(nn.Linear(8, 8))  # No buffers, which are sent round as well.
    collectives = Collectives()
    heard = collectives.listen(lambda reducer: reducer is model.reducer)
    trained(model, 2)
    heard.take()
    with model.no_sync():
        trained(model, 2)
    kinds = [one.kind for one in heard.take()[0]]
    collectives.leave(heard)

    assert kinds == ["backward", "backward"]
    assert heard.unended == 1  # The second forward tells that the first one's end was not told.


def test_waits_of_several_threads_cannot_be_laid_onto_steps(group: None) -> None:
    steps = Steps(nn.Linear(2, 2))
    steps.add([])
    both = threading.Thread(target=lambda: distributed.all_reduce(torch.ones(1)))
    both.start()
    both.join()
    distributed.all_reduce(torch.ones(1))
    found = told(steps, [forward(begin) for begin in range(8)])
    steps.close()

    assert found.step == pytest.approx(1.0)
    assert isinstance(found.wait, Unknown)
    assert "several threads" in found.wait.reason


def forward(begin: float) -> Forward:
    """One of half a second, as the clock records it."""
    return Forward([nn.Identity()], pack("2d", begin, begin + 0.5), begin - 0.5)


def test_a_share_of_the_forwards_makes_no_steps_and_the_reason_is_told(group: None) -> None:
    steps = Steps(nn.Linear(2, 2))
    steps.add([])
    found = told(steps, [forward(begin)._replace(since=None) for begin in range(8)])
    steps.close()

    assert isinstance(found.step, Unknown)
    assert "share of the forwards" in found.step.reason


def test_steps_of_another_device_are_not_split(group: None) -> None:
    steps = Steps(nn.Linear(2, 2, device="meta"))
    steps.add([])
    found = told(steps, [forward(begin) for begin in range(8)])
    steps.close()

    assert found.step == pytest.approx(1.0)
    assert isinstance(found.wait, Unknown)
    assert "enqueues work for a meta" in found.wait.reason


def test_steps_of_dtensors_are_not_split(group: None) -> None:
    mesh = init_device_mesh("cpu", (1,))
    steps = Steps(distribute_module(nn.Linear(2, 2), mesh))
    steps.add([])
    found = told(steps, [forward(begin) for begin in range(8)])
    steps.close()

    assert found.step == pytest.approx(1.0)
    assert isinstance(found.compute, Unknown)
    assert "DTensors" in found.compute.reason


def test_nothing_is_compiled_otherwise_while_someone_listens(group: None) -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    def ran(model: nn.Module) -> int:
        trained(model, 3)
        return len(graphs)

    inside, outside = net(), net()
    inside.module = torch.compile(inside.module, backend=backend)
    models = (inside, torch.compile(outside, backend=backend))
    before = [ran(model) for model in models][-1]
    collectives = Collectives()
    heard = collectives.listen(lambda reducer: True)
    during = [ran(model) for model in models][-1]
    collectives.leave(heard)

    assert before > 0
    assert during == before
    assert [ran(model) for model in models][-1] == before
    assert sum(one.kind == "forward" for one in heard.take()[0]) == 6
