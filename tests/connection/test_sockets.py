"""Who may be called, and where: only this user's programs, in directories of this user alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tui_profiler.connection import sockets
from tui_profiler.source.attached import AttachError, connect

ROOT = Path(__file__).parents[2]
ASK = (
    "import socket; from tui_profiler.connection.sockets import is_same_user;"
    "print(is_same_user(socket.socketpair()[0]))"
)


def asked(*prefix: str) -> str:
    done = subprocess.run(
        [*prefix, sys.executable, "-c", ASK],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if prefix and "unshare" in done.stderr:
        pytest.skip(f"no user namespace can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_user_whom_the_namespace_does_not_know_is_no_one() -> None:
    """In a namespace without a map, this user and every stranger have one and the same id."""
    assert asked() == "True"
    assert asked("unshare", "--user") == "False"


def test_a_program_of_the_same_user_is_let_in_and_root_too() -> None:
    ours, other = socket.socketpair()
    with ours, other:
        assert sockets.is_same_user(ours)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("opened_by", "is_let_in"), [(0, True), (12345, True), (54321, False)])
def test_a_user_lets_in_root_and_themselves_and_no_one_else(
    opened_by: int, is_let_in: bool
) -> None:
    code = (
        "import os, socket; from tui_profiler.connection.sockets import is_same_user;"
        f"os.seteuid({opened_by}); pair = socket.socketpair();"
        "os.seteuid(0); os.seteuid(12345); print(is_same_user(pair[0]))"
    )
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(is_let_in)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_viewer_does_not_talk_to_another_users_socket(tmp_path: Path) -> None:
    """A listener's credentials are those of who called ``listen``."""
    path = tmp_path / "1-0-a.sock"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))

    with listening:
        code = (
            "import os, socket, sys; os.setuid(1234);"
            "socket.socket(fileno=int(sys.argv[1])).listen()"
        )
        command = [sys.executable, "-c", code, str(listening.fileno())]
        subprocess.run(command, pass_fds=[listening.fileno()], check=True)
        with pytest.raises(AttachError, match="it belongs to another user"):
            connect(sockets.Place(path, 1, 0, "a"))
        listening.listen()
        connect(sockets.Place(path, 1, 0, "a")).close()


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o740, 0o705, 0o701, 0o710])
def test_a_directory_that_others_can_read_or_enter_is_refused(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv(sockets.VARIABLE, str(folder))
    (folder / "7-0-a.sock").touch()
    assert sockets.directory() == folder
    assert [place.pid for place in sockets.places()] == [7]
    folder.chmod(mode)
    with pytest.raises(sockets.NoPlaceError, match="is open to other users"):
        sockets.directory()
    assert sockets.places() == []


@pytest.mark.parametrize(
    ("mode", "is_refused"), [(0o777, True), (0o770, True), (0o1777, False), (0o755, False)]
)
def test_a_directory_is_not_made_where_others_can_replace_it(
    mode: int, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    monkeypatch.setenv(sockets.VARIABLE, str(shared / "sockets"))
    if is_refused:
        with pytest.raises(sockets.NoPlaceError, match="others can write to"):
            sockets.directory()
        assert not (shared / "sockets").exists()
    else:
        assert sockets.directory() == shared / "sockets"


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "real" / "7-0-a.sock").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv(sockets.VARIABLE, str(tmp_path / "link"))
    with pytest.raises(sockets.NoPlaceError, match="is a symbolic link"):
        sockets.directory()
    assert sockets.places() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory another user's")
def test_another_users_directory_is_refused_and_so_is_one_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    (theirs / "7-0-a.sock").touch()
    os.chown(theirs, 12345, 12345)
    for named in (theirs, theirs / "sockets"):
        monkeypatch.setenv(sockets.VARIABLE, str(named))
        with pytest.raises(sockets.NoPlaceError, match="belongs to another user"):
            sockets.directory()
        assert sockets.places() == []
    assert not (theirs / "sockets").exists()


def test_only_sockets_at_which_no_one_listens_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv(sockets.VARIABLE, str(tmp_path))
    never_a_process = 2**22 + 1  # Linux numbers processes up to 2**22.
    deaf, heard, ours = (
        sockets.socket_path(tmp_path, pid, 0, name)
        for pid, name in ((never_a_process, "deaf"), (never_a_process, "heard"), (os.getpid(), "a"))
    )
    listening = []
    for path in (deaf, heard, ours):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.bind(str(path))
        listening.append(one)
    listening[1].listen()
    sockets.remove_stale()
    assert [path.exists() for path in (deaf, heard, ours)] == [False, True, True]
    assert sockets.remove_if_not_listening(ours)
    assert not sockets.remove_if_not_listening(heard)
    assert not sockets.remove_if_not_listening(deaf)
    for one in listening:
        one.close()


def test_a_socket_s_path_has_plain_characters_and_room() -> None:
    folder = Path("/tmp")
    assert sockets.socket_path(folder, 1, 2, "a/../\x1b[31m\nb").name == "1-2-a-..-31m-b.sock"
    assert sockets.socket_path(folder, 1, 2, "x" * 99).name == f"1-2-{'x' * 32}.sock"
    # Bytes count, and not letters.
    folder = Path("/" + "é" * 45)
    path = sockets.socket_path(folder, 1, 2, "x" * 32)
    assert len(os.fsencode(path)) == sockets.LONGEST_PATH
    assert path.name.startswith("1-2-x")
    with pytest.raises(sockets.NoPlaceError, match="a socket's path has at most 107 bytes"):
        sockets.socket_path(Path("/" + "é" * 50), 1, 2, "x")


def test_a_relative_directory_is_that_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(sockets.VARIABLE, "sockets")
    assert sockets.directory() == tmp_path / "sockets"


def test_the_directory_is_for_this_user_alone_under_any_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sockets.VARIABLE, str(tmp_path / "sockets"))
    before = os.umask(0)
    try:
        assert sockets.directory().stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
