"""The ranks of one run on this host: found when they start, each over a separate socket.

1. Each rank is read by itself: one that is stopped or slow holds up no other, and what waits here
   is bounded, so that more waits in the sockets and is dropped by the ranks.
2. To whatever reads it as a source it is one program: the rank that is chosen.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from tui_profiler.connection.sockets import Place, places
from tui_profiler.messages import Message, Program, Request
from tui_profiler.session.session_group import NO_RANKS, with_message, with_rank
from tui_profiler.source import attached

LOOK_SECONDS = 1.0
MOST_AT_ONCE = 16
MOST_WAITING = 256
"""Messages of all ranks together."""


def is_whole_run(found: attached.Found) -> bool:
    """Tell whether an entry represents all ranks of a run."""
    program = found.program
    return program is not None and program.ranks is not None and program.rank is None


def is_rank(program: Program) -> bool:
    """Tell whether a program is one of the processes of a run, and no helper of one."""
    return program.rank is not None and bool(program.run) and not program.role


def by_run(found: list[attached.Found]) -> list[attached.Found]:
    """Return one entry for the ranks of a run: its first rank's, with how many were found."""
    runs: dict[tuple[str, str], list[attached.Found]] = {}
    for one in found:
        if one.program is not None and is_rank(one.program):
            runs.setdefault((one.program.run, one.program.name), []).append(one)
    entries = []
    for one in found:
        program = one.program
        members = runs.get((program.run, program.name), []) if program is not None else []
        if program is None or len(members) < 2 or one not in members:
            entries.append(one)
        elif one is members[0]:
            entries.append(
                attached.Found(one.place, replace(program, rank=None, ranks=len(members)))
            )
    return entries


class Ranks:
    """All ranks of a run, or one of them until the others are asked for.

    Args:
        program: any rank of the run.
        started_at: Unix time when the command was started.
        only: the one to attach to; None for all.
    """

    def __init__(self, program: Program, started_at: float, only: Place | None = None) -> None:
        self._program = program
        self._started_at = started_at
        self._only = only
        self.group = NO_RANKS
        self.chosen = ""
        """Key of the rank whose messages are shown, and to which requests go."""
        self._sources: dict[str, attached.Attached] = {}
        self._strangers: set[str] = set()
        """Sockets of other programs."""
        self._told: asyncio.Queue[tuple[str, Program | Message]] = asyncio.Queue(MOST_WAITING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def look_at_all(self) -> None:
        """Attach to the other ranks too."""
        self._only = None

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of the chosen rank until closed; the group follows all ranks."""
        self._begin(self._look())
        while not self._is_closed:
            key, what = await self._told.get()
            if isinstance(what, Program):
                self.group = with_rank(self.group, key, what)
                self.chosen = self.chosen or key
                continue
            self.group = with_message(self.group, key, what)
            if key == self.chosen:
                yield what

    def send(self, request: Request) -> None:
        """Ask the chosen rank; it is lost when that is gone."""
        source = self._sources.get(self.chosen)
        if source is not None:
            source.send(request)

    async def close(self) -> None:
        """Hang up on all."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for source in self._sources.values():
            await source.close()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self) -> None:
        """Attach to ranks as they come."""
        while True:
            for place, source in await asyncio.to_thread(self._new):
                key = str(place.path)
                self._sources[key] = source
                await self._told.put((key, source.program))
                self._begin(self._read(key, source))
            await asyncio.sleep(LOOK_SECONDS)

    async def _read(self, key: str, source: attached.Attached) -> None:
        try:
            async for message in source.messages():
                await self._told.put((key, message))
        finally:
            self._sources.pop(key, None)
            await source.close()

    def _new(self) -> list[tuple[Place, attached.Attached]]:
        """Call those that are not known; from any thread."""
        known = {*self._sources, *self._strangers}
        wanted = [
            place
            for place in places()
            if str(place.path) not in known and self._only in (None, place)
        ]
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            return [found for found in pool.map(self._called, wanted) if found is not None]

    def _called(self, place: Place) -> tuple[Place, attached.Attached] | None:
        try:
            connected = attached.connect(place)
            hello = attached.said_hello(connected, attached.HELLO_SECONDS)
        except (OSError, attached.AttachError):
            return None  # It is asked again: its interpreter may be busy.
        assert hello.program is not None
        if self._is_one(hello.program):
            return place, attached.Attached(connected, hello, self._started_at)
        self._strangers.add(str(place.path))
        connected.close()
        return None

    def _is_one(self, program: Program) -> bool:
        same = (program.run, program.name) == (self._program.run, self._program.name)
        return same and is_rank(program)
