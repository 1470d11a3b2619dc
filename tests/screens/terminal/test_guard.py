"""What is left running when the terminal is gone: nothing."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from screens.terminal.guard import HANG_UP_CODE, end_on_hang_up


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_process_ends_also_where_nothing_can_be_asked_of_the_terminal() -> None:
    """Its descriptor was closed: without an end, what reads keys would take a whole core."""
    codes: list[int] = []
    is_over = threading.Event()

    def last(code: int) -> None:
        codes.append(code)
        is_over.set()

    async def watch() -> None:
        gone, other = os.pipe()
        os.close(gone)
        os.close(other)
        end_on_hang_up(gone, codes.append, last)
        await asyncio.to_thread(is_over.wait, 10)

    asyncio.run(watch())
    assert codes[-1:] == [HANG_UP_CODE]
