"""A model whose program calls a method of it, and never the model."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat.entry_method import EntryMethod, entry_above
from tui_profiler.probe.watch.listener import LOOP_PARTS, Listener, Methods
from tui_profiler.probe.watch.model_choice import ModelChoice

TORCHS_OWN = nn.Module.__call__
X = torch.ones(2, 3)


class Stepped(nn.Module):
    """Is trained by its method; its forward is never called."""

    def __init__(self, meanwhile: Callable[[nn.Module], object] = lambda part: None) -> None:
        super().__init__()
        self.backbone = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)
        self.meanwhile = meanwhile

    def training_step(self, batch: Tensor, scale: float = 1.0) -> Tensor:
        self.meanwhile(self.backbone)
        return scale * self.head(self.backbone(batch)).sum()

    def fit(self, turns: int, meanwhile: Callable[[], object]) -> None:
        for _ in range(turns):
            meanwhile()  # Such as letting seconds pass.
            self.head(self.backbone(X))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        self.meanwhile(self.backbone)
        return self.head(self.backbone(x))

    def asks(self) -> object:
        self.meanwhile(self.backbone)
        return locals()


class Optimising(Stepped):
    def optimizer_step(self, closure: Callable[[], Tensor]) -> None:
        closure().backward()


class Strategy:
    """Stands between the trainer and the model, as Lightning's does."""

    def __init__(self, model: Stepped) -> None:
        self.model = model

    def training_step(self, *args: Tensor, **kwargs: float) -> Tensor:
        return self.model.training_step(*args, **kwargs)


def listening() -> Listener:
    where = ModelChoice()
    listener = Listener(where.is_model, "", lambda: None, methods=Methods(are_found=True))
    listener.install()
    return listener


def root_of(listener: Listener) -> nn.Module | None:
    listener.uninstall()
    return listener.root() if listener.root is not None else None


def test_the_root_is_what_holds_the_modules_that_are_called() -> None:
    model = Stepped()
    own, strategy = vars(Stepped)["training_step"], Strategy(model)
    plain = strategy.training_step(X, scale=2.0)
    listener = listening()
    outputs = [strategy.training_step(X, scale=2.0) for _ in range(2)]
    assert listener.hearing is not None
    assert root_of(listener) is model
    assert all(torch.equal(plain, output) for output in outputs)
    heard = listener.hearing.trace()
    assert heard is not None
    assert [n.path for n in heard.nodes if n.kind == "module" and n.calls] == [
        "",
        "backbone",
        "head",
    ]
    # What it does outside its parts is its own: the sum and the product.
    assert {n.type for n in heard.nodes if n.kind == "op" and n.parent == 0} == {
        "aten.sum.default",
        "aten.mul.Tensor",
    }
    assert vars(Stepped)["training_step"] is own
    assert nn.Module.__call__ is TORCHS_OWN


def test_the_time_of_the_root_is_that_of_the_method() -> None:
    model = Stepped()
    entry = EntryMethod(model, Stepped, "training_step")
    clock = ModuleClock(model, entry=entry)
    clock.install()
    other = Stepped()
    for _ in range(3):
        model.training_step(X)
        other.training_step(X)
    forwards = clock.take()
    clock.uninstall()
    assert [[type(m).__name__ for m in f.modules] for f in forwards] == [
        ["Linear", "Linear", "Stepped"]
    ] * 3
    assert all(f.modules[-1] is model for f in forwards)
    assert vars(Stepped)["training_step"].__qualname__ == "Stepped.training_step"
    assert not hasattr(vars(Stepped)["training_step"], "__wrapped__")


def test_a_method_that_loops_over_batches_is_not_the_forward() -> None:
    listener = listening()
    model = Stepped()
    model.fit(LOOP_PARTS, lambda: setattr(listener, "_found_at", float("-inf")))
    assert root_of(listener) in (model.backbone, model.head)
    assert not hasattr(vars(Stepped)["fit"], "__wrapped__")


def test_a_model_that_is_called_as_well_is_called() -> None:
    class Generating(Stepped):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.backbone(x))

        def generate(self) -> Tensor:
            self.backbone(X)
            return self(X)

    model = Generating()
    listener = listening()
    model.generate()
    assert root_of(listener) is model
    assert not listener.entry_ran


def test_a_decorated_method_is_found_and_one_that_asks_for_its_locals_is_left_alone() -> None:
    found: list[EntryMethod | None] = []
    model = Stepped(lambda part: found.append(entry_above(part)))
    model.predict(X)
    model.asks()
    assert found[0] is not None
    assert (found[0].name, found[1]) == ("predict", None)


def test_nothing_that_a_method_lets_go_is_kept_by_looking() -> None:
    class Dropping(Stepped):
        def step(self) -> bool:
            big = nn.Linear(2, 2)
            alive = weakref.ref(big)
            self.meanwhile(self.backbone)
            del big
            return alive() is None

    gc.collect()
    assert Dropping(entry_above).step()


def test_what_a_trainer_calls_around_the_step_is_no_part_of_it() -> None:
    found: list[EntryMethod | None] = []
    model = Optimising(lambda part: found.append(entry_above(part)))
    model.optimizer_step(lambda: Strategy(model).training_step(X))
    assert found[0] is not None
    assert found[0].name == "training_step"
