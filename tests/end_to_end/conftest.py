"""Programs started by a test do not outlive it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.end_to_end.terminal import COMMAND, Terminal

Start = Callable[..., Terminal]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start ``tui-profiler`` with arguments on a pty."""
    started: list[Terminal] = []

    def begin(*arguments: str, **options: object) -> Terminal:
        terminal = Terminal([*COMMAND, *arguments], **options)  # type: ignore[arg-type] # passed on
        started.append(terminal)
        return terminal

    yield begin
    for terminal in started:
        terminal.close()
