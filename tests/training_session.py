"""Invented steps of training, with figures that a test knows."""

from __future__ import annotations

from array import array

from msgspec.structs import replace

from tui_profiler.messages import (
    BackwardLine,
    Figure,
    OtherModel,
    SourceLine,
    StepParts,
    ThreadTime,
    TrainingStep,
    Unknown,
)
from tui_profiler.messages.training import Between
from tui_profiler.session import EMPTY, Session, apply

NOT_SEEN = Unknown("not seen")


def column(*values: float) -> bytes:
    return array("f", values).tobytes()


def training_step(parts: StepParts, seconds: float = 1.0, recorded: int = 20) -> TrainingStep:
    """Return a step in which nodes 0 and 3 ran, and whose thread did not wait for a core."""
    return TrainingStep(
        at=1.0,
        steps=100,
        ended_by="optimizer",
        seconds=seconds,
        p50=seconds,
        p95=seconds,
        per_second=1 / seconds,
        recorded=recorded,
        outliers=0,
        parts=parts,
        forwards=1.0,
        passes=1.0,
        updates=1.0,
        items=4.0,
        tokens=NOT_SEEN,
        optimizers=("AdamW",),
        recompute=0.0,
        lines=(),
        samples=0,
        why_no_lines="",
        why_no_backward="",
        dropped=0,
        nodes=array("I", (0, 3)).tobytes(),
        forward=column(0.25, 0.125),
        own_forward=column(0.125, 0.0625),
        backward=column(0.5, 0.25),
        own_backward=column(0.25, 0.25),
        recomputed=column(0.0, 0.125),
        own_recomputed=column(0.0, 0.125),
        last=100,
        thread=ThreadTime(seconds, seconds, 0.0, 0.0, 0.0, 0.0, 0.0),
    )


def with_longer(told: TrainingStep) -> TrainingStep:
    """Return the step with 10 of 100 that took 11 times as long, whose rate has them in it."""
    assert isinstance(told.per_second, float)
    return replace(told, longer=10, longer_share=0.55, per_second=told.per_second / 2.0)


def with_evaluation(told: TrainingStep) -> TrainingStep:
    """Return the step with an evaluation every 200 steps, 3 % of the time, and one rollout."""
    line = SourceLine("evaluate", "/home/me/train.py", 12, 0.75)
    between = (
        Between("evaluation", 5, 200.0, 1.5, 0.03, 16.0, 0.5, 0.25, (line,), 8),
        Between("inference", 1, 0.0, 0.5, 0.002, NOT_SEEN, NOT_SEEN, 0.0),
    )
    return replace(told, between=between, calls_per_second=70.0)


def a_gan(told: TrainingStep) -> TrainingStep:
    """Return the step with a pass whose loss is in no module, and one through another model too."""
    lines = (
        BackwardLine("train", "/home/me/gan.py", 83, "d.backward()", 2.0, 0.25, 0.0, 0.125),
        BackwardLine("train", "/home/me/gan.py", 91, "g.backward()", 1.0, 0.0625, 0.0625, 0.0),
    )
    models = (OtherModel("Generator", 1.0, 0.125, 0.0625),)
    return replace(told, backward_lines=lines, other_models=models)


def step_parts(**seconds: Figure) -> StepParts:
    """Return parts; of the others forward, backward and the rest took no time, as in any step."""
    known: dict[str, Figure] = {"forward": 0.0, "backward": 0.0, "other": 0.0}
    known |= seconds
    return StepParts(*(known.get(name, NOT_SEEN) for name in StepParts.__struct_fields__))


def trained(told: TrainingStep, before: Session = EMPTY) -> Session:
    """Return a session that was told of a step."""
    return apply(before, told)
