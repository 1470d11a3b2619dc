"""The list of a script's processes: rows, ranks as one, and what enter shows."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from screens.common.base_app import ThemedApp
from screens.settings.preferences import Preferences
from screens.start.processes import ProcessesScreen
from tests.screens.screen_text import screen_text
from tui_profiler.connection.sockets import Place
from tui_profiler.formatting.canvas import UNICODE
from tui_profiler.messages import Program
from tui_profiler.source.attached import Found
from tui_profiler.source.ranks import is_whole_run

HOSTILE = "\x1b[31mserve"


def found(pid: int, name: str, rank: int | None = None) -> Found:
    program = Program(name, pid, "train.py", 0.0, 5.0, model="Net" if rank is not None else "")
    if rank is not None:
        program = replace(program, rank=rank, ranks=2, run="r")
    return Found(Place(Path(f"/{pid}"), pid, 0, name), program)


SILENT = Found(Place(Path("/9"), 9, 0, "train.py"), None, why_not="it does not respond")


class Opened(ThemedApp[None]):
    """The screen alone."""

    def __init__(self, processes: list[Found]) -> None:
        super().__init__(Preferences().theme)
        self.processes = processes
        self.shown: list[Found] = []

    def get_default_screen(self) -> ProcessesScreen:
        return ProcessesScreen(UNICODE, lambda: self.processes, self.shown.append)


async def test_ranks_are_one_row_and_enter_shows_what_answers() -> None:
    app = Opened([SILENT, found(31, HOSTILE), found(32, "train.py", 0), found(33, "train.py", 1)])
    async with app.run_test(size=(120, 20)) as pilot:
        await pilot.pause()
        rows = screen_text(app).splitlines()
        assert rows[0].strip() == "4 processes of the script with torch"
        assert "it does not respond" in rows[3]
        assert "\\x1b[31mserve" in rows[4]
        assert rows[5].split()[1:4] == ["Net", "pid", "32"]
        assert "2 ranks" in rows[5]
        assert not rows[6].strip()
        await pilot.press("enter")
        assert not app.shown
        await pilot.press("down", "enter", "G", "enter")
        assert [one.place.pid for one in app.shown] == [31, 32]
        assert is_whole_run(app.shown[1])


async def test_before_any_process_has_torch_the_list_says_so() -> None:
    app = Opened([])
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()
        assert "no process of the script has imported torch yet" in screen_text(app)
        await pilot.press("enter", "down")
        assert not app.shown
