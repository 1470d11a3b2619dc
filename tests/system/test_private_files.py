"""What the program keeps for itself is its user's alone, whatever the umask and what is there."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from screens.settings.saved_view import SavedView, SavedViews
from screens.terminal.clipboard import copied
from screens.terminal.crash_report import keep
from tests.fixtures.record import recorded
from tui_profiler.messages import LoadSpec
from tui_profiler.source import cached_tree_files
from tui_profiler.source.script import LogFile
from tui_profiler.system.files import PROGRAM, private_directory, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def keep_everything(home: str) -> None:
    """Let every part that keeps something do so; in a process with a umask."""
    state, cache = Path(home, "state", PROGRAM), Path(home, "cache", PROGRAM)
    assert SavedViews(state / "models").write("resnet50", SavedView(operators=True)) == ""
    keep("report", state / "log", 0.0)
    done = asyncio.run(copied("text", lambda _: None, {}, cache))
    assert done.file is not None, done.trouble
    why = cached_tree_files.keep(LoadSpec("resnet50"), list(recorded())[:0])
    assert why == "", why
    log = LogFile()
    log.write(b"printed")
    assert log.why_none == ""


@pytest.mark.parametrize("umask", ["000", "022", "077", "777"])
def test_directories_are_0700_and_files_0600_whatever_the_umask(tmp_path: Path, umask: str) -> None:
    old = tmp_path / "cache" / PROGRAM
    old.mkdir(parents=True)
    old.chmod(0o777)  # As an older version left it.
    old.parent.chmod(0o755)
    code = f"import os; os.umask(0o{umask}); from tests.system.test_private_files import *;"
    code += f"keep_everything({str(tmp_path)!r})"
    homes = {"XDG_CACHE_HOME": str(old.parent), "XDG_STATE_HOME": str(tmp_path / "state")}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **homes}, check=True)
    assert mode(old.parent) == 0o755  # The user's own stays as it was.
    assert mode(tmp_path / "state") == 0o700  # Missing ones are made as XDG says.
    made = [path for name in ("cache", "state") for path in (tmp_path / name / PROGRAM).rglob("*")]
    files = [path for path in made if path.is_file()]
    assert len(files) == 5, made
    assert {mode(path) for path in files} == {0o600}
    folders = {path.parent for path in files} | {old, tmp_path / "state" / PROGRAM}
    assert {mode(path) for path in folders} == {0o700}


def test_a_link_in_place_of_the_directory_is_refused_and_what_it_names_stays(
    tmp_path: Path,
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (tmp_path / PROGRAM).symlink_to(elsewhere)
    for path in (tmp_path / PROGRAM, tmp_path / PROGRAM / "models"):
        with pytest.raises(OSError, match="is a symbolic link"):
            private_directory(path)
    assert mode(elsewhere) == 0o755
    assert list(elsewhere.iterdir()) == []
    told = SavedViews(tmp_path / PROGRAM / "models").write("a", SavedView(operators=True))
    assert told.endswith("is a symbolic link")


def test_a_link_above_is_the_users_own_business(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "real")
    assert mode(private_directory(tmp_path / "cache" / PROGRAM)) == 0o700
    assert mode(tmp_path / "real" / PROGRAM) == 0o700


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / PROGRAM).write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        private_directory(tmp_path / PROGRAM)


def test_a_place_that_everyone_can_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(OSError, match="can be written to by every user"):
        private_directory(shared / PROGRAM)
    shared.chmod(0o1777)  # As /tmp is: no one can rename what is another's.
    assert mode(private_directory(shared / PROGRAM)) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory another user's")
def test_a_directory_of_another_user_is_refused_and_stays(tmp_path: Path) -> None:
    theirs = tmp_path / PROGRAM
    theirs.mkdir()
    theirs.chmod(0o755)
    os.chown(theirs, 12345, 12345)
    for path in (theirs, theirs / "models", theirs / "below" / PROGRAM):
        with pytest.raises(OSError, match="belongs to another user"):
            private_directory(path)
    assert mode(theirs) == 0o755
    assert list(theirs.iterdir()) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")
    (tmp_path / "file").chmod(0o644)
    write_private(tmp_path / "file", b"after")
    assert (tmp_path / "file").read_bytes() == b"after"
    assert mode(tmp_path / "file") == 0o600
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):  # noqa: PT011 # whichever the system says
        write_private(tmp_path / "folder", b"after")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


def test_nothing_is_open_to_others_while_it_is_made(tmp_path: Path) -> None:
    """Not for a moment: who opened it then could read on. Told by what Python asks the system."""
    code = (
        "import sys, os; from pathlib import Path; seen = [];"
        "sys.addaudithook(lambda name, given: seen.append((name, given)));"
        "from tui_profiler.system.files import private_directory, write_private;"
        "os.umask(0); path = private_directory(Path(sys.argv[1], 'a', 'tui-profiler', 'b'));"
        "write_private(path / 'file', b'data');"
        "print([given[1] for name, given in seen if name == 'os.mkdir']);"
        "flags = [given[2] for name, given in seen if name == 'open' and '.new' in str(given[0])];"
        "print([flag & (os.O_EXCL | os.O_NOFOLLOW) == os.O_EXCL | os.O_NOFOLLOW for flag in flags])"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [str([0o700] * 3), "[True]"]
