"""Theme and set of characters: the options for them, and the defaults for a terminal.

Nothing here asks the terminal: what it can draw is read from the environment, as other programs do.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, TypeVar, get_args

import click
from msgspec import Struct

from tui_profiler.formatting.canvas import ASCII, BLOCK, UNICODE, Glyphs

ThemeName: TypeAlias = Literal[
    "auto", "dark", "light", "terminal", "terminal-light", "high-contrast", "colour-blind"
]
GlyphSet: TypeAlias = Literal["auto", "unicode", "block", "ascii"]
THEME_NAMES: tuple[ThemeName, ...] = get_args(ThemeName)
GLYPH_SETS: tuple[GlyphSet, ...] = get_args(GlyphSet)

_SETS: dict[GlyphSet, Glyphs] = {"unicode": UNICODE, "block": BLOCK, "ascii": ASCII}
_LIGHT_BACKGROUNDS = ("7", "15")
_SIXTEEN_COLOURS = ("linux", "xterm-16color", "rxvt-16color", "screen", "ansi", "vt220", "vt100")


def theme_for(name: ThemeName, environment: Mapping[str, str]) -> ThemeName:
    """Return the theme to begin with; ``auto`` chooses.

    A terminal of 16 colours gets those, with our own it would show others. Else it is ``light``
    where the terminal says in COLORFGBG that its background is, and ``dark``.
    """
    if name != "auto":
        return name
    is_light = environment.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_BACKGROUNDS
    if environment.get("TERM", "") in _SIXTEEN_COLOURS and not environment.get("COLORTERM"):
        return "terminal-light" if is_light else "terminal"
    return "light" if is_light else "dark"


def glyphs_for(name: GlyphSet, environment: Mapping[str, str]) -> Glyphs:
    """Return the characters to draw with; ``auto`` chooses.

    ASCII where the locale is C or has another encoding than UTF-8, the block set on the Linux
    console, whose font has 256 or 512 characters, else all.
    """
    if name == "auto":
        name = "unicode"
        if not is_utf8(environment):
            name = "ascii"
        elif environment.get("TERM") == "linux":
            name = "block"
    return _SETS[name]


def is_utf8(environment: Mapping[str, str]) -> bool:
    """Say if the locale's encoding is UTF-8; where no locale is named at all, it is taken to be.

    Python itself sets LC_CTYPE to C.UTF-8 in its environment where the locale is C (PEP 538), so
    that LANG is asked first if it says C.
    """
    found = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG")
    coerced = not environment.get("LC_ALL") and environment.get("LC_CTYPE") == "C.UTF-8"
    if coerced and environment.get("LANG"):
        found = environment["LANG"]
    if not found:
        return True
    return found.replace("-", "").casefold().partition("@")[0].endswith("utf8")


def holds_escape_back(environment: Mapping[str, str]) -> bool:
    """Say if a mouse would cost the escape key: GNU screen then keeps it until the next one."""
    return bool(environment.get("STY")) and not environment.get("TMUX")


_Command = TypeVar("_Command", bound=Callable[..., object])


class AppearanceOptions(Struct, frozen=True):
    """What was typed; None leaves it to the configuration."""

    theme: ThemeName | None = None
    glyphs: GlyphSet | None = None


UNTYPED = AppearanceOptions()

_OPTIONS = (
    click.option("--theme", type=click.Choice(THEME_NAMES), help="Colours; T changes them."),
    click.option(
        "--glyphs",
        type=click.Choice(GLYPH_SETS),
        help="Character set; auto depends on the locale and the terminal.",
    ),
    click.option("--ascii", "glyphs", flag_value="ascii", help="The same as --glyphs ascii."),
)


def look_options(command: _Command) -> Callable[..., object]:
    """Add the options to a command, which gets them as one ``appearance``."""

    @functools.wraps(command)
    def with_wish(
        *given: object, theme: ThemeName | None, glyphs: GlyphSet | None, **typed: object
    ) -> object:
        return command(*given, appearance=AppearanceOptions(theme, glyphs), **typed)

    decorated: Callable[..., object] = with_wish
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
