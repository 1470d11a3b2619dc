"""Cells and pens: the fewest bytes, and the same screen as with all of them."""

from __future__ import annotations

import random
import unicodedata

import pyte
import pytest
from rich.cells import get_character_cell_size
from wcwidth import wcwidth

from benchmarks.terminal.emulator import CellScreen
from screens.terminal import cells

RED = cells.pen_from("1;38;2;255;0;0;48;5;17")


def wanted(text: str, pen: cells.CellStyle = cells.PLAIN) -> list[cells.Cell]:
    return cells.cells_of(text, pen)


def put(screen: cells.Cells, x: int, y: int, text: str) -> None:
    found = wanted(text)
    screen.put(x, y, found, len(found))


def frame(screen: cells.Cells, most_bytes: int | None = None) -> str:
    return screen.frame(most_bytes).finished((0, 0))


def shown(emulator: pyte.Screen, *frames: str) -> list[str]:
    stream = pyte.Stream(emulator)
    for one in frames:
        stream.feed(one)
    return [line.rstrip() for line in emulator.display]


def test_only_what_changed_is_written():
    screen = cells.Cells(20, 3)
    for y in range(3):
        put(screen, 0, y, "one two three four  ")
    assert len(frame(screen)) > 60
    put(screen, 8, 1, "THREE")
    put(screen, 14, 1, "four")
    assert frame(screen) == "\x1b[2;9HTHREE\x1b[H"
    put(screen, 0, 1, "one two THREE four  ")
    assert screen.frame().parts == []


def test_a_short_way_is_written_again_and_a_long_one_jumped_over():
    screen = cells.Cells(20, 1)
    put(screen, 0, 0, "a1b2                ")
    frame(screen)
    put(screen, 0, 0, "A1B2               !")
    assert frame(screen) == "\x1b[HA1B\x1b[16C!\x1b[H"


def test_a_pen_is_changed_by_what_differs():
    assert cells.CellStyle(("1",), "38;2;255;0;0", "48;5;17") == RED
    assert cells.CellStyle(("4",), "97", "107") == cells.pen_from("4;97;107")
    assert cells.pen_from("39;49") == cells.pen_from("") == cells.PLAIN
    assert cells.turn(cells.PLAIN, RED) == "\x1b[1;38;2;255;0;0;48;5;17m"
    assert cells.turn(RED, RED._replace(colour="31")) == "\x1b[31m"
    assert cells.turn(RED, RED._replace(attributes=())) == "\x1b[22m"
    assert cells.turn(RED, cells.PLAIN) == "\x1b[0m"


def test_from_any_pen_to_any_other_the_terminal_arrives_there():
    chance = random.Random(1)
    codes = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "21", "51", "53"]
    grounds = ["", "31", "39", "97", "38;5;130", "38;2;1;2;3"]

    def any_pen() -> cells.CellStyle:
        kept = [code for code in codes if chance.random() < 0.2]
        ground = chance.choice(grounds)
        behind = chance.choice(["", "41", "49", "107", "48;5;22", "48;2;9;8;7"])
        return cells.pen_from(";".join(filter(None, (*kept, ground, behind))))

    walked, pen = CellScreen(4, 1), cells.PLAIN
    for _ in range(3_000):
        old, pen = pen, any_pen()
        shown(walked, cells.turn(old, pen), "\x1b[Hx")
        afresh = CellScreen(4, 1)
        parts = (*pen.attributes, pen.colour, pen.background)
        shown(afresh, f"\x1b[0;{';'.join(filter(None, parts)) or '0'}m", "\x1b[Hx")
        assert walked.cells() == afresh.cells(), (old, pen)


def test_a_link_is_opened_and_closed():
    linked = cells.PLAIN._replace(link="id=1;https://a.example")
    assert cells.turn(cells.PLAIN, linked) == "\x1b]8;id=1;https://a.example\x1b\\"
    assert cells.turn(linked, cells.PLAIN) == "\x1b]8;;\x1b\\"


def test_what_is_called_sure_has_that_width_by_two_tables():
    for number in range(0x20, 0x20000):
        character = chr(number)
        if unicodedata.category(character) in ("Cs", "Cn", "Co") or cells.is_odd(character):
            continue
        expected = 1 if cells.is_sure(character) else 2
        assert get_character_cell_size(character) == wcwidth(character) == expected, hex(number)


def test_half_of_a_wide_character_is_never_left():
    screen = cells.Cells(8, 1)
    put(screen, 0, 0, "日本語ab")
    first = frame(screen)
    put(screen, 1, 0, "x")
    put(screen, 3, 0, "語")
    assert shown(CellScreen(8, 1), first, frame(screen))[0] == " x 語 ab"
    put(screen, 7, 0, "日")
    assert shown(CellScreen(8, 1), frame(screen)) == [""]


@pytest.mark.parametrize("odd", ["❤\ufe0f", "😀", "⌚", "✔"])
@pytest.mark.parametrize("width", [1, 2])
def test_a_terminal_that_measures_otherwise_spoils_no_row(odd: str, width: int):
    class Other(pyte.Screen):
        def draw(self, data: str) -> None:
            for part in cells.graphemes(data):
                x = self.cursor.x
                if part:
                    self.buffer[self.cursor.y][x] = self.cursor.attrs._replace(data=part[0])
                    taken = width if cells.is_odd(part) else 1
                    if taken == 2:
                        self.buffer[self.cursor.y][x + 1] = self.cursor.attrs._replace(data=" ")
                    self.cursor.x = x + taken

    screen, terminal = cells.Cells(20, 1), Other(20, 1)
    put(screen, 0, 0, f"one {odd}| two 1 ms".ljust(18))
    shown(terminal, frame(screen))
    place = len(wanted(f"one {odd}| two "))
    for figure in "2345":
        put(screen, place, 0, figure)
        shown(terminal, frame(screen))
        row = "".join(terminal.buffer[0][x].data for x in range(20))
        assert row[place : place + 4] == f"{figure} ms"
        assert row[: len("one ")] == "one "
        assert "|" in row


def test_an_unknown_terminal_is_painted_whole():
    screen = cells.Cells(6, 2)
    for y in range(2):
        put(screen, 0, y, "abcdef")
    first = frame(screen)
    screen.forget()
    assert frame(screen) == first


def test_a_slow_link_gets_whole_rows_in_turn():
    screen, terminal = cells.Cells(10, 4), CellScreen(10, 4)
    for y in range(4):
        put(screen, 0, y, "0123456789")
    assert shown(terminal, frame(screen, 10)) == ["0123456789", "", "", ""]
    put(screen, 0, 0, "changed")
    assert shown(terminal, frame(screen, 25)) == ["0123456789"] * 3 + [""]
    assert shown(terminal, frame(screen)) == ["changed789", *["0123456789"] * 3]
