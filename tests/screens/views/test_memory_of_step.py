"""The memory screen of a training step."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.views.memory.step import checkpointing_lines, step_cursor_line, step_lines
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look, finished
from tests.queries.training.test_step_costs import trained
from tests.queries.training.trained import cost, memory
from tests.screens.explorer.test_explorer import on_stage
from tests.screens.screen_text import screen_text
from tests.small_model import MEASURED
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import WHOLE_MODEL, TrialResult, TrialSide
from tui_profiler.session import apply


def drawn(cells: int, rows: int, point: int = 1, glyphs: Glyphs = UNICODE) -> list[str]:
    session = trained()
    assert session.training_memory is not None
    look = Look(session, 0, 9.0, cells, glyphs)
    narrow = cells < 100 or rows < 28
    lines = step_lines(look, session.training_memory, point, rows, narrow=narrow)
    assert len(lines) <= max(rows, 0) or rows < 8
    assert max(map(line_width, lines), default=0) <= cells or cells < 60
    assert line_width(step_cursor_line(look, session.training_memory, point)) == cells
    return [text(line) for line in finished(lines, look, rows)]


def test_what_is_alive_adds_up_and_checkpointing_is_beside_it() -> None:
    shown = "\n".join(drawn(120, 36))

    for words in (
        *("memory over one training step", "peak 23.8 KiB  fc  operator 2 of 3"),
        *("╵forward", "╵backward", "╵optimizer", "11.2 KiB┤"),
        *("alive at the peak", "gradients", "10.5 KiB", "saved for backward", "2.00 KiB"),
        *("workspace", "100 B", "conv  ", "22.8 KiB", "13.8K"),
    ):
        assert words in shown
    assert "optimizer state" not in shown.partition("alive at")[2]  # SGD has none.


@pytest.mark.parametrize(("peak", "said"), [(40.0, "20.0 MiB less"), (61.0, "1.00 MiB more")])
def test_what_a_trial_of_checkpointing_measured_is_said(peak: float, said: str) -> None:
    result = TrialResult(
        *("checkpoint", WHOLE_MODEL, "measured", 9.0, "", "checkpointed: conv"),
        *(TrialSide(0.1, 1, 60.0 * 2**20), TrialSide(0.12, 1, peak * 2**20)),
    )
    session = apply(trained(), result)
    assert session.tree is not None
    shown = [
        text(line) for line in checkpointing_lines(Look(session, 0, 9.0, 60), session.tree, 30)
    ]
    joined = " ".join(" ".join(shown).split())
    assert f"measured, checkpointed: conv: {said} at the peak" in joined
    assert "a step 120 ms instead of 100 ms" in joined
    failed = apply(trained(), replace(result, baseline=None, changed=None))
    assert session.tree is not None
    untried = checkpointing_lines(Look(failed, 0, 9.0, 60), session.tree, 30)
    assert not any("measured" in text(line) for line in untried)


def test_few_rows_name_the_best_checkpointing() -> None:
    assert "checkpointing conv lowers the peak to 22.8 KiB, 13.8 KFLOP more" in "\n".join(
        drawn(80, 22)
    )


def test_the_cursor_names_the_phase_where_no_module_runs() -> None:
    assert "alive at operator 3" in "\n".join(drawn(120, 36, point=2))
    assert "optimizer" in "\n".join(drawn(80, 22, point=2)).partition("operator 3 of 3")[2]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [3, 20, 60, 80, 99, 100, 137, 200])
@pytest.mark.parametrize("rows", [0, 3, 8, 13, 22, 35])
def test_every_row_is_as_wide_as_the_screen(glyphs: Glyphs, cells: int, rows: int) -> None:
    for point in range(3):
        found = drawn(cells, rows, point, glyphs)
        assert {len(line) for line in found} <= {cells}
        assert glyphs is UNICODE or all(line.isascii() for line in found)


async def test_a_key_shows_the_forward_and_the_step_again() -> None:
    async with on_stage([*MEASURED, cost(), memory()]) as (stage, pilot):
        await pilot.press("m")
        await pilot.pause()
        assert "memory over one training step" in screen_text(stage.app)
        await pilot.press("G")
        await pilot.pause()
        assert "operator 3 of 3" in screen_text(stage.app)
        await pilot.press("s")
        await pilot.pause()
        assert "memory over one forward" in screen_text(stage.app)
        await pilot.press("s", "z")
        await pilot.pause()
        assert "alive at the peak" in screen_text(stage.app)
