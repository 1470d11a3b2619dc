"""Who may call a watched program, where, and what those who misbehave get."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
import time
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch import nn

from screens.start.programs import candidates
from tests.probe.watch.watched_model import (
    Net,
    has_times,
    is_put_back,
    ran,
    sockets,  # noqa: F401
    waits,
)
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler import watch
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Failed, Heartbeat, Observe, Tick, TraceAgain
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.watch.observer import Observer
from tui_profiler.probe.watch.server import (
    CALLS_PER_SECOND,
    MOST_CALLS_AT_ONCE,
    MOST_VIEWERS,
    Server,
)
from tui_profiler.probe.watch.viewers import Viewers
from tui_profiler.probe.watch.watch import program
from tui_profiler.source.attached import AttachError, attached, find


def test_the_budget_bounds_what_is_recorded() -> None:
    model = nn.Sequential(*(nn.Identity() for _ in range(300)))
    x = torch.zeros(1)
    with watch(model, "net", 0.005, grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(lambda s: s.overhead is not None and s.overhead.ratio < 0.05, ran(model, x))


def test_names_with_escape_sequences_make_harmless_sockets(folder: Path) -> None:
    model = Net().eval()
    with watch(model, "a/../\x1b[31m\nb" + "x" * 300), Viewer(place_of(), looks=False) as viewer:
        (path,) = folder.iterdir()
        assert path.name.isprintable()
        assert len(os.fsencode(path)) <= 107
        viewer.until(lambda s: s.hello is not None)


@pytest.mark.parametrize("how", ["open to others", "a link", "no directory", "too long"])
def test_a_place_that_cannot_be_trusted_is_a_warning_and_no_more(
    how: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder / ("x" * 120 if how == "too long" else "place")
    if how == "a link":
        (folder / "real").mkdir(mode=0o700)
        place.symlink_to(folder / "real")
    elif how == "no directory":
        place.write_text("")
    else:
        place.mkdir(mode=0o700)
    if how == "open to others":
        place.chmod(0o777)
    monkeypatch.setenv("TUI_PROFILER_DIR", str(place))
    model, x = Net().eval(), torch.randn(3, 8)
    with pytest.warns(UserWarning, match="no viewer can attach: .*" + str(place)):
        handle = watch(model, "net")
    ran(model, x)()
    handle.close()
    assert is_put_back()
    if place.is_dir():
        assert not list(place.iterdir())


def test_a_place_named_from_here_is_cleaned_up_from_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TUI_PROFILER_DIR", "place")
    model = Net()
    with watch(model, "net"):
        assert list((folder / "place").iterdir())
        monkeypatch.chdir("/")
    wait_until(lambda: not list((folder / "place").iterdir()))


def test_where_no_thread_can_be_started_it_warns_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    server = Server()
    observer = Observer(program("net"), "net", lambda module: False, 0.02, server.wake)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.warns(UserWarning, match="no viewer can attach: can't start new thread"):
            server.add(observer)
    assert not list(folder.iterdir())
    server.add(observer)  # There is room again.
    with Viewer(place_of("net"), looks=False) as viewer:
        viewer.until(lambda s: s.hello is not None)
    server.remove(observer, "")
    wait_until(lambda: not list(folder.iterdir()))
    server._end_of_program()


def test_sockets_are_the_users_alone(folder: Path) -> None:
    model = Net()
    before = os.umask(0)
    try:
        with watch(model, "net"):
            (path,) = folder.iterdir()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert os.umask(0) == 0
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_reaches_the_socket_is_hung_up_on(folder: Path) -> None:
    """As where someone widened the modes: the kernel's word on who called still holds."""
    code = (
        "import os, socket, sys; os.setuid(int(sys.argv[2]));"
        "caller = socket.socket(socket.AF_UNIX); caller.settimeout(240);"
        "caller.connect(sys.argv[1]); print(len(caller.recv(1)))"
    )

    def heard_by(user: int) -> str:
        # From the folder: another user may not walk down to it.
        command = [sys.executable, "-I", "-S", "-c", code, path.name, str(user)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    model = Net().eval()
    with watch(model, "net", grace_seconds=0.0):
        path = place_of("net").path
        folder.chmod(0o711)
        path.chmod(0o666)
        assert heard_by(0) == "1"
        assert heard_by(12345) == "0"
        folder.chmod(0o700)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, not str"):
        watch("resnet50")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="above 0"):
        watch(Net(), budget=0.0)


def test_a_viewer_that_sends_rubbish_is_hung_up_on_alone() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as good:
        bad = Viewer(place_of("net"), looks=False)
        bad.socket.sendall(b"\x00\x00\x00\x03abc")
        good.until(has_times, ran(model, x))
        bad.until(lambda _: bad.is_hung_up_on)
        assert not good.is_hung_up_on


def test_who_says_nothing_makes_room_for_who_asks() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), ExitStack() as ends:
        silent = [
            ends.enter_context(Viewer(place_of("net"), looks=False)) for _ in range(MOST_VIEWERS)
        ]
        for one in silent:
            one.until(lambda s: s.hello is not None)
        asks = ends.enter_context(Viewer(place_of("net")))
        asks.until(has_times, ran(model, x))
        silent[0].until(lambda _: silent[0].is_hung_up_on)
        for one in silent[1:]:
            one.listen()
        assert not any(one.is_hung_up_on for one in silent[1:])


def test_where_there_is_no_room_the_next_is_told_so() -> None:
    model = Net().eval()
    with watch(model, "net", grace_seconds=0.0), ExitStack() as ends:
        for _ in range(MOST_VIEWERS):
            viewer = ends.enter_context(Viewer(place_of("net")))
            viewer.until(lambda s: s.environment is not None)  # It is told: it has asked.
        with pytest.raises(AttachError, match="full: 32 viewers") as raised:
            attached(place_of("net"))
        assert "detaching" in raised.value.instead
        (found,) = find()
        assert found.why_not.startswith("full: 32 viewers")
        for who in ("net", ""):
            with pytest.raises(AttachError, match="full: 32 viewers"):
                candidates([found], who)


def test_who_says_nothing_for_too_long_is_hung_up_on() -> None:
    ours, theirs = socket.socketpair()
    viewers, asking = Viewers(silent_seconds=0.05), socket.socketpair()
    asks = Link(asking[0], lambda: None)
    viewers.admit(asks, Observe())
    asking[1].sendall(encode(Observe()))
    wait_until(lambda: asks.has_requests)
    viewers.requests(lambda request: None)
    assert viewers.seconds_to_silence() is None
    viewers.admit(Link(ours, lambda: None), Observe())
    wait = viewers.seconds_to_silence()
    assert wait is not None
    assert wait <= 0.05
    theirs.settimeout(240)
    assert theirs.recv(1 << 16)
    wait_until(lambda: viewers.requests(lambda request: None) or viewers.connections == 1)
    assert not theirs.recv(1 << 16)
    assert not asks.is_closed
    viewers.close()


def test_calls_in_a_loop_are_taken_a_few_per_second() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0):
        place, answered, began = place_of("net"), 0, time.monotonic()
        while time.monotonic() < began + 4:
            with Viewer(place) as viewer:
                viewer.until(lambda s: s.hello is not None)
            answered += 1
        elapsed = time.monotonic() - began
        assert answered <= MOST_CALLS_AT_ONCE + CALLS_PER_SECOND * elapsed + 1
        for _ in range(200):  # They hang up before they are answered, and wait in the backlog.
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
                caller.connect(str(place.path))
        attached(place)._socket.close()  # In the time that a program has to answer.
        with Viewer(place) as viewer:
            viewer.until(has_times, ran(model, x))


def test_trees_asked_for_again_and_again_are_few() -> None:
    model, x = Net().eval(), torch.randn(3, 8)
    with watch(model, "net", grace_seconds=0.0), Viewer(place_of("net")) as viewer:
        viewer.until(has_times, ran(model, x))
        for _ in range(500):
            viewer.ask(TraceAgain())
        before = sum(isinstance(message, Tick) for message in viewer.heard)
        viewer.until(
            lambda _: sum(isinstance(m, Tick) for m in viewer.heard) > before + 2, ran(model, x)
        )
        assert len(waits(viewer)) <= 2
        assert not any(isinstance(message, Failed) for message in viewer.heard)


def test_no_warning_comes_where_all_is_well() -> None:
    model = Net()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch(model, "net").close()


def test_what_was_dropped_does_not_become_less_when_a_viewer_leaves() -> None:
    """It is a counter of Prometheus."""
    viewers, pairs = Viewers(), [socket.socketpair() for _ in range(2)]
    for ours, theirs in pairs:
        viewers.admit(Link(ours, lambda: None), Heartbeat(0.0, 0.0))
        theirs.sendall(encode(Observe()))

    def left() -> int:
        viewers.requests(lambda request: None)
        viewers.say(Heartbeat(1.0, 0.0))
        return viewers.connections

    wait_until(lambda: left() == 2 and viewers.dropped > 100)
    before, (_, theirs) = viewers.dropped, pairs[0]
    theirs.close()
    wait_until(lambda: left() == 1)
    assert viewers.dropped >= before
    pairs[1][1].close()
    wait_until(lambda: left() == 0)
    assert viewers.dropped == 0


def test_a_viewer_that_does_not_read_is_counted_and_holds_up_nobody() -> None:
    model = nn.Sequential(*(nn.Identity() for _ in range(1_500))).eval()
    x = torch.zeros(1)
    with watch(model, "net", 1.0, grace_seconds=0.0), Viewer(place_of("net")) as good:
        stuck = Viewer(place_of("net"))
        # How many forwards pass until a message is dropped depends on the machine.
        good.until(
            lambda s: (
                s.timings is not None and s.timings.tick.dropped > 2 and s.timings.tick.forwards > 5
            ),
            lambda: model(x),
        )
        good.ask(TraceAgain())  # What is said once piles up, so who is behind is hung up on.
        good.until(lambda _: len(waits(good)) == 2, lambda: model(x))
        good.until(has_times, lambda: model(x))
        stuck.close()
    assert not good.is_hung_up_on
