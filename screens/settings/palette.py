"""The palette as data: the colours of our themes, and the codes that draw them on a terminal.

1. Colour means one thing: the measured bound. The accent means "you are here", the error colour
   means failed. Values and their contrasts are those of ``docs/look.md``;
   ``tests/screens/settings/test_theme.py`` computes them.
2. Nothing here imports Textual: the first frame is drawn while that is imported. ``Pens`` gives the
   codes that Textual gives; ``tests/screens/settings/test_pens.py`` compares every role of every
   theme.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from ..terminal.cells import CellStyle
from ..widgets.lines import ink
from .appearance import ThemeName

ColourSystem: TypeAlias = Literal["standard", "256", "truecolor"]


class Palette(Struct, frozen=True):
    """The colours of one theme."""

    name: ThemeName
    colours: Mapping[str, str]
    """By variable: ``#RRGGBB``, or ``ansi_`` and the name of one of the terminal's own."""
    dark: bool = True
    ansi: bool = False
    """Whether they are the terminal's own."""


DARK = Palette(
    "dark",
    {
        "background": "#101318",
        "foreground": "#D8DDE4",
        "secondary": "#8C95A3",
        "panel": "#222934",
        "accent": "#5FD7A7",
        "error": "#FF7A66",
        "warning": "#E69F00",
        "ink-muted": "#8C95A3",
        "ink-faint": "#667080",
        "hairline": "#2B323D",
        "row-cursor": "#1E2733",
        "row-cursor-blurred": "#191E27",
        "bound-compute": "#56B4E9",
        "bound-memory": "#E69F00",
        "bound-overhead": "#F0E9C9",
        "bound-python": "#88FF00",
        "bound-faults": "#DD2200",
        "bound-blocked": "#5F6877",
        "bound-unexplained": "#BA1AFF",
        "bound-idle": "#5F6877",
        "better": "#7CBF1E",
        "worse": "#FF80DC",
    },
)
LIGHT = Palette(
    "light",
    {
        "background": "#FBFBFA",
        "foreground": "#1E242C",
        "secondary": "#5F6975",
        "panel": "#E4E7EA",
        "accent": "#0B7A56",
        "error": "#B3261E",
        "warning": "#B06F00",
        "ink-muted": "#5F6975",
        "ink-faint": "#858E99",
        "hairline": "#D5D9DE",
        "row-cursor": "#E3EEF0",
        "row-cursor-blurred": "#EEF1F2",
        "bound-compute": "#0F74BA",
        "bound-memory": "#BF7A00",
        "bound-overhead": "#4A3906",
        "bound-python": "#0000CC",
        "bound-faults": "#000000",
        "bound-blocked": "#939BA7",
        "bound-unexplained": "#1A004C",
        "bound-idle": "#939BA7",
        "better": "#4E7D00",
        "worse": "#B5179E",
    },
    dark=False,
)
CONTRAST = Palette(
    "high-contrast",
    {
        "background": "#000000",
        "foreground": "#FFFFFF",
        "secondary": "#D0D6DE",
        "panel": "#1A2029",
        "accent": "#66FFB8",
        "error": "#FF8A7A",
        "warning": "#FFB000",
        "ink-muted": "#D0D6DE",
        "ink-faint": "#A8B0BC",
        "hairline": "#7A8494",
        "row-cursor": "#2A3A50",
        "row-cursor-blurred": "#1C2430",
        "bound-compute": "#3FA9FF",
        "bound-memory": "#FFB000",
        "bound-overhead": "#FFF3B0",
        "bound-python": "#BBFFFF",
        "bound-faults": "#FF6611",
        "bound-blocked": "#A0A0A0",
        "bound-unexplained": "#CFC6EC",
        "bound-idle": "#A0A0A0",
        "better": "#9BE800",
        "worse": "#FF80F0",
    },
)
# Found by a search: of the bounds, the accent and the error colour no two are nearer than 9.9
# (OKLab x 100) for any of four kinds of colour vision, and none has less contrast than 4.9.
# Blocked has the colour of idle: neither is on a core.
COLOUR_BLIND = Palette(
    "colour-blind",
    {
        "background": "#0B0D10",
        "foreground": "#E4E8EE",
        "secondary": "#A6AEBA",
        "panel": "#1C2129",
        "accent": "#CC33FF",
        "error": "#FF0000",
        "warning": "#FFAB1A",
        "ink-muted": "#A6AEBA",
        "ink-faint": "#7C8490",
        "hairline": "#2E343D",
        "row-cursor": "#1F2833",
        "row-cursor-blurred": "#161B22",
        "bound-compute": "#66CCFF",
        "bound-memory": "#FFAB1A",
        "bound-overhead": "#FFFFFF",
        "bound-python": "#66AACC",
        "bound-faults": "#CCAA88",
        "bound-blocked": "#7C8490",
        "bound-unexplained": "#C6DAB2",
        "bound-idle": "#7C8490",
        "better": "#66FF00",
        "worse": "#FF99F5",
    },
)
_OF_TERMINAL = {
    "background": "ansi_default",
    "foreground": "ansi_default",
    "secondary": "ansi_default",
    "panel": "ansi_default",
    "warning": "ansi_yellow",
    "ink-muted": "ansi_default",
    "ink-faint": "ansi_bright_black",
    "hairline": "ansi_bright_black",
    # Shown by reverse video instead: which background would be seen is not known.
    "row-cursor": "ansi_default",
    "row-cursor-blurred": "ansi_default",
    "bound-memory": "ansi_yellow",
    "bound-blocked": "ansi_bright_black",
    "bound-idle": "ansi_bright_black",
    # Bounds and the accent have the hues: signs and words tell these.
    "better": "ansi_default",
    "worse": "ansi_default",
}
TERMINAL = Palette(
    "terminal",
    {
        **_OF_TERMINAL,
        "accent": "ansi_bright_green",
        "error": "ansi_bright_red",
        "bound-compute": "ansi_bright_cyan",
        "bound-overhead": "ansi_bright_white",
        "bound-python": "ansi_bright_blue",
        "bound-faults": "ansi_bright_yellow",
        "bound-unexplained": "ansi_bright_magenta",
    },
    ansi=True,
)
TERMINAL_LIGHT = Palette(
    "terminal-light",
    {
        **_OF_TERMINAL,
        "accent": "ansi_green",
        "error": "ansi_red",
        "bound-compute": "ansi_blue",
        "bound-overhead": "ansi_black",
        "bound-python": "ansi_cyan",
        "bound-faults": "ansi_bright_red",
        "bound-unexplained": "ansi_magenta",
    },
    dark=False,
    ansi=True,
)
PALETTES = (DARK, LIGHT, TERMINAL, TERMINAL_LIGHT, CONTRAST, COLOUR_BLIND)
"""In the order of the key."""


def colour_system(environment: Mapping[str, str]) -> ColourSystem:
    """Return how many colours a terminal has, as Rich reads it from the environment."""
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "truecolor"
    colours = environment.get("TERM", "").strip().lower().rpartition("-")[2]
    return "256" if colours in ("kitty", "256color") else "standard"


_ANSI_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_ATTRIBUTE_CODES = (("strong", "1"), ("underline", "4"), ("reverse", "7"))


class Pens:
    """How each role is drawn in a theme, on a terminal of so many colours."""

    def __init__(self, palette: Palette, environment: Mapping[str, str]) -> None:
        self._palette = palette
        self._system = colour_system(environment)
        self._is_grey = "NO_COLOR" in environment
        self._pens: dict[str, CellStyle] = {}

    def pen(self, role: str) -> CellStyle:
        """Return how text of a role is drawn."""
        found = self._pens.get(role)
        if found is None:
            has_backgrounds = not (self._is_grey or self._palette.ansi)
            drawn = ink(role, shows_backgrounds=has_backgrounds)
            found = self._pens[role] = CellStyle(
                tuple(code for name, code in _ATTRIBUTE_CODES if name in drawn.attributes),
                self._code(drawn.colour or "foreground", 30),
                self._code(drawn.background or "background", 40),
            )
        return found

    @property
    def blank(self) -> CellStyle:
        """How a cell is drawn that nothing lies on."""
        return CellStyle(background=self.pen("").background)

    def _code(self, variable: str, ground: int) -> str:
        """Return the codes of a colour; ``ground`` is 30 for text, 40 for what is behind it."""
        colour = self._palette.colours[variable]
        if colour == "ansi_default" or (self._is_grey and self._palette.ansi):
            return ""
        if colour.startswith("ansi_"):
            name = colour.removeprefix("ansi_")
            bright = name.removeprefix("bright_")
            return str(ground + _ANSI_NAMES.index(bright) + 60 * (bright != name))
        red, green, blue = bytes.fromhex(colour[1:])
        if self._is_grey:
            red = green = blue = round(red * 0.2126 + green * 0.7152 + blue * 0.0722)
        if self._system == "truecolor":
            return f"{ground + 8};2;{red};{green};{blue}"
        return _nearest((red, green, blue), self._system, ground)


def _nearest(colour: tuple[int, int, int], system: ColourSystem, ground: int) -> str:
    """Return the codes of the nearest colour that a terminal of fewer colours has."""
    from rich.color import Color, ColorSystem  # noqa: PLC0415 # most terminals have all colours

    fewer = ColorSystem.EIGHT_BIT if system == "256" else ColorSystem.STANDARD
    return ";".join(Color.from_rgb(*colour).downgrade(fewer).get_ansi_codes(ground == 30))
