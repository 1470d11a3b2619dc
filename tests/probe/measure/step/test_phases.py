"""Parts of a step against what a program spent in them by its own reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident
from time import perf_counter

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from tests.probe.measure.step.loops import (
    WIDTH,
    Net,
    Spent,
    Watched,
    batches,
    optimizer,
    run,
    watched,
)
from tui_profiler.messages import Unknown
from tui_profiler.messages.training import StepParts, TrainingStep
from tui_profiler.probe.measure.clock.tree_index import TreeIndex
from tui_profiler.probe.measure.ranks.collectives import PendingCollectives, Span
from tui_profiler.probe.measure.step.recorder import FIRST_STEPS, Pass
from tui_profiler.probe.measure.step.source_lines import Line, Sample
from tui_profiler.probe.measure.step.steps import PACED_SECONDS, PATIENCE_SECONDS, _Lengths
from tui_profiler.probe.measure.values.model_values import ValueReader
from tui_profiler.probe.process.yielding import pause
from tui_profiler.probe.torch_compat.forward_kind import kind_of

MS = 1e-3
PARTS = ("forward", "backward", "clip", "optimizer")


def agrees(parts: StepParts, spent: Spent, steps: int, names: tuple[str, ...]) -> None:
    for name in names:
        found = getattr(parts, name) * steps
        assert spent.inside[name] <= found <= spent.around[name], name


def plain(spent: Spent, **ms: float) -> tuple[Net, Callable[[], None]]:
    """A loop of loader, forward, backward, clipping, optimizer and logging."""
    net = Net(spent, ms.get("forward", 0) * MS, ms.get("backward", 0) * MS)
    sgd = optimizer(net, spent, ms.get("optimizer", 0) * MS)
    data = batches(spent, ms.get("data", 0) * MS)

    def step() -> None:
        with spent.on("data"):
            x = next(data)
        with spent.on("forward"):
            y = net(x)
        loss = y.square().mean()
        sgd.zero_grad()
        with spent.on("backward"):
            loss.backward()
        with spent.on("clip"):
            clip_grad_norm_(net.parameters(), 1.0)
        with spent.on("optimizer"):
            sgd.step()
        spent.wait("other", ms.get("other", 0) * MS)

    return net, step


@pytest.mark.parametrize("longest", ["data", "forward", "backward", "optimizer", "other"])
def test_each_part_takes_what_the_program_spent_in_it(longest: str) -> None:
    spent = Spent()
    lengths = {"data": 2, "forward": 2, "backward": 2, "optimizer": 2, "other": 2} | {longest: 9}
    net, step = plain(spent, **lengths)
    with watched(net) as watching:
        told = run(watching, spent, step)
        agrees(told.parts, spent, told.recorded, ("data", *PARTS))
        assert told.parts.other * told.recorded >= spent.inside["other"]
        share = told.parts.other / told.seconds
        assert watching.steps._sampler.other_share == pytest.approx(share)
        assert told.ended_by == "optimizer"
        assert (told.forwards, told.passes, told.updates) == (1, 1, 1)
        known = [part for part in _figures(told.parts) if not isinstance(part, Unknown)]
        assert sum(known) == pytest.approx(told.seconds)
        assert isinstance(told.parts.transfer, Unknown)
        assert isinstance(told.parts.communication, Unknown)
        root = watching.of(told, "")
        steps = told.recorded
        assert spent.inside["backward"] / steps <= root.backward <= told.parts.backward


def test_waiting_for_a_collective_in_the_backward_is_in_no_module() -> None:
    spent, pending = Spent(), PendingCollectives(lambda reducer: False)
    net, step = plain(spent, backward=9)

    def waits() -> None:
        began = perf_counter()
        spent.wait("communication", 9 * MS)
        pending.put(Span("wait", get_ident(), began, perf_counter()))

    net.waits = waits
    with watched(net) as watching:
        watching.steps._collectives = pending
        told = run(watching, spent, step)
        assert spent.inside["communication"] <= told.parts.communication * told.recorded
        root, steps = watching.of(told, ""), told.recorded
        assert root.backward <= told.parts.backward
        assert spent.inside["backward"] / steps <= root.backward


class SlowWindow:
    """Takes long at the end of each step and pass, as the profiler may."""

    is_over = is_waiting = False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def await_forward(self) -> None:
        pass

    def begin(self) -> None:
        pass

    def after_data(self) -> None:
        pause(self._seconds)

    def after_pass(self, one: Pass, *, is_one_of_several: bool) -> None:
        pause(self._seconds)

    def after_step(self) -> None:
        pause(self._seconds)


def test_the_profiler_s_own_work_is_in_no_part_and_not_in_the_step() -> None:
    """It works for 15 ms beside a step of 9 ms."""
    spent = Spent()
    net, step = plain(spent, other=9)
    with watched(net) as watching:
        watching.recorder.window = SlowWindow(5 * MS)
        told = run(watching, spent, step)
        known = [part for part in _figures(told.parts) if not isinstance(part, Unknown)]
        assert sum(known) == pytest.approx(told.seconds)
        agrees(told.parts, spent, told.recorded, ("data", *PARTS))
        assert told.parts.other * told.recorded >= spent.inside["other"]
        usual = told.last / told.per_second / told.last
        assert told.seconds <= usual - 10 * MS


def _figures(parts: StepParts) -> list[float | Unknown]:
    return [getattr(parts, name) for name in StepParts.__struct_fields__]


def test_the_step_of_a_base_class_is_a_part_of_an_optimizer_s_own() -> None:
    spent = Spent()
    net, step = plain(spent, optimizer=3)
    torch.optim.SGD(net.parameters(), lr=0.1)  # Whereby the base class has torch's hooks as well.
    with watched(net) as watching:
        told = run(watching, spent, step)
        agrees(told.parts, spent, told.recorded, ("optimizer",))
        assert told.updates == 1


def test_accumulation_is_several_forwards_and_passes_in_a_step() -> None:
    spent = Spent()
    net = Net(spent, 1 * MS, 2 * MS)
    sgd, data = optimizer(net, spent, 1 * MS), batches(spent, 1 * MS)

    def step() -> None:
        for _ in range(3):
            with spent.on("data"):
                x = next(data)
            with spent.on("forward"):
                y = net(x)
            loss = y.square().mean() / 3
            with spent.on("backward"):
                loss.backward()
        with spent.on("optimizer"):
            sgd.step()
        sgd.zero_grad()

    with watched(net) as watching:
        told = run(watching, spent, step)
        assert (told.forwards, told.passes, told.updates) == (3, 3, 1)
        assert told.items == 6
        agrees(told.parts, spent, told.recorded, ("data", "forward", "backward", "optimizer"))


def test_a_batch_that_is_run_several_times_counts_once() -> None:
    """A discriminator: the batch, and twice what is made of it; 2 items per step, not 6."""
    spent = Spent()
    net = Net(spent)
    sgd, data = optimizer(net, spent), batches(spent)

    def step() -> None:
        x = next(data)
        for given in (x, -x, -x):
            net(given).square().mean().backward()
        sgd.step()

    with watched(net) as watching:
        told = run(watching, spent, step)
        assert (told.forwards, told.fetches, told.items) == (3, 1, 2)


def test_a_batch_that_is_run_in_pieces_counts_whole() -> None:
    spent = Spent()
    net = Net(spent)
    sgd, data = optimizer(net, spent), batches(spent)

    def step() -> None:
        for piece in next(data).chunk(2):
            net(piece).square().mean().backward()
        sgd.step()

    with watched(net, torch.ones(1, WIDTH)) as watching:
        told = run(watching, spent, step)
        assert (told.forwards, told.fetches, told.items) == (2, 1, 2)


class Tagger(nn.Module):
    """Is given token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        """Return (batch, tokens, features) of (batch, tokens)."""
        return self.embedding(ids)  # type: ignore[no-any-return]


def test_items_and_tokens_of_changing_inputs_are_those_of_recorded_steps() -> None:
    model, traced = Tagger(), torch.zeros(4, 3, dtype=torch.int64)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    # As many are recorded of each, whatever steps come before them: 4 items, 12 or 40 tokens.
    inputs = [traced, torch.zeros(4, 10, dtype=torch.int64)]

    def step() -> None:
        inputs.reverse()
        model(inputs[0]).sum().backward()
        sgd.step()
        sgd.zero_grad()

    kind = kind_of(model.train(), (traced,), {})
    watching = Watched(model, traced, kind=kind)
    try:
        told = run(watching, Spent(), step)
    finally:
        watching.close()
    assert (told.items, told.items_error) == (4, 0.0)
    assert told.tokens == 26
    # 16 steps, half of them 14 off the mean: 1.96 * 14 / sqrt(15).
    assert told.tokens_error == pytest.approx(1.96 * 14 / 15**0.5 / 26)


@pytest.mark.parametrize("part", ["evaluation", "data"])
def test_steps_far_longer_are_told_with_their_time_and_a_wait_for_a_batch_is_none(
    part: str,
) -> None:
    # On a busy machine the step that waits for its batch may be far longer by itself as well.
    assert any(is_longer(part) == (part == "evaluation") for _ in range(4))


def is_longer(part: str) -> bool:
    """Return whether a step becomes an outlier when one part takes 200 ms longer."""
    spent = Spent()
    net = Net(spent, 2 * MS)
    sgd, fast, slow = optimizer(net, spent), batches(spent), batches(spent, 200 * MS)

    def step(data: Iterator[Tensor] = fast) -> None:
        net(next(data)).square().mean().backward()
        sgd.step()

    with watched(net) as watching:
        run(watching, spent, step)
        step()  # Adding up, here on the same thread, is in this one.
        if part == "evaluation":
            spent.wait(part, 200 * MS)
        step(slow if part == "data" else fast)
        told = watching.take()
    assert told is not None
    assert isinstance(told.per_second, float)
    # Others may be longer too: their time is not that of this one.
    return told.longer_share >= spent.inside[part] / (told.last / told.per_second)


def test_a_closure_s_forward_and_backward_are_not_the_optimizer_s() -> None:
    spent = Spent()
    net = Net(spent, 1 * MS, 2 * MS)
    made = torch.optim.LBFGS(net.parameters(), lr=1e-3, max_iter=3, tolerance_grad=0.0)

    def step() -> None:
        def closure() -> Tensor:
            made.zero_grad()
            with spent.on("forward"):
                y = net(torch.ones(2, WIDTH))
            loss = y.square().mean()
            with spent.on("backward"):
                loss.backward()
            return loss

        made.step(closure)

    with watched(net) as watching:
        told = run(watching, spent, step, steps=12)
        assert told.forwards == told.passes >= 2
        assert told.updates == 1
        agrees(told.parts, spent, told.recorded, ("forward", "backward"))
        assert isinstance(told.parts.optimizer, float)


def test_of_two_optimizers_the_later_one_ends_a_step() -> None:
    spent = Spent()
    net, judge = Net(spent, 1 * MS, 1 * MS), Net(spent, 1 * MS, 1 * MS)
    first, second = optimizer(judge, spent, 2 * MS), optimizer(net, spent, 1 * MS)
    data = batches(spent, 1 * MS)

    def step() -> None:
        with spent.on("data"):
            real = next(data)
        first.zero_grad()
        judge(net(real).detach()).mean().backward()
        with spent.on("optimizer"):
            first.step()
        second.zero_grad()
        judge(net(real)).mean().backward()
        with spent.on("optimizer"):
            second.step()

    with watched(net) as watching:
        told = run(watching, spent, step)
        assert watching.recorder.ends_at == id(second)
        assert (told.passes, told.updates, told.forwards) == (2, 2, 2)
        agrees(told.parts, spent, told.recorded, ("data", "optimizer"))


def test_the_optimizer_that_steps_most_seldom_ends_a_step() -> None:
    spent = Spent()
    net = Net(spent, 0.5 * MS, 0.5 * MS)
    often, seldom = optimizer(net, spent), optimizer(net, spent)

    def step() -> None:
        for _ in range(5):
            net(torch.ones(2, WIDTH)).mean().backward()
            often.step()
        seldom.step()

    with watched(net) as watching:
        told = run(watching, spent, step, steps=12)
        assert watching.recorder.ends_at == id(seldom)
        assert (told.passes, told.updates) == (5, 6)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("is_adversarial", [True, False])
def test_what_was_no_step_is_not_counted(place: int, *, is_adversarial: bool) -> None:
    """Figures are taken at each place of a step, before it is known what ends one."""
    net = Net(Spent())
    first, second = (torch.optim.SGD(net.parameters(), lr=1e-3) for _ in range(2))
    with watched(net) as watching:
        for _ in range(12):
            for part in range(4):
                net(torch.ones(2, WIDTH)).mean().backward()
                if part == 3:
                    second.step()
                elif is_adversarial:
                    first.step()
                if part == place:
                    watching.take()
        told = watching.take() or told_last(watching)
        assert watching.recorder.ends_at == id(second)
        assert watching.steps.steps in range(8, 12)
        assert (told.passes, told.forwards) == (4, 4)


def told_last(watching: Watched) -> TrainingStep:
    return watching.steps._message(1.0)


def test_steps_of_an_earlier_phase_stay_counted_and_its_optimizer_ends_no_more() -> None:
    net = Net(Spent())
    with watched(net) as watching:
        for _ in range(2):
            sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
            for _ in range(40):
                net(torch.ones(2, WIDTH)).mean().backward()
                sgd.step()
                watching.take()
        assert watching.steps.steps >= 76
        assert watching.recorder.ends_at == id(sgd)


def test_the_first_steps_are_known_however_long_they_are() -> None:
    net = Net(Spent())
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    with watched(net) as watching:
        for _ in range(2):
            net(torch.ones(2, WIDTH)).mean().backward()
            sgd.step()
            watching.take()
            watching.steps.take((), (), perf_counter() + 2 * PATIENCE_SECONDS)
        assert watching.steps.steps == 1


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_rare_wait_for_data_is_in_the_means_and_that_of_an_evaluation_is_not(
    *, evaluates: bool
) -> None:
    spent = Spent()
    net, sgd = Net(spent, 1 * MS, 1 * MS), torch.optim.SGD([torch.zeros(1)])
    quick, slow = batches(spent), batches(spent, 60 * MS)
    with watched(net) as watching:
        for count in range(64):
            waits = count % 8 == 7
            x = next(slow if waits and not evaluates else quick)
            if waits and evaluates:
                for _ in range(2):
                    next(slow)
            net(x).mean().backward()
            sgd.step()
            watching.take()
        told = told_last(watching)
        assert isinstance(told.parts.data, float)
        assert told.recorded + told.outliers >= 56
        waited = told.parts.data * told.recorded
        assert waited < 300 * MS if evaluates else waited > 300 * MS
        kinds = [(one.kind, one.count, one.every) for one in told.between]
        assert kinds == ([("evaluation", 8, 8.0)] if evaluates else [])


def test_without_an_optimizer_of_torch_s_a_backward_pass_ends_a_step() -> None:
    spent = Spent()
    net = Net(spent, 1 * MS, 2 * MS)

    def step() -> None:
        with spent.on("forward"):
            y = net(torch.ones(2, WIDTH))
        loss = y.square().mean()
        with spent.on("backward"):
            loss.backward()
        with torch.no_grad():
            for one in net.parameters():
                one.sub_(1e-3 * one.grad)
                one.grad = None

    with watched(net) as watching:
        told = run(watching, spent, step)
        assert told.ended_by == "backward"
        assert isinstance(told.parts.optimizer, Unknown)
        assert isinstance(told.parts.data, Unknown)
        agrees(told.parts, spent, told.recorded, ("forward", "backward"))


@pytest.mark.parametrize("is_recorded", [True, False])
def test_an_evaluation_is_a_part_of_its_own_and_no_slow_step(*, is_recorded: bool) -> None:
    spent = Spent()
    net, step = plain(spent, forward=0.5, backward=0.5, optimizer=0.5, data=0.5)
    records = [True]
    watching = Watched(net, torch.ones(2, WIDTH), records=lambda: records[0])
    watching.recorder.peeks = True
    try:
        for count in range(120):
            step()
            if count % 20 == 0:
                watching.take()
        records[0] = is_recorded
        watching.recorder.peeks = True
        for _ in range(FIRST_STEPS):
            step()
        watching.take()
        net.eval()
        spent.clear()
        with torch.no_grad():
            for _ in range(600):
                net(torch.ones(2, WIDTH))
        net.train()
        evaluated = spent.inside["forward"]
        step()
        told = watching.take()
    finally:
        watching.close()
    assert told is not None
    (between,) = told.between
    assert (between.kind, between.count, between.forwards) == ("evaluation", 1, 600)
    assert isinstance(between.forward_seconds, float)
    assert evaluated <= between.forward_seconds <= between.seconds
    assert told.forwards == 1
    assert isinstance(told.parts.forward, float)
    assert told.parts.forward * told.recorded < evaluated
    assert told.last / told.per_second < evaluated + 256 * 20 * MS, "lengths are without it"
    assert all(one.seconds < evaluated for one in watching.slow)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_lines_of_an_evaluation_are_not_those_of_a_step(*, is_recorded: bool) -> None:
    spent = Spent()
    net, step = plain(spent, forward=0.5, other=0.5)
    records = [True]
    watching = Watched(net, torch.ones(2, WIDTH), records=lambda: records[0])

    def sampled(function: str) -> None:
        line = Line(function, "train.py", 1)
        watching.steps._sampler._samples.append(Sample(perf_counter(), line))

    try:
        for _ in range(30):
            step()
            watching.take()
        records[0] = is_recorded
        step()
        sampled("log")
        step()
        spent.wait("evaluation", 200 * MS)
        sampled("evaluate")
        spent.wait("evaluation", 200 * MS)
        step()
        watching.take()
        told = told_last(watching)
    finally:
        watching.close()
    functions = {one.function for one in told.lines}
    assert "log" in functions
    assert "evaluate" not in functions


def test_scaled_losses_and_skipped_updates_are_told_as_they_are() -> None:
    spent = Spent()
    net = Net(spent, 0.5 * MS, 0.5 * MS)
    sgd = optimizer(net, spent, 1 * MS)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        sgd.zero_grad()
        loss = net(torch.ones(2, WIDTH)).mean()
        scaler.scale(loss * (float("inf") if count % 4 == 0 else 1.0)).backward()
        scaler.step(sgd)
        scaler.update()

    with watched(net) as watching:
        # A step whose update was skipped goes on into the next one: of 16 batches four are such.
        told = run(watching, spent, step, batches=16, steps=12)
        assert told.updates == 1
        assert told.passes == pytest.approx(16 / 12)


def test_where_nothing_trains_nothing_is_told_and_nothing_kept() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    with watched(net) as watching:
        watching.clock.recording = True
        for _ in range(20):
            net(torch.ones(2, WIDTH))
        assert watching.take() is None
        assert not watching.steps.is_training
        assert not watching.steps.decides


def test_everything_is_put_back() -> None:
    from torch.nn.utils import clip_grad
    from torch.optim import optimizer as optimizers
    from torch.utils.data import dataloader

    def state() -> tuple[object, ...]:
        cells = [vars(clip_grad)[name].__closure__[0].cell_contents for name in _CLIPPING]
        return (
            dataloader._BaseDataLoaderIter.__next__,
            *cells,
            torch.autograd._engine_run_backward,  # type: ignore[attr-defined]
            nn.Module.__call__,
            len(optimizers._global_optimizer_pre_hooks),
            len(optimizers._global_optimizer_post_hooks),
        )

    before = state()
    net, step = plain(Spent())
    with watched(net) as watching:
        run(watching, Spent(), step, steps=12)
        assert state() != before
    assert state() == before


_CLIPPING = ("clip_grad_norm_", "_get_total_norm", "_clip_grads_with_norm_")


def test_clipping_is_a_part_where_another_tool_has_replaced_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch.nn.utils import clip_grad

    clip, spent = clip_grad.clip_grad_norm_, Spent()

    def replaced(*args: object) -> Tensor:
        return clip(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(clip_grad, "clip_grad_norm_", replaced)
    net, step = plain(spent)
    with watched(net) as watching:
        told = run(watching, spent, step)
    known = [part for part in _figures(told.parts) if not isinstance(part, Unknown)]
    assert sum(known) == pytest.approx(told.seconds)
    assert told.parts.clip > 0


def test_a_step_in_an_operator_window_is_in_no_mean_whatever_steps_are_told_with_it() -> None:
    net = Net(Spent())
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    is_recorded = [True]

    def step() -> None:
        net(torch.ones(2, WIDTH)).sum().backward()
        sgd.step()

    watching = Watched(net, torch.ones(2, WIDTH), records=lambda: is_recorded[0])
    try:
        for _ in range(FIRST_STEPS):
            step()
            watching.take()
        for windowed in (0, 3, -1):
            for wanted in (True, False, False, True, True, True):
                is_recorded[0] = wanted
                step()
            forwards = watching.clock.take()
            watching.steps.take_recorded()
            watching.steps.take(forwards, [forwards[windowed]], perf_counter())
            calls, _ = watching.steps.take_recorded()
            assert calls == sum(one.calls for one in forwards) - forwards[windowed].calls
    finally:
        watching.close()


def test_steps_whose_values_are_read_by_the_clock_leave_others_for_the_means() -> None:
    """Of steps longer than the time between two readings each would be read, and in no mean."""
    net, step = plain(Spent(), forward=PACED_SECONDS / MS)
    with watched(net) as watching:
        training = watching.steps
        training.values = ValueReader(TreeIndex(watching.tree, net), 1.0, least_seconds=0.0)
        training.values.is_wanted = True
        told: TrainingStep | None = None
        for _ in range(13):
            step()
            told = watching.take() or told
    assert told is not None
    assert 6 <= told.recorded + told.outliers < told.steps, "some were read"


def test_few_slow_steps_are_reported_and_few_fast_ones_are_not() -> None:
    slow, fast = _Lengths(), _Lengths()
    for _ in range(3):
        assert not slow.are_enough
        slow.add([1.5], [1.5])
        fast.add([0.5], [0.5])
    assert slow.are_enough
    assert not fast.are_enough


def test_a_long_backward_of_a_slow_step_is_in_its_pace() -> None:
    net = Net(Spent(), 1 * MS)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    with watched(net) as watching:
        training = watching.steps
        assert not training.is_in_pace(perf_counter())
        for _ in range(4):
            net(torch.ones(2, WIDTH)).mean().backward()
            sgd.step()
            watching.take()
        assert training.is_in_pace(perf_counter())
        usual = training._lengths.p50
        assert training._before is not None
        assert training.is_in_pace(training._before.at + 3.9 * usual)
        assert not training.is_in_pace(training._before.at + 4.1 * usual)


def test_a_step_of_an_optimizer_that_has_not_ended_is_no_reason_to_end_steps_with_passes() -> None:
    net = Net(Spent())
    made = torch.optim.LBFGS(net.parameters(), lr=1e-3, max_iter=4, tolerance_grad=0.0)
    seen: list[int | None] = []
    with watched(net) as watching:

        def closure() -> Tensor:
            made.zero_grad()
            loss = net(torch.ones(2, WIDTH)).square().mean()
            loss.backward()
            watching.take()
            seen.append(watching.recorder.ends_at)
            return loss

        for _ in range(3):
            made.step(closure)
        watching.take()
        assert None not in seen
        assert watching.recorder.ends_at == id(made)
        assert watching.steps.steps == 2


def test_an_interval_of_inference_longer_than_the_patience_is_counted() -> None:
    net = Net(Spent())
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)

    def update(times: int) -> None:
        for _ in range(times):
            net(torch.ones(2, WIDTH)).mean().backward()
            sgd.step()
            watching.take()

    with watched(net) as watching:
        update(20)
        with torch.no_grad():
            for _ in range(30):
                net(torch.ones(1, WIDTH))
        later = perf_counter() + 2 * PATIENCE_SECONDS
        watching.steps.take(watching.clock.take(), (), later)
        assert not watching.steps.decides
        watching.clock.record_for(10.0)
        with torch.no_grad():
            for _ in range(30):
                net(torch.ones(1, WIDTH))
        counted = watching.steps.steps
        update(4)
        told = told_last(watching)
    assert watching.steps.steps == counted + 4
    (between,) = told.between
    assert (between.kind, between.count) == ("inference", 1)
