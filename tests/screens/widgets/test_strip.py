from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from screens.settings.theme import DARK, roles_for
from screens.widgets.lines import line_width, text
from screens.widgets.strip import ForwardStrip
from tests.queries.sessions import RESNET, RESNET_SECONDS, resnet, session_of, ticked
from tests.queries.training.test_step_blocks import session as step_session
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.session import EMPTY, Session


class Shown(App[None]):
    """The strip by itself."""

    def __init__(self, session: Session, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.first = ForwardStrip(session, glyphs=glyphs)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return roles_for(DARK)

    def compose(self) -> ComposeResult:
        yield self.first


def node(session: Session, of: str) -> int:
    assert session.tree is not None
    found = session.tree.find(of)
    assert found is not None
    return found


async def test_one_forward_from_left_to_right() -> None:
    session = resnet()
    async with Shown(session).run_test(size=(80, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        strip.selected = node(session, "layer1.1")
        assert [text(line) for line in strip.lines] == [
            "      layer1 50 %                           layer2 43 %                         ",
            " ━━ ━ ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ ━ ─ ",
            "            ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔                                                    ",
        ]


async def test_shares_are_those_of_the_tree_at_once_and_only_cells_are_held() -> None:
    session = resnet()
    async with Shown(session).run_test(size=(80, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        bars = text(strip.lines[1])
        other = {**RESNET_SECONDS, "layer1": 0.0232, "layer2": 0.0107}
        strip.session = ticked(session, other, at=1.25)

        assert "layer1 64 %" in text(strip.lines[0])
        assert "layer2 29 %" in text(strip.lines[0])
        assert text(strip.lines[1]) == bars


async def test_colours_are_the_bounds_and_the_selected_name_is_strong() -> None:
    session = resnet()
    async with Shown(session).run_test(size=(120, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        strip.selected = node(session, "layer2.0")
        roles = {part.strip(): role for part, role in strip.lines[0] if part.strip()}
        assert roles == {"layer1 50 %": "muted", "layer2 43 %": "strong"}
        assert {role for part, role in strip.lines[1] if "━" in part} == {
            "compute",
            "memory",
            "unexplained",
        }
        assert {role for part, role in strip.lines[2] if part.strip()} == {"accent"}


async def test_on_paper_everything_is_grey() -> None:
    async with Shown(resnet(measured=False)).run_test(size=(120, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        assert "layer2 25 %" in text(strip.lines[0])
        assert {role for part, role in strip.lines[1] if "━" in part} == {"faint"}


async def test_colour_arrives_with_the_first_times() -> None:
    session = resnet(measured=False)
    async with Shown(session).run_test(size=(120, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        strip.session = ticked(session, RESNET_SECONDS, at=0.25)
        assert "layer1 50 %" in text(strip.lines[0])
        assert "compute" in {role for _, role in strip.lines[1]}


async def test_segments_hold_still_while_shares_waver() -> None:
    session = session_of("m M 0 0\n  a A 0 0\n  b B 0 0")
    async with Shown(session).run_test(size=(80, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        drawn = set()
        for tick in range(24):
            part = 0.4 + 0.1 * (tick % 2)
            session = ticked(session, {"": 1.0, "a": part, "b": 1 - part}, at=tick / 4)
            strip.session = session
            drawn.add(strip.lines[1])
        assert len(drawn) == 1


async def test_a_share_that_lasts_is_followed() -> None:
    session = session_of("m M 0 0\n  a A 0 0\n  b B 0 0")
    async with Shown(session).run_test(size=(80, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        widths = []
        for tick in range(20):
            part = 0.25 if tick < 4 else 0.75
            session = ticked(session, {"": 1.0, "a": part, "b": 1 - part}, at=tick / 4)
            strip.session = session
            assert text(strip.lines[0]).startswith(f" a {part * 100:.0f} %")
            widths.append(text(strip.lines[1]).split()[0].count("━"))
        assert widths == [19] * 12 + [58] * 8


@pytest.mark.parametrize("cells", [1, 2, 3, 8, 40, 80, 120, 200])
async def test_every_row_is_exactly_as_wide_as_the_screen(cells: int) -> None:
    session = ticked(session_of(RESNET), RESNET_SECONDS)
    async with Shown(session, ASCII).run_test(size=(cells, 5)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        for path in ("", "layer1.1", "fc", "relu"):
            strip.selected = node(session, path)
            assert {line_width(line) for line in strip.lines} <= {cells}
        assert [strip.render_line(y).cell_length for y in range(3)] == [cells] * 3


async def test_hostile_names_are_written_out() -> None:
    session = session_of("m M 0 0\n  \x1b[31m A 0 0\n  [/nope] B 0 0")
    async with Shown(ticked(session, {"": 1.0, "\x1b[31m": 0.5, "[/nope]": 0.5})).run_test(
        size=(80, 5)
    ) as pilot:
        labels = text(pilot.app.query_one(ForwardStrip).lines[0])
        assert labels.split("  ")[0] == " \\x1b[31m 50 %"
        assert "[/nope] 50 %" in labels


async def test_without_a_tree_there_is_nothing() -> None:
    async with Shown(EMPTY).run_test(size=(80, 5)) as pilot:
        assert pilot.app.query_one(ForwardStrip).lines == ()


async def test_the_backward_stands_beside_the_forward_where_both_are_known() -> None:
    training = step_session()
    async with Shown(training).run_test(size=(108, 5)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        strip.selected = 3
        names, bars, marks = (text(line) for line in strip.lines)
        assert names.split() == ["a", "12", "%", "box", "12", "%", "box", "25", "%", "a", "12", "%"]
        assert bars[:8] == "  fwd ━━"
        assert bars[37:45] == "━ bwd ━━"
        assert marks.split() == ["▔" * 8, "▔"]
        assert (marks.index("▔"), marks.rindex("▔")) == (6, 75)


async def test_a_click_on_the_backward_goes_to_the_module() -> None:
    clicked: list[int] = []

    class Listening(Shown):
        def on_forward_strip_clicked(self, event: ForwardStrip.Clicked) -> None:
            clicked.append(event.node)

    async with Listening(step_session()).run_test(size=(108, 5)) as pilot:
        await pilot.click(ForwardStrip, offset=(50, 1))
        await pilot.click(ForwardStrip, offset=(90, 1))
        await pilot.click(ForwardStrip, offset=(39, 1))
    assert clicked == [4, 2]


async def test_a_strip_of_old_shares_has_no_colour() -> None:
    session = resnet()
    async with Shown(session).run_test(size=(120, 10)) as pilot:
        strip = pilot.app.query_one(ForwardStrip)
        strip.stale = True
        assert {role for line in strip.lines for part, role in line if part.strip()} <= {
            "muted",
            "faint",
            "hairline",
        }
        strip.stale = False
        assert "compute" in {role for _, role in strip.lines[1]}
