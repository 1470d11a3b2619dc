"""Our themes: contrast and distance, computed; and that everything is named in each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from textual.color import Color
from textual.theme import Theme

from screens.settings.appearance import THEME_NAMES, ThemeName
from screens.settings.theme import (
    COLOUR_BLIND,
    CONTRAST,
    DARK,
    LIGHT,
    PREFIX,
    TERMINAL,
    TERMINAL_LIGHT,
    THEMES,
    next_theme,
    roles_for,
    short_name,
)
from screens.widgets.lines import BACKGROUNDS, COLOURS
from tests.screens.colours import VISIONS, contrast, distance, least_distance
from tui_profiler.queries.cost.bound_classes import KINDS

LOOK = Path(__file__).resolve().parents[3] / "docs" / "look.md"
BOUNDS = (
    "bound-compute",
    "bound-memory",
    "bound-overhead",
    "bound-python",
    "bound-faults",
    "bound-unexplained",
    "bound-idle",
)
"""Without ``bound-blocked``, which is ``bound-idle``."""
RGB = (DARK, LIGHT, CONTRAST, COLOUR_BLIND)
ANSI = (TERMINAL, TERMINAL_LIGHT)


def colour(theme: Theme, role: str) -> str:
    found = theme.variables.get(role) or getattr(theme, role)
    assert isinstance(found, str)
    return found


def bounds(theme: Theme) -> list[str]:
    return [colour(theme, role) for role in BOUNDS]


def on_background(theme: Theme, role: str) -> float:
    return contrast(colour(theme, role), colour(theme, "background"))


def test_black_on_white_and_the_published_example_are_measured_right() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    # WebAIM's and W3C's usual example of the least grey that passes 4.5 on white.
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.005)
    assert distance("#000000", "#FFFFFF") == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("theme", RGB, ids=lambda theme: theme.name)
def test_text_is_readable(theme: Theme) -> None:
    assert on_background(theme, "foreground") >= 7
    assert on_background(theme, "ink-muted") >= 4.5
    assert on_background(theme, "accent") >= 4.5
    assert on_background(theme, "error") >= 4.5
    for row in ("row-cursor", "row-cursor-blurred", "panel"):
        assert contrast(colour(theme, "foreground"), colour(theme, row)) >= 7
        assert contrast(colour(theme, "ink-muted"), colour(theme, row)) >= 4.2


def test_high_contrast_is_high_everywhere() -> None:
    text = ("foreground", "ink-muted", "ink-faint", "accent", "error", *BOUNDS)
    assert min(on_background(CONTRAST, role) for role in text) >= 7
    assert on_background(CONTRAST, "hairline") >= 4.5
    assert contrast(colour(CONTRAST, "ink-muted"), colour(CONTRAST, "row-cursor")) >= 7


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(
    ("theme", "least"),
    [(DARK, 13.4), (LIGHT, 14.5), (CONTRAST, 10.1), (COLOUR_BLIND, 9.9)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_bounds_are_told_apart_by_every_eye(theme: Theme, least: float, vision: str) -> None:
    assert least_distance(bounds(theme), vision) >= least


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_class_has_a_colour_and_blocked_that_of_idle(theme: Theme) -> None:
    named = {f"bound-{kind}" for kind in KINDS}
    assert named - {"bound-blocked"} == set(BOUNDS) - {"bound-idle"}
    roles = roles_for(theme)
    assert named <= set(roles)
    assert roles["bound-blocked"] == roles["bound-idle"]


@pytest.mark.parametrize("vision", VISIONS)
def test_of_the_theme_for_the_colour_blind_no_two_meanings_look_alike(vision: str) -> None:
    all_hues = [*bounds(COLOUR_BLIND), COLOUR_BLIND.accent or "", COLOUR_BLIND.error or ""]
    assert least_distance(all_hues, vision) >= 9.9
    # In the usual theme, accent and error are near each other to those who see no green.
    assert min(on_background(COLOUR_BLIND, role) for role in BOUNDS) >= 4.9


@pytest.mark.parametrize("theme", RGB, ids=lambda theme: theme.name)
def test_better_and_worse_are_told_apart_by_every_eye_and_have_no_other_meaning(
    theme: Theme,
) -> None:
    better, worse = colour(theme, "better"), colour(theme, "worse")
    assert min(distance(better, worse, vision) for vision in VISIONS) >= 16
    assert min(on_background(theme, role) for role in ("better", "worse")) >= 4.5
    for own in (better, worse):
        assert min(distance(own, bound) for bound in bounds(theme)) >= 16
        assert min(distance(own, colour(theme, role)) for role in ("accent", "error")) >= 8


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_role_that_is_drawn_has_a_colour(theme: Theme) -> None:
    variables = {
        **roles_for(theme),
        **theme.to_color_system().generate(),
        **theme.variables,
    }
    for variable in (*COLOURS.values(), *BACKGROUNDS.values()):
        Color.parse(variables[variable]).rich_color  # noqa: B018 # raises where it is none


@pytest.mark.parametrize("theme", ANSI, ids=lambda theme: theme.name)
def test_the_terminals_own_palette_names_no_colour_but_the_terminals(theme: Theme) -> None:
    assert theme.ansi
    named = [theme.accent, theme.error, theme.background, theme.panel, theme.foreground]
    named += [theme.variables[role] for role in roles_for(theme)]
    assert all(name is not None and name.startswith("ansi_") for name in named)


def test_another_ansi_theme_gets_the_terminals_palette_as_well() -> None:
    other = Theme(name="other", primary="ansi_blue", ansi=True, dark=False)
    assert roles_for(other)["bound-compute"] == "ansi_blue"


def test_the_key_goes_through_ours_only() -> None:
    seen = [DARK.name]
    while (following := next_theme(seen[-1])) != seen[0]:
        seen.append(following)
    assert seen == [theme.name for theme in THEMES]
    assert next_theme("dracula") == DARK.name


def test_names_that_are_typed_are_those_of_the_themes() -> None:
    assert {PREFIX + name for name in THEME_NAMES if name != "auto"} == {
        theme.name for theme in THEMES
    }
    assert get_args(ThemeName) == THEME_NAMES
    assert [short_name(theme.name) for theme in THEMES] == list(THEME_NAMES[1:])


def test_the_documented_palette_is_the_one_that_is_drawn() -> None:
    rows = re.findall(r"\| `\$([\w-]+)`\S* .*?\| (#\w{6}) \| (#\w{6}) \|", LOOK.read_text())
    assert len(rows) >= 10
    for role, dark, light in rows:
        assert (colour(DARK, role), colour(LIGHT, role)) == (dark, light)
