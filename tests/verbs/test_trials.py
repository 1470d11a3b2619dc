"""The verb that tries changes, on known messages."""

from __future__ import annotations

import asyncio

from tests.recorded_source import Recorded
from tests.small_model import MEASURED, TRACED
from tui_profiler.messages import TraceDone, TraceStarted, TrialResult, Wish
from tui_profiler.session import Session
from tui_profiler.verbs.outcome import BAD_ARGUMENTS, complaint, exit_code
from tui_profiler.verbs.trials import try_out


async def test_parameters_alone_have_nothing_to_try_and_are_not_waited_for() -> None:
    alone = tuple(
        TraceStarted(one.nodes, "parameters") if isinstance(one, TraceStarted) else one
        for one in TRACED
    )
    assert any(isinstance(one, TraceDone) for one in alone)
    async with asyncio.timeout(120):
        session = await try_out(
            *(Recorded(alone), (Wish("compile"),)), progress=lambda line: None, kept=lambda _: None
        )
    assert exit_code(session) == BAD_ARGUMENTS
    assert "nothing to try: parameters only" in complaint(session, debug=False)[0]


async def test_each_result_is_kept_as_it_comes_for_who_interrupts() -> None:
    results = [TrialResult(kind, -1, "impossible", 0.1, "no") for kind in ("compile", "sdpa")]
    kept: list[Session] = []
    both_came = asyncio.Event()

    def keep(session: Session) -> None:
        kept.append(session)
        if len(kept) == 2:
            both_came.set()

    wishes = [Wish("compile"), Wish("sdpa"), Wish("threads")]
    source = Recorded((*MEASURED, *results))
    verb = asyncio.create_task(try_out(source, wishes, progress=lambda line: None, kept=keep))
    async with asyncio.timeout(120):
        await both_came.wait()
    verb.cancel()  # As ctrl+C does: the third never comes.
    await asyncio.gather(verb, return_exceptions=True)
    assert [len(session.trials) for session in kept] == [1, 2]
