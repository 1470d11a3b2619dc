"""Backward passes observed: which reach a model, and that the program is as without us."""

from __future__ import annotations

import functools
import io
import itertools
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread, get_ident

import pytest
import torch
from torch import nn

from tests.probe.watch.watched_model import TORCHS_OWN, Net, has_times, sockets
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler import watch
from tui_profiler.messages import ModeSeen
from tui_profiler.messages.program import ENOUGH_FORWARDS
from tui_profiler.probe.measure.clock.backward import (
    ALIKE,
    MOST_BRIEF,
    MOST_PARAMETERS,
    NAME,
    BackwardPasses,
    Engine,
)
from tui_profiler.queries.time.modes import mode, runs_backward
from tui_profiler.session import Session

__all__ = ["sockets"]  # The fixture that keeps sockets apart.

ORDINALS = itertools.count()
AS_FOUND = vars(torch.autograd)[NAME]


@contextmanager
def observed(model: nn.Module) -> Iterator[BackwardPasses]:
    passes = BackwardPasses(model)
    passes.threads.add(get_ident())
    passes.listen()
    try:
        yield passes
    finally:
        passes.close()
        assert vars(torch.autograd)[NAME] is AS_FOUND


class Told:
    def __init__(self) -> None:
        self.passes = 0

    def before_pass(self) -> None:
        pass

    def after_pass(self, began: float, ended: float) -> None:
        self.passes += 1


def test_who_listens_is_told_though_one_who_left_asked_for_times_alone() -> None:
    engine, left, told = Engine(), Told(), Told()
    engine.listen(left, needs_all=False)
    engine.leave(left)
    engine.be_brief()  # Its thread was about to, when it left on another one.
    engine.listen(told, needs_all=False)
    torch.ones(1, requires_grad=True).sum().backward()
    engine.leave(told)
    assert told.passes == 1


def test_times_of_passes_stay_together_where_more_were_kept_than_there_is_room_for() -> None:
    engine, nobody = Engine(), Told()
    engine.listen(nobody, needs_all=False)
    engine.be_brief()
    run = engine._observed(lambda: None)
    for _ in range(MOST_BRIEF):
        run()
    taken = []
    for _ in range(10):  # Passes end while they are taken.
        run()
        taken.append(engine.brief.popleft())
    taken += engine.brief
    engine.leave(nobody)
    assert nobody.passes == 0
    times = [second for one in taken for second in one]
    assert times == sorted(times)


def test_where_someone_elses_replacement_stays_nothing_is_kept_once_none_listens() -> None:
    engine, nobody = Engine(), Told()
    engine.listen(nobody, needs_all=False)
    engine.be_brief()
    run = engine._observed(lambda: None)  # Which another one calls, for ever.
    engine.leave(nobody)
    run()
    assert not engine.brief


def loss_of(model: nn.Module) -> torch.Tensor:
    return model(torch.randn(4, 8)).square().mean()


def test_passes_that_reach_the_model_are_told_from_others() -> None:
    net, other = Net(), Net()
    with observed(net) as passes, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Of torch, about ``create_graph``.
        loss_of(net).backward()
        assert (passes.passes, passes.reached) == (1, 1)
        loss_of(net).backward()  # Into gradients that are there.
        assert (passes.passes, passes.reached) == (2, 2)
        loss_of(other).backward()
        assert (passes.passes, passes.reached) == (3, 2)
        net.zero_grad(set_to_none=False)
        loss_of(other).backward()
        assert (passes.passes, passes.reached) == (4, 2), "zeroed in place, not by a pass"
        x = torch.randn(4, 8, requires_grad=True)
        torch.autograd.grad(net(x).sum(), x)
        assert (passes.passes, passes.reached) == (5, 2), "of an input"
        loss_of(net).backward(create_graph=True)
        assert passes.reached == 3, "out of place"
    loss_of(net).backward()
    assert passes.passes == 6, "not observed after the end"
    assert passes.trouble == ""
    assert len(passes.seconds) == 6
    assert all(seconds > 0 for seconds in passes.seconds)


def test_a_pass_inside_of_another_is_a_part_of_it() -> None:
    net = Net()
    with observed(net) as passes:
        inner = torch.utils.checkpoint.checkpoint(
            net, torch.randn(4, 8, requires_grad=True), use_reentrant=True
        )
        inner.sum().backward()
    assert (passes.passes, passes.reached) == (1, 1)


def test_passes_that_reach_other_parameters_in_turn_are_all_told() -> None:
    net = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
    with observed(net) as passes:
        for turn in range(4 * ALIKE):
            loss_of(net[turn % 2]).backward()
        assert (passes.passes, passes.reached) == (4 * ALIKE, 4 * ALIKE)
        for _ in range(2 * ALIKE):
            loss_of(net[0]).backward()
        assert passes.reached == 6 * ALIKE
        reached = passes.reached
        for _ in range(2 * ALIKE):  # The first of them is not looked at whole.
            loss_of(net[1]).backward()
        assert passes.reached == reached + 2 * ALIKE - 1


def test_of_passes_that_are_alike_one_gradient_is_read() -> None:
    class Counted(nn.Parameter):
        reads = 0

        @property
        def grad(self) -> torch.Tensor | None:
            Counted.reads += 1
            return super().grad

    net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(MOST_PARAMETERS)))
    for one in net:
        one.weight, one.bias = Counted(one.weight), None
    with observed(net) as passes:
        for _ in range(ALIKE + 1):
            loss_of(net).backward()
        Counted.reads = 0
        loss_of(net).backward()
        assert (passes.reached, Counted.reads) == (ALIKE + 2, 2), "before and after"
        loss_of(nn.Linear(8, 8)).backward()
        Counted.reads = 0
        loss_of(net).backward()
        assert (passes.reached, Counted.reads) == (ALIKE + 3, 2 * MOST_PARAMETERS)


def test_parameters_that_were_replaced_are_found_again() -> None:
    layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(MOST_PARAMETERS)))
    for one in layers[:-1]:
        one.requires_grad_(requires_grad=False)
    with observed(layers) as passes:
        layers[-1] = nn.Linear(8, 8)
        loss_of(layers).backward()
        assert (passes.passes, passes.reached) == (1, 0)
        passes.refresh()
        loss_of(layers).backward()
        assert (passes.passes, passes.reached) == (2, 1)


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> torch.Tensor:
        raise ValueError("the program's own")


def test_what_a_backward_raises_reaches_the_program_and_counting_goes_on() -> None:
    net = Net()
    with observed(net) as passes:
        broken = Raises.apply(net(torch.randn(4, 8)))
        with pytest.raises(ValueError, match="the program's own"):
            broken.sum().backward()
        loss_of(net).backward()
    assert (passes.passes, passes.reached) == (2, 1)


def test_no_gradient_is_read_on_a_thread_that_does_not_run_the_model() -> None:
    """It would be freed twice where the model's own thread computes it meanwhile."""
    net = Net()
    with observed(net) as passes:
        threads = [Thread(target=lambda: loss_of(net).backward()) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert (passes.passes, passes.reached, passes.trouble) == (4, 0, "")
        loss_of(net).backward()
    assert (passes.passes, passes.reached) == (5, 1)


def test_the_entry_is_put_back_by_the_last_and_only_where_it_is_ours() -> None:
    class Listener:
        def before_pass(self) -> None: ...

        def after_pass(self, began: float, ended: float) -> None: ...

    engine, first, second = Engine(), Listener(), Listener()
    assert engine.listen(first) == engine.listen(second) == ""
    engine.leave(first)
    assert vars(torch.autograd)[NAME] is not AS_FOUND
    engine.leave(second)
    assert vars(torch.autograd)[NAME] is AS_FOUND
    engine.listen(first)
    ours = vars(torch.autograd)[NAME]
    another = functools.partial(ours)
    setattr(torch.autograd, NAME, another)
    engine.leave(first)
    assert vars(torch.autograd)[NAME] is another
    loss_of(Net()).backward()
    setattr(torch.autograd, NAME, AS_FOUND)


def state_of(run: Callable[[nn.Module], object]) -> bytes:
    """What a program has after training: weights, gradients, the optimizer's state, outputs."""
    torch.manual_seed(0)
    net = Net()
    steps = torch.optim.AdamW(net.parameters(), lr=0.01)
    said: list[object] = []
    with torch.random.fork_rng():
        for _ in range(12):
            steps.zero_grad()
            out = net(torch.randn(4, 8))
            out.square().mean().backward()
            steps.step()
            said.append((repr(out), type(out.grad_fn).__name__, dict(out.grad_fn.metadata)))
            said.append([repr(one._backward_hooks) for one in (out, *net.parameters())])
            run(net)
    written = io.BytesIO()
    gradients = [one.grad for one in net.parameters()]
    torch.save((net.state_dict(), gradients, steps.state_dict(), net), written)
    return pickle.dumps((said, written.getvalue()))


def test_training_is_the_same_to_the_bit() -> None:
    bare = state_of(lambda net: None)

    counted = []

    def look(net: nn.Module) -> None:
        if not counted:
            passes = BackwardPasses(net)
            passes.threads.add(get_ident())
            passes.listen()
            counted.append(passes)

    observed_too = state_of(look)
    counted[0].close()
    assert (counted[0].passes, counted[0].reached) == (11, 11)
    assert observed_too == bare
    assert vars(torch.autograd)[NAME] is AS_FOUND


def test_a_compiled_step_is_compiled_the_same() -> None:
    def step(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return net(x).square().mean()

    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(graph)
        return graph.forward

    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    compiled = torch.compile(step, backend=backend, fullgraph=True)
    with observed(net) as passes:
        for _ in range(3):
            compiled(net, torch.randn(4, 8)).backward()
    compiled(net, torch.randn(4, 8)).backward()
    assert len(graphs) == 1
    assert (passes.passes, passes.reached) == (3, 3)


def has_modes(session: Session) -> bool:
    # Beyond so many forwards nothing is told again.
    is_enough = session.mode is not None and session.mode.forwards >= ENOUGH_FORWARDS
    return has_times(session) and is_enough


def seen_of(net: nn.Module, run: Callable[[], object]) -> Session:
    name = f"net{next(ORDINALS)}"  # The socket of the one before may be there for a moment.
    with watch(net, name, grace_seconds=0.0), Viewer(place_of(name)) as viewer:
        session = viewer.until(has_modes, run)
    wait_until(lambda: nn.Module.__call__ is TORCHS_OWN)
    wait_until(lambda: vars(torch.autograd)[NAME] is AS_FOUND)
    return session


def steps_of(net: nn.Module, trained: nn.Module, *, gradients: bool = True) -> Callable[[], object]:
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-3)

    def run() -> None:
        for _ in range(20):
            x = torch.randn(4, 8)
            with torch.set_grad_enabled(gradients):
                target = net(x)
            loss = target if net is trained else trained(x) - target.detach()
            optimizer.zero_grad()
            loss.square().mean().backward()
            optimizer.step()

    return run


def test_a_teacher_is_not_trained_and_its_time_between_forwards_is_not_idle() -> None:
    teacher, student = Net().eval(), Net()
    session = seen_of(teacher, steps_of(teacher, student, gradients=False))
    assert mode(session).name == "inference"
    assert runs_backward(session)
    assert session.mode is not None
    assert session.mode.reached == 0
    forgot = seen_of(teacher, steps_of(teacher, student, gradients=True))
    assert mode(forgot).name is None, "which graph those passes were of is not known"


def test_a_model_in_training_mode_that_only_infers_is_not_said_to_infer() -> None:
    net = Net().train()

    def run() -> None:
        with torch.no_grad():
            for _ in range(20):
                net(torch.randn(4, 8))

    found = mode(seen_of(net, run))
    assert found.name is None
    assert "training mode under no_grad" in found.why


def test_what_was_observed_says_how_long_passes_take() -> None:
    net = Net()
    session = seen_of(net, steps_of(net, net))
    assert mode(session).name == "training"
    assert isinstance(session.mode, ModeSeen)
    assert isinstance(session.mode.pass_seconds, float)
    assert session.mode.pass_seconds > 0
    (setting,) = {(one.training, one.autograd) for one in session.mode.settings}
    assert setting == (True, "grad")
