"""Hostile text made safe, and text cut to a width."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_profiler.formatting.text import (
    MAX_CHARACTERS,
    fit,
    in_ascii,
    middle,
    safe,
    width,
    without_escapes,
    wrap,
)

HOSTILE = [
    ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
    ("\x1b]52;c;cm0gLXJm\x07", "\\x1b]52;c;cm0gLXJm\\x07"),
    ("\x9b31mred", "\\x9b31mred"),
    ("ends\n", "ends\\n"),
    ("one\ntwo\r\nthree", "one\\ntwo\\r\\nthree"),
    ("a\tb", "a b"),
    ("no\u00a0break", "no break"),
    ("del\x7fete", "del\\x7fete"),
    ("abc\u202edcba", "abc\\u202edcba"),
    ("zero\u200bwidth", "zero\\u200bwidth"),
    ("line\u2028end", "line\\u2028end"),
    ("soft\u00adhyphen", "soft\\xadhyphen"),
    ("tag\U000e0041", "tag\\U000e0041"),
    ("half\ud800", "half\\ud800"),
    ("private\ue000", "private\\ue000"),
    ("filler\u3164", "filler\\u3164"),
    ("flag\U0001f1e9", "flag\\U0001f1e9"),
    ("thumb\U0001f44d\U0001f3fd", "thumb\U0001f44d\\U0001f3fd"),
    ("heart\u2764\ufe0f", "heart\u2764"),
    ("form\ufe00", "form\\ufe00"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_what_could_move_the_terminal_is_written_out(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    "text", ["", "layer1.0.conv1", "[/nope]", "[bold]", "多层", "é", "e\u0301"]
)
def test_what_is_printable_stays(text: str) -> None:
    assert safe(text) == text


def test_ten_thousand_characters_are_cut() -> None:
    assert safe("x" * 10_000) == "x" * (MAX_CHARACTERS - 1) + "…"


@given(st.text(st.characters(), max_size=60))
def test_safe_text_holds_only_printable_characters(text: str) -> None:
    assert safe(text).isprintable()


@given(st.text(st.characters(), max_size=60))
def test_safe_text_holds_no_formatting(text: str) -> None:
    assert not {unicodedata.category(character) for character in safe(text)} & {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }


@given(st.text(st.characters(), max_size=600))
def test_safe_text_is_safe_already(text: str) -> None:
    once = safe(text[:40])
    assert safe(once) == once


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("abc", 3),
        ("多层", 4),
        ("e\u0301", 1),
        ("e\u20dd", 1),
        ("ｆ", 2),
        ("", 0),
        ("─━▸", 3),
        ("\u1112\u1161\u11ab", 2),
    ],
)
def test_width_is_counted_in_cells(text: str, cells: int) -> None:
    assert width(text) == cells


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 4, "abc…"),
        ("abcd", 4, "abcd"),
        ("多层网络", 5, "多层…"),
        ("多层网络", 4, "多… "),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_text_is_cut_at_its_end_and_filled(text: str, cells: int, shown: str) -> None:
    assert fit(text, cells) == shown


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("layer3.2.conv2", 20, "layer3.2.conv2"),
        ("layer3.2.conv2", 9, "laye…onv2"),
        ("layer3.2.conv2", 2, "la"),
        ("多层网络", 5, "多…络"),
    ],
)
def test_a_name_is_cut_in_its_middle(text: str, cells: int, shown: str) -> None:
    assert middle(text, cells) == shown


@given(st.text("ab多e\u0301…", max_size=30), st.integers(0, 20))
def test_fitted_text_takes_exactly_its_cells(text: str, cells: int) -> None:
    assert width(fit(text, cells)) == cells


@given(st.text("ab多e\u0301…", max_size=30), st.integers(0, 20), st.sampled_from(["…", ".."]))
def test_text_cut_in_its_middle_fits(text: str, cells: int, ellipsis: str) -> None:
    assert width(middle(text, cells, ellipsis)) <= cells


def test_plus_or_minus_in_ascii_is_not_the_mark_of_an_estimate() -> None:
    assert in_ascii("0.8 % ± 0.3") == "0.8 % +-0.3"
    assert in_ascii("±0 %") == "+0 %"


@pytest.mark.parametrize(
    ("text", "cells", "lines"),
    [
        ("", 5, ()),
        ("aa bb cc", 5, ("aa bb", "cc")),
        ("aa bb cc", 4, ("aa", "bb", "cc")),
        ("a  abcdefgh b", 4, ("a", "abcd", "efgh", "b")),
        ("abcdef b", 4, ("abcd", "ef b")),
        ("多层 网络", 8, ("多层", "网络")),
        ("网络", 1, ("网", "络")),
    ],
)
def test_lines_break_between_words_and_none_is_too_wide(
    text: str, cells: int, lines: tuple[str, ...]
) -> None:
    assert wrap(text, cells) == lines


def test_text_in_ascii_is_as_wide_as_before() -> None:
    assert in_ascii("多é▏→") == "???|>"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[1;38;5;208mloss\x1b[0m 0.5", "loss 0.5"),
        ("\x1b[2K\x1b[1A\x1b[?25lbar", "bar"),
        ("\x1b]8;;http://a.b\x1b\\text\x1b]8;;\x1b\\", "text"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b(Btext\x1b7", "text"),
        ("[32m is text", "[32m is text"),
        ("cut off \x1b[3", "cut off \x1b[3"),
    ],
)
def test_whole_escape_sequences_are_left_out(printed: str, shown: str) -> None:
    assert without_escapes(printed) == shown


@given(st.text(alphabet="\x1b[]()m;0K\x07\\a", max_size=40))
def test_text_without_an_escape_is_kept(text: str) -> None:
    plain = text.replace("\x1b", "")
    assert without_escapes(plain) == plain
    assert len(without_escapes(text)) <= len(text)
