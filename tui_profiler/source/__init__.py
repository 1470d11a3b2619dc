"""Where messages come from; nothing after a source knows which one it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from tui_profiler.messages import Message, Request


class Source(Protocol):
    """Anything that a session can be folded from."""

    def messages(self) -> AsyncIterator[Message]:
        """Yield messages until the probe ends; the last one is ``Ended``."""
        ...

    def send(self, request: Request) -> None:
        """Ask the probe for something; never waits. What is asked of a dead probe is lost."""
        ...

    async def close(self) -> None:
        """Stop the probe and wait until it is gone. May be called twice."""
        ...
