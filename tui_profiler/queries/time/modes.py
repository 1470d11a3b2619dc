"""Whether a program trains its model or infers with it, as observed: never assumed.

| observed of the forwards that times speak of | mode |
|---|---|
| a worker runs training steps (``--train``) | training |
| autograd off, root in eval mode | inference |
| autograd off, root in training mode, backward passes reach its parameters | training |
| autograd off, root in training mode, none does | not known |
| autograd on, backward passes reach its parameters | training |
| autograd on, backward passes of something else | not known |
| autograd on, root in eval mode, enough forwards and no backward pass | inference |
| autograd on, root in training mode, no backward pass | not known |
| some with autograd, some without | training where passes reach its parameters, else not known |
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import duration
from tui_profiler.messages import Setting, Unknown, known
from tui_profiler.messages.program import ENOUGH_FORWARDS
from tui_profiler.session import Session

ModeName: TypeAlias = Literal["inference", "training"]


class Mode(Struct, frozen=True):
    """What a program does with its model."""

    name: ModeName | None
    """None where it is not known."""
    why: str
    """What it was concluded from, or why it is not known."""


def mode(session: Session) -> Mode:
    """Return the mode of the forwards that times and costs speak of."""
    seen, model = session.mode, session.model
    if runs_own_steps(session):
        return Mode("training", "training steps run in the profiler's own loop")
    if seen is None:
        if is_program(session):
            return Mode(None, "no forward was observed")
        if model is None:
            return Mode(None, "no model was loaded")
        if model.training:
            return Mode(None, "the model is in training mode, and no forward was observed")
        return Mode("inference", "eval mode; it is run under no_grad")
    settings = shown_settings(session)
    recording = {one.autograd == "grad" for one in settings}
    training = any(one.training for one in settings)
    flag = "training mode" if training else "eval mode"
    if seen.reached and (training or True in recording):
        return Mode("training", "backward passes reach its parameters")
    if not settings:
        return Mode(None, "no forward like the recorded one was observed")
    if recording == {False}:
        names = sorted({one.autograd for one in settings})
        if training:
            return Mode(None, f"{flag} under {names[0]}, no backward pass was observed")
        return Mode("inference", f"eval mode under {' and '.join(names)}")
    if isinstance(seen.passes, Unknown):
        return Mode(None, f"backward passes cannot be observed: {seen.passes.reason}")
    if seen.passes:
        return Mode(None, "backward passes run, none of them is known to reach this model")
    if len(recording) > 1:
        return Mode(None, "some forwards run with autograd, some without")
    if training:
        return Mode(None, "training mode with autograd, no backward pass was observed")
    if seen.forwards < ENOUGH_FORWARDS:
        return Mode(None, "too few forwards to rule out a backward pass")
    return Mode("inference", "eval mode with autograd, no backward pass")


def runs_own_steps(session: Session) -> bool:
    """Return whether training steps are those of a worker (``--train``)."""
    return session.training_cost is not None and session.training_cost.cost.spec is not None


def is_program(session: Session) -> bool:
    """Return whether a program runs the model, not a worker; also of a recording."""
    if session.hello is not None and session.hello.program is not None:
        return True
    attached = (one.detail.startswith("attached to pid") for one in session.stages)
    return any(attached)


def is_training(session: Session) -> bool:
    """Return whether the program was seen to train the model."""
    return mode(session).name == "training"


def runs_backward(session: Session) -> bool:
    """Return whether a backward pass of any model was observed, or cannot be ruled out."""
    seen = session.mode
    return seen is not None and seen.passes != 0


def shown_settings(session: Session) -> tuple[Setting, ...]:
    """Return how the forwards ran that times speak of, most frequent first."""
    if session.mode is None:
        return ()
    as_traced = session.tick.as_traced if session.tick is not None else True
    return tuple(one for one in session.mode.settings if one.as_traced == as_traced)


def mode_words(session: Session) -> tuple[str, ...]:
    """Say in which mode a program runs its model, and what runs between its forwards; or nothing.

    Of a worker nothing is said: what it runs was asked for.
    """
    found, seen = mode(session), session.mode
    if not is_program(session) or seen is None:
        return ()
    words = f"{found.name or 'mode unknown'}: {found.why}"
    seconds = known(seen.pass_seconds)
    if not runs_backward(session) or seconds is None:
        return (words,)
    return words, f"{duration(seconds)} per backward pass (p50), between forwards"
