"""A running model whose parameters are looked at, in a real worker."""

from __future__ import annotations

from tests.worker import Conversation, spec
from tui_profiler.messages import AnalyseParameters, Heartbeat, LoopState, ParametersStarted, Pause
from tui_profiler.session import Session


def is_looked_at(session: Session) -> bool:
    return session.parameters is not None and session.parameters.done is not None


async def test_a_model_is_held_while_its_parameters_are_looked_at_and_goes_on() -> None:
    conversation = Conversation(spec("demo:cnn"))
    try:
        await conversation.until(lambda session: session.tick is not None)
        conversation.source.send(AnalyseParameters())
        session = await conversation.until(is_looked_at)
        assert session.parameters is not None
        assert session.tree is not None
        assert session.parameters.started.is_random
        names = {one.name for one in session.parameters.tensors}
        assert names >= {
            f"{node.path}.{weight.name}" for node in session.tree.nodes for weight in node.weights
        }
        forwards = session.tick.forwards if session.tick is not None else 0
        begins = next(
            place
            for place, message in enumerate(conversation.heard)
            if isinstance(message, ParametersStarted)
        )
        held = [one for one in conversation.heard[begins - 3 :] if isinstance(one, LoopState)]
        assert any(one.state == "paused" and "parameters" in one.detail for one in held)
        await conversation.until(
            lambda now: (
                now.loop is not None
                and now.loop.state == "running"
                and now.tick is not None
                and now.tick.forwards > forwards
            )
        )
        # A pause that is asked for meanwhile waits, and ends nothing.
        conversation.source.send(AnalyseParameters())
        conversation.source.send(Pause())
        session = await conversation.until(
            lambda now: (
                is_looked_at(now)
                and now.loop is not None
                and now.loop.state == "paused"
                and not now.loop.detail
            )
        )
        assert session.parameters is not None
        assert session.parameters.done is not None
        assert not session.parameters.done.was_stopped
        assert any(isinstance(one, Heartbeat) for one in conversation.heard)
    finally:
        await conversation.close()
