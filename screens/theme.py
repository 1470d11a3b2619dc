"""The palette: two themes of our own, and our roles derived for anybody else's.

Colour means one thing: the measured bound. The accent means "you are here", the error colour means
failed. Values and their contrasts are those of the visual specification in ``docs/look.md``.
"""

from __future__ import annotations

from textual.color import Color
from textual.theme import Theme

_DARK_ROLES = {
    "ink-muted": "#8C95A3",
    "ink-faint": "#667080",
    "hairline": "#2B323D",
    "row-cursor": "#1E2733",
    "row-cursor-blurred": "#191E27",
    "bound-compute": "#56B4E9",
    "bound-memory": "#E69F00",
    "bound-overhead": "#F0E9C9",
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
    "bound-idle": "#939BA7",
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
THEMES = (DARK, LIGHT)

_BLENDS = {
    "ink-muted": 0.62,
    "ink-faint": 0.44,
    "hairline": 0.16,
    "row-cursor": 0.10,
    "row-cursor-blurred": 0.06,
}


def roles_for(theme: Theme) -> dict[str, str]:
    """Give our roles for a theme that does not name them: greys blended from its own colours."""
    own = _DARK_ROLES if theme.dark else _LIGHT_ROLES
    foreground, background = theme.foreground, theme.background
    if theme.ansi or foreground is None or background is None:
        return dict(own)
    try:
        ink, paper = Color.parse(foreground), Color.parse(background)
    except ValueError:
        return dict(own)
    blended = {role: paper.blend(ink, share).hex for role, share in _BLENDS.items()}
    return {**own, **blended}
