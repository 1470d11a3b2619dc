"""The frame of next time: painted by the app itself, with the cached tree, when it was left."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import msgspec
from rich.console import RenderableType
from textual.screen import Screen

from tui_profiler.messages import LoadSpec, Request
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Told
from tui_profiler.source.cached_tree_files import recall
from tui_profiler.system.files import write_private

from ..settings.preferences import Preferences
from ..terminal.cells import Cell
from .explorer_app import ProfilerApp
from .first_frame import frame_path, painted

_MOST_SECONDS = 5.0


class _Silence:
    """A source that says nothing."""

    async def messages(self) -> AsyncIterator[Told]:
        """Wait for ever."""
        nothing: asyncio.Queue[Told] = asyncio.Queue()
        while True:
            yield await nothing.get()

    def send(self, request: Request) -> None:
        """Nobody is asked."""

    async def close(self) -> None:
        """Nothing is open."""


class _Painted(ProfilerApp):
    """Shows its first frame to nobody, and leaves."""

    rows: tuple[tuple[Cell | None, ...], ...] = ()

    def show(self, screen: Screen[Any], updates: Sequence[RenderableType | None]) -> None:
        """Keep what would be sent."""
        for update in updates:
            if update is not None:
                self._take(update)

    def begin(self) -> None:
        """The first frame is whole."""
        self.rows = self._cells.wanted
        self.exit(0)


def paint_for_next_time(
    spec: LoadSpec, preferences: Preferences, sizes: Iterable[tuple[int, int]]
) -> None:
    """Write the frames with the cached tree that are not there yet.

    Args:
        spec: what was asked for.
        preferences: as the next start will read them.
        sizes: of terminals, columns and rows.

    Raises:
        OSError: one cannot be written.
    """
    paths = {size: frame_path(spec, preferences, size) for size in sizes}
    missing = {size: path for size, path in paths.items() if not path.exists()}
    found, _ = recall(spec) if missing else (None, "")
    if found is None or found.tree is None:
        return
    session = apply(EMPTY, found)
    for size, path in missing.items():
        rows = asyncio.run(frame_rows(spec, preferences, session, size))
        if (frame := painted(rows, session, spec, preferences.glyphs)) is not None:
            write_private(path, msgspec.msgpack.encode(frame))


async def frame_rows(
    spec: LoadSpec,
    preferences: Preferences,
    session: Session,
    size: tuple[int, int],
    clock: Callable[[], float] | None = None,
) -> tuple[tuple[Cell | None, ...], ...]:
    """Return the cells of the explorer's first frame, row by row.

    Args:
        spec: what was asked for.
        preferences: of the user, for its model; what the app changes of them is not kept.
        session: to begin with.
        size: columns and rows.
        clock: returns Unix time; None: that of the machine.
    """
    app = _Painted(
        _Silence(),
        spec,
        lambda spec: _Silence(),
        preferences=preferences.unwritten(),
        clock=clock,
        begun=session,
    )
    await asyncio.wait_for(app.run_async(headless=True, size=size), _MOST_SECONDS)
    if app.crash is not None:
        raise app.crash
    return app.rows
