"""A watched program whose clock is set while viewers look: nothing hangs, no rate is absurd."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.viewer import Viewer, place_of
from tui_profiler.session import Session

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))), None)
PROGRAM = """
import select
model, x = Net().eval(), torch.randn(3, 8)
handle = tui_profiler.watch(model, "faked", grace_seconds=0.0)
say("ready")
done = threading.Event()
reader = threading.Thread(target=lambda: (sys.stdin.readline(), done.set()))
reader.start()
while not done.is_set():
    with torch.no_grad():
        model(x)
    select.select([], [], [], 0.002)
handle.close()
say("ended")
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made


@pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed")
@pytest.mark.parametrize("sets", ["the clock on the wall", "every clock"])
def test_a_clock_that_is_set_leaves_times_and_rates_right(
    sets: str, folder: Path, tmp_path: Path
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    faked = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        **({} if sets == "every clock" else {"DONT_FAKE_MONOTONIC": "1"}),
    }
    with WatchedProgram(PROGRAM, folder, **faked) as program:
        assert program.said() == ["ready"]
        with Viewer(place_of("faked")) as viewer:
            for offset in ("+0", "+1000d", "-1000d", "+1h", "+0"):
                # Whole or not at all: libfaketime 0.9.12 ends a program that reads an empty file.
                (tmp_path / "next").write_text(f"{offset}\n")
                (tmp_path / "next").replace(clock)
                before = forwards(viewer.session)
                session = viewer.until(lambda s, before=before: forwards(s) > before + 20)
                assert session.timings is not None
                tick = session.timings.tick
                assert 0 < tick.latency_p50 <= tick.latency_p95 < 10
                assert math.isnan(tick.per_second) or 0.1 < tick.per_second < 1000
                assert session.overhead is None or 0 <= session.overhead.ratio < 1
                assert sets == "every clock" or 0 <= tick.at < 3600
            assert not viewer.is_hung_up_on
            program.hears("end")
            assert program.said() == ["ended"]
        assert "Traceback" not in program.complaint()


def forwards(session: Session) -> int:
    return session.timings.tick.forwards if session.timings is not None else 0
