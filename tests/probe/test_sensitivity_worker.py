"""Sensitivity asked of a real worker: while the model runs, stopped, and where nothing can run."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.worker import Conversation, spec
from tui_profiler.messages import LoopState, MeasureSensitivity, Sensitivity, StopAnalysing
from tui_profiler.messages.sensitivity import Scheme
from tui_profiler.probe.asides import WHY
from tui_profiler.session import Session

INT8 = Scheme("int8")


def is_over(session: Session) -> bool:
    return session.sensitivity is not None and session.sensitivity.done is not None


async def test_the_live_run_waits_and_goes_on() -> None:
    worker = Conversation(spec("demo:cnn"))
    try:
        await worker.until(lambda session: session.tick is not None)
        worker.source.send(MeasureSensitivity(INT8))
        session = await worker.until(is_over)
        found = session.sensitivity
        assert found is not None
        assert found.done is not None
        assert (found.done.why, found.done.measured) == ("", 22)
        assert (len(found.weights), found.started.is_random) == (22, True)
        assert all(one.done for one in found.weights.values())
        states = [one for one in worker.heard if isinstance(one, LoopState)]
        assert states[-1].detail == WHY[MeasureSensitivity]
        await worker.until(lambda s: s.loop is not None and s.loop.state == "running")
        forwards = session.tick.forwards if session.tick is not None else 0
        await worker.until(lambda s: s.tick is not None and s.tick.forwards > forwards)

        # Stopped on the way: what was measured stays.
        worker.source.send(MeasureSensitivity(Scheme("int4")))
        await worker.until(lambda _: isinstance(worker.heard[-1], Sensitivity))
        worker.source.send(StopAnalysing())
        session = await worker.until(is_over)
        assert session.sensitivity is not None
        assert session.sensitivity.scheme == Scheme("int4")
        await worker.until(lambda s: s.loop is not None and s.loop.state == "running")
    finally:
        await worker.close()


async def test_parameters_alone_are_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    torch.save({"fc.weight": torch.ones(2, 3)}, file)
    worker = Conversation(spec(str(file)))
    try:
        await worker.until(lambda s: s.loop is not None and s.loop.state == "finished")
        worker.source.send(MeasureSensitivity(INT8))
        session = await worker.until(is_over)
        assert session.sensitivity is not None
        assert session.sensitivity.done is not None
        assert "parameters" in session.sensitivity.done.why
        assert session.sensitivity.done.measured == 0
    finally:
        await worker.close()
