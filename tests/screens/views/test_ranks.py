"""The ranks screen: on sessions made by hand, and on four real ranks over gloo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.app.ranks_app import RanksApp
from screens.common.base_app import BaseApp
from screens.explorer.screen import ExplorerScreen
from screens.start.programs import columns
from screens.views.ranks.lines import difference_lines, look_of, rank_lines
from screens.views.ranks.screen import DifferenceScreen, RanksScreen
from screens.widgets.lines import line_width, text
from tests.probe.watch.watched_program import ROOT, sockets_folder
from tests.queries.test_ranks import EARLY, LATE, run, times
from tests.screens.screen_text import screen_text
from tests.serving.answers import answer, say, serving
from tests.viewer import place_of, wait_until
from tui_profiler.connection.sockets import Place, places
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import Ended, LoadSpec, Program, Unknown
from tui_profiler.queries.ranks import ModuleDifference, verdict
from tui_profiler.serving.address import address
from tui_profiler.session.session_group import NO_RANKS, SessionGroup, with_message, with_rank
from tui_profiler.source.attached import Found, find
from tui_profiler.source.ranks import Ranks, by_run, is_whole_run

HOSTILE = "\x1b[31m[/nope]"
SLOW = 2


def shown(group: SessionGroup, cells: int = 120, glyphs: Glyphs = UNICODE) -> list[str]:
    lines = rank_lines(group, 1.0, 0, look_of(cells, glyphs), 12)
    assert all(line_width(line) == cells for line in lines)
    return [text(line).rstrip() for line in lines]


def test_the_straggler_is_named_above_its_row_and_its_bar_has_the_least_waiting() -> None:
    lines = shown(run(EARLY, EARLY, LATE, EARLY))

    assert lines[2].startswith(" ✗ rank 2 is the straggler: in a step of 32.0 ms")
    first = lines[6].split()
    assert first[:9] == ["▌", "2", "102", "32.00", "30.00", "1.00", "1.00", "20.00", "62"]
    assert [line.split()[0] for line in lines[7:10]] == ["0", "1", "3"]


@pytest.mark.parametrize("cells", [60, 80, 99, 100, 160])
def test_the_difference_of_two_ranks_has_the_backward_where_it_is_known(cells: int) -> None:
    first, second = run(EARLY, LATE).ranks
    one = ModuleDifference("block.second", "Linear", 2e-3, 1e-3, 9e-3, 8e-3)
    look = look_of(cells, UNICODE)
    lines = difference_lines(first, second, (one, replace(one, first_backward=None)), look)
    assert {line_width(line) for line in lines} == {cells}
    *_, head, row, last = (" ".join(text(line).split()) for line in lines)
    assert head.endswith("more bwd")
    assert row.endswith("+1000 9000 8000 +1000" if cells >= 100 else "1000 +1000 +1000")
    assert last.endswith("–")
    shown = " ".join(text(line).strip() for line in lines)
    assert "and of the backward of a step" in shown
    forward = (replace(one, first_backward=None, second_backward=None),)
    shown = " ".join(text(line).strip() for line in difference_lines(first, second, forward, look))
    assert "no backward: not timed by module in both" in shown


@pytest.mark.parametrize("cells", [20, 60, 80, 120])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_row_is_as_wide_as_the_screen_and_safe(cells: int, glyphs: Glyphs) -> None:
    group = with_rank(NO_RANKS, "a", Program(HOSTILE, 1, HOSTILE, 0.0, 0.0, 0, 4, HOSTILE))
    group = with_message(group, "a", times(0.1, Unknown(HOSTILE)))
    group = with_rank(group, "b", Program(HOSTILE, 2, HOSTILE, 0.0, 0.0, 1, 4, HOSTILE))
    group = with_message(group, "b", Ended(0, False, last_line=HOSTILE, attached=True))
    lines = shown(group, cells, glyphs)

    assert not any("\x1b" in line for line in lines)
    if glyphs is ASCII:
        assert "".join(lines).isascii()


class Shown(BaseApp):
    """The ranks of a run that stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def get_default_screen(self) -> RanksScreen:
        return RanksScreen(UNICODE, lambda: 1.0, self.opened.append).data_bind(BaseApp.group)

    def on_mount(self) -> None:
        self.group = run(EARLY, times(0.020, 0.011), LATE, None)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_number_or_a_click_orders_the_ranks_and_a_click_selects_one(
    size: tuple[int, int],
) -> None:
    app = Shown()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()

        def numbers() -> list[str]:
            rows = screen_text(app).splitlines()[y + 1 : y + 5]
            return [line.strip("▌ ").split()[0] for line in rows]

        lines = screen_text(app).splitlines()
        y = next(at for at, line in enumerate(lines) if line.startswith(" rank  "))
        assert numbers() == ["2", "1", "0", "3"]
        await pilot.press("1")
        assert numbers() == ["0", "1", "2", "3"]
        assert "↑rank" in screen_text(app)
        await pilot.click(offset=(lines[y].index("wait"), y))
        assert numbers() == ["0", "1", "2", "3"]
        await pilot.press("S")
        assert numbers() == ["2", "1", "0", "3"]
        assert "↑wait" in screen_text(app)
        await pilot.click(offset=(20, y + 2))
        assert screen_text(app).splitlines()[y + 2].startswith("▌")
        await pilot.press("1")
        assert screen_text(app).splitlines()[y + 2].startswith("▌   1")
        await pilot.click(offset=(20, y + 1), times=2)
        assert app.opened == ["0"]
        await pilot.press("1", "1")
        assert numbers() == ["2", "1", "0", "3"]


def test_ranks_of_one_run_are_one_entry_and_helpers_and_others_are_not_in_it() -> None:
    def found(pid: int, **others: object) -> Found:
        fields = {"name": "net", "rank": 0, "ranks": 3, "run": "r", **others}
        program = Program(pid=pid, command="t.py", started_at=0.0, at=5.0, **fields)  # type: ignore[arg-type]  # by name
        return Found(Place(Path(f"/{pid}"), pid, 0, "net"), program)

    entries = by_run(
        [
            found(1),
            found(2, rank=1),
            found(3, rank=1, role="DataLoader worker"),
            found(4, rank=None, ranks=None, run=""),
            found(5, run="another"),
        ]
    )

    assert [one.place.pid for one in entries] == [1, 3, 4, 5]
    assert is_whole_run(entries[0])
    assert "2 ranks" in columns(entries[0])
    assert "rank 0 of 3" in columns(entries[3])


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Four ranks that train; one of them is slow inside of ``block.0``."""
    with sockets_folder() as folder:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(folder))
        stop = tmp_path / "stop"
        command = [sys.executable, "-m", "tests.probe.measure.ranks.rank_program", "--forks", "4"]
        command += ["--slow-rank", str(SLOW), "--slow-seconds", "0.1", "--until", str(stop)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, start_new_session=True
        ) as child:
            try:
                place_of("net", seconds=60)
                wait_until(lambda: len(places()) == 4, seconds=60)
                yield child
            finally:
                stop.touch()
                os.killpg(child.pid, signal.SIGKILL)


async def until(pilot: Pilot[int], holds: Callable[[], object], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"in vain:\n{screen_text(pilot.app)}"
        await pilot.pause(0.02)


@pytest.fixture
def server() -> Iterator[str]:
    """Run an inference server beside the ranks; return the address of its metrics."""
    with serving(lambda handler: say(handler, answer("vllm-0.32", 1))) as url:
        yield url


async def test_the_slow_rank_of_four_is_named_and_its_slow_module(
    ranks: subprocess.Popen[bytes], server: str
) -> None:
    (entry,) = by_run(find())
    assert entry.program is not None
    assert entry.program.ranks == 4
    started_at = time.time()
    source = Ranks(entry.program, started_at)
    spec = LoadSpec("net", started_at=started_at)
    app = RanksApp(source, spec, begins_with_all=True, serving=address(server))
    async with app.run_test(size=(120, 40)) as pilot:

        def measured() -> bool:
            known = [rank for rank in app.group.ranks if rank.session.steps is not None]
            return len(known) == 4 and all(rank.session.timings for rank in known)

        await until(pilot, measured)
        found = verdict(app.group, app.now())
        straggler = app.group.rank(found.key)
        assert straggler is not None
        assert straggler.number == SLOW
        assert found.level == "critical"
        assert found.lines[1].startswith("its forward takes")
        await until(pilot, lambda: f"rank {SLOW} is the straggler" in screen_text(app))

        await pilot.press("d")
        await pilot.pause()
        assert isinstance(app.screen, DifferenceScreen)
        rows = screen_text(app).splitlines()
        head = next(index for index, line in enumerate(rows) if line.startswith(" module"))
        assert rows[head + 1].split()[:2] == ["block.0", "Slow"]
        await pilot.press("escape", "enter")
        await until(pilot, lambda: isinstance(app.screen, ExplorerScreen))
        assert app.session.serving is not None  # Beside every rank, at once.
        assert app.session.serving.figures is not None
        await until(pilot, lambda: app.session.tree is not None)
        assert app.session.hello is not None
        assert app.session.hello.program is not None
        assert app.session.hello.program.rank == SLOW
        await pilot.press("R")
        assert isinstance(app.screen, RanksScreen)

        os.kill(straggler.program.pid, signal.SIGKILL)
        await until(pilot, lambda: "gone: it disconnected" in screen_text(app))
