"""Programs started by a test do not outlive it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from msgspec.structs import replace

from tests.end_to_end.terminal import COMMAND, Terminal
from tui_profiler.messages import Ceilings, RoofQuality
from tui_profiler.probe.measure.ceilings.ceilings import measure_again

Start = Callable[..., Terminal]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of this process. This machine is measured once for all tests, busy or not."""
    shared, made = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("cache")
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    roofs = shared / "roofs"
    with (shared / "roofs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not roofs.exists():
            measured = measure_again("cpu", torch.get_num_threads(), made)
            (file,) = made.glob("ceilings-*")
            kept = json.loads(file.read_bytes())
            kept["ceilings"] = msgspec.to_builtins(_all_good(measured))
            file.write_text(json.dumps(kept))
            roofs.mkdir()
            file.rename(roofs / file.name)
    shutil.copytree(roofs, made / "tui-profiler")
    return made


def _all_good(measured: Ceilings) -> Ceilings:
    """Return roofs that are good enough for a test of something else, whatever the machine did."""
    good = RoofQuality(measured.measured_at, 0.0)
    return replace(
        measured,
        compute=tuple(replace(one, quality=good) for one in measured.compute),
        caches=tuple(replace(one, quality=good) for one in measured.caches),
        memory_quality=good,
        op_quality=good,
    )


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo model that ran for two seconds, recorded by the real program."""
    path = tmp_path_factory.mktemp("recording") / "cnn.rec"
    done = subprocess.run(
        [*COMMAND, "record", "demo:cnn", "-o", str(path), "--seconds", "2", "--threads", "1"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{path}: wrote " in done.stderr
    return path


@pytest.fixture
def start(cache: Path) -> Iterator[Start]:
    """Start ``tui-profiler`` with arguments on a pty; models opened before are forgotten."""
    started: list[Terminal] = []

    def begin(
        *arguments: str,
        forgets: bool = True,
        environment: dict[str, str] | None = None,
        **options: object,
    ) -> Terminal:
        if forgets:
            shutil.rmtree(cache / "tui-profiler" / "remembered", ignore_errors=True)
        options["environment"] = {"XDG_CACHE_HOME": str(cache), **(environment or {})}
        terminal = Terminal([*COMMAND, *arguments], **options)  # type: ignore[arg-type] # passed on
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.close()
