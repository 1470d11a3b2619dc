"""Runs a script as ``run`` does, in a process without threads; prints what its steps were.

With a budget for which nearly all steps are recorded: on a busy machine the usual one would leave a
script of 200 steps with none.
"""

import asyncio
import json
import sys
import time

from tui_profiler.messages import known
from tui_profiler.queries.training.step import step_parts
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.script import Script


async def watched(arguments: list[str]) -> Session:
    session = EMPTY
    source = Script(arguments, started_at=time.time(), budget=1.0, owns_terminal=True)
    async for message in source.messages():
        session = apply(session, message)
    await source.close()
    return session


if __name__ == "__main__":
    session = asyncio.run(watched(sys.argv[1:]))
    assert session.training is not None
    step, root = session.training.step, session.training.of(0)
    assert root is not None
    parts = {part.name: part.seconds or 0.0 for part in step_parts(session)}
    unnamed = parts["other"] * (1 - sum(line.share for line in step.lines))
    inside = root.forward + root.backward + root.recomputed
    by_line = sum(line.outside for line in step.backward_lines)
    whole = parts["forward"] + parts["backward"]
    print(
        json.dumps(
            {
                "named": 1 - unnamed / (known(step.seconds) or 1.0),
                "forward": root.forward / parts["forward"],
                "modules": inside / whole,
                "with_lines": (inside + by_line) / whole,
                "recorded": step.recorded,
            }
        ),
        flush=True,
    )
