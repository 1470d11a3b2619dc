"""What is looked at once a model is gone, or to be recorded again, while another is recorded."""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Thread

import pytest
import torch
from torch import Tensor, nn

from tests.viewer import wait_until
from tui_profiler.messages import Observe, TraceAgain
from tui_profiler.probe.link import Link
from tui_profiler.probe.observer import Observer
from tui_profiler.probe.watch import program
from tui_profiler.probe.whereabouts import Whereabouts
from tui_profiler.queries.sorts import models_words, other_models
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.wire import encode, message_decoder

TORCHS_OWN = nn.Module.__call__
X = torch.zeros(1, 2)


class First(nn.Linear):
    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(2, 2)
        self.meanwhile = meanwhile

    def forward(self, x: Tensor) -> Tensor:
        self.meanwhile()
        return super().forward(x)


class Second(First):
    pass


class Script:
    """A script whose probe goes on only when it is told to, on a thread of its own."""

    def __init__(self) -> None:
        where = Whereabouts()
        who = program("script")
        self.observer = Observer(who, "", where.is_model, 0.02, lambda: None, 0.0, elsewhere=where)
        ours, self._socket = socket.socketpair()
        self._link = Link(ours, on_close=lambda: None)
        self._socket.settimeout(5)
        self._decoder, self._session = message_decoder(), EMPTY
        self.observer.admit(self._link, "")

    def ask(self, request: Observe | TraceAgain) -> None:
        self._socket.sendall(encode(request))
        wait_until(lambda: self._link._requests)
        self.step()

    def step(self) -> None:
        thread = Thread(target=self.observer.step)
        thread.start()
        thread.join()

    def until_model(self, name: str) -> None:
        self.until(lambda session: _model(session) == name)

    def until(self, is_reached: Callable[[Session], bool]) -> Session:
        while not is_reached(self._session):
            for message in self._decoder.feed(self._socket.recv(1 << 20)):
                self._session = apply(self._session, message)
        return self._session

    def close(self) -> None:
        self.observer.close()
        self._socket.close()


def _model(session: Session) -> str:
    return session.model.type if session.model is not None else ""


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_forward_that_is_recorded_is_waited_for(is_deleted: bool) -> None:
    script, during = Script(), list[tuple[int, bool]]()
    firsts = [First(script.step)]

    def meanwhile() -> None:
        if is_deleted:
            firsts.clear()
        else:
            script.observer._next_trace = 0.0
        script.step()
        modes = torch._C._len_torch_dispatch_stack()
        during.append((modes, script.observer._search.is_recording))

    try:
        script.ask(Observe())
        firsts[0](X)
        script.step()  # Its tree.
        script.ask(TraceAgain())
        nn.Sequential(*firsts)(X)  # Where another one than it is waited for.
        second = Second(meanwhile)
        second(X)
        assert during == [(1, True)]
        script.step()  # To record again is to record the next one.
        if not is_deleted:
            second(X)
            script.step()
        script.until_model("Second")
    finally:
        script.close()
    assert nn.Module.__call__ is TORCHS_OWN


def test_of_forwards_with_other_inputs_no_time_is_taken_for_the_traced_one_s() -> None:
    script, model = Script(), First(lambda: None)
    try:
        script.ask(Observe())
        model(X)
        script.step()  # Its tree, and the clock.
        for _ in range(30):
            model(X)
            model(X.expand(64, 2))
        script.step()
        session = script.until(lambda session: session.tick is not None)
    finally:
        script.close()
    tick = session.tick
    assert tick is not None
    assert tick.as_traced
    assert tick.forwards + tick.others + tick.warmup_forwards == 60
    assert tick.others >= 25


def test_other_models_that_are_run_are_told_and_parts_are_not() -> None:
    script, inner, other = Script(), First(lambda: None), Second(lambda: None)
    model = nn.Sequential(inner)
    try:
        script.ask(Observe())
        model(X)
        script.step()
        for one in (model, other, inner, nn.ReLU(), other):
            one(X)
        script.step()
        session = script.until(lambda session: session.loop is not None)
        assert other_models(session) == ("Second",)
        script.observer.close("the script ended")
        session = script.until(
            lambda session: session.loop is not None and session.loop.state == "finished"
        )
        assert models_words(session) == "also ran Second, not shown"
    finally:
        script.close()
