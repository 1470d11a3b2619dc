"""A source that begins with the tree of last time, and remembers the one that comes.

1. What is remembered is told first, as what it is: the probe's own tree replaces it.
2. The first trace of a request is written once its first figures have come, so that all stages are
   known. Where nothing was known before it is also written when the tree is whole: who leaves then
   has it next time, or has read why not.
3. What was asked for later (another batch size) is another request: it is not kept.
4. What reads and writes the files is imported on the thread that does so, which begins at once:
   whoever has something else to do meanwhile can ask later what it has found (``known``).
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeAlias

from tui_profiler.messages import (
    Edges,
    LoadSpec,
    LoopState,
    Message,
    ModelFacts,
    Nodes,
    Printed,
    StageDone,
    Tick,
    TraceDone,
    TraceStarted,
)
from tui_profiler.session import Jump, Remembered
from tui_profiler.source import Source, Told

_Part: TypeAlias = ModelFacts | TraceStarted | Nodes | Edges | TraceDone


class CachedTreeSource:
    """Says what another source says, after what is remembered of the same request.

    Args:
        source: is closed with this one.
        spec: what it was asked for.
    """

    def __init__(self, source: Source, spec: LoadSpec) -> None:
        self._source = source
        self.send = source.send
        self._spec = spec
        self._parts: list[_Part] = []
        self._stages: list[StageDone] = []
        self._nodes = 0
        self._is_whole = False
        self._is_sealed = False
        """What comes now is of another request: nothing more of it is kept."""
        self._is_kept = False
        self._knew = False
        self._is_told = False
        self._told_why = ""
        self._recalled: Future[tuple[Remembered | None, str]] = Future()
        self._recalled.set_running_or_notify_cancel()  # Whoever waits no longer does not end it.
        Thread(target=self._recall, daemon=True).start()

    def known(self, seconds: float) -> Remembered | None:
        """Return what is remembered, if it is found so soon; then it is not said again."""
        wait([self._recalled], seconds)
        if not self._recalled.done() or self._recalled.exception() is not None:
            return None  # ``messages`` will wait for it, or raise it.
        self._is_told = True
        return self._recalled.result()[0]

    async def messages(self) -> AsyncIterator[Told]:
        """Yield what is remembered, where there is something, then what the other source says."""
        found, why = await asyncio.wrap_future(self._recalled)
        if why:
            yield _logged(f"the cached tree cannot be used: {why}")
        if found is not None:
            self._knew = found.tree is not None
            if not self._is_told:
                yield found
        async for message in self._source.messages():
            yield message
            if isinstance(message, Jump | Remembered):
                continue
            self._learn(message)
            why = ""
            if self._is_whole and not self._is_kept and _has_figures(message):
                why = await asyncio.to_thread(self._keep)
            elif isinstance(message, TraceDone) and not self._knew and not self._is_sealed:
                why = await asyncio.to_thread(self._write)
            if why and why != self._told_why:
                self._told_why = why
                yield _logged(f"this tree is not cached: {why}")

    def _recall(self) -> None:
        from tui_profiler.source.cached_tree_files import recall  # noqa: PLC0415 # rule 4

        try:
            self._recalled.set_result(recall(self._spec))
        except BaseException as error:
            self._recalled.set_exception(error)  # Raised again where it is waited for.

    async def close(self) -> None:
        """Close the other source, and write the stages that came after the tree."""
        await self._source.close()
        if self._is_whole and not self._is_kept and not self._knew:
            await asyncio.to_thread(self._keep)

    def _learn(self, message: Message) -> None:
        """Take the parts of the first trace, of both its forwards where there are two."""
        if self._is_whole and isinstance(message, ModelFacts):  # Traced anew, as asked later.
            self._is_sealed = True
        if self._is_sealed or self._is_kept:
            return
        if isinstance(message, StageDone):
            self._stages.append(message)
        if not isinstance(message, _Part):
            return
        from tui_profiler.source.cached_tree_files import MOST_NODES  # noqa: PLC0415 # rule 4

        self._nodes += len(message.nodes) if isinstance(message, Nodes) else 0
        self._is_whole = self._is_whole or isinstance(message, TraceDone)
        if self._nodes <= MOST_NODES:
            self._parts.append(message)
        else:
            self._parts.clear()  # Only the seconds of its stages are kept.

    def _keep(self) -> str:
        """Write what is known for the last time; return what went wrong, if anything."""
        self._is_kept = True
        why = self._write()
        self._parts.clear()
        return why

    def _write(self) -> str:
        from tui_profiler.source.cached_tree_files import keep  # noqa: PLC0415 # rule 4

        return keep(self._spec, (*self._stages, *self._parts))


def _has_figures(message: Message) -> bool:
    """Tell whether everything before the running model is over."""
    if isinstance(message, LoopState):
        return message.state == "finished"
    return isinstance(message, Tick) and message.forwards > 0


def _logged(line: str) -> Printed:
    return Printed(f"tui-profiler: {line}\n")
