"""The verb that tries changes, on known messages."""

from __future__ import annotations

import asyncio

from tests.small_model import TRACED
from tui_profiler.messages import TraceDone, TraceStarted, Wish
from tui_profiler.source.recorded import Recorded
from tui_profiler.verbs.outcome import BAD_ARGUMENTS, complaint, exit_code
from tui_profiler.verbs.trials import try_out


async def test_parameters_alone_have_nothing_to_try_and_are_not_waited_for() -> None:
    alone = tuple(
        TraceStarted(one.nodes, "parameters") if isinstance(one, TraceStarted) else one
        for one in TRACED
    )
    assert any(isinstance(one, TraceDone) for one in alone)
    async with asyncio.timeout(120):
        session = await try_out(Recorded(alone), (Wish("compile"),), progress=lambda line: None)
    assert exit_code(session) == BAD_ARGUMENTS
    assert "nothing to try: parameters only" in complaint(session, debug=False)[0]
