from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.widgets.generation_lines import bar_lines
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.generation_session import CACHE, GENERATION, NO_REQUEST
from tui_profiler.formatting.canvas import ASCII, UNICODE
from tui_profiler.messages import Generation, Unknown
from tui_profiler.session import EMPTY, apply


def bar(told: Generation, cells: int = 120, rows: int = 2) -> list[str]:
    look = Look(apply(EMPTY, told), 0, 2.0, cells)
    return [text(line).strip() for line in bar_lines(look, rows)]


def test_figures_and_phases_of_a_request() -> None:
    figures, phases = bar(GENERATION)
    assert figures == (
        "first token 250 ms   between tokens 20.0 ms p95 40.0 ms   KV cache 4.00 MiB"
        "   8.00 KiB per token"
    )
    assert phases.endswith("prefill 18   decode 70   between 12   170 tokens/s")


def test_the_bar_is_divided_as_the_time_is() -> None:
    _, phases = bar(GENERATION, 200)
    lengths = [len(part) for part in phases.split("prefill")[0].split()]
    shares = [one / sum(lengths) for one in lengths]
    assert shares == pytest.approx([0.875 * 3 / 15, 0.875 * 12 / 15, 0.125], abs=0.02)


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (80, "first token 250 ms   between tokens 20.0 ms p95 40.0 ms"),
        (60, "first token 250 ms"),
        (40, "first token 250 ms"),
    ],
)
def test_one_row_keeps_the_rate_and_cuts_no_word(cells: int, shown: str) -> None:
    [only] = bar(GENERATION, cells, rows=1)
    assert only.startswith(shown)
    assert only.removeprefix(shown).strip() == "170 tokens/s"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("cells", [30, 60, 80, 120, 200])
def test_rows_are_as_wide_as_asked_for(cells: int, glyphs: object) -> None:
    look = Look(apply(EMPTY, GENERATION), 0, 2.0, cells, glyphs)  # type: ignore[arg-type]  # one of two
    for rows in (1, 2):
        assert {line_width(line) for line in bar_lines(look, rows)} == {cells}


def test_a_state_that_holds_no_tokens_is_no_kv_cache() -> None:
    state = replace(CACHE, growth=Unknown("none"), length=Unknown("none"))
    assert bar(replace(GENERATION, cache=state))[0].endswith("state 4.00 MiB")


def test_what_is_not_known_is_a_dash() -> None:
    told = replace(
        GENERATION, first_p50=NO_REQUEST, per_second=NO_REQUEST, between=NO_REQUEST, cache=None
    )
    figures, phases = bar(told)
    assert "first token –" in figures
    assert "KV cache –" in figures
    assert phases.startswith("no whole request yet")
    assert phases.endswith("– tokens/s")


def test_a_cache_that_is_whole_from_the_beginning_does_not_grow() -> None:
    whole = replace(CACHE, growth=Unknown("whole"), is_preallocated=True)
    assert "KV cache 4.00 MiB   preallocated" in bar(replace(GENERATION, cache=whole))[0]


def test_without_requests_there_is_no_bar() -> None:
    assert bar_lines(Look(EMPTY, 0, 2.0, 80), 2) == ()
