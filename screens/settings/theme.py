"""The palette: six themes of our own, and our roles derived for anybody else's.

Colour means one thing: the measured bound. The accent means "you are here", the error colour means
failed. Values and their contrasts are those of ``docs/look.md``;
``tests/screens/settings/test_theme.py`` computes them.
"""

from __future__ import annotations

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from .appearance import THEME_NAMES, ThemeName

_DARK_ROLES = {
    "ink-muted": "#8C95A3",
    "ink-faint": "#667080",
    "hairline": "#2B323D",
    "row-cursor": "#1E2733",
    "row-cursor-blurred": "#191E27",
    "bound-compute": "#56B4E9",
    "bound-memory": "#E69F00",
    "bound-overhead": "#F0E9C9",
    "bound-unexplained": "#BA1AFF",
    "bound-idle": "#5F6877",
}
_LIGHT_ROLES = {
    "ink-muted": "#5F6975",
    "ink-faint": "#858E99",
    "hairline": "#D5D9DE",
    "row-cursor": "#E3EEF0",
    "row-cursor-blurred": "#EEF1F2",
    "bound-compute": "#0F74BA",
    "bound-memory": "#BF7A00",
    "bound-overhead": "#4A3906",
    "bound-unexplained": "#1A004C",
    "bound-idle": "#939BA7",
}
_CONTRAST_ROLES = {
    "ink-muted": "#D0D6DE",
    "ink-faint": "#A8B0BC",
    "hairline": "#7A8494",
    "row-cursor": "#2A3A50",
    "row-cursor-blurred": "#1C2430",
    "bound-compute": "#3FA9FF",
    "bound-memory": "#FFB000",
    "bound-overhead": "#FFF3B0",
    "bound-unexplained": "#CFC6EC",
    "bound-idle": "#A0A0A0",
}
# Found by a search: of the five bounds, the accent and the error colour no two are nearer than 12.9
# (OKLab x 100) to any of four kinds of eyes, and none has less contrast than 4.9.
_COLOUR_BLIND_ROLES = {
    "ink-muted": "#A6AEBA",
    "ink-faint": "#7C8490",
    "hairline": "#2E343D",
    "row-cursor": "#1F2833",
    "row-cursor-blurred": "#161B22",
    "bound-compute": "#66CCFF",
    "bound-memory": "#FFAB1A",
    "bound-overhead": "#FFFFFF",
    "bound-unexplained": "#C6DAB2",
    "bound-idle": "#7C8490",
}
_ANSI_ROLES = {
    "ink-muted": "ansi_default",
    "ink-faint": "ansi_bright_black",
    "hairline": "ansi_bright_black",
    # Shown by reverse video instead: which background would be seen is not known.
    "row-cursor": "ansi_default",
    "row-cursor-blurred": "ansi_default",
    "bound-memory": "ansi_yellow",
    "bound-idle": "ansi_bright_black",
}
_ANSI_DARK_ROLES = {
    **_ANSI_ROLES,
    "bound-compute": "ansi_bright_cyan",
    "bound-overhead": "ansi_bright_white",
    "bound-unexplained": "ansi_bright_magenta",
}
_ANSI_LIGHT_ROLES = {
    **_ANSI_ROLES,
    "bound-compute": "ansi_blue",
    "bound-overhead": "ansi_black",
    "bound-unexplained": "ansi_magenta",
}

DARK = Theme(
    name="profiler-dark",
    primary="#5FD7A7",
    accent="#5FD7A7",
    success="#5FD7A7",
    secondary="#8C95A3",
    warning="#E69F00",
    error="#FF7A66",
    foreground="#D8DDE4",
    background="#101318",
    surface="#101318",
    panel="#222934",
    dark=True,
    variables=_DARK_ROLES,
)
LIGHT = Theme(
    name="profiler-light",
    primary="#0B7A56",
    accent="#0B7A56",
    success="#0B7A56",
    secondary="#5F6975",
    warning="#B06F00",
    error="#B3261E",
    foreground="#1E242C",
    background="#FBFBFA",
    surface="#FBFBFA",
    panel="#E4E7EA",
    dark=False,
    variables=_LIGHT_ROLES,
)
CONTRAST = Theme(
    name="profiler-high-contrast",
    primary="#66FFB8",
    accent="#66FFB8",
    success="#66FFB8",
    secondary="#D0D6DE",
    warning="#FFB000",
    error="#FF8A7A",
    foreground="#FFFFFF",
    background="#000000",
    surface="#000000",
    panel="#1A2029",
    dark=True,
    variables=_CONTRAST_ROLES,
)
COLOUR_BLIND = Theme(
    name="profiler-colour-blind",
    primary="#CC33FF",
    accent="#CC33FF",
    success="#CC33FF",
    secondary="#A6AEBA",
    warning="#FFAB1A",
    error="#FF0000",
    foreground="#E4E8EE",
    background="#0B0D10",
    surface="#0B0D10",
    panel="#1C2129",
    dark=True,
    variables=_COLOUR_BLIND_ROLES,
)


def _of_the_terminal(name: str, *, dark: bool) -> Theme:
    accent = "ansi_bright_green" if dark else "ansi_green"
    return Theme(
        name=name,
        ansi=True,
        primary=accent,
        accent=accent,
        success=accent,
        secondary="ansi_default",
        warning="ansi_yellow",
        error="ansi_bright_red" if dark else "ansi_red",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        dark=dark,
        # Textual's own widgets ask for more than its themes derive.
        variables={
            **BUILTIN_THEMES["ansi-dark" if dark else "ansi-light"].variables,
            **(_ANSI_DARK_ROLES if dark else _ANSI_LIGHT_ROLES),
        },
    )


TERMINAL = _of_the_terminal("profiler-terminal", dark=True)
TERMINAL_LIGHT = _of_the_terminal("profiler-terminal-light", dark=False)
THEMES = (DARK, LIGHT, TERMINAL, TERMINAL_LIGHT, CONTRAST, COLOUR_BLIND)
"""In the order of the key; each is called as here, without ``profiler-``."""
PREFIX = "profiler-"

_BLENDS = {
    "ink-muted": 0.62,
    "ink-faint": 0.44,
    "hairline": 0.16,
    "row-cursor": 0.10,
    "row-cursor-blurred": 0.06,
}


def roles_for(theme: Theme) -> dict[str, str]:
    """Return our roles for a theme that does not name them: greys blended from its own colours."""
    if theme.ansi:
        return dict(_ANSI_DARK_ROLES if theme.dark else _ANSI_LIGHT_ROLES)
    own = _DARK_ROLES if theme.dark else _LIGHT_ROLES
    foreground, background = theme.foreground, theme.background
    if foreground is None or background is None:
        return dict(own)
    try:
        ink, paper = Color.parse(foreground), Color.parse(background)
    except ValueError:
        return dict(own)
    blended = {role: paper.blend(ink, share).hex for role, share in _BLENDS.items()}
    return {**own, **blended}


def short_name(name: str) -> ThemeName:
    """Return what a user calls one of our themes; of anybody else's, the first of ours."""
    ours = [theme.name for theme in THEMES]
    known = {one.removeprefix(PREFIX) for one in ours}
    short = name.removeprefix(PREFIX)
    return next((one for one in THEME_NAMES if one == short and one in known), "dark")


def next_theme(name: str) -> str:
    """Return the one of our themes that follows; the first one after anybody else's."""
    names = [theme.name for theme in THEMES]
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]
