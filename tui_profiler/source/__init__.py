"""Where messages come from; nothing after a source knows which one it is."""

from collections.abc import AsyncIterator
from typing import Protocol, TypeAlias

from tui_profiler.messages import Message, Request
from tui_profiler.session import Jump, Remembered

Told: TypeAlias = Message | Jump | Remembered
"""What a probe sends; or, of a recording, what was known at another position; or what was known
last time."""


class Source(Protocol):
    """Anything that a session can be folded from."""

    def messages(self) -> AsyncIterator[Told]:
        """Yield messages until the probe ends; the last one is ``Ended``."""
        ...

    def send(self, request: Request) -> None:
        """Ask the probe for something; never waits. What is asked of a dead probe is lost."""
        ...

    async def close(self) -> None:
        """Stop the probe and wait until it is gone. May be called twice."""
        ...
