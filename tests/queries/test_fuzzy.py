"""Names by parts of them: the nearest first."""

from __future__ import annotations

import pytest

from tui_profiler.queries.fuzzy import best_first, fit

NAMES = ["sort by time", "theme nord", "unfold all", "timeline", "hottest", "the restart"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("time", ["timeline", "sort by time"]),
        ("sbt", ["sort by time"]),
        ("time sort", ["sort by time"]),
        ("TIMELINE", ["timeline"]),
        ("t", ["theme nord", "timeline", "the restart", "sort by time", "hottest"]),
        ("zz", []),
        ("", NAMES),
    ],
)
def test_the_nearest_comes_first(typed: str, found: list[str]) -> None:
    assert best_first(typed, NAMES, lambda name: (name, "")) == found


def test_what_is_said_of_it_counts_less_than_its_name() -> None:
    assert best_first("hot", ["z", "hot"], lambda name: (name, "go to the hottest leaf")) == [
        "hot",
        "z",
    ]
    assert fit("lhs", "z", "go to the hottest leaf") is None  # Letters are looked for in names.


def test_every_word_must_be_found() -> None:
    assert fit("sort by nothing", "sort by time") is None
