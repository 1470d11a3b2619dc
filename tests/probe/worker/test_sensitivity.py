"""Sensitivity asked of a real worker where nothing can run; else: test_worker_parameters.py."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.worker import Conversation, spec
from tui_profiler.messages import MeasureSensitivity
from tui_profiler.messages.parameters import Scheme
from tui_profiler.session import Session


def is_over(session: Session) -> bool:
    return session.sensitivity is not None and session.sensitivity.done is not None


async def test_parameters_alone_are_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    torch.save({"fc.weight": torch.ones(2, 3)}, file)
    worker = Conversation(spec(str(file)))
    try:
        await worker.until(lambda s: s.loop is not None and s.loop.state == "finished")
        worker.source.send(MeasureSensitivity(Scheme("int8")))
        session = await worker.until(is_over)
        assert session.sensitivity is not None
        assert session.sensitivity.done is not None
        assert "parameters" in session.sensitivity.done.why
        assert session.sensitivity.done.measured == 0
    finally:
        await worker.close()
