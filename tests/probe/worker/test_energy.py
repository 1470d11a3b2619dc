"""A real worker on a machine whose processor draws 30 W by the test's own clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.probe.measure.energy.moving_counter import WATTS, moving_counter
from tests.worker import Conversation, spec
from tui_profiler.messages import Pause, Replayed, ReplayNode, Stop, Unknown
from tui_profiler.queries.cost.energy import ForwardEnergy, forward_energy
from tui_profiler.session import Session


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOST_SYS", str(tmp_path))
    with moving_counter(tmp_path):
        yield


def is_measured(session: Session) -> bool:
    return isinstance(forward_energy(session), ForwardEnergy)


@pytest.mark.usefixtures("counted")
async def test_a_worker_tells_the_energy_of_a_forward_and_answers_for_replays() -> None:
    conversation = Conversation(spec("demo:shared", grid_grams_per_kwh=400.0))
    try:
        session = await conversation.until(is_measured)
        found = forward_energy(session)
        assert isinstance(found, ForwardEnergy)
        tick = session.tick
        assert tick is not None
        assert session.tree is not None

        assert found.watts == pytest.approx(WATTS, rel=0.05)
        assert found.idle_watts == pytest.approx(WATTS, rel=0.1)
        # A forward cannot take less than its own time, nor more than a whole turn of the loop.
        assert WATTS * tick.latency_p50 * 0.7 < found.joules < WATTS / tick.per_second * 1.5
        assert found.grams == pytest.approx(found.joules * 400 / 3.6e6)

        op = next(i for i, node in enumerate(session.tree.nodes) if node.kind == "op")
        conversation.source.send(ReplayNode(op))
        session = await conversation.until(lambda now: bool(now.replays))
        [refused] = session.replays
        assert refused.why_none.startswith("an operator cannot run alone")

        # A replay takes a quarter of a minute: anything else that is asked ends it.
        conversation.source.send(ReplayNode(0))
        conversation.source.send(Pause())
        session = await conversation.until(lambda now: len(now.replays) == 2)
        assert session.replays[-1].why_none == "cancelled by another request"
        session = await conversation.until(
            lambda now: now.loop is not None and now.loop.state == "paused" and not now.loop.detail
        )
        conversation.source.send(Stop())
    finally:
        await conversation.close()
    assert isinstance(session.replays[0], Replayed)
    assert session.sample is not None
    assert not isinstance(session.sample.energy, Unknown)
