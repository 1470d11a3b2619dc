"""The app on a comparison."""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen

from ..common.base_app import BaseApp
from ..settings.preferences import Preferences
from ..views.compare.opened import Opened
from ..views.compare.screen import CompareScreen
from ..views.compare.turns import TwoSides


class CompareApp(BaseApp):
    """Shows two sides until it is left."""

    def __init__(
        self,
        opened: tuple[Opened, Opened],
        *,
        measuring: bool,
        seconds: float | None,
        habits: Preferences | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(habits, clock)
        self._two = TwoSides(opened, self._clock, measuring=measuring, seconds=seconds)

    def get_default_screen(self) -> Screen[None]:
        """Start at the comparison."""
        return CompareScreen(self.glyphs, self._two)
