"""Which mode a program is in, case by case: each row of the table in ``queries/time/modes.py``."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

from tests.machine_session import measured
from tests.small_model import FACTS, MEASURED, folded, tick
from tui_profiler.messages import (
    Hello,
    Message,
    ModeSeen,
    Program,
    Setting,
    StageDone,
    Unknown,
)
from tui_profiler.messages.program import ENOUGH_FORWARDS, Autograd
from tui_profiler.queries.cost.energy import WITH_BACKWARD, ForwardEnergy, forward_energy
from tui_profiler.queries.time.modes import is_program, mode, mode_words
from tui_profiler.session import EMPTY, apply
from tui_profiler.session.state import Session

PROGRAM = Hello(1, 1, (), program=Program("net", 1, "python x.py", 0.0, 0.0))
BLIND = Unknown("this torch has no such hook")


def setting(
    autograd: Autograd = "grad",
    kind: Literal["train", "eval"] = "eval",
    *,
    as_traced: bool = True,
    forwards: int = 8,
) -> Setting:
    return Setting(kind == "train", autograd, 2, as_traced, forwards)


def seen(
    *settings: Setting,
    passes: int | Unknown = 0,
    reached: int = 0,
    forwards: int = 100,
) -> ModeSeen:
    return ModeSeen(1.0, settings, forwards, passes, reached)


def session(*messages: Message) -> Session:
    return folded((PROGRAM, FACTS, *messages))


TRAIN, EVAL = setting(kind="train"), setting()
QUIET, QUIET_TRAIN = setting("no_grad"), setting("no_grad", "train")
INFERENCE, INFERENCE_TRAIN = setting("inference_mode"), setting("inference_mode", "train")
REACHED = "backward passes reach its parameters"
NOT_THIS = "backward passes run, none of them is known to reach this model"


@pytest.mark.parametrize(
    ("observed", "name", "why"),
    [
        # autograd off, eval mode
        (seen(QUIET), "inference", "eval mode under no_grad"),
        (seen(INFERENCE), "inference", "eval mode under inference_mode"),
        (seen(INFERENCE, QUIET), "inference", "eval mode under inference_mode and no_grad"),
        (seen(QUIET, forwards=1), "inference", "eval mode under no_grad"),
        # Between epochs: what was trained is evaluated now.
        (seen(QUIET, passes=9, reached=9), "inference", "eval mode under no_grad"),
        (seen(QUIET, passes=BLIND), "inference", "eval mode under no_grad"),
        # autograd off, training mode
        (seen(QUIET_TRAIN, passes=9, reached=9), "training", REACHED),
        (
            seen(QUIET_TRAIN),
            None,
            "training mode under no_grad, no backward pass was observed",
        ),
        (
            seen(INFERENCE_TRAIN, passes=9),
            None,
            "training mode under inference_mode, no backward pass was observed",
        ),
        (
            seen(QUIET, replace(QUIET_TRAIN, forwards=2)),
            None,
            "training mode under no_grad, no backward pass was observed",
        ),
        # autograd on, backward passes
        (seen(TRAIN, passes=9, reached=9), "training", REACHED),
        (seen(EVAL, passes=9, reached=1), "training", REACHED),
        (seen(TRAIN, passes=9), None, NOT_THIS),
        (seen(EVAL, passes=9), None, NOT_THIS),
        (seen(EVAL, passes=BLIND), None, f"backward passes cannot be observed: {BLIND.reason}"),
        # autograd on, none
        (seen(EVAL), "inference", "eval mode with autograd, no backward pass"),
        (
            seen(EVAL, forwards=ENOUGH_FORWARDS),
            "inference",
            "eval mode with autograd, no backward pass",
        ),
        (
            seen(EVAL, forwards=ENOUGH_FORWARDS - 1),
            None,
            "too few forwards to rule out a backward pass",
        ),
        (seen(TRAIN), None, "training mode with autograd, no backward pass was observed"),
        (
            seen(EVAL, replace(TRAIN, forwards=2)),
            None,
            "training mode with autograd, no backward pass was observed",
        ),
        # some with, some without
        (seen(EVAL, QUIET), None, "some forwards run with autograd, some without"),
        (seen(QUIET, EVAL, passes=9), None, NOT_THIS),
        (seen(QUIET, EVAL, passes=9, reached=9), "training", REACHED),
        # none that times speak of
        (
            seen(replace(TRAIN, as_traced=False), passes=9),
            None,
            "no forward like the recorded one was observed",
        ),
        (
            seen(replace(TRAIN, as_traced=False), QUIET),
            "inference",
            "eval mode under no_grad",
        ),
    ],
)
def test_each_row_of_the_table(observed: ModeSeen, name: str | None, why: str) -> None:
    found = mode(session(observed))
    assert (found.name, found.why) == (name, why)


def test_the_mode_is_that_of_the_forwards_that_times_speak_of() -> None:
    """A tick of forwards with other inputs than the recorded ones: the settings are theirs."""
    observed = seen(QUIET, replace(TRAIN, as_traced=False), passes=9, reached=9)
    assert mode(session(observed)).name == "inference"
    of_others = replace(tick({0: (0.001, 0.001)}), as_traced=False)
    assert mode(apply(session(observed), of_others)).name == "training"


def test_before_anything_was_observed_only_a_worker_s_eval_mode_is_inference() -> None:
    assert mode(EMPTY).why == "no model was loaded"
    worker = folded((FACTS,))
    assert (mode(worker).name, mode(worker).why) == (
        "inference",
        "eval mode; it is run under no_grad",
    )
    training = mode(folded((replace(FACTS, training=True),)))
    assert training.name is None
    assert training.why == "the model is in training mode, and no forward was observed"
    assert (mode(session()).name, mode(session()).why) == (None, "no forward was observed")


def test_a_recording_from_before_programs_were_told_is_of_a_program_that_was_attached_to() -> None:
    attached = StageDone("load", 1.0, 1.0, "attached to pid 7")
    assert is_program(folded((FACTS, attached)))
    assert not is_program(folded((FACTS, replace(attached, detail="random weights"))))
    assert mode(folded((FACTS, attached))).name is None


def test_of_a_worker_nothing_is_said() -> None:
    assert mode_words(apply(folded(MEASURED), seen(EVAL))) == ()
    assert mode_words(session(seen(EVAL))) == (
        "inference: eval mode with autograd, no backward pass",
    )


def test_the_time_of_a_backward_pass_is_said_where_one_may_run() -> None:
    timed = replace(seen(TRAIN, passes=9, reached=9), pass_seconds=0.002)
    assert mode_words(session(timed))[1:] == ("2.00 ms per backward pass (p50), between forwards",)
    assert mode_words(session(replace(timed, passes=BLIND)))[1:]
    assert not mode_words(session(replace(timed, passes=0, reached=0)))[1:]


@pytest.mark.parametrize("passes", [9, BLIND])
def test_energy_is_not_that_of_forwards_where_any_model_s_backward_pass_may_run(
    passes: int | Unknown,
) -> None:
    assert isinstance(forward_energy(apply(measured(), seen(EVAL))), ForwardEnergy)
    assert forward_energy(apply(measured(), seen(EVAL, passes=passes))) == WITH_BACKWARD
