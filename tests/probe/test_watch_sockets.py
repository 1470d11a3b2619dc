"""Who may call a watched program, where, and what those who misbehave get."""

from __future__ import annotations

import os
import stat
import threading
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.probe.watched_model import (
    Net,
    has_times,
    is_put_back,
    ran,
    sockets,  # noqa: F401
    waits,
)
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler import watch
from tui_profiler.messages import Failed, Tick, TraceAgain
from tui_profiler.probe.observer import Observer
from tui_profiler.probe.serving import Server
from tui_profiler.probe.watch import program


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
    with pytest.warns(UserWarning, match="nobody can attach: .*" + str(place)):
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
        with pytest.warns(UserWarning, match="nobody can attach: can't start new thread"):
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


def test_a_viewer_that_does_not_read_is_counted_and_holds_up_nobody() -> None:
    model = nn.Sequential(*(nn.Identity() for _ in range(1_500))).eval()
    x = torch.zeros(1)
    with watch(model, "net", 1.0, grace_seconds=0.0), Viewer(place_of("net")) as good:
        stuck = Viewer(place_of("net"))
        session = good.until(
            lambda s: s.timings is not None and s.timings.tick.dropped > 2,
            lambda: model(x),
        )
        assert session.timings is not None
        assert session.timings.tick.forwards > 5
        good.ask(TraceAgain())  # What is said once piles up, so who is behind is hung up on.
        good.until(lambda _: len(waits(good)) == 2, lambda: model(x))
        good.until(has_times, lambda: model(x))
        stuck.close()
    assert not good.is_hung_up_on
