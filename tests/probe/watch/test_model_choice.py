"""Which model a script runs, where it has not said."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.probe.watch.watched_model import (  # noqa: F401
    assert_nothing_is_left_of,
    has_tree,
    sockets,
)
from tests.viewer import Viewer, place_of
from tui_profiler.probe.process.interpreter_lock import is_locked
from tui_profiler.probe.watch.listener import Loop
from tui_profiler.probe.watch.model_choice import MOST_MET, SETTLED_SECONDS, ModelChoice
from tui_profiler.probe.watch.observer import Observer
from tui_profiler.probe.watch.server import Server
from tui_profiler.probe.watch.watch import program
from tui_profiler.session import Session


class Around(nn.Module):
    """Calls another model, and something else meanwhile."""

    def __init__(self, inner: nn.Module, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.inner = inner
        self.meanwhile = meanwhile

    def forward(self, x: Tensor) -> Tensor:
        self.meanwhile()
        return self.inner(x)


class Asking(nn.Linear):
    """Has a way of its own of giving its parameters."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(2, 2)
        self.ask = ask

    def parameters(self, group: str) -> list[nn.Parameter]:  # type: ignore[override] # a user's
        raise AssertionError(group)

    def forward(self, x: Tensor) -> Tensor:
        self.ask()
        return super().forward(x)


X = torch.zeros(1, 2)


def test_a_model_around_the_one_that_is_looked_at_is_noticed() -> None:
    found: list[bool] = []
    inner = Asking(lambda: found.append(ModelChoice().is_elsewhere(inner, 0.0)))

    inner(X)
    Around(inner, lambda: None)(X)

    assert found == [False, True]


def test_another_model_is_noticed_once_the_one_that_is_looked_at_rests() -> None:
    found: list[bool] = []
    looked_at = nn.Linear(2, 2)

    def ask() -> None:
        found.extend(ModelChoice().is_elsewhere(looked_at, idle) for idle in (0.0, SETTLED_SECONDS))

    Asking(ask)(X)

    assert found == [False, True]


@pytest.mark.parametrize(("wait_seconds", "again"), [(0.0, True), (60.0, False)])
def test_after_a_model_was_waited_for_in_vain_nothing_is_noticed_for_a_while(
    wait_seconds: float, again: bool
) -> None:
    where, looked_at = ModelChoice(wait_seconds), nn.Linear(2, 2)

    assert where.is_elsewhere(looked_at, SETTLED_SECONDS)
    assert where.is_in_vain(SETTLED_SECONDS) is again
    where.give_up()

    assert where.is_elsewhere(looked_at, SETTLED_SECONDS) is again


def test_no_other_is_waited_for_while_the_one_that_rested_is_run_again() -> None:
    where, looked_at = ModelChoice(60.0), nn.Linear(2, 2)

    assert where.is_elsewhere(looked_at, SETTLED_SECONDS)

    assert not where.is_in_vain(SETTLED_SECONDS)
    assert where.is_in_vain(0.0)


def test_nothing_is_held_by_looking() -> None:
    gc.disable()
    try:
        part = nn.Linear(2, 2)
        seen = weakref.ref(part)
        Around(part, lambda: ModelChoice().is_elsewhere(nn.Linear(2, 2), 0.0))(X)
        del part
        assert seen() is None
    finally:
        gc.enable()


def test_a_model_is_what_has_parameters_and_is_called_by_no_other() -> None:
    found: list[bool] = []
    part = nn.Linear(2, 2)
    without = Around(nn.Identity(), lambda: found.append(ModelChoice().is_model(part)))
    around = Around(part, lambda: found.append(ModelChoice().is_model(part)))

    without(X)
    around(X)

    assert found == [True, False]
    assert ModelChoice().is_model(Asking(lambda: None))
    assert not ModelChoice().is_model(without)


def test_a_program_may_rebuild_its_model_as_often_as_it_likes() -> None:
    where, other = ModelChoice(), nn.Linear(2, 3)
    where.note(other)
    for number in range(1, 200):
        model = nn.Linear(2, 2 if number % 2 else 4)
        where.note(model)
        shown, *others = where.models(model, {})
        assert (shown.index, shown.parameters) == (number + 1, 6 if number % 2 else 12)
        assert [one.deleted for one in others] == [False, *[True] * min(number - 1, 2)]
        if number > 2 * MOST_MET:
            assert len(where._seen) == MOST_MET
        del model


@pytest.mark.parametrize(("seconds", "is_model"), [(60.0, True), (0.0, False)])
def test_what_was_taken_for_a_loop_and_returned_soon_is_a_model(
    seconds: float, is_model: bool
) -> None:
    where, model = ModelChoice(), nn.Linear(2, 2)
    loop = Loop(weakref.ref(model), seconds)

    where.pass_over(loop)
    assert not where.is_model(model)
    assert where.patience == 1
    loop.end()

    assert where.is_model(model) is is_model
    assert where.patience == (2 if is_model else 1)


@pytest.mark.skipif(not is_locked(), reason="Python runs without the GIL")
def test_a_layer_that_was_called_alone_first_gives_way_to_its_model() -> None:
    server = Server()
    where = ModelChoice()
    observer = Observer(
        program("script"), "", where.is_model, 0.02, server.wake, 0.0, elsewhere=where
    )
    server.add(observer)
    try:
        with Viewer(place_of("script")) as viewer, torch.no_grad():
            layer = Asking(lambda: viewer.listen(0.01))  # Where a look at the stacks meets it.
            viewer.until(is_called("Asking"), lambda: layer(X))
            model = Around(layer, lambda: None)
            session = viewer.until(is_called("Around"), lambda: model(X))
            assert has_tree(session)
    finally:
        server.remove(observer, "over")
        assert_nothing_is_left_of(server)


def is_called(name: str) -> Callable[[Session], bool]:
    return lambda session: session.model is not None and session.model.type == name
