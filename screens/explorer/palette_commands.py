"""What is done by name: the palette, and commands that have no key."""

from __future__ import annotations

from tui_profiler.queries.tree.focus import SortKey

from ..actions.table import DEPTHS
from ..settings.appearance import ThemeName
from ..settings.theme import THEMES, short_name
from .appearance import HabitActions


class PaletteActions(HabitActions):
    """Actions of a screen whose commands the palette lists."""

    def action_palette(self) -> None:
        """Open the palette; what is chosen there is done here."""
        from ..actions.commands import Command, commands  # noqa: PLC0415 # first paint does without it
        from ..actions.palette import PaletteScreen  # noqa: PLC0415

        async def carry_out(chosen: Command | None) -> None:
            if chosen is not None:
                await self.run_action(chosen.action)
                self.refresh_all()

        themes = [short_name(theme.name) for theme in THEMES]
        found = commands(self.session, themes, (*self.own_keys(), *DEPTHS))
        self.app.push_screen(PaletteScreen(found, self.glyphs), carry_out)

    def action_use_theme(self, name: ThemeName) -> None:
        """Draw in the colours of a theme of ours."""
        self.use_theme(name)

    def action_sort_by(self, key: SortKey) -> None:
        """Sort siblings by a column."""
        self.tree_widget.sort_by(key)

    def refresh_all(self) -> None:
        """Draw everything anew."""
        raise NotImplementedError
