"""The list of watched models: its order, and what a click does."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from screens.settings.preferences import Preferences
from screens.start.picker import Picker
from screens.start.programs import matching, one_of
from tests.screens.screen_text import screen_text
from tui_profiler.connection.sockets import Place
from tui_profiler.messages import Program
from tui_profiler.source.attached import AttachError, Found


def found(pid: int, name: str, command: str, watched: float) -> Found:
    program = Program(name, pid, command, 0.0, watched)
    return Found(Place(Path(f"/{pid}"), pid, 0, name), program)


SILENT = Found(Place(Path("/9"), 9, 0, "aaa"), None, why_not="does not answer")
FOUND = (found(31, "net", "b.py", 7.0), SILENT, found(12, "vit", "a.py", 90.0))


class Still(Picker):
    """Programs that neither come nor go."""

    async def _look(self) -> None:
        self._show_ordered(FOUND)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_number_or_a_click_orders_the_programs_and_a_click_chooses_one(
    size: tuple[int, int],
) -> None:
    app = Still("", Preferences())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()

        def lines() -> list[str]:
            return screen_text(app).splitlines()  # type: ignore[arg-type]  # it only reads it

        def names() -> list[str]:
            return [line.strip(" ●").split()[0] for line in lines()[3:6]]

        assert lines()[2].split() == ["model", "process", "command", "watched", "device", "it/s"]
        assert names() == ["net", "aaa", "vit"]
        await pilot.press("3")
        assert names() == ["vit", "net", "aaa"]
        assert "↑command" in lines()[2]
        await pilot.press("3")
        assert names() == ["net", "vit", "aaa"]
        await pilot.click(offset=(lines()[2].index("watched"), 2))
        assert names() == ["vit", "net", "aaa"]
        assert "↓watched" in lines()[2]
        await pilot.press("1", "1", "1")
        assert names() == ["net", "aaa", "vit"]
        await pilot.click(offset=(6, 4), times=2)
        assert app.is_running
        await pilot.click(offset=(6, 5), times=2)
    assert app.return_value == FOUND[2]


def test_programs_are_found_by_name_model_or_process_and_all_without_a_word() -> None:
    every = [*FOUND, MEASURED, UNPREPARED]
    assert matching(every, "") == every
    assert matching(every, "Net") == [MEASURED]
    assert matching(every, "serve.py") == [MEASURED, UNPREPARED]
    assert matching(every, "44") == [UNPREPARED]
    assert matching(every, "vi") == [FOUND[2]]


UNPREPARED = Found(
    Place(Path("/proc/44"), 44, 0, "serve.py"),
    Program("serve.py", 44, "serve.py", 0.0, 500.0),
    listens=False,
)
MEASURED = Found(
    Place(Path("/45"), 45, 0, "serve.py"),
    Program("serve.py", 45, "serve.py", 0.0, 9.0, model="Net", device="cuda:1", per_second=12.34),
)


class WithUnprepared(Picker):
    """A program that listens, and one that has torch loaded and does not."""

    async def _look(self) -> None:
        self._show_ordered((MEASURED, UNPREPARED))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_program_that_does_not_listen_is_asked_about_first(size: tuple[int, int]) -> None:
    app = WithUnprepared("", Preferences())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()

        def lines() -> list[str]:
            return screen_text(app).splitlines()  # type: ignore[arg-type]  # it only reads it

        assert "1 watched models, 1 more with torch" in lines()[0]
        rows = [" ".join(line.split()) for line in lines()[3:5]]
        assert rows[0] == "● Net pid 45 serve.py watched 0m 09s cuda:1 12.3 it/s"
        assert rows[1] == "– pid 44 serve.py not watched – –"
        await pilot.press("6", "6", "down", "enter")
        assert "start a listener in pid 44" in lines()[-1]
        await pilot.press("escape")
        assert "start a listener" not in lines()[-1]
        assert app.is_running
        await pilot.press("enter", "up", "down")
        assert "start a listener" not in lines()[-1]
        await pilot.press("enter", "enter")
    assert app.return_value == UNPREPARED


def test_a_process_id_means_the_listener_of_the_process_beside_a_watched_model() -> None:
    """It was attached to by its process id, and called ``watch`` later."""
    named = found(7, "encoder", "late.py", 1.0)
    whole = found(7, "late.py", "late.py", 9.0)
    assert named.program is not None
    assert whole.program is not None
    whole = whole._replace(program=replace(whole.program, model="Sequential"))
    assert one_of([named, whole], "7") is whole
    assert one_of([named], "7") is named
    with pytest.raises(AttachError, match=r"several models .* encoder \(pid 7\), late.py") as two:
        one_of([named, whole], "")
    assert two.value.instead == "one of these names"
    with pytest.raises(AttachError, match="several programs") as more:
        one_of([named, found(8, "encoder", "late.py", 1.0)], "encoder")
    assert more.value.instead == "one of these process ids"
    ranks = [
        found(pid, "net", "ddp.py", 1.0)._replace(
            program=Program("net", pid, "ddp.py", 0.0, 1.0, rank=pid - 7, ranks=2)
        )
        for pid in (7, 8)
    ]
    with pytest.raises(AttachError, match=r"pid 7, rank 0 of 2\), net \(pid 8, rank 1 of 2"):
        one_of(ranks, "net")
