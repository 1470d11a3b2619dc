"""What of a step lies in no module of the model, against what a program spent in it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import get_ident
from time import perf_counter
from typing import TypeAlias

import pytest
import torch
import torch._dynamo.compiled_autograd
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.probe.measure.step.loops import (
    WIDTH,
    Net,
    Spent,
    WaitBackward,
    Watched,
    optimizer,
    run,
    watched,
)
from tui_profiler.messages import Unknown
from tui_profiler.messages.training import BackwardLine, TrainingStep
from tui_profiler.probe.measure.clock.call_recorder import ModelKey
from tui_profiler.probe.measure.step.line_shares import LAST_SAMPLES
from tui_profiler.probe.measure.step.outside_modules import MOST_KEPT, OtherModels
from tui_profiler.probe.measure.step.recorder import FIRST_STEPS
from tui_profiler.probe.measure.step.source_lines import Line, LineSampler, Sample
from tui_profiler.probe.measure.step.steps import (
    LAST_STEPS,
    LEAST_WITHOUT_OTHERS,
)
from tui_profiler.probe.process.interpreter_lock import NO_FRAMES, is_locked

MS = 1e-3


class Generator(Net):
    """Another model."""


class Around(torch.nn.Module):
    """A model that calls the watched one."""

    def __init__(self, inside: Net) -> None:
        super().__init__()
        self.before = Net(inside.spent, 1 * MS, 2 * MS, "around ")
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, features) of (batch, features)."""
        y: Tensor = self.inside(self.before(x))
        return y


def loss_of(y: Tensor, spent: Spent, seconds: float) -> Tensor:
    """Return what no module computes, and takes its time in the backward."""
    loss = WaitBackward.apply(y.square().mean(), lambda: spent.wait("loss", seconds))  # type: ignore[no-untyped-call]
    assert isinstance(loss, Tensor)
    return loss


def by_text(told: TrainingStep) -> dict[str, BackwardLine]:
    found = {line.text: line for line in told.backward_lines}
    assert len(found) == len(told.backward_lines)
    return found


def test_the_backward_of_a_loss_is_told_by_the_line_that_began_the_pass() -> None:
    spent = Spent()
    net = Net(spent, 0.5 * MS, 2 * MS)
    sgd = optimizer(net, spent)

    def step() -> None:
        loss = loss_of(net(torch.ones(2, WIDTH)), spent, 4 * MS)
        with spent.on("pass"):
            loss.backward()
        sgd.step()

    with watched(net) as watching:
        told = run(watching, spent, step)
    [line] = told.backward_lines
    assert (line.text, Path(line.file).name) == ("loss.backward()", "test_outside_modules.py")
    assert (line.passes, line.others) == (1, 0)
    assert line.modules * told.recorded >= spent.inside["backward"]
    assert line.outside * told.recorded >= spent.inside["loss"]
    assert (line.modules + line.outside) * told.recorded <= spent.around["pass"]
    assert told.other_models == ()


def test_other_models_of_a_gan_have_their_forward_and_backward() -> None:
    spent = Spent()
    judge = Net(spent, 0.5 * MS, 1 * MS, "judge ")
    generator = Generator(spent, 2 * MS, 4 * MS, "generator ")
    first, second = optimizer(judge, spent), optimizer(generator, spent)

    def step() -> None:
        with spent.on("generator forward"):
            made = generator(torch.ones(2, WIDTH))
        of_judge = loss_of(judge(made.detach()), spent, 0.0)
        with spent.on("of_judge"):
            of_judge.backward()
        first.step()
        of_generator = loss_of(judge(made), spent, 0.0)
        with spent.on("of_generator"):
            of_generator.backward()
        second.step()

    with watched(judge) as watching:
        told = run(watching, spent, step)
    steps, lines = told.recorded, by_text(told)
    [other] = told.other_models
    assert (other.name, other.calls) == ("Generator", 1)
    assert isinstance(other.forward, float)
    assert isinstance(other.backward, float)
    inside, around = spent.inside, spent.around
    assert inside["generator forward"] <= other.forward * steps <= around["generator forward"]
    assert inside["generator backward"] <= other.backward * steps <= around["of_generator"]
    of_judge, of_generator = lines["of_judge.backward()"], lines["of_generator.backward()"]
    assert of_judge.others == 0
    assert of_generator.others == other.backward
    for name, line in (("of_judge", of_judge), ("of_generator", of_generator)):
        assert line.passes == 1
        assert (line.modules + line.others + line.outside) * steps <= around[name]
    assert (of_judge.modules + of_generator.modules) * steps >= inside["judge backward"]


def test_the_watched_model_inside_of_another_one_is_not_counted_to_it() -> None:
    spent = Spent()
    net = Net(spent, 4 * MS, 4 * MS)
    around = Around(net)
    sgd = optimizer(around, spent)

    def step() -> None:
        with spent.on("forward"):
            y = around(torch.ones(2, WIDTH))
        with spent.on("pass"):
            y.mean().backward()
        sgd.step()

    with watched(net) as watching:
        told = run(watching, spent, step)
    steps = told.recorded
    [other] = told.other_models
    assert other.name == "Around"
    assert isinstance(other.forward, float)
    assert isinstance(other.backward, float)
    inside, outside = spent.inside, spent.around
    rest = outside["forward"] - inside["forward"]
    assert inside["around forward"] <= other.forward * steps <= rest
    rest = outside["pass"] - inside["backward"]
    assert inside["around backward"] <= other.backward * steps <= rest


def test_under_compiled_autograd_no_backward_is_said_to_be_the_loss() -> None:
    net, teacher = (torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH)) for _ in range(2))
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        loss = net(teacher(torch.ones(2, WIDTH))).mean()
        with torch._dynamo.compiled_autograd._enable(lambda graph: graph):
            loss.backward()
        sgd.step()

    torch._dynamo.reset()
    with watched(net) as watching:
        told = run(watching, Spent(), step)
    assert (told.passes, told.backward_lines) == (1, ())
    assert "compiled autograd" in told.why_no_backward
    [other] = told.other_models
    assert other.backward == Unknown(told.why_no_backward)


class Checkpointed(torch.nn.Module):
    """A model with a submodule that is recomputed in the backward."""

    def __init__(self, spent: Spent, *, use_reentrant: bool) -> None:
        super().__init__()
        self.first, self.part = torch.nn.Linear(WIDTH, WIDTH), Net(spent, 1 * MS, 0.0)
        self.use_reentrant = use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, features) of (batch, features)."""
        y: Tensor = self.first(x)
        self.part.prefix = ""
        y = checkpoint(self.part, y, use_reentrant=self.use_reentrant)
        self.part.prefix = "again "
        return y


Compiler: TypeAlias = Callable[[torch.fx.GraphModule], Callable[..., object]]


def as_it_is(graph: torch.fx.GraphModule) -> Callable[..., object]:
    return graph


def compiled_steps(
    net: torch.nn.Module, spent: Spent, compiler: Compiler = as_it_is
) -> TrainingStep:
    """Return the figures of steps whose backward pass runs in compiled autograd."""
    sgd = optimizer(net, spent)

    def step() -> None:
        loss = net(torch.ones(2, WIDTH)).mean()
        with torch._dynamo.compiled_autograd._enable(compiler), spent.on("pass"):
            loss.backward()
        sgd.step()

    torch._dynamo.reset()
    with watched(net) as watching:
        return run(watching, spent, step)


@pytest.mark.parametrize("compiler", [as_it_is, partial(torch.compile, backend="eager")])
def test_the_graphs_of_compiled_autograd_are_not_run_again(compiler: Compiler) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())
    told = compiled_steps(net, Spent(), compiler)
    assert (told.passes, told.recompute) == (1, 0.0)


def test_modules_that_run_again_under_compiled_autograd_are_told_without_its_graphs() -> None:
    spent = Spent()
    told = compiled_steps(Checkpointed(spent, use_reentrant=False), spent)
    assert isinstance(told.recompute, float)
    again = told.recompute * told.recorded
    assert 0 < spent.inside["again forward"] <= again <= spent.around["pass"]
    recomputed = memoryview(told.own_recomputed).cast("f")
    assert sum(recomputed) == pytest.approx(told.recompute, rel=1e-3)


def test_what_compiled_autograd_may_have_run_again_inside_of_a_graph_is_unknown() -> None:
    spent = Spent()
    told = compiled_steps(Checkpointed(spent, use_reentrant=True), spent)
    assert isinstance(told.recompute, Unknown)
    assert "reentrant" in told.recompute.reason


class Slow(torch.nn.Module):
    """A model whose forward is in one line for most of its time."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, features) of (batch, features)."""
        until = perf_counter() + 20 * MS
        while perf_counter() < until:
            pass
        y: Tensor = self.linear(x)
        return y


def test_forwards_of_other_models_are_not_the_other_of_steps_that_are_not_recorded() -> None:
    spent, teacher = Spent(), Slow()
    net = Net(spent)
    sgd = optimizer(net, spent)

    def step() -> None:
        net(teacher(torch.ones(2, WIDTH))).mean().backward()
        sgd.step()

    watching = Watched(net, torch.ones(2, WIDTH), records=lambda: False)
    told: TrainingStep | None = None
    try:
        for _ in range(60):
            step()
            told = watching.take() or told
    finally:
        watching.close()
    assert told is not None
    assert told.recorded < told.steps - 30
    assert [one.name for one in told.other_models] == ["Slow"]
    assert "Slow.forward" not in {one.function for one in told.lines}


def test_without_readable_stacks_no_line_is_sampled_and_the_reason_is_given() -> None:
    net = Net(Spent())
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    watching = Watched(net, torch.ones(2, WIDTH), records=lambda: True)
    sampler = watching.steps._sampler = LineSampler(0.01, are_locked=lambda: False)
    told: TrainingStep | None = None
    try:
        for _ in range(2 * FIRST_STEPS):
            net(torch.ones(2, WIDTH)).mean().backward()
            sgd.step()
            told = watching.take() or told
        assert sampler._watched == get_ident()
        assert "tui-profiler lines" not in {one.name for one in threading.enumerate()}
    finally:
        watching.close()
    assert told is not None
    assert (told.lines, told.samples, told.why_no_lines) == ((), 0, NO_FRAMES)


@pytest.mark.skipif(not is_locked(), reason="Python runs without the GIL")
def test_samples_are_told_by_line_again_where_other_models_are_called_no_more() -> None:
    net, metric = Net(Spent()), torch.nn.Linear(WIDTH, WIDTH)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    is_recorded, calls_metric = [True], [True]
    line = Line("log", "/home/user/train.py", 7)

    def step() -> None:
        if calls_metric[0]:
            metric(torch.ones(2, WIDTH))
        net(torch.ones(2, WIDTH)).mean().backward()
        sgd.step()
        if not is_recorded[0]:
            watching.steps._sampler._samples.append(Sample(perf_counter(), line))

    def told_of(steps: int, *, recorded: bool) -> TrainingStep:
        is_recorded[0] = recorded
        for _ in range(steps):
            step()
        told = watching.take()
        assert told is not None
        return told

    watching = Watched(net, torch.ones(2, WIDTH), records=lambda: is_recorded[0])
    try:
        for _ in range(FIRST_STEPS):
            step()
            watching.take()
        told = told_of(10, recorded=False)
        assert "log" not in {one.function for one in told.lines}
        assert "other models" in told.why_no_lines
        calls_metric[0] = False
        told_of(LEAST_WITHOUT_OTHERS + 2, recorded=True)
        told = told_of(LAST_STEPS, recorded=False)
        assert "log" in {one.function for one in told.lines}
        assert told.why_no_lines == ""
        assert [one.name for one in told.other_models] == ["Linear"]
    finally:
        watching.close()


@pytest.mark.skipif(not is_locked(), reason="Python runs without the GIL")
def test_lines_are_of_the_last_samples_though_few_fall_into_one_step() -> None:
    net, is_recorded = Net(Spent()), [True]
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    lines = [Line(name, "/home/user/train.py", 7) for name in ("first", "later")]

    def told_of(steps: int, line: Line) -> Counter[str]:
        for number in range(steps):
            net(torch.ones(2, WIDTH)).mean().backward()
            sgd.step()
            if number % 8 == 0:
                watching.steps._sampler._samples.append(Sample(perf_counter(), line))
        told = watching.take()
        assert told is not None
        assert told.samples <= LAST_SAMPLES
        found = {one.function: round(one.share * told.samples) for one in told.lines}
        return Counter({one.function: found.get(one.function, 0) for one in lines})

    watching = Watched(net, torch.ones(2, WIDTH), records=lambda: is_recorded[0])
    try:
        for _ in range(2 * FIRST_STEPS):
            net(torch.ones(2, WIDTH)).mean().backward()
            sgd.step()
            watching.take()
        is_recorded[0] = False
        # The program's own thread is sampled as well, and some steps are longer than usual.
        assert told_of(4 * LAST_STEPS, lines[0])["first"] > LAST_STEPS // 8 * 2
        counts = told_of(9 * LAST_SAMPLES, lines[1])
        assert counts["first"] < counts["later"]
    finally:
        watching.close()


def test_models_of_one_class_are_numbered_and_only_so_many_are_told_apart() -> None:
    others = OtherModels()
    places = [others.place(ModelKey(number, "Net")) for number in range(MOST_KEPT)]
    assert places == [*range(MOST_KEPT)]
    assert others.place(ModelKey(-1, "Net")) is None
    assert others.place(ModelKey(1, "Net")) == 1
    assert others.names()[:3] == ["Net", "Net#2", "Net#3"]
