"""Which programs of the user have torch loaded, from a folder like ``/proc``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tui_profiler.connection.sockets import Place
from tui_profiler.source.attached import Found, not_listening
from tui_profiler.source.torch_processes import UsersPrograms, script_of

TORCH = "7f00-7f10 r--p 00000000 08:01 1 /e/torch/lib/libtorch_python.so\n"


def process(
    proc: Path, pid: int, *command: str, maps: str = TORCH, name: str = "python", environ: str = ""
) -> None:
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "cmdline").write_text("\0".join(command) + "\0")
    (folder / "maps").write_text(maps)
    (folder / "comm").write_text(name)
    (folder / "environ").write_text(environ)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUI_PROFILER_DIR", raising=False)


def test_programs_with_torch_are_found_and_helpers_are_not(tmp_path: Path) -> None:
    process(tmp_path, 5, "python", "/srv/train.py", "--epochs", "3")
    process(tmp_path, 6, "bash", maps="")
    process(tmp_path, 7, "python", "/srv/train.py", name="pt_data_worker\n")
    process(tmp_path, 8, "python", "-P", "-m", "tui_profiler.probe", "5")
    process(tmp_path, 9, "python", "x.py", environ="A=1\0TUI_PROFILER_DIR=/elsewhere\0")
    (tmp_path / "self").mkdir()
    (tmp_path / "10").mkdir()
    seen = UsersPrograms(tmp_path).look()
    assert [(one.pid, one.name) for one in seen] == [(5, "train.py")]
    assert seen[0].started_at == pytest.approx((tmp_path / "5").stat().st_ctime)


def test_with_a_directory_of_its_own_only_programs_with_it_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, 5, "python", "a.py")
    process(tmp_path, 9, "python", "b.py", environ="TUI_PROFILER_DIR=/mine\0")
    monkeypatch.setenv("TUI_PROFILER_DIR", "/mine")
    assert [one.pid for one in UsersPrograms(tmp_path).look()] == [9]


def test_one_that_imports_torch_later_is_found_and_one_that_ends_is_gone(tmp_path: Path) -> None:
    process(tmp_path, 5, "python", "a.py")
    process(tmp_path, 6, "python", "b.py", maps="")
    programs = UsersPrograms(tmp_path)
    assert [one.pid for one in programs.look()] == [5]
    process(tmp_path, 6, "python", "b.py")
    (tmp_path / "5").rename(tmp_path / "gone")
    while len(found := programs.look()) != 1:
        assert found == ()
    assert found[0].pid == 6


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 1", "train.py"),
        ("/usr/bin/python3 -u -X dev -W ignore /srv/a/serve.py", "serve.py"),
        ("python -m torch.distributed.run job.py", "torch.distributed.run"),
        ("python -mpkg", "pkg"),
        ("python /env/bin/uvicorn app:app", "uvicorn"),
        ("python -c pass", "python"),
        ("python", "python"),
    ],
)
def test_a_command_line_is_named_by_what_it_runs(command: str, name: str) -> None:
    assert script_of(command.split()) == name


def test_a_real_program_is_found_until_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with sockets_folder() as folder:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(folder))
        with WatchedProgram("say(1)\nsys.stdin.readline()", folder) as running:
            running.said()
            found = not_listening(UsersPrograms(), [])
            assert [one.place.pid for one in found] == [running.child.pid]
            assert not found[0].listens
            there = Found(Place(Path("/s"), running.child.pid, 0, "net"), None)
            assert not_listening(UsersPrograms(), [there]) == []
