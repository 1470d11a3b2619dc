"""Keys that take the short way, and rows that are composed alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

import pytest
from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.drivers.headless_driver import HeadlessDriver
from textual.events import Key
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from screens.options.model import STOCK_OUTPUT
from screens.terminal.painting import KeysFirstApp, PaintedScreen, runs


class Kept(HeadlessDriver):
    """Keeps what is written."""

    written = ""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.written += data


class Rows(Widget, can_focus=True):
    """Rows of one text; notes which of them it was asked for."""

    DEFAULT_CSS = "Rows { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.row = "a"

    def render_lines(self, crop: Region) -> list[Strip]:
        self.asked += crop.line_range
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        return Strip([Segment(self.row * self.size.width)], self.size.width)

    def change(self, row: str, y: int) -> None:
        self.row = row
        self.refresh(Region(0, y, 4, 1))


class Typed(PaintedScreen[None]):
    """Notes its keys, and knows of one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "note('j')"),
        Binding("x", "note('x')"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.noted = ""

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Rows()
            yield Rows()
        yield Static("over it", id="over")

    @property
    def rows(self) -> list[Rows]:
        return list(self.query(Rows))

    def straight(self, key: str) -> str:
        return "note('j')" if key == "j" else ""

    def action_note(self, key: str) -> None:
        self.noted += key
        self.rows[0].change(key, 2)


class TypedApp(KeysFirstApp[None]):
    """Shows it."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layers: base above; }
    #over { layer: above; position: absolute; offset: 25 7; width: 10; height: 4; }
    """

    def __init__(self) -> None:
        super().__init__(driver_class=Kept)
        self.typed = Typed()

    def get_default_screen(self) -> Typed:
        return self.typed

    def written(self) -> str:
        assert isinstance(self._driver, Kept)
        found, self._driver.written = self._driver.written, ""
        return found


def in_app(test: Callable[[TypedApp, Typed, Pilot[Any]], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        app = TypedApp()
        async with app.run_test(headless=False, size=(40, 12)) as pilot:
            await pilot.pause()
            app.written()
            for each in app.typed.rows:
                each.asked.clear()
            await test(app, app.typed, pilot)

    asyncio.run(run())


def test_a_key_is_carried_out_and_painted_where_it_arrives() -> None:
    async def test(app: TypedApp, screen: Typed, pilot: Pilot[Any]) -> None:
        await app.on_event(Key("j", "j"))
        assert screen.noted == "j"
        assert "j" * 20 in app.written()
        await pilot.pause()
        assert screen.noted == "j"
        assert app.written() == ""

    in_app(test)


def test_a_key_keeps_its_place_behind_one_that_goes_round() -> None:
    async def test(app: TypedApp, screen: Typed, pilot: Pilot[Any]) -> None:
        await app.on_event(Key("x", "x"))
        await app.on_event(Key("j", "j"))
        assert screen.noted == ""
        await pilot.pause()
        assert screen.noted == "xj"
        assert "j" * 20 in app.written()

    in_app(test)


def test_a_key_keeps_its_place_behind_one_that_was_taken_and_waits() -> None:
    async def test(app: TypedApp, screen: Typed, pilot: Pilot[Any]) -> None:
        app.post_message(Key("x", "x"))
        assert app._peek_message() is not None  # As Textual does before each message.
        await app.on_event(Key("j", "j"))
        assert screen.noted == ""
        await pilot.pause()
        assert sorted(screen.noted) == ["j", "x"]

    in_app(test)


def test_where_textual_draws_by_itself_keys_go_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STOCK_OUTPUT, "1")

    async def test(app: TypedApp, screen: Typed, pilot: Pilot[Any]) -> None:
        await app.on_event(Key("j", "j"))
        assert screen.noted == ""
        await pilot.pause()
        assert screen.noted == "j"
        assert len(screen.rows[0].asked) > 1

    in_app(test)


def test_a_name_of_textuals_that_is_gone_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(app: TypedApp, screen: Typed, pilot: Pilot[Any]) -> None:
        monkeypatch.delattr(screen._compositor, "_dirty_regions")
        assert not screen.is_known
        monkeypatch.undo()
        assert screen.is_known

    in_app(test)


def test_one_widget_is_asked_for_the_rows_that_changed() -> None:
    async def test(app: TypedApp, screen: Typed, pilot: Pilot[Any]) -> None:
        left, right = screen.rows
        left.change("b", 3)
        left.change("b", 4)
        left.change("b", 7)
        screen.paint()
        assert (sorted(left.asked), right.asked) == ([3, 4, 7], [])
        assert app.written().count("b" * 20) == 3

    in_app(test)


def test_a_row_that_something_lies_over_is_composed_by_textual() -> None:
    async def test(app: TypedApp, screen: Typed, pilot: Pilot[Any]) -> None:
        right = screen.rows[1]
        right.change("b", 9)
        screen.paint()
        assert len(right.asked) > 1
        written = app.written()
        assert "b" * 4 in written
        assert "b" * 5 not in written

    in_app(test)


def test_neighbouring_rows_are_one_run() -> None:
    assert runs({7, 3, 4, 9, 8}) == [range(3, 5), range(7, 10)]
    assert runs(set()) == []
