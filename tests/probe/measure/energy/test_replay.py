"""Replays: of a simulated machine, and of real modules with a counter that real time moves."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from tui_profiler.gpus.driver import EnergyReading
from tui_profiler.messages import EnergyTotals, Replayed, Unknown
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.energy.replay import Captured, Pace, Replayer, captured
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import Trace, trace
from tui_profiler.probe.worker.interruptions import replay

IDLE_WATTS = 50.0
SENSOR_SECONDS, SEEN_SECONDS = 0.1, 0.025


class SimulatedMachine:
    """Time, power and what a sensor sees of it; everything passes in steps of half a millisecond.

    The sensor averages the first 25 ms of each 100 ms, as on A100 and H100, or is a counter that
    moves every 100 ms.
    """

    STEP = 0.0005

    def __init__(self, seed: int, *, has_counter: bool) -> None:
        self.seconds = 0.0
        self.joules = 0.0
        self.chance = random.Random(seed)
        self.has_counter = has_counter
        self.watch = EnergyWatch([self], lambda: self.seconds)
        self._told_joules = 0.0
        self._told_watts = IDLE_WATTS
        self._seen: list[float] = []
        self._next_look = 0.0

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        if self.has_counter:
            return (EnergyReading("package", "simulated", -1, self._told_joules, 0.0),)
        return (EnergyReading("package", "simulated", -1, Unknown("none"), self._told_watts),)

    def close(self) -> None:
        pass

    def draw(self, watts: float, seconds: float) -> None:
        for _ in range(round(seconds / self.STEP)):
            self.seconds += self.STEP
            self.joules += watts * self.STEP
            phase = self.seconds % SENSOR_SECONDS
            if phase < SEEN_SECONDS:
                self._seen.append(watts)
            elif self._seen:
                self._told_watts = sum(self._seen) / len(self._seen)
                self._seen.clear()
            if phase < self.STEP:
                self._told_joules = self.joules
            if self.seconds >= self._next_look:
                self.watch.look()
                self._next_look = self.seconds + self.chance.uniform(0.04, 0.065)

    def forward(self) -> None:
        """Half of it at 600 W, half at 100 W: 17.5 J in 50 ms, two forwards in a sensor's turn."""
        self.draw(600.0, SEEN_SECONDS)
        self.draw(100.0, SEEN_SECONDS)

    def idle(self, seconds: float) -> None:
        self.draw(IDLE_WATTS, seconds)

    def replayed(self, pause: Callable[[], float]) -> Replayed:
        self.watch.become("idle")
        self.idle(3.0)
        self.watch.become("other")
        [counter] = totals(self.watch)
        pace = Pace(lambda: self.seconds, self.idle, pause)
        return Replayer(self.watch, counter, lambda: False, pace).run(7, self.forward, nothing)


def nothing() -> None:
    pass


def totals(watch: EnergyWatch) -> tuple[EnergyTotals, ...]:
    found = watch.totals()
    assert not isinstance(found, Unknown)
    return found


def joules(found: Replayed) -> float:
    return sum(one.joules_per_call for one in found.replays) / len(found.replays)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_counter_a_replay_gives_what_a_call_takes(seed: int) -> None:
    machine = SimulatedMachine(seed, has_counter=True)
    found = machine.replayed(lambda: machine.chance.uniform(0.0, 0.025))

    assert len(found.replays) >= 3
    assert all(one.seconds >= 3.7 for one in found.replays)  # 5 s with the pauses
    assert found.idle_watts == pytest.approx(IDLE_WATTS, rel=0.05)
    assert found.seconds_per_call == pytest.approx(0.05)
    assert joules(found) == pytest.approx(17.5, rel=0.03)


def test_a_sensor_in_step_with_the_loop_is_wrong_without_pauses() -> None:
    machine = SimulatedMachine(1, has_counter=False)
    found = machine.replayed(lambda: 0.0)

    # It sees the 600 W of every other forward and nothing else.
    assert joules(found) > 17.5 * 1.5


@pytest.mark.parametrize("seed", range(3))
def test_pauses_at_random_bring_the_sensor_out_of_step(seed: int) -> None:
    machine = SimulatedMachine(seed, has_counter=False)
    found = machine.replayed(lambda: machine.chance.uniform(0.0, 0.025))

    assert found.source == "power"
    assert joules(found) == pytest.approx(17.5, rel=0.15)


def test_a_counter_that_does_not_move_ends_the_replay() -> None:
    machine = SimulatedMachine(1, has_counter=True)
    machine.forward()
    machine.idle(0.5)
    [counter] = totals(machine.watch)
    stands = EnergyWatch([machine], lambda: machine.seconds)  # no one looks at it
    pace = Pace(lambda: machine.seconds, machine.idle, lambda: 0.0)
    found = Replayer(stands, counter, lambda: False, pace).run(7, machine.forward, nothing)

    assert found.replays == ()
    assert found.why_none == "window too short: 0 counter steps in 15 s"


class RealTime:
    """A counter that draws 20 W by the clock on the wall, and moves every 5 ms."""

    def energy(self, now: float) -> tuple[EnergyReading, ...] | Unknown:
        steps = int(time.monotonic() / 0.005)
        return (EnergyReading("package", "by the clock", -1, steps * 0.005 * 20.0),)

    def close(self) -> None:
        pass


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.act = nn.ReLU(inplace=True)
        self.calls = 0

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.calls += 1
        return self.act(self.norm(x) * scale)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(8, 2)
        self.unused = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(x, scale=2.0))


class Remembering(nn.Module):
    def forward(self, x: torch.Tensor, before: object) -> torch.Tensor:
        return x


@pytest.fixture(scope="module")
def energy() -> Iterator[EnergyWatch]:
    watch = EnergyWatch([RealTime()])
    watch.start()
    watch.become("idle")
    deadline = time.monotonic() + 60
    while isinstance(watch.totals(), Unknown) or totals(watch)[0].idle.steps < 10:
        assert time.monotonic() < deadline
    watch.become("other")
    yield watch
    watch.close()


def made() -> tuple[Net, Trace, Callable[[], object]]:
    net, x = Net(), torch.randn(4, 8)
    made = trace(net, (Inputs((x,)),))

    def forward() -> object:
        with torch.no_grad():
            return net(x)

    return net, made, forward


def index_of(made: Trace, path: str) -> int:
    return next(i for i, node in enumerate(made.nodes) if node.path == path)


def test_a_real_module_runs_by_itself_and_is_left_as_it_was(energy: EnergyWatch) -> None:
    net, made_of, forward = made()
    net.train()  # Its statistics would change with every call.
    before = {name: value.clone() for name, value in net.state_dict().items()}
    pace = Pace(least_seconds=0.6)
    node = index_of(made_of, "block")

    found = replay(node, net, made_of.nodes, energy, forward, lambda: False, pace)

    assert found.why_none == ""
    assert (found.node, found.of, len(found.replays)) == (node, "by the clock", 3)
    # The machine draws 20 W whatever it does: a call takes its time, and pauses are taken out.
    assert joules(found) == pytest.approx(20.0 * found.seconds_per_call, rel=0.1)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.block.calls == 0


def test_a_module_gets_copies_of_what_it_was_given() -> None:
    net, x = Net(), torch.randn(4, 8)
    replaced = nn.Module.__call__
    found = captured(net, "block", lambda: net(x))

    assert isinstance(found, Captured)
    assert found.module is net.block
    assert found.keywords == {"scale": 2.0}
    [copy] = found.arguments
    assert isinstance(copy, torch.Tensor)
    assert torch.equal(copy, x)
    assert copy.data_ptr() != x.data_ptr()
    assert nn.Module.__call__ is replaced


def test_an_input_that_remembers_is_not_replayed() -> None:
    class Memory:
        def __init__(self) -> None:
            self.kept = [torch.zeros(3)]

    module = Remembering()

    assert captured(module, "", lambda: module(torch.zeros(2), Memory())) == Unknown(
        "an input is a growing cache"
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("unused", "no forward calls this module"),
        ("block.norm/0", "an operator cannot run alone: replay its module"),
    ],
)
def test_what_cannot_be_replayed_says_why(energy: EnergyWatch, path: str, reason: str) -> None:
    net, made_of, forward = made()

    found = replay(index_of(made_of, path), net, made_of.nodes, energy, forward, lambda: False)

    assert (found.replays, found.why_none) == ((), reason)


def test_without_a_counter_nothing_is_run() -> None:
    net, made_of, _ = made()
    ran: list[int] = []
    watch = EnergyWatch([])

    found = replay(0, net, made_of.nodes, watch, lambda: ran.append(1), lambda: False)

    assert found.why_none == "energy counters have not been read yet"
    assert not ran


def test_a_module_that_fails_by_itself_is_a_reason(energy: EnergyWatch) -> None:
    net, made_of, forward = made()

    def broken(_: object) -> torch.Tensor:
        raise ValueError("only inside of the model")

    def once() -> object:
        answer = forward()
        net.head.forward = broken  # type: ignore[method-assign]
        return answer

    found = replay(index_of(made_of, "head"), net, made_of.nodes, energy, once, lambda: False)

    assert found.why_none == "it fails when run alone: ValueError: only inside of the model"


def test_another_request_ends_it(energy: EnergyWatch) -> None:
    net, made_of, forward = made()
    began = time.monotonic()

    found = replay(index_of(made_of, "head"), net, made_of.nodes, energy, forward, lambda: True)

    assert found.why_none == "cancelled by another request"
    assert time.monotonic() - began < 2
