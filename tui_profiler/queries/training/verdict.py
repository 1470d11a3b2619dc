"""The verdict on a training step: the group of parts that limits it.

1. It names the group with the largest share, and its figure. It is withheld where a figure that it
   reads is unknown (``queries/cost/rules.py``), or where the first two groups are closer than
   ``LEAST_LEAD``.
2. A part that was not seen lies in ``other``, which is read: no group is larger than it seems.
3. Waiting for a core makes every part longer: from ``LEAST_WAITING`` on it is the verdict.
4. On a GPU the parts are those of the thread that trains: a line that reads a value waits there
   for all that is queued. So the model's share is that of its forward and backward on the GPU, and
   from ``MOST_OF_STEP`` on the verdict, wherever the thread waits for it.
"""

from typing import Literal, NamedTuple, TypeAlias

from tui_profiler.figures.units import share as share_text
from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.cost.rules import (
    Rule,
    Waited,
    granted,
    waited,
    why_contended,
    why_withheld,
)
from tui_profiler.queries.training import step_quantities as quantities
from tui_profiler.queries.training.step import Part, PartName, step_parts
from tui_profiler.session import Session

Verdict: TypeAlias = Literal[
    "waiting", "input-bound", "communication-bound", "optimizer-bound", "host-bound", "model-bound"
]
GROUPS: dict[Verdict, tuple[PartName, ...]] = {
    "input-bound": ("data", "transfer"),
    "communication-bound": ("communication",),
    "optimizer-bound": ("clip", "optimizer"),
    "host-bound": ("other",),
    "model-bound": ("forward", "backward"),
}
LEAST_LEAD = 0.05
"""Of the step, that the largest group has more than the next one."""
MOST_OF_STEP = 0.5
"""Of the step."""
LEAST_WAITING = 0.25
"""Of the step, from which on waiting for a core is the verdict, as it is a node's class
(``queries/cost/bound.py``)."""
RULE = Rule(
    "verdict",
    reads=(*quantities.STEP, quantities.FORWARD, quantities.BACKWARD, quantities.OTHER),
    uses=(
        *(quantities.DATA, quantities.TRANSFER, quantities.CLIP, quantities.OPTIMIZER),
        *(quantities.COMMUNICATION,),
    ),
)


class StepVerdict(NamedTuple):
    """What limits a step, with the figure that says so."""

    verdict: Verdict
    share: float
    """Of the step, 0 to 1."""
    words: str


def step_verdict(session: Session) -> StepVerdict | str:
    """Return what limits a step, or why that cannot be said."""
    if missing := why_withheld(session, RULE):
        is_of_set = missing.quantity is quantities.RECORDED
        return missing.why if is_of_set else f"no verdict: {missing.reason}"
    waiting = waited(session, "step")
    if isinstance(waiting, Waited) and waiting.share >= LEAST_WAITING:
        if waiting.why_bound:
            return f"no verdict: {why_contended(session, 'step')}"
        words = f"waiting for a core {share_text(waiting.share)} of the step"
        return StepVerdict("waiting", waiting.share, words)
    return _of_groups(granted(session, RULE, quantities.EVERY))


def _of_groups(session: Session) -> StepVerdict | str:
    """Return the verdict by the largest group, or why no group is the largest."""
    assert session.training is not None
    step = session.training.step
    parts = step_parts(session)
    shares = {part.name: part.share for part in parts if part.share is not None}
    # What no part has may be of any that is unknown: nothing, where the rest was read.
    nowhere = max(1.0 - sum(shares.values()), 0.0) if len(shares) < len(parts) else 0.0
    if step.on_device:
        on_gpu = gpu_share(session)
        if isinstance(on_gpu, Unknown):
            return f"no verdict: {on_gpu.reason}"
        if on_gpu >= MOST_OF_STEP:
            words = f"forward and backward take {share_text(on_gpu)} of the step on the GPU"
            return StepVerdict("model-bound", on_gpu, f"model-bound: {words}")
        shares |= {"forward": on_gpu, "backward": 0.0}
    groups = sorted(
        (
            (sum(shares.get(name, 0.0) for name in names), verdict)
            for verdict, names in GROUPS.items()
        ),
        reverse=True,
    )
    (share, verdict), (next_share, next_verdict) = groups[:2]
    if share - next_share - nowhere < LEAST_LEAD:
        both = f"{_group_words(verdict, share)} and {_group_words(next_verdict, next_share)}"
        return f"no verdict: {_unknown_words(parts, nowhere) if nowhere >= LEAST_LEAD else both}"
    if step.on_device and verdict == "host-bound":
        # Where a line reads a value, the thread waits for all that is queued, the update too.
        said = _group_words(verdict, share)
        return f"no verdict: {said} of the step, in which the thread may wait for the GPU"
    return StepVerdict(verdict, share, f"{verdict}: {_group_words(verdict, share)} of the step")


def _unknown_words(parts: tuple[Part, ...], share: float) -> str:
    names = (
        quantity.name
        for quantity, part in zip(quantities.PARTS, parts, strict=True)
        if part.share is None
    )
    return f"{share_text(share)} of the step is in no known part: {', '.join(names)} unknown"


def gpu_share(session: Session) -> Figure:
    """Return the share of a step in which the GPU runs forward and backward of the model."""
    training = session.training
    seconds = None if training is None else known(training.step.seconds)
    root = None if training is None else training.of(0)
    if training is None or not seconds or root is None:
        return Unknown("the GPU's time in forward and backward is not known")
    if training.step.why_no_backward:
        return Unknown(f"no backward on the GPU: {training.step.why_no_backward}")
    return min((root.forward + root.backward + root.recomputed) / seconds, 1.0)


_GROUP_WORDS: dict[Verdict, str] = {
    "input-bound": "data and transfer",
    "communication-bound": "communication",
    "optimizer-bound": "clipping and optimizer",
    "host-bound": "code outside of the model",
    "model-bound": "forward and backward",
}


def _group_words(verdict: Verdict, share: float) -> str:
    return f"{_GROUP_WORDS[verdict]} {share_text(share)}"
