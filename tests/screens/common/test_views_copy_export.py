"""Copy and export on the screens beside the explorer: the same keys as there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from screens.common.base_app import BaseApp
from screens.views.view_screen import SideScreen
from screens.widgets.lines import Line
from screens.widgets.rows import Look, row
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import on_stage
from tests.screens.screen_text import screen_text


class View(SideScreen):
    """Names the node that is selected."""

    name_of_view = "memory"

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        return [row((("a view of 漢 conv2", "ink"),), (("end", "ink"),), look)]

    def status(self, look: Look) -> Line:
        return row((("one fact", "muted"),), (), look)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_a_side_screen_copies_and_exports_and_typing_presses_no_key(folder: Path) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        app = stage.app
        assert app.session.tree is not None
        node = app.session.tree.find("layer3.2.conv2")
        assert node is not None
        view = View(node).data_bind(BaseApp.session)
        await app.push_screen(view)
        await pilot.pause()
        before = screen_text(app)
        assert "one fact" in before

        async def press(*keys: str) -> str:
            await pilot.press(*keys)
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            return screen_text(app)

        copied = folder / "cache" / "tui-profiler" / "copied.txt"
        assert "copy:  p path  s screen  esc cancels" in await press("y")
        assert "copied layer3.2.conv2 into " in await press("p")
        assert copied.read_text() == "layer3.2.conv2"

        await press("y", "s")
        rows = copied.read_text().splitlines()
        shown = next(line for line in rows if "a view" in line)
        # One letter is two cells wide.
        assert shown == " a view of 漢 conv2".ljust(115) + "end"
        assert len(rows) == 40

        # r and q would leave: they are letters here.
        assert "as .txt  .svg" in await press("e", "ctrl+u", *"rqm")
        assert app.screen is view
        told = await press(*".txt", "enter")
        assert f"wrote the screen as text: {folder}/rqm.txt"[:100] in told
        assert "a view of 漢 conv2" in (folder / "rqm.txt").read_text()
        assert "formats, by extension: .txt, .svg, .md, .json, .pftrace" in await press(
            "e", "ctrl+u", *"x.csv", "enter"
        )
        await press("q")
        assert app.screen is not view
