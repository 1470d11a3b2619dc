"""The line with which programs of an environment listen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui_profiler.system import enabling


def test_the_line_is_written_and_removed_once(tmp_path: Path) -> None:
    path = tmp_path / enabling.FILE
    assert enabling.enable(path)
    assert not enabling.enable(path)
    assert [one.name for one in tmp_path.iterdir()] == [enabling.FILE]
    assert path.read_text() == enabling.LINE
    assert enabling.disable(path)
    assert not enabling.disable(path)
    assert not list(tmp_path.iterdir())


def test_the_line_of_another_version_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / enabling.FILE
    path.write_bytes(b"import os \xff\n")
    assert enabling.enable(path)
    assert path.read_text() == enabling.LINE


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / enabling.FILE
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        enabling.enable(path)
    assert [one.name for one in tmp_path.iterdir()] == [enabling.FILE]


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_variable_nothing_is_imported(value: str | None) -> None:
    code = f"import sys\nbefore = set(sys.modules)\n{enabling.LINE}print(set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={} if value is None else {enabling.VARIABLE: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"
    assert done.stderr == ""


def test_pythons_site_runs_the_line() -> None:
    # What site.py asks of a line that is run: it is one, and begins with "import ".
    assert enabling.LINE.startswith("import ")
    assert enabling.LINE.count("\n") == 1
    assert enabling.file_path().suffix == ".pth"


def test_a_script_under_run_is_heard_by_its_viewer_alone() -> None:
    code = (
        f"import sys\nbefore = list(sys.meta_path)\n{enabling.LINE}{enabling.LINE}"
        "print(len(sys.meta_path) - len(before))\n"
        "from tui_profiler.probe.watch import enabled\n"
        "enabled.dismiss()\nprint(sys.meta_path == before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, enabling.VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\nTrue\n"
