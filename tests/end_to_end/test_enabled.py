"""``enable`` in an environment of its own: its programs listen, and are otherwise as before."""

from __future__ import annotations

import errno
import json
import os
import select
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from screens.cli.setup import not_changed
from tests.probe.watch.watched_program import ROOT, sockets_folder
from tui_profiler.system.pth_file import FILE

PROGRAM = """
import multiprocessing, os, sys, time

def main():
    import torch
    assert not any(type(one).__module__.startswith("tui_profiler") for one in sys.meta_path)
    torch.set_num_threads(1)
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8)), torch.ones(2, 8)
    parent = multiprocessing.parent_process() is None
    if parent:
        child = multiprocessing.get_context("spawn").Process(target=main)
        child.start()
        torch.manual_seed(0)
        print(torch.rand(1).item(), flush=True)
    while os.path.exists(sys.argv[1]):
        model(x)
        time.sleep(0.002)
    if parent:
        child.join()
        print(child.exitcode)
        raise SystemExit(7)

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment that has what this one has, and no line yet."""
    made = tmp_path_factory.mktemp("environment")
    venv.create(made, symlinks=True)
    site = next(made.glob("lib/python*/site-packages"))
    folders = [ROOT, *(one for one in sys.path if one.endswith("site-packages"))]
    lines = (f"import site; site.addsitedir({str(one)!r})\n" for one in folders)
    (site / "as_here.pth").write_text("".join(lines))
    return str(made / "bin/python")


@pytest.fixture
def folder() -> Iterator[Path]:
    with sockets_folder() as made:
        yield made


def ours(python: str, *arguments: str, folder: Path | str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "tui_profiler", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TUI_PROFILER_DIR": str(folder)},
    )


def test_an_enabled_program_and_its_children_listen(
    python: str, folder: Path, tmp_path: Path
) -> None:
    assert "wrote" in ours(python, "enable").stdout
    again = ours(python, "enable")
    assert again.returncode == 0
    assert "enabled already" in again.stdout
    script, flag = tmp_path / "serve.py", tmp_path / "flag"
    script.write_text(PROGRAM)
    flag.touch()
    ends = {}
    for value in ("1", "0"):
        flag.touch()
        child = subprocess.Popen(
            [python, str(script), str(flag)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TUI_PROFILER": value, "TUI_PROFILER_DIR": str(folder)},
        )
        assert child.stdout is not None
        first = child.stdout.readline()
        if value == "1":
            end = time.monotonic() + 120
            while len(list(folder.glob("*.sock"))) < 2:
                assert time.monotonic() < end, child.communicate()
                assert child.poll() is None, child.communicate()
                select.select([], [], [], 0.01)
            listed = ours(python, "attach", "--list", folder=folder).stdout
            assert listed.count("serve.py  pid") == 2
            report = ours(
                *(python, "report", "--attach", str(child.pid), "--measure", "0.5"),
                *("--format", "json"),
                folder=folder,
            )
            assert report.returncode == 0, report.stderr
            assert json.loads(report.stdout)["model"] == "Sequential"
        else:
            assert not list(folder.glob("*.sock"))
        flag.unlink()
        out, err = child.communicate(timeout=120)
        ends[value] = (first + out, err, child.returncode)
        assert not list(folder.glob("*.sock"))
    assert ends["1"] == ends["0"]
    assert ends["1"][2] == 7
    assert "removed" in ours(python, "disable").stdout
    assert "not enabled" in ours(python, "disable").stdout


def test_a_line_that_cannot_be_written_is_refused_with_what_helps(python: str) -> None:
    file = next(Path(python).parents[1].glob("lib/python*/site-packages")) / FILE
    file.mkdir()
    try:
        refused = ours(python, "enable")
    finally:
        file.rmdir()
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert f"enable: {file} cannot be written" in refused.stderr
    assert f"enable: try sudo {python} -m tui_profiler enable" in refused.stderr


def test_a_folder_that_nobody_can_write_to_asks_for_no_other_user() -> None:
    file = Path("/env/site-packages") / FILE
    denied = not_changed("enable", file, PermissionError(errno.EACCES, "Permission denied"))
    assert denied[0] == "/env/site-packages cannot be written: Permission denied"
    assert "sudo" in denied[1]
    nobody = not_changed("enable", file, OSError(errno.EROFS, "Read-only file system"))
    assert "sudo" not in nobody[1]
    assert "attach PID" in nobody[1]
