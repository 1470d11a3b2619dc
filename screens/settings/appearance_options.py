"""The options that say how the screens look, typed beside a model or a file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import click
from msgspec import Struct

from .appearance import GLYPH_SETS, THEME_NAMES, GlyphSet, ThemeName

_Command = TypeVar("_Command", bound=Callable[..., object])


class AppearanceOptions(Struct, frozen=True):
    """What was typed; None leaves it to the configuration."""

    theme: ThemeName | None = None
    glyphs: GlyphSet | None = None


NO_WISH = AppearanceOptions()

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
    """Add the options to a command, which gets them as one ``wish``."""

    @functools.wraps(command)
    def with_wish(
        *given: object, theme: ThemeName | None, glyphs: GlyphSet | None, **typed: object
    ) -> object:
        return command(*given, wish=AppearanceOptions(theme, glyphs), **typed)

    decorated: Callable[..., object] = with_wish
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
