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
        decoder, session = message_decoder(), EMPTY
        while _model(session) != name:
            for message in decoder.feed(self._socket.recv(1 << 20)):
                session = apply(session, message)

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
