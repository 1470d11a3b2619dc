"""Which theme and which characters are begun with, by what the environment says."""

from __future__ import annotations

import pytest

from screens.settings.appearance import glyphs_for, is_utf8, theme_for
from screens.widgets.rows import plain
from tui_profiler.formatting.canvas import ASCII, BLOCK, UNICODE, Glyphs

# What code page 437 draws in place of controls, as in Unicode's IBMGRAPH.TXT.
DRAWN_CONTROLS = "☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼⌂"


def of_page_437(text: str) -> bool:
    return all(c in DRAWN_CONTROLS or c.encode("cp437", "ignore") for c in text)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "en_US.utf8"}, True),
        ({"LANG": "de_DE.UTF-8@euro"}, True),
        ({"LANG": "C"}, False),
        ({"LANG": "POSIX"}, False),
        ({"LANG": "en_US.ISO-8859-1"}, False),
        ({"LANG": "de_DE"}, False),
        ({"LANG": "C.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C", "LC_ALL": "C.UTF-8"}, True),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, True),
        # Python has set LC_CTYPE itself where the user's locale is C.
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, True),
    ],
)
def test_the_encoding_is_read_from_the_locale(environment: dict[str, str], expected: bool) -> None:
    assert is_utf8(environment) is expected


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("auto", {"LANG": "C.UTF-8", "TERM": "xterm-256color"}, UNICODE),
        ("auto", {"LANG": "C.UTF-8", "TERM": "linux"}, BLOCK),
        ("auto", {"LANG": "C", "TERM": "linux"}, ASCII),
        ("auto", {"LANG": "C", "TERM": "xterm"}, ASCII),
        ("unicode", {"LANG": "C"}, UNICODE),
        ("block", {}, BLOCK),
        ("ascii", {"LANG": "C.UTF-8"}, ASCII),
    ],
)
def test_characters_go_by_locale_and_terminal(
    name: str, environment: dict[str, str], expected: Glyphs
) -> None:
    assert glyphs_for(name, environment) == expected  # type: ignore[arg-type] # one of the sets


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("auto", {"TERM": "xterm-256color"}, "dark"),
        ("auto", {"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "light"),
        ("auto", {"TERM": "xterm-256color", "COLORFGBG": "15;default;0"}, "dark"),
        ("auto", {"TERM": "linux"}, "terminal"),
        ("auto", {"TERM": "vt220", "COLORFGBG": "0;7"}, "terminal-light"),
        ("auto", {"TERM": "screen", "COLORTERM": "truecolor"}, "dark"),
        ("light", {"TERM": "linux"}, "light"),
    ],
)
def test_the_theme_goes_by_the_terminal(
    name: str, environment: dict[str, str], expected: str
) -> None:
    assert theme_for(name, environment) == expected  # type: ignore[arg-type] # one of the names


def test_the_block_set_is_drawn_by_the_fonts_of_consoles() -> None:
    fields = Glyphs.__struct_fields__
    assert [name for name in fields if not of_page_437(getattr(BLOCK, name))] == []


def test_what_panels_write_is_drawn_by_consoles_too() -> None:
    line = (("1×3×224 – 36.5 µs … CO₂ › ±2 ≥ 3 → x ↑ −6 % ● ‖ ✗", "ink"),)
    ((drawn, role),) = plain(line, BLOCK)
    assert of_page_437(drawn)
    assert (len(drawn), role) == (len(line[0][0]), "ink")
    assert plain(line, UNICODE) == line
    assert plain(line, ASCII)[0][0].isascii()


def test_names_stay_as_they_are_on_the_block_set() -> None:
    assert plain((("層 café", "ink"),), BLOCK) == (("層 café", "ink"),)
