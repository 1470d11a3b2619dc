"""The app on a comparison."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.screen import Screen

from .base_app import BaseApp
from .compare import CompareScreen
from .habits import Habits
from .headless_compare import Opened
from .two_sides import TwoSides


class CompareApp(BaseApp):
    """Shows two sides until it is left."""

    def __init__(
        self,
        opened: tuple[Opened, Opened],
        *,
        measuring: bool,
        seconds: float | None,
        habits: Habits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(habits, clock)
        self._two = TwoSides(opened, measuring=measuring, seconds=seconds, clock=clock)

    def get_default_screen(self) -> Screen[None]:
        """Start at the comparison."""
        return CompareScreen(self.glyphs, self._two)

    def redraw(self) -> None:
        """Leave it to the screen, which draws by itself."""
