"""What is drawn before Textual is there equals what Textual draws, cell by cell."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest
from msgspec.structs import replace

from screens.app import first_frame
from screens.app.cached_frame import frame_rows, paint_for_next_time
from screens.settings.appearance import (
    GLYPH_SETS,
    THEME_NAMES,
    UNTYPED,
    AppearanceOptions,
    GlyphSet,
    ThemeName,
)
from screens.settings.preferences import read_preferences
from screens.terminal.cells import Cell
from screens.widgets.rows import Look
from tests.fixtures.record import recorded
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.tree.focus import initial
from tui_profiler.session import EMPTY, apply
from tui_profiler.source.cached_tree_files import KEPT, MOST_FRAMES, keep, recall
from tui_profiler.source.cached_tree_key import key_of

Rows: TypeAlias = tuple[tuple[Cell | None, ...], ...]
SIZES = [(120, 40), (80, 24), (200, 60), (100, 30), (99, 31), (160, 45), (60, 15), (37, 11)]
SIZES += [(20, 5)]
SPEC = LoadSpec("resnet50", batch=3, inputs=("1,3,64,64",), started_at=0.0)


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in [*os.environ]:
        if name.startswith(("TEXTUAL_", "LC_", "NO_COLOR", "TUI_PROFILER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")


def stages(appearance: AppearanceOptions = UNTYPED, size: tuple[int, int] = (120, 40)) -> Rows:
    """What stands there first, after it was compared with what Textual shows first."""
    preferences = read_preferences(appearance, SPEC.model)
    look = Look(EMPTY, 0, 7.0, size[0], preferences.glyphs)
    ours = first_frame.stage_cells(
        SPEC, preferences, look, size[1], first_frame.pens_of(preferences)
    ).wanted
    textuals = asyncio.run(frame_rows(SPEC, preferences, EMPTY, size, lambda: 7.0))
    for y, (drawn, shown) in enumerate(zip(ours, textuals, strict=True)):
        assert drawn == shown, f"row {y}"
    return ours


def remembered(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> first_frame.FirstFrame:
    """The frame of a start after the model was opened in a terminal of this size."""
    monkeypatch.setenv("COLUMNS", str(size[0]))
    monkeypatch.setenv("LINES", str(size[1]))
    frame = first_frame.first_frame(
        SPEC, read_preferences(UNTYPED, SPEC.model), now=7.0, remembers=True
    )
    assert frame is not None
    return frame


def kept(sizes: Sequence[tuple[int, int]]) -> None:
    """Open the model, and leave it."""
    assert keep(SPEC, [one for one in recorded() if isinstance(one, KEPT)]) == ""
    paint_for_next_time(SPEC, read_preferences(UNTYPED, SPEC.model), sizes)


@pytest.mark.parametrize("size", SIZES)
def test_the_stages_are_where_the_explorer_shows_them(size: tuple[int, int]) -> None:
    stages(size=size)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
@pytest.mark.parametrize("glyphs", GLYPH_SETS)
@pytest.mark.parametrize("theme", THEME_NAMES)
def test_the_stages_are_drawn_in_every_theme_and_set(
    theme: ThemeName, glyphs: GlyphSet, size: tuple[int, int]
) -> None:
    stages(AppearanceOptions(theme, glyphs), size)


@pytest.mark.parametrize(
    "environment",
    [{"NO_COLOR": "1"}, {"COLORTERM": ""}, {"TERM": "linux", "COLORTERM": ""}, {"LANG": "C"}],
    ids=str,
)
def test_the_stages_are_drawn_as_the_environment_says(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stages()


def test_the_stages_have_the_users_keys(tmp_path: Path) -> None:
    config = tmp_path / "tui-profiler" / "config.toml"
    config.parent.mkdir()
    config.write_text('[keys]\nrestart = "F"\n')
    assert "F restart" in "".join(text for text, _ in stages()[-1] if text)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (200, 60), (37, 11)])
def test_the_cached_tree_is_there_as_the_explorer_will_show_it(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept([size])
    frame = remembered(size, monkeypatch)
    assert frame.has_tree
    found, _ = recall(SPEC)
    assert found is not None
    session = apply(EMPTY, found)
    preferences = read_preferences(UNTYPED, SPEC.model)
    textuals = asyncio.run(frame_rows(SPEC, preferences, session, size, lambda: 7.0))
    for y, (drawn, shown) in enumerate(zip(frame.cells.wanted, textuals, strict=True)):
        assert drawn == shown, f"row {y}"


def test_how_old_a_cached_tree_is_is_told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    kept([(120, 40)])
    trace = key_of(SPEC).path
    os.utime(trace, (trace.stat().st_mtime - 3 * 3600,) * 2)
    cells = remembered((120, 40), monkeypatch).cells.wanted
    rows = ["".join(cell[0] for cell in row if cell) for row in cells]
    assert "cached 3 h ago" in rows[0]
    assert rows[-2].startswith(" cached 3 h ago  new trace in about")


def test_a_frame_of_anything_else_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    kept([(120, 40)])
    preferences = read_preferences(UNTYPED, SPEC.model)

    def has_tree(spec: LoadSpec = SPEC, appearance: AppearanceOptions = UNTYPED) -> bool:
        frame = first_frame.first_frame(
            spec, read_preferences(appearance, spec.model), now=0.0, remembers=True
        )
        return frame is not None and frame.has_tree

    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "40")
    assert has_tree()
    assert has_tree(replace(SPEC, started_at=9.0))
    assert not has_tree(replace(SPEC, batch=4))
    assert not has_tree(appearance=AppearanceOptions("light"))
    assert not has_tree(appearance=AppearanceOptions(glyphs="ascii"))
    for name, value in {"COLUMNS": "119", "NO_COLOR": "1", "COLORTERM": "", "LANG": "C"}.items():
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            assert not has_tree(), name
    found, _ = recall(SPEC)
    assert found is not None
    assert found.tree is not None
    preferences.end(replace(initial(found.tree), show_operators=True), found.tree)
    assert not has_tree(), "the saved view is another"
    preferences.end(initial(found.tree), found.tree)
    assert has_tree()
    key_of(SPEC).path.unlink()
    assert not has_tree(), "the tree is gone"


def test_what_is_not_known_of_textuals_drawing_leaves_no_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preferences = read_preferences(UNTYPED, SPEC.model)
    for name in ("TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "TUI_PROFILER_STOCK_OUTPUT"):
        with monkeypatch.context() as patched:
            patched.setenv(name, "1")
            assert first_frame.first_frame(SPEC, preferences, now=0.0, remembers=False) is None
    monkeypatch.setenv("COLUMNS", "19")
    assert first_frame.first_frame(SPEC, preferences, now=0.0, remembers=False) is None


@pytest.mark.parametrize("written", ["\x1b[31m", "\x07", "\n"])
def test_a_frame_that_a_terminal_would_obey_is_not_shown(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept([(120, 40)])
    path = first_frame.frame_path(SPEC, read_preferences(UNTYPED, SPEC.model), (120, 40))
    frame = msgspec.msgpack.decode(path.read_bytes(), type=first_frame.PaintedFrame)
    for changed in (
        replace(frame, rows=(((0, written * 120),), *frame.rows[1:])),
        replace(frame, pens=(((written,), "", ""), *frame.pens[1:])),
        replace(frame, pens=()),
        replace(frame, rows=frame.rows[1:]),
    ):
        path.write_bytes(msgspec.msgpack.encode(changed))
        assert not remembered((120, 40), monkeypatch).has_tree
    path.write_bytes(b"no frame")
    assert not remembered((120, 40), monkeypatch).has_tree
    path.unlink()
    path.symlink_to(key_of(SPEC).path)
    assert not remembered((120, 40), monkeypatch).has_tree


def test_frames_are_few_and_go_with_their_tree() -> None:
    sizes = [(columns, 30) for columns in range(100, 100 + MOST_FRAMES + 2)]
    kept(sizes)
    keep(SPEC, [one for one in recorded() if isinstance(one, KEPT)])
    place = key_of(SPEC).path.parent
    assert len(list(place.glob("*.frame"))) == MOST_FRAMES
    key_of(SPEC).path.unlink()
    keep(replace(SPEC, model="other"), [one for one in recorded() if isinstance(one, KEPT)])
    assert not list(place.glob("*.frame"))
