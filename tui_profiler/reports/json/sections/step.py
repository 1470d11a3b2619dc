"""A measured training step, as JSON: its time by part and by module; health of values.

Values are of the last step that was read: activations, gradients, updates, and the first NaN.
"""

from typing import Annotated

from msgspec import UNSET, UnsetType, field

from tui_profiler.messages import BackwardLine, SourceLine, Unknown, known
from tui_profiler.messages.training import Between, BetweenKind, StepEnd, ValueKind
from tui_profiler.queries.time.step_seconds import NodeShare, timed_backward
from tui_profiler.queries.training import slow_steps, values
from tui_profiler.queries.training import step as steps
from tui_profiler.queries.training.source_lines import line_name, lines_error
from tui_profiler.queries.training.verdict import Verdict, step_verdict
from tui_profiler.reports.json_values import (
    EACH,
    Count,
    Known,
    Number,
    OfSome,
    Part,
    Share,
    Size,
    fill,
    or_why,
)
from tui_profiler.session import Session
from tui_profiler.session.training import NodeValues, ValueStatistics

_NO_SAMPLES = "no sample of the stack fell into other"
_NO_BACKWARD = "no backward pass was attributed to a line"
_UNREAD = Unknown("it was not read in that step")
_NOT_FINITE = Unknown("no finite element, or not counted on the device")


class StepPart(Part, frozen=True):
    """One part of a step on the thread that trains."""

    mean_s: Size
    """Per step."""
    share: Size
    """Of step.mean_s."""


class StepParts(Part, frozen=True):
    """Parts of a step; those that are known add up to it.

    A part that was not seen is null, and its time is in other.
    """

    data: Known[StepPart]
    """In `next()` of a DataLoader's iterator."""
    transfer: Known[StepPart]
    """Copies from the host to a GPU."""
    forward: Known[StepPart]
    """In calls of the model, with and without gradients."""
    backward: Known[StepPart]
    """In autograd's engine, with what checkpointing computes again."""
    clip: Known[StepPart]
    """Clipping gradients by their norm."""
    optimizer: Known[StepPart]
    """In `step()` of optimizers."""
    communication: Known[StepPart]
    """Waiting for collectives."""
    other: Known[StepPart]
    """The rest: the loss, `zero_grad`, logging, Python."""


class StepLine(Part, frozen=True):
    """A line of the program in which other, or the time between steps, was spent."""

    where: str
    """Function, file and line: `log_metrics, train.py:54`. Several lines, `train.py:54-57`, where
    it is not known in which of them."""
    share: Share
    """Of the time that the lines divide, by samples of the stack."""


class StepBackwardLine(Part, frozen=True):
    """A line of the program that starts backward passes; seconds per step."""

    where: str
    """Function, file and line."""
    passes: Size
    """Per step."""
    modules_s: Size
    """In modules of the model, with what checkpointing computes again."""
    other_models_s: Size
    """In other models."""
    outside_s: Size
    """Outside all models: the loss, penalties and other operators."""


class StepBetween(Part, frozen=True):
    """What the program did between steps, since steps were counted; it is part of no step."""

    kind: BetweenKind
    """evaluation: batches of a loader that feeds no step, or the model in eval mode. inference:
    other forwards without gradients, such as rollouts and sampling."""
    count: Count
    every: Size = field(name="every_steps")
    """Mean number of steps from one to the next; 0: there was only one."""
    mean_s: Size
    """Of one."""
    share: Share
    """Of all time, steps included."""
    forwards: Known[Size]
    """Of the model, mean of one."""
    forward_mean_s: Known[Size]
    """In those forwards, mean of one."""
    data_mean_s: Size
    """In `next()` of a DataLoader's iterator, mean of one."""
    lines: list[StepLine]
    """Where its time outside of the model and of loaders was spent, by samples of the stack."""


class StepModel(Part, frozen=True):
    """Another model that the program calls in a step."""

    name: str
    """Class, with `#2` for the second one of a class."""
    calls: Size
    """Per step."""
    forward: Known[Size] = field(name="forward_mean_s")
    """Per step, without calls of the reported model inside."""
    backward: Known[Size] = field(name="backward_mean_s")
    """Likewise."""


class StepVerdict(Part, frozen=True):
    """What limits a step: the group of parts with the largest share."""

    verdict: Verdict
    """input-bound: data and transfer. communication-bound: communication. optimizer-bound: clip and
    optimizer. host-bound: other. model-bound: forward and backward. waiting: for a core, before all
    others from a quarter of the step on."""
    share: Size
    """Of step.mean_s."""


class LongerPart(Part, frozen=True):
    """A part of a slow step that took longer than its mean."""

    part: steps.PartName
    seconds: float
    """Above the mean."""


class SlowestStep(Part, frozen=True):
    """The slowest step that was slower than 99 of 100."""

    step: Count
    """Its number, from 1."""
    seconds: Size
    longer: list[LongerPart]
    """Each at least a tenth of the additional time, most first; empty if none is known."""
    other: list[StepLine]
    """Where its rest was spent, by samples of this step; empty where the stack was not sampled."""


class Step(Part, frozen=True, kw_only=True):
    """A training step: from the end of one `ended_by` to the end of the next.

    Means are over one set of recorded steps, the same for all parts and modules, without those that
    took far longer.
    """

    steps: Count = field(name="count")
    """Finished steps."""
    recorded: Count
    """Steps that the means are taken over."""
    outliers: Count
    """Recorded steps that took far longer, in no mean."""
    ended_by: StepEnd
    """optimizer: its step. backward: the pass, where no optimizer was seen."""
    seconds: Known[Size] = field(name="mean_s")
    p50: Known[Size] = field(name="p50_s")
    """Of the last steps, recorded or not, as p95_s."""
    p95: Known[Size] = field(name="p95_s")
    per_second: Known[Size] = field(name="per_s")
    """Steps per second of the last steps: those far longer and pauses of the program included, what
    lies between steps is not."""
    last: Count = field(name="last_count")
    """Steps, recorded or not, that p50_s, p95_s, per_s and last_mean_s are of."""
    last_mean: Known[Size] = field(name="last_mean_s")
    """Mean of the last steps without those far longer; differs from mean_s where the recorded steps
    are not like the others."""
    longer: Count = field(name="last_longer")
    """Of the last steps, those that took far longer: one that saved a checkpoint, for example."""
    longer_share: Share = field(name="last_longer_share")
    """Of the time of the last steps, that those took."""
    items_per_s: Known[Size]
    """Size of the batch axis of the model's inputs, all forwards together; a batch of a DataLoader
    that is run several times counts once."""
    tokens_per_s: Known[Size]
    """Token ids that the model is given."""
    items_error: Number
    """Half a 95 % interval of items_per_s, as a share of it: inputs change, and those of recorded
    steps are taken for all. 0: each recorded step had as many."""
    tokens_error: Number
    """Likewise of tokens_per_s."""
    forwards: Size
    """Per step."""
    passes: Size = field(name="backward_passes")
    """Per step."""
    updates: Size = field(name="optimizer_steps")
    """Per step."""
    optimizers: list[str]
    """Classes, most frequent first."""
    recompute: Known[Size] = field(name="recompute_mean_s")
    """Of parts.backward: in which checkpointing ran modules again."""
    parts: StepParts
    other: Known[Annotated[list[StepLine], EACH]]
    """Where parts.other was spent, by samples of the stack, most first."""
    samples: Count = field(name="other_samples")
    """Samples that other is from."""
    other_error: Known[Number]
    """Half a 95 % interval of a share in other, at most."""
    lines_rest: Share = field(name="other_further")
    """Of parts.other, in lines that other does not list."""
    lines_unsampled: Share = field(name="other_unsampled")
    """Of parts.other, between parts of the step where no sample fell."""
    backward_lines: Known[Annotated[list[StepBackwardLine], EACH]]
    """Where backward passes begin, most time first."""
    other_models: list[StepModel]
    """Other models than the reported one that are called in steps, most time first."""
    between: list[StepBetween]
    """Evaluations and inference between steps, most time first; in no other figure of a step. Their
    shares and that of steps make all of the time."""
    calls_per_second: Known[Size] = field(name="model_calls_per_s")
    """Forwards of the reported model per second of all time, those between steps included."""
    verdict: Known[StepVerdict]
    """What limits a step; null where two groups are within 0.05 of the step."""
    slowest: Known[SlowestStep]


def step_section(session: Session) -> Step | Unknown:
    """Return the training step that was measured, or why there is none."""
    if session.training is None:
        return Unknown(steps.why_no_step(session))
    step = session.training.step
    return fill(
        Step,
        step,
        items_per_s=steps.per_second(step, step.items),
        tokens_per_s=steps.per_second(step, step.tokens),
        last_mean=steps.usual_mean(step),
        parts=_parts(session),
        other=_lines(step.lines) or Unknown(step.why_no_lines or _NO_SAMPLES),
        other_error=lines_error(step) if step.samples else Unknown(_NO_SAMPLES),
        backward_lines=_backward_lines(step.backward_lines)
        or Unknown(step.why_no_backward or _NO_BACKWARD),
        between=[_between(one) for one in step.between],
        verdict=_verdict(session),
        slowest=_slowest(session),
    )


def node_step(session: Session, node: int) -> NodeShare | Unknown:
    """Return what a module takes of a step, or why that is not known."""
    tree = session.tree
    if session.training is None:
        return Unknown(steps.why_no_step(session))
    if tree is not None and tree.nodes[node].kind == "op":
        return OfSome("the backward is timed by module", "kind=op")
    why = session.training.step.why_no_backward
    not_timed = Unknown(why) if why else OfSome(steps.NOT_CALLED, "kind=module")
    return timed_backward(session, node) or not_timed


def _parts(session: Session) -> StepParts:
    assert session.training is not None
    step = session.training.step
    seconds = known(step.seconds)
    if not seconds:
        why = step.seconds if isinstance(step.seconds, Unknown) else Unknown(steps.NO_STEP)
        return StepParts(*(why for _ in steps.PARTS))
    return StepParts(
        *(
            or_why(
                None
                if part.seconds is None or part.share is None
                else StepPart(part.seconds, part.share),
                part.why,
            )
            for part in steps.parts_of(step.parts, seconds)
        )
    )


def _between(one: Between) -> StepBetween:
    return fill(
        StepBetween,
        one,
        mean_s=one.seconds,
        forward_mean_s=one.forward_seconds,
        data_mean_s=one.data_seconds,
        lines=_lines(one.lines),
    )


def _verdict(session: Session) -> StepVerdict | Unknown:
    found = step_verdict(session)
    return Unknown(found) if isinstance(found, str) else StepVerdict(found.verdict, found.share)


def _lines(lines: tuple[SourceLine, ...]) -> list[StepLine]:
    return [StepLine(line_name(one), one.share) for one in lines]


def _backward_lines(lines: tuple[BackwardLine, ...]) -> list[StepBackwardLine]:
    return [
        StepBackwardLine(line_name(one), one.passes, one.modules, one.others, one.outside)
        for one in lines
    ]


def _slowest(session: Session) -> SlowestStep | Unknown:
    if not session.slow_steps:
        return Unknown("no step was slower than 99 of 100; the first 100 steps are not compared")
    slow = session.slow_steps[0]
    longer = [LongerPart(name, by) for name, by in slow_steps.longer_parts(session, slow)]
    return SlowestStep(slow.step, slow.seconds, longer, _lines(slow.lines))


class Values(Part, frozen=True):
    """Statistics of some values."""

    largest: Known[Number] = field(name="max_abs")
    """Absolute maximum of finite elements."""
    rms: Known[Number]
    """Root mean square of finite elements."""
    zeros: Number
    """Share of elements, 0 to 1, as the next two."""
    nans: Number = field(name="nan")
    infs: Number = field(name="inf")


class LayerValues(Part, frozen=True):
    """The values of one module."""

    path: str
    activation: Known[Values]
    """What it returns."""
    gradient: Known[Values]
    """The gradient of that."""
    parameter_gradients: Known[Values]
    """Gradients of its own parameters, when the optimizer stepped."""
    weight_rms: Known[Number]
    """Of its own parameters, by at most 4,096 elements of each."""
    update_ratio: Known[Number]
    """Norm of what the optimizer added to them, over theirs."""


class FirstNan(Part, frozen=True):
    """The first NaN that was seen."""

    step: Count
    path: str
    """Of the module; empty for the model itself."""
    kind: ValueKind
    name: str = field(name="parameter")
    """Path of the parameter; empty for other kinds."""
    share: Number
    """Of the elements."""
    clean_step: Count
    """The last step before that was read and had none; 0: there was none."""
    is_in_weights: bool = field(name="in_weights")
    """Whether the module's own weights had one already: it is older than the step."""


class ValuesRead(Part, frozen=True):
    """Values of the last step that was read."""

    steps: Count
    """Read so far."""
    step: Count
    """The last of them, counted from the first that was seen."""
    gradient_norm: Known[Number]
    """Of all parameters, when the optimizer stepped."""
    first_nan: FirstNan | None
    """Null: none was seen in the steps that were read."""
    layers: list[LayerValues]


def values_section(session: Session) -> ValuesRead | UnsetType:
    """Return the values that were read; no key where nobody asked for them."""
    if session.values is None:
        return UNSET
    read = session.values.values
    return ValuesRead(
        steps=read.steps,
        step=read.step,
        gradient_norm=read.gradient_norm,
        first_nan=_first_nan(session),
        layers=[_layer(one.path, one.values) for one in values.value_rows(session)],
    )


def _first_nan(session: Session) -> FirstNan | None:
    found, tree = values.first_nan(session), session.tree
    if found is None or tree is None:
        return None
    return fill(FirstNan, found, path=tree.nodes[found.node].path)


def _layer(path: str, values: NodeValues) -> LayerValues:
    return LayerValues(
        path=path,
        activation=_values(values.activation),
        gradient=_values(values.gradient),
        parameter_gradients=_values(values.parameters),
        weight_rms=_UNREAD if values.weight_rms is None else values.weight_rms,
        update_ratio=_UNREAD if values.update_ratio is None else values.update_ratio,
    )


def _values(found: ValueStatistics | None) -> Values | Unknown:
    if found is None:
        return _UNREAD
    return Values(
        largest=_NOT_FINITE if found.largest is None else found.largest,
        rms=_NOT_FINITE if found.rms is None else found.rms,
        zeros=found.zeros or 0.0,
        nans=found.nans or 0.0,
        infs=found.infs or 0.0,
    )
