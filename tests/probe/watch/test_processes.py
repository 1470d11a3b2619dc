"""Watched programs as processes: forks, spawned workers, ends, and places for sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler.connection.sockets import places
from tui_profiler.messages import Sample

TAKES_NUMBERS = """
import contextlib, socket, warnings

def sockets():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found.add(int(name))
    return found - {0, 1, 2}

def filled(pairs):
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
            end.send(b"the program's")
    return pairs

def reader():
    '''The thread that reads the machine's counters, if there is one.'''
    return next((t.ident for t in threading.enumerate() if t.name == "tui-profiler-sample"), None)

def reads():
    '''Whether it does so at this moment, and may have a file open.'''
    frame = sys._current_frames().get(reader())
    return frame is not None and frame.f_code.co_name != "pause"

def close_all():
    '''Close every descriptor, then make sockets, which get the lowest numbers.

    Not while a file is read: whoever reads it would go on with what has its number by then.
    '''
    until(lambda: reads() or reader() is None)
    until(lambda: not reads())  # Not for the next second.
    were = sockets()
    os.closerange(3, 256)
    return filled([socket.socketpair() for _ in range(max(were))])

def take_all():
    '''Put a socket under each number of one, which closes that, with no moment between.'''
    pairs = []
    for number in sockets():
        end, other = socket.socketpair()
        pairs.append((socket.socket(fileno=os.dup2(end.fileno(), number)), other))
        end.close()
    return filled(pairs)

def are_as_sent(pairs):
    '''Whether each end is open, and holds what the other one sent and no more.'''
    held = [end.recv(4096) for pair in pairs for end in pair]
    for pair in pairs:
        for end, other in (pair, pair[::-1]):
            end.send(b"again")
            held.append(other.recv(4096))
    return set(held) == {b"the program's", b"again"}
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made


def test_a_forked_child_that_goes_on_is_watched_by_itself(folder: Path) -> None:
    code = """
    model, x = Net().eval(), torch.randn(3, 8)
    handle = tui_profiler.watch(model, "forked")
    run(model, x, lambda: handle.is_looked_at)
    run(model, x, lambda: nn.Module.__call__ is not TORCHS_OWN)
    child = os.fork()
    if child == 0:
        put_back = nn.Module.__call__ is TORCHS_OWN
        say("child", os.getpid(), put_back)
        run(model, x, lambda: handle.is_looked_at)
        run(model, x, lambda: not handle.is_looked_at)
        os._exit(0)
    run(model, x, lambda: os.waitpid(child, os.WNOHANG)[0] == child)
    say("parent", handle.is_looked_at)
    sys.stdin.readline()
    """
    with WatchedProgram(code, folder) as program, Viewer(place_of("forked")) as parents:
        kind, child, was_put_back = program.said()
        assert (kind, was_put_back) == ("child", True)
        wait_until(lambda: [one for one in places() if one.pid == child])
        (place,) = [one for one in places() if one.pid == child]
        with Viewer(place) as viewer:
            session = viewer.until(lambda s: s.timings is not None)
            assert session.hello is not None
            assert session.hello.pid == child
        assert program.said() == ["parent", True]
        parents.until(lambda s: s.timings is not None)
        assert not parents.is_hung_up_on


def test_workers_that_load_data_do_not_disturb_and_are_told_apart(folder: Path) -> None:
    code = """
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            if index == 0:
                time.sleep(2)  # Longer than a child waits before it makes a socket.
            return torch.full((8,), float(index))

    def main():
        model = Net().eval()
        handle = tui_profiler.watch(model, "loader")
        loader = torch.utils.data.DataLoader(
            Data(), batch_size=8, num_workers=2, multiprocessing_context="fork"
        )
        total = 0.0
        for batch in loader:
            with torch.no_grad():
                model(batch)
            total += float(batch.sum())
        say("fork", total)
        run(model, batch, lambda: handle.is_looked_at)
        run(model, batch, lambda: not handle.is_looked_at)
    main()
    """
    with WatchedProgram(code, folder) as program:
        wait_until(lambda: len(list(places())) == 3)
        roles = []
        for place in places():
            with Viewer(place, looks=False) as viewer:
                hello = viewer.until(lambda s: s.hello is not None).hello
                assert hello is not None
                assert hello.program is not None
                roles.append(hello.program.role)
        assert sorted(roles) == ["", "DataLoader worker", "DataLoader worker"]
        assert program.said() == ["fork", 8.0 * sum(range(64))]
        with Viewer(place_of("loader")) as viewer:
            viewer.until(lambda s: s.timings is not None)
        assert program.child.wait(120) == 0


def test_a_forked_worker_that_ends_leaves_nothing(folder: Path) -> None:
    code = """
    import multiprocessing
    handle = tui_profiler.watch(model := Net(), "worker")
    def own(pid):
        sockets = os.listdir(os.environ["TUI_PROFILER_DIR"])
        return [one for one in sockets if one.startswith(f"{pid}-")]
    def work(waits):
        until(lambda: own(os.getpid()) or not waits)
    for waits in (True, False):
        worker = multiprocessing.get_context("fork").Process(target=work, args=(waits,))
        worker.start()
        worker.join()
        say(worker.exitcode, own(worker.pid), len(own(os.getpid())))
    """
    with WatchedProgram(code, folder) as program:
        assert program.said() == [0, [], 1]
        assert program.said() == [0, [], 1]


def test_the_end_of_a_program_is_told_and_leaves_nothing(folder: Path) -> None:
    code = """
    model, x = Net().eval(), torch.randn(3, 8)
    handle = tui_profiler.watch(model, "ends")
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    run(model, x, told.is_set)
    sys.exit(7)
    """
    with WatchedProgram(code, folder) as program:
        viewer = Viewer(place_of("ends"))
        viewer.until(lambda s: s.timings is not None)
        program.hears("end")
        session = viewer.until(lambda _: viewer.is_hung_up_on)
        assert program.child.wait(120) == 7
        assert program.complaint() == ""
    assert session.loop is not None
    assert (session.loop.state, session.loop.detail) == ("finished", "the program ended")
    assert session.tree is not None
    assert not list(folder.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_program_that_is_stopped_by_a_signal_dies_as_without_us(
    folder: Path, number: signal.Signals
) -> None:
    code = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model, x = Net().eval(), torch.randn(3, 8)
    handle = tui_profiler.watch(model, "stopped")
    run(model, x, lambda: False)
    """
    with WatchedProgram(code, folder) as program, Viewer(place_of("stopped")) as viewer:
        viewer.until(lambda s: s.timings is not None)
        program.child.send_signal(number)
        complaint = program.complaint()
        viewer.until(lambda _: viewer.is_hung_up_on)
        assert program.child.returncode == -number
        # The next program removes what a killed one leaves: see below.
        left = ["stopped"] if number == signal.SIGKILL else []
        assert [place.name for place in places()] == left
    assert ("KeyboardInterrupt" in complaint) == (number == signal.SIGINT)


def test_nobody_looking_costs_one_thread_that_sleeps_once_what_others_left_is_removed(
    folder: Path,
) -> None:
    code = """
    handle = tui_profiler.watch(model := Net(), "idle")
    until(lambda: own_threads() == ["tui-profiler"])
    def used_in_half_a_second():
        before = time.process_time()
        time.sleep(0.5)
        return time.process_time() - before
    until(lambda: used_in_half_a_second() < 0.005)  # Once what was begun with is done.
    say(own_threads(), nn.Module.__call__ is TORCHS_OWN, "torch._dynamo" in sys.modules)
    sys.stdin.readline()  # Its socket is gone when it is.
    """
    gone = subprocess.Popen(["true"])
    gone.wait()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / f"{gone.pid}-0-killed.sock"))
    assert [place.name for place in places()] == ["killed"]
    with WatchedProgram(code, folder) as program:
        assert program.said() == [["tui-profiler"], True, False]
        assert [place.name for place in places()] == ["idle"]


def test_without_a_runtime_directory_there_is_one_in_tmp(folder: Path) -> None:
    code = """
    del os.environ["TUI_PROFILER_DIR"]
    os.environ.pop("XDG_RUNTIME_DIR", None)
    from tui_profiler.connection.sockets import candidates, places
    handle = tui_profiler.watch(model := Net(), "anywhere")
    say(*(str(one) for one in candidates()))
    say(*(str(one.path) for one in places() if one.pid == os.getpid()))
    """
    with WatchedProgram(code, folder) as program:
        usable = program.said()
        (path,) = program.said()
        program.child.wait(120)  # It ends by itself, and removes what it made.
    assert f"/tmp/tui-profiler-{os.geteuid()}" in usable
    assert str(Path(str(path)).parent) in usable
    assert not Path(str(path)).exists()


@pytest.mark.parametrize("way", ["close_all", "take_all"])
def test_a_program_that_closes_every_descriptor_keeps_its_sockets_and_is_watched(
    folder: Path, way: str
) -> None:
    code = """
    model, x = Net().eval(), torch.randn(3, 8)
    handle = tui_profiler.watch(model, "closes")
    run(model, x, lambda: handle.is_looked_at)
    run(model, x, lambda: nn.Module.__call__ is not TORCHS_OWN)
    pairs = WAY()
    run(model, x, lambda: not handle.is_looked_at)
    until(lambda: own_threads() == ["tui-profiler"])
    since = tui_profiler.watch(model, "since")
    run(model, x, lambda: handle.is_looked_at and since.is_looked_at)
    run(model, x, lambda: not (handle.is_looked_at or since.is_looked_at))
    say("left", are_as_sent(pairs))
    """
    with WatchedProgram(TAKES_NUMBERS + f"WAY = {way}" + textwrap.dedent(code), folder) as program:
        with Viewer(place_of("closes")) as viewer:
            viewer.until(lambda _: viewer.is_hung_up_on)
        place = place_of("since")  # The other one has its place again by then.
        with Viewer(place) as since, Viewer(place_of("closes")) as again:
            since.until(lambda s: s.timings is not None)
            again.until(lambda s: s.timings is not None)
        assert program.said() == ["left", True]
        assert program.complaint() == ""
    assert not list(folder.iterdir())


def test_counters_that_cannot_be_read_are_told_and_the_program_goes_on(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "dev").write_text("one\ntwo\nnot as the kernel writes it\n")
    code = f"""
    import psutil
    model, x = Net().eval(), torch.randn(3, 8)
    here = {str(tmp_path)!r}
    for name in ("stat", "meminfo", "diskstats", "self", str(os.getpid())):
        os.symlink(f"/proc/{{name}}", f"{{here}}/{{name}}")
    handle = tui_profiler.watch(model, "unread")
    psutil.PROCFS_PATH = here
    say("unread")
    run(model, x, lambda: handle.is_looked_at)
    run(model, x, lambda: not handle.is_looked_at)
    say("left")
    """
    with WatchedProgram(code, folder) as program:
        assert program.said() == ["unread"]
        with Viewer(place_of("unread")) as viewer:
            viewer.until(lambda s: s.log.total_lines)
            session = viewer.until(lambda s: s.timings is not None)
            with Viewer(place_of("unread")) as later:
                later.until(lambda s: s.log.total_lines)
        assert program.said() == ["left"]
        assert program.complaint() == ""
    (line,) = session.log.lines
    assert line.startswith("tui-profiler: the machine's counters cannot be read")
    assert "not as the kernel" in line
    assert session.sample is None
    assert session.failure is None


def test_a_daemon_is_watched_whether_it_was_before_or_is_from_now_on(folder: Path) -> None:
    code = """
    model, x = Net().eval(), torch.randn(3, 8)
    before = tui_profiler.watch(model, "before")
    run(model, x, lambda: before.is_looked_at)
    run(model, x, lambda: nn.Module.__call__ is not TORCHS_OWN)
    warnings.simplefilter("ignore", DeprecationWarning)  # Of forks beside threads.
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    pairs = close_all()
    since = tui_profiler.watch(model, "since")
    say("daemon", os.getpid())
    run(model, x, lambda: before.is_looked_at and since.is_looked_at)
    run(model, x, lambda: not (before.is_looked_at or since.is_looked_at))
    say("left", are_as_sent(pairs))
    """
    with WatchedProgram(TAKES_NUMBERS + textwrap.dedent(code), folder) as program:
        with Viewer(place_of("before")) as viewer:
            viewer.until(lambda _: viewer.is_hung_up_on)
        kind, daemon = program.said()
        assert kind == "daemon"
        with ExitStack() as ends:
            for name in ("before", "since"):
                wait_until(lambda name=name: (daemon, name) in [(p.pid, p.name) for p in places()])
                (place,) = (p for p in places() if (p.pid, p.name) == (daemon, name))
                viewer = ends.enter_context(Viewer(place))
                session = viewer.until(lambda s: s.hello is not None)
                assert session.hello is not None
                assert session.hello.pid == daemon
                viewer.until(lambda s: s.timings is not None)
        assert program.said() == ["left", True]
        assert program.complaint() == ""
    assert daemon not in [place.pid for place in places()]


def test_a_program_without_a_free_file_is_left_in_peace(folder: Path) -> None:
    """Nothing is written to its standard error, and counters are read again later."""
    code = """
    import resource
    model, x, tries = Net().eval(), torch.randn(3, 8), []
    handle = tui_profiler.watch(model, "full", grace_seconds=60)
    def note(event, _):
        if event == "open" and threading.current_thread().name == "tui-profiler-sample":
            tries.append(event)
    sys.addaudithook(note)
    sampled = lambda: len(tries)
    told = threading.Thread(target=sys.stdin.readline)
    told.start()
    run(model, x, lambda: not told.is_alive())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    before = sampled()
    for _ in range(3):
        run(model, x, lambda: sampled() > before)
        before = sampled()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    say("again")
    run(model, x, lambda: not handle.is_looked_at)
    """
    with WatchedProgram(code, folder) as program:
        with Viewer(place_of("full")) as viewer:
            viewer.until(lambda session: session.tick and session.history.samples)
            program.hears()
            assert program.said() == ["again"]
            before = len(viewer.heard)
            viewer.until(lambda _: any(isinstance(one, Sample) for one in viewer.heard[before:]))
        assert program.complaint() == ""
