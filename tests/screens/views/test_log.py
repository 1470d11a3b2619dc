"""The log screen: it follows the end until the reader scrolls."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.reactive import var

from screens.settings.theme import DARK, roles_for
from screens.views.log import LogScreen, log_lines, title_line
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from screens.widgets.scrolled import ScrolledLines
from tests.screens.panel_session import folded
from tui_profiler.messages import Ended, Failed, Printed
from tui_profiler.session import EMPTY, Session

FAILED = Failed("first run", "boom", traceback="Traceback (most recent call last):\n  boom\n")


def lines(session: Session, cells: int = 60) -> list[str]:
    return [text(line).rstrip() for line in log_lines(Look(session, 0, 0.0, cells))]


def test_printed_lines_come_first_then_the_traceback():
    session = folded((Printed("one\ntwo"), FAILED))
    assert lines(session) == [
        " one",
        " two",
        "",
        " traceback ─────────────────────────────── first run failed",
        " Traceback (most recent call last):",
        "   boom",
    ]


def test_a_worker_that_is_gone_is_the_last_line():
    session = folded((Printed("one\n"), Ended(-9, False, "", 48213, 12.4, out_of_memory=True)))
    assert lines(session, 110)[-1] == (
        " ✗ worker 48213 was killed by SIGKILL after 12.4 s, very likely"
        " by the kernel's out-of-memory killer"
    )


def test_nothing_printed_says_so():
    assert lines(EMPTY) == [" no output so far"]


def test_what_is_not_kept_is_counted():
    session = folded((Printed("x\n" * 5002),))
    assert lines(session)[0] == " 2 earlier lines dropped"
    title = text(title_line(folded((Printed("x\n", 2048),)), 80, follows=True))
    assert title.startswith(" log  1 line  2.00 KiB dropped (rate limit) ")


@pytest.mark.parametrize("cells", range(40, 131))
def test_every_row_is_exactly_as_wide_as_asked(cells):
    session = folded((Printed("\x1b[31m漢字\u202e" * 40 + "\n"), FAILED))
    drawn = log_lines(Look(session, 0, 0.0, cells))
    assert {line_width(line) for line in drawn} == {cells}
    assert not {c for line in drawn for c in text(line)} & set("\x1b\u202e")
    assert line_width(title_line(session, cells, follows=True)) == cells


class Host(App[None]):
    """Holds the session that the screen is bound to."""

    session: var[Session] = var(EMPTY)

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return roles_for(DARK)


def printed(first: int, last: int) -> Printed:
    return Printed("".join(f"line {number}\n" for number in range(first, last)))


async def test_the_end_is_followed_until_the_reader_scrolls_and_again_at_the_end():
    app = Host()
    async with app.run_test(size=(60, 12)) as pilot:
        app.session = folded((printed(0, 30),))
        screen = LogScreen()
        screen.data_bind(Host.session)
        await app.push_screen(screen)
        await pilot.pause()
        body = screen.query_one(ScrolledLines)
        last = body.size.height - 1
        assert body.render_line(last).text.startswith(" line 29 ")
        app.session = folded((printed(30, 40),), app.session)
        await pilot.pause()
        assert body.render_line(last).text.startswith(" line 39 ")
        await pilot.press("k")
        app.session = folded((printed(40, 50),), app.session)
        await pilot.pause()
        assert body.render_line(last).text.startswith(" line 38 ")
        await pilot.press("G")
        assert body.render_line(last).text.startswith(" line 49 ")
        app.session = folded((printed(50, 60),), app.session)
        await pilot.pause()
        assert body.render_line(last).text.startswith(" line 59 ")
        await pilot.press("q")
        assert app.screen is not screen
