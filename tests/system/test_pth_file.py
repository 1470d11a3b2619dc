"""The line with which programs of an environment listen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui_profiler.system import pth_file


def test_the_line_is_written_and_removed_once(tmp_path: Path) -> None:
    path = tmp_path / pth_file.FILE
    assert pth_file.enable(path)
    assert not pth_file.enable(path)
    assert [one.name for one in tmp_path.iterdir()] == [pth_file.FILE]
    assert path.read_text() == pth_file.LINE
    assert pth_file.disable(path)
    assert not pth_file.disable(path)
    assert not list(tmp_path.iterdir())


def test_the_line_of_another_version_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / pth_file.FILE
    path.write_bytes(b"import os \xff\n")
    assert pth_file.enable(path)
    assert path.read_text() == pth_file.LINE


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / pth_file.FILE
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        pth_file.enable(path)
    assert [one.name for one in tmp_path.iterdir()] == [pth_file.FILE]


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_variable_nothing_is_imported(value: str | None) -> None:
    code = f"import sys\nbefore = set(sys.modules)\n{pth_file.LINE}print(set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={} if value is None else {pth_file.VARIABLE: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"
    assert done.stderr == ""


def test_pythons_site_runs_the_line() -> None:
    # What site.py asks of a line that is run: it is one, and begins with "import ".
    assert pth_file.LINE.startswith("import ")
    assert pth_file.LINE.count("\n") == 1
    assert pth_file.file_path().suffix == ".pth"


def test_a_script_under_run_is_heard_by_its_viewer_alone() -> None:
    code = (
        f"import sys\nbefore = list(sys.meta_path)\n{pth_file.LINE}{pth_file.LINE}"
        "print(len(sys.meta_path) - len(before))\n"
        "from tui_profiler.probe.watch import enabled\n"
        "enabled.dismiss()\nprint(sys.meta_path == before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, pth_file.VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\nTrue\n"
