"""A running model whose parameters are looked at and made coarser, in a real worker."""

from __future__ import annotations

from tests.worker import Conversation, spec
from tui_profiler.messages import (
    AnalyseParameters,
    Heartbeat,
    LoopState,
    MeasureSensitivity,
    ParametersDone,
    ParametersProgress,
    Pause,
    Resume,
    Sensitivity,
    SensitivityDone,
    StopAnalysing,
)
from tui_profiler.messages.parameters import Scheme
from tui_profiler.probe.worker.interruptions import WHY
from tui_profiler.session import Session


def is_looked_at(session: Session) -> bool:
    return session.parameters is not None and session.parameters.done is not None


def has_progress(session: Session) -> bool:
    return session.parameters is not None and session.parameters.progress is not None


def is_measured(session: Session) -> bool:
    return session.sensitivity is not None and session.sensitivity.done is not None


async def goes_on(conversation: Conversation) -> None:
    tick = conversation.session.tick
    forwards = tick.forwards if tick is not None else 0
    await conversation.until(
        lambda now: (
            now.loop is not None
            and now.loop.state == "running"
            and now.tick is not None
            and now.tick.forwards > forwards
        )
    )


async def test_a_model_runs_on_while_its_parameters_are_read_and_pauses_for_sensitivity() -> None:
    conversation = Conversation(spec("demo:cnn"))
    try:
        await conversation.until(lambda session: session.tick is not None)
        conversation.source.send(AnalyseParameters())
        session = await conversation.until(has_progress)
        begun = len(conversation.heard)
        await goes_on(conversation)
        assert session.parameters is not None
        assert session.parameters.progress is not None
        # At most what watching leaves of 2 %.
        assert 0.005 <= session.parameters.progress.share <= 0.02
        assert session.parameters.progress.left_seconds
        # Whoever wants it sooner pauses the model: all the time is given to it then.
        conversation.source.send(Pause())
        session = await conversation.until(is_looked_at)
        between = conversation.heard[begun:]
        shares = [one.share for one in between if isinstance(one, ParametersProgress)]
        assert shares[-1] == 1.0
        held = [one for one in between if isinstance(one, LoopState)]
        assert [(one.state, one.detail) for one in held] == [("paused", "")]
        conversation.source.send(Resume())
        assert session.parameters is not None
        assert not any(one.pending for one in session.parameters.tensors)
        assert session.tree is not None
        assert session.parameters.started.is_random
        names = {one.name for one in session.parameters.tensors}
        assert names >= {
            f"{node.path}.{weight.name}" for node in session.tree.nodes for weight in node.weights
        }
        await goes_on(conversation)
        await is_made_coarser(conversation)
        # Sensitivity is measured first, and reading goes on where it was; a stop ends it.
        begun = len(conversation.heard)
        conversation.source.send(AnalyseParameters())
        conversation.source.send(MeasureSensitivity(Scheme("int8")))
        await conversation.until(lambda _: isinstance(conversation.heard[-1], SensitivityDone))
        conversation.source.send(StopAnalysing())
        await conversation.until(lambda _: isinstance(conversation.heard[-1], ParametersDone))
        done = conversation.heard[-1]
        assert isinstance(done, ParametersDone)
        assert done.was_stopped
        assert not any(isinstance(one, ParametersDone) for one in conversation.heard[begun:-1])
        await goes_on(conversation)
        assert any(isinstance(one, Heartbeat) for one in conversation.heard)
    finally:
        await conversation.close()


async def is_made_coarser(conversation: Conversation) -> None:
    conversation.source.send(MeasureSensitivity(Scheme("int8")))
    found = (await conversation.until(is_measured)).sensitivity
    assert found is not None
    assert found.done is not None
    assert (found.done.why, found.done.measured) == ("", 22)
    assert (len(found.weights), found.started.is_random) == (22, True)
    assert all(one.done for one in found.weights.values())
    states = [one for one in conversation.heard if isinstance(one, LoopState)]
    assert states[-1].detail == WHY[MeasureSensitivity]
    await goes_on(conversation)

    # Stopped on the way: what was measured stays.
    conversation.source.send(MeasureSensitivity(Scheme("int4")))
    await conversation.until(lambda _: isinstance(conversation.heard[-1], Sensitivity))
    conversation.source.send(StopAnalysing())
    found = (await conversation.until(is_measured)).sensitivity
    assert found is not None
    assert found.scheme == Scheme("int4")
    await goes_on(conversation)
