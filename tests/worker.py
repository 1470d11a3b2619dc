"""A real worker, asked and listened to: shared by the tests that need one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tui_profiler.messages import LoadSpec, LoopState, Message, Request, Start
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.spawned import SILENT, Spawned, worker_command


class Conversation:
    """Folds what a worker says into a session until a claim about it holds."""

    def __init__(
        self,
        spec: LoadSpec,
        *,
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] = SILENT,
    ) -> None:
        self.source = Spawned(
            worker_command(), first=[Start(spec)], arguments=arguments, environment=environment
        )
        self._messages = self.source.messages()
        self.session: Session = EMPTY
        self.heard: list[Message] = []

    async def until(self, holds: Callable[[Session], bool], seconds: float = 240) -> Session:
        async with asyncio.timeout(seconds):
            while not holds(self.session):
                message = await anext(self._messages)
                self.heard.append(message)
                self.session = apply(self.session, message)
        return self.session

    async def ask(self, request: Request, state: str) -> None:
        """Ask, and wait for the worker's own word that it is so."""
        self.source.send(request)
        await self.until(
            lambda _: isinstance(self.heard[-1], LoopState) and self.heard[-1].state == state
        )

    async def close(self) -> None:
        await self.source.close()


def spec(model: str, folder: Path | None = None, **options: object) -> LoadSpec:
    """What the command line would ask for, without measuring ceilings."""
    settings: dict[str, object] = {"ceilings": False, **options}
    return LoadSpec(
        model,
        folder=str(folder or os.getcwd()),
        started_at=time.time(),
        **settings,  # type: ignore[arg-type] # each is a field of LoadSpec
    )
