"""A real worker that only shows a file of parameters, or nothing: whatever is asked is answered."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path

import pytest

from tests.worker import spec
from tui_profiler.messages import (
    NO_FORWARD,
    TRIAL_KINDS,
    AnalyseParameters,
    Message,
    Replayed,
    ReplayNode,
    StageStarted,
    Start,
    TraceDone,
    TrialResult,
    Try,
    Wish,
)
from tui_profiler.source.spawned import Spawned, worker_command

HEADER = json.dumps({"a.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
PARAMETERS = struct.pack("<Q", len(HEADER)) + HEADER + bytes(8)
WISHES = [Wish(kind) for kind in TRIAL_KINDS] + [Wish("compile", node=1)]


async def answers(file: Path, *, count: int, until_shown: bool) -> list[Message]:
    """Return what a worker says until it has answered so many requests.

    Args:
        file: that it is to open.
        count: of trials and replays that are asked for.
        until_shown: ask when the tree is there, and not at once.
    """
    asked = [*map(Try, WISHES), ReplayNode(0)]
    first = [] if until_shown else asked
    source = Spawned(worker_command(), first=[Start(spec(str(file))), *first])
    said: list[Message] = []
    try:
        async with asyncio.timeout(60):
            async for message in source.messages():
                said.append(message)
                if until_shown and isinstance(message, TraceDone):
                    # The trials stop the analysis, and are answered none the less.
                    for request in (AnalyseParameters(), *asked):
                        source.send(request)
                if sum(isinstance(one, TrialResult | Replayed) for one in said) == count:
                    break
    finally:
        await source.close()
    return said


@pytest.mark.parametrize(
    ("content", "until_shown", "why"),
    [
        (PARAMETERS, False, NO_FORWARD),
        (PARAMETERS, True, NO_FORWARD),
        (b"no file of any kind", False, "nothing was loaded"),
    ],
    ids=["asked at once", "asked when it is shown", "nothing loaded"],
)
async def test_every_trial_is_refused_with_the_reason(
    content: bytes, until_shown: bool, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "file.safetensors"
    file.write_bytes(content)
    said = await answers(file, count=len(WISHES) + 1, until_shown=until_shown)
    trials = [one for one in said if isinstance(one, TrialResult)]
    assert [(one.kind, one.node) for one in trials] == [(one.kind, one.node) for one in WISHES]
    assert {(one.outcome, one.why) for one in trials} == {("impossible", why)}
    assert [one.why_none for one in said if isinstance(one, Replayed)] == [why]
    if not until_shown:
        stages = {one.stage for one in said if isinstance(one, StageStarted)}
        assert "import torch" not in stages
