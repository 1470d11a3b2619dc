"""A program's messages, and trials of its optimizer in a worker beside it.

1. The program is asked for nothing: the worker makes tensors of the shapes that the viewer knows.
2. One trial at a time; another that is asked for meanwhile is not run. It ends with this source.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from msgspec.structs import replace

from tui_profiler.messages import (
    WHOLE_MODEL,
    Failed,
    Hello,
    ProlongTrial,
    Request,
    StopTrial,
    TrialOutcome,
    TrialProgress,
    TrialResult,
    TryOptimizer,
)
from tui_profiler.source import Source, Told
from tui_profiler.source.spawned import worker

ACCEPTS = ("TryOptimizer", "StopTrial", "ProlongTrial")
MOST_WAITING = 256


class WithOptimizerTrials:
    """Yields the messages of a program, and of trials.

    Args:
        source: of the program on this host; it is closed with this one.
        start: starts a worker with its first request.
    """

    def __init__(self, source: Source, start: Callable[[Request], Source] = worker) -> None:
        self._source = source
        self._start = start
        self._told: asyncio.Queue[Told | None] = asyncio.Queue(MOST_WAITING)
        """None: the program's are over."""
        self._beside: Source | None = None
        self._trial: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._error: Exception | None = None

    async def messages(self) -> AsyncIterator[Told]:
        """Yield messages until the program's are over."""
        of_program = asyncio.create_task(self._pass_on())
        try:
            while (message := await self._told.get()) is not None:
                yield message
            if self._error is not None:
                raise self._error
        finally:
            of_program.cancel()
            await self._end_trial()

    def send(self, request: Request) -> None:
        """Start or stop a trial; ask the program for anything else."""
        match request:
            case TryOptimizer():
                if self._trial is None or self._trial.done():
                    self._trial = asyncio.create_task(self._run(request))
            case StopTrial() if self._trial is not None:
                self._is_stopped = True
                self._trial.cancel()
            case ProlongTrial() if self._beside is not None:
                self._beside.send(request)
            case _:
                self._source.send(request)

    async def close(self) -> None:
        """Close both."""
        await self._end_trial()
        await self._source.close()

    async def _pass_on(self) -> None:
        try:
            async for message in self._source.messages():
                await self._told.put(_accepting(message))
        except Exception as error:  # Raised where the messages are read.
            self._error = error
        await self._told.put(None)

    async def _run(self, request: TryOptimizer) -> None:
        """Run a trial; it has one result, also if it is stopped."""
        began, kind = time.monotonic(), request.wish.kind

        def without(outcome: TrialOutcome, why: str) -> TrialResult:
            return TrialResult(kind, WHOLE_MODEL, outcome, time.monotonic() - began, why)

        self._is_stopped = False
        result = without("failed", "its process ended")
        await self._told.put(TrialProgress(kind, WHOLE_MODEL, "start", 0.0))
        self._beside = beside = self._start(request)
        try:
            async for message in beside.messages():
                match message:
                    case TrialProgress():
                        await self._told.put(message)
                    case TrialResult():
                        result = message
                        break
                    case Failed(stage=stage, what=what):
                        result = without("failed", f"{stage}: {what}")
                        break
                    case _:
                        pass  # Its stages and samples are not the program's.
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
            result = without("stopped", "stopped")
        finally:
            self._beside = None
            await beside.close()
        await self._told.put(result)

    async def _end_trial(self) -> None:
        if self._trial is not None and not self._trial.done():
            self._trial.cancel()
            await asyncio.gather(self._trial, return_exceptions=True)


def _accepting(message: Told) -> Told:
    if isinstance(message, Hello) and message.program is not None:
        return replace(message, accepts=(*message.accepts, *ACCEPTS))
    return message
