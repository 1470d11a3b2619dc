"""A small model that is watched in this process, and what its viewers wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.probe.watch.watched_program import sockets_folder
from tests.viewer import Viewer
from tui_profiler.messages import StageStarted
from tui_profiler.probe.watch.server import Server
from tui_profiler.probe.watch.watch import _server
from tui_profiler.session import Session

TORCHS_OWN = nn.Module.__call__
"""As it was before anything of these tests ran."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.drop(torch.relu(self.norm(self.first(x)))))


@pytest.fixture(autouse=True, name="folder")
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made
    assert_nothing_is_left()


def assert_nothing_is_left() -> None:
    """Wait for the probe's thread, as ``close`` does not, and see that the program is as before.

    That torch's own call is there would say less: it is for a moment, before a tree is made anew.
    """
    if _server.cache_info().currsize:
        assert_nothing_is_left_of(_server())


def assert_nothing_is_left_of(server: Server) -> None:
    """Do the same for one server."""
    is_done = threading.Event()
    assert not server._watched, "a test closes what it watches"
    server._orders.append(is_done.set)
    server.wake()
    assert is_done.wait(240), "the thread does not end the watching"
    assert is_put_back()


def has_tree(session: Session) -> bool:
    return session.tree is not None


def has_times(session: Session) -> bool:
    return session.timings is not None and session.timings.tick.forwards > 5


def ran(model: nn.Module, *args: torch.Tensor) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            for _ in range(20):
                model(*args)

    return run


def is_put_back() -> bool:
    return nn.Module.__call__ is TORCHS_OWN


def waits(viewer: Viewer) -> list[str]:
    return [message.detail for message in viewer.heard if isinstance(message, StageStarted)]
