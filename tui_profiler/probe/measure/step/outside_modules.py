"""What of a step lies in no module of the model: other models, and what the program computes.

1. Other models are told apart by their calls, timed as a whole (``clock/call_recorder.py``). Their
   backward is found as that of modules is, by the numbers of what their calls made.
2. What is left of a backward pass was made by no call of a model: the loss, a penalty, a sum. It is
   told by the line of the program that began the pass.
3. Where it is not known what of a pass lies in models (compiled autograd), no line and no backward
   is told.
4. Means are over the set of steps (``StepSet``): of each line and model apart.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.training import BackwardLine, OtherModel
from tui_profiler.probe.measure.clock.call_recorder import ModelKey, OtherCall
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.step.backward_calls import FIRST_OTHER, PassShares, by_node
from tui_profiler.probe.measure.step.source_lines import Line, text_of
from tui_profiler.probe.measure.step.step_set import FigureName, StepSet

MOST_LINES = 8
MOST_MODELS = 8
"""That are told of, those with the most seconds."""
LEAST_CALLS = 0.5
"""Calls per step of a model that is trained in the same steps as the watched one."""
MOST_KEPT = 256
"""Models that are told apart: a program may make a new one in each step."""

_ON_DEVICE = Unknown("other models' forwards are not timed on a GPU")
UNDIVIDED = "undivided"
"""Figures of steps of which it is not known what of their passes lies in models: one per reason."""
UNSEEN_AGAIN = "unseen again"
"""Figures of steps whose recomputation was not fully observed: one per reason."""
_SHARES = ("modules", "others", "outside")


class OtherModels:
    """Models other than the watched one, in the order of their first calls in recorded steps."""

    def __init__(self) -> None:
        self._places: dict[ModelKey, int] = {}

    def place(self, model: ModelKey) -> int | None:
        """Return the place of a model, counted from 0; None where there are too many."""
        if model not in self._places and len(self._places) >= MOST_KEPT:
            return None
        return self._places.setdefault(model, len(self._places))

    def trained(self, steps: StepSet) -> set[int]:
        """Return the ``id`` of those that are called in half of the steps, and have a backward."""
        return {
            model.id
            for model, place in self._places.items()
            if steps.mean(("calls", place)) >= LEAST_CALLS and steps.mean(("backward", place)) > 0.0
        }

    def names(self) -> list[str]:
        """Return what each is called, by place."""
        kinds: dict[str, int] = {}
        found = []
        for model in self._places:
            kinds[model.kind] = kinds.get(model.kind, 0) + 1
            index = kinds[model.kind]
            found.append(model.kind if index == 1 else f"{model.kind}#{index}")
        return found

    def figures(
        self, calls: Sequence[OtherCall], forwards: Sequence[Forward]
    ) -> dict[FigureName, float]:
        """Return calls and forward seconds of each in a step, as figures of the set.

        Args:
            calls: of other models.
            forwards: of the watched one; those inside of a call are not the other model's.
        """
        found: dict[FigureName, float] = {}
        for thread in {one.thread for one in calls}:
            placed = [(self.place(one.model), one) for one in calls if one.thread == thread]
            here = [(place, one) for place, one in placed if place is not None]
            inside = [one for one in forwards if one.thread == thread]
            nodes = [*(FIRST_OTHER - place for place, _ in here), *(0 for _ in inside)]
            began = [*(one.began for _, one in here), *(one.began for one in inside)]
            ended = [*(one.ended for _, one in here), *(one.ended for one in inside)]
            seconds = by_node(nodes, np.array(began), np.array(ended))
            for place, _ in here:
                found["calls", place] = found.get(("calls", place), 0.0) + 1.0
            for node, (_, own) in seconds.items():
                if node <= FIRST_OTHER:
                    name = "forward", FIRST_OTHER - node
                    found[name] = found.get(name, 0.0) + own
        return found

    def messages(self, steps: StepSet, *, on_device: bool) -> tuple[OtherModel, ...]:
        """Return those that were called in the set, most seconds first."""
        names, why = self.names(), why_undivided(steps)
        found = [
            (
                steps.mean(("forward", place)) + steps.mean(("backward", place)),
                OtherModel(
                    names[place],
                    steps.mean(("calls", place)),
                    _forward(steps, place, on_device=on_device),
                    Unknown(why) if why else steps.mean(("backward", place)),
                ),
            )
            for place in steps.subjects("calls")
            if isinstance(place, int)
        ]
        return tuple(one for _, one in sorted(found, key=lambda one: -one[0])[:MOST_MODELS])


def _forward(steps: StepSet, place: int, *, on_device: bool) -> Figure:
    return _ON_DEVICE if on_device else steps.mean(("forward", place))


def why_undivided(steps: StepSet) -> str:
    """Return why it is not known what of passes in the set lies in models; empty where it is."""
    return next((str(why) for why in steps.subjects(UNDIVIDED)), "")


def recompute(steps: StepSet) -> Figure:
    """Return the seconds per step in which modules were recomputed, or why they are unknown."""
    for why in steps.subjects(UNSEEN_AGAIN):
        return Unknown(str(why))
    return steps.mean("recompute")


def pass_figures(passes: Sequence[PassShares]) -> Iterator[tuple[FigureName, float]]:
    """Yield what the passes of a step took, by the line that began each, as figures of the set."""
    for one in passes:
        if one.line is not None:
            yield ("passes", one.line), 1.0
            for name in _SHARES:
                yield (name, one.line), getattr(one, name)


def backward_lines(steps: StepSet) -> tuple[BackwardLine, ...]:
    """Return the lines that begin backward passes in the set, most seconds first."""
    if why_undivided(steps):
        return ()
    found = [
        BackwardLine(
            line.function,
            line.file,
            line.number,
            text_of(line.file, line.number),
            steps.mean(("passes", line)),
            *(steps.mean((name, line)) for name in _SHARES),
        )
        for line in steps.subjects("passes")
        if isinstance(line, Line)
    ]
    found.sort(key=lambda one: -(one.modules + one.others + one.outside))
    return tuple(found[:MOST_LINES])
