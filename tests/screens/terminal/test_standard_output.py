"""What a headless verb writes: as it comes, or a whole file when it ends, however it ends."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from screens.terminal.standard_output import NotWritten, Results, put_into


def test_without_a_file_each_is_written_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    with Results("") as results:
        results.add("one\n")
        assert capsys.readouterr().out == "one\n"
        results.add("two\n")
    assert capsys.readouterr().out == "two\n"


def test_a_file_is_not_there_before_its_end(tmp_path: Path) -> None:
    file = tmp_path / "out"
    with Results(str(file)) as results:
        results.add("one\n")
        results.add(b"\xfftwo\n")
        assert list(tmp_path.iterdir()) == []
    assert file.read_bytes() == b"one\n\xfftwo\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_was_finished_is_kept_whatever_comes_then(
    error: type[BaseException], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out"

    def verb() -> None:
        with Results(str(file)) as results:
            results.add("one\n")
            raise error

    with pytest.raises(error):
        verb()
    assert file.read_text() == "one\n"
    said = f"{file}: interrupted: contains the 1 model until then\n"
    assert capsys.readouterr().err == (said if error is KeyboardInterrupt else "")


def test_where_nothing_was_finished_there_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), Results(str(file)):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def _small_files() -> Iterator[None]:
    """Let no file grow beyond 1,000 bytes: as where a disk is full."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


@pytest.mark.usefixtures("_small_files")
@pytest.mark.parametrize("before", ["", "of last time"])
def test_there_is_never_half_a_file(before: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    if before:
        file.write_text(before)
    with pytest.raises(NotWritten, match="was not written completely: File too large"):
        put_into(str(file), b"x" * 2000)
    assert [one.read_text() for one in tmp_path.iterdir()] == ([before] if before else [])


def test_a_link_and_the_permissions_of_a_file_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    file, link = tmp_path / "there" / "out", tmp_path / "link"
    file.write_text("of last time")
    file.chmod(0o640)
    link.symlink_to(file)
    put_into(str(link), b"new")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Results(str(pipe)) as results:
            results.add("one\n")
        assert os.read(reader, 100) == b"one\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
