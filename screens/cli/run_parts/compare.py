"""``compare`` on screen, put together."""

from __future__ import annotations

from tui_profiler.verbs.outcome import BAD_ARGUMENTS

from ...app.compare_app import CompareApp
from ...options.side import TypedSide
from ...settings.appearance_options import Wish
from ...settings.preferences import habits_of
from ...terminal.crashing import run_to_end
from ...views.compare.headless import CompareOptions, opened_sides


def run_comparing(
    options: CompareOptions, sides: tuple[TypedSide, TypedSide], wish: Wish, *, started_at: float
) -> int:
    """Compare on screen until it is left; gives the exit code."""
    measuring = all(side.chosen.run for side in sides)
    known = opened_sides(options, sides, running=measuring, started_at=started_at)
    if known is None:
        return BAD_ARGUMENTS
    habits = habits_of(wish, "")
    app = CompareApp(known, measuring=measuring, seconds=options.measure, habits=habits)
    code = run_to_end(app, mouse=habits.mouse)
    return code or app.return_value or 0
