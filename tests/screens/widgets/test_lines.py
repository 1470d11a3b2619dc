"""Lines of text: exact widths, whole words, and only changed rows repainted."""

import pytest
from textual.app import App, ComposeResult

from screens.settings.theme import DARK, roles_for
from screens.widgets.line_widgets import LinesWidget
from screens.widgets.lines import Line, cut, exact, line_width, spread, text, with_role


@pytest.mark.parametrize("cells", range(24))
def test_an_exact_line_has_that_many_cells(cells):
    for line in (
        (("layer3.2.conv2", "strong"), (" ▲ compute-bound", "compute")),
        (("漢字漢字漢字", "ink"), ("é́", "faint")),
        (),
    ):
        assert line_width(exact(line, cells)) == cells
        assert line_width(spread(line, line, cells)) == cells


def test_a_cut_line_says_so():
    line: Line = (("one ", "ink"), ("two", "muted"), ("three", "faint"))
    assert text(cut(line, 12)) == "one twothree"
    assert text(cut(line, 8)) == "one two…"
    assert text(cut(line, 7)) == "one tw…"
    assert text(cut(line, 6, "..")) == "one .."


def test_the_right_end_keeps_its_place_and_the_left_yields():
    assert text(spread((("name", "ink"),), (("9 ms", "ink"),), 12)) == "name    9 ms"
    assert text(spread((("long name", "ink"),), (("9 ms", "ink"),), 12)) == "long n… 9 ms"


def test_a_background_is_added_to_every_span():
    assert with_role((("a", "ink"), ("b", "muted")), "cursor") == (
        ("a", "ink cursor"),
        ("b", "muted cursor"),
    )


class Painted(LinesWidget):
    """Keeps the lines that are drawn anew."""

    DEFAULT_CSS = "Painted { width: 20; height: 3; }"

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def drawn(self, line, cells):
        self.new.append(text(line))
        return super().drawn(line, cells)


class Host(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return roles_for(DARK)

    def compose(self) -> ComposeResult:
        yield Painted()


async def test_only_the_changed_row_is_drawn_again():
    app = Host()
    async with app.run_test() as pilot:
        widget = app.query_one(Painted)
        widget.lines = ((("a", "ink"),), (("b", "ink"),), (("c", "ink"),))
        await pilot.pause()
        widget.new.clear()
        widget.lines = ((("a", "ink"),), (("B", "strong compute"),), (("c", "ink"),))
        await pilot.pause()
        assert widget.new == ["B"]
        assert widget.render_line(1).text == "B" + " " * 19


async def test_of_scrolled_rows_only_the_new_one_is_drawn():
    rows: list[Line] = [((f"row {y}", "ink"),) for y in range(4)]
    app = Host()
    async with app.run_test() as pilot:
        widget = app.query_one(Painted)
        widget.lines = rows[:3]
        await pilot.pause()
        widget.new.clear()
        widget.lines = rows[1:]
        await pilot.pause()
        assert widget.new == ["row 3"]
        assert [widget.render_line(y).text.strip() for y in range(3)] == ["row 1", "row 2", "row 3"]


async def test_a_role_has_the_colour_of_the_theme():
    app = Host()
    async with app.run_test() as pilot:
        widget = app.query_one(Painted)
        style = widget.role_style("strong compute cursor")
        assert style.bold
        assert style.color is not None
        assert style.color.name == "#56b4e9"
        assert style.bgcolor is not None
        assert style.bgcolor.name == "#1e2733"
        await pilot.pause()
