"""A trace leaves the model, and the process, as they were."""

from __future__ import annotations

import copy
import io
import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.probe.trace.traced import inputs_of, traced
from tui_profiler.probe.trace.trace import TraceError, trace

X = torch.arange(8.0).reshape(2, 4)


class Cache:
    """Not a module: what transformers keep their keys and values in."""

    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.by_layer: dict[str, torch.Tensor] = {}
        self.seen = 0


class Remembering(nn.Module):
    """Keeps tensors and numbers in every way a module can."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("table", torch.zeros(8, 4))
        self.plain = torch.zeros(4)
        self.cache = Cache()
        self.keys: list[torch.Tensor] = []
        self.last = None

    def forward(self, x):
        y = self.norm(self.layer(x))
        self.calls += 1
        self.table[: len(x)] = y
        self.plain.add_(1.0)
        self.keys.append(y)
        self.cache.keys.append(y)
        self.cache.by_layer["0"] = y
        self.cache.seen += len(x)
        self.last = y
        self.made_now = y
        return torch.cat(self.keys) + self.plain + torch.rand(4) + random.random()


class OnlyForReal(Remembering):
    """Asks for values, which fake tensors do not have."""

    def forward(self, x):
        x.detach().numpy()
        np.random.rand()
        return super().forward(x)


class Failing(Remembering):
    def forward(self, x):
        super().forward(x)
        raise ValueError("after everything was changed")


def state_of(model: Remembering) -> dict[str, object]:
    return {
        "buffers": {name: buffer.clone() for name, buffer in model.named_buffers()},
        "parameters": {name: p.detach().clone() for name, p in model.named_parameters()},
        "plain": model.plain.clone(),
        "keys": list(model.keys),
        "cache": copy.deepcopy(vars(model.cache)),
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "training": [module.training for module in model.modules()],
        "last": model.last,
    }


def assert_same(before: object, after: object) -> None:
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [Remembering, OnlyForReal, Failing])
@pytest.mark.parametrize("training", [False, True])
def test_buffers_caches_counters_and_attributes_are_as_before(kind, training: bool) -> None:
    model = kind()
    model.train(training)
    model.norm.train(not training)
    before = state_of(model)
    identities = [(id(module.__dict__), id(model.keys)) for module in model.modules()]

    try:
        made = trace(model, (inputs_of(X),))
    except TraceError:
        assert kind is Failing
    else:
        assert made.method == ("dispatch:real" if kind is OnlyForReal else "dispatch:fake")

    after = state_of(model)
    assert before.pop("attributes") == after.pop("attributes")
    assert before.pop("training") == after.pop("training")
    assert before.pop("last") is after.pop("last") is None
    assert_same(before, after)
    assert identities == [(id(module.__dict__), id(model.keys)) for module in model.modules()]


def test_the_next_real_call_gives_what_it_would_have_given() -> None:
    torch.manual_seed(0)
    random.seed(0)
    untraced = Remembering().eval()
    model = copy.deepcopy(untraced)
    random_state = torch.get_rng_state(), random.getstate()
    expected = untraced(X)
    torch.set_rng_state(random_state[0])
    random.setstate(random_state[1])

    traced(model, X)
    given = model(X)

    assert type(given) is torch.Tensor
    assert torch.equal(given, expected)
    assert type(model.last) is type(model.keys[0]) is torch.Tensor


def test_random_generators_are_as_before() -> None:
    model = OnlyForReal()
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()

    traced(model, X)

    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]


def test_hooks_stay_and_are_called_and_the_call_is_put_back() -> None:
    calls: list[str] = []
    model = Remembering()
    model.layer.register_forward_hook(lambda *_: calls.append("hook"))
    hooks, call = dict(model.layer._forward_hooks), nn.Module.__call__

    traced(model, X)

    assert dict(model.layer._forward_hooks) == hooks
    assert nn.Module.__call__ is call
    assert calls == ["hook"]


def test_the_call_is_put_back_after_a_failure_and_the_recursion_limit_too() -> None:
    import sys

    call, limit = nn.Module.__call__, sys.getrecursionlimit()

    with pytest.raises(TraceError):
        traced(Failing(), X)

    assert nn.Module.__call__ is call
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("enabled", [True, False])
def test_gradients_are_as_before(enabled: bool) -> None:
    with torch.set_grad_enabled(enabled):
        made = traced(nn.Linear(4, 4), X)

        assert torch.is_grad_enabled() is enabled
    assert "aten.addmm.default" in {node.type for node in made.nodes}


def test_the_inputs_are_as_before_although_the_model_writes_into_them() -> None:
    class Writing(nn.Module):
        def forward(self, x):
            x.numpy()
            return x.zero_()

    x = torch.ones(3)

    made = trace(Writing(), (inputs_of(x),))

    assert made.method == "dispatch:real"
    assert torch.equal(x, torch.ones(3))


def test_the_model_can_be_saved_afterwards() -> None:
    model = Remembering()

    traced(model, X)

    file = io.BytesIO()
    torch.save(model, file)
    assert file.tell() > 0


def test_modules_outside_the_model_are_called_as_ever_in_other_threads() -> None:
    import threading

    other = nn.Linear(4, 4)
    seen: list[torch.Tensor] = []

    class Waiting(nn.Module):
        def forward(self, x):
            thread = threading.Thread(target=lambda: seen.append(other(X)))
            thread.start()
            thread.join()
            return x + 1.0

    made = traced(Waiting(), X)

    assert [node.type for node in made.nodes] == ["Waiting", "aten.add.Tensor"]
    assert torch.equal(seen[0], other(X))


def test_large_buffers_are_copied_only_when_they_are_written() -> None:
    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("read", torch.zeros(1 << 20))
            self.register_buffer("written", torch.zeros(1 << 20))

        def forward(self, x):
            x.numpy()
            self.written.add_(1.0)
            return x + self.read.sum()

    model = Large()

    traced(model, X)

    assert model.written.sum() == 0.0
