"""What tells forwards that cost the same from others."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tui_profiler.probe.torch_compat.forward_kind import Kind, kind_of

pytestmark = pytest.mark.usefixtures("old_objects_frozen")  # Garbage is looked for.

MODEL = nn.Linear(2, 2)


class Cache:
    """As models of tokens pass it on: layers of tensors that grow by each call."""

    def __init__(self, tokens: int) -> None:
        self.layers = [Layer(tokens), Layer(tokens)]


class Layer:
    def __init__(self, tokens: int) -> None:
        self.keys = torch.zeros(1, tokens, 2)


class Talking(Tensor):
    """Runs code of its own when anything is asked of it."""

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("it was asked")


class Raising(dict[str, object]):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("it does not say")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


def kind(*args: object, **kwargs: object) -> Kind:
    return kind_of(MODEL, args, kwargs)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.zeros(1, 32), torch.zeros(1, 1)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
        (None, torch.zeros(2)),
        ([torch.zeros(2), torch.zeros(3)], [torch.zeros(2), torch.zeros(4)]),
        ((torch.zeros(2),), (torch.zeros(2), torch.zeros(2))),
        ({"x": torch.zeros(2)}, {"x": torch.zeros(3)}),
        (Cache(32), Cache(33)),
        (None, Cache(0)),
    ],
)
def test_other_inputs_are_of_another_kind(one: object, other: object) -> None:
    assert kind(one) == kind(one)
    assert kind(one) != kind(other)
    assert kind(x=one) != kind(x=other)
    assert kind(x=one) != kind(one)


def test_values_make_no_other_kind() -> None:
    assert kind(torch.zeros(2), 1, "a", 0.5) == kind(torch.ones(2), 2, "b", 0.7)


def test_training_and_keeping_gradients_make_another_kind() -> None:
    model, x = nn.Linear(2, 2), torch.zeros(1, 2)
    kinds = {kind_of(model, (x,), {}), kind_of(model.eval(), (x,), {})}
    with torch.no_grad():
        kinds.add(kind_of(model, (x,), {}))
    assert len(kinds) == 3


def test_what_comes_after_a_large_argument_is_told_apart() -> None:
    caches = [Cache(8) for _ in range(40)]
    assert kind(caches, torch.zeros(1, 32)) != kind(caches, torch.zeros(1, 1))


def test_no_code_of_a_tensor_runs() -> None:
    assert kind(torch.zeros(2).as_subclass(Talking)) == kind(torch.zeros(2))


def test_what_raises_is_like_nothing_and_does_not_raise() -> None:
    hostile = Raising()
    assert kind(hostile) != kind(hostile)


def test_nothing_is_kept_alive() -> None:
    cache, x = Cache(1), torch.zeros(2)
    gone = weakref.ref(cache), weakref.ref(x)
    found = kind(cache, [x])
    del cache, x
    gc.collect()
    assert [one() for one in gone] == [None, None]
    assert found
