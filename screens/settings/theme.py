"""Textual's themes, made from our palette, and our roles derived for anybody else's."""

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from . import palette
from .appearance import ThemeName
from .palette import Palette

PREFIX = "profiler-"
_FIELDS = ("background", "foreground", "secondary", "panel", "accent", "error", "warning")
"""Colours that Textual's themes have; the others are our roles."""
_BLENDS = {
    "ink-muted": 0.62,
    "ink-faint": 0.44,
    "hairline": 0.16,
    "row-cursor": 0.10,
    "row-cursor-blurred": 0.06,
}


def _roles(palette: Palette) -> dict[str, str]:
    return {name: colour for name, colour in palette.colours.items() if name not in _FIELDS}


def _theme(palette: Palette) -> Theme:
    # As variables too: from its fields Textual derives colours that are off by one, or black.
    colours = variables = dict(palette.colours)
    if palette.ansi:  # Textual's own widgets ask for more than its themes derive.
        built_in = BUILTIN_THEMES["ansi-dark" if palette.dark else "ansi-light"]
        variables = {**built_in.variables, **colours}
    return Theme(
        name=PREFIX + palette.name,
        primary=colours["accent"],
        accent=colours["accent"],
        success=colours["accent"],
        secondary=colours["secondary"],
        warning=colours["warning"],
        error=colours["error"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["background"],
        panel=colours["panel"],
        boost=colours["background"] if palette.ansi else None,
        dark=palette.dark,
        ansi=palette.ansi,
        variables=variables,
    )


DARK, LIGHT, TERMINAL, TERMINAL_LIGHT, CONTRAST, COLOUR_BLIND = map(_theme, palette.PALETTES)
THEMES = (DARK, LIGHT, TERMINAL, TERMINAL_LIGHT, CONTRAST, COLOUR_BLIND)
"""In the order of the key; each is called as in the palette, after ``profiler-``."""


def roles_for(theme: Theme) -> dict[str, str]:
    """Return our roles for a theme that does not name them: greys blended from its own colours."""
    if theme.ansi:
        return _roles(palette.TERMINAL if theme.dark else palette.TERMINAL_LIGHT)
    own = _roles(palette.DARK if theme.dark else palette.LIGHT)
    foreground, background = theme.foreground, theme.background
    if foreground is None or background is None:
        return own
    try:
        ink, paper = Color.parse(foreground), Color.parse(background)
    except ValueError:
        return own
    blended = {role: paper.blend(ink, share).hex for role, share in _BLENDS.items()}
    return {**own, **blended}


def short_name(name: str) -> ThemeName:
    """Return what a user calls one of our themes; of anybody else's, the first of ours."""
    short = name.removeprefix(PREFIX)
    return next((one.name for one in palette.PALETTES if one.name == short), "dark")


def next_theme(name: str) -> str:
    """Return the one of our themes that follows; the first one after anybody else's."""
    names = [theme.name for theme in THEMES]
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]
