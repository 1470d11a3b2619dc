"""Small parts of a text report."""

from __future__ import annotations

from tui_profiler.reports.text_parts import field, folded


def test_what_has_a_label_goes_on_in_further_lines() -> None:
    line = field("peak memory", "109 MiB: parameters 97.5 MiB, buffers 208 KiB, workspace 690 KiB")
    assert folded(line, 76) == [
        "  peak memory      109 MiB: parameters 97.5 MiB, buffers 208 KiB,",
        "                   workspace 690 KiB",
    ]


def test_a_line_that_fits_stays_as_it_is() -> None:
    assert folded(field("work", "4.09 GMAC  8.22 GFLOP"), 76) == [
        "  work             4.09 GMAC  8.22 GFLOP"
    ]


def test_what_has_no_label_is_cut() -> None:
    assert folded("x" * 90, 76) == ["x" * 75 + "…"]


def test_a_long_field_ends_with_a_sign_that_it_goes_on() -> None:
    lines = folded(field("", "a reason " * 200), 76)
    assert len(lines) == 6
    assert lines[-1].endswith("…")
    assert all(len(line) <= 76 for line in lines)
