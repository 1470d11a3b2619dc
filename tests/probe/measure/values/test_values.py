"""Values of steps against the same computed by torch, and NaNs that a program makes somewhere."""

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.messages import ModelValues, Node, Unknown
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.tree_index import TreeIndex
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import TrainingSteps
from tui_profiler.probe.measure.values.model_values import ValueReader
from tui_profiler.probe.measure.values.statistics import DeviceRows, statistics_of
from tui_profiler.session.training import ValueColumns

NAN, INF = math.nan, math.inf
TENSORS = {
    "floats": torch.tensor([[1.5, -4.0, 0.0], [0.25, 0.0, 2.0]]),
    "NaN and Inf": torch.tensor([NAN, INF, -INF, 0.0, -3.0, NAN]),
    "nothing finite": torch.tensor([NAN, INF]),
    "squares overflow": torch.tensor([3e30, -1e30, 0.0]),
    "zeros": torch.zeros(5),
    "halves": torch.tensor([300.0, -300.0, 0.5] * 100, dtype=torch.float16),
    "bfloat16": torch.tensor([1.0, -2.0, 0.0], dtype=torch.bfloat16),
    "doubles": torch.tensor([1e200, -1e-200, 0.0], dtype=torch.float64),
    "channels last": torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "a strided view": torch.arange(20.0)[::3],
}


@pytest.mark.parametrize("name", TENSORS)
def test_statistics_are_those_that_numpy_finds(name: str) -> None:
    tensor = TENSORS[name]
    values = tensor.double().numpy().ravel()
    finite = values[np.isfinite(values)]
    found = statistics_of(tensor)
    assert found.elements == values.size
    assert (found.nans, found.infs) == (np.isnan(values).sum(), np.isinf(values).sum())
    assert found.zeros == (values == 0).sum()
    if finite.size:
        largest = np.abs(finite).max()
        assert found.largest == pytest.approx(largest)
        scaled = np.sqrt(np.mean((finite / (largest or 1)) ** 2)) * largest
        if largest < 1e100:
            assert found.rms == pytest.approx(scaled, rel=1e-5)
    else:
        assert math.isnan(found.largest)
        assert math.isnan(found.rms)


def test_what_a_device_reduces_is_the_same() -> None:
    rows = DeviceRows(is_pinned=False)
    for name, tensor in TENSORS.items():
        place, whole = rows.put(tensor), statistics_of(tensor)
        assert place is not None
        found = rows.read(place)
        counts = found.elements, found.zeros, found.nans, found.infs
        assert counts == (whole.elements, whole.zeros, whole.nans, whole.infs), name
        if not whole.nans and whole.largest < 1e15:
            assert found.largest == pytest.approx(whole.largest)
            assert found.rms == pytest.approx(whole.rms, rel=1e-5)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.norm(self.inner(x).relu())
        return found


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Block(), nn.Sequential(Block(), nn.ReLU(inplace=True)), nn.Linear(6, 3))


class Reading:
    """A model whose every second step is read."""

    def __init__(self, model: nn.Module, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self._clock = ModuleClock(model)
        self._clock.install()
        self._recorder = StepRecorder(self._clock, lambda: True)
        self._steps = TrainingSteps(nodes, model, self._clock, self._recorder, 0.02)
        self._steps.values = ValueReader(
            TreeIndex(nodes, model), budget=math.inf, least_seconds=0.0
        )
        self._steps.values.is_wanted = True
        self._steps.start()

    def take(self) -> ModelValues | None:
        """Return the values of the step that has ended."""
        self._steps.take(self._clock.take(), (), perf_counter())
        told = [one for one in self._steps.messages(1.0) if isinstance(one, ModelValues)]
        return told[-1] if told else None

    def close(self) -> None:
        """Take everything off."""
        self._steps.close()
        self._clock.uninstall()


@contextmanager
def reading(model: nn.Module) -> Iterator[Reading]:
    """Read every second step of a model while the block runs, from the third one on."""
    found = Reading(model, module_nodes(model))
    try:
        yield found
    finally:
        found.close()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()


def test_values_are_those_that_torch_computes() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 6)
    with reading(model) as found:
        for _ in range(2):
            step(model, optimizer, x)
            assert found.take() is None, "it was not asked for before its step began"
        outputs: dict[str, Tensor] = {}
        before = {name: one.detach().clone() for name, one in model.named_parameters()}
        handles = [
            module.register_forward_hook(lambda _, __, out, name=name: outputs.update({name: out}))
            for name, module in model.named_modules()
            if name in ("0", "0.inner", "1.1", "2")
        ]
        optimizer.zero_grad()
        y = model(x)
        for one in outputs.values():
            one.retain_grad()
        y.square().sum().backward()
        gradients = {name: one.grad for name, one in model.named_parameters()}
        optimizer.step()
        for handle in handles:
            handle.remove()
        told = found.take()
    assert told is not None
    assert (told.steps, told.step, told.why_not_all, told.why_no_parameters) == (1, 2, "", "")
    columns = ValueColumns(told)
    places = {one.path: place for place, one in enumerate(found.nodes)}
    for name, output in outputs.items():
        values = columns.of(places[name])
        assert values is not None
        assert values.activation is not None
        assert values.gradient is not None
        assert values.activation.largest == pytest.approx(output.abs().max().item())
        assert values.activation.rms == pytest.approx(output.square().mean().sqrt().item())
        assert values.activation.zeros == pytest.approx(float((output == 0).float().mean()))
        assert output.grad is not None
        assert values.gradient.rms == pytest.approx(float(output.grad.square().mean().sqrt()))
        assert values.gradient.zeros == pytest.approx(float((output.grad == 0).float().mean()))
    inner = columns.of(places["0.inner"])
    assert inner is not None
    assert inner.parameters is not None
    own = torch.cat([gradients[f"0.inner.{each}"].ravel() for each in ("weight", "bias")])
    weights = torch.cat([before[f"0.inner.{each}"].ravel() for each in ("weight", "bias")])
    assert inner.parameters.largest == pytest.approx(float(own.abs().max()))
    assert inner.weight_rms == pytest.approx(float(weights.square().mean().sqrt()))
    assert inner.update_ratio == pytest.approx(float(0.1 * own.norm() / weights.norm()), rel=1e-3)
    norm = torch.cat([one.ravel() for one in gradients.values() if one is not None]).norm()
    assert told.gradient_norm == pytest.approx(float(norm))
    assert columns.norms == ((2, pytest.approx(float(norm))),)
    assert told.first_nan is None


class _Spoil(torch.autograd.Function):
    """Makes NaN of one element, forward or backward."""

    @staticmethod
    def forward(context: Any, x: Tensor, is_forward: bool, is_backward: bool) -> Tensor:
        context.is_backward = is_backward
        found = x.clone()
        if is_forward:
            found.view(-1)[0] = NAN
        return found

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        found = gradient.clone()
        if context.is_backward:
            found.view(-1)[1] = NAN
        return found, None, None


class Spoilt(nn.Module):
    """A linear layer, with a NaN in one step."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.kind = ""

    def forward(self, x: Tensor) -> Tensor:
        is_forward, is_backward = self.kind == "activation", self.kind == "gradient"
        found: Tensor = _Spoil.apply(self.linear(x), is_forward, is_backward)  # type: ignore[no-untyped-call]  # torch
        return found


def no_gradient(model: nn.Module, place: int) -> str:
    """Spoil the gradient of a parameter; returns its path."""
    weight = model[place].linear.weight  # type: ignore[index]  # a sequence
    assert weight.grad is not None
    weight.grad[0, 0] = NAN
    return f"{place}.linear.weight"


@pytest.mark.parametrize("seed", range(20))
def test_the_first_nan_is_found_in_its_step_and_node(seed: int) -> None:
    chance = random.Random(seed)
    kind = ("input", "activation", "gradient", "parameter gradient")[seed % 4]
    place, when = chance.randrange(5), chance.choice((2, 4, 6))
    torch.manual_seed(seed)
    model = nn.Sequential(*(Spoilt() for _ in range(5)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    name, last = "", None
    with reading(model) as found:
        for number in range(when + 2):
            x = torch.randn(4, 6)
            is_now = number == when
            model[place].kind = kind if is_now else ""
            if is_now and kind == "input":
                x[0, 0] = NAN
            optimizer.zero_grad()
            model(x).square().mean().backward()
            if is_now and kind == "parameter gradient":
                name = no_gradient(model, place)
            optimizer.step()
            told = found.take()
            assert (told is not None) == (number >= 2 and number % 2 == 0)
            if told is not None:
                last = told
                assert (last.first_nan is None) == (number < when)
    assert last is not None
    assert last.first_nan is not None
    nan = last.first_nan
    expected = {
        "input": "",
        "activation": f"{place}",
        "gradient": f"{place}.linear",
        "parameter gradient": f"{place}.linear",
    }
    # The first step only begins the counting.
    assert (nan.step, nan.clean_step, nan.kind) == (when, when - 2, kind)
    assert found.nodes[nan.node].path == expected[kind]
    assert nan.name == name
    assert not nan.is_in_weights
    assert 0 < nan.share < 1
    assert kind == "parameter gradient" or isinstance(last.gradient_norm, Unknown)


def test_what_cannot_be_read_is_said() -> None:
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)
    x = torch.randn(4, 6)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        found: Tensor = loss
        return found

    with reading(model) as found:
        for _ in range(3):
            optimizer.step(closure)
            told = found.take()
    assert told is not None
    assert told.why_no_parameters == "the optimizer computes them in a closure"
    assert told.gradient_norm == Unknown("the optimizer computes them in a closure")
    root = ValueColumns(told).of(0)
    assert root is not None
    assert root.activation is not None


def test_nothing_is_read_that_nobody_wants() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with reading(model) as found:
        found._steps.values.is_wanted = False
        for _ in range(4):
            step(model, optimizer, torch.randn(4, 6))
            assert found.take() is None
            assert found._recorder.next_values is None


def test_a_nan_in_weights_is_told_from_one_that_is_made() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Spoilt() for _ in range(3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with reading(model) as found:
        for number in range(3):
            if number == 2:
                with torch.no_grad():
                    model[1].linear.bias[2] = NAN
            step(model, optimizer, torch.randn(4, 6))
            told = found.take()
    assert told is not None
    assert told.first_nan is not None
    assert found.nodes[told.first_nan.node].path == "1.linear"
    assert told.first_nan.is_in_weights


def test_a_step_that_was_given_up_is_not_told_when_it_comes_late() -> None:
    """On a GPU its rows are those of the next step by then."""
    model = net()
    reader = ValueReader(TreeIndex(module_nodes(model), model), budget=math.inf, least_seconds=0.0)
    reader.is_wanted = True
    former = reader.next_step(model, 1.0)
    assert former is not None
    reader.give_up()
    latter = reader.next_step(model, 2.0)
    assert latter is not None
    assert former.read((torch.ones(3),), "activation") == []

    reader.add(former, (), 1, 3.0)
    assert not list(reader.messages(3.0))
    assert reader.next_step(model, 9.0) is None  # The latter is still to come.
    reader.add(latter, (), 2, 10.0)
    assert [one.step for one in reader.messages(10.0)] == [2]
