"""Roles are drawn before Textual is there as Textual draws them."""

from __future__ import annotations

import itertools

import pytest
from rich.segment import Segment
from textual.app import ComposeResult
from textual.strip import Strip

from screens.common.base_app import ThemedApp
from screens.settings.palette import PALETTES, Palette, Pens
from screens.terminal.cells import CellStyle
from screens.terminal.driver import QuietDriver
from screens.widgets.line_widgets import LinesWidget
from screens.widgets.lines import ATTRIBUTES, BACKGROUNDS, COLOURS

TERMINALS = {
    "truecolor": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    "256 colours": {"TERM": "xterm-256color", "COLORTERM": ""},
    "16 colours": {"TERM": "xterm", "COLORTERM": ""},
    "no colour": {"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": ""},
    "no colour of 16": {"TERM": "linux", "COLORTERM": "", "NO_COLOR": "1"},
}
ROLES = ["", "nothing"] + [
    " ".join(filter(None, words))
    for words in itertools.product(("", *ATTRIBUTES), ("", *COLOURS), ("", *BACKGROUNDS))
]


class OneLine(ThemedApp[None]):
    """Shows what Textual makes of a role."""

    def compose(self) -> ComposeResult:
        self.widget = LinesWidget()
        yield self.widget

    def pen(self, role: str) -> CellStyle:
        strip = Strip([Segment("x", self.widget.role_style(role))])
        for each in self.get_line_filters():
            strip = strip.apply_filter(each, self.widget.background_colors[1])
        ((_, style, _),) = strip
        return self._pen(style)


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
@pytest.mark.parametrize("environment", TERMINALS.values(), ids=list(TERMINALS))
async def test_every_role_is_drawn_as_textual_draws_it(
    palette: Palette, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    app, pens = OneLine(palette.name), Pens(palette, environment)
    app.driver_class = QuietDriver
    async with app.run_test():
        wrong = {role: (pens.pen(role), app.pen(role)) for role in ROLES}
    assert {role: both for role, both in wrong.items() if both[0] != both[1]} == {}
