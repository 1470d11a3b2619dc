"""What is done by name: the palette, and commands that have no key."""

from __future__ import annotations

from tui_profiler.queries.focus import SortKey

from .look_actions import LookActions


class PaletteActions(LookActions):
    """Actions of a screen whose commands the palette lists."""

    def action_palette(self) -> None:
        """Open the palette; what is chosen there is done here."""
        from .commands import Command, commands  # noqa: PLC0415 # first paint does without it
        from .palette import PaletteScreen  # noqa: PLC0415

        async def carry_out(chosen: Command | None) -> None:
            if chosen is not None:
                await self.run_action(chosen.action)
                self.refresh_all()

        has_mouse = hasattr(self, "action_toggle_mouse")
        found = commands(self.session, self.app.available_themes, has_mouse=has_mouse)
        self.app.push_screen(PaletteScreen(found, self.glyphs), carry_out)

    def action_use_theme(self, name: str) -> None:
        """Draw in the colours of a theme."""
        self.app.theme = name
        self.say(f"theme {name}")

    def action_sort_by(self, key: SortKey) -> None:
        """Sort siblings by a column."""
        self.tree_widget.sort_by(key)

    def refresh_all(self) -> None:
        """Draw everything anew."""
        raise NotImplementedError
