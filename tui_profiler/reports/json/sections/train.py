"""A training step on paper, as JSON: what it costs beside the forward, its memory, MFU and HFU."""

from typing import Annotated, Literal

from msgspec import field

from tui_profiler.messages import PassCost, TensorUse, Unknown
from tui_profiler.queries.training import step_costs
from tui_profiler.reports.json_values import EACH, Count, Known, Part, Size, fill, or_why
from tui_profiler.session import Session

_OF_A_PASS = ("backward", "recomputed", "loss_forward", "loss_backward", "elsewhere")


class TrainingWork(Part, frozen=True):
    """Cost of operators in one pass, or in one step of the optimizer."""

    macs: Count
    flops: Count
    """2 x macs plus the arithmetic of everything else; a lower bound where uncosted is above 0."""
    bytes: Count
    """Read and written."""
    ops: Count
    uncosted: Count


class AliveInStep(Part, frozen=True):
    """A tensor alive at the peak of a step."""

    path: str | None
    """Of the operator or module that made it; null outside of the model."""
    use: TensorUse
    """gradient: of a parameter. saved: for the backward. recomputed: by checkpointing."""
    bytes: Count


class CheckpointingGain(Part, frozen=True):
    """What checkpointing modules is predicted to save, and to cost."""

    paths: list[str]
    saved_bytes: Count
    """Activations that are no longer saved."""
    peak: Count
    """Peak of a step with these modules checkpointed."""
    flops: Count = field(name="recomputed_flops")
    """In each pass, at most."""


class TrainingPeak(Part, frozen=True):
    """Bytes of a training step, predicted from the lifetimes of tensors: of a later step."""

    parameters: Count
    buffers: Count
    """Buffers, and other tensors that the model keeps."""
    inputs: Count
    gradients: Count
    """When the backward has ended."""
    optimizer_state: Count
    saved: Count = field(name="saved_activations")
    """Alive when the backward begins, without the output of the model."""
    temporaries: Count
    """At the peak: what is neither saved nor a gradient of a parameter."""
    recomputed: Count
    """At the peak: activations that checkpointing has computed again."""
    workspace: Known[Size]
    """What scratch memory inside operators adds to the peak; null where it is not modelled."""
    peak: Known[Size]
    """The peak: parameters, buffers, inputs, state and all that is alive then; null where
    workspace is not known."""
    at_least: Count
    """The same without workspace."""
    phase: Literal["forward", "backward", "optimizer"]
    """Phase in which the peak is."""
    at: str | None
    """Path of what runs then; null for the loss and the optimizer."""
    forward_peak: Count
    """The peak in each of the three, without workspace."""
    backward_peak: Count
    optimizer_peak: Count
    alive: Annotated[list[AliveInStep], EACH]
    """The largest tensors alive at the peak, at most 20, largest first."""
    checkpointing: Annotated[list[CheckpointingGain], EACH]
    """Blocks whose checkpointing lowers the peak, largest saving first."""


class Train(Part, frozen=True, kw_only=True):
    """A training step on paper."""

    optimizer: Known[str]
    """Class and settings."""
    loss: Known[str]
    """How it is computed."""
    checkpoint: str | None
    """Modules whose activations are recomputed in the backward, as requested."""
    autocast: str | None
    accumulate: Known[Count]
    """Passes in one step."""
    updates: Known[bool]
    """Whether steps update the weights; else the learning rate is 0."""
    backward_macs: Known[Count]
    """Of the model in one pass, without what is computed again."""
    backward_flops: Known[Count]
    backward_bytes: Known[Count]
    backward: Known[TrainingWork]
    recomputed: Known[TrainingWork]
    """Computed again in the backward: by checkpointing, and the scores of fused attention."""
    loss_forward: Known[TrainingWork]
    """Of the loss, where it is computed outside of the model."""
    loss_backward: Known[TrainingWork]
    elsewhere: Known[TrainingWork]
    """Of operators in the backward that belong to no recorded call."""
    optimizer_step: Known[TrainingWork]
    uncosted: list[str]
    """Operators of backward and optimizer without a formula."""
    memory: Known[TrainingPeak]
    model_flops: Known[Count]
    """Of one step: two per multiply-accumulate of forward and backward."""
    hardware_flops: Known[Count]
    """The same, and those that are computed again."""
    step_s: Known[Size]
    """Mean seconds of the measured steps."""
    mfu: Known[Size]
    """model_flops over step_s and roof_flops_per_s."""
    hfu: Known[Size]
    roof_flops_per_s: Known[Size]
    """As named, or as measured for roof_dtype."""
    roof_dtype: str | None


def train_section(session: Session) -> Train | Unknown:
    """Return the training step of a session, or why there is none."""
    if session.training_cost is None:
        return Unknown(step_costs.why_no_backward(session))
    cost = session.training_cost.cost
    why = Unknown(cost.why) if cost.why else None
    spec = cost.spec
    no_spec = Unknown("the program runs its own training steps")
    flops, attained = step_costs.step_flops(session), step_costs.utilisation(session)
    return fill(
        Train,
        cost,
        optimizer=cost.optimizer or Unknown("no step of an optimizer was recorded"),
        loss=cost.loss or Unknown("the program computes it"),
        checkpoint=(spec.checkpoint or None) if spec is not None else None,
        autocast=(spec.autocast or None) if spec is not None else None,
        accumulate=no_spec if spec is None else spec.accumulate,
        updates=no_spec if spec is None else spec.update,
        backward_macs=why or cost.backward.macs,
        backward_flops=why or cost.backward.flops,
        backward_bytes=why or step_costs.bytes_of(cost.backward),
        **{name: why or _work(getattr(cost, name)) for name in _OF_A_PASS},
        optimizer_step=or_why(
            None if cost.optimizer_step is None else _work(cost.optimizer_step),
            "no step of an optimizer was recorded",
        ),
        memory=_memory(session),
        model_flops=flops if isinstance(flops, Unknown) else flops.model,
        hardware_flops=flops if isinstance(flops, Unknown) else flops.hardware,
        step_s=step_costs.step_seconds(session),
        mfu=attained.mfu,
        hfu=attained.hfu,
        roof_flops_per_s=attained.roof,
        roof_dtype=attained.dtype or None,
    )


def _work(cost: PassCost) -> TrainingWork:
    return fill(TrainingWork, cost, bytes=step_costs.bytes_of(cost))


def _memory(session: Session) -> TrainingPeak | Unknown:
    if session.training_memory is None:
        return Unknown("recorded only for a model that the profiler runs")
    memory = session.training_memory.memory
    forward, backward, optimizer = memory.phase_peaks
    return fill(
        TrainingPeak,
        memory,
        temporaries=memory.uses[3],
        recomputed=memory.uses[2],
        peak=step_costs.peak_bytes(session),
        at_least=memory.peak,
        at=_path(session, memory.at),
        forward_peak=forward,
        backward_peak=backward,
        optimizer_peak=optimizer,
        alive=[fill(AliveInStep, one, path=_path(session, one.node)) for one in memory.alive],
        checkpointing=[
            fill(CheckpointingGain, one, paths=[_path(session, node) or "" for node in one.nodes])
            for one in step_costs.best_checkpointing(session)
        ],
    )


def _path(session: Session, node: int) -> str | None:
    tree = session.tree
    return tree.nodes[node].path if tree is not None and 0 <= node < len(tree) else None
